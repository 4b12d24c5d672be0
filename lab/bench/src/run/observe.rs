//! What the daemon reports while programs run: who holds how many CPUs, and notes on their teams.
//!
//! The daemon is asked over one connection, so that the asking costs the measured programs next to nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mapper_control::Client;
use mapper_control::schema::Selection;

use crate::result::{DaemonFacts, TimelineSample};

const SAMPLING: Duration = Duration::from_millis(50);

const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) timeline: Vec<TimelineSample>,
    pub(crate) notes: Vec<String>,
}

/// How the daemon at `socket` works on this machine.
pub(crate) fn facts(socket: &Path) -> anyhow::Result<DaemonFacts> {
    let status = connect(socket)?.status();
    let daemon = status.context("ask the daemon for its status")?.daemon;
    Ok(DaemonFacts {
        version: daemon.version,
        allocation: daemon.allocation,
        mapping: daemon.mapping,
        enforcer: with_reason(&daemon.enforcer),
        counters: with_reason(&daemon.counters),
    })
}

fn with_reason(selection: &Selection) -> String {
    if selection.not_better.is_empty() {
        return selection.name.clone();
    }
    format!("{} ({})", selection.name, selection.not_better.join("; "))
}

fn connect(socket: &Path) -> anyhow::Result<Client> {
    Client::connect(socket, PATIENCE)
        .with_context(|| format!("reach the daemon at {}", socket.display()))
}

/// Does `measured` while asking the daemon at `socket` again and again about the programs of these names.
pub(crate) fn observed<T>(
    socket: &Path,
    names: &[&str],
    measured: impl FnOnce() -> T,
) -> anyhow::Result<(T, Observed)> {
    let mut client = connect(socket)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let begun = Instant::now();
            let mut timeline = Vec::new();
            // The last notes on each application contain all the earlier ones.
            let mut notes = BTreeMap::new();
            loop {
                let at_s = begun.elapsed().as_secs_f64();
                let status = client.status();
                let status = status.context("ask the daemon which application holds which CPUs")?;
                let held = |name: &&str| {
                    let app = status.apps.iter().find(|app| app.name.as_str() == *name)?;
                    Some(app.cpu_count)
                };
                let cpus = names.iter().map(held).collect();
                timeline.push(TimelineSample { at_s, cpus });
                let apps = status.apps.into_iter();
                notes.extend(apps.map(|app| (app.id, app.runtime.notes)));
                if done.load(Ordering::Relaxed) {
                    let mut notes: Vec<String> = notes.into_values().flatten().collect();
                    notes.sort();
                    notes.dedup();
                    return anyhow::Ok(Observed { timeline, notes });
                }
                std::thread::sleep(SAMPLING);
            }
        });
        let result = measured();
        done.store(true, Ordering::Relaxed);
        let observed = sampler.join();
        let observed = observed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((result, observed?))
    })
}

#[cfg(test)]
mod tests {
    use mapper_control::fake::{Answer, FakeDaemon};
    use mapper_control::{Reply, Request};
    use std::path::PathBuf;
    use tempfile::TempDir;

    use super::*;
    use mapper_control::schema::Status;

    /// What a daemon says when `cg` holds two CPUs and nothing else runs.
    fn status() -> Status {
        let status = serde_json::json!({
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
                "min_cpus": 1, "teams": "fixed", "runtime": {"state": "attached", "notes": ["threads wait"]},
                "sentence": "alone",
            }],
        });
        serde_json::from_value(status).unwrap()
    }

    /// A daemon that answers so when it is asked for its status, and its socket in a folder.
    fn daemon(
        answer: impl Fn() -> Answer + Send + Sync + 'static,
    ) -> (FakeDaemon, TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let answer = move |request: &Request| match request {
            Request::Status => answer(),
            _ => Answer::HangUp,
        };
        (FakeDaemon::start(&socket, answer).unwrap(), folder, socket)
    }

    #[test]
    fn samples_contain_the_cpus_of_known_programs_only_and_lesser_choices_their_reason() {
        let reporting = || Answer::Reply(Reply::Status(Box::new(status())));
        let (_daemon, _folder, socket) = daemon(reporting);
        let nap = || std::thread::sleep(3 * SAMPLING);
        let ((), Observed { timeline, notes }) = observed(&socket, &["md", "cg"], nap).unwrap();
        assert_eq!(notes, ["threads wait"]);
        assert!(timeline.len() >= 2, "{timeline:?}");
        assert!(timeline.iter().all(|of| of.cpus == [None, Some(2)]));
        let facts = facts(&socket).unwrap();
        assert_eq!(facts.enforcer, "affinity (cgroup: not delegated)");
        assert_eq!(facts.counters, "runtime progress");
    }

    #[test]
    fn a_daemon_that_goes_away_is_an_error_and_the_run_still_ends() {
        let (_daemon, _folder, socket) = daemon(|| Answer::HangUp);
        let error = observed(&socket, &["md", "cg"], || ()).unwrap_err();
        assert!(error.to_string().contains("ask the daemon"), "{error}");
    }
}
