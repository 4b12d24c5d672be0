//! Programs that already run come under management.
//!
//! The administrator may adopt anything; a user may adopt processes all of which are the user's own, and
//! control groups that were delegated to the user. Promise, weight and CPU counts are checked against the same
//! grants as a launch. A descriptor of the process (pidfd), opened before the checks and kept after them, makes
//! sure that the pid has not passed to another process.
//!
//! The loop takes the steps: [`prepare`]; save, so that the next daemon can restore everything whatever happens to
//! this one, while others are served; [`bring_in`]; decide; [`reply`].
//!
//! Adopted applications have no lease: they are managed until their last process ends, or until the user who
//! adopted them or the administrator releases them.

use crate::config::accounts::is_privileged;
use crate::config::peer::Peer;
use crate::config::settings::Settings;
use crate::decider::Decider;
use crate::machine::Machine;
use crate::machine::process::has_ended;
use crate::registry::Registry;
use crate::registry::app::{App, AppRecord, Lease};
use crate::registry::origin::{Adoption, Origin, of_host};
use crate::registry::pending::Asking;
use crate::requests::permit::{
    Permit, check_cpus, held_up, internal, invalid, no_process, not_permitted, open_process,
};
use crate::store::saver::Flushed;
use mapper_control::schema::{AdoptReply, AdoptTarget, MemoryPolicy};
use mapper_control::{ErrorReply, PROTOCOL};
use mapper_host::enforce::{self, Adoptee, Departure, HeldUp, Moved, TreeLimit, descendants};
use mapper_host::procfs::ProcFs;
use mapper_host::{HostError, chain};
use mapper_model::{AppId, AppName, AppSpec};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// How long an adoption waits until the state before it is written.
pub(crate) const SAVED_FIRST: Duration = Duration::from_millis(200);

/// How long an adoption waits for systemd.
pub(crate) const ASKED_FOR: Duration = Duration::from_millis(500);

/// How long the moves of an adoption may take in all.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// What is to be adopted and is known to the enforcer, but not moved yet.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) adoptee: Adoptee,
    /// A descriptor of its first process, if that was named.
    pub(crate) process: Option<OwnedFd>,
    /// Not registered yet.
    pub(crate) app: App,
}

/// Why an adoption is not prepared.
#[derive(Debug)]
pub(crate) enum NotPrepared {
    Refused(ErrorReply),
    /// Not yet: systemd has been asked about the unit. To be prepared again as this application.
    Unanswered(AppId, ErrorReply),
    /// Not yet: the kernel holds up a move.
    HeldUp(Option<AppId>, Option<HeldUp>),
}

impl From<ErrorReply> for NotPrepared {
    fn from(error: ErrorReply) -> Self {
        Self::Refused(error)
    }
}

/// Checks the request and makes the application; nothing is moved yet.
pub(crate) fn prepare(
    asking: &Asking,
    settings: &Settings,
    registry: &mut Registry,
    machine: &mut Machine,
) -> Result<Prepared, NotPrepared> {
    let (peer, request) = (&asking.peer, asking.request.clone());
    let permit = Permit::of(peer, settings);
    permit.check_caller(registry, machine)?;
    permit.check_memory(request.memory, machine.enforcer.capabilities().memory)?;
    if request.memory == MemoryPolicy::Interleave {
        return Err(invalid(
            "mem interleave: not possible for a program that already runs; give local or keep, \
             or start it with mapper-launch --mem interleave"
                .to_owned(),
        )
        .into());
    }
    let target = request.target;
    let process = match &target {
        AdoptTarget::Pid(pid) => Some(check_process(peer, *pid, registry, machine)?),
        AdoptTarget::Unit(_) if !is_privileged(peer.uid) => {
            return Err(not_permitted(format!(
                "{target} is not user {}'s to adopt: only root and the daemon's user may adopt \
                 units; adopt a process of your own (--pid)",
                peer.uid
            ))
            .into());
        }
        AdoptTarget::Cgroup(_) | AdoptTarget::Unit(_) => None,
    };
    let name = request.name;
    let mut spec = AppSpec::named(name.unwrap_or_else(|| name_of(&target, &machine.proc)));
    spec.qos = request.qos.unwrap_or_default();
    spec.weight = request.weight;
    spec.cpus = request.cpus;
    spec.lending = request.lending;
    permit.check_spec(request.qos, &mut spec)?;
    check_cpus(spec.cpus, machine)?;
    spec.name = registry.unique_name(spec.name);
    let adoptee = Adoptee {
        app: asking.app.unwrap_or_else(|| registry.new_id()),
        target: of_host(&target),
        owner: (!is_privileged(peer.uid)).then_some(peer.uid),
        account: peer.account,
        usable: machine.usable.clone(),
    };
    let adopted = machine.enforcer.adopt(&adoptee);
    adopted.map_err(|error| match error {
        HostError::SystemdLate(..) => NotPrepared::Unanswered(adoptee.app, refusal(&error)),
        HostError::HeldUp(..) => NotPrepared::HeldUp(Some(adoptee.app), machine.enforcer.held_up()),
        error => NotPrepared::Refused(refusal(&error)),
    })?;
    let id = adoptee.app;
    let first = match &target {
        AdoptTarget::Pid(pid) => *pid,
        _ => machine.enforcer.first_process(id).unwrap_or_default(),
    };
    let by = peer.uid;
    let uid = machine.proc.uids(first).map_or(by, |uids| uids.real);
    let threads = machine.enforcer.tasks(id).threads;
    let origin = Origin::Adopted(Adoption {
        target,
        by,
        rule: asking.rule.clone(),
        fits_rule: None,
    });
    let now_ns = machine.clock.now_ns();
    let record = AppRecord {
        memory: request.memory,
        groups: peer.own_groups(),
        own_mask: machine.own_mask(&threads),
        ..AppRecord::new(id, spec, origin, uid, machine.process(first), now_ns)
    };
    let watched = process.as_ref().map(OwnedFd::try_clone).transpose();
    let watches = machine.watch(id, watched.unwrap_or_default());
    let app = App::new(record, Lease::Ended, watches);
    Ok(Prepared {
        adoptee,
        process,
        app,
    })
}

/// Whether what a prepared application has now is saved.
pub(crate) fn check_saved(target: &enforce::AdoptTarget, saved: Flushed) -> Result<(), ErrorReply> {
    match unsaved(saved) {
        Some(why) => Err(not_saved(target, saved, &why)),
        None => Ok(()),
    }
}

/// Moves a prepared and saved application to where it can be confined, or as much of it as others can wait for.
pub(crate) fn bring_in(
    adoptee: &Adoptee,
    process: Option<&OwnedFd>,
    machine: &mut Machine,
) -> Result<Moved, ErrorReply> {
    let check_lives = || match (&adoptee.target, process) {
        // Another process may have its pid now.
        (enforce::AdoptTarget::Pid(pid), Some(process)) if has_ended(process) => {
            Err(no_process(*pid))
        }
        _ => Ok(()),
    };
    check_lives()?;
    let moved = machine.enforcer.move_in(adoptee);
    if moved.map_err(|error| refusal(&error))? == Moved::Part {
        return Ok(Moved::Part);
    }
    check_lives()?;
    match &adoptee.target {
        // Another adoption, of what it started or of what it is in, was saved first.
        enforce::AdoptTarget::Pid(pid) if machine.enforcer.owner(*pid) != Some(adoptee.app) => {
            Err(not_permitted(format!(
                "process {pid} has become part of another application; release that first"
            )))
        }
        _ => Ok(Moved::All),
    }
}

/// Why an adoption ends that is not finished after [`LONGEST`].
pub(crate) fn too_slow(target: &AdoptTarget, machine: &Machine) -> ErrorReply {
    match machine.moves_held_up() {
        Some(held) => held_up(&held),
        None => ErrorReply::Unavailable {
            message: format!(
                "{target} is not adopted: the kernel has not moved all its processes within {} s; try again later, or adopt its \
                 control group or unit",
                LONGEST.as_secs()
            ),
        },
    }
}

/// Undoes [`prepare`].
pub(crate) fn withdraw(
    id: AppId,
    registry: &mut Registry,
    machine: &mut Machine,
    decider: &Decider,
) {
    let cpus = machine.unmanaged_cpus(decider.topology());
    let released = machine.enforcer.release(id, &cpus, Departure::ForGood);
    if let Err(error) = released {
        tracing::warn!(app = id.0, "release: {}", chain(&error));
    }
    registry.note_left_over(id, machine.enforcer.as_ref());
}

/// The reply after the decision; `None` if the application could not be confined.
pub(crate) fn reply(id: AppId, registry: &Registry, machine: &mut Machine) -> Option<AdoptReply> {
    let app = registry.get(id)?;
    if app.effective.is_empty() {
        return None;
    }
    let record = &app.record;
    let processes = machine.enforcer.tasks(record.id).processes.len();
    let adoption = record.origin.adoption();
    Some(AdoptReply {
        protocol: PROTOCOL,
        app: record.id,
        name: record.spec.name.clone(),
        adopted: adoption?.target.clone(),
        processes: u32::try_from(processes).unwrap_or(u32::MAX),
        cpus: app.effective.clone(),
        cpu_count: app.counted_cpus(),
    })
}

/// Whether this client may have this process and its descendants managed. Returns a descriptor.
fn check_process(
    peer: &Peer,
    pid: u32,
    registry: &Registry,
    machine: &mut Machine,
) -> Result<OwnedFd, NotPrepared> {
    let refuse = |message| Err(not_permitted(message).into());
    if pid <= 2 || pid == std::process::id() {
        return refuse(format!(
            "process {pid} is a system process or the daemon itself; give the pid of a program"
        ));
    }
    let process = open_process(pid)?;
    // First, as it is cheap: a request for another user's process causes no work.
    if !is_privileged(peer.uid) {
        check_owner(peer, pid, pid, &machine.proc)?;
    }
    if registry.is_pending(pid) {
        return refuse(format!("process {pid} is being launched or adopted"));
    }
    // What an application has started since the last refresh is its own, too.
    if let Err(error) = machine.enforcer.refresh() {
        tracing::warn!("processes not read: {}", chain(&error));
    }
    if let Some(held) = machine.moves_held_up() {
        return Err(NotPrepared::HeldUp(None, Some(held)));
    }
    if let Some(app) = machine.enforcer.owner(pid) {
        return refuse(format!(
            "process {pid} is already managed, as part of application {app}; release that first"
        ));
    }
    let limit = match is_privileged(peer.uid) {
        true => TreeLimit::None,
        false => TreeLimit::OfAUser,
    };
    let tree = descendants(&machine.proc, pid, limit).map_err(|error| refusal(&error))?;
    let Some(first) = tree.first() else {
        return Err(no_process(pid).into());
    };
    if first.parent == 2 {
        return refuse(format!(
            "process {pid} is a kernel thread; give the pid of a program"
        ));
    }
    if !is_privileged(peer.uid) {
        for member in &tree {
            check_owner(peer, pid, member.pid, &machine.proc)?;
        }
    }
    Ok(process)
}

/// Whether a process of a tree that is to be adopted is the caller's. One that has just ended belongs to no user.
fn check_owner(peer: &Peer, first: u32, member: u32, proc: &ProcFs) -> Result<(), ErrorReply> {
    match proc.uids(member) {
        Ok(uids) if uids.real != peer.uid || (member == first && uids.effective != peer.uid) => {
            Err(not_permitted(format!(
                "process {member} belongs to user {}, not to the caller, user {}; adopt one all of \
                 whose descendants are yours",
                uids.effective, peer.uid
            )))
        }
        _ => Ok(()),
    }
}

/// The name of what is adopted, if none was given.
fn name_of(target: &AdoptTarget, proc: &ProcFs) -> AppName {
    let name = match target {
        AdoptTarget::Pid(pid) => proc.command(*pid).unwrap_or_default(),
        AdoptTarget::Cgroup(path) => Path::new(path)
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        AdoptTarget::Unit(unit) => unit
            .rsplit_once('.')
            .map_or(unit.as_str(), |(name, _)| name)
            .to_owned(),
    };
    AppName::from_lossy(&name)
}

/// Why the state before an adoption is not saved, and the fix; `None` if it is.
fn unsaved(flushed: Flushed) -> Option<String> {
    let why = match flushed {
        Flushed::Done => return None,
        Flushed::Late => format!(
            "they could not be saved within {} ms; check the disk of the state directory, then retry",
            SAVED_FIRST.as_millis()
        ),
        Flushed::Failed => {
            "they could not be saved; see the daemon's log for the reason, check that the state \
             directory is writable and has space, then retry"
                .to_owned()
        }
        Flushed::Nowhere => {
            "the daemon has no state directory; start mapperd with --state-dir, or set \
             expert.state_dir in mapper.toml"
                .to_owned()
        }
    };
    Some(why)
}

fn not_saved(target: &enforce::AdoptTarget, saved: Flushed, why: &str) -> ErrorReply {
    let message = format!(
        "not adopted: the current CPUs of {target} could not be restored after a crash, since {why}"
    );
    match saved {
        Flushed::Late => ErrorReply::Unavailable { message },
        _ => internal(message),
    }
}

fn refusal(error: &HostError) -> ErrorReply {
    let message = chain(error);
    match error {
        HostError::NotAdoptable { .. } | HostError::Missing(_) | HostError::Systemd { .. } => {
            invalid(message)
        }
        HostError::SystemdLate { .. } | HostError::HeldUp { .. } => {
            ErrorReply::Unavailable { message }
        }
        HostError::TooManyProcesses(..) | HostError::TooManyThreads(..) => not_permitted(message),
        _ if error.is_gone() => invalid(message),
        _ => internal(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::assert_says;

    #[test]
    fn an_adoption_is_refused_if_the_state_is_not_saved() {
        assert_eq!(unsaved(Flushed::Done), None);
        for (flushed, says) in [
            (Flushed::Late, "within 200 ms"),
            (Flushed::Failed, "could not be saved"),
            (Flushed::Nowhere, "no state directory"),
        ] {
            assert_says(unsaved(flushed).unwrap(), &[says]);
        }
    }

    #[test]
    fn what_may_succeed_later_is_said_to_be_unavailable() {
        let is_unavailable = |error: &_| matches!(error, ErrorReply::Unavailable { .. });
        let target = enforce::AdoptTarget::Pid(7);
        assert!(is_unavailable(&not_saved(&target, Flushed::Late, "late")));
        assert!(!is_unavailable(&not_saved(&target, Flushed::Failed, "no")));
        let (look, unit) = ("look at", "a.service".to_owned());
        let late = HostError::SystemdLate(look, unit.clone(), 500);
        assert!(is_unavailable(&refusal(&late)));
        let failed = HostError::Systemd(look, unit, "NoSuchUnit".to_owned());
        assert!(!is_unavailable(&refusal(&failed)));
    }
}
