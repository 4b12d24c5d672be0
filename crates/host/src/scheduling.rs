//! The weight of this process against those of users.

use std::io;

/// Gives the session of this process the niceness of the process, if it leads it, as a service does. Where the kernel
/// groups threads by sessions (`sched_autogroup_enabled`), a niceness counts only within the session, and a session
/// counts as much as any other.
///
/// Not by a real-time policy: under a flood of launches the deciding thread then ran for seconds without an answer, most
/// likely in a loop of the kernel that waits for a thread which does not run beside it.
///
/// # Errors
/// Where the kernel does not group threads, or the niceness is below zero and the process may not set it.
pub fn weigh_session_as_process() -> io::Result<()> {
    // By `nix`, as rustix refuses the 0 that the kernel answers where the leader is outside this PID namespace.
    if nix::unistd::getsid(None)? != nix::unistd::getpid() {
        return Ok(());
    }
    let niceness = rustix::process::getpriority_process(None)?;
    std::fs::write("/proc/self/autogroup", niceness.to_string())
}
