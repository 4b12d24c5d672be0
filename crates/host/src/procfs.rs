//! Small, bounded readers of `/proc` (`proc(5)`), or of any directory that looks like it.
//!
//! A process chooses its own name, ends while it is being read, and its number may be used again. So each file is read
//! in one go into a buffer of fixed size, fields are found from the end of the process name, and every number comes
//! with the start time that tells a reused number from the process that had it before.

use crate::HostError;
use mapper_model::{CpuId, CpuSet, ThreadId};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The longest file that is read: `stat` and `status` of a process are well below it.
const LONGEST: usize = 8192;

/// Where the kernel's list of processes has the process 0: the place of a process is this and its number
/// (`TGID_OFFSET` in fs/proc/base.c).
const BEFORE_PIDS: u64 = 258;

/// Where its list of the threads of a process begins, after `.` and `..`.
const BEFORE_THREADS: u64 = 2;

/// A `/proc` file system.
#[derive(Debug)]
pub struct ProcFs {
    root: PathBuf,
    dir: OwnedFd,
    numbers: Numbers,
}

/// Whose processes its numbers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Numbers {
    /// Those of this system.
    OfTheSystem,
    /// Those of a directory that looks like it.
    OfADirectory,
}

/// What `/proc/<pid>/stat` says of a process or thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessStat {
    /// Its number.
    pub pid: u32,
    /// Its parent, 0 for none.
    pub parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// `R`, `S`, `Z` and so on.
    pub state: char,
    /// When it started, in clock ticks since boot: tells apart processes that had the same number.
    pub started_ticks: u64,
    /// How many threads the process has.
    pub threads: u32,
    pub(crate) kind: TaskKind,
    pub(crate) cpu: CpuId,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TaskKind {
    Process,
    /// A further thread. `/proc` does not list it, but opens it.
    Thread,
}

/// What the kernel lists as the children of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Children {
    Known(Vec<u32>),
    /// There are more than were to be read, or the process has more threads.
    TooMany,
    /// The process has ended, or the kernel keeps no such lists (`CONFIG_PROC_CHILDREN`).
    Unknown,
}

impl ProcessStat {
    /// Whether it has ended and its parent has not noticed. One whose first thread has ended while others run is not.
    #[must_use]
    pub const fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads <= 1
    }
}

#[cfg(test)]
impl ProcessStat {
    /// One that sleeps, of a group and session that are not its own.
    pub(crate) fn sleeping(pid: u32, parent: u32) -> Self {
        Self {
            pid,
            parent,
            group: 5,
            session: 5,
            state: 'S',
            started_ticks: u64::from(pid),
            threads: 1,
            kind: TaskKind::Process,
            cpu: CpuId(0),
        }
    }
}

/// The two user ids that matter for permission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uids {
    /// Of the user who started it.
    pub real: u32,
    /// Of the user on whose behalf it acts.
    pub effective: u32,
}

impl ProcFs {
    /// The system's `/proc`; an error if it is not mounted.
    pub fn system() -> Result<Self, HostError> {
        Self::open_at("/proc".into(), Numbers::OfTheSystem)
    }

    /// A directory that looks like `/proc`.
    pub fn at(root: impl Into<PathBuf>) -> Result<Self, HostError> {
        Self::open_at(root.into(), Numbers::OfADirectory)
    }

    fn open_at(root: PathBuf, numbers: Numbers) -> Result<Self, HostError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        match rustix::fs::open(&root, flags, Mode::empty()) {
            Ok(dir) => Ok(Self { root, dir, numbers }),
            Err(errno) => Err(HostError::file("open", root, errno.into())),
        }
    }

    // Of a process that does not exist, each of these is an error for which `HostError::is_gone` holds.

    /// What `stat` says of a process.
    pub fn stat(&self, pid: u32) -> Result<ProcessStat, HostError> {
        self.read(&format!("{pid}/stat"), |text, path| {
            parse_stat(text).ok_or_else(|| HostError::malformed(path, "expected proc stat", text))
        })
    }

    /// What `stat` says of a thread. Unlike [`stat`](Self::stat) this does not sum up what all threads of its process used,
    /// so that one of thousands takes no longer.
    pub(crate) fn thread_stat(&self, thread: ThreadId) -> Result<ProcessStat, HostError> {
        self.read(&format!("{0}/task/{0}/stat", thread.0), |text, path| {
            parse_stat(text).ok_or_else(|| HostError::malformed(path, "expected proc stat", text))
        })
    }

    /// The CPUs a process or thread may use, as the kernel reports them.
    pub fn cpus_allowed(&self, pid: u32) -> Result<CpuSet, HostError> {
        self.status_field(pid, "Cpus_allowed_list:", |value| value.parse().ok())
    }

    /// The user ids of a process.
    pub fn uids(&self, pid: u32) -> Result<Uids, HostError> {
        self.status_field(pid, "Uid:", |value| {
            let mut ids = value.split_ascii_whitespace().map(str::parse);
            Some(Uids {
                real: ids.next()?.ok()?,
                effective: ids.next()?.ok()?,
            })
        })
    }

    /// The highest real-time priority that a process may ask for, and those that it starts; 0 if none.
    pub fn most_real_time_priority(&self, pid: u32) -> Result<u32, HostError> {
        self.read(&format!("{pid}/limits"), |text, path| {
            let limit = String::from_utf8_lossy(text).lines().find_map(|line| {
                let mut limits = line
                    .strip_prefix("Max realtime priority")?
                    .split_whitespace();
                // The soft one, which it may raise, and the hard one.
                match limits.nth(1)? {
                    "unlimited" => Some(u32::MAX),
                    hard => hard.parse().ok(),
                }
            });
            limit.ok_or_else(|| {
                HostError::malformed(path, "expected a limit of the realtime priority", text)
            })
        })
    }

    /// Whose the directory of a process is: its effective user's, or root's if it cannot be traced. Takes less than reading
    /// a file there.
    pub(crate) fn owner(&self, pid: u32) -> Option<u32> {
        let name = pid.to_string();
        self.check_exists(&name).ok()?;
        let found = rustix::fs::statat(&self.dir, name, AtFlags::empty());
        found.ok().map(|found| found.st_uid)
    }

    /// The name of a process (`comm`), which it can choose itself.
    pub fn command(&self, pid: u32) -> Result<String, HostError> {
        self.read(&format!("{pid}/comm"), |text, _| {
            Ok(String::from_utf8_lossy(text).trim_end().to_owned())
        })
    }

    /// The control group (version 2) of a process, as a path below the mount that begins with a slash.
    pub fn cgroup(&self, pid: u32) -> Result<String, HostError> {
        self.read(&format!("{pid}/cgroup"), |text, path| {
            let text = String::from_utf8_lossy(text);
            text.lines()
                .find_map(|line| line.strip_prefix("0::").map(str::to_owned))
                .ok_or_else(|| {
                    HostError::malformed(path, "expected a line 0::/PATH", text.as_bytes())
                })
        })
    }

    /// Whether two processes run the same executable; false if unknown. Compares the paths and never the files: a file
    /// system that does not answer (a user's FUSE, NFS) must not stop the caller.
    #[must_use]
    pub(crate) fn same_program(&self, one: u32, other: u32) -> bool {
        let path = |pid: u32| {
            let name = format!("{pid}/exe");
            self.check_exists(&name).ok()?;
            rustix::fs::readlinkat(self.dir.as_fd(), name, Vec::new()).ok()
        };
        path(one).is_some_and(|this| path(other) == Some(this))
    }

    /// The number of the newest process or thread. While it does not change, none has been started.
    pub(crate) fn newest_pid(&self) -> Result<u32, HostError> {
        self.read("loadavg", |text, path| {
            std::str::from_utf8(text)
                .ok()
                .and_then(|t| t.split_ascii_whitespace().nth(4)?.parse().ok())
                .ok_or_else(|| HostError::malformed(path, "expected a pid as fifth field", text))
        })
    }

    pub(crate) fn pids(&self) -> Result<Vec<u32>, HostError> {
        let mut pids = Vec::with_capacity(256);
        self.numbers(".", &mut |pid| pids.push(pid))?;
        Ok(pids)
    }

    /// The numbers of processes above this one, ascending, at most so many.
    pub(crate) fn pids_above(&self, pid: u32, most: usize) -> Result<Vec<u32>, HostError> {
        let at = BEFORE_PIDS + u64::from(pid) + 1;
        // The list may begin at this process itself: counted, it would make a list seem to end that does not.
        self.numbers_from(".", at, pid, most)
    }

    /// The threads of a process from the one at this place on, at most so many. While threads end, places change.
    pub fn threads_from(
        &self,
        pid: u32,
        place: usize,
        most: usize,
    ) -> Result<Vec<ThreadId>, HostError> {
        let at = BEFORE_THREADS + place as u64;
        let threads = self.numbers_from(&format!("{pid}/task"), at, 0, most)?;
        Ok(threads.into_iter().map(ThreadId).collect())
    }

    /// The children of a process, ended ones too, if it has at most so many threads and children. While some are reaped, the
    /// kernel may leave out others.
    pub(crate) fn children(&self, pid: u32, most: usize) -> Result<Children, HostError> {
        let threads = match self.threads_from(pid, 0, most.saturating_add(1)) {
            Err(error) if error.is_gone() => return Ok(Children::Unknown),
            threads => threads?,
        };
        if threads.len() > most {
            return Ok(Children::TooMany);
        }
        let mut children = Vec::new();
        for ThreadId(thread) in &threads {
            let name = format!("{pid}/task/{thread}/children");
            let list = match self.open(&name, OFlags::empty()) {
                Err(error) if error.is_gone() && *thread == pid => return Ok(Children::Unknown),
                // Only this thread has ended.
                Err(error) if error.is_gone() => continue,
                list => list?,
            };
            read_numbers(&list, &mut children, most)
                .map_err(|errno| self.failed("read", &name, errno))?;
            if children.len() > most {
                return Ok(Children::TooMany);
            }
        }
        Ok(match threads.is_empty() {
            true => Children::Unknown,
            false => Children::Known(children),
        })
    }

    /// Whether a thread runs or waits for a CPU.
    pub fn is_runnable(&self, thread: ThreadId) -> bool {
        self.thread_stat(thread).is_ok_and(|stat| stat.state == 'R')
    }

    #[must_use]
    pub(crate) fn stats(&self, pids: &[u32]) -> Vec<ProcessStat> {
        pids.iter().filter_map(|pid| self.stat(*pid).ok()).collect()
    }

    /// What `stat` says of every process, in no particular order, except those that end meanwhile.
    pub fn processes(&self) -> Result<Vec<ProcessStat>, HostError> {
        Ok(self.stats(&self.pids()?))
    }

    fn status_field<T>(
        &self,
        pid: u32,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, HostError> {
        self.read(&format!("{pid}/status"), |text, path| {
            String::from_utf8_lossy(text)
                .lines()
                .find_map(|line| parse(line.strip_prefix(name)?.trim()))
                .ok_or_else(|| {
                    HostError::malformed(path, "expected the fields of proc status", text)
                })
        })
    }

    fn read<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&[u8], &Path) -> Result<T, HostError>,
    ) -> Result<T, HostError> {
        let file = self.open(name, OFlags::empty())?;
        let mut buffer = [0u8; LONGEST];
        match rustix::io::read(&file, &mut buffer) {
            Ok(length) => parse(&buffer[..length], &self.root.join(name)),
            Err(errno) => Err(self.failed("read", name, errno)),
        }
    }

    fn open(&self, name: &str, flags: OFlags) -> Result<OwnedFd, HostError> {
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
        self.check_exists(name)
            .and_then(|()| rustix::fs::openat(self.dir.as_fd(), name, flags, Mode::empty()))
            .map_err(|errno| self.failed("open", name, errno))
    }

    /// Opening a file of an ended process or thread makes the kernel drop its cached directory. If the ending thread is doing
    /// that already and gets no CPU, a kernel before Linux 7.1 loops until it is done, for seconds. So this asks first whether
    /// each number is in use. A thread that ends between the two calls can still cause it.
    fn check_exists(&self, name: &str) -> rustix::io::Result<()> {
        if self.numbers == Numbers::OfADirectory {
            return Ok(());
        }
        let numbers = name.split('/').filter_map(|part| part.parse().ok());
        for number in numbers.filter_map(Pid::from_raw) {
            if test_kill_process(number) == Err(Errno::SRCH) {
                return Err(Errno::SRCH);
            }
        }
        Ok(())
    }

    fn failed(&self, action: &'static str, name: &str, errno: Errno) -> HostError {
        HostError::file(action, self.root.join(name), errno.into())
    }

    fn numbers_from(
        &self,
        name: &str,
        at: u64,
        above: u32,
        most: usize,
    ) -> Result<Vec<u32>, HostError> {
        let dir = self.open(name, OFlags::DIRECTORY)?;
        rustix::fs::seek(&dir, SeekFrom::Start(at))
            .map_err(|errno| self.failed("seek in", name, errno))?;
        let mut numbers = Vec::new();
        self.numbers_of(&dir, name, &mut |number| {
            numbers.extend((number > above).then_some(number));
            numbers.len() < most
        })?;
        Ok(numbers)
    }

    fn numbers(&self, name: &str, each: &mut dyn FnMut(u32)) -> Result<(), HostError> {
        let dir = self.open(name, OFlags::DIRECTORY)?;
        self.numbers_of(&dir, name, &mut |number| {
            each(number);
            true
        })
    }

    /// Reads until `each` wants no more.
    fn numbers_of(
        &self,
        dir: &OwnedFd,
        name: &str,
        each: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), HostError> {
        let mut buffer = [MaybeUninit::uninit(); LONGEST];
        let mut entries = RawDir::new(dir, &mut buffer);
        while let Some(entry) = entries.next() {
            match entry {
                Ok(entry) => {
                    let name = entry.file_name().to_str().ok();
                    if let Some(number) = name.and_then(|name| name.parse().ok())
                        && !each(number)
                    {
                        break;
                    }
                }
                Err(Errno::NOENT | Errno::SRCH) => break,
                Err(errno) => return Err(self.failed("read", name, errno)),
            }
        }
        Ok(())
    }
}

/// Reads numbers that spaces follow, until there are more than so many.
fn read_numbers(list: &OwnedFd, numbers: &mut Vec<u32>, most: usize) -> Result<(), Errno> {
    let mut buffer = [0u8; LONGEST];
    let mut number = 0_u32;
    while numbers.len() <= most {
        let length = match rustix::io::read(list, &mut buffer) {
            // Its thread has ended.
            Ok(0) | Err(Errno::SRCH) => break,
            Ok(length) => length,
            Err(errno) => return Err(errno),
        };
        for byte in &buffer[..length] {
            match byte {
                b'0'..=b'9' => {
                    number = number
                        .saturating_mul(10)
                        .saturating_add(u32::from(byte - b'0'));
                }
                _ => numbers.push(std::mem::take(&mut number)),
            }
        }
    }
    Ok(())
}

const LONGEST_TEXT: u64 = 16 << 20;

/// Reads a small text file, such as those of sysfs and cgroupfs, up to a limit.
pub(crate) fn read_small(path: &Path) -> Result<String, HostError> {
    use std::io::Read;
    let file = std::fs::File::open(path).map_err(|source| HostError::file("open", path, source))?;
    let mut text = String::new();
    file.take(LONGEST_TEXT)
        .read_to_string(&mut text)
        .map_err(|source| HostError::file("read", path, source))?;
    Ok(text)
}

pub(crate) fn read_cpu_list(path: &Path) -> Result<CpuSet, HostError> {
    let text = read_small(path)?;
    text.parse().map_err(|_| {
        HostError::malformed(path, "expected a CPU list such as 0-3,8", text.as_bytes())
    })
}

fn parse_stat(text: &[u8]) -> Option<ProcessStat> {
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')')?;
    let number = std::str::from_utf8(&text[..open]).ok()?;
    let pid = number.trim().parse().ok()?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // Numbers may be -1 or 0 for kernel threads; those are not managed.
    let mut id = || {
        let id: i64 = fields.next()?.parse().ok()?;
        Some(id.try_into().unwrap_or(0u32))
    };
    let (parent, group, session) = (id()?, id()?, id()?);
    // By the numbers of `proc(5)`: the session was field 6, the threads are 20, the start is 22.
    let threads = fields.nth(13)?.parse::<i64>().ok()?.try_into().unwrap_or(0);
    let started_ticks = fields.nth(1)?.parse().ok()?;
    // The signal that its parent gets at its end, field 38: none for a further thread.
    let kind = match fields.nth(15)?.parse::<i64>().ok()? {
        -1 => TaskKind::Thread,
        _ => TaskKind::Process,
    };
    let cpu = CpuId(fields.next()?.parse().ok()?);
    Some(ProcessStat {
        pid,
        parent,
        group,
        session,
        state,
        started_ticks,
        threads,
        kind,
        cpu,
    })
}

#[cfg(test)]
pub(crate) fn fake_files(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fixture(files: &[(&str, &str)]) -> (tempfile::TempDir, ProcFs) {
        let dir = fake_files(files);
        let proc = ProcFs::at(dir.path()).unwrap();
        (dir, proc)
    }

    const STAT: &str = "4711 (a) b (c)) S 17 4710 4700 0 -1 4194304 100 0 0 0 7 3 0 0 20 0 5 0 \
                        987654 1000 200 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0";

    #[test]
    fn the_hard_limit_of_the_real_time_priority_counts() {
        let line =
            |limits: &str| format!("Max nice priority  0  0\nMax realtime priority {limits}\n");
        let all = [
            ("0   0", Some(0)),
            ("0  95", Some(95)),
            ("0 unlimited", Some(u32::MAX)),
            ("", None),
        ];
        for (limits, expected) in all {
            let (_dir, proc) = fixture(&[("7/limits", &line(limits))]);
            assert_eq!(proc.most_real_time_priority(7).ok(), expected, "{limits}");
        }
        let own = ProcFs::system()
            .unwrap()
            .most_real_time_priority(std::process::id());
        own.unwrap();
    }

    #[test]
    fn the_next_process_is_found_after_each() {
        let proc = ProcFs::system().unwrap();
        let own = std::process::id();
        let before = proc.pids().unwrap().into_iter().filter(|pid| *pid < own);
        let before = before.max().unwrap_or_default();
        assert_eq!(proc.pids_above(before, 1).unwrap(), [own]);
    }

    #[test]
    fn no_file_of_a_process_or_thread_that_has_ended_is_looked_for() {
        let proc = ProcFs::system().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let (own, ended) = (std::process::id(), child.id());
        assert_eq!(proc.stat(ended).unwrap().pid, ended);
        child.wait().unwrap();
        assert_eq!(proc.owner(ended), None);
        // ENOENT, if the file were looked for.
        let files = ["stat", "task/1/stat"].map(|file| format!("{ended}/{file}"));
        for name in files
            .into_iter()
            .chain([format!("{own}/task/{ended}/stat")])
        {
            assert_eq!(proc.check_exists(&name), Err(Errno::SRCH), "{name}");
            let error = proc.open(&name, OFlags::empty()).unwrap_err();
            assert_eq!(error.errno(), Some(Errno::SRCH), "{error}");
        }
        assert_eq!(proc.check_exists(&format!("{own}/task/{own}/stat")), Ok(()));
        assert_eq!(proc.check_exists("loadavg"), Ok(()));
    }

    #[test]
    fn a_process_name_with_parentheses_does_not_shift_the_fields() {
        let (_dir, proc) = fixture(&[("4711/stat", STAT)]);
        let expected = ProcessStat {
            pid: 4711,
            parent: 17,
            group: 4710,
            session: 4700,
            state: 'S',
            started_ticks: 987_654,
            threads: 5,
            kind: TaskKind::Process,
            cpu: CpuId(1),
        };
        assert_eq!(proc.stat(4711).unwrap(), expected);
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_still_lives() {
        let ended = STAT.replace(") S ", ") Z ");
        let alone = ended.replace(" 20 0 5 0 ", " 20 0 1 0 ");
        let (_dir, proc) = fixture(&[("1/stat", &ended), ("2/stat", &alone)]);
        assert!(!proc.stat(1).unwrap().is_zombie());
        assert!(proc.stat(2).unwrap().is_zombie());
    }

    #[test]
    fn a_missing_process_is_gone_and_a_broken_file_is_not() {
        let (_dir, proc) = fixture(&[("1/stat", "1 (x) S 1"), ("2/status", "Name:\tx\n")]);
        assert!(proc.stat(9).unwrap_err().is_gone());
        let error = proc.stat(1).unwrap_err();
        assert!(!error.is_gone(), "{error}");
        error.says(&["1 (x) S 1"]);
        proc.uids(2).unwrap_err().says(&["2/status"]);
    }

    #[test]
    fn fields_of_status_and_loadavg_are_found() {
        let status =
            "Name:\tx\nUid:\t1000\t0\t0\t0\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,7\n";
        let (_dir, proc) = fixture(&[
            ("3/status", status),
            ("loadavg", "0.1 0.2 0.3 2/300 4712\n"),
        ]);
        assert_eq!(proc.cpus_allowed(3).unwrap().to_string(), "0-3,7");
        let Uids { real, effective } = proc.uids(3).unwrap();
        assert_eq!((real, effective), (1000, 0));
        assert_eq!(proc.newest_pid().unwrap(), 4712);
    }

    #[test]
    fn only_numbers_are_processes_and_threads() {
        let (_dir, proc) = fixture(&[
            ("4711/stat", STAT),
            ("4711/task/4711/stat", STAT),
            ("4711/task/4713/stat", STAT),
            ("4712/comm", "no stat: it has just ended"),
            ("self/stat", STAT),
        ]);
        assert_eq!(proc.processes().unwrap().len(), 1);
        let mut threads = Vec::new();
        let mut add = |number| threads.push(number);
        proc.numbers("4711/task", &mut add).unwrap();
        threads.sort_unstable();
        assert_eq!(threads, [4711, 4713]);
    }

    #[test]
    fn this_process_finds_itself_in_the_real_proc() {
        let proc = ProcFs::system().unwrap();
        let me = std::process::id();
        let stat = proc.stat(me).unwrap();
        assert_eq!(stat.pid, me);
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert!(proc.processes().unwrap().contains(&stat) || !stat.is_zombie());
        let threads = proc.threads_from(me, 0, 9999).unwrap();
        assert!(threads.contains(&ThreadId(me)));
        assert!(!proc.cpus_allowed(me).unwrap().is_empty());
        assert!(proc.newest_pid().unwrap() > 0);
        assert_eq!(proc.pids_above(me - 1, 1).unwrap(), [me]);
        assert!(proc.pids_above(me, 9).unwrap().iter().all(|pid| *pid > me));
        let (tell, message) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let own = rustix::thread::gettid().as_raw_nonzero().get();
            tell.send(own.unsigned_abs()).unwrap();
            std::thread::park();
        });
        let stat_of_thread = proc.stat(message.recv().unwrap()).unwrap();
        assert_eq!(stat_of_thread.kind, TaskKind::Thread);
        assert_eq!(proc.threads_from(me, 1, 1).unwrap().len(), 1);
        assert_eq!(proc.threads_from(me, 100_000, 1).unwrap(), []);
        thread.thread().unpark();
        assert_eq!(stat.kind, TaskKind::Process);
        assert!(proc.same_program(me, me));
        assert!(!proc.same_program(me, u32::MAX));
    }

    #[test]
    fn executables_are_compared_without_asking_their_file_system() {
        let root = tempfile::tempdir().unwrap();
        for (pid, path) in [("1", "/gone/a"), ("2", "/gone/a"), ("3", "/gone/b")] {
            std::fs::create_dir(root.path().join(pid)).unwrap();
            std::os::unix::fs::symlink(path, root.path().join(pid).join("exe")).unwrap();
        }
        let proc = ProcFs::at(root.path()).unwrap();
        assert!(proc.same_program(1, 2));
        assert!(!proc.same_program(1, 3));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_stat(&text);
        }
    }
}
