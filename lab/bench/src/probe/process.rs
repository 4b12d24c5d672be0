//! What the kernel keeps of one process.

use anyhow::{Context, Result};
use procfs::process::{Process, Status};

fn process(pid: u32) -> Result<Process> {
    Process::new(pid.cast_signed()).with_context(|| format!("read /proc/{pid}"))
}

/// Run time of all threads, to the nanosecond.
pub(crate) fn cpu_time_ns(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in process(pid)?.tasks()? {
        let task = task?;
        let name = || format!("read /proc/{pid}/task/{}/schedstat", task.tid);
        sum += task.schedstat().with_context(name)?.sum_exec_runtime;
    }
    Ok(sum)
}

/// What `/proc/PID/status` says, of memory in kibibytes.
pub(crate) fn status(pid: u32) -> Result<Status> {
    let status = process(pid)?.status();
    status.with_context(|| format!("read /proc/{pid}/status"))
}

pub(crate) fn open_descriptors(pid: u32) -> Result<usize> {
    let count = process(pid)?.fd_count();
    count.with_context(|| format!("read /proc/{pid}/fd"))
}
