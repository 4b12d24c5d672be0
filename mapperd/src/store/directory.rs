//! The directory in which the saved state is kept.
//!
//! The state is written after each decision that changed something, and now and then between. The new file replaces
//! the old one in one step, so that there is a complete file at any time.
//!
//! A file that cannot be read is renamed to `state.json.damaged`, so that the cause can be found, and the daemon
//! continues from `state.json.previous`, the state before. That lacks the last change; applications that have ended
//! since are found to have ended. If it cannot be read either, the daemon starts without.

use crate::store::saved::{Saved, VERSION, boot};
use crate::store::trusted_directory;
use crate::store::version1::SavedV1;
use anyhow::{Context, bail};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

const FILE: &str = "state.json";
const NEW: &str = "state.json.new";
const PREVIOUS: &str = "state.json.previous";
const DAMAGED: &str = "state.json.damaged";

/// The longest file: more than a thousand applications with all that can be learned about them should take.
const LONGEST: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) enum Found {
    Nothing,
    State(Box<Saved>),
    /// What was found cannot be read.
    Damaged {
        why: anyhow::Error,
        /// The state before, if that can be read.
        before: Option<Box<Saved>>,
    },
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

/// What the file begins with: the checksum of all that follows it.
const SUM: &str = "{\"crc32\":\"";

fn checksum(rest: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(rest))
}

/// Reads a state of any version. Versions 1 and 2 had no checksum.
pub(crate) fn parse(text: &str) -> anyhow::Result<Saved> {
    let sealed = text.strip_prefix(SUM).map(|rest| rest.split_at_checked(8));
    if let Some(sealed) = sealed
        && sealed.is_none_or(|(sum, rest)| checksum(rest.as_bytes()) != sum)
    {
        bail!("its checksum does not fit its contents");
    }
    let VersionOnly { version } = serde_json::from_str(text)?;
    match version {
        1 => Ok(serde_json::from_str::<SavedV1>(text)?.into()),
        VERSION if sealed.is_none() => bail!("it has no checksum"),
        2 | VERSION => Ok(Saved {
            version: VERSION,
            ..serde_json::from_str(text)?
        }),
        _ => bail!("it has version {version}, this mapperd reads versions 1 to {VERSION}"),
    }
}

#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    dir: OwnedFd,
}

impl StateDir {
    /// Opens the directory; creates it if it does not exist.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(path)
            .with_context(|| format!("create state directory {}", path.display()))?;
        // A user who can write there could make this daemon continue from any state.
        trusted_directory::check(path, "--state-dir")?;
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
                tracing::info!("the saved state is of an earlier boot and was ignored");
                Found::Nothing
            }
            Ok(Some(saved)) => Found::State(Box::new(saved)),
            Err(why) => {
                let dir = self.dir.as_fd();
                if let Err(error) = rustix::fs::renameat(dir, FILE, dir, DAMAGED) {
                    tracing::warn!("{} not set aside: {error}", self.file().display());
                }
                let before = self.read(PREVIOUS).ok().flatten();
                let before = before.filter(|saved| saved.boot == boot()).map(Box::new);
                // For the next daemon, if this one ends before it saves.
                if before.is_some()
                    && let Err(error) =
                        rustix::fs::linkat(dir, PREVIOUS, dir, FILE, AtFlags::empty())
                {
                    tracing::warn!("{} not replaced: {error}", self.file().display());
                }
                Found::Damaged { why, before }
            }
        }
    }

    fn read(&self, name: &str) -> anyhow::Result<Option<Saved>> {
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
        parse(&text).map(Some)
    }

    /// Puts a new state in the place of the old one.
    pub(crate) fn store(&self, saved: Saved<impl Serialize + Default>) -> anyhow::Result<Stored> {
        let dir = self.dir.as_fd();
        // A daemon that was killed may have left one, or another program created it.
        let _ = rustix::fs::unlinkat(dir, NEW, AtFlags::empty());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let named = || format!("write {}", self.path.join(NEW).display());
        let file =
            rustix::fs::openat(dir, NEW, flags, Mode::RUSR | Mode::WUSR).with_context(named)?;
        let mut file = File::from(file);
        let stored = write_within(&mut file, saved, LONGEST).with_context(named)?;
        // What did not fit was longer.
        if stored == Stored::WithoutHistory {
            let length = file.stream_position().with_context(named)?;
            file.set_len(length).with_context(named)?;
        }
        self.keep_previous();
        rustix::fs::renameat(dir, NEW, dir, FILE)
            .with_context(|| format!("replace {}", self.file().display()))?;
        Ok(stored)
    }

    /// Gives the present file a second name, under which it stays when it is replaced. Where that is not possible
    /// (a file system without links), the new state is worth more than the old one.
    fn keep_previous(&self) {
        let dir = self.dir.as_fd();
        let _ = rustix::fs::unlinkat(dir, PREVIOUS, AtFlags::empty());
        match rustix::fs::linkat(dir, FILE, dir, PREVIOUS, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => tracing::debug!("the state before is not kept: {error}"),
        }
    }
}

/// Writes the file's text, in `longest` bytes: what the controller remembers is left out if necessary, since promises and
/// processes matter more. Leaves the file at its end.
pub(crate) fn write_within<Learned: Serialize + Default>(
    mut file: impl Write + Seek,
    mut saved: Saved<Learned>,
    longest: u64,
) -> anyhow::Result<Stored> {
    if write_sealed(&mut file, &saved)? <= longest {
        return Ok(Stored::Whole);
    }
    saved.controller = Learned::default();
    let length = write_sealed(&mut file, &saved)?;
    if length > longest {
        bail!("it takes {length} bytes, the limit is {longest}");
    }
    Ok(Stored::WithoutHistory)
}

/// Writes the text as it comes, since all of it together takes much memory, and the checksum last. Returns the length.
fn write_sealed(mut file: impl Write + Seek, saved: &Saved<impl Serialize>) -> anyhow::Result<u64> {
    let start = format!("{SUM}{}", checksum(&[]));
    file.rewind()?;
    file.write_all(start.as_bytes())?;
    let mut text = BufWriter::with_capacity(BUFFER, Summed::new(&mut file));
    serde_json::to_writer(&mut text, saved).context("write state as JSON")?;
    text.flush()?;
    let sum = text.get_ref().sum.clone().finalize();
    drop(text);
    let length = file.stream_position()?;
    file.seek(SeekFrom::Start(SUM.len() as u64))?;
    file.write_all(format!("{sum:08x}").as_bytes())?;
    file.seek(SeekFrom::Start(length))?;
    Ok(length)
}

/// Bytes of the text that are written at a time.
const BUFFER: usize = 64 << 10;

/// An object that becomes the rest of one that begins with a checksum, and the checksum of that.
struct Summed<W> {
    to: W,
    sum: crc32fast::Hasher,
    begun: bool,
}

impl<W: Write> Summed<W> {
    fn new(to: W) -> Self {
        Self {
            to,
            sum: crc32fast::Hasher::new(),
            begun: false,
        }
    }

    fn pass_on(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.to.write_all(bytes)
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match bytes.strip_prefix(b"{") {
            Some(rest) if !std::mem::replace(&mut self.begun, true) => {
                self.pass_on(b"\",")?;
                self.pass_on(rest)?;
            }
            _ => self.pass_on(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stored {
    Whole,
    /// The whole file would be too long to be read again.
    WithoutHistory,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::app::{AppRecord, Standing};
    use crate::registry::origin::Origin;
    use crate::registry::process::Process;
    use crate::store::saved::{Ending, Progress, SavedApp};
    use mapper_control::schema::AdoptTarget;
    use mapper_model::{AppId, AppName, AppSpec};

    fn saved() -> Saved {
        let mut saved = Saved::new(Ending::Running, AppId(8), 17);
        let spec = AppSpec::named(AppName::new("fft").unwrap());
        let process = Process {
            pid: 11,
            started_ticks: 4,
        };
        let record = AppRecord::new(AppId(7), spec, Origin::Recovered, 1000, process, 0);
        saved.apps.push(SavedApp {
            record: AppRecord {
                command: "fft 3".into(),
                ..record
            },
            processes: serde_json::Value::Null,
            token: Some("00000000000000ab".into()),
            progress: Progress::Done,
        });
        saved
    }

    fn text_within(saved: &Saved, longest: u64) -> anyhow::Result<(Vec<u8>, Stored)> {
        let mut text = io::Cursor::new(Vec::new());
        let stored = write_within(&mut text, saved.clone(), longest)?;
        let length = usize::try_from(text.position())?;
        Ok((text.into_inner()[..length].to_vec(), stored))
    }

    #[test]
    fn a_stored_state_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("made")).unwrap();
        assert!(matches!(state.load(), Found::Nothing));
        for _ in 0..2 {
            state.store(saved()).unwrap();
        }
        assert!(matches!(state.load(), Found::State(found) if *found == saved()));
        let left: std::collections::BTreeSet<String> = std::fs::read_dir(dir.path().join("made"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(left, [FILE, PREVIOUS].map(str::to_owned).into());
    }

    #[test]
    fn a_state_that_is_too_long_is_written_without_history() {
        let mut long = saved();
        long.controller = "x".repeat(1000).into();
        let size = text_within(&long, LONGEST).unwrap().0.len() as u64;
        let (whole, stored) = text_within(&long, size).unwrap();
        assert_eq!((whole.len() as u64, stored), (size, Stored::Whole));
        let (less, stored) = text_within(&long, size - 1).unwrap();
        assert_eq!(stored, Stored::WithoutHistory);
        let read = parse(std::str::from_utf8(&less).unwrap()).unwrap();
        assert_eq!(read.apps, long.apps);
        assert!(read.controller.is_null());
        let error = text_within(&long, less.len() as u64 - 1).unwrap_err();
        assert!(error.to_string().contains("the limit is"), "{error}");
    }

    #[test]
    fn state_of_another_boot_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let mut old = saved();
        old.boot = "another".into();
        state.store(old.clone()).unwrap();
        assert!(matches!(state.load(), Found::Nothing));
    }

    #[test]
    fn a_damaged_file_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        state.store(saved()).unwrap();
        let whole = std::fs::read(state.file()).unwrap();
        for (text, says) in [
            (&whole[..whole.len() / 2], "checksum"),
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
    fn no_changed_byte_is_read_and_a_state_of_version_2_needs_no_checksum() {
        let (whole, _) = text_within(&saved(), LONGEST).unwrap();
        for place in 0..whole.len() {
            for change in [1, 2, 16] {
                let mut changed = whole.clone();
                changed[place] ^= change;
                let read = std::str::from_utf8(&changed).map(parse);
                let same = matches!(&read, Ok(Ok(read)) if *read == saved());
                let refused = !matches!(read, Ok(Ok(_)));
                let text = String::from_utf8_lossy(&changed);
                assert!(refused || same && place < SUM.len(), "{place}: {text}");
            }
        }
        let text = serde_json::to_string(&saved()).unwrap();
        assert!(parse(&text).unwrap_err().to_string().contains("checksum"));
        let old = text.replace("\"version\":3", "\"version\":2");
        assert_eq!(parse(&old).unwrap(), saved());
    }

    #[test]
    fn the_state_before_a_damaged_file_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let mut before = saved();
        for decisions in 1..4 {
            before.decisions = decisions;
            state.store(before.clone()).unwrap();
        }
        let good = before.clone();
        before.decisions = 4;
        state.store(before.clone()).unwrap();
        std::fs::write(state.file(), "{").unwrap();
        let Found::Damaged { before, .. } = state.load() else {
            panic!("garbage was read");
        };
        assert_eq!(before.as_deref(), Some(&good));
        // And again, if nothing was saved in between.
        assert!(matches!(state.load(), Found::State(found) if *found == good));
        // Not a state of another boot.
        let mut old = good;
        old.boot = "another".into();
        for _ in 0..2 {
            state.store(old.clone()).unwrap();
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
        state.store(saved()).unwrap();
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "precious");
    }

    #[test]
    fn a_state_of_version_1_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let old = include_str!("../../tests/fixtures/state-v1.json");
        std::fs::write(state.file(), old.replace("THIS-BOOT", &boot())).unwrap();
        let Found::State(saved) = state.load() else {
            panic!("not read");
        };
        assert_eq!((saved.next_app, saved.decisions), (AppId(4), 22));
        assert!(!saved.controller.is_null());
        let [launched, adopted, recovered] = &saved.apps[..] else {
            panic!("{:?}", saved.apps);
        };
        let launcher = Process {
            pid: 13200,
            started_ticks: 128165,
        };
        assert_eq!(launched.record.origin, Origin::Launched { launcher });
        assert_eq!(launched.record.standing, Standing::Managed);
        assert_eq!(launched.record.spec.qos.get(), 0.8);
        let planned = launched.record.planned.as_ref().unwrap();
        assert_eq!(planned.cpus.to_string(), "0");
        let account = launched.record.accounting.account();
        assert_eq!(account.used_cpu_ns, Some(1_345_381));
        assert_eq!(launched.processes["members"]["13203"], 128166);
        let adoption = adopted.record.origin.adoption().unwrap();
        assert_eq!(adoption.target, AdoptTarget::Pid(13201));
        assert_eq!(adopted.record.own_mask, Some("0-1".parse().unwrap()));
        assert_eq!(recovered.record.origin, Origin::Recovered);
        let operator = Standing::LeftToOperator("1".parse().unwrap());
        assert_eq!(recovered.record.standing, operator);
        assert_eq!(recovered.token.as_deref(), Some("00000000000000ab"));
        // What is written again has the new version.
        state.store((*saved).clone()).unwrap();
        assert!(matches!(state.load(), Found::State(again) if again == saved));
    }
}
