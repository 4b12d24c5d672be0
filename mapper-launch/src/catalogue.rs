//! Results of checks of programs on this machine: which team modes are safe, which is fastest.
//!
//! One JSON file for each program file, named by its build id, in `$XDG_STATE_HOME/mapper/teams`, with one entry for
//! each set of libraries and each build of the shim that it was checked with. A new file is renamed over the old one, so that readers need no lock;
//! writers take turns by a lock on `.lock` in the folder. What cannot be read counts as not checked.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::Context;
use mapper_manual::wording;
use mapper_model::TeamMode;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};
use serde::{Deserialize, Serialize};

use crate::identity::{FileId, Identity};

/// Checks of one program with so many builds of the shim are kept.
const SHIMS: usize = 4;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) identity: Identity,
    /// The shim that it was checked with: another one may serve other programs, or serve them in another way. Versions before
    /// 2026-12-01 wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shim: Option<FileId>,
    /// The command it was checked with, for people who read the file.
    pub(crate) command: Vec<String>,
    pub(crate) safe: Vec<TeamMode>,
    /// The fastest of them on one CPU, by more than the noise; `fixed` if none is.
    pub(crate) fastest: TeamMode,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Advice {
    Teams(TeamMode),
    /// No runtime interface: the program failed with it in every mode.
    NoRuntime,
}

impl Entry {
    /// With the shim that it was checked with.
    pub(crate) fn advice(&self) -> Advice {
        match self.safe.is_empty() {
            true => Advice::NoRuntime,
            false => Advice::Teams(self.fastest),
        }
    }

    /// With another shim. What has failed may fail again; nothing follows from what was safe or fast.
    pub(crate) fn caution(&self) -> Option<Advice> {
        let was_safe = |mode| self.safe.contains(&mode);
        match (was_safe(TeamMode::Fixed), was_safe(TeamMode::Virtual)) {
            (false, _) => Some(Advice::NoRuntime),
            (true, false) => Some(Advice::Teams(TeamMode::Fixed)),
            (true, true) => None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("record {} is damaged ({why}); run {} --check-teams again, or remove it", file.display(), wording::launch())]
pub(crate) struct DamagedRecord {
    file: PathBuf,
    why: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    folder: PathBuf,
}

impl Catalogue {
    /// The catalogue below `state_home` (`$XDG_STATE_HOME`), or else below `home` (`$HOME`).
    pub(crate) fn of_user(state_home: Option<&OsStr>, home: Option<&OsStr>) -> Option<Self> {
        let set =
            |value: Option<&OsStr>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
        let state = set(state_home)
            // The specification: relative paths are to be ignored.
            .filter(|path| path.is_absolute())
            .or_else(|| Some(set(home)?.join(".local/state")))?;
        Some(Self {
            folder: state.join("mapper/teams"),
        })
    }

    /// Whether there is a record of this program, with whatever libraries; asked first, since listing those takes time.
    pub(crate) fn knows(&self, program: &Path) -> bool {
        self.folder.is_dir() && FileId::of(program).is_ok_and(|id| self.file(&id).exists())
    }

    fn file(&self, program: &FileId) -> PathBuf {
        self.folder.join(format!("{}.json", program.as_str()))
    }

    fn entries(file: PathBuf) -> Result<Vec<Entry>, DamagedRecord> {
        let read = match fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.to_string()),
        };
        read.map_err(|why| DamagedRecord { file, why })
    }

    /// The check with this shim, or else the last one with another.
    pub(crate) fn find(
        &self,
        identity: &Identity,
        shim: &FileId,
    ) -> Result<Option<Entry>, DamagedRecord> {
        let entries = Self::entries(self.file(&identity.program))?.into_iter();
        let entries = entries.filter(|entry| entry.identity == *identity);
        Ok(entries.max_by_key(|entry| entry.shim.as_ref() == Some(shim)))
    }

    /// The right to write, until it is dropped; waits for other writers, each of which writes a small file.
    fn turn(&self) -> io::Result<File> {
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.folder.join(".lock"))?;
        match retry_on_intr(|| flock(&lock, FlockOperation::LockExclusive)) {
            // On a file system without locks an entry may be lost in a race; with an error this one surely is.
            Ok(()) | Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(lock),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn record(&self, entry: Entry) -> anyhow::Result<PathBuf> {
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("create {}", self.folder.display()))?;
        let _turn = self
            .turn()
            .with_context(|| format!("lock {}", self.folder.join(".lock").display()))?;
        let file = self.file(&entry.identity.program);
        // What cannot be read is useless.
        let mut entries = Self::entries(file.clone()).unwrap_or_default();
        let keys = |entry: &Entry| (entry.identity.clone(), entry.shim.clone());
        let same = |other: &Entry| other.identity == entry.identity;
        entries.retain(|other| keys(other) != keys(&entry));
        // The oldest checks go.
        while entries.iter().filter(|other| same(other)).count() >= SHIMS
            && let Some(oldest) = entries.iter().position(same)
        {
            entries.remove(oldest);
        }
        entries.push(entry);
        let text = serde_json::to_string_pretty(&entries).context("write the entry as JSON")?;
        let aside = file.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&aside, text + "\n")
            .and_then(|()| fs::rename(&aside, &file))
            .with_context(|| format!("write {}", file.display()))?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn shim(build: usize) -> FileId {
        FileId::named(&format!("{build:02x}"))
    }

    fn entry(argument: &str, fastest: TeamMode) -> Entry {
        Entry {
            identity: Identity::of(Path::new("/bin/sh"), &[argument.into()]).unwrap(),
            shim: Some(shim(1)),
            command: vec!["sh".to_owned()],
            safe: vec![TeamMode::Fixed, fastest],
            fastest,
        }
    }

    #[test]
    fn what_is_recorded_is_found_again_for_this_program_only() {
        let folder = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::of_user(Some(folder.path().as_os_str()), None).unwrap();
        let (first, second) = (entry("a", TeamMode::Virtual), entry("b", TeamMode::Follow));
        assert_eq!(catalogue.find(&first.identity, &shim(1)).unwrap(), None);
        catalogue.record(first.clone()).unwrap();
        let file = catalogue.record(second.clone()).unwrap();
        assert!(file.starts_with(folder.path().join("mapper/teams")));
        let found = |entry: &Entry| catalogue.find(&entry.identity, &shim(1)).unwrap();
        assert_eq!(found(&first), Some(first.clone()));
        let again = entry("a", TeamMode::Fixed);
        catalogue.record(again.clone()).unwrap();
        assert_eq!(found(&first), Some(again));
        assert_eq!(found(&second), Some(second.clone()));
        fs::write(&file, "not json").unwrap();
        let shown = catalogue
            .find(&first.identity, &shim(1))
            .unwrap_err()
            .to_string();
        let name = file.display().to_string();
        assert!(
            shown.contains("damaged") && shown.contains(&name),
            "{shown}"
        );
        catalogue.record(second.clone()).unwrap();
        assert_eq!(found(&second), Some(second));
    }

    #[test]
    fn of_several_builds_of_the_shim_the_check_with_this_one_counts_or_else_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::of_user(Some(folder.path().as_os_str()), None).unwrap();
        let checked = |build: usize| Entry {
            shim: Some(shim(build)),
            ..entry("a", TeamMode::Virtual)
        };
        let other = entry("b", TeamMode::Virtual);
        catalogue.record(other.clone()).unwrap();
        for build in 1..=SHIMS + 1 {
            catalogue.record(checked(build)).unwrap();
        }
        let found = |identity: &Identity, build| catalogue.find(identity, &shim(build)).unwrap();
        let last = SHIMS + 1;
        for (build, counts) in [(2, 2), (last, last), (1, last), (last + 1, last)] {
            assert_eq!(found(&other.identity, build).as_ref(), Some(&other));
            let found = found(&checked(build).identity, build);
            assert_eq!(found, Some(checked(counts)), "{build}");
        }
    }

    #[test]
    fn of_a_check_with_another_shim_only_what_failed_counts() {
        use TeamMode::{Fixed, Follow, Virtual};
        for (safe, caution) in [
            (vec![], Some(Advice::NoRuntime)),
            (vec![Follow], Some(Advice::NoRuntime)),
            (vec![Virtual], Some(Advice::NoRuntime)),
            (vec![Fixed, Follow], Some(Advice::Teams(Fixed))),
            (vec![Fixed, Virtual], None),
        ] {
            let entry = Entry {
                safe,
                ..entry("a", Follow)
            };
            assert_eq!(entry.caution(), caution, "{:?}", entry.safe);
        }
    }

    #[test]
    fn checks_that_end_in_the_same_instant_are_all_recorded() {
        const AT_ONCE: usize = 16;
        let folder = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::of_user(Some(folder.path().as_os_str()), None).unwrap();
        let entries: Vec<Entry> = (0..AT_ONCE)
            .map(|number| entry(&number.to_string(), TeamMode::Virtual))
            .collect();
        let start = std::sync::Barrier::new(AT_ONCE);
        std::thread::scope(|scope| {
            for entry in &entries {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..8 {
                        catalogue.record(entry.clone()).unwrap();
                    }
                });
            }
        });
        for entry in &entries {
            let found = catalogue.find(&entry.identity, &shim(1)).unwrap();
            assert_eq!(found.as_ref(), Some(entry));
        }
    }

    #[test]
    fn the_folder_is_where_the_desktop_specification_wants_it() {
        let folder = |state: Option<&str>, home: Option<&str>| {
            Catalogue::of_user(state.map(OsStr::new), home.map(OsStr::new)).map(|c| c.folder)
        };
        let in_state = Some("/s/mapper/teams".into());
        assert_eq!(folder(Some("/s"), Some("/h")), in_state);
        let at_home = Some("/h/.local/state/mapper/teams".into());
        assert_eq!(folder(Some(""), Some("/h")), at_home);
        assert_eq!(folder(Some("rel"), Some("/h")), at_home);
        assert_eq!(folder(None, None), None);
    }
}
