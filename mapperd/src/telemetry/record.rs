//! Recording every observation with the plan that followed, in the format of [`mapper_pipeline::record`], so that
//! decisions can be inspected and replayed.
//!
//! A disk may take seconds for a line, and decisions must not wait for it: a thread writes, and what waits for it is
//! bounded. A recording with gaps could not be replayed, so one that cannot be written, or not fast enough, is stopped
//! with a warning.

use anyhow::Context;
use mapper_model::{Observation, Plan};
use mapper_pipeline::{Controller, Header, record};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Decisions that may wait for the disk: five seconds at the shortest interval.
const WAITING: usize = 256;

type Decision = Box<(Observation, Plan)>;

/// Passes decisions to the thread that writes them.
#[derive(Debug)]
pub(crate) struct Recorder {
    path: PathBuf,
    /// `None` once the recording was given up.
    thread: Option<Thread>,
}

#[derive(Debug)]
struct Thread {
    decisions: SyncSender<Decision>,
    /// Hangs up when everything is written.
    finished: Receiver<()>,
}

impl Recorder {
    /// Starts a recording of the controller's decisions.
    pub(crate) fn create(path: &Path, controller: &Controller) -> anyhow::Result<Self> {
        let context = || format!("create recording {}", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(context)?);
        let header = Header::of(controller).line().with_context(context)?;
        append(&mut file, &header).with_context(context)?;
        Self::start(path, file)
    }

    fn start(path: &Path, mut sink: impl Write + Send + 'static) -> anyhow::Result<Self> {
        let (decisions, arriving) = sync_channel::<Decision>(WAITING);
        let (finish, finished) = sync_channel::<()>(0);
        let file = path.to_owned();
        std::thread::Builder::new()
            .name("record".to_owned())
            .spawn(move || {
                write_all(&arriving, &mut sink, &file);
                drop(finish);
            })
            .context("start the thread that records")?;
        Ok(Self {
            path: path.to_owned(),
            thread: Some(Thread {
                decisions,
                finished,
            }),
        })
    }

    /// Adds a decision. Never waits for the disk.
    pub(crate) fn write(&mut self, observation: &Observation, plan: &Plan) {
        let Some(thread) = &self.thread else {
            return;
        };
        let decision = Box::new((observation.clone(), plan.clone()));
        match thread.decisions.try_send(decision) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                tracing::warn!(
                    file = %self.path.display(),
                    "recording stopped: the disk is {WAITING} decisions behind; record to a faster one"
                );
                self.thread = None;
            }
            // The thread has logged the reason.
            Err(TrySendError::Disconnected(_)) => self.thread = None,
        }
    }

    /// Ends the recording and waits up to `patience` until it is written.
    pub(crate) fn finish(mut self, patience: Duration) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        drop(thread.decisions);
        if let Err(RecvTimeoutError::Timeout) = thread.finished.recv_timeout(patience) {
            tracing::warn!(
                file = %self.path.display(),
                "the last decisions are not recorded: the disk took more than {} s",
                patience.as_secs()
            );
        }
    }
}

/// The thread, until no decision can arrive or be written any more.
fn write_all(arriving: &Receiver<Decision>, sink: &mut impl Write, path: &Path) {
    while let Ok(decision) = arriving.recv() {
        let (observation, plan) = *decision;
        let written = record::line(&observation, &plan)
            .map_err(io::Error::from)
            .and_then(|line| append(sink, &line));
        if let Err(error) = written {
            tracing::warn!(file = %path.display(), "recording stopped: {error}");
            return;
        }
    }
}

/// Writes a complete line, so that a daemon that is killed leaves a readable recording.
fn append(sink: &mut impl Write, line: &str) -> io::Result<()> {
    sink.write_all(line.as_bytes())?;
    sink.write_all(b"\n")?;
    sink.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::{CpuSet, Trigger};
    use std::sync::mpsc;
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn observation(tick: u64) -> Observation {
        Observation {
            tick,
            now_ns: tick,
            trigger: Trigger::Interval,
            usable: CpuSet::first(2),
            apps: Vec::new(),
        }
    }

    /// A disk that writes a line each time it is permitted to.
    struct Gated {
        go: mpsc::Receiver<()>,
        text: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.text.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            // After the sender is dropped it does not wait.
            let _ = self.go.recv();
            Ok(())
        }
    }

    fn gated() -> (mpsc::Sender<()>, Arc<Mutex<Vec<u8>>>, Recorder) {
        let (open, go) = mpsc::channel();
        let text = Arc::new(Mutex::new(Vec::new()));
        let sink = Gated {
            go,
            text: Arc::clone(&text),
        };
        let recorder = Recorder::start(Path::new("r"), sink).unwrap();
        (open, text, recorder)
    }

    /// The decisions that were written.
    fn ticks(text: &Mutex<Vec<u8>>) -> Vec<u64> {
        let text = String::from_utf8(text.lock().unwrap().clone()).unwrap();
        let tick = |line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["observation"]["tick"].as_u64().unwrap()
        };
        text.lines().map(tick).collect()
    }

    #[test]
    fn a_stuck_disk_blocks_no_caller_and_every_decision_is_written() {
        let (open, text, mut recorder) = gated();
        let started = Instant::now();
        for tick in 0..100 {
            recorder.write(&observation(tick), &Plan::default());
        }
        assert!(started.elapsed() < PATIENCE);
        drop(open);
        recorder.finish(PATIENCE);
        assert_eq!(ticks(&text), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_recording_that_the_disk_does_not_keep_up_with_has_no_holes() {
        let (open, text, mut recorder) = gated();
        for tick in 0..2 * WAITING as u64 {
            recorder.write(&observation(tick), &Plan::default());
        }
        assert!(recorder.thread.is_none());
        drop(open);
        let lines = || text.lock().unwrap().iter().filter(|b| **b == b'\n').count();
        let deadline = Instant::now() + PATIENCE;
        while lines() < WAITING {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
        let ticks = ticks(&text);
        assert_eq!(ticks, (0..ticks.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn a_recording_that_fails_stops_and_blocks_no_caller() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut recorder = Recorder::start(Path::new("r"), Full).unwrap();
        for tick in 0..10 * WAITING as u64 {
            recorder.write(&observation(tick), &Plan::default());
            std::thread::yield_now();
        }
        let started = Instant::now();
        recorder.finish(PATIENCE);
        assert!(started.elapsed() < PATIENCE);
    }
}
