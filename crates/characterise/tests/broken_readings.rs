//! Whatever is read, the profiles are sane: nothing panics, every number is finite and not
//! negative, and the same observations give the same profiles.

use mapper_characterise::{Characteriser, CharacteriserConfig};
use mapper_model::topology::Shape;
use mapper_model::{
    AppId, AppName, AppObservation, AppSpec, CounterValue, Counters, CpuSet, Event, MachineProfile,
    Observation, Profile, Reading, ReportedProgress, RuntimeProgress, ThreadId, ThreadReading,
    Topology, Trigger,
};
use proptest::prelude::*;

/// Counts that are mostly plausible, sometimes zero, huge, or smaller than before.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0u64..10_000_000_000,
        1 => Just(0u64),
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 0.0f64..1e9,
        1 => prop_oneof![
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(-1.0),
            Just(0.0),
            Just(f64::MAX),
            Just(f64::MIN_POSITIVE),
        ],
    ]
}

fn thread() -> impl Strategy<Value = ThreadReading> {
    let counter =
        (count(), count(), count()).prop_map(|(value, enabled_ns, running_ns)| CounterValue {
            value,
            enabled_ns,
            running_ns,
        });
    let counters = proptest::collection::vec(proptest::option::weighted(0.8, counter), 7);
    (0u32..6, 0u64..2, counters).prop_map(|(tid, started, values)| {
        let mut counters = Counters::default();
        for (event, value) in Event::ALL.into_iter().zip(values) {
            if let Some(value) = value {
                counters.set(event, value);
            }
        }
        ThreadReading {
            tid: ThreadId(tid),
            started,
            counters,
        }
    })
}

fn reading() -> impl Strategy<Value = Reading> {
    let runtime = (
        count(),
        count(),
        count(),
        proptest::option::of(count()),
        prop_oneof![0u64..4, count()],
    )
        .prop_map(
            |(regions, iterations, last_ns, wait_ns, region)| RuntimeProgress {
                regions,
                iterations,
                wait_ns,
                parallel_ns: wait_ns,
                last_ns,
                threads: 3,
                region,
            },
        );
    let reported = prop_oneof![
        (number(), count()).prop_map(|(done, at_ns)| ReportedProgress::Work { done, at_ns }),
        (number(), count())
            .prop_map(|(latency_ns, at_ns)| ReportedProgress::Latency { latency_ns, at_ns }),
    ];
    (
        proptest::collection::vec(thread(), 0..4),
        proptest::option::of(runtime),
        proptest::option::weighted(0.3, reported),
        proptest::option::of(count()),
    )
        .prop_map(|(threads, runtime, reported, cpu_time_ns)| Reading {
            threads,
            runtime,
            reported,
            cpu_time_ns,
            memory: None,
            memory_by_node: Vec::new(),
            runnable_threads: None,
            spare_cpus: None,
            serial_phase: mapper_model::SerialPhase::None,
            spinning: None,
        })
}

prop_compose! {
    fn observation()(
        now_ns in prop_oneof![8 => 0u64..20_000_000_000, 1 => any::<u64>()],
        membership in proptest::bool::weighted(0.2),
        apps in proptest::collection::vec((0u64..4, 0u32..9, reading()), 0..4),
    ) -> Observation {
        Observation {
            tick: 1,
            now_ns,
            trigger: if membership { Trigger::Membership } else { Trigger::Interval },
            usable: CpuSet::first(8),
            apps: apps
                .into_iter()
                .map(|(id, cpus, reading)| AppObservation {
                    app: AppId(id),
                    spec: AppSpec::named(AppName::from_lossy("x")),
                    effective: CpuSet::first(cpus),
                    allowed: None,
                    fixed: None,
                    reading,
                })
                .collect(),
        }
    }
}

fn sane(profile: &Profile) {
    let fine = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            assert!(value.is_finite() && value >= 0.0, "{name} = {value}");
        }
    };
    fine("performance", profile.performance.map(|p| p.value));
    assert_eq!(profile.performance.is_some(), profile.measured_cpus > 0);
    fine("severity", Some(profile.severity));
    fine("spc", profile.spc);
    fine("ipc", profile.ipc);
    fine("utilisation", profile.utilisation);
    fine("spun", profile.spun);
    assert!(profile.spun.is_none_or(|spun| spun < 1.0));
    assert!(profile.utilisation.is_none_or(|u| u <= 1.0));
    if let Some(rates) = &profile.rates {
        fine("cycles", Some(rates.cycles));
        for rate in [
            rates.ipc,
            rates.ipc_sum,
            rates.inter_socket_per_s,
            rates.intra_socket_per_s,
            rates.llc_misses_per_s,
            rates.llc_misses_per_cycle,
            rates.sharing_per_cycle,
        ] {
            fine("rate", rate);
        }
    }
    for point in profile.curve.points() {
        assert!(point.cpus > 0);
        for value in [
            point.perf,
            point.last,
            point.mean,
            point.variance,
            point.samples,
        ] {
            fine("point", Some(value));
        }
    }
    assert!(!profile.curve.noise().relative_sd.is_nan());
}

proptest! {
    #[test]
    fn profiles_are_sane_and_repeatable_whatever_is_read(
        observations in proptest::collection::vec(observation(), 1..12),
    ) {
        let topology = Topology::regular(Shape {
            sockets: 2,
            cores_per_socket: 4,
            threads_per_core: 1,
        });
        let machine = MachineProfile::default();
        let mut monitor = Characteriser::new(CharacteriserConfig::default());
        let mut again = Characteriser::new(CharacteriserConfig::default());
        for observation in &observations {
            monitor.observe(observation, &topology, &machine, |_| mapper_characterise::Basis::OwnCpus);
            again.observe(observation, &topology, &machine, |_| mapper_characterise::Basis::OwnCpus);
            prop_assert_eq!(monitor.state(), again.state());
            prop_assert_eq!(monitor.profiles().len(), observation.apps.len());
            for (profile, app) in monitor.profiles().zip(&observation.apps) {
                prop_assert_eq!(profile.app, app.app);
                sane(profile);
            }
            let text = serde_json::to_string(monitor.state()).unwrap();
            again.restore(serde_json::from_str(&text).unwrap());
        }
    }
}
