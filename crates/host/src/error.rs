//! Errors of kernel I/O: what was tried, on which path, with which value.

use mapper_model::{CpuSet, ThreadId};
use std::error::Error;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// Kernel I/O that failed. The cause is in [`Error::source`]; [`chain`] prints both.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file, process or thread could not be read or changed: what was tried, on which path, with which value.
    #[error("{0} {1}")]
    Io(&'static str, String, #[source] io::Error),
    /// A file holds something else than its format says: what was expected, and what was there, shortened.
    #[error("{path}: {1}, found {2:?}", path = .0.display())]
    Malformed(PathBuf, &'static str, String),
    /// Something the machine lacks.
    #[error("{0}")]
    Missing(Missing),
    /// Something that runs cannot be brought under management: why not, and what would fix it.
    #[error("{0} cannot be adopted: {1}; {2}")]
    NotAdoptable(String, String, String),
    /// A tree has more processes than a user may have adopted: the first, and how many descendants it may have.
    #[error(
        "process {0} has more than {1} descendants, the most that a user may have adopted with it; start them in a group \
         of your own below one that was delegated to you, and adopt that (--cgroup), or ask root"
    )]
    TooManyProcesses(u32, usize),
    /// A tree has more threads than a user may have adopted: its first process, and how many they may be.
    #[error(
        "process {0} and its descendants have more than {1} threads, the most that a user may have adopted at once; \
         launch it with mapper-launch, or ask root"
    )]
    TooManyThreads(u32, usize),
    /// Processes that were moved could not go back to where they were: the first error.
    #[error("processes stay in {}, with all CPUs", .0.display())]
    LeftBehind(PathBuf, #[source] Box<HostError>),
    /// A partition does not stand: the file and what the kernel says there.
    #[error("CPUs {1} are not isolated: {path} says {2:?}", path = .0.display())]
    Partition(PathBuf, CpuSet, String),
    /// systemd did not do what was requested: what was tried on which unit, and what it said.
    #[error("{0} {1} through systemd: {2}")]
    Systemd(&'static str, String, String),
    /// systemd has not answered so far: what was tried on which unit, and for how many milliseconds.
    #[error("{0} {1} through systemd: no answer within {2} ms; try again later")]
    SystemdLate(&'static str, String, u128),
    /// The kernel has not finished a change, or another that this one would wait for: both, and for how many seconds.
    #[error(
        "{0}: the kernel has held up ({1}) for {2} s; wait, or end the program that it waits for"
    )]
    HeldUp(String, String, u64),
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
        Self::Io(action, path.as_ref().display().to_string(), source)
    }

    pub(crate) fn write(value: &str, path: &Path, source: io::Error) -> Self {
        Self::Io("write", format!("{value:?} to {}", path.display()), source)
    }

    pub(crate) fn thread(action: &'static str, thread: ThreadId, source: io::Error) -> Self {
        Self::Io(action, format!("thread {thread}"), source)
    }

    pub(crate) fn malformed(path: &Path, what: &'static str, found: &[u8]) -> Self {
        let found = String::from_utf8_lossy(&found[..found.len().min(80)]).into_owned();
        Self::Malformed(path.to_owned(), what, found)
    }

    /// The error code of the kernel, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<rustix::io::Errno> {
        match self {
            Self::Io(.., source) => rustix::io::Errno::from_io_error(source),
            Self::LeftBehind(_, source) => source.errno(),
            _ => None,
        }
    }

    /// Whether the thing is gone: a process or thread that ended, a group that was removed.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        use rustix::io::Errno;
        match self {
            Self::Systemd(.., why) => why.contains("NoSuchUnit"),
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
