//! What changes around the applications: CPUs that come and go, sets that others write, sleep.
//!
//! All of it is checked before each decision. CPUs that go offline, or that a container or slice around the daemon
//! loses, are no longer assigned; those that return are. If CPUs are unknown to the topology, it is read again.
//!
//! *CPU sets that the operator writes.* An application whose `cpuset.cpus` the operator has written stays there: it takes
//! no part in decisions, and its CPUs are assigned to no other application while there are other CPUs. Writing a set of
//! all CPUs returns it to the daemon as a newcomer. Operators are root and the daemon's user. An ordinary user who owns an
//! adopted group may write to it, too, but takes nothing from others by that: the group is released as the user set it. A
//! group with more groups below it than can be checked is released as well.
//!
//! *Limits around one application.* An adopted unit or group stays within the limits of the groups around it, which may
//! change at any time (`systemctl set-property user-1000.slice AllowedCPUs=0-3`). Decisions place the application within
//! its limit. If that leaves no assignable CPU, the application stays where it is until the limit changes.

use crate::decider::Decider;
use crate::machine::Machine;
use crate::machine::departure::let_go;
use crate::registry::Registry;
use crate::registry::app::{App, Standing};
use crate::telemetry::Telemetry;
use mapper_host::chain;
use mapper_host::enforce::{Departure, ForeignSet, Writer};
use mapper_model::CpuSet;

/// Whether the interval that has passed can be compared with others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Surroundings {
    AsBefore,
    Changed,
    /// Changed, and applications were released, which has to be saved.
    Released,
}

pub(crate) fn check(
    registry: &mut Registry,
    machine: &mut Machine,
    decider: &mut Decider,
    telemetry: &mut Telemetry,
) -> Surroundings {
    let cpus = check_cpus(machine, decider, telemetry);
    let sets = check_sets(registry, machine, decider, telemetry);
    let limits = check_limits(registry, machine);
    let sleep = match machine.sleep.has_slept(machine.clock.as_ref()) {
        true => Surroundings::Changed,
        false => Surroundings::AsBefore,
    };
    cpus.max(sets).max(limits).max(sleep)
}

fn check_cpus(
    machine: &mut Machine,
    decider: &mut Decider,
    telemetry: &mut Telemetry,
) -> Surroundings {
    let usable = match machine.read_usable() {
        Ok(usable) => usable,
        Err(error) => {
            tracing::warn!("usable CPUs not read, keeping the last known: {error:#}");
            return Surroundings::AsBefore;
        }
    };
    if !usable.online.is_subset(decider.topology().cpus()) {
        read_topology_again(machine, decider, telemetry);
    }
    machine.online = usable.online;
    if usable.cpus == machine.usable {
        return Surroundings::AsBefore;
    }
    tracing::info!(
        "assignable CPUs: {} (before: {})",
        usable.cpus,
        machine.usable
    );
    machine.usable = usable.cpus;
    Surroundings::Changed
}

fn read_topology_again(machine: &Machine, decider: &mut Decider, telemetry: &mut Telemetry) {
    match machine.topology_source.read() {
        Ok(topology) if topology != *decider.topology() => {
            tracing::info!(cpus = %topology.cpus(), "topology read again");
            decider.controller.set_topology(topology);
            telemetry.end_recording("a recording is for one topology");
        }
        // hwloc does not know the CPUs either: they cannot be placed, and are not assigned.
        Ok(_) => {}
        Err(error) => tracing::warn!(
            "topology not read, keeping the last known: {}",
            chain(&error)
        ),
    }
}

fn check_sets(
    registry: &mut Registry,
    machine: &mut Machine,
    decider: &Decider,
    telemetry: &mut Telemetry,
) -> Surroundings {
    let mut surroundings = Surroundings::AsBefore;
    let mut leave = Vec::new();
    for app in &mut registry.apps {
        match check_set(app, machine) {
            SetCheck::AsBefore => {}
            SetCheck::Changed => surroundings = Surroundings::Changed,
            SetCheck::Leaves(departure) => leave.push((app.record.id, departure)),
        }
    }
    if leave.is_empty() {
        return surroundings;
    }
    for (app, departure) in leave {
        let_go(app, departure, registry, machine, decider, telemetry);
    }
    Surroundings::Released
}

/// What has happened to the set of one application.
enum SetCheck {
    AsBefore,
    /// The operator has written it, or written all CPUs to it.
    Changed,
    /// It can no longer be managed.
    Leaves(Departure),
}

fn check_set(app: &mut App, machine: &mut Machine) -> SetCheck {
    let record = &mut app.record;
    let (id, name) = (record.id, &record.spec.name);
    if let Some(groups) = machine.enforcer.too_many_groups(id) {
        tracing::warn!(
            app = id.0,
            %name,
            groups,
            "released: there are more groups below it than can be checked at each decision"
        );
        return SetCheck::Leaves(Departure::ForGood);
    }
    // The set of a newcomer has not been written yet.
    if record.standing == Standing::Pending {
        return SetCheck::AsBefore;
    }
    let found = machine.enforcer.set_by_others(id);
    let set = match found.filter(|set| !machine.usable.is_subset(&set.cpus)) {
        Some(ForeignSet {
            cpus,
            writer: Writer::User(user),
        }) => {
            tracing::warn!(
                app = id.0,
                %name,
                %cpus,
                user,
                "released: the user who owns its group has set its CPUs, which are still assigned to others"
            );
            return SetCheck::Leaves(Departure::ToItsOwner);
        }
        Some(ForeignSet {
            cpus,
            writer: Writer::Operator,
        }) => Some(cpus),
        None => None,
    };
    if let Some(set) = &set
        && let Ok(effective) = machine.enforcer.effective(id)
    {
        app.effective = effective;
        if record.standing.set_by_operator() != Some(set) {
            tracing::warn!(
                app = id.0,
                %name,
                cpus = %set,
                "the operator set its CPUs, which are left unchanged; write all CPUs to its cpuset.cpus to return it"
            );
        }
    }
    if record.standing.set_by_operator() == set.as_ref() {
        return SetCheck::AsBefore;
    }
    record.planned = None;
    record.standing = match set {
        Some(set) => Standing::LeftToOperator(set),
        None => {
            tracing::info!(app = id.0, %name, "managed again");
            app.effective = CpuSet::new();
            Standing::Pending
        }
    };
    SetCheck::Changed
}

fn check_limits(registry: &mut Registry, machine: &mut Machine) -> Surroundings {
    let mut surroundings = Surroundings::AsBefore;
    for app in &mut registry.apps {
        let limit = limit_of(app, machine);
        if app.limit == limit {
            continue;
        }
        surroundings = Surroundings::Changed;
        log_limit(app, limit.as_ref());
        let was_placed = app.fixed().is_none();
        app.limit = limit;
        let operator = app.record.standing.set_by_operator().is_some();
        let is_placed = app.fixed().is_none();
        if !operator && (!is_placed || !was_placed) {
            // It leaves the decisions, or returns to them as a newcomer.
            app.record.planned = None;
            app.record.standing = Standing::Pending;
            let effective = machine.enforcer.effective(app.record.id);
            app.effective = match is_placed {
                true => CpuSet::new(),
                false => effective.unwrap_or_default(),
            };
        }
        write_within_limit(app, machine);
    }
    surroundings
}

/// The assignable CPUs that the limit around an application leaves it, if not all.
fn limit_of(app: &App, machine: &Machine) -> Option<CpuSet> {
    let record = &app.record;
    record.origin.adoption()?;
    if record.standing.set_by_operator().is_some() {
        return None;
    }
    match machine.enforcer.limit_of(record.id) {
        Ok(limit) => limit
            .filter(|limit| !machine.usable.is_subset(limit))
            .map(|limit| limit.intersection(&machine.usable)),
        Err(error) => {
            // It has just ended, or the limit stays as last read.
            tracing::debug!(app = record.id.0, "limit not read: {}", chain(&error));
            app.limit.clone()
        }
    }
}

/// The kernel intersects the set with the limit, so that without the limit all of the set would be in force again.
/// Therefore the intersection is written.
fn write_within_limit(app: &App, machine: &mut Machine) {
    let id = app.record.id;
    let Some(limit) = &app.limit else {
        return;
    };
    if app.record.standing == Standing::Pending || app.effective.is_subset(limit) {
        return;
    }
    let within = app.effective.intersection(limit);
    if within.is_empty() {
        return;
    }
    match machine.enforcer.apply(id, &within) {
        Ok(()) => {}
        Err(error) if error.is_gone() => {}
        Err(error) => tracing::warn!(app = id.0, "not confined: {}", chain(&error)),
    }
}

fn log_limit(app: &App, limit: Option<&CpuSet>) {
    let (id, name) = (app.record.id.0, &app.record.spec.name);
    match limit {
        Some(cpus) if cpus.is_empty() => tracing::warn!(
            app = id,
            %name,
            "a limit around it allows none of the assignable CPUs; it is left where it is"
        ),
        Some(cpus) => tracing::warn!(app = id, %name, "a limit around it allows only CPUs {cpus}"),
        None => tracing::info!(app = id, %name, "no limit around it applies any more"),
    }
}
