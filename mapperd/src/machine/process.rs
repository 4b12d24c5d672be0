//! Process descriptors, which stay with the process when its pid is used again.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OpenProcessError {
    #[error("pid {0}: no such process")]
    NoProcess(u32),
    #[error("pid {pid}: pidfd_open: {error}")]
    Failed { pid: u32, error: Errno },
}

pub(crate) fn descriptor(pid: u32) -> Result<OwnedFd, OpenProcessError> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let raw = raw.ok_or(OpenProcessError::NoProcess(pid))?;
    pidfd_open(raw, PidfdFlags::empty()).map_err(|error| match error {
        Errno::SRCH | Errno::INVAL => OpenProcessError::NoProcess(pid),
        error => OpenProcessError::Failed { pid, error },
    })
}

pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    let immediately = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut watched, Some(&immediately)).is_ok_and(|ready| ready > 0)
}
