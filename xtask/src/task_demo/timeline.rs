//! Who held how many CPUs when, as the daemon told it during a run.
//!
//! The daemon is asked over one connection, so that the asking costs the measured programs next to
//! nothing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mapper_control::Client;
use mapper_control::schema::{Selection, Status};
use serde::Serialize;

/// How often the daemon is asked.
const SAMPLING: Duration = Duration::from_millis(50);

/// How long the daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The CPUs that each program of a pair held over time.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Timeline {
    pub(crate) samples: Vec<TimelineSample>,
}

/// What the daemon said at one moment; nothing for a program that it does not know (yet, or any
/// more).
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TimelineSample {
    pub(crate) at_s: f64,
    pub(crate) cpus: [Option<u32>; 2],
}

/// How the daemon worked on this machine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DaemonFacts {
    pub(crate) version: String,
    pub(crate) allocation: String,
    pub(crate) mapping: String,
    /// How CPUs are given, and why not in a better way.
    pub(crate) enforcer: String,
    /// What performance is measured with, and why not with something better.
    pub(crate) counters: String,
}

impl DaemonFacts {
    /// Asks the daemon at `socket`.
    pub(crate) fn ask(socket: &Path) -> anyhow::Result<Self> {
        let daemon = connect(socket)?
            .status()
            .context("ask the daemon for its status")?
            .daemon;
        Ok(Self {
            version: daemon.version,
            allocation: daemon.allocation,
            mapping: daemon.mapping,
            enforcer: told(&daemon.enforcer),
            counters: told(&daemon.counters),
        })
    }
}

fn told(selection: &Selection) -> String {
    if selection.not_better.is_empty() {
        return selection.name.clone();
    }
    format!("{} ({})", selection.name, selection.not_better.join("; "))
}

fn connect(socket: &Path) -> anyhow::Result<Client> {
    Client::connect(socket, PATIENCE)
        .with_context(|| format!("reach the daemon at {}", socket.display()))
}

/// Does `measured` while asking the daemon at `socket` again and again who holds how many CPUs.
pub(crate) fn sampled<T>(
    socket: &Path,
    names: [&str; 2],
    measured: impl FnOnce() -> T,
) -> anyhow::Result<(T, Timeline)> {
    let mut client = connect(socket)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let begun = Instant::now();
            let mut timeline = Timeline::default();
            while !done.load(Ordering::Relaxed) {
                let at_s = begun.elapsed().as_secs_f64();
                let status = client
                    .status()
                    .context("ask the daemon who holds which CPUs")?;
                let cpus = names.map(|name| held(&status, name));
                timeline.samples.push(TimelineSample { at_s, cpus });
                std::thread::sleep(SAMPLING);
            }
            anyhow::Ok(timeline)
        });
        let result = measured();
        done.store(true, Ordering::Relaxed);
        match sampler.join() {
            Ok(timeline) => Ok((result, timeline?)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn held(status: &Status, name: &str) -> Option<u32> {
    let app = status.apps.iter().find(|app| app.name.as_str() == name)?;
    Some(app.cpu_count)
}
