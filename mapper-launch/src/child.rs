//! The child: forked, waiting to be released, then the program.
//!
//! ```text
//! launcher                                child
//!    fork ─────────────────────────────►  signal state restored, waits
//!    … requests CPUs of the daemon …         (signals act on it as on any process)
//!    variables and a go ───────────────►  execve
//!    ◄──────── error number, or nothing: the pipe closes on exec ── (127 or 126)
//! ```
//! If the launcher dies before the go, the pipe ends and the child exits: it never runs a program unmanaged.

use crate::environment::{Assignment, Environment};
use crate::failure::LAUNCHER_FAILED;
use crate::program::Program;
use crate::signal_state::SignalState;
use anyhow::Context;
use nix::errno::Errno;
use nix::unistd::{ForkResult, Pid, fork};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

#[derive(Debug)]
pub(crate) struct WaitingChild {
    pid: Pid,
    go: OwnedFd,
    verdict: OwnedFd,
}

#[derive(Debug)]
pub(crate) struct StartingChild {
    verdict: OwnedFd,
}

impl WaitingChild {
    pub(crate) fn fork(
        program: &Program,
        environment: &Environment,
        signals: &SignalState,
    ) -> anyhow::Result<Self> {
        let (go_out, go_in) = pipe_with(PipeFlags::CLOEXEC).context("make a pipe")?;
        let (verdict_out, verdict_in) = pipe_with(PipeFlags::CLOEXEC).context("make a pipe")?;
        // SAFETY: the launcher has a single thread, so the child finds every lock free.
        match unsafe { fork() }.context("fork")? {
            ForkResult::Parent { child } => Ok(Self {
                pid: child,
                go: go_in,
                verdict: verdict_out,
            }),
            ForkResult::Child => {
                drop((go_in, verdict_out));
                let status =
                    wait_and_execute(program, environment.clone(), signals, go_out, verdict_in);
                // SAFETY: ends the process without running what the launcher registered for its own end.
                unsafe { libc::_exit(status.into()) }
            }
        }
    }

    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn release(self, set: &[Assignment]) -> StartingChild {
        let mut message = Vec::new();
        for assignment in set {
            message.extend_from_slice(assignment.as_bytes_with_nul());
        }
        // An empty assignment is the go.
        message.push(0);
        // If the child has died in the meantime, its status says so. SIGPIPE is blocked.
        let _ = File::from(self.go).write_all(&message);
        StartingChild {
            verdict: self.verdict,
        }
    }
}

impl StartingChild {
    /// Why the program could not be executed, once [`AsFd`] is readable; `None` if it was, or if the child died before.
    pub(crate) fn obstacle(self) -> Option<Errno> {
        let mut number = [0; 4];
        let read = File::from(self.verdict).read_exact(&mut number);
        read.ok()
            .map(|()| Errno::from_raw(i32::from_ne_bytes(number)))
    }
}

impl AsFd for StartingChild {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.verdict.as_fd()
    }
}

fn wait_and_execute(
    program: &Program,
    mut environment: Environment,
    signals: &SignalState,
    go: OwnedFd,
    verdict: OwnedFd,
) -> u8 {
    let (Ok(()), Some(set)) = (signals.restore(), wait_for_go(go)) else {
        return LAUNCHER_FAILED;
    };
    for assignment in set {
        environment.apply(assignment);
    }
    let obstacle = program.execute(environment.entries());
    let _ = File::from(verdict).write_all(&(obstacle as i32).to_ne_bytes());
    program.not_run(obstacle).status
}

fn wait_for_go(go: OwnedFd) -> Option<Vec<Assignment>> {
    let mut message = Vec::new();
    File::from(go).read_to_end(&mut message).ok()?;
    // Without the empty assignment at the end, the launcher died while it wrote.
    let complete = message.strip_suffix(b"\0")?;
    if !(complete.is_empty() || complete.ends_with(b"\0")) {
        return None;
    }
    let entries = complete.split(|&byte| byte == 0);
    let entries = entries.filter(|entry| !entry.is_empty());
    entries.map(Assignment::from_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes(bytes: &[u8]) -> Option<usize> {
        let (out, input) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        File::from(input).write_all(bytes).unwrap();
        wait_for_go(out).map(|set| set.len())
    }

    #[test]
    fn only_a_complete_go_is_one() {
        assert_eq!(goes(b""), None);
        assert_eq!(goes(b"A=1"), None);
        assert_eq!(goes(b"A=1\0"), None);
        assert_eq!(goes(b"A=1\0B=2\0\0"), Some(2));
        assert_eq!(goes(b"\0"), Some(0));
    }
}
