//! Errors of kernel I/O: what was tried, on which path, with which value.

use mapper_model::{CpuSet, ThreadId};
use std::error::Error;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// Kernel I/O that failed. The cause is in [`Error::source`]; [`chain`] prints both.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file, process or thread could not be read or changed.
    #[error("{action} {what}")]
    Io {
        /// What was tried, such as `read`, `open` or `create`.
        action: &'static str,
        /// The path, with the value to be written, or such as `thread 7`.
        what: String,
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
        /// The file that says so.
        path: PathBuf,
        /// The CPUs of the partition.
        cpus: CpuSet,
        /// What the kernel says, with its reason.
        message: String,
    },
    /// systemd did not do what was requested.
    #[error("{action} {unit} through systemd: {why}")]
    Systemd {
        /// What was tried.
        action: &'static str,
        /// The unit.
        unit: String,
        /// What systemd said.
        why: String,
    },
}

#[cfg(test)]
impl HostError {
    #[track_caller]
    pub(crate) fn says(&self, parts: &[&str]) {
        let message = self.to_string();
        for part in parts {
            assert!(message.contains(part), "no {part:?} in: {message}");
        }
    }
}

impl HostError {
    pub(crate) fn file(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::Io {
            action,
            what: path.as_ref().display().to_string(),
            source,
        }
    }

    pub(crate) fn write(value: &str, path: &Path, source: io::Error) -> Self {
        let what = format!("{value:?} to {}", path.display());
        Self::Io {
            action: "write",
            what,
            source,
        }
    }

    pub(crate) fn thread(action: &'static str, thread: ThreadId, source: io::Error) -> Self {
        let what = format!("thread {thread}");
        Self::Io {
            action,
            what,
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
            Self::Io { source, .. } => rustix::io::Errno::from_io_error(source),
            Self::LeftBehind { source, .. } => source.errno(),
            _ => None,
        }
    }

    /// Whether the thing is gone: a process or thread that ended, a group that was removed.
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
    /// Why, as precisely as is known.
    pub why: String,
    /// What would fix it.
    pub hint: String,
}

impl Missing {
    pub(crate) fn new(what: &'static str, why: impl Into<String>, hint: impl Into<String>) -> Self {
        let (why, hint) = (why.into(), hint.into());
        Self { what, why, hint }
    }
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
    fn an_error_shows_value_path_and_cause() {
        let path = Path::new("/sys/fs/cgroup/mapper.slice/7/cpuset.cpus");
        let cause = io::Error::from_raw_os_error(libc::EINVAL);
        let error = HostError::write("0-3", path, cause);
        let text = chain(&error);
        let expected =
            "write \"0-3\" to /sys/fs/cgroup/mapper.slice/7/cpuset.cpus: Invalid argument";
        assert!(text.starts_with(expected), "{text}");
    }
}
