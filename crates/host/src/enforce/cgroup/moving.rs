//! Moving adopted processes, there and back. A list of processes is old by the time one of them is moved, so each is
//! checked before it is moved and afterwards, and all until none is left. What has more processes than can be moved
//! without others waiting comes in several turns, and goes back so ([`Returning`]).

use super::asked::or_later;
use super::files::{collect_some, give_all, name_of};
use super::group::{Group, Groups, Homes, Origin};
use super::group_dir::GroupDir;
use super::search::{Identity, Search, anothers, refused};
use super::turn::{PROCESSES, Turn};
use crate::HostError;
use crate::enforce::{AdoptTarget, Adoptee, Moved, Tasks};
use crate::procfs::ProcessStat;
use mapper_model::AppId;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Searches until no process is left behind; a program that forks faster is reported.
const LOOKS: u32 = 32;

/// Moves processes of one turn in: a process and its descendants. After an error all are put back, as soon as they can be,
/// and the application is forgotten.
pub(super) fn gather(
    groups: &mut Groups,
    returning: &mut Vec<Returning>,
    adoptee: &Adoptee,
) -> Result<Moved, HostError> {
    let AdoptTarget::Pid(first) = adoptee.target else {
        return Ok(Moved::All);
    };
    let Some(mut group) = groups.apps.remove(&adoptee.app) else {
        return Err(groups.unknown(adoptee.app));
    };
    let search = Search { groups, adoptee };
    let moved = move_some(search, first, &mut group);
    if moved.is_err() {
        let mut stay = BTreeSet::new();
        let turn = Turn::short(PROCESSES);
        let back = match &group.origin {
            Origin::Moved(homes) => put_back(groups, &group.dir, homes, &mut stay, &turn),
            _ => Ok(Moved::All),
        };
        if let Err(error) = &back {
            tracing::warn!("processes not moved back: {}", crate::chain(error));
        }
        if let Err(error) = groups.abandon(adoptee.app, &group) {
            tracing::warn!("group not removed: {}", crate::chain(&error));
        }
        if let (Ok(Moved::Part), Origin::Moved(homes)) = (back, group.origin) {
            returning.push(Returning::new(adoptee.app, group.dir, homes, stay));
        }
        return moved;
    }
    if let Ok(Moved::All) = moved {
        give_what_is_around(&mut group, groups);
    }
    groups.apps.insert(adoptee.app, group);
    moved
}

/// Where processes came from groups of other CPUs, it has those of the last one.
fn give_what_is_around(group: &mut Group, groups: &Groups) {
    group.written = group.dir.read_cpus("cpuset.cpus").unwrap_or_default();
    if group.written.is_empty() {
        return;
    }
    let all = groups.root.read_cpus("cpuset.cpus.effective");
    if let Err(error) = all.and_then(|all| or_later(group.set_member(&all))) {
        tracing::warn!("CPUs not widened: {}", crate::chain(&error));
    }
}

fn move_some(search: Search<'_>, first: u32, group: &mut Group) -> Result<Moved, HostError> {
    let Group {
        dir,
        origin: Origin::Moved(homes),
        arriving,
        ..
    } = group
    else {
        return Ok(Moved::All);
    };
    // To know where processes are would wait, too, on kernels before 6.8.
    if dir.changes().moves_wait() {
        return Ok(Moved::Part);
    }
    if let Some(process) = arriving.awaited.take() {
        match check_moved(search, dir, &process) {
            Err(HostError::HeldUp(..)) => {
                arriving.awaited = Some(process);
                return Ok(Moved::Part);
            }
            checked => checked?,
        }
    }
    let turn = Turn::short(usize::MAX);
    let mut none_found = false;
    for _ in 0..LOOKS {
        if arriving.left.is_empty() {
            let outside = search.outside(first)?;
            // Parents first.
            arriving.left = outside
                .into_iter()
                .rev()
                .map(|(process, _)| process)
                .collect();
        }
        if arriving.left.is_empty() {
            // While children are reaped, the kernel may leave out others: none is outside if two lists say so.
            if std::mem::replace(&mut none_found, true) {
                return Ok(Moved::All);
            }
            continue;
        }
        none_found = false;
        while !turn.is_over()
            && let Some(process) = arriving.left.pop()
        {
            // It may have ended, or been launched or adopted by itself.
            let Some(path) = search.place_outside(process.pid)? else {
                continue;
            };
            search.note_home(homes, &process, path)?;
            match move_one(search, dir, &process) {
                Err(HostError::HeldUp(..)) => {
                    arriving.awaited = Some(process);
                    return Ok(Moved::Part);
                }
                moved => moved?,
            }
        }
        if !arriving.left.is_empty() {
            return Ok(Moved::Part);
        }
    }
    Err(refused(
        &search.adoptee.target,
        "it starts processes faster than they can be moved",
        "stop it (SIGSTOP) while it is adopted, or adopt its control group or unit",
    ))
}

fn move_one(search: Search<'_>, dir: &GroupDir, process: &ProcessStat) -> Result<(), HostError> {
    match search.identity(process) {
        Identity::Same => {}
        Identity::Gone => return Ok(()),
        Identity::Anothers(user) => {
            return Err(anothers(&search.adoptee.target, process, user));
        }
    }
    match dir.take_process(&search.groups.places(), process.pid) {
        Err(error) if error.is_gone() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => check_moved(search, dir, process),
    }
}

/// The kernel takes a number: if that had become another process's, and that is in the group now, it goes to where its parent
/// is.
fn check_moved(search: Search<'_>, dir: &GroupDir, process: &ProcessStat) -> Result<(), HostError> {
    let Search { groups, adoptee } = search;
    let target = &adoptee.target;
    match search.identity(process) {
        Identity::Same => Ok(()),
        Identity::Anothers(user) => Err(anothers(target, process, user)),
        Identity::Gone => {
            let Ok(stranger) = groups.proc.stat(process.pid) else {
                return Ok(());
            };
            let moved = || {
                if !is_within(groups, dir, stranger.pid)? {
                    return Ok(());
                }
                match of_parent(groups, dir, &stranger)? {
                    Some(path) => groups
                        .home(&path)?
                        .take_back(&groups.places(), dir, process.pid),
                    None => Ok(()),
                }
            };
            match moved() {
                Err(error) if error.is_gone() => Ok(()),
                moved => moved,
            }
        }
    }
}

/// Processes on their way back, in a group that has all CPUs.
#[derive(Debug)]
pub(super) struct Returning {
    pub(super) app: AppId,
    pub(super) dir: GroupDir,
    pub(super) homes: Homes,
    /// What could not be moved.
    pub(super) stay: BTreeSet<u32>,
    pub(super) until: Instant,
}

/// How long processes are put back that are followed by others.
const LONGEST: Duration = Duration::from_secs(60);

/// The same, for the next daemon.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Returned {
    app: AppId,
    homes: Homes,
}

impl Returning {
    pub(super) fn new(app: AppId, dir: GroupDir, homes: Homes, stay: BTreeSet<u32>) -> Self {
        Self {
            app,
            dir,
            homes,
            stay,
            until: Instant::now() + LONGEST,
        }
    }

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
        Some(Self::new(app, dir, homes, BTreeSet::new()))
    }

    /// Returns whether some are left. Errors are logged, and repeated by nobody.
    pub(super) fn go_on(&mut self, groups: &Groups, turn: &Turn) -> bool {
        let moved = put_back(groups, &self.dir, &self.homes, &mut self.stay, turn);
        let are_left = matches!(moved, Ok(Moved::Part)) && Instant::now() < self.until;
        // What stays has all CPUs, which were changed for the others.
        if !are_left
            && let Err(error) = or_later(give_all(&self.dir, &groups.exclusive_cpus()))
            && !error.is_gone()
        {
            tracing::warn!(app = self.app.0, "left over: {}", crate::chain(&error));
        }
        are_left
    }
}

/// Moves processes back to where they were, those of one turn, or leaves them with all CPUs, as those that `stay`. Returns
/// the first error; all are logged.
pub(super) fn put_back(
    groups: &Groups,
    dir: &GroupDir,
    homes: &Homes,
    stay: &mut BTreeSet<u32>,
    turn: &Turn,
) -> Result<Moved, HostError> {
    let places = groups.places();
    let mut left = turn.processes;
    let mut first_error = None;
    for _ in 0..LOOKS {
        let mut tasks = Tasks::default();
        collect_some(dir, &mut tasks, left.saturating_add(stay.len() + 1));
        tasks.processes.retain(|pid| !stay.contains(pid));
        if tasks.processes.is_empty() {
            return first_error.map_or(Ok(Moved::All), Err);
        }
        for pid in tasks.processes {
            // Reading the group of its parent would wait for a move, too.
            if left == 0 || turn.is_over() || dir.changes().moves_wait() {
                return Ok(Moved::Part);
            }
            let home = home_of(groups, dir, homes, pid);
            match groups
                .home(&home)
                .and_then(|group| group.take_back(&places, dir, pid))
            {
                Ok(()) => left -= 1,
                Err(error) if error.errno() == Some(Errno::SRCH) => {}
                Err(HostError::HeldUp(..)) => return Ok(Moved::Part),
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

/// Where a process goes back to: one that was started meanwhile to where the first process goes. One that has the number of
/// another that was moved, and whose parent is elsewhere, may have been moved by mistake: it goes to where its parent is.
fn home_of(groups: &Groups, dir: &GroupDir, homes: &Homes, pid: u32) -> PathBuf {
    let first = || homes.first.clone();
    let (Some(home), Ok(stat)) = (homes.each.get(&pid), groups.proc.stat(pid)) else {
        return first();
    };
    match stat.started_ticks == home.started_ticks {
        true => home.path.clone(),
        false => of_parent(groups, dir, &stat)
            .ok()
            .flatten()
            .unwrap_or_else(first),
    }
}

/// The group that the parent of a process is in, if that is not this one. Only if both are of one user: an orphan would leave
/// the groups of its user otherwise.
fn of_parent(
    groups: &Groups,
    dir: &GroupDir,
    process: &ProcessStat,
) -> Result<Option<PathBuf>, HostError> {
    let user = |pid| Ok::<_, HostError>(groups.proc.uids(pid)?.real);
    let parent = process.parent;
    if parent == 0 || user(parent)? != user(process.pid)? || is_within(groups, dir, parent)? {
        return Ok(None);
    }
    let path = groups.proc.cgroup(parent)?;
    Ok(Some(path.trim_start_matches('/').into()))
}

/// Whether a process is in this group or one below it.
fn is_within(groups: &Groups, dir: &GroupDir, pid: u32) -> Result<bool, HostError> {
    let path = groups.proc.cgroup(pid)?;
    let path = groups.mount.join(path.trim_start_matches('/'));
    Ok(path.starts_with(dir.path()))
}
