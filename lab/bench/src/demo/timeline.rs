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
            loop {
                let at_s = begun.elapsed().as_secs_f64();
                let status = client
                    .status()
                    .context("ask the daemon who holds which CPUs")?;
                let cpus = names.map(|name| held(&status, name));
                timeline.samples.push(TimelineSample { at_s, cpus });
                if done.load(Ordering::Relaxed) {
                    return anyhow::Ok(timeline);
                }
                std::thread::sleep(SAMPLING);
            }
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

#[cfg(test)]
mod tests {
    use mapper_control::fake::{Answer, FakeDaemon};
    use mapper_control::{Reply, Request};

    use super::*;

    /// What a daemon says when `cg` holds two CPUs and nobody else runs.
    fn status() -> Status {
        serde_json::from_value(serde_json::json!({
            "protocol": mapper_control::PROTOCOL,
            "daemon": {
                "version": "0.1.0", "pid": 1, "uptime_ns": 1, "interval_ns": 100_000_000,
                "decisions": 1, "allocation": "mapper", "mapping": "sam_mph",
                "enforcer": {"name": "affinity", "not_better": ["cgroup: not delegated"]},
                "counters": {"name": "runtime progress"},
            },
            "topology": {
                "cpus": 2, "cores": 2, "sockets": 1, "nodes": 1, "usable": "0-1", "free": "",
                "source": "hwloc",
            },
            "apps": [{
                "id": 1, "name": "cg", "pid": 2, "uid": 0, "command": "cg", "state": "steady",
                "cpus": "0-1", "cpu_count": 2, "fair_cpus": 2, "qos": 0.85, "weight": 1,
                "min_cpus": 1, "teams": "fixed", "runtime": {"state": "attached"},
                "sentence": "alone",
            }],
        }))
        .unwrap()
    }

    fn daemon(folder: &Path, answer: impl Fn() -> Answer + Send + Sync + 'static) -> FakeDaemon {
        FakeDaemon::start(&folder.join("socket"), move |request| match request {
            Request::Status => answer(),
            _ => Answer::HangUp,
        })
        .unwrap()
    }

    #[test]
    fn samples_say_who_held_what_and_nothing_of_the_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let _daemon = daemon(folder.path(), || {
            Answer::Reply(Reply::Status(Box::new(status())))
        });
        let nap = || std::thread::sleep(3 * SAMPLING);
        let ((), timeline) = sampled(&folder.path().join("socket"), ["md", "cg"], nap).unwrap();
        assert!(timeline.samples.len() >= 2, "{timeline:?}");
        for sample in &timeline.samples {
            assert_eq!(sample.cpus, [None, Some(2)]);
        }
    }

    #[test]
    fn a_daemon_that_goes_away_is_an_error_and_the_run_still_ends() {
        let folder = tempfile::tempdir().unwrap();
        let _daemon = daemon(folder.path(), || Answer::HangUp);
        let error = sampled(&folder.path().join("socket"), ["md", "cg"], || ()).unwrap_err();
        assert!(error.to_string().contains("ask the daemon"), "{error}");
    }

    #[test]
    fn the_choice_of_a_lesser_way_is_told_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let _daemon = daemon(folder.path(), || {
            Answer::Reply(Reply::Status(Box::new(status())))
        });
        let facts = DaemonFacts::ask(&folder.path().join("socket")).unwrap();
        assert_eq!(facts.enforcer, "affinity (cgroup: not delegated)");
        assert_eq!(facts.counters, "runtime progress");
    }
}
