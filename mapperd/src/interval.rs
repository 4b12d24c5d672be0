//! One pass: everything the daemon does in an interval. Start reading here.
//!
//! 1. *Refresh*: which processes and threads belong to each application. Where one came or left, only what is new is
//!    looked at, and the rest at the end of the interval.
//! 2. *Surroundings*: CPUs, sets and limits that others have changed ([`machine::surroundings`](surroundings)).
//! 3. *Observe*: counters, pages, CPUs in force ([`machine::observe`](observe)), and threads as in 1. The controller's
//!    first step turns counter readings into rates (`mapper_characterise`).
//! 4. *Decide*: [`Controller::step`](mapper_pipeline::Controller::step), a pure function of the observations so far;
//!    recorded on request.
//! 5. *Account*: what the interval gave to each application.
//! 6. *Check*: a plan with an error is a fault of a policy and is not enforced.
//! 7. *Enforce*: CPUs, then memory, then pages ([`machine::enforce`](enforce)).
//!    What may spin is left to [a thread that looks](crate::machine::spinning).
//! 8. *Adapt*: a pass that costs more than the budget stretches the interval.

use crate::config::settings::Settings;
use crate::decider::Decider;
use crate::machine::Machine;
use crate::machine::enforce::enforce;
use crate::machine::observe::observe;
use crate::machine::process::thread_cpu_time;
use crate::machine::surroundings::{self, Surroundings};
use crate::registry::Registry;
use crate::registry::accounting::{IntervalSample, Phase};
use crate::store::Store;
use crate::store::saved::Ending;
use crate::telemetry::Telemetry;
use crate::telemetry::tally::Trouble;
use mapper_host::chain;
use mapper_model::{Activity, Observation, PhaseChange, Plan, Trigger};
use mapper_pipeline::{Severity, check};
use std::time::{Duration, Instant};

pub(crate) fn pass(
    trigger: Trigger,
    settings: &Settings,
    registry: &mut Registry,
    machine: &mut Machine,
    decider: &mut Decider,
    store: &Store,
    telemetry: &mut Telemetry,
) {
    let started = Instant::now();
    let cpu_time = thread_cpu_time();
    // Log lines of the pass carry the number of the interval.
    let span = tracing::info_span!("interval", interval = decider.decisions + 1, cause = ?trigger);
    let _entered = span.enter();
    let refreshed = match trigger {
        Trigger::Interval => machine.enforcer.refresh(),
        _ => machine.enforcer.follow_new(),
    };
    if let Err(error) = refreshed {
        telemetry.tally.error(Trouble::Processes);
        tracing::warn!("processes not read: {}", chain(&error));
    }
    let changed = surroundings::check(registry, machine, decider, telemetry);
    if changed == Surroundings::Released {
        store.save(Ending::Running, registry, machine, decider);
    }
    let cause = trigger;
    let trigger = match changed {
        Surroundings::AsBefore => trigger,
        // Measurements across the change are no sample.
        Surroundings::Changed | Surroundings::Released => Trigger::Membership,
    };
    decider.decisions += 1;
    let observation = observe(
        decider.decisions,
        cause,
        trigger,
        &settings.access,
        registry,
        machine,
    );
    let observed = started.elapsed();
    let floors = floors(registry);
    let plan = decider.controller.step(&observation);
    let decided = started.elapsed();
    if let Some(recorder) = &mut telemetry.recorder {
        recorder.write(&observation, &plan);
    }
    account(&observation, &floors, registry, decider);
    if may_be_enforced(&plan, &observation, decider, telemetry) {
        enforce(&plan, &observation, registry, machine, decider, telemetry);
        // For arrivals and departures the caller saves.
        if trigger == Trigger::Interval && !plan.actions.is_empty() {
            store.save(Ending::Running, registry, machine, decider);
        }
    }
    machine
        .spinning
        .note(registry, &observation, &machine.accounts);
    let total = started.elapsed();
    telemetry.tally.decision_s.observe(total.as_secs_f64());
    log_decision(registry.apps.len(), &plan, [observed, decided, total]);
    // The cost of an arrival, such as opening counters, is not that of the next interval.
    if trigger == Trigger::Interval {
        let cost = thread_cpu_time().saturating_sub(cpu_time);
        decider.adapt_interval(nanoseconds(cost), settings);
    }
}

/// The floors that the interval was planned with.
fn floors(registry: &Registry) -> Vec<Option<f64>> {
    let planned = registry.apps.iter().map(|app| app.record.planned.as_ref());
    planned.map(|planned| planned?.share.floor).collect()
}

/// Records what the interval gave to each application.
fn account(
    observation: &Observation,
    floors: &[Option<f64>],
    registry: &mut Registry,
    decider: &Decider,
) {
    // Nobody has come or left since.
    for ((app, floor), observed) in registry.apps.iter_mut().zip(floors).zip(&observation.apps) {
        let held = app.held();
        let record = &mut app.record;
        let observed = Some(observed).filter(|o| o.app == record.id);
        let profile = observed.and_then(|o| decider.controller.profile(o.app));
        record.accounting.record(IntervalSample {
            now_ns: observation.now_ns,
            trigger: observation.trigger,
            held,
            used_cpu_ns: observed.and_then(|o| o.reading.cpu_time_ns),
            performance: profile.and_then(|profile| profile.performance),
            activity: profile.map_or(Activity::Active, |profile| profile.activity),
            phase: profile.map(Phase::of).unwrap_or_default(),
            change: profile.map_or(PhaseChange::Same, |profile| profile.phase),
            floor: *floor,
            qos: record.spec.qos,
        });
    }
}

/// Checks the plan. One with an error is a fault of a policy: every application keeps what it has.
fn may_be_enforced(
    plan: &Plan,
    observation: &Observation,
    decider: &Decider,
    telemetry: &mut Telemetry,
) -> bool {
    let usable = decider.controller.usable(observation);
    let mut valid = true;
    for finding in check(plan, observation, &usable) {
        match finding.severity {
            Severity::Warning => tracing::warn!(tick = plan.tick, "plan: {finding}"),
            Severity::Error => {
                telemetry.tally.error(Trouble::Plan);
                tracing::error!(tick = plan.tick, "plan not enforced: {finding}");
                valid = false;
            }
        }
    }
    valid
}

/// One line for each interval, at level debug: the moves have lines of their own. The times are those since the start of
/// the pass.
fn log_decision(applications: usize, plan: &Plan, [observed, decided, total]: [Duration; 3]) {
    let observe_ns = nanoseconds(observed);
    let decide_ns = nanoseconds(decided - observed);
    let enforce_ns = nanoseconds(total - decided);
    let (decisions, moves) = (plan.apps.len(), plan.actions.len());
    tracing::debug!(
        applications,
        decisions,
        moves,
        observe_ns,
        decide_ns,
        enforce_ns,
        "decided"
    );
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
