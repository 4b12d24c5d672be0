//! Threads that make changes, started before they are needed.
//!
//! The kernel lets no process start a thread while it holds up a move of any process between groups. So a thread does
//! nothing else than to start the others, and who needs one does not wait for it for long.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::Duration;

/// Threads that are kept for what comes.
const KEPT: usize = 2;

/// How long one that is started is waited for. Tests wait however busy the machine is.
const PATIENCE: Duration = match cfg!(test) {
    false => Duration::from_millis(5),
    true => Duration::from_secs(20),
};

const STACK: usize = 64 << 10;

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// A thread that waits for a job.
pub(super) type Thread = SyncSender<Job>;

#[derive(Debug, Default)]
pub(super) struct Spare {
    threads: Vec<Thread>,
    starter: Option<Starter>,
}

/// The thread that starts others.
#[derive(Debug)]
struct Starter {
    asked: Sender<()>,
    started: Receiver<io::Result<Thread>>,
    /// How many were asked for and have not been taken.
    due: usize,
    /// Whether one was waited for in vain, and none has come since: then it is not waited for.
    is_stuck: bool,
}

impl Spare {
    /// Has missing threads started, and does not wait for them.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        let starter = match &mut self.starter {
            Some(starter) => starter,
            none => none.insert(Starter::start()?),
        };
        while self.threads.len() + starter.due < KEPT {
            starter.ask()?;
        }
        Ok(())
    }

    /// `None` if none is there, and to start one takes long.
    pub(super) fn take(&mut self) -> io::Result<Option<Thread>> {
        if let Some(thread) = self.threads.pop() {
            // Before what is held up keeps threads from being started.
            let _later = self.fill();
            return Ok(Some(thread));
        }
        self.fill()?;
        let Some(starter) = &mut self.starter else {
            return Ok(None);
        };
        let patience = match starter.is_stuck {
            false => PATIENCE,
            true => Duration::ZERO,
        };
        let started = starter.started.recv_timeout(patience);
        starter.is_stuck = started.is_err();
        match started {
            Ok(thread) => {
                starter.due -= 1;
                thread.map(Some)
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(has_ended()),
        }
    }

    /// One that has finished its job. Those beyond the ones that are kept end.
    pub(super) fn put(&mut self, thread: Thread) {
        if self.threads.len() < KEPT {
            self.threads.push(thread);
        }
    }
}

impl Starter {
    fn start() -> io::Result<Self> {
        let (asked, asks) = mpsc::channel::<()>();
        let (sender, started) = mpsc::channel();
        spawn("start-threads", move || {
            for () in asks {
                if sender.send(start()).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            asked,
            started,
            due: 0,
            is_stuck: false,
        })
    }

    fn ask(&mut self) -> io::Result<()> {
        self.asked.send(()).map_err(|_| has_ended())?;
        self.due += 1;
        Ok(())
    }
}

/// A thread that makes changes until nobody has any for it.
fn start() -> io::Result<Thread> {
    let (sender, jobs) = mpsc::sync_channel::<Job>(1);
    spawn("change-groups", move || {
        jobs.into_iter().for_each(|job| job());
    })?;
    Ok(sender)
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.stack_size(STACK).spawn(run).map(drop)
}

fn has_ended() -> io::Error {
    io::Error::other("the thread that starts others has ended")
}

#[cfg(test)]
impl Spare {
    /// From here on no thread is started until what is returned is dropped, as while the kernel holds up a move.
    pub(super) fn starve(&mut self) -> Sender<()> {
        self.threads.clear();
        let (end, waits) = mpsc::channel::<()>();
        let (asked, asks) = mpsc::channel::<()>();
        let (sender, started) = mpsc::channel();
        let run = move || {
            let _ended = waits.recv();
            for () in asks {
                let _nobody_waits = sender.send(start());
            }
        };
        spawn("start-no-threads", run).unwrap();
        self.starter = Some(Starter {
            asked,
            started,
            due: 0,
            is_stuck: true,
        });
        end
    }
}
