//! A program that is tried out, with all that it forks.
//!
//! Programs that hang have to be ended with what they forked, whatever happens to the caller, and a signal must never go to
//! a number that another process has by then. So the program leads a process group of its own. Whether it has ended is
//! checked without waiting for it: its number and that of its group stay its own until it is waited for, and only before
//! that is the group ended.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// A program that ends, with all that it forked, when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// It was waited for: its number, and that of its group, may belong to another process.
    is_over: bool,
}

impl Running {
    /// Starts a program in a process group of its own.
    ///
    /// # Errors
    /// Those of [`Command::spawn`].
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let is_over = false;
        Ok(Self { child, is_over })
    }

    /// Its process number, which is that of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Whether the program has ended. It keeps its number until [`finish`](Self::finish).
    ///
    /// # Errors
    /// Those of waitid(2), such as that the program was waited for already.
    pub fn has_ended(&self) -> io::Result<bool> {
        let flags = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.pid()), flags)?.is_some())
    }

    /// Ends what is left of the group, and waits for the program.
    ///
    /// # Errors
    /// Those of [`Child::wait`].
    pub fn finish(&mut self) -> io::Result<ExitStatus> {
        if !self.is_over {
            // The group is the child's own, and keeps its number until the child is waited for.
            let _ = kill_process_group(self.pid(), Signal::KILL);
            self.is_over = true;
        }
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        command
    }

    #[test]
    fn a_dropped_program_ends_with_all_that_it_forked() {
        let mut running = Running::start(&mut shell("sleep 600 & echo $!; wait")).unwrap();
        let mut output = BufReader::new(running.child.stdout.take().unwrap());
        let mut forked = String::new();
        output.read_line(&mut forked).unwrap();
        assert!(forked.trim().parse::<u32>().is_ok(), "{forked}");
        assert!(!running.has_ended().unwrap());
        let begun = Instant::now();
        drop(running);
        // The output ends with the last process that could write to it.
        assert_eq!(output.read_line(&mut forked).unwrap(), 0);
        assert!(begun.elapsed() < Duration::from_secs(300));
    }

    #[test]
    fn the_exit_status_is_kept_by_checks_whether_it_has_ended() {
        let mut running = Running::start(&mut shell("exit 7")).unwrap();
        while !running.has_ended().unwrap() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(running.has_ended().unwrap());
        let status = running.finish().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(7), None));
        assert_eq!(running.finish().unwrap(), status);
    }
}
