//! Finding an application's page again after a restart.
//!
//! The page is memory without a name, which the application has mapped and its launcher has open. A service manager
//! keeps descriptors for its service (`FileDescriptorStoreMax=`) and passes them to the next daemon. Without one, a
//! user's daemon may search the open descriptors of that user's launcher. The page must have the saved token.

use crate::registry::page::Page;
use crate::telemetry::service::{self, Passed};
use mapper_abi::Token;
use mapper_model::AppId;
use rustix::fs::{AtFlags, FileType, MemfdFlags, Mode, OFlags, StatxFlags};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The name of a page's memory in `/proc`.
const MEMORY: &str = "/memfd:mapper-page";

/// So many descriptors of a launcher are searched.
const LOOKED_AT: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct KeptPages(BTreeMap<AppId, OwnedFd>);

impl KeptPages {
    /// Those among what the service manager passed to this process.
    pub(crate) fn among(passed: Vec<Passed>) -> Self {
        let page = |Passed { name, descriptor }: Passed| {
            let app = name.strip_prefix("app-")?.parse().ok()?;
            Some((AppId(app), descriptor))
        };
        Self(passed.into_iter().filter_map(page).collect())
    }

    /// The page of an application with this token.
    pub(crate) fn take(&mut self, app: AppId, launcher: Option<u32>, token: Token) -> Option<Page> {
        if let Some(kept) = self.0.remove(&app) {
            match Page::adopt(kept, token) {
                Ok(page) => return Some(page),
                Err(error) => {
                    tracing::warn!(app = app.0, "page kept by the service manager: {error}");
                }
            }
        }
        open_in(launcher?, token)
    }

    /// Removes the pages that belong to no application any more.
    pub(crate) fn drop_rest(self) {
        for app in self.0.keys() {
            forget(*app);
        }
    }
}

/// Searches the descriptors that a process has open. Its user chose what they are: no file is asked, and none opened
/// but memory, and that without waiting for a lease (`F_SETLEASE`) to end.
fn open_in(process: u32, token: Token) -> Option<Page> {
    let memory = rustix::fs::memfd_create("mapper-device", MemfdFlags::CLOEXEC).ok()?;
    let memory = device(&memory)?;
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    entries.flatten().take(LOOKED_AT).find_map(|entry| {
        let path = entry.path();
        let target = std::fs::read_link(&path).ok()?;
        if !target.to_str()?.starts_with(MEMORY) {
            return None;
        }
        let file = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        if device(&file)? != memory {
            return None;
        }
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(again, flags, Mode::empty()).ok()?;
        Page::adopt(file, token).ok()
    })
}

/// The device of a regular file, as far as the kernel knows it. Every memory without a name has the same.
fn device(file: impl AsFd) -> Option<(u32, u32)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(file, c"", flags, StatxFlags::TYPE).ok()?;
    let regular = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
    regular.then_some((found.stx_dev_major, found.stx_dev_minor))
}

/// Gives a page to the service manager to keep.
pub(crate) fn keep(app: AppId, page: BorrowedFd<'_>) {
    service::keep(&format!("app-{app}"), page);
}

/// The service manager need not keep the page any more.
pub(crate) fn forget(app: AppId) {
    service::forget(&format!("app-{app}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_where_its_launcher_has_it_open_and_by_its_token_alone() {
        let pages = [Page::create().unwrap(), Page::create().unwrap()];
        let this = std::process::id();
        let take = |token| KeptPages::default().take(AppId(1), Some(this), token);
        let wanted = pages[1].writer.token();
        assert_eq!(take(wanted).unwrap().writer.token(), wanted);
        assert!(take(Token::random().unwrap()).is_none());
    }

    #[test]
    fn leases_on_a_users_memory_hold_nobody_up() {
        use nix::libc::{F_RDLCK, F_SETLEASE};
        use nix::sys::signal::{SigHandler, Signal, signal};
        // SAFETY: ignoring a signal installs no handler. The kernel sends it to who has a lease that another ends.
        unsafe { signal(Signal::SIGIO, SigHandler::SigIgn) }.unwrap();
        let leased = [(); 3].map(|()| {
            let memory = rustix::fs::memfd_create("mapper-page", MemfdFlags::CLOEXEC).unwrap();
            // SAFETY: a call with numbers alone.
            let set = unsafe { nix::libc::fcntl(memory.as_raw_fd(), F_SETLEASE, F_RDLCK) };
            assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
            memory
        });
        let page = Page::create().unwrap();
        let token = page.writer.token();
        let started = std::time::Instant::now();
        let found = open_in(std::process::id(), token).unwrap();
        assert_eq!(found.writer.token(), token);
        let took = started.elapsed();
        assert!(took.as_secs() < 5, "{took:?}");
        drop(leased);
    }
}
