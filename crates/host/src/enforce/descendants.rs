//! A process with all its descendants, read without a look at any other process where the kernel lists children.

use super::tree::may_belong;
use crate::HostError;
use crate::procfs::{Children, ProcFs, ProcessStat};
use std::collections::{BTreeMap, BTreeSet};

/// How large a tree may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeLimit {
    /// What an ordinary user may have adopted by one call: 512 processes with 4,096 threads.
    OfAUser,
    /// Any number.
    None,
}

impl TreeLimit {
    const fn processes(self) -> usize {
        match self {
            Self::OfAUser => 512,
            Self::None => usize::MAX,
        }
    }

    const fn threads(self) -> usize {
        match self {
            Self::OfAUser => 4096,
            Self::None => usize::MAX,
        }
    }
}

/// A process and all its living descendants, the process first. Empty if it does not live.
///
/// # Errors
///
/// If a limit is exceeded, and if `/proc` cannot be read.
pub fn descendants(
    proc: &ProcFs,
    first: u32,
    limit: TreeLimit,
) -> Result<Vec<ProcessStat>, HostError> {
    let mut found: Vec<ProcessStat> = proc.stat(first).into_iter().collect();
    found.retain(|process| !process.is_zombie());
    let too_many_processes = || HostError::TooManyProcesses(first, limit.processes() - 1);
    let too_many_threads = || HostError::TooManyThreads(first, limit.threads());
    let mut numbers = BTreeSet::from([first]);
    let mut read = 0;
    let (mut threads, mut looked_at) = (0, 0);
    while let Some(process) = found.get(looked_at).copied() {
        threads += process.threads as usize;
        if threads > limit.threads() {
            return Err(too_many_threads());
        }
        let children = match proc.children(process.pid, limit.threads())? {
            Children::Known(children) => children,
            Children::TooMany => return Err(too_many_processes()),
            // Without such lists.
            Children::Unknown if looked_at == 0 && proc.stat(first).is_ok() => {
                let all = among(&proc.processes()?, first);
                let threads: usize = all.iter().map(|process| process.threads as usize).sum();
                return match threads > limit.threads() {
                    true => Err(too_many_threads()),
                    false if all.len() > limit.processes() => Err(too_many_processes()),
                    false => Ok(all),
                };
            }
            Children::Unknown => Vec::new(),
        };
        looked_at += 1;
        for pid in children {
            read += 1;
            if let Ok(child) = proc.stat(pid)
                && child.parent == process.pid
                && is_found(&child)
                && numbers.insert(pid)
            {
                found.push(child);
            }
        }
        // Those that have ended are looked at, too.
        if found.len() > limit.processes() || read > limit.threads() {
            return Err(too_many_processes());
        }
    }
    Ok(found)
}

fn is_found(process: &ProcessStat) -> bool {
    !process.is_zombie() && may_belong(process, std::process::id())
}

/// The same from a list of all processes.
fn among(processes: &[ProcessStat], first: u32) -> Vec<ProcessStat> {
    let mut children: BTreeMap<u32, Vec<&ProcessStat>> = BTreeMap::new();
    for process in processes.iter().filter(|process| is_found(process)) {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found: Vec<ProcessStat> = processes
        .iter()
        .filter(|process| process.pid == first && !process.is_zombie())
        .copied()
        .collect();
    let mut looked_at = 0;
    while looked_at < found.len() {
        // Each is found once, whatever parents are read while processes end.
        let below = children.remove(&found[looked_at].pid);
        looked_at += 1;
        found.extend(below.into_iter().flatten().filter(|p| p.pid != first));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::fake_files;
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    const ROOT: u32 = 11;
    const LAUNCHER: u32 = 10;

    fn running(script: &str) -> (Child, ProcFs) {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).process_group(0);
        let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut line)
            .unwrap();
        (child, ProcFs::system().unwrap())
    }

    fn numbers(of: &[ProcessStat]) -> BTreeSet<u32> {
        of.iter().map(|process| process.pid).collect()
    }

    fn end(mut child: Child) {
        let group = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_tree_has_all_generations_without_the_ended_and_a_users_may_only_be_so_large() {
        // The kernel gives so many children in more than one piece.
        let (child, proc) = running(
            "(sleep 60 & sleep 60 & wait) & i=0; while [ $i -lt 1200 ]; do sleep 60 & i=$((i+1)); done; \
             (:) & echo; exec sleep 60",
        );
        let first = child.id();
        let size = || descendants(&proc, first, TreeLimit::None).unwrap().len();
        let deadline = Instant::now() + Duration::from_secs(60);
        while size() != 1204 {
            assert!(Instant::now() < deadline, "{}", size());
        }
        let listed = among(&proc.processes().unwrap(), first);
        let read = descendants(&proc, first, TreeLimit::None).unwrap();
        assert_eq!(numbers(&read), numbers(&listed));
        assert_eq!(read[0].pid, first);
        let refused = descendants(&proc, first, TreeLimit::OfAUser).unwrap_err();
        refused.says(&["more than 511 descendants", "--cgroup"]);
        end(child);
        assert_eq!(descendants(&proc, first, TreeLimit::None).unwrap(), []);
    }

    #[test]
    fn no_other_process_is_read() {
        let stat = |pid: u32, parent: u32| {
            let stat = format!(
                "{pid} (x) S {parent} 5 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {pid}{}",
                " 0".repeat(40)
            );
            (format!("{pid}/stat"), stat)
        };
        // 13 is in no list of children, and 14 in that of a second thread.
        let processes = [(10, 5), (11, 10), (12, 11), (13, 10), (14, 11)];
        let mut files: Vec<_> = processes.map(|(pid, parent)| stat(pid, parent)).into();
        for (thread, children) in [
            ("10/task/10", "11 "),
            ("11/task/11", "12 "),
            ("11/task/15", "14 "),
            ("12/task/12", ""),
            ("14/task/14", ""),
        ] {
            files.push((format!("{thread}/children"), children.to_owned()));
        }
        let files: Vec<_> = files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        let dir = fake_files(&files);
        let proc = ProcFs::at(dir.path()).unwrap();
        let found = || numbers(&descendants(&proc, 10, TreeLimit::OfAUser).unwrap());
        assert_eq!(found(), BTreeSet::from([10, 11, 12, 14]));
        // Without the lists, all are.
        std::fs::remove_file(dir.path().join("10/task/10/children")).unwrap();
        assert_eq!(found(), BTreeSet::from([10, 11, 12, 13, 14]));
        let (name, stat) = stat(14, 11);
        std::fs::write(
            dir.path().join(name),
            stat.replace(" 20 0 1 0 ", " 20 0 4093 0 "),
        )
        .unwrap();
        let refused = descendants(&proc, 10, TreeLimit::OfAUser).unwrap_err();
        refused.says(&["more than 4096 threads", "mapper-launch"]);
        assert!(descendants(&proc, 10, TreeLimit::None).is_ok());
    }

    #[test]
    fn of_a_list_descendants_are_all_generations_and_no_others() {
        let zombie = ProcessStat {
            state: 'Z',
            ..ProcessStat::sleeping(15, ROOT)
        };
        let all = [
            ProcessStat::sleeping(14, 13),
            ProcessStat::sleeping(13, ROOT),
            ProcessStat::sleeping(ROOT, LAUNCHER),
            ProcessStat::sleeping(20, LAUNCHER),
            zombie,
        ];
        let found = among(&all, ROOT);
        let pids: Vec<u32> = found.iter().map(|process| process.pid).collect();
        assert_eq!(pids, [ROOT, 13, 14]);
        assert!(among(&all, 15).is_empty());
    }

    #[test]
    fn a_hundred_thousand_descendants_are_found_without_comparing_each_with_each() {
        // Beyond the numbers that the kernel gives: this process is none of them.
        const FIRST: u32 = 5_000_000;
        let all: Vec<ProcessStat> = (FIRST..FIRST + 100_000)
            .map(|pid| ProcessStat::sleeping(pid, pid - 1))
            .collect();
        let started = std::time::Instant::now();
        assert_eq!(among(&all, FIRST).len(), all.len());
        assert!(started.elapsed() < std::time::Duration::from_secs(20));
    }
}
