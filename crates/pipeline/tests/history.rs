//! Whole steps through random histories on random machines, for every policy with every mapping:
//! whatever is observed, a plan can be enforced, can be explained, and can be taken again.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

mod support;

use mapper_model::random::SplitMix64;
use mapper_model::testing::{Machine, machines, usable};
use mapper_model::{
    AppId, AppName, AppObservation, AppSpec, Assignment, CounterValue, Counters, CpuId, CpuRange,
    CpuSet, Event, Fixed, IdleTimeUse, Lending, Loan, Observation, Qos, Reading, ReportedProgress,
    Resizing, RuntimeProgress, SerialPhase, Sharing, Spinning, ThreadId, ThreadReading, Topology,
    Trigger, Weight,
};
use mapper_pipeline::{
    Changes, Comparison, Controller, ControllerState, Header, Replay, Severity, check, record,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::collections::{BTreeMap, BTreeSet};
use support::{World, assert_no_cpu_is_promised_twice, config};

/// An application whose readings are as broken as readings can be.
struct Wild {
    id: AppId,
    spec: AppSpec,
    /// What it may use, if it may not use everything.
    allowed: Option<CpuSet>,
    /// Whether it stays where it is.
    fixed: Option<Fixed>,
    effective: CpuSet,
    clock: u64,
    /// It reports its work, and its readings are broken only now and then: only of such
    /// applications is anything learned.
    sane: bool,
    /// Work done so far, and how it scales.
    done: f64,
    exponent: f64,
    /// It does nothing, and reports that properly.
    asleep: bool,
}

/// What an application may use: mostly everything, else some CPUs next to each other, or any.
fn allowed(topology: &Topology, numbers: &mut SplitMix64) -> Option<CpuSet> {
    let all = topology.cpus();
    match numbers.below(6) {
        0 => {
            let many = 1 + numbers.below(5) as usize;
            let first = numbers.below(all.len()) as usize;
            Some(all.iter().skip(first).take(many).collect())
        }
        1 => Some(usable(topology, numbers)),
        2 if numbers.below(8) == 0 => Some([CpuId(9999)].into_iter().collect()),
        _ => None,
    }
}

fn pick<T: Copy>(numbers: &mut SplitMix64, from: &[T]) -> T {
    from[numbers.below(from.len() as u32) as usize]
}

fn spec(id: AppId, numbers: &mut SplitMix64) -> AppSpec {
    let min = 1 + numbers.below(4);
    AppSpec {
        qos: Qos::new(pick(numbers, &[0.01, 0.5, 0.85, 1.0])).unwrap(),
        weight: Weight::new(pick(numbers, &[0.01, 1.0, 1.0, 2.0, 100.0])).unwrap(),
        cpus: CpuRange::new(min, (numbers.below(3) == 0).then(|| min + numbers.below(9))).unwrap(),
        resizing: pick(
            numbers,
            &[Resizing::Allowed, Resizing::Allowed, Resizing::Never],
        ),
        lending: pick(
            numbers,
            &[Lending::WhenIdle, Lending::WhenIdle, Lending::Never],
        ),
        idle_time: pick(numbers, &[IdleTimeUse::WhileLeft, IdleTimeUse::Never]),
        ..AppSpec::named(AppName::new(&format!("app{}", id.0)).unwrap())
    }
}

/// A cumulative count: it may stand still, jump, run backwards or be at its end.
fn count(clock: u64, numbers: &mut SplitMix64) -> u64 {
    match numbers.below(8) {
        0 => 0,
        1 => u64::MAX - u64::from(numbers.below(3)),
        2 => numbers.next_u64(),
        3 => clock,
        _ => clock.wrapping_mul(u64::from(1 + numbers.below(4))),
    }
}

fn reading(app: &Wild, now_ns: u64, numbers: &mut SplitMix64) -> Reading {
    let mut reading = Reading::default();
    if app.asleep {
        reading.cpu_time_ns = Some(7);
        reading.runnable_threads = Some(0);
        return reading;
    }
    if app.sane && numbers.below(12) > 0 {
        reading.reported = Some(ReportedProgress::Work {
            done: app.done,
            at_ns: now_ns,
        });
        reading.spare_cpus = (numbers.below(30) == 0).then(|| numbers.below(9));
        if numbers.below(8) == 0 {
            reading.serial_phase = SerialPhase::Open;
            reading.spare_cpus = Some(u32::MAX);
        }
        return reading;
    }
    if numbers.below(5) == 0 {
        // Everything is lost in this interval.
        return reading;
    }
    let mut threads: Vec<u32> = (0..numbers.below(6)).map(|_| numbers.below(9)).collect();
    threads.sort_unstable();
    for tid in threads {
        let mut counters = Counters::default();
        for event in Event::ALL {
            if numbers.below(4) > 0 {
                counters.set(
                    event,
                    CounterValue {
                        value: count(app.clock, numbers),
                        enabled_ns: count(now_ns, numbers),
                        running_ns: count(now_ns / 2, numbers),
                    },
                );
            }
        }
        reading.threads.push(ThreadReading {
            tid: ThreadId(tid),
            started: u64::from(numbers.below(2)),
            counters,
        });
    }
    if numbers.below(2) == 0 {
        reading.runtime = Some(RuntimeProgress {
            regions: count(app.clock / 1000, numbers),
            iterations: count(app.clock, numbers),
            wait_ns: (numbers.below(2) == 0).then(|| count(now_ns, numbers)),
            parallel_ns: (numbers.below(2) == 0).then(|| count(now_ns, numbers)),
            last_ns: count(now_ns, numbers),
            threads: numbers.below(9),
            region: numbers.next_u64(),
        });
    }
    if numbers.below(2) == 0 {
        let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e308, f64::MIN_POSITIVE];
        let value = if numbers.below(2) == 0 {
            pick(numbers, &odd)
        } else {
            app.clock as f64
        };
        let at_ns = count(now_ns, numbers);
        reading.reported = Some(if numbers.below(3) == 0 {
            ReportedProgress::Latency {
                latency_ns: value,
                at_ns,
            }
        } else {
            ReportedProgress::Work { done: value, at_ns }
        });
    }
    reading.cpu_time_ns = (numbers.below(2) == 0).then(|| count(app.clock, numbers));
    reading.runnable_threads = (numbers.below(2) == 0).then(|| numbers.below(9));
    reading.spare_cpus = (numbers.below(4) == 0).then(|| numbers.below(300));
    if numbers.below(4) == 0 {
        reading.serial_phase = SerialPhase::Open;
    }
    reading.spinning = (numbers.below(8) == 0).then(|| Spinning {
        threads: numbers.below(40),
        share: numbers.unit(),
    });
    reading
}

/// A few observations in the life of a machine where anything happens, and what must hold of each
/// plan.
fn live(machine: &Machine, allocation: &str, mapping: &str, seed: u64, steps: u32, most_apps: u32) {
    let topology = machine.topology();
    let numbers = &mut SplitMix64::new(seed);
    let settings = config(allocation, mapping);
    let mut controller = Controller::new(settings.clone(), topology.clone()).unwrap();
    let mut recording = Vec::new();
    // The recording begins somewhere in the middle.
    let begin = numbers.below(steps);
    let mut given_out = topology.cpus().clone();
    let confining = numbers.below(2) == 0;
    let mut apps: Vec<Wild> = Vec::new();
    let (mut next, mut now_ns) = (1, 5_000_000_000);

    // In some histories everything changes all the time; in others applications live long enough to
    // be measured, to try and to give.
    let calm = numbers.below(2) == 0;
    let rarer = if calm { 12 } else { 1 };
    for tick in 1..=u64::from(steps) {
        let mut trigger = Trigger::Interval;
        if numbers.below(5 * rarer) == 0 {
            given_out = match numbers.below(12) {
                0 => CpuSet::new(),
                1 => [CpuId(9999)].into_iter().collect(),
                _ => usable(&topology, numbers),
            };
            trigger = Trigger::Membership;
        }
        if numbers.below(3 * rarer) == 0 || apps.is_empty() {
            trigger = Trigger::Membership;
            for _ in 0..1 + numbers.below(most_apps) {
                let id = AppId(next);
                next += 1;
                apps.push(Wild {
                    id,
                    spec: spec(id, numbers),
                    allowed: confining.then(|| allowed(&topology, numbers)).flatten(),
                    fixed: None,
                    effective: CpuSet::new(),
                    clock: 0,
                    sane: numbers.below(3) > 0,
                    done: 0.0,
                    exponent: numbers.unit() * 1.4 - 0.2,
                    asleep: false,
                });
            }
        }
        if numbers.below(3 * rarer) == 0 {
            trigger = Trigger::Membership;
            apps.retain(|_| numbers.below(3) > 0);
        }
        if numbers.below(8 * rarer) == 0
            && let Some(app) = apps.first_mut()
        {
            app.spec = spec(app.id, numbers);
        }
        if confining
            && numbers.below(8 * rarer) == 0
            && let Some(app) = apps.last_mut()
        {
            app.allowed = allowed(&topology, numbers);
        }
        if numbers.below(12 * rarer) == 0
            && let Some(app) = apps.first_mut()
        {
            app.fixed = pick(
                numbers,
                &[Some(Fixed::ByOperator), Some(Fixed::ByLimit), None],
            );
            app.effective = match app.fixed {
                Some(_) => usable(&topology, numbers),
                None => CpuSet::new(),
            };
            trigger = Trigger::Membership;
        }
        if calm {
            now_ns += 1_000_000_000;
        } else if numbers.below(4) > 0 {
            now_ns += [1, 1_000_000, 1_000_000_000][numbers.below(3) as usize];
        }
        for app in &mut apps {
            app.clock += u64::from(numbers.below(2_000_000_000)) * u64::from(app.effective.len());
            let rate = f64::from(app.effective.len()).powf(app.exponent);
            app.done += rate * (1.0 + 0.1 * numbers.unit());
            if numbers.below(6) == 0 {
                app.asleep = !app.asleep;
            }
            if numbers.below(12 * rarer) == 0 {
                // Something else than planned is in force.
                app.effective = usable(&topology, numbers);
            }
        }
        let mut observed: Vec<AppObservation> = apps
            .iter()
            .map(|app| AppObservation {
                app: app.id,
                spec: app.spec.clone(),
                effective: app.effective.clone(),
                allowed: app.allowed.clone(),
                fixed: app.fixed,
                reading: reading(app, now_ns, numbers),
            })
            .collect();
        if numbers.below(20) == 0 && !observed.is_empty() {
            // One application is listed twice.
            observed.push(observed[0].clone());
        }
        let mut others = given_out.clone();
        for app in &apps {
            if app.fixed == Some(Fixed::ByOperator) {
                others.remove_all(&app.effective);
            }
        }
        let observation = Observation {
            tick,
            now_ns,
            trigger,
            usable: if others.is_empty() {
                given_out.clone()
            } else {
                others
            },
            apps: observed,
        };

        if tick == u64::from(begin) + 1 {
            recording.push(Header::of(&controller).line().unwrap());
        }
        // A plan with an error panics in the step, by the feature `checks`.
        let plan = controller.step(&observation);
        if !recording.is_empty() {
            recording.push(record::line(&observation, &plan).unwrap());
        }
        assert_plan(&controller, &observation, &plan);
        assert_no_cpu_is_promised_twice(&observation, &plan);
        for action in &plan.actions {
            if let Some(app) = apps.iter_mut().find(|a| a.id == action.app()) {
                app.effective.clone_from(action.to());
            }
        }
        // What is remembered survives being written down.
        if numbers.below(6) == 0 {
            let state = serde_json::to_string(&controller.save()).unwrap();
            let state: ControllerState = serde_json::from_str(&state).unwrap();
            controller = Controller::new(settings.clone(), topology.clone()).unwrap();
            controller.restore(state).unwrap();
        }
    }
    let mut replay = Replay::start(&recording[0], &Changes::default()).unwrap();
    for line in &recording[1..] {
        let decided = replay.next(line).unwrap();
        assert_eq!(decided.comparison, Comparison::Same, "{line}");
    }
}

fn assert_plan(controller: &Controller, observation: &Observation, plan: &mapper_model::Plan) {
    let usable = controller.usable(observation);
    let mut ids: Vec<AppId> = Vec::new();
    for app in &observation.apps {
        if !ids.contains(&app.app) {
            ids.push(app.app);
        }
    }
    assert!(plan.apps.iter().map(|a| a.app).eq(ids.iter().copied()));
    let fixed: BTreeSet<AppId> = observation
        .apps
        .iter()
        .filter(|app| app.fixed.is_some())
        .map(|app| app.app)
        .collect();
    for (planned, id) in plan.apps.iter().zip(&ids) {
        if fixed.contains(id) {
            let observed = observation.apps.iter().find(|a| a.app == *id).unwrap();
            assert_eq!(planned.cpus, observed.effective);
            assert!(plan.actions.iter().all(|action| action.app() != *id));
        }
    }
    let ids_of_all = ids.clone();
    ids.retain(|id| !fixed.contains(id));
    for id in &ids {
        let explained = controller.explain(*id).unwrap();
        assert!(!explained.decisions.is_empty() && explained.decisions.len() <= 10);
        assert!(explained.curve.iter().all(|p| p.perf.is_finite()));
    }
    if usable.is_empty() {
        assert!(plan.actions.is_empty());
        return;
    }
    // What each may use that may not use everything; whether each can have one CPU at least.
    let mut may_use: BTreeMap<AppId, CpuSet> = BTreeMap::new();
    for app in observation.apps.iter().rev() {
        if fixed.contains(&app.app) {
            continue;
        }
        let left = app.allowed.as_ref().map(|set| set.intersection(&usable));
        may_use.remove(&app.app);
        may_use.extend(left.filter(|l| !l.is_empty()).map(|left| (app.app, left)));
    }
    let sets = ids.iter().map(|id| may_use.get(id).unwrap_or(&usable));
    let mut assignment = Assignment::new(&usable, sets.collect());
    let one_each = (0..ids.len()).all(|app| assignment.grow(app, &CpuSet::new()).is_ok());
    let spins = (observation.apps.iter()).any(|app| app.reading.spinning.is_some());
    let mut owned = CpuSet::new();
    let mut left_in_place = CpuSet::new();
    for app in &plan.apps {
        if fixed.contains(&app.app) {
            left_in_place.insert_all(&app.cpus);
            continue;
        }
        assert!(!app.cpus.is_empty() && app.cpus.is_subset(&usable));
        assert!(!app.sentence.is_empty());
        if app.loan == Loan::Lends {
            left_in_place.insert_all(&app.cpus);
            assert!(plan.actions.iter().all(|action| action.app() != app.app));
            continue;
        }
        if app.share.sharing == Sharing::Exclusive {
            assert!(app.cpus.is_disjoint(&owned));
        } else {
            assert!(!one_each || spins, "shares though there is a CPU for each");
        }
        if let Some(may_use) = may_use.get(&app.app) {
            assert!(app.cpus.is_subset(may_use), "{app:?} outside {may_use}");
        }
        owned.insert_all(&app.cpus);
    }
    assert_eq!(
        plan.free,
        usable.difference(&owned).difference(&left_in_place)
    );
    let deduplicated = Observation {
        apps: ids_of_all
            .iter()
            .filter_map(|id| observation.apps.iter().find(|a| a.app == *id).cloned())
            .collect(),
        ..observation.clone()
    };
    let findings = check(plan, &deduplicated, &usable);
    assert!(
        findings.iter().all(|f| f.severity < Severity::Error
            && !f.what.contains("gives to and takes")
            && !f.what.contains("the transfers say")),
        "{findings:#?}\n{plan:#?}"
    );
}

proptest! {
    #[test]
    fn whatever_is_observed_every_plan_holds(
        machine in machines(),
        allocation in 0..mapper_allocate::POLICIES.len(),
        mapping in 0..mapper_placement::POLICIES.len(),
        seed in any::<u64>(),
        most_apps in 1u32..12,
    ) {
        let (allocation, mapping) = (
            mapper_allocate::POLICIES[allocation].name,
            mapper_placement::POLICIES[mapping].name,
        );
        live(&machine, allocation, mapping, seed, 24, most_apps);
    }
}

/// Every pair of policies, each on several of the machines that the strategy makes.
#[test]
fn every_policy_goes_with_every_mapping_on_any_machine() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seed = 0;
    for allocation in mapper_allocate::POLICIES {
        for mapping in mapper_placement::POLICIES {
            for (steps, most_apps) in [(40, 6), (60, 3), (20, 40)] {
                let machine = machines().new_tree(&mut runner).unwrap().current();
                seed += 1;
                live(
                    &machine,
                    allocation.name,
                    mapping.name,
                    seed,
                    steps,
                    most_apps,
                );
            }
        }
    }
}

#[test]
fn nothing_moves_once_everything_is_settled() {
    for allocation in mapper_allocate::POLICIES {
        for mapping in mapper_placement::POLICIES {
            let topology = mapper_model::Topology::regular(mapper_model::topology::Shape {
                sockets: 2,
                cores_per_socket: 8,
                threads_per_core: 2,
            });
            let mut config = config(allocation.name, mapping.name);
            // Without exploration at random, which is what the rules as printed do where nothing is given.
            config.allocate.reexplore_every = Some(u32::MAX);
            let mut w = World::new(config, topology);
            w.start([
                support::linear(),
                support::amdahl(0.1),
                support::flat(9.0),
                support::peak(6),
            ]);
            // Beyond the seconds that mapper-next spends under the static fair share (ADR 27).
            w.intervals(80);
            assert_eq!(
                w.intervals(40),
                0,
                "{} with {}: {:?} {:?}",
                allocation.name,
                mapping.name,
                w.counts(),
                w.sentences()
            );
            // Nor when it is asked again though nothing has changed.
            let before = w.last.clone();
            w.decide(Trigger::Membership);
            assert!(w.last.actions.is_empty(), "{:?}", w.sentences());
            assert!(
                w.last
                    .apps
                    .iter()
                    .zip(&before.apps)
                    .all(|(a, b)| a.cpus == b.cpus)
            );
        }
    }
}
