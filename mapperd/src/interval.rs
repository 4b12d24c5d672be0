//! One pass: everything the daemon does in an interval. Start reading here.
//!
//! 1. *Refresh*: which processes and threads belong to each application.
//! 2. *Surroundings*: CPUs, sets and limits that others have changed ([`machine::surroundings`](surroundings)).
//! 3. *Observe*: counters, pages, CPUs in force ([`machine::observe`](observe)). A counter reading becomes a
//!    rate in the controller's first step (`mapper_characterise`).
//! 4. *Decide*: [`Controller::step`](mapper_pipeline::Controller::step), a pure function of what was
//!    observed before; recorded, if asked for.
//! 5. *Account*: what the interval gave to each application.
//! 6. *Check*: a plan with an error is a fault of a policy; nothing of it is put in force.
//! 7. *Enforce*: CPUs, then memory, then pages ([`machine::enforce`](enforce)).
//! 8. *Adapt*: a pass that costs more than the budget stretches the interval.

use crate::config::settings::Settings;
use crate::decider::Decider;
use crate::machine::Machine;
use crate::machine::enforce::enforce;
use crate::machine::observe::observe;
use crate::machine::surroundings::{self, Surroundings};
use crate::registry::Registry;
use crate::registry::accounting::IntervalSample;
use crate::store::Store;
use crate::store::saved::Ending;
use crate::telemetry::Telemetry;
use mapper_host::chain;
use mapper_model::{Activity, Observation, Plan, Trigger};
use mapper_pipeline::{Severity, check};
use std::time::{Duration, Instant};

/// Takes one decision and puts it in force.
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
    let cpu_time = ThreadCpuTime::now();
    // Whatever is logged until the end of the pass carries the number of the interval.
    let span = tracing::info_span!("interval", interval = decider.decisions + 1, cause = ?trigger);
    let _entered = span.enter();
    if let Err(error) = machine.enforcer.refresh() {
        telemetry.tally.error("processes");
        tracing::warn!("processes not read: {}", chain(&error));
    }
    let changed = surroundings::check(registry, machine, decider, telemetry);
    if changed == Surroundings::Released {
        store.save(Ending::Running, registry, machine, decider);
    }
    let trigger = match changed {
        Surroundings::AsBefore => trigger,
        // What was measured across the change is no sample.
        Surroundings::Changed | Surroundings::Released => Trigger::Membership,
    };
    decider.decisions += 1;
    let observation = observe(decider.decisions, trigger, registry, machine);
    let observed = started.elapsed();
    let floors = floors(registry);
    let plan = decider.controller.step(&observation);
    let decided = started.elapsed();
    if let Some(recorder) = &mut telemetry.recorder {
        recorder.write(&observation, &plan);
    }
    account(&observation, &floors, registry, decider);
    if may_be_enforced(&plan, &observation, decider, telemetry) {
        enforce(&plan, registry, machine, decider, telemetry);
        // Arrivals and departures are saved when all that belongs to them is done.
        if trigger == Trigger::Interval && !plan.actions.is_empty() {
            store.save(Ending::Running, registry, machine, decider);
        }
    }
    telemetry.tally.decided(started.elapsed());
    let times = Times {
        observe_ns: nanoseconds(observed),
        decide_ns: nanoseconds(decided - observed),
        enforce_ns: nanoseconds(started.elapsed() - decided),
    };
    log_decision(registry.apps.len(), &plan, times);
    // What an arrival costs, such as opening counters, is not what the next interval costs.
    if trigger == Trigger::Interval {
        decider.adapt_interval(cpu_time.elapsed_ns(), settings);
    }
}

/// The floors that the interval was planned by.
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
    for (app, floor) in registry.apps.iter_mut().zip(floors) {
        let record = &mut app.record;
        let observed = observation.apps.iter().find(|o| o.app == record.id);
        let profile = observed.and_then(|o| decider.controller.profile(o.app));
        record.accounting.record(IntervalSample {
            now_ns: observation.now_ns,
            cpus: app.effective.len(),
            used_cpu_ns: observed.and_then(|o| o.reading.cpu_time_ns),
            performance: profile
                .filter(|_| observation.trigger == Trigger::Interval)
                .and_then(|profile| profile.performance),
            activity: profile.map_or(Activity::Active, |profile| profile.activity),
            floor: *floor,
            qos: record.spec.qos,
        });
    }
}

/// Checks the plan. One with an error is a mistake in a policy: nothing of it is put in force, and every
/// application keeps what it has.
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
                telemetry.tally.error("plan");
                tracing::error!(tick = plan.tick, "plan not enforced: {finding}");
                valid = false;
            }
        }
    }
    valid
}

/// Where the time of a decision went.
#[derive(Clone, Copy, Debug)]
struct Times {
    observe_ns: u64,
    decide_ns: u64,
    enforce_ns: u64,
}

/// One line for each interval: at level info if something was moved, else at debug, so that a steady
/// machine does not fill the journal.
fn log_decision(applications: usize, plan: &Plan, times: Times) {
    let Times {
        observe_ns,
        decide_ns,
        enforce_ns,
    } = times;
    let (decisions, moves) = (plan.apps.len(), plan.actions.len());
    if moves == 0 {
        tracing::debug!(
            applications,
            decisions,
            moves,
            observe_ns,
            decide_ns,
            enforce_ns,
            "decided: nothing to move"
        );
    } else {
        tracing::info!(
            applications,
            decisions,
            moves,
            observe_ns,
            decide_ns,
            enforce_ns,
            "decided"
        );
    }
}

/// The CPU time of this thread at a moment.
#[derive(Clone, Copy, Debug)]
struct ThreadCpuTime(Duration);

impl ThreadCpuTime {
    fn now() -> Self {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        // The kernel gives neither part below 0.
        let seconds = u64::try_from(used.tv_sec).unwrap_or_default();
        let ns = u64::try_from(used.tv_nsec).unwrap_or_default();
        Self(Duration::from_secs(seconds) + Duration::from_nanos(ns))
    }

    fn elapsed_ns(self) -> u64 {
        nanoseconds(Self::now().0.saturating_sub(self.0))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
