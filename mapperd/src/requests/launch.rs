//! A program is to start: checking the request, admitting the process, answering.
//!
//! A client may have a process managed only if it is its own child and runs as its own user. The process waits for the
//! answer; a descriptor of it (pidfd) makes sure that its pid has not passed to another process meanwhile.
//!
//! A checked launch waits a few milliseconds for others, where any may arrive with it
//! ([`pending`](crate::registry::pending)). The loop admits them together, takes one decision for all and answers.

use crate::config::peer::Peer;
use crate::config::settings::Settings;
use crate::machine::Machine;
use crate::machine::process::has_ended;
use crate::registry::Registry;
use crate::registry::app::{App, AppRecord, Lease};
use crate::registry::origin::Origin;
use crate::registry::page::Page;
use crate::registry::pending::{Admitted, Launch, Settlement};
use crate::requests::permit::{
    Permit, check_cpus, internal, invalid, no_process, not_permitted, open_process,
};
use crate::requests::terms;
use crate::socket::message::{Answer, Served};
use crate::store::kept_pages;
use crate::telemetry::Telemetry;
use mapper_control::schema::{LaunchReply, LaunchRequest, Partition, RuntimeChoice};
use mapper_control::{ErrorReply, PROTOCOL};
use mapper_host::enforce::{Departure, Newcomer, ThreadMasks};
use mapper_host::{HostError, chain};
use mapper_model::{AppId, CpuSet, ThreadId};
use std::os::fd::{AsFd, OwnedFd};

/// Threads of a process that is launched: the kernel moves all of them into a group before a write returns. A program that
/// is about to start has one.
const THREADS: u32 = 64;

/// The most ancestors of a launcher that are checked.
const ANCESTORS: usize = 64;

/// Checks who may have this process managed, and with what terms. Identity comes first: rules are matched against what
/// others send only once they may send it.
pub(crate) fn check(
    peer: Peer,
    request: LaunchRequest,
    settings: &Settings,
    registry: &Registry,
    machine: &Machine,
) -> Result<Launch, ErrorReply> {
    let permit = Permit::of(&peer, settings);
    permit.check_caller(registry, machine)?;
    let process = check_process(&peer, request.pid, registry, machine)?;
    let program = request.program.as_ref();
    let earlier = registry.earlier_run(peer.uid, program, &request.command);
    let mut settlement = terms::settle(
        &settings.programs,
        &settings.shipped_programs,
        &peer,
        &request,
        earlier,
    );
    permit.check_spec(request.wishes.qos, &mut settlement.spec)?;
    settlement.terms.max_cpus = settlement.spec.cpus.max();
    let binding = machine.enforcer.capabilities().memory;
    permit.check_memory(request.wishes.memory, binding)?;
    check_cpus(settlement.spec.cpus, machine)?;
    settlement.partition = check_partition(&permit, &request, settlement.partition, machine)?;
    // What was read belongs to this process only if it still lives.
    if has_ended(&process) {
        return Err(no_process(request.pid));
    }
    Ok(Launch {
        app: None,
        peer,
        request,
        settlement,
        process,
    })
}

/// Whether this client may have this process managed. Returns a descriptor of it.
fn check_process(
    peer: &Peer,
    pid: u32,
    registry: &Registry,
    machine: &Machine,
) -> Result<OwnedFd, ErrorReply> {
    let process = open_process(pid)?;
    let stat = machine.proc.stat(pid).map_err(|_| no_process(pid))?;
    if stat.parent != peer.pid {
        return Err(not_permitted(format!(
            "process {pid} is not a child of the caller, process {}",
            peer.pid
        )));
    }
    check_threads(pid, stat.threads)?;
    let uids = machine.proc.uids(pid).map_err(|_| no_process(pid))?;
    // Root may launch for others, other users for themselves only.
    if peer.uid != 0 && (uids.real != peer.uid || uids.effective != peer.uid) {
        return Err(not_permitted(format!(
            "process {pid} belongs to user {}, not to the caller, user {}",
            uids.effective, peer.uid
        )));
    }
    let managed = with_first_process(pid, registry, machine);
    let held = managed.is_some_and(|app| app.lease == Lease::Held);
    if held || registry.is_pending(pid) {
        return Err(not_permitted(format!("process {pid} is already managed")));
    }
    Ok(process)
}

fn check_threads(pid: u32, threads: u32) -> Result<(), ErrorReply> {
    match threads <= THREADS {
        true => Ok(()),
        false => Err(invalid(format!(
            "process {pid} has {threads} threads, more than the {THREADS} that a program may have when it is launched; launch \
             it before it starts them, or adopt it: mapperctl adopt --pid {pid}"
        ))),
    }
}

/// The application that began with this process.
pub(crate) fn with_first_process<'a>(
    pid: u32,
    registry: &'a Registry,
    machine: &Machine,
) -> Option<&'a App> {
    let mut apps = registry.apps.iter();
    let first = |app: &&App| app.record.first_process.pid == pid;
    apps.find(first)
        .filter(|app| machine.is_alive(app.record.first_process))
}

/// The partition that is possible. If the user requested another, the launch is refused; if a rule did, the program
/// starts without.
fn check_partition(
    permit: &Permit<'_>,
    request: &LaunchRequest,
    partition: Partition,
    machine: &Machine,
) -> Result<Partition, ErrorReply> {
    match partition {
        Partition::Member => return Ok(Partition::Member),
        Partition::Isolated => {}
        Partition::Unknown => {
            return Err(invalid("partition: give member or isolated".to_owned()));
        }
    }
    let permitted = permit.check_isolation().and_then(|()| {
        let offered = machine.enforcer.may_isolate();
        offered.map_err(|error| invalid(format!("isolated: {}", chain(&error))))
    });
    match permitted {
        Ok(()) => Ok(Partition::Isolated),
        Err(error) if request.wishes.partition.is_none() => {
            let (pid, uid) = (request.pid, permit.peer.uid);
            tracing::info!(pid, uid, "not isolated as the rule requests: {error}");
            Ok(Partition::Member)
        }
        Err(error) => Err(error),
    }
}

/// Why a launch is not admitted.
#[derive(Debug)]
pub(crate) enum NotAdmitted {
    Refused(ErrorReply),
    /// Not yet: the kernel holds up the move into its group.
    HeldUp(Box<Launch>),
}

impl From<ErrorReply> for NotAdmitted {
    fn from(error: ErrorReply) -> Self {
        Self::Refused(error)
    }
}

/// Takes a launch under management. The next decision assigns its CPUs.
pub(crate) fn admit(
    mut launch: Launch,
    registry: &mut Registry,
    machine: &mut Machine,
    telemetry: &mut Telemetry,
) -> Result<Admitted, NotAdmitted> {
    let (peer, request) = (&launch.peer, &launch.request);
    let page = match launch.settlement.runtime {
        RuntimeChoice::On => Some(Page::create().map_err(|error| internal(error.to_string()))?),
        RuntimeChoice::Off => None,
    };
    let threads = machine.proc.stat(request.pid).map(|stat| stat.threads);
    check_threads(request.pid, threads.unwrap_or_default())?;
    let own_mask = mask_of_launch(peer.pid, request.pid, registry, machine);
    let id = launch.app.unwrap_or_else(|| registry.new_id());
    let newcomer = Newcomer {
        app: id,
        first_process: request.pid,
        launcher: peer.pid,
        account: peer.account,
    };
    // The launch has waited since it was checked. If its process ended meanwhile, its pid may be another's now,
    // also another user's.
    if has_ended(&launch.process) {
        return Err(no_process(request.pid).into());
    }
    match machine.enforcer.admit(&newcomer) {
        Ok(()) => {}
        Err(HostError::HeldUp(..)) => {
            launch.app = Some(id);
            return Err(NotAdmitted::HeldUp(Box::new(launch)));
        }
        Err(error) => return Err(internal(chain(&error)).into()),
    }
    let Launch {
        peer,
        request,
        process,
        settlement,
        ..
    } = launch;
    let Settlement {
        mut spec,
        partition,
        terms,
        provenance,
        ..
    } = settlement;
    spec.name = registry.unique_name(spec.name);
    if has_ended(&process) {
        let all = machine.enforcer.limit();
        let all = all.unwrap_or_else(|_| machine.usable.clone());
        if let Err(error) = machine.enforcer.release(id, &all, Departure::ForGood) {
            tracing::warn!(app = id.0, "release: {}", chain(&error));
        }
        return Err(no_process(request.pid).into());
    }
    let most_cpus = most_cpus(request.pid, own_mask.as_ref(), registry, machine);
    if partition == Partition::Isolated
        && let Err(error) = machine.enforcer.isolate(id)
    {
        tracing::warn!(app = id.0, "not isolated: {}", chain(&error));
    }
    if let Some(page) = &page {
        kept_pages::keep(id, page.writer.as_fd());
    }
    let watches = machine.watch(id, Some(process));
    // The first decision about it is logged with more.
    tracing::debug!(app = id.0, name = %spec.name, pid = request.pid, uid = peer.uid, "arrived");
    telemetry.tally.launches += 1;
    let launcher = machine.process(peer.pid);
    let first = machine.process(request.pid);
    let (origin, now_ns) = (Origin::Launched { launcher }, machine.clock.now_ns());
    let mut record = AppRecord {
        command: request.command,
        provenance,
        memory: request.wishes.memory,
        partition,
        groups: peer.own_groups(),
        own_mask,
        ..AppRecord::new(id, spec, origin, peer.uid, first, now_ns)
    };
    record.spinning = registry.earlier_spinning(&record);
    let mut app = App::new(record, Lease::Held, watches);
    app.most_cpus = Some(most_cpus);
    app.page = page;
    registry.add(app);
    Ok(Admitted {
        id,
        terms,
        most_cpus,
    })
}

/// On how many CPUs a program could run if it had the machine alone. Its own mask may leave some out: this one, or what
/// the kernel shows of it in a group that has no set yet, except the CPUs that others have in isolation.
fn most_cpus(first: u32, own_mask: Option<&CpuSet>, registry: &Registry, machine: &Machine) -> u32 {
    let mut left_out = match own_mask {
        Some(mask) => machine.usable.difference(mask),
        None if machine.enforcer.capabilities().masks == ThreadMasks::Intersected => {
            let mask = machine.proc.cpus_allowed(first);
            mask.map_or_else(|_| CpuSet::new(), |mask| machine.usable.difference(&mask))
        }
        None => CpuSet::new(),
    };
    for app in &registry.apps {
        if app.record.partition == Partition::Isolated {
            left_out = left_out.difference(&app.effective);
        }
    }
    let (all, left_out) = (machine.usable.len(), left_out.len());
    match left_out < all {
        true => all - left_out,
        false => all,
    }
}

/// The mask that a program was launched with, unless it comes from mapper: a program that is launched from within a
/// managed application inherits that application's.
fn mask_of_launch(
    launcher: u32,
    first: u32,
    registry: &Registry,
    machine: &Machine,
) -> Option<CpuSet> {
    let own = machine.own_mask(&[ThreadId(first)])?;
    let inherited = application_of(launcher, registry, machine).is_some();
    (!inherited).then_some(own)
}

/// The application that a process is part of, by itself or its ancestors: it may have been started since processes were
/// last read, but not what started it. Orphans of an application are children of its launcher.
pub(crate) fn application_of(pid: u32, registry: &Registry, machine: &Machine) -> Option<AppId> {
    let parent = |pid: &u32| machine.proc.stat(*pid).ok().map(|stat| stat.parent);
    let line = std::iter::successors(Some(pid), parent).take(ANCESTORS);
    let launched = |pid| {
        let mut apps = registry.apps.iter();
        let launcher = |app: &App| app.record.origin.launcher();
        let found = apps.find(|app| launcher(app).is_some_and(|launcher| launcher.pid == pid));
        found.map(|app| app.record.id)
    };
    let mut line = line.enumerate().filter(|(_, pid)| *pid != 0);
    line.find_map(|(nth, pid)| {
        let owner = machine.enforcer.owner(pid);
        owner.or_else(|| launched(pid).filter(|_| nth > 0))
    })
}

/// How many of the CPUs of a newcomer count for its team: those that it keeps when those are back that lend theirs, which
/// are its own or its part of all; one, if it shares them with more applications than there are CPUs.
fn lasting(app: &App, cpus: u32, registry: &Registry, machine: &Machine) -> u32 {
    let held = app.held();
    let all = u32::try_from(registry.apps.len()).unwrap_or(u32::MAX);
    let part = machine.usable.len() / all.max(1);
    match held.borrowed {
        0 => cpus.min(app.counted_cpus()),
        _ => held.own.max(part).clamp(1, cpus.max(1)),
    }
}

/// The answer to a launch, after the decision.
pub(crate) fn answer(admitted: Admitted, registry: &Registry, machine: &Machine) -> Answer {
    let app = registry
        .get(admitted.id)
        .ok_or_else(|| invalid("the process has ended".to_owned()))?;
    if app.effective.is_empty() {
        return Err(internal(
            "the process could not be confined; see the daemon's log".to_owned(),
        ));
    }
    let record = &app.record;
    let page = app.page.as_ref();
    let descriptor = page
        .map(|page| page.writer.as_fd().try_clone_to_owned())
        .transpose()
        .map_err(|error| internal(format!("duplicate the page: {error}")))?;
    // An inherited mask (taskset, a batch system) narrows what it can use of its CPUs.
    let cpus = match machine.proc.cpus_allowed(record.first_process.pid) {
        Ok(inherited) if !inherited.is_disjoint(&app.effective) => {
            inherited.intersection(&app.effective)
        }
        _ => app.effective.clone(),
    };
    let reply = LaunchReply {
        protocol: PROTOCOL,
        app: record.id,
        name: record.spec.name.clone(),
        cpu_count: lasting(app, cpus.len(), registry, machine),
        cpus,
        machine_cpus: admitted.most_cpus,
        token: page.map(|page| page.writer.token().to_string()),
        terms: admitted.terms,
    };
    Ok(Served::place(reply, descriptor))
}
