//! Reading everything that a decision is based on.

use crate::config::access::Access;
use crate::config::accounts::is_privileged;
use crate::machine::Machine;
use crate::machine::process::runnable;
use crate::registry::Registry;
use crate::registry::app::{App, CpuTimeSample, Standing};
use crate::registry::page;
use mapper_host::enforce::Standing as InForce;
use mapper_host::observe::Subject;
use mapper_model::{
    Activity, AppObservation, CpuSet, IdleTimeUse, Lending, Observation, Reading, Trigger, Weight,
};
use mapper_pipeline::{Owned, Owner, weights_by_owner};
use std::collections::BTreeMap;

/// `cause` is why the pass is made, and `trigger` what it counts as: an interval in which something has changed is no sample.
pub(crate) fn observe(
    tick: u64,
    cause: Trigger,
    trigger: Trigger,
    access: &Access,
    registry: &mut Registry,
    machine: &mut Machine,
) -> Observation {
    let now_ns = machine.clock.now_ns();
    let usable = less_housekeeping(registry, machine, left_by_operator(registry, machine));
    let apps_count = u32::try_from(registry.apps.len()).unwrap_or(u32::MAX);
    let equal_share = usable.len() / apps_count.max(1);
    let isolates = registry.apps.iter().any(|app| {
        let refused = || {
            matches!(
                machine.enforcer.standing(app.record.id),
                InForce::NotIsolated(_)
            )
        };
        !app.record.partition.is_member() && !refused()
    });
    let weights = weights_by_user(access, registry, machine);
    let of_one_user = registry.is_of_one_user(&machine.accounts);
    let apps = registry.apps.iter_mut().zip(weights);
    let apps = apps.map(|(app, weight)| {
        let mut observed = observe_one(app, cause, now_ns, equal_share, machine);
        observed.spec.weight = weight;
        let runtime = observed.reading.runtime;
        if !of_one_user || runtime.is_some_and(|runtime| runtime.regions > 0) {
            // Nobody is to have CPUs of another user's by pretending to spin.
            observed.reading.spinning = None;
        }
        if isolates {
            // The kernel isolates no CPU that is in another group's set, too.
            observed.spec.lending = Lending::Never;
        }
        observed
    });
    Observation {
        tick,
        now_ns,
        trigger,
        usable,
        apps: apps.collect(),
    }
}

/// Ordinary users count alike, or as the access rules say. What root has launched or adopted counts for itself: services of
/// the machine. What lends its CPUs, or was placed by the operator, takes nothing from the others of its user.
pub(crate) fn weights_by_user(
    access: &Access,
    registry: &Registry,
    machine: &Machine,
) -> Vec<Weight> {
    let counts = |app: &App| {
        let idle = app.lends() && app.woke == Activity::Idle;
        !idle && app.fixed().is_none()
    };
    // The groups of a user may have changed: those at the latest launch or adoption count.
    let mut groups: BTreeMap<u32, &[u32]> = BTreeMap::new();
    for app in &registry.apps {
        if let Some(known) = &app.record.groups {
            groups.insert(machine.accounts.of(app.record.requested_by()), known);
        }
    }
    let owned = registry.apps.iter().filter(|app| counts(app)).map(|app| {
        let by = app.record.requested_by();
        let owner = |account| Owner {
            account,
            weight: access.weight(account, groups.get(&account).copied().unwrap_or_default()),
        };
        Owned {
            owner: (!is_privileged(by)).then(|| owner(machine.accounts.of(by))),
            weight: app.record.spec.weight,
        }
    });
    let mut weights = weights_by_owner(&owned.collect::<Vec<_>>()).into_iter();
    let all = registry.apps.iter().map(|app| {
        let own = app.record.spec.weight;
        match counts(app) {
            true => weights.next().unwrap_or(own),
            false => own,
        }
    });
    all.collect()
}

fn observe_one(
    app: &mut App,
    cause: Trigger,
    now_ns: u64,
    equal_share: u32,
    machine: &mut Machine,
) -> AppObservation {
    let id = app.record.id;
    // No CPUs have been assigned to a newcomer yet.
    if app.record.standing != Standing::Pending
        && let Ok(effective) = machine.enforcer.effective(id)
    {
        app.effective = effective;
    }
    let woke = std::mem::replace(&mut app.woke, Activity::Idle) == Activity::Active;
    // Others that come and go all the time would have all threads listed and their states read all the time.
    let is_known = cause == Trigger::Membership && app.used.is_some() && !woke;
    let in_group_ns = machine.enforcer.cpu_time_ns(id);
    let tasks = match is_known && in_group_ns.is_some() {
        true => std::mem::take(&mut app.tasks),
        false => machine.enforcer.tasks(id),
    };
    let group = machine.enforcer.group(id);
    let account = machine.accounts.of(app.record.requested_by());
    let subject = Subject {
        app: id,
        account,
        tasks: &tasks,
        cpus: &app.effective,
        group: group.as_deref(),
        page: app.page.as_ref().map(|page| &page.reader),
        group_cpu_time_ns: in_group_ns,
        now_ns,
        // A program that reports often has done so since the pass began, and that is its latest report.
        read_ns: machine.clock.now_ns(),
    };
    let mut reading = Reading::default();
    for source in &mut machine.counters {
        source.read(&subject, &mut reading);
    }
    // On one CPU, CPU time does not show whether others wait for it; an application that used none was idle or was
    // not scheduled.
    let used = CpuTimeSample {
        at_ns: now_ns,
        cpu_time_ns: reading.cpu_time_ns,
    };
    let before = app.used.replace(used);
    let activity = before.map_or(Activity::Active, |before| used.since(before));
    let single = app.effective.len() == 1 && reading.threads.is_empty();
    reading.spinning = app.record.spinning;
    let lends = app.lends();
    if single || lends || activity == Activity::Idle {
        // The next interval counts them again.
        let known = app
            .runnable
            .filter(|running| is_known && (activity == Activity::Idle || *running > 0));
        let mut running = known.unwrap_or_else(|| runnable(&machine.proc, &tasks.threads));
        if woke {
            // A thread that began only now may not be known yet.
            running = running.max(1);
        }
        reading.runnable_threads = Some(running);
    }
    app.runnable = reading.runnable_threads;
    app.tasks = tasks;
    if !lends {
        app.looked = None;
    }
    let page = app.page.as_ref();
    let wish = page.and_then(|page| page.reader.own_report(now_ns).cpus);
    let mut spec = app.record.spec.clone();
    spec.idle_time = idle_time_use(app, machine);
    spec.cpus = page::narrowed(spec.cpus, wish, equal_share);
    AppObservation {
        app: id,
        spec,
        effective: app.effective.clone(),
        allowed: app.allowed(),
        fixed: app.fixed(),
        reading,
    }
}

/// Whether an application may use the idle time of others: not one of a user who may ask for real-time priorities, as
/// threads with these would not make way there. Root's programs are trusted with that.
fn idle_time_use(app: &mut App, machine: &Machine) -> IdleTimeUse {
    let record = &app.record;
    if machine.enforcer.idle_time_use(record.id) == IdleTimeUse::Never {
        return IdleTimeUse::Never;
    }
    if app.by_priorities.is_none() {
        // Its first process may have ended.
        let pid = app.tasks.processes.first();
        let pid = pid.copied().unwrap_or(record.first_process.pid);
        let most = machine.proc.most_real_time_priority(pid);
        app.by_priorities = most
            .ok()
            .map(|most| match most == 0 || is_privileged(record.uid) {
                true => IdleTimeUse::WhileLeft,
                false => IdleTimeUse::Never,
            });
    }
    app.by_priorities.unwrap_or_default()
}

/// The assignable CPUs without those of applications that the operator placed; all of them, if none would be left.
pub(crate) fn left_by_operator(registry: &Registry, machine: &Machine) -> CpuSet {
    let mut left = machine.usable.clone();
    for app in &registry.apps {
        if app.record.standing.set_by_operator().is_some() {
            left.remove_all(&app.effective);
        }
    }
    match left.is_empty() {
        true => machine.usable.clone(),
        false => left,
    }
}

/// These CPUs without one for everything else, if every application has its CPUs to itself: the kernel isolates
/// CPUs only where one is left.
fn less_housekeeping(registry: &Registry, machine: &Machine, mut cpus: CpuSet) -> CpuSet {
    let mut apps = registry.apps.iter();
    let all_isolated =
        !registry.apps.is_empty() && apps.all(|app| !app.record.partition.is_member());
    if all_isolated
        && cpus.len() > 1
        && machine.online.is_subset(&cpus)
        && let Some(first) = cpus.first_cpu()
    {
        cpus.remove(first);
    }
    cpus
}
