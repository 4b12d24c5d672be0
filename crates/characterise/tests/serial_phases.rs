//! A program that says when it is serial: how slow it is then is never taken for what it does with its
//! CPUs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mapper_characterise::{Characteriser, CharacteriserConfig};
use mapper_model::topology::Shape;
use mapper_model::{
    AppId, AppName, AppObservation, AppSpec, CpuSet, MachineProfile, Observation, PhaseChange,
    Reading, ReportedProgress, SerialPhase, Topology, Trigger,
};
use proptest::prelude::*;
use std::ops::Range;

const MS: u64 = 1_000_000;
/// Work in a millisecond of parallel running; in a serial one it is a piece.
const PARALLEL: u64 = 8;

fn done_by(serial: &Range<u64>, now_ms: u64) -> u64 {
    let work = |ms: u64| if serial.contains(&ms) { 1 } else { PARALLEL };
    (0..now_ms).map(work).sum()
}

proptest! {
    #[test]
    fn the_speed_of_a_serial_phase_is_not_that_of_the_program(
        from_ms in 3000u64..8000,
        length_ms in 1000u64..8000,
    ) {
        let serial = from_ms..from_ms + length_ms;
        let topology = Topology::regular(Shape {
            sockets: 1,
            cores_per_socket: 8,
            threads_per_core: 1,
        });
        let mut monitor = Characteriser::new(CharacteriserConfig::default());
        for second in 1..=22 {
            let now_ms = second * 1000;
            let open = serial.contains(&now_ms);
            let observation = Observation {
                tick: second,
                now_ns: now_ms * MS,
                trigger: Trigger::Interval,
                usable: topology.cpus().clone(),
                apps: vec![AppObservation {
                    app: AppId(1),
                    spec: AppSpec::named(AppName::new("a").unwrap()),
                    effective: CpuSet::first(8),
                    allowed: None,
                    fixed: None,
                    reading: Reading {
                        reported: Some(ReportedProgress::Work {
                            done: done_by(&serial, now_ms) as f64,
                            at_ns: now_ms * MS,
                        }),
                        serial_phase: if open { SerialPhase::Open } else { SerialPhase::None },
                        ..Reading::default()
                    },
                }],
            };
            monitor.observe(&observation, &topology, &MachineProfile::default(), |_| mapper_characterise::Basis::OwnCpus);
            let profile = monitor.profile(AppId(1)).unwrap();
            prop_assert_eq!(profile.phase, PhaseChange::Same);
            if let Some(performance) = profile.performance {
                let speed = (PARALLEL * 1000) as f64;
                prop_assert!((performance.value - speed).abs() < 1e-6 * speed, "{performance:?} in {second}");
            }
        }
        let profile = monitor.profile(AppId(1)).unwrap();
        prop_assert!(profile.performance.is_some(), "it is measured again");
    }
}
