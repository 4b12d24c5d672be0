//! The daemon while the program runs. When it goes away, the next one takes over what it managed; the launcher says so
//! once, and watches that one. Where a daemon of the user's own was killed, nothing else starts the next, so the launcher
//! does. One that was stopped has removed its socket, and stays stopped.

use crate::environment::Environment;
use crate::own_daemon;
use crate::supervise::{Ending, Event, Supervisor};
use mapper_control::schema::LaunchReply;
use mapper_control::{Client, ClientError, ClientErrorKind, ErrorReply};
use mapper_manual::wording;
use nix::sys::signal::SigSet;
use nix::unistd::{ForkResult, fork};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a service manager may take to start the next daemon.
const GRACE: Duration = Duration::from_secs(1);
/// Time between two looks for it, at first and later.
const LOOK: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_secs(5);
/// How long it may take to answer: signals wait meanwhile.
const PATIENCE: Duration = Duration::from_millis(500);
/// A daemon that dies whenever it is started is left alone after so many.
const MOST_STARTS: u32 = 3;
/// The next daemon has no lease of this launcher, and closes a connection that is silent for a minute.
const SIGN_OF_LIFE: Duration = Duration::from_secs(20);
/// Longer than any program runs.
const FOREVER: Duration = Duration::from_secs(1 << 32);

/// Whether the launcher may start a daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MayStart {
    Yes,
    No,
}

pub(crate) struct DaemonWatch<'a> {
    granted: &'a LaunchReply,
    socket: PathBuf,
    may_start: MayStart,
    environment: &'a Environment,
    /// Standard error, where keeping it open makes no reader wait.
    voice: Option<File>,
    starts: u32,
}

/// Since when there is no daemon.
struct Lost {
    since: Instant,
    said: bool,
}

impl<'a> DaemonWatch<'a> {
    pub(crate) fn new(
        granted: &'a LaunchReply,
        socket: PathBuf,
        may_start: MayStart,
        environment: &'a Environment,
    ) -> Self {
        Self {
            granted,
            socket,
            may_start,
            environment,
            voice: voice(),
            starts: 0,
        }
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.voice.as_ref().map(File::as_fd)
    }

    /// Watches the daemon behind `client` and its successors until the program has ended.
    pub(crate) fn until_ended(
        &mut self,
        client: &mut Client,
        supervisor: &mut Supervisor,
    ) -> anyhow::Result<Ending> {
        let mut pause = FOREVER;
        loop {
            match supervisor.until_readable(client.as_fd(), Instant::now() + pause)? {
                Event::Ended(ending) => return Ok(ending),
                // It is not asked before it has shown that it answers.
                Event::Late if pause == FOREVER => continue,
                Event::Late if client.report(self.granted.app).is_ok() => continue,
                Event::Late | Event::Readable => {}
            }
            pause = SIGN_OF_LIFE;
            let mut lost = Lost {
                since: Instant::now(),
                said: false,
            };
            *client = loop {
                let pause = if lost.since.elapsed() < GRACE {
                    LOOK
                } else {
                    LATER
                };
                if let Some(ending) = supervisor.until(Instant::now() + pause)? {
                    return Ok(ending);
                }
                if let Some(next) = self.look(&mut lost, supervisor)? {
                    break next;
                }
            };
        }
    }

    /// Looks for the next daemon.
    fn look(
        &mut self,
        lost: &mut Lost,
        supervisor: &mut Supervisor,
    ) -> anyhow::Result<Option<Client>> {
        let late = lost.since.elapsed() >= GRACE;
        let mut found = self.next_daemon();
        let killed = |error: &ClientError| {
            matches!(
                error.kind,
                ClientErrorKind::Refused | ClientErrorKind::Closed
            )
        };
        if late
            && self.may_start == MayStart::Yes
            && self.starts < MOST_STARTS
            && found.as_ref().is_err_and(killed)
        {
            self.starts += 1;
            self.start(supervisor)?;
            found = self.next_daemon();
        }
        match found {
            Ok((next, does)) => {
                self.say(&format!("the daemon went away; the next one {does}"));
                return Ok(Some(next));
            }
            Err(_) if !late || lost.said => {}
            Err(error) => {
                lost.said = true;
                let cpus = match error.kind {
                    ClientErrorKind::NotFound => "all CPUs",
                    _ => "the CPUs it has",
                };
                self.say(&format!("the daemon went away; it continues with {cpus}"));
            }
        }
        Ok(None)
    }

    /// A connection to a daemon, and what that does with the program.
    fn next_daemon(&self) -> Result<(Client, &'static str), ClientError> {
        let mut next = Client::connect(&self.socket, PATIENCE)?;
        match next.report(self.granted.app) {
            Ok(_) => Ok((next, "manages it again")),
            Err(ClientError {
                kind: ClientErrorKind::Daemon(ErrorReply::UnknownApplication { .. }),
                ..
            }) => Ok((next, "does not manage it")),
            Err(error) => Err(error),
        }
    }

    /// Has a process of its own start the daemon, as that takes a while in which signals are to be served. What goes
    /// wrong shows when no daemon answers. The daemon falls to the launcher as orphans of the program do, and knows itself.
    fn start(&self, supervisor: &mut Supervisor) -> anyhow::Result<()> {
        let Ok((done, open)) = pipe_with(PipeFlags::CLOEXEC) else {
            return Ok(());
        };
        // SAFETY: the launcher has a single thread, so the child finds every lock free.
        if let Ok(ForkResult::Child) = unsafe { fork() } {
            let _ = SigSet::empty().thread_set_mask();
            let _ = own_daemon::start(self.environment, PATIENCE);
            // SAFETY: ends the process without running what the launcher registered.
            unsafe { libc::_exit(0) }
        }
        drop(open);
        let waited = supervisor.until_readable(done.as_fd(), Instant::now() + FOREVER);
        waited.map(drop)
    }

    fn say(&mut self, what: &str) {
        if let Some(voice) = &mut self.voice {
            let _ = writeln!(
                voice,
                "{}: {}: {what}",
                wording::launcher(),
                self.granted.name
            );
        }
    }
}

/// Standard error, if it is a file or a terminal: the reader of a pipe may wait for its end.
fn voice() -> Option<File> {
    let stderr = std::io::stderr();
    let kept = File::from(stderr.as_fd().try_clone_to_owned().ok()?);
    let is_file = kept.metadata().is_ok_and(|found| found.is_file());
    (stderr.is_terminal() || is_file).then_some(kept)
}
