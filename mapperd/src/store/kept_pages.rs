//! Finding an application's page again after a restart.
//!
//! The page is memory without a name, which the application has mapped and its launcher has open. A service manager
//! keeps descriptors for its service (`FileDescriptorStoreMax=`) and passes them to the next daemon. Without one, a
//! user's daemon may search the open descriptors of that user's launcher. The page must have the saved token.

use crate::registry::page::Page;
use mapper_abi::Token;
use mapper_model::AppId;
use sd_notify::NotifyState;
use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

/// The name of a page's memory in `/proc`.
const MEMORY: &str = "/memfd:mapper-page";

/// So many descriptors of a launcher are searched.
const LOOKED_AT: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct KeptPages(BTreeMap<AppId, OwnedFd>);

impl KeptPages {
    /// Takes what the service manager passed to this process. May be called once.
    pub(crate) fn from_environment() -> Self {
        let Ok(passed) = sd_notify::listen_fds_with_names() else {
            return Self::default();
        };
        let mut kept = BTreeMap::new();
        for (descriptor, name) in passed {
            // SAFETY: the service manager opened the descriptor for this process, as the environment says; no other
            // code here uses its number, and this function runs once.
            let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
            if let Some(app) = name.strip_prefix("app-").and_then(|id| id.parse().ok()) {
                kept.insert(AppId(app), descriptor);
            }
        }
        Self(kept)
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

/// Searches the descriptors that a process has open.
fn open_in(process: u32, token: Token) -> Option<Page> {
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    entries.flatten().take(LOOKED_AT).find_map(|entry| {
        let path = entry.path();
        let target = std::fs::read_link(&path).ok()?;
        if !target.to_str()?.starts_with(MEMORY) {
            return None;
        }
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).open(path).ok()?;
        Page::adopt(file.into(), token).ok()
    })
}

/// Gives a page to the service manager to keep.
pub(crate) fn keep(app: AppId, page: BorrowedFd<'_>) {
    let name = format!("app-{app}");
    let states = [NotifyState::FdStore, NotifyState::FdName(&name)];
    if let Err(error) = sd_notify::notify_with_fds(&states, &[page]) {
        tracing::debug!(app = app.0, "page not kept: {error}");
    }
}

/// The service manager need not keep the page any more.
pub(crate) fn forget(app: AppId) {
    let name = format!("app-{app}");
    let states = [NotifyState::FdStoreRemove, NotifyState::FdName(&name)];
    if let Err(error) = sd_notify::notify(&states) {
        tracing::debug!(app = app.0, "kept page not removed: {error}");
    }
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
}
