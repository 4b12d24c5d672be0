//! Enforcing a plan.

use crate::decider::Decider;
use crate::machine::Machine;
use crate::registry::Registry;
use crate::registry::app::{App, Standing};
use crate::registry::page;
use crate::telemetry::Telemetry;
use crate::telemetry::tally::Trouble;
use mapper_host::enforce::IdleTimeChange;
use mapper_host::{HostError, chain};
use mapper_model::{
    Action, AppId, CpuSet, IdleTime, Loan, NodeId, Observation, Plan, PlannedApp, Sharing, Weight,
};
use std::collections::BTreeSet;

/// Enforces a plan: first every change of CPUs in the plan's order, then memory, which the kernel moves slowly.
pub(crate) fn enforce(
    plan: &Plan,
    observation: &Observation,
    registry: &mut Registry,
    machine: &mut Machine,
    decider: &Decider,
    telemetry: &mut Telemetry,
) {
    if plan.apps.iter().any(has_others_cpus) {
        weigh(plan, observation, machine);
    }
    let changed = use_idle_times(plan, registry, machine);
    for action in &plan.actions {
        set_cpus(action.app(), action.to(), machine, telemetry);
    }
    let moved: BTreeSet<AppId> = plan.actions.iter().map(Action::app).collect();
    let stays = |planned: &&PlannedApp| !moved.contains(&planned.app);
    for planned in plan.apps.iter().filter(stays) {
        if changed.contains(&planned.app) {
            set_cpus(planned.app, &planned.cpus, machine, telemetry);
        }
    }
    for action in &plan.actions {
        let planned = plan.apps.iter().find(|planned| planned.app == action.app());
        // What is borrowed comes and goes, and memory moves slowly.
        let own = planned.map(PlannedApp::own);
        let own = own.filter(|own| !own.is_empty());
        bind_memory(
            action.app(),
            own.as_ref().unwrap_or(action.to()),
            registry,
            machine,
            decider,
            telemetry,
        );
    }
    for planned in &plan.apps {
        let Some(app) = registry.get_mut(planned.app) else {
            continue;
        };
        if app.fixed().is_some() {
            if !std::mem::take(&mut app.published_idle_time).is_none() {
                publish_in_force(app, machine, decider);
            }
            continue;
        }
        if moved.contains(&planned.app) {
            read_back(app, planned, machine);
        }
        let counted = app.record.planned.as_ref().map(|before| before.share.cpus);
        if moved.contains(&planned.app) || counted != Some(planned.share.cpus) {
            app.record.accounting.moved(planned.share.cpus);
        }
        publish(app, planned, machine, decider);
        app.record.planned = Some(planned.clone());
        app.record.standing = Standing::Managed;
        log_mismatch(app);
    }
}

fn has_others_cpus(planned: &PlannedApp) -> bool {
    planned.share.sharing != Sharing::Exclusive || !planned.loan.is_none()
}

fn weigh(plan: &Plan, observation: &Observation, machine: &mut Machine) {
    // Both are in the order of arrival.
    for (observed, planned) in observation.apps.iter().zip(&plan.apps) {
        let weight = among_sharers(observed.spec.weight, &planned.loan, planned.share.sharing);
        match machine.enforcer.weigh(observed.app, weight) {
            Err(error) if !error.is_gone() => {
                tracing::warn!(app = observed.app.0, "not weighed: {}", chain(&error));
            }
            _ => {}
        }
    }
}

/// One that lends CPUs of its own comes before those that have borrowed them, as soon as it has something to do. Of those that
/// share CPUs anyway none does, or a program that is idle now and then would have more than its part.
fn among_sharers(weight: Weight, loan: &Loan, sharing: Sharing) -> Weight {
    match (loan, sharing) {
        (Loan::Lends, Sharing::Exclusive) => Weight::MOST,
        _ => weight,
    }
}

/// Says which CPUs each application may use besides its own, from the next time on that these are set. Returns those for
/// which that has changed.
fn use_idle_times(plan: &Plan, registry: &mut Registry, machine: &mut Machine) -> BTreeSet<AppId> {
    let mut changed = BTreeSet::new();
    for planned in &plan.apps {
        let (app, wanted) = (planned.app, &planned.idle_time);
        let Some(known) = registry.get_mut(app) else {
            continue;
        };
        if known.fixed().is_some() {
            // It has what the operator or a limit has set, and nothing besides.
            known.idle_time = IdleTime::default();
            continue;
        }
        let used = machine.enforcer.use_idle_time(app, &wanted.cpus);
        if !matches!(used, Ok(IdleTimeChange::None)) {
            changed.insert(app);
        }
        known.idle_time = match used {
            Ok(_) => wanted.clone(),
            Err(error) => {
                if !error.is_gone() {
                    tracing::info!(app = app.0, "uses no idle time: {}", chain(&error));
                }
                IdleTime::default()
            }
        };
    }
    changed
}

fn set_cpus(app: AppId, to: &CpuSet, machine: &mut Machine, telemetry: &mut Telemetry) {
    match machine.enforcer.apply(app, to) {
        Ok(()) => {}
        // It has just ended, which will be noticed.
        Err(error) if error.is_gone() => {}
        // It comes as soon as the kernel permits, and `status` names what is held up for long.
        Err(error @ HostError::HeldUp(..)) => {
            tracing::debug!(app = app.0, "{}", chain(&error));
        }
        Err(error) => {
            telemetry.tally.error(Trouble::Enforce);
            tracing::warn!(app = app.0, "not confined to {to}: {}", chain(&error));
        }
    }
}

/// Reads what is in force after a change.
fn read_back(app: &mut App, planned: &PlannedApp, machine: &mut Machine) {
    let record = &mut app.record;
    match machine.enforcer.effective(record.id) {
        Ok(effective) => app.effective = effective,
        Err(error) => tracing::warn!(app = record.id.0, "{}", chain(&error)),
    }
    let (id, spec, cpus) = (record.id.0, &record.spec, &planned.cpus);
    match record.planned {
        // The one line about a launch.
        None => tracing::info!(
            app = id,
            name = %spec.name,
            %cpus,
            pid = record.first_process.pid,
            uid = record.uid,
            qos = spec.qos.get(),
            teams = %spec.teams,
            teams_by = record.provenance.teams_by,
            "{}",
            planned.sentence
        ),
        Some(_) => tracing::info!(app = id, name = %spec.name, %cpus, "{}", planned.sentence),
    }
}

/// Publishes the CPUs in force, whatever was planned.
pub(crate) fn publish_in_force(app: &mut App, machine: &Machine, decider: &Decider) {
    let counted = app.counted_cpus();
    if let Some(page) = &mut app.page {
        let most = machine.usable.len();
        let spec = &app.record.spec;
        let allocation = page::allocation(&app.effective, counted, spec, decider.topology(), most);
        page.writer.publish(&allocation);
    }
}

/// Publishes the CPUs on the application's page, if they have changed.
fn publish(app: &mut App, planned: &PlannedApp, machine: &Machine, decider: &Decider) {
    let before = app.record.planned.as_ref();
    let is_same = |before: &PlannedApp| {
        before.cpus == planned.cpus && before.share.cpus == planned.share.cpus
    };
    let idle_time = std::mem::replace(&mut app.published_idle_time, app.idle_time.clone());
    if before.is_some_and(is_same) && idle_time == app.idle_time {
        return;
    }
    if let Some(page) = &mut app.page {
        let most = app.most_cpus.unwrap_or(u32::MAX).min(machine.usable.len());
        let topology = decider.topology();
        let IdleTime { cpus, count } = &app.idle_time;
        let allocation = page::allocation(
            &planned.cpus.union(cpus),
            planned.share.cpus + count,
            &app.record.spec,
            topology,
            most,
        );
        page.writer.publish(&allocation);
    }
}

/// Binds the memory of an application to the nodes of its CPUs, if requested. Only after all CPUs are set, since the
/// kernel moves the memory slowly.
pub(crate) fn bind_memory(
    app: AppId,
    cpus: &CpuSet,
    registry: &Registry,
    machine: &mut Machine,
    decider: &Decider,
    telemetry: &mut Telemetry,
) {
    let known = registry.get(app);
    if cpus.is_empty() || !known.is_some_and(|app| app.record.memory.follows_cpus()) {
        return;
    }
    let nodes = decider.topology().nodes().iter();
    let nodes = nodes.filter(|node| !node.cpus.is_disjoint(cpus));
    let nodes: Vec<NodeId> = nodes.map(|node| node.id).collect();
    match machine.enforcer.bind_memory(app, &nodes) {
        Ok(()) => {}
        Err(error) if error.is_gone() => {}
        Err(error) => {
            telemetry.tally.error(Trouble::Memory);
            tracing::warn!(app = app.0, "memory not bound: {}", chain(&error));
        }
    }
}

/// Logs once when other CPUs are in force than were planned.
fn log_mismatch(app: &mut App) {
    let record = &app.record;
    let planned = record.planned.as_ref().map(|planned| &planned.cpus);
    if planned == Some(&app.effective) {
        app.reported_mismatch = None;
    } else if app.reported_mismatch.as_ref() != Some(&app.effective) {
        tracing::warn!(
            app = record.id.0,
            name = %record.spec.name,
            planned = %planned.map(ToString::to_string).unwrap_or_default(),
            in_force = %app.effective,
            "other CPUs are in force than planned; decisions continue from what is in force"
        );
        app.reported_mismatch = Some(app.effective.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeMachine, root};
    use crate::registry::page::Page;
    use mapper_model::Trigger;

    /// Puts a plan in force in which an application keeps its CPUs and has this of others' idle time.
    fn enforce_with(machine: &mut FakeMachine, app: AppId, idle_time: &IdleTime) {
        let daemon = &mut machine.daemon;
        let planned = daemon.registry.get(app).unwrap().record.planned.clone();
        let planned = PlannedApp {
            idle_time: idle_time.clone(),
            ..planned.unwrap()
        };
        let plan = Plan {
            apps: vec![planned],
            ..Plan::default()
        };
        let observation = Observation {
            tick: 1,
            now_ns: 1,
            trigger: Trigger::Interval,
            usable: CpuSet::first(8),
            apps: Vec::new(),
        };
        enforce(
            &plan,
            &observation,
            &mut daemon.registry,
            &mut daemon.machine,
            &daemon.decider,
            &mut daemon.telemetry,
        );
    }

    #[test]
    fn idle_time_in_force_counts_for_teams_and_once_refused_or_set_by_the_operator_no_more() {
        let mut machine = FakeMachine::with_processes_of(0);
        let app = machine.adopt(&root(), "/a").unwrap();
        let known = machine.daemon.registry.get_mut(app).unwrap();
        known.page = Some(Page::create().unwrap());
        let own: CpuSet = "0-3".parse().unwrap();
        known.effective = own.clone();
        let planned = known.record.planned.as_mut().unwrap();
        planned.cpus = own.clone();
        planned.share.cpus = 4;
        machine.seen.borrow_mut().sets.insert(app, own);
        let counted = |machine: &FakeMachine| {
            let page = machine.daemon.registry.get(app).unwrap().page.as_ref();
            let allocation = page.unwrap().reader.allocation().unwrap();
            (allocation.cpu_count, allocation.cpus.iter().count())
        };
        let more = IdleTime {
            cpus: "5-6".parse().unwrap(),
            count: 1,
        };
        enforce_with(&mut machine, app, &more);
        assert_eq!(counted(&machine), (5, 6));
        enforce_with(&mut machine, app, &IdleTime::default());
        assert_eq!(counted(&machine), (4, 4));
        machine.seen.borrow_mut().refuses_idle_time = true;
        enforce_with(&mut machine, app, &more);
        assert_eq!(counted(&machine), (4, 4));
        machine.seen.borrow_mut().refuses_idle_time = false;
        enforce_with(&mut machine, app, &more);
        assert_eq!(counted(&machine), (5, 6));
        let known = machine.daemon.registry.get_mut(app).unwrap();
        known.effective = "2".parse().unwrap();
        known.record.standing = Standing::LeftToOperator(known.effective.clone());
        enforce_with(&mut machine, app, &IdleTime::default());
        assert_eq!(counted(&machine), (1, 1));
        assert!(
            machine
                .daemon
                .registry
                .get(app)
                .unwrap()
                .idle_time
                .is_none()
        );
    }

    #[test]
    fn only_one_that_lends_cpus_of_its_own_comes_before_all_others() {
        let weight = Weight::default();
        let borrows = Loan::Borrows {
            cpus: CpuSet::first(1),
        };
        for (loan, sharing, expected) in [
            (Loan::None, Sharing::Exclusive, weight),
            (Loan::Lends, Sharing::Exclusive, Weight::MOST),
            (Loan::Lends, Sharing::Slot(0), weight),
            (borrows, Sharing::Exclusive, weight),
        ] {
            assert_eq!(among_sharers(weight, &loan, sharing), expected);
        }
    }
}
