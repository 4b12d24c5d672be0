//! A program of constant speed that is stopped, or has nothing to do, for a while: it never looks slow.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mapper_characterise::{Characteriser, CharacteriserConfig};
use mapper_model::topology::Shape;
use mapper_model::{
    Activity, AppId, AppName, AppObservation, AppSpec, CounterValue, Counters, CpuSet, Event,
    MachineProfile, Observation, PerformanceSource, Profile, Reading, ReportedProgress,
    RuntimeProgress, ThreadId, ThreadReading, Topology, Trigger,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SECOND_MS: u64 = 1000;
/// Something is completed each time it has worked for as long.
const PIECE_MS: u64 = 10;
/// Something is completed a second.
const SPEED: f64 = 100.0;

/// When it does nothing, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Pause {
    from_ms: u64,
    to_ms: u64,
}

/// How long it had worked, and when it completed something last.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    worked_ms: u64,
    pieces: u64,
    last_ms: u64,
}

fn done_by(pauses: &[Pause], now_ms: u64) -> Done {
    let mut done = Done::default();
    for ms in 0..now_ms {
        if !pauses.iter().any(|p| (p.from_ms..p.to_ms).contains(&ms)) {
            done.worked_ms += 1;
            if done.worked_ms % PIECE_MS == 0 {
                done.pieces += 1;
                done.last_ms = ms + 1;
            }
        }
    }
    done
}

fn reading(source: PerformanceSource, done: Done) -> Reading {
    let ns = done.worked_ms * MS;
    let mut reading = Reading {
        cpu_time_ns: Some(ns),
        ..Reading::default()
    };
    match source {
        PerformanceSource::Reported => {
            reading.reported = Some(ReportedProgress::Work {
                done: done.pieces as f64,
                at_ns: done.last_ms * MS,
            });
        }
        PerformanceSource::Runtime => {
            reading.runtime = Some(RuntimeProgress {
                regions: done.pieces,
                last_ns: done.last_ms * MS,
                ..RuntimeProgress::default()
            });
        }
        PerformanceSource::Ipc => {
            let mut counters = Counters::default();
            for event in [Event::Instructions, Event::Cycles] {
                counters.set(
                    event,
                    CounterValue {
                        value: ns,
                        enabled_ns: ns,
                        running_ns: ns,
                    },
                );
            }
            reading.threads = vec![ThreadReading {
                tid: ThreadId(1),
                started: 1,
                counters,
            }];
        }
        PerformanceSource::CpuTime => {}
    }
    reading
}

/// The profile after each second.
fn watched(source: PerformanceSource, pauses: &[Pause], seconds: u64) -> Vec<Profile> {
    let topology = Topology::regular(Shape {
        sockets: 1,
        cores_per_socket: 2,
        threads_per_core: 1,
    });
    let machine = MachineProfile {
        clock_hz: 1e9,
        ..MachineProfile::default()
    };
    let mut monitor = Characteriser::new(CharacteriserConfig::default());
    (1..=seconds)
        .map(|second| {
            let now_ms = second * SECOND_MS;
            let observation = Observation {
                tick: second,
                now_ns: now_ms * MS,
                trigger: Trigger::Interval,
                usable: topology.cpus().clone(),
                apps: vec![AppObservation {
                    app: AppId(1),
                    spec: AppSpec::named(AppName::new("a").unwrap()),
                    effective: CpuSet::first(1),
                    allowed: None,
                    fixed: None,
                    reading: reading(source, done_by(pauses, now_ms)),
                }],
            };
            monitor.observe(&observation, &topology, &machine, |_| {
                mapper_characterise::Basis::OwnCpus
            });
            monitor.profile(AppId(1)).unwrap().clone()
        })
        .collect()
}

/// Pauses long enough for a whole interval to lie in each.
fn pauses() -> impl Strategy<Value = Vec<Pause>> {
    proptest::collection::vec((1500u64..5000, 2000u64..5000), 0..4).prop_map(|parts| {
        let mut now_ms = 0;
        parts
            .into_iter()
            .map(|(work_ms, pause_ms)| {
                let from_ms = now_ms + work_ms;
                now_ms = from_ms + pause_ms;
                Pause {
                    from_ms,
                    to_ms: now_ms,
                }
            })
            .collect()
    })
}

fn sources() -> impl Strategy<Value = PerformanceSource> {
    use PerformanceSource::{CpuTime, Ipc, Reported, Runtime};
    prop_oneof![Just(Reported), Just(Runtime), Just(Ipc), Just(CpuTime)]
}

#[test]
fn what_never_ran_has_no_performance_and_is_idle() {
    let asleep = [Pause {
        from_ms: 0,
        to_ms: 60_000,
    }];
    for profile in watched(PerformanceSource::CpuTime, &asleep, 9)
        .iter()
        .skip(1)
    {
        assert_eq!((profile.samples, profile.performance), (0, None));
        assert_eq!(profile.activity, Activity::Idle);
        assert!(profile.curve.is_empty());
    }
}

#[test]
fn what_wants_to_run_and_is_not_let_is_not_idle() {
    let topology = Topology::regular(Shape {
        sockets: 1,
        cores_per_socket: 2,
        threads_per_core: 1,
    });
    let mut monitor = Characteriser::new(CharacteriserConfig::default());
    for second in 1..4 {
        let observation = Observation {
            tick: second,
            now_ns: second * SECOND_MS * MS,
            trigger: Trigger::Interval,
            usable: topology.cpus().clone(),
            apps: vec![AppObservation {
                app: AppId(1),
                spec: AppSpec::named(AppName::new("a").unwrap()),
                effective: CpuSet::first(1),
                allowed: None,
                fixed: None,
                reading: Reading {
                    cpu_time_ns: Some(5 * MS),
                    runnable_threads: Some(1),
                    ..Reading::default()
                },
            }],
        };
        monitor.observe(&observation, &topology, &MachineProfile::default(), |_| {
            mapper_characterise::Basis::OwnCpus
        });
    }
    let profile = monitor.profile(AppId(1)).unwrap();
    assert_eq!(profile.activity, Activity::Active);
    assert_eq!(profile.performance.unwrap().value, 0.0);
}

proptest! {
    /// Whatever it is measured by, and wherever pauses begin and end. Only where nothing tells when it
    /// completed what, an interval in which it stopped shows less.
    #[test]
    fn a_program_of_constant_speed_never_looks_slow_for_having_been_idle(
        source in sources(),
        pauses in pauses(),
    ) {
        let completes = matches!(source, PerformanceSource::Reported | PerformanceSource::Runtime);
        let speed = if completes { SPEED } else { 1.0 };
        for (place, profile) in watched(source, &pauses, 30).iter().enumerate() {
            let end_ms = (place as u64 + 1) * SECOND_MS;
            let interval = end_ms - SECOND_MS..end_ms;
            let stopped_in = pauses.iter().any(|p| interval.contains(&p.from_ms));
            let slept_through = pauses
                .iter()
                .any(|p| p.from_ms <= interval.start && p.to_ms >= interval.end);
            if slept_through {
                prop_assert_eq!(profile.performance, None);
            }
            let Some(performance) = profile.performance else {
                continue;
            };
            prop_assert_eq!(performance.source, source);
            if completes || !stopped_in {
                prop_assert!(
                    (performance.value - speed).abs() < 1e-6 * speed,
                    "{} instead of {speed} in second {}", performance.value, place + 1
                );
            }
        }
    }
}
