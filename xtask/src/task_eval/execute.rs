//! Computes runs side by side, shows how far it is, and keeps what is done.
//!
//! A result is kept under the hash of its inputs and of this program, so that a run is computed
//! again only when either changed. Ctrl-C lets the runs under way finish and goes on to the report
//! with what there is.

use super::catalogue::sha256;
use super::plan::Plan;
use super::run_spec::RunResult;
use crate::workspace;
use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Results by key.
pub(super) type Results = BTreeMap<String, RunResult>;

/// What became of a plan.
pub(super) struct Done {
    pub(super) results: Results,
    /// Runs taken from an earlier evaluation.
    pub(super) kept: usize,
    /// Runs that were left out after Ctrl-C.
    pub(super) left_out: usize,
}

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Lets Ctrl-C stop at the next run.
pub(super) fn stop_at_signal() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if STOPPED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("stopping after the runs under way; once more to stop at once");
    })
    .context("watch for Ctrl-C")
}

/// Computes all runs of a plan.
pub(super) fn execute(plan: &Plan, fresh: bool) -> anyhow::Result<Done> {
    let store = Store::open(fresh)?;
    let mut results = Results::new();
    let mut wanted = Vec::new();
    for (key, spec) in &plan.runs {
        match store.get(key) {
            Some(result) => drop(results.insert(key.clone(), result)),
            None => wanted.push((key, spec)),
        }
    }
    let kept = results.len();
    // Long ones first, so that none is left for the end.
    wanted
        .sort_by_key(|(_, spec)| std::cmp::Reverse((spec.policy == "oracle", spec.members.len())));
    let bar = ProgressBar::new(wanted.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left  {msg}")
    {
        bar.set_style(style);
    }
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(String, anyhow::Result<RunResult>)>> = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while !STOPPED.load(Ordering::Relaxed) {
                    let Some((key, spec)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        break;
                    };
                    let result = spec.run().with_context(|| {
                        let names: Vec<&str> =
                            spec.members.iter().map(|m| m.name.as_str()).collect();
                        format!("{} under {}", names.join(", "), spec.policy)
                    });
                    if let Ok(result) = &result {
                        store.put(key, result);
                    }
                    bar.inc(1);
                    if let Ok(mut found) = found.lock() {
                        found.push(((*key).clone(), result));
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    let found = found
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let left_out = wanted.len() - found.len();
    for (key, result) in found {
        results.insert(key, result?);
    }
    Ok(Done {
        results,
        kept,
        left_out,
    })
}

/// Results of earlier evaluations.
struct Store {
    folder: PathBuf,
    fresh: bool,
}

impl Store {
    fn open(fresh: bool) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("find this program")?;
        let bytes = fs::read(&program).with_context(|| format!("read {}", program.display()))?;
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
            eprintln!("cannot keep {}: {error}", path.display());
        }
    }
}

/// Makes sure that a folder can be written before hours are spent on what goes there.
pub(super) fn check_writable(folder: &Path) -> anyhow::Result<()> {
    let place = || {
        format!(
            "write to {}: give another folder with --out",
            folder.display()
        )
    };
    fs::create_dir_all(folder).with_context(place)?;
    let probe = folder.join(".mapper-eval-probe");
    fs::write(&probe, b"").with_context(place)?;
    fs::remove_file(&probe).with_context(place)
}

#[cfg(test)]
mod tests {
    use super::super::examples;
    use super::*;

    fn store(folder: &Path, fresh: bool) -> Store {
        Store {
            folder: folder.to_owned(),
            fresh,
        }
    }

    #[test]
    fn a_kept_result_is_found_by_its_key_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), false);
        let result = examples::ran(&[("SGD", 0.5)]);
        store.put("key", &result);
        assert_eq!(store.get("key"), Some(result));
        assert_eq!(store.get("other"), None);
    }

    #[test]
    fn a_fresh_evaluation_looks_at_nothing_that_is_kept_but_keeps_what_it_finds() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (
            examples::ran(&[("SGD", 0.5)]),
            examples::ran(&[("SGD", 0.6)]),
        );
        store(folder.path(), false).put("key", &old);
        let fresh = store(folder.path(), true);
        assert_eq!(fresh.get("key"), None);
        fresh.put("key", &new);
        assert_eq!(store(folder.path(), false).get("key"), Some(new));
    }

    #[test]
    fn what_cannot_be_read_is_computed_anew() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), false);
        store.put("key", &examples::ran(&[("SGD", 0.5)]));
        let whole = fs::read(store.path("key")).unwrap();
        fs::write(store.path("key"), &whole[..whole.len() / 2]).unwrap();
        assert_eq!(store.get("key"), None, "cut short");
        fs::write(store.path("key"), b"{\"apps\": []}").unwrap();
        assert_eq!(store.get("key"), None, "of another form");
    }

    #[test]
    fn a_result_that_cannot_be_kept_is_no_failure() {
        let missing = store(Path::new("/proc/no-such-folder"), false);
        missing.put("key", &examples::ran(&[("SGD", 0.5)]));
        assert_eq!(missing.get("key"), None);
    }

    #[test]
    fn a_folder_is_made_and_left_empty_and_one_that_cannot_be_made_is_named_with_the_mend() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        check_writable(&deep).unwrap();
        assert_eq!(fs::read_dir(&deep).unwrap().count(), 0);
        let file = folder.path().join("file");
        fs::write(&file, b"text").unwrap();
        for bad in [&file, Path::new("/proc/no")] {
            let error = format!("{:#}", check_writable(bad).unwrap_err());
            assert!(
                error.contains(bad.to_str().unwrap()) && error.contains("with --out"),
                "{error}"
            );
        }
        assert_eq!(fs::read(&file).unwrap(), b"text");
    }
}
