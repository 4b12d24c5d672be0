//! Computes runs side by side, shows how far it is, and keeps what is done.
//!
//! A result is kept under the hash of its inputs and of this program, so that a run is computed
//! again only when either changed. Ctrl-C lets the runs under way finish, unless they take too long, and goes on
//! to the report with what there is.

use super::catalogue::sha256;
use super::plan::Plan;
use super::run_spec::{Results, RunResult, RunSpec};
use anyhow::{Context as _, bail};
use mapper_report::output::say;
use mapper_report::progress::Progress;
use mapper_report::table::texts;
use mapper_report::workspace;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

pub(super) struct Done {
    pub(super) results: Results,
    /// Runs taken from an earlier evaluation.
    pub(super) kept: usize,
    pub(super) left_out: usize,
}

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Lets Ctrl-C stop at the next run.
pub(super) fn stop_at_signal() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if STOPPED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        say(format_args!(
            "stopping after the runs under way, or in {} s; once more to stop at once",
            GRACE.as_secs()
        ));
    })
    .context("watch for Ctrl-C")
}

pub(super) fn execute(plan: &Plan, fresh: bool) -> anyhow::Result<Done> {
    let store = Store::open(fresh)?;
    let mut results = Results::new();
    let mut wanted = Vec::new();
    for (key, spec) in &plan.runs {
        match store.get(key) {
            Some(result) => drop(results.insert(key.clone(), result)),
            None => wanted.push((key.clone(), Arc::clone(spec))),
        }
    }
    let kept = results.len();
    // Long ones first, so that none is left for the end.
    wanted
        .sort_by_key(|(_, spec)| std::cmp::Reverse((spec.policy == "oracle", spec.members.len())));
    let runs = wanted.len();
    let progress = Progress::start("runs", runs)?;
    progress.say_count();
    let work = Work {
        wanted,
        store,
        next: AtomicUsize::new(0),
    };
    let found = compute(&Arc::new(work), &progress)?;
    progress.say_count();
    progress.finish();
    let left_out = runs - found.len();
    for (key, result) in found {
        results.insert(key, result?);
    }
    Ok(Done {
        results,
        kept,
        left_out,
    })
}

/// A run that is finished, by its key.
type Found = (String, anyhow::Result<RunResult>);

/// Computes runs side by side until all are finished or the user stops it; then at most [`GRACE`] goes by until
/// what there is comes back. A run that is still under way by then ends with the process.
fn compute(work: &Arc<Work>, progress: &Progress) -> anyhow::Result<Vec<Found>> {
    let (send, receive) = mpsc::channel();
    let count = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let worker = |_| {
        let (work, send) = (Arc::clone(work), send.clone());
        thread::spawn(move || work.go(&send))
    };
    let workers: Vec<_> = (0..count).map(worker).collect();
    drop(send);
    let mut found = Vec::new();
    let mut stopping: Option<Instant> = None;
    loop {
        match receive.recv_timeout(Duration::from_millis(100)) {
            Ok(of) => {
                progress.count();
                found.push(of);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if STOPPED.load(Ordering::Relaxed)
            && stopping.get_or_insert_with(Instant::now).elapsed() >= GRACE
        {
            return Ok(found);
        }
    }
    for worker in workers {
        if worker.join().is_err() {
            bail!("a run came to a point that the model should never come to; see above");
        }
    }
    Ok(found)
}

/// Runs that are to be computed, with the place of the next.
struct Work {
    wanted: Vec<(String, Arc<RunSpec>)>,
    store: Store,
    next: AtomicUsize,
}

impl Work {
    fn go(&self, send: &mpsc::Sender<Found>) {
        while !STOPPED.load(Ordering::Relaxed) {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((key, spec)) = self.wanted.get(next) else {
                break;
            };
            let result = spec.run().with_context(|| {
                let names = texts(spec.members.iter().map(|member| &member.name));
                format!("{} under {}", names.join(", "), spec.policy)
            });
            if let Ok(result) = &result {
                self.store.put(key, result);
            }
            if send.send((key.clone(), result)).is_err() {
                // Nobody waits any more.
                break;
            }
        }
    }
}

/// How long the runs under way may take when the user stops an evaluation.
const GRACE: Duration = Duration::from_secs(10);

/// The file that this process executes, under whatever name it still has.
const THIS_PROGRAM: &str = "/proc/self/exe";

struct Store {
    folder: PathBuf,
    fresh: bool,
}

impl Store {
    fn open(fresh: bool) -> anyhow::Result<Self> {
        // What runs, even where another has been put in its place since.
        let bytes = fs::read(THIS_PROGRAM).with_context(|| format!("read {THIS_PROGRAM}"))?;
        let folder = workspace::target_dir()
            .join("mapper-eval")
            .join(&sha256(&bytes)[..16]);
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        Ok(Self { folder, fresh })
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(key).with_extension("json")
    }

    fn get(&self, key: &str) -> Option<RunResult> {
        if self.fresh {
            return None;
        }
        // What cannot be read is computed anew.
        serde_json::from_slice(&fs::read(self.path(key)).ok()?).ok()
    }

    /// A result that cannot be kept is only computed again next time.
    fn put(&self, key: &str, result: &RunResult) {
        let path = self.path(key);
        let fresh = path.with_extension("new");
        let kept = serde_json::to_vec(result)
            .map_err(std::io::Error::other)
            .and_then(|text| fs::write(&fresh, text))
            .and_then(|()| fs::rename(&fresh, &path));
        if let Err(error) = kept {
            say(format_args!("cannot keep {}: {error}", path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples;
    use super::*;
    use std::path::Path;

    fn store(folder: &Path, fresh: bool) -> Store {
        let folder = folder.to_owned();
        Store { folder, fresh }
    }

    #[test]
    fn a_kept_result_is_found_by_its_key_alone_and_computed_anew_where_it_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), false);
        let result = examples::ran(&[("SGD", 0.5)]);
        store.put("key", &result);
        assert_eq!(store.get("key"), Some(result));
        assert_eq!(store.get("other"), None);
        let whole = fs::read(store.path("key")).unwrap();
        // Cut short, and of another form.
        for bad in [&whole[..whole.len() / 2], b"{\"apps\": []}"] {
            fs::write(store.path("key"), bad).unwrap();
            assert_eq!(store.get("key"), None);
        }
    }

    #[test]
    fn a_fresh_evaluation_reads_nothing_but_keeps_what_it_finds_and_where_it_cannot_does_not_fail()
    {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = [0.5, 0.6].map(|speed| examples::ran(&[("SGD", speed)]));
        store(folder.path(), false).put("key", &old);
        let fresh = store(folder.path(), true);
        assert_eq!(fresh.get("key"), None);
        fresh.put("key", &new);
        assert_eq!(store(folder.path(), false).get("key"), Some(new));
        let missing = store(Path::new("/proc/no-such-folder"), false);
        missing.put("key", &old);
        assert_eq!(missing.get("key"), None);
    }
}
