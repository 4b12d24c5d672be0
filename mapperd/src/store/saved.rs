//! What outlives the daemon: a file that the next one goes on from.
//!
//! It holds the applications with what they were promised, and everything that is learned of them.
//! It is written anew after each decision that changed something, and now and then between; the
//! new one takes the old one's place in one step, so that there is a whole file at any time. It is
//! not forced to the disk: it is worth nothing once the machine has been booted again, which the
//! number of the boot in it tells.
//!
//! A file that cannot be read is not thrown away but set aside as `state.json.damaged`, for whoever
//! wants to know what happened. The daemon says so and goes on from `state.json.previous`, the state before,
//! which is kept for that: it lacks what came with the last change, and what has ended since is found to
//! have ended. If that cannot be read either, the daemon starts without.

use crate::registry::accounting::Books;
use crate::requests::adopt::Adoption;
use crate::requests::settling::Provenance;
use anyhow::{Context, bail};
use mapper_control::schema::{MemoryPolicy, Partition};
use mapper_model::{AppId, AppSpec, CpuSet, PlannedApp};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The format that is written.
const VERSION: u32 = 1;

const FILE: &str = "state.json";
const NEW: &str = "state.json.new";
const PREVIOUS: &str = "state.json.previous";
const DAMAGED: &str = "state.json.damaged";

/// The longest file that is written and read: more than a thousand applications with all that can be learned
/// of them should take.
const LONGEST: u64 = 64 << 20;

/// Everything that outlives a daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) version: u32,
    /// The boot in which it was written; processes of another are gone.
    pub(crate) boot: String,
    pub(crate) ending: Ending,
    pub(crate) next_app: AppId,
    pub(crate) decisions: u64,
    pub(crate) apps: Vec<SavedApp>,
    /// Groups in which released processes are left, which nobody is to manage again.
    #[serde(default)]
    pub(crate) released: BTreeSet<AppId>,
    /// What the enforcer has still to do for applications that were released, in its own format.
    #[serde(default)]
    pub(crate) unfinished: serde_json::Value,
    /// What the controller remembers, in its own format.
    pub(crate) controller: serde_json::Value,
}

/// How the daemon that wrote it was doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// It ran, so that it was killed if it runs no more.
    Running,
    /// It was about to stop in order and to give all CPUs back.
    Stopping,
}

/// One application.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct SavedApp {
    pub(crate) id: AppId,
    pub(crate) spec: AppSpec,
    pub(crate) command: String,
    pub(crate) uid: u32,
    pub(crate) first_process: Process,
    pub(crate) launcher: Process,
    /// The last plan for it.
    pub(crate) planned: Option<PlannedApp>,
    /// What the enforcer wants to know of its processes.
    pub(crate) processes: serde_json::Value,
    /// The set that somebody else had written for it.
    #[serde(default)]
    pub(crate) set_by_others: Option<CpuSet>,
    /// The CPUs that its owner had confined it to.
    #[serde(default)]
    pub(crate) own_mask: Option<CpuSet>,
    /// What it got so far.
    #[serde(default)]
    pub(crate) books: Books,
    /// How its launch was settled.
    #[serde(default)]
    pub(crate) provenance: Provenance,
    /// What is done with its memory when its CPUs move.
    #[serde(default)]
    pub(crate) memory: MemoryPolicy,
    /// Whether it is to have its CPUs to itself.
    #[serde(default)]
    pub(crate) partition: Partition,
    /// What it was before, if it was adopted.
    #[serde(default)]
    pub(crate) adopted: Option<Adoption>,
    /// The token of its page.
    pub(crate) token: Option<String>,
}

/// A process, told from others that had or will have its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// When it started, in clock ticks since boot.
    pub(crate) started_ticks: u64,
}

impl Saved {
    /// With what does not depend on the daemon filled in.
    pub(crate) fn new(ending: Ending, next_app: AppId, decisions: u64) -> Self {
        Self {
            version: VERSION,
            boot: boot(),
            ending,
            next_app,
            decisions,
            apps: Vec::new(),
            released: BTreeSet::new(),
            unfinished: serde_json::Value::Null,
            controller: serde_json::Value::Null,
        }
    }
}

/// The number of this boot; empty where the kernel does not tell.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// What was found at the start.
#[derive(Debug)]
pub(crate) enum Found {
    /// There is nothing to go on from.
    Nothing,
    /// This was left by an earlier daemon.
    State(Box<Saved>),
    /// There was something that could not be read.
    Damaged {
        /// What is wrong with it.
        why: anyhow::Error,
        /// The state before, if that can be read.
        before: Option<Box<Saved>>,
    },
}

/// The place where state is kept.
#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    dir: OwnedFd,
}

impl StateDir {
    /// Opens the directory, which is made if it does not exist.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(path)
            .with_context(|| format!("create state directory {}", path.display()))?;
        // Whoever can write there could have this daemon go on from anything.
        crate::store::trusted_directory::check(path, "--state-dir")?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())
            .with_context(|| format!("open state directory {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            dir,
        })
    }

    /// Where the file is, for messages.
    pub(crate) fn file(&self) -> PathBuf {
        self.path.join(FILE)
    }

    /// Reads what an earlier daemon of this boot left.
    pub(crate) fn load(&self) -> Found {
        match self.read(FILE) {
            Ok(None) => Found::Nothing,
            Ok(Some(saved)) if saved.boot != boot() => {
                tracing::info!("state of an earlier boot ignored");
                Found::Nothing
            }
            Ok(Some(saved)) => Found::State(Box::new(saved)),
            Err(why) => {
                let dir = self.dir.as_fd();
                if let Err(error) = rustix::fs::renameat(dir, FILE, dir, DAMAGED) {
                    tracing::warn!("{} not set aside: {error}", self.file().display());
                }
                let before = self.read(PREVIOUS).ok().flatten();
                Found::Damaged {
                    why,
                    before: before.filter(|saved| saved.boot == boot()).map(Box::new),
                }
            }
        }
    }

    fn read(&self, name: &str) -> anyhow::Result<Option<Saved>> {
        #[derive(Deserialize)]
        struct VersionOnly {
            version: u32,
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = match rustix::fs::openat(self.dir.as_fd(), name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error).context("open"),
        };
        let mut text = String::new();
        file.take(LONGEST + 1)
            .read_to_string(&mut text)
            .context("read")?;
        if text.len() as u64 > LONGEST {
            bail!("longer than {LONGEST} bytes");
        }
        let VersionOnly { version } = serde_json::from_str(&text)?;
        if version != VERSION {
            bail!("it has version {version}, this mapperd reads version {VERSION}");
        }
        Ok(Some(serde_json::from_str(&text)?))
    }

    /// Puts a new state in the place of the old one.
    pub(crate) fn store(&self, saved: &Saved) -> anyhow::Result<Stored> {
        let (text, stored) = text_within(saved, LONGEST)?;
        let dir = self.dir.as_fd();
        // One that was left behind by a daemon that was killed halfway, or put there by somebody.
        let _ = rustix::fs::unlinkat(dir, NEW, AtFlags::empty());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let named = || format!("write {}", self.path.join(NEW).display());
        let file =
            rustix::fs::openat(dir, NEW, flags, Mode::RUSR | Mode::WUSR).with_context(named)?;
        File::from(file).write_all(&text).with_context(named)?;
        self.keep_previous();
        rustix::fs::renameat(dir, NEW, dir, FILE)
            .with_context(|| format!("replace {}", self.file().display()))?;
        Ok(stored)
    }
}

impl StateDir {
    /// Gives the present file a second name, under which it stays when it is replaced. Where that cannot be
    /// had (a file system without links), the new state is worth more than the old one.
    fn keep_previous(&self) {
        let dir = self.dir.as_fd();
        let _ = rustix::fs::unlinkat(dir, PREVIOUS, AtFlags::empty());
        match rustix::fs::linkat(dir, FILE, dir, PREVIOUS, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => tracing::debug!("the state before is not kept: {error}"),
        }
    }
}

/// How much of a state was stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stored {
    Whole,
    /// With it the file would have been too long to be read again.
    WithoutHistory,
}

/// The file's text, in `longest` bytes: what the controller remembers is left out if it has to be, since promises
/// and processes matter more.
fn text_within(saved: &Saved, longest: u64) -> anyhow::Result<(Vec<u8>, Stored)> {
    let text = |saved: &Saved| serde_json::to_vec(saved).context("write state as JSON");
    let fits = |text: &Vec<u8>| text.len() as u64 <= longest;
    let whole = text(saved)?;
    if fits(&whole) {
        return Ok((whole, Stored::Whole));
    }
    let mut less = saved.clone();
    less.controller = serde_json::Value::Null;
    let short = text(&less)?;
    if !fits(&short) {
        bail!(
            "it takes {} bytes, and at most {longest} are read again",
            short.len()
        );
    }
    Ok((short, Stored::WithoutHistory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::AppName;

    fn saved() -> Saved {
        let mut saved = Saved::new(Ending::Running, AppId(8), 17);
        saved.apps.push(SavedApp {
            id: AppId(7),
            spec: AppSpec::named(AppName::new("fft").unwrap()),
            command: "fft 3".into(),
            uid: 1000,
            first_process: Process {
                pid: 11,
                started_ticks: 4,
            },
            launcher: Process::default(),
            planned: None,
            processes: serde_json::Value::Null,
            set_by_others: None,
            own_mask: None,
            books: Books::default(),
            provenance: Provenance::default(),
            memory: MemoryPolicy::Keep,
            partition: Partition::Member,
            adopted: None,
            token: Some("00000000000000ab".into()),
        });
        saved
    }

    #[test]
    fn what_is_stored_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("made")).unwrap();
        assert!(matches!(state.load(), Found::Nothing));
        for _ in 0..2 {
            state.store(&saved()).unwrap();
        }
        assert!(matches!(state.load(), Found::State(found) if *found == saved()));
        let left: std::collections::BTreeSet<String> = std::fs::read_dir(dir.path().join("made"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(left, [FILE, PREVIOUS].map(str::to_owned).into());
    }

    #[test]
    fn what_would_be_too_long_to_be_read_is_written_without_the_controllers_history() {
        let mut long = saved();
        long.controller = "x".repeat(1000).into();
        let size = serde_json::to_vec(&long).unwrap().len() as u64;
        let (whole, stored) = text_within(&long, size).unwrap();
        assert_eq!((whole.len() as u64, stored), (size, Stored::Whole));
        let (less, stored) = text_within(&long, size - 1).unwrap();
        assert_eq!(stored, Stored::WithoutHistory);
        let read: Saved = serde_json::from_slice(&less).unwrap();
        assert_eq!(read.apps, long.apps);
        assert!(read.controller.is_null());
        let error = text_within(&long, less.len() as u64 - 1).unwrap_err();
        assert!(error.to_string().contains("are read again"), "{error}");
    }

    #[test]
    fn state_of_another_boot_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let mut old = saved();
        old.boot = "another".into();
        state.store(&old).unwrap();
        assert!(matches!(state.load(), Found::Nothing));
    }

    #[test]
    fn a_damaged_file_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        state.store(&saved()).unwrap();
        let whole = std::fs::read(state.file()).unwrap();
        for (text, says) in [
            (&whole[..whole.len() / 2], "EOF"),
            (b"\xff\xfe", "read"),
            (b"{\"version\":99}", "version 99"),
            (b"", "EOF"),
        ] {
            std::fs::write(state.file(), text).unwrap();
            let Found::Damaged { why, before: None } = state.load() else {
                panic!("{text:?} was read");
            };
            assert!(format!("{why:#}").contains(says), "{why:#}");
            assert!(!state.file().exists());
            assert_eq!(std::fs::read(dir.path().join(DAMAGED)).unwrap(), text);
        }
    }

    #[test]
    fn what_was_stored_before_a_damaged_file_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let mut before = saved();
        for decisions in 1..4 {
            before.decisions = decisions;
            state.store(&before).unwrap();
        }
        let good = before.clone();
        before.decisions = 4;
        state.store(&before).unwrap();
        std::fs::write(state.file(), "{").unwrap();
        let Found::Damaged { before, .. } = state.load() else {
            panic!("garbage was read");
        };
        assert_eq!(before.as_deref(), Some(&good));
        // Not a state of another boot.
        let mut old = good;
        old.boot = "another".into();
        for _ in 0..2 {
            state.store(&old).unwrap();
        }
        std::fs::write(state.file(), "{").unwrap();
        assert!(matches!(state.load(), Found::Damaged { before: None, .. }));
    }

    #[test]
    fn a_link_in_the_place_of_the_file_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::fs::write(&elsewhere, "precious").unwrap();
        std::os::unix::fs::symlink(&elsewhere, dir.path().join(NEW)).unwrap();
        std::os::unix::fs::symlink(&elsewhere, state.file()).unwrap();
        assert!(matches!(state.load(), Found::Damaged { .. }));
        state.store(&saved()).unwrap();
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "precious");
    }
}
