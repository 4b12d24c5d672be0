//! Moving adopted processes, there and back. A list of processes is old by the time one of them is moved, so each is
//! checked before it is moved and afterwards, and all until none is left. What has more processes than can be moved back
//! without others waiting goes back in pieces ([`Returning`]).

use super::apart::Size;
use super::files::{collect_some, name_of};
use super::group::{Groups, Homes, Origin};
use super::group_dir::GroupDir;
use super::search::{Identity, Search, anothers, below_mount, refused};
use crate::HostError;
use crate::enforce::{AdoptTarget, Adoptee, Tasks};
use crate::procfs::ProcessStat;
use mapper_model::AppId;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Searches until no process is left behind; a program that forks faster is reported.
const LOOKS: u32 = 32;

/// How long all moves of an adoption may take together.
const LONGEST: Duration = Duration::from_secs(10);

/// Threads of a process that are moved soon.
const FEW: u32 = 64;

/// Moves a process and its descendants in. After an error all are put back, as soon as they can be, and the application is
/// forgotten.
pub(super) fn gather(
    groups: &mut Groups,
    returning: &mut Vec<Returning>,
    adoptee: &Adoptee,
) -> Result<(), HostError> {
    let AdoptTarget::Pid(first) = adoptee.target else {
        return Ok(());
    };
    let Some(mut group) = groups.apps.remove(&adoptee.app) else {
        return Err(groups.unknown(adoptee.app));
    };
    let moved = match &mut group.origin {
        Origin::Moved(homes) => {
            let search = Search { groups, adoptee };
            move_all(search, first, &group.dir, homes)
        }
        _ => Ok(()),
    };
    if moved.is_err() {
        let back = match &group.origin {
            // One may still come.
            Origin::Moved(_) if matches!(moved, Err(HostError::HeldUp(..))) => Ok(Back::Part),
            Origin::Moved(homes) => put_back(groups, &group.dir, homes, &Turn::short(usize::MAX)),
            _ => Ok(Back::All),
        };
        if let Err(error) = &back {
            tracing::warn!("processes not moved back: {}", crate::chain(error));
        }
        if let Err(error) = groups.abandon(adoptee.app, &group) {
            tracing::warn!("group not removed: {}", crate::chain(&error));
        }
        if let (Ok(Back::Part), Origin::Moved(homes)) = (back, group.origin) {
            let (app, dir) = (adoptee.app, group.dir);
            returning.push(Returning { app, dir, homes });
        }
        return moved;
    }
    groups.apps.insert(adoptee.app, group);
    Ok(())
}

fn move_all(
    search: Search<'_>,
    first: u32,
    dir: &GroupDir,
    homes: &mut Homes,
) -> Result<(), HostError> {
    let began = Instant::now();
    for _ in 0..LOOKS {
        let outside = search.outside(first)?;
        if outside.is_empty() {
            return Ok(());
        }
        for (process, path) in outside {
            if began.elapsed() > LONGEST {
                return Err(refused(
                    &search.adoptee.target,
                    "the kernel takes too long to move its processes",
                    "try again later, or adopt its control group or unit",
                ));
            }
            search.note_home(homes, &process, path)?;
            move_one(search, dir, &process)?;
        }
    }
    Err(refused(
        &search.adoptee.target,
        "it starts processes faster than they can be moved",
        "stop it (SIGSTOP) while it is adopted, or adopt its control group or unit",
    ))
}

/// The kernel takes a number: if that had become another process's, that process goes to where its parent is.
fn move_one(search: Search<'_>, dir: &GroupDir, process: &ProcessStat) -> Result<(), HostError> {
    let Search { groups, adoptee } = search;
    let target = &adoptee.target;
    match search.identity(process) {
        Identity::Same => {}
        Identity::Gone => return Ok(()),
        Identity::Anothers(user) => return Err(anothers(target, process, user)),
    }
    let size = match process.threads {
        0..=FEW => Size::Small,
        _ => Size::Large,
    };
    match dir.add_process(process.pid, size) {
        Err(error) if error.is_gone() => return Ok(()),
        written => written?,
    }
    match search.identity(process) {
        Identity::Same => Ok(()),
        Identity::Anothers(user) => Err(anothers(target, process, user)),
        Identity::Gone => {
            let Ok(stranger) = groups.proc.stat(process.pid) else {
                return Ok(());
            };
            let path = groups.proc.cgroup(stranger.parent)?;
            let path = below_mount(&groups.mount, Path::new(&path), target)?;
            groups
                .home(&path)?
                .write("cgroup.procs", &process.pid.to_string())
        }
    }
}

/// Processes that are moved back at once. The kernel moves each in a tenth of a millisecond, and longer with its threads.
pub(super) const PROCESSES: usize = 256;

/// How long others wait for a turn. Tests on plain files take what they need however busy the machine is.
const SHORT: Duration = match cfg!(test) {
    false => Duration::from_millis(100),
    true => Duration::from_secs(20),
};

/// What is moved back at once.
#[derive(Debug)]
pub(super) struct Turn {
    processes: usize,
    until: Instant,
}

impl Turn {
    /// While others wait.
    pub(super) fn short(processes: usize) -> Self {
        let until = Instant::now() + SHORT;
        Self { processes, until }
    }

    /// All, when the daemon stops: less than a service manager allows for it.
    pub(super) fn last() -> Self {
        Self {
            processes: usize::MAX,
            until: Instant::now() + Duration::from_secs(5),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Back {
    All,
    /// Others are left, for another turn.
    Part,
}

/// Processes on their way back, in a group that has all CPUs.
#[derive(Debug)]
pub(super) struct Returning {
    pub(super) app: AppId,
    pub(super) dir: GroupDir,
    pub(super) homes: Homes,
}

/// The same, for the next daemon.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Returned {
    app: AppId,
    homes: Homes,
}

impl Returning {
    pub(super) fn remember(&self) -> Returned {
        Returned {
            app: self.app,
            homes: self.homes.clone(),
        }
    }

    /// `None` if they have ended.
    pub(super) fn recall(groups: &Groups, known: Returned) -> Option<Self> {
        let Returned { app, homes } = known;
        let dir = groups.root.beneath(Path::new(&name_of(app))).ok()?;
        Some(Self { app, dir, homes })
    }

    /// Returns whether some are left. Errors are logged, and repeated by nobody.
    pub(super) fn go_on(&self, groups: &Groups, turn: &Turn) -> bool {
        matches!(
            put_back(groups, &self.dir, &self.homes, turn),
            Ok(Back::Part)
        )
    }
}

/// Moves processes back to where they were, those of one turn, or leaves them with all CPUs. Returns the first error; all
/// are logged.
pub(super) fn put_back(
    groups: &Groups,
    dir: &GroupDir,
    homes: &Homes,
    turn: &Turn,
) -> Result<Back, HostError> {
    let proc = &groups.proc;
    let mut left = turn.processes;
    let mut stay = BTreeSet::new();
    let mut first_error = None;
    for _ in 0..LOOKS {
        let mut tasks = Tasks::default();
        collect_some(dir, &mut tasks, left.saturating_add(stay.len() + 1));
        tasks.processes.retain(|pid| !stay.contains(pid));
        if tasks.processes.is_empty() {
            return first_error.map_or(Ok(Back::All), Err);
        }
        for pid in tasks.processes {
            if left == 0 || Instant::now() > turn.until {
                return Ok(Back::Part);
            }
            left -= 1;
            let home = homes
                .each
                .get(&pid)
                .filter(|home| {
                    proc.stat(pid)
                        .is_ok_and(|stat| stat.started_ticks == home.started_ticks)
                })
                .map_or(homes.first.as_path(), |home| home.path.as_path());
            match groups
                .home(home)
                .and_then(|group| group.write("cgroup.procs", &pid.to_string()))
            {
                Ok(()) => {}
                Err(error) if error.errno() == Some(Errno::SRCH) => {}
                Err(HostError::HeldUp(..)) => return Ok(Back::Part),
                Err(error) => {
                    tracing::warn!(pid, "process not moved back: {}", crate::chain(&error));
                    stay.insert(pid);
                    first_error.get_or_insert(error);
                }
            }
        }
    }
    Err(HostError::file(
        "empty",
        dir.path(),
        std::io::Error::other("processes are started faster than they can be moved"),
    ))
}
