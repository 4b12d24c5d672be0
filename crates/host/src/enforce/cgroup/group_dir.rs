//! One control group as an open directory.
//!
//! The daemon is root and writes below directories that others may rename, remove or fill meanwhile. So a group is
//! opened once, beneath a directory that is open already (`openat2`; where systemd's `RestrictSUIDSGID=` forbids that,
//! part by part), without following links, and its files relative to that descriptor. A group that was made anew under
//! the same name is another one, and is not written to.

use super::apart::Changes;
use super::asked::Change;
use crate::HostError;
use mapper_model::CpuSet;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const LONGEST: u64 = 16 << 20;
pub(super) const DEPTH: u32 = 8;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

pub(super) const GROUP_MODE: Mode = Mode::from_raw_mode(0o755);

/// How files are opened to be written. The kernel's files exist; the plain ones in tests have to be made.
const WRITE: OFlags = if cfg!(test) {
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::TRUNC)
} else {
    OFlags::WRONLY
};

/// An open group. The path is for messages and for its name alone.
#[derive(Debug)]
pub(super) struct GroupDir {
    dir: Arc<OwnedFd>,
    path: PathBuf,
    changes: Changes,
}

/// Of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    /// Another one after the group was removed and made again.
    pub(super) inode: u64,
    pub(super) owner: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Removed {
    Yes,
    StillPopulated,
}

impl GroupDir {
    /// The directory that everything else is beneath: named by the operator, or a mount.
    pub(super) fn open(path: &Path) -> Result<Self, HostError> {
        Self::open_with(path, Changes::new())
    }

    /// Another such directory, whose changes are made as here.
    pub(super) fn open_another(&self, path: &Path) -> Result<Self, HostError> {
        Self::open_with(path, self.changes.clone())
    }

    fn open_with(path: &Path, changes: Changes) -> Result<Self, HostError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty());
        let dir = dir.map_err(|errno| HostError::file("open", path, errno.into()))?;
        Ok(Self {
            dir: Arc::new(dir),
            path: path.to_owned(),
            changes,
        })
    }

    pub(super) fn beneath(&self, relative: &Path) -> Result<Self, HostError> {
        let dir = self.open_beneath(relative, OFlags::DIRECTORY | OFlags::RDONLY)?;
        Ok(Self {
            dir: Arc::new(dir),
            path: self.path.join(relative),
            changes: self.changes.clone(),
        })
    }

    pub(super) fn make(&self, name: &str) -> Result<Self, HostError> {
        let (dir, new) = (Arc::clone(&self.dir), name.to_owned());
        self.change("create", name, "", move || {
            Ok(rustix::fs::mkdirat(dir.as_fd(), new, GROUP_MODE)?)
        })?;
        self.beneath(Path::new(name))
    }

    pub(super) fn make_or_open(&self, name: &str) -> Result<Self, HostError> {
        match self.beneath(Path::new(name)) {
            Err(error) if error.errno() == Some(Errno::NOENT) => self.make(name),
            opened => opened,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn identity(&self) -> Result<Identity, HostError> {
        let stat = rustix::fs::fstat(self.dir.as_fd());
        let stat = stat.map_err(|errno| HostError::file("look at", &self.path, errno.into()))?;
        Ok(Identity {
            inode: stat.st_ino,
            owner: stat.st_uid,
        })
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn open_beneath(&self, relative: &Path, flags: OFlags) -> Result<OwnedFd, HostError> {
        let mode = match flags.contains(OFlags::CREATE) {
            true => Mode::from_raw_mode(0o600),
            false => Mode::empty(),
        };
        /// Whether the kernel has no such call, or a filter forbids it.
        static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);
        let flags = flags | OFlags::CLOEXEC;
        let opened = loop {
            if IS_FORBIDDEN.load(Ordering::Relaxed) {
                break step_by_step(self.dir.as_fd(), relative, flags, mode);
            }
            match rustix::fs::openat2(self.dir.as_fd(), relative, flags, mode, BENEATH) {
                // The kernel asks to try again when something was renamed meanwhile.
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::NOSYS) => IS_FORBIDDEN.store(true, Ordering::Relaxed),
                opened => break opened,
            }
        };
        opened.map_err(|errno| HostError::file("open", self.path.join(relative), errno.into()))
    }

    pub(super) fn open_file(&self, name: &str) -> Result<OwnedFd, HostError> {
        self.open_beneath(Path::new(name), OFlags::RDONLY)
    }

    pub(super) fn read(&self, name: &str) -> Result<String, HostError> {
        let file = File::from(self.open_file(name)?);
        let mut text = String::new();
        file.take(LONGEST)
            .read_to_string(&mut text)
            .map_err(|source| HostError::file("read", self.file(name), source))?;
        Ok(text)
    }

    /// The numbers that begin a list of them, one a line, at most so many. The kernel makes no more of it than is read.
    pub(super) fn numbers(&self, name: &str, most: usize) -> Result<Vec<u32>, HostError> {
        let mut file = File::from(self.open_file(name)?);
        let (mut numbers, mut rest, mut buffer) = (Vec::new(), Vec::new(), [0; 4096]);
        while numbers.len() < most {
            let read = file
                .read(&mut buffer)
                .map_err(|source| HostError::file("read", self.file(name), source))?;
            rest.extend_from_slice(&buffer[..read]);
            let whole = match read {
                0 => rest.len(),
                _ => rest.iter().rposition(|b| *b == b'\n').map_or(0, |b| b + 1),
            };
            let text: Vec<u8> = rest.drain(..whole).collect();
            let text = String::from_utf8_lossy(&text);
            numbers.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
            if read == 0 {
                break;
            }
        }
        numbers.truncate(most);
        Ok(numbers)
    }

    pub(super) fn read_cpus(&self, name: &str) -> Result<CpuSet, HostError> {
        let text = self.read(name)?;
        text.parse().map_err(|_| {
            let what = "expected a CPU list such as 0-3,8";
            HostError::malformed(&self.file(name), what, text.as_bytes())
        })
    }

    /// Writes a value with one system call, as the kernel's files want it.
    pub(super) fn write(&self, name: &str, value: &str) -> Result<(), HostError> {
        let mut file = File::from(self.open_beneath(Path::new(name), WRITE)?);
        let bytes = value.to_owned();
        self.change("write", name, value, move || {
            file.write_all(bytes.as_bytes())
        })
    }

    /// Makes a change to one of its files, or to a group in it.
    pub(super) fn change(
        &self,
        action: &'static str,
        name: &str,
        value: &str,
        make: impl FnOnce() -> std::io::Result<()> + Send + 'static,
    ) -> Result<(), HostError> {
        let change = Change {
            action,
            value,
            path: self.file(name),
        };
        self.changes.make(&change, make)
    }

    pub(super) const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The open directory itself, for a change.
    pub(super) fn shared(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.dir)
    }

    pub(super) fn names_below(&self) -> Vec<String> {
        let mut names = Vec::new();
        // A descriptor of its own: the position in the list belongs to the open file.
        let Ok(dir) = self.open_beneath(Path::new("."), OFlags::DIRECTORY | OFlags::RDONLY) else {
            return names;
        };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(&dir, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            if entry.file_type() == rustix::fs::FileType::Directory
                && let Ok(name) = entry.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        names
    }

    pub(super) fn groups_below(&self) -> impl Iterator<Item = Self> {
        let names = self.names_below().into_iter();
        names.filter_map(|name| self.beneath(Path::new(&name)).ok())
    }

    pub(super) fn is_populated(&self) -> Result<Populated, HostError> {
        let text = self.read("cgroup.events")?;
        let message = |line: &str| line.strip_prefix("populated ").map(str::to_owned);
        match text.lines().find_map(message).as_deref() {
            Some("0") => Ok(Populated::No),
            Some("1") => Ok(Populated::Yes),
            _ => Err(HostError::malformed(
                &self.file("cgroup.events"),
                "expected populated 0 or 1",
                text.as_bytes(),
            )),
        }
    }

    pub(super) fn remove_if_empty(&self, name: &str) -> Result<Removed, HostError> {
        let group = self.beneath(Path::new(name));
        match group.and_then(|group| group.is_populated()) {
            Ok(Populated::Yes) => return Ok(Removed::StillPopulated),
            Ok(Populated::No) => {}
            Err(error) if error.is_gone() => return Ok(Removed::Yes),
            Err(error) => return Err(error),
        }
        self.remove_tree(name, DEPTH)
    }

    pub(super) fn remove_tree(&self, name: &str, depth: u32) -> Result<Removed, HostError> {
        if depth > 0
            && let Ok(group) = self.beneath(Path::new(name))
        {
            for below in group.names_below() {
                group.remove_tree(&below, depth - 1)?;
            }
        }
        let (dir, gone) = (self.shared(), name.to_owned());
        let removed = self.change("remove", name, "", move || {
            Ok(rustix::fs::unlinkat(dir.as_fd(), gone, AtFlags::REMOVEDIR)?)
        });
        match removed {
            Ok(()) => Ok(Removed::Yes),
            Err(error) if error.errno() == Some(Errno::NOENT) => Ok(Removed::Yes),
            Err(error) if error.errno() == Some(Errno::BUSY) => Ok(Removed::StillPopulated),
            Err(error) => Err(error),
        }
    }

    /// Who owns one of its files: a delegatee owns the directory and a few files, not those that set limits.
    pub(super) fn owner_of(&self, name: &str) -> Result<u32, HostError> {
        let stat = rustix::fs::fstat(self.open_file(name)?);
        let stat =
            stat.map_err(|errno| HostError::file("look at", self.file(name), errno.into()))?;
        Ok(stat.st_uid)
    }

    /// Checks that one of its files can be opened to be written, without writing anything.
    pub(super) fn may_write(&self, name: &str) -> Result<(), HostError> {
        self.open_beneath(Path::new(name), OFlags::WRONLY).map(drop)
    }

    /// Whether systemd has marked it as another's to divide (`Delegate=`).
    pub(super) fn is_delegated(&self) -> bool {
        ["trusted.delegate", "user.delegate"].iter().any(|name| {
            let mut value = [0u8; 8];
            rustix::fs::fgetxattr(&self.dir, *name, &mut value[..])
                .is_ok_and(|length| value.get(..length) == Some(b"1"))
        })
    }
}

/// What `openat2` does with [`BENEATH`], without it: no part of the path may be a link or lead up.
fn step_by_step(
    start: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let mut parts = Vec::new();
    for part in relative.components() {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::CurDir => {}
            _ => return Err(Errno::XDEV),
        }
    }
    let flags = flags | OFlags::NOFOLLOW;
    let Some((last, dirs)) = parts.split_last() else {
        return rustix::fs::openat(start, ".", flags, mode);
    };
    let between = OFlags::DIRECTORY | OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut reached: Option<OwnedFd> = None;
    for dir in dirs {
        let from = reached.as_ref().map_or(start, AsFd::as_fd);
        reached = Some(rustix::fs::openat(from, *dir, between, Mode::empty())?);
    }
    let from = reached.as_ref().map_or(start, AsFd::as_fd);
    rustix::fs::openat(from, *last, flags, mode)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Populated {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_outside_is_reached_by_a_link_or_by_dots() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("root/group")).unwrap();
        fs::write(place.path().join("secret"), "1").unwrap();
        let root = GroupDir::open(&place.path().join("root")).unwrap();
        let group = root.beneath(Path::new("group")).unwrap();
        for (name, target) in [("up", "../../secret"), ("far", "/etc/passwd")] {
            symlink(target, place.path().join("root/group").join(name)).unwrap();
            assert!(group.read(name).is_err(), "{name} was followed");
            assert!(group.write(name, "2").is_err(), "{name} was followed");
        }
        symlink("..", place.path().join("root/dir")).unwrap();
        assert!(root.beneath(Path::new("dir")).is_err());
        assert!(root.beneath(Path::new("..")).is_err());
        assert!(root.beneath(Path::new("/etc")).is_err());
        assert_eq!(fs::read(place.path().join("secret")).unwrap(), b"1");
    }

    #[test]
    fn without_openat2_the_same_is_refused_and_the_same_is_opened() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("root/a/b")).unwrap();
        fs::write(place.path().join("root/a/b/file"), "1").unwrap();
        symlink("../..", place.path().join("root/a/up")).unwrap();
        symlink("file", place.path().join("root/a/b/link")).unwrap();
        let root = GroupDir::open(&place.path().join("root")).unwrap();
        let open = |path: &str| {
            let read = OFlags::RDONLY | OFlags::CLOEXEC;
            step_by_step(root.dir.as_fd(), Path::new(path), read, Mode::empty())
        };
        for path in [".", "a", "a/b", "a/./b/file"] {
            let message = open(path).map(drop);
            assert_eq!(message, Ok(()), "{path}");
            assert!(root.open_beneath(Path::new(path), OFlags::RDONLY).is_ok());
        }
        for path in [
            "..",
            "a/../..",
            "/etc",
            "a/up",
            "a/up/root",
            "a/b/link",
            "no",
        ] {
            assert!(open(path).is_err(), "{path}");
            assert!(root.open_beneath(Path::new(path), OFlags::RDONLY).is_err());
        }
    }

    #[test]
    fn a_group_that_was_made_anew_is_another_one() {
        let place = tempfile::tempdir().unwrap();
        let root = GroupDir::open(place.path()).unwrap();
        let first = root.make("app-1").unwrap();
        fs::remove_dir(place.path().join("app-1")).unwrap();
        let second = root.make("app-1").unwrap();
        assert!(first.write("cpuset.cpus", "1").unwrap_err().is_gone());
        second.write("cpuset.cpus", "2").unwrap();
        assert_eq!(second.read("cpuset.cpus").unwrap(), "2");
        assert!(root.make("app-1").is_err());
    }
}
