//! Errors of kernel I/O: what was tried, on which path, with which value.

use mapper_model::CpuSet;
use std::error::Error;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// Kernel I/O that failed. The cause is in [`Error::source`]; [`chain`] prints both.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file could not be opened, read, made or removed.
    #[error("{action} {}", path.display())]
    File {
        /// What was tried (`read`, `open`, `create`, `remove`).
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A value could not be written.
    #[error("write {value:?} to {}", path.display())]
    Write {
        /// The value.
        value: String,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file holds something else than its format says.
    #[error("{}: {what}, found {found:?}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was expected.
        what: &'static str,
        /// What was there, shortened.
        found: String,
    },
    /// A system call on a process or thread failed.
    #[error("{action} {kind} {id}")]
    Task {
        /// What was tried.
        action: &'static str,
        /// `process` or `thread`.
        kind: &'static str,
        /// Its number.
        id: u32,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Something the machine lacks.
    #[error("{0}")]
    Missing(Missing),
    /// Something that runs cannot be brought under management.
    #[error("{target} cannot be adopted: {why}; {hint}")]
    NotAdoptable {
        /// What it is.
        target: String,
        /// Why not.
        why: String,
        /// What would fix it.
        hint: String,
    },
    /// Processes that were moved could not go back to where they were.
    #[error("processes stay in {}, with all CPUs", group.display())]
    LeftBehind {
        /// Where they are.
        group: PathBuf,
        /// Why the first of them could not.
        #[source]
        source: Box<HostError>,
    },
    /// A partition does not stand.
    #[error("CPUs {cpus} are not isolated: {} says {message:?}", path.display())]
    Partition {
        /// The file that tells.
        path: PathBuf,
        /// What was to be its own.
        cpus: CpuSet,
        /// What the kernel says, with its reason.
        message: String,
    },
    /// systemd did not do what it was asked to.
    #[error("{action} {unit} through systemd: {why}")]
    Systemd {
        /// What was tried.
        action: &'static str,
        /// With which unit.
        unit: String,
        /// What systemd said.
        why: String,
    },
}

impl HostError {
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File {
            action,
            path: path.into(),
            source,
        }
    }

    pub(crate) fn malformed(path: &Path, what: &'static str, found: &[u8]) -> Self {
        Self::Malformed {
            path: path.to_owned(),
            what,
            found: String::from_utf8_lossy(&found[..found.len().min(80)]).into_owned(),
        }
    }

    /// The error code of the kernel, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<rustix::io::Errno> {
        match self {
            Self::File { source, .. } | Self::Write { source, .. } | Self::Task { source, .. } => {
                rustix::io::Errno::from_io_error(source)
            }
            Self::LeftBehind { source, .. } => source.errno(),
            Self::Malformed { .. }
            | Self::Missing(_)
            | Self::NotAdoptable { .. }
            | Self::Partition { .. }
            | Self::Systemd { .. } => None,
        }
    }

    /// Whether the thing is simply gone: a process or thread that ended, a group that was removed.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        use rustix::io::Errno;
        match self {
            Self::Systemd { why, .. } => why.contains("NoSuchUnit"),
            _ => matches!(
                self.errno(),
                Some(Errno::NOENT | Errno::SRCH | Errno::NODEV)
            ),
        }
    }
}

/// Something a machine does not offer: what, why, and how to fix that.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no {what}: {why}; {hint}")]
pub struct Missing {
    /// What is missing, such as `hardware counters`.
    pub what: &'static str,
    /// Why, as precisely as the kernel tells.
    pub why: String,
    /// What would fix it.
    pub hint: String,
}

/// An error with all its causes on one line.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a String cannot fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_value_path_and_cause() {
        let error = HostError::Write {
            value: "0-3".into(),
            path: "/sys/fs/cgroup/mapper.slice/7/cpuset.cpus".into(),
            source: io::Error::from_raw_os_error(libc::EINVAL),
        };
        let text = chain(&error);
        assert!(
            text.starts_with(
                "write \"0-3\" to /sys/fs/cgroup/mapper.slice/7/cpuset.cpus: Invalid argument"
            ),
            "{text}"
        );
    }
}
