//! Supervising the program until it ends.
//!
//! The launcher reads its signals one by one from a signalfd and passes them on as [`forwarding`](crate::forwarding)
//! decides. It reaps the program, and as subreaper its orphans. When the program stops, the launcher stops by the same
//! signal, so that a shell sees its job stopped; the shell's SIGCONT goes to both.

use crate::forwarding::{self, Addressee, Arrival, Decision, Origin};
use crate::signal_state::suffer;
use crate::started_with::TitleMemory;
use crate::witness::{SignalBits, Witness};
use anyhow::Context;
use nix::sys::signal::SigSet;
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{WaitOptions, wait as wait_for_child};
use std::ffi::c_int;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    Exited(u8),
    Killed(c_int),
    /// By this signal, which the terminal sent to launcher and program alike.
    KilledFromTerminal(c_int),
}

impl Ending {
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Killed(signal) | Self::KilledFromTerminal(signal) => {
                u8::try_from(128 + signal).unwrap_or(u8::MAX)
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Readable,
    Late,
    Ended(Ending),
}

#[derive(Debug)]
pub(crate) struct Supervisor {
    child: Pid,
    signals: SignalFd,
    witness: Option<Witness>,
    /// Signals to the group that came while one witness replaced another.
    in_between: SignalBits,
    title: TitleMemory,
    stopped_by: Option<c_int>,
    from_terminal: SignalBits,
    ending: Option<Ending>,
}

impl Supervisor {
    pub(crate) fn new(child: Pid, signals: SignalFd, title: TitleMemory) -> Self {
        Self {
            child,
            signals,
            witness: None,
            in_between: SignalBits::default(),
            title,
            stopped_by: None,
            from_terminal: SignalBits::default(),
            ending: None,
        }
    }

    pub(crate) fn listen() -> anyhow::Result<SignalFd> {
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        SignalFd::with_flags(&SigSet::all(), flags).context("open a signalfd")
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    /// Not needed before the program runs: until then, what is sent twice ends the child the first time.
    pub(crate) fn watch_group(&mut self) {
        self.witness = Witness::start(self.title, self.child);
    }

    /// Serves signals until `source` can be read, the program has ended or the deadline is over.
    pub(crate) fn until_readable(
        &mut self,
        source: BorrowedFd<'_>,
        deadline: Instant,
    ) -> anyhow::Result<Event> {
        loop {
            if let Some(ending) = self.ending {
                return Ok(Event::Ended(ending));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Event::Late);
            }
            let mut waited = [
                PollFd::new(&self.signals, PollFlags::IN),
                PollFd::from_borrowed_fd(source, PollFlags::IN),
            ];
            wait(&mut waited, Some(left))?;
            let (signals, source) = (waited[0].revents(), waited[1].revents());
            if !signals.is_empty() {
                self.serve_signals()?;
            }
            if !source.is_empty() && self.ending.is_none() {
                return Ok(Event::Readable);
            }
        }
    }

    /// Serves signals until the deadline; the program's ending, if that came first.
    pub(crate) fn until(&mut self, deadline: Instant) -> anyhow::Result<Option<Ending>> {
        while self.ending.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            wait(&mut [PollFd::new(&self.signals, PollFlags::IN)], Some(left))?;
            self.serve_signals()?;
        }
        Ok(self.ending)
    }

    pub(crate) fn ending(&mut self) -> anyhow::Result<Option<Ending>> {
        self.serve_signals()?;
        Ok(self.ending)
    }

    pub(crate) fn until_ended(&mut self) -> anyhow::Result<Ending> {
        loop {
            if let Some(ending) = self.ending {
                return Ok(ending);
            }
            wait(&mut [PollFd::new(&self.signals, PollFlags::IN)], None)?;
            self.serve_signals()?;
        }
    }

    pub(crate) fn finish(self) {
        if let Some(witness) = self.witness {
            witness.end();
        }
    }

    fn serve_signals(&mut self) -> anyhow::Result<()> {
        let mut infos = Vec::new();
        while let Some(info) = self.signals.read_signal().context("read the signalfd")? {
            infos.push(info);
        }
        let seen = self.witness.as_ref().map(Witness::seen);
        // Ctrl-Z soon after `fg` takes back the SIGCONT there that was read here: passed on, it would continue the program.
        let to_group = seen.map(|seen| seen.union(self.in_between).with_taken_back());
        let arrivals: Vec<_> = infos.iter().map(|info| arrival(info, to_group)).collect();
        let mut explained = SignalBits::default();
        for arrival in &arrivals {
            explained = explained.with(arrival.signal);
            if arrival.origin == Origin::Kernel {
                self.from_terminal = self.from_terminal.with(arrival.signal);
            }
        }
        // Before anything is passed on: Ctrl-C may have ended the program already.
        self.reap()?;
        for (arrival, info) in arrivals.into_iter().zip(&infos) {
            let membership = forwarding::membership(self.child);
            if forwarding::decide(arrival, membership) == Decision::PassOn {
                pass_on(self.child, info);
            }
        }
        // What was passed on may have continued the program.
        self.reap()?;
        self.in_between = self.in_between.without(explained);
        // A signal that is still on its way to the launcher is judged when it comes.
        if seen.is_some_and(|seen| !seen.is_empty() && seen.without(explained).is_empty()) {
            self.renew_witness(explained);
        }
        // Also if another process continued the launcher, but not the program.
        if let (Some(signal), None) = (self.stopped_by, self.ending) {
            self.stop_too(signal);
        }
        Ok(())
    }

    /// Replaces a witness that has seen the `explained` signals. The old one stays until the new one is there.
    fn renew_witness(&mut self, explained: SignalBits) {
        let fresh = Witness::start(self.title, self.child);
        if let Some(spent) = std::mem::replace(&mut self.witness, fresh) {
            let late = spent.seen().without(explained);
            self.in_between = self.in_between.union(late);
            spent.end();
        }
    }

    fn reap(&mut self) -> anyhow::Result<()> {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        while self.ending.is_none() {
            let (pid, status) = match wait_for_child(options) {
                Ok(Some(changed)) => changed,
                Ok(None) | Err(Errno::CHILD) => break,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error).context("wait for the program"),
            };
            let ended = status.exited() || status.signaled();
            if pid.as_raw_pid() != self.child.as_raw() {
                // An orphan of the program, or a witness that was killed; its number is free now.
                if ended && self.witness.as_ref().is_some_and(|witness| witness.is(pid)) {
                    self.witness = None;
                }
            } else if let Some(code) = status.exit_status() {
                self.ending = Some(Ending::Exited(u8::try_from(code).unwrap_or(u8::MAX)));
            } else if let Some(signal) = status.terminating_signal() {
                self.ending = Some(if self.from_terminal.contains(signal) {
                    Ending::KilledFromTerminal(signal)
                } else {
                    Ending::Killed(signal)
                });
            } else if let Some(signal) = status.stopping_signal() {
                self.stopped_by = Some(signal);
            } else if status.continued() {
                self.stopped_by = None;
            }
        }
        Ok(())
    }

    fn stop_too(&self, signal: c_int) {
        if let Some(witness) = &self.witness {
            witness.watch_stopped_program();
        }
        suffer(signal);
    }
}

fn wait(waited: &mut [PollFd<'_>], limit: Option<Duration>) -> anyhow::Result<()> {
    // Too long a limit for the kernel is none.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(waited, limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("wait for signals"),
    }
}

/// What is known of a signal. Without a witness, the kernel is assumed to mean the group and a process the launcher.
fn arrival(info: &siginfo, to_group: Option<SignalBits>) -> Arrival {
    let signal = info.ssi_signo.cast_signed();
    let origin = forwarding::origin(info.ssi_code, info.ssi_pid, forwarding::parent_of);
    let group = match to_group {
        Some(seen) => seen.contains(signal),
        None => origin == Origin::Kernel,
    };
    Arrival {
        signal,
        origin,
        addressee: match group {
            true => Addressee::Group,
            false => Addressee::Launcher,
        },
    }
}

/// The program has not been reaped, so its number is its own; that it may not be signalled does not matter.
fn pass_on(child: Pid, info: &siginfo) {
    let signal = info.ssi_signo.cast_signed();
    if info.ssi_code == libc::SI_QUEUE {
        let value = usize::try_from(info.ssi_ptr).unwrap_or(0);
        let value = libc::sigval {
            sival_ptr: std::ptr::with_exposed_provenance_mut(value),
        };
        // SAFETY: the value is passed through and never followed.
        unsafe { libc::sigqueue(child.as_raw(), signal, value) };
    } else {
        // SAFETY: plain numbers. nix's `kill` knows no real-time signals.
        unsafe { libc::kill(child.as_raw(), signal) };
    }
}
