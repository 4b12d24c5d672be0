//! Processes: descriptors, which stay with one when its pid is used again, and the state of threads.

use mapper_host::procfs::ProcFs;
use mapper_model::ThreadId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// `ESRCH` if there is no such process.
pub(crate) fn descriptor(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pidfd_open(pid.ok_or(Errno::SRCH)?, PidfdFlags::empty()).map_err(|error| match error {
        Errno::INVAL => Errno::SRCH,
        error => error,
    })
}

pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    let immediately = Timespec::default();
    poll(&mut watched, Some(&immediately)).is_ok_and(|ready| ready > 0)
}

/// Threads of an application whose state is read, at most.
const THREADS_READ: usize = 64;

/// How many of these threads, or of the first of them, run or wait for a CPU.
pub(crate) fn runnable(proc: &ProcFs, threads: &[ThreadId]) -> u32 {
    let read = threads.iter().take(THREADS_READ);
    read.map(|thread| u32::from(proc.is_runnable(*thread)))
        .sum()
}

/// CPU time of the calling thread so far.
pub(crate) fn thread_cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(used).unwrap_or_default()
}
