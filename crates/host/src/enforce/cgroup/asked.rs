//! One change of a group: what it is, where, and what is said of it.

use crate::HostError;
use crate::procfs::read_small;
use mapper_model::CpuSet;
use rustix::io::Errno;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What a group claims for itself, or for those below it.
pub(super) const EXCLUSIVE: &str = "cpuset.cpus.exclusive";

/// A change: what it is, for messages, and where.
pub(super) struct Change<'a> {
    pub(super) action: &'static str,
    pub(super) value: &'a str,
    pub(super) path: PathBuf,
}

impl Change<'_> {
    /// Whether it changes which groups there are, or which processes are in them. Others are values.
    pub(super) fn moves(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default().as_bytes();
        self.action != "write" || name.starts_with(b"cgroup.")
    }

    pub(super) fn is_of_cpuset(&self) -> bool {
        is_of_cpuset(&self.path)
    }

    /// Whether it changes which CPUs or memory nodes the processes of its group have.
    pub(super) fn changes_sets(&self) -> bool {
        changes_sets(&self.path)
    }

    pub(super) fn failed(&self, error: io::Error) -> HostError {
        match self.action {
            // See `alike`.
            _ if error.kind() == io::ErrorKind::WouldBlock => {
                let others = "a change of the CPUs of its group".to_owned();
                HostError::HeldUp(self.describe(), others, 0)
            }
            "write" => HostError::write(self.value, &self.path, error),
            action => HostError::file(action, &self.path, error),
        }
    }

    pub(super) fn describe(&self) -> String {
        let path = self.path.display();
        match self.action {
            "write" => format!("write {:?} to {path}", self.value),
            action => format!("{action} {path}"),
        }
    }

    pub(super) fn asked(&self) -> Asked {
        Asked {
            change: self.describe(),
            path: self.path.clone(),
            action: self.action,
            value: self.value.to_owned(),
            is_move: self.moves(),
            since: Instant::now(),
        }
    }
}

/// What is to be changed, kept for as long as that takes.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) change: String,
    pub(super) path: PathBuf,
    pub(super) action: &'static str,
    pub(super) value: String,
    pub(super) is_move: bool,
    pub(super) since: Instant,
}

impl Asked {
    pub(super) fn is_of_cpuset(&self) -> bool {
        is_of_cpuset(&self.path)
    }

    pub(super) fn changes_sets(&self) -> bool {
        changes_sets(&self.path)
    }

    /// Whether its file shows the value.
    pub(super) fn is_in_force(&self) -> bool {
        let Ok(shown) = read_small(&self.path) else {
            return false;
        };
        let (shown, value) = (shown.trim(), self.value.trim());
        let same_set = || Some(shown.parse::<CpuSet>().ok()? == value.parse().ok()?);
        shown == value || same_set() == Some(true)
    }

    /// What the kernel says of a group that has been removed.
    pub(super) fn is_gone(error: &io::Error) -> bool {
        matches!(
            Errno::from_io_error(error),
            Some(Errno::NOENT | Errno::NODEV)
        )
    }
}

/// What became of a value that may be written later: an error only if it will not be.
pub(super) fn or_later(written: Result<(), HostError>) -> Result<(), HostError> {
    match written {
        Err(HostError::HeldUp(..)) => Ok(()),
        written => written,
    }
}

fn is_of_cpuset(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().as_bytes();
    name.starts_with(b"cpuset.")
}

/// A claim alone changes nothing.
fn changes_sets(file: &Path) -> bool {
    is_of_cpuset(file) && !file.ends_with(EXCLUSIVE)
}
