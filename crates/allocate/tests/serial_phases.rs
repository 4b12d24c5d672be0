//! Serial phases: while a program says that one CPU is enough for it, others have the rest; when it
//! says that this is over, it has again what it had before, and nobody is short of a promise for it.

mod support;

use mapper_model::random::SplitMix64;
use mapper_model::{Allocation, AppId, CpuRange, Reason, SerialPhase};
use proptest::prelude::*;
use support::{Curve, World, amdahl, flat, linear, machine};

/// Has a program say that it is serial, or no more.
fn say(world: &mut World, app: AppId, serial: SerialPhase) {
    for known in &mut world.apps {
        if known.id == app {
            known.serial = serial;
        }
    }
}

/// Two programs on eight CPUs each, both measured.
fn two() -> (World, AppId, AppId) {
    let mut world = World::new("mapper", machine(1, 16, 1));
    let (one, other) = (world.arrive(linear()), world.arrive(linear()));
    world.intervals(20);
    assert_eq!(world.counts(), [8, 8]);
    (world, one, other)
}

#[test]
fn after_a_serial_phase_a_program_has_all_its_cpus_with_the_next_decision() {
    let (mut world, one, _) = two();
    for _ in 0..3 {
        say(&mut world, one, SerialPhase::Open);
        world.intervals(30);
        let counts = world.counts();
        assert!(counts[0] <= 4 && counts[1] >= 12, "{counts:?}");
        say(&mut world, one, SerialPhase::None);
        world.interval();
        assert_eq!(world.counts(), [8, 8], "{:#?}", world.sentences());
        assert!(
            world.sentences()[0].contains("its serial phase is over, before which it had 8"),
            "{:#?}",
            world.sentences()
        );
        // And keeps them.
        world.intervals(20);
        assert_eq!(world.counts(), [8, 8], "{:#?}", world.sentences());
    }
}

#[test]
fn after_a_phase_of_any_length_it_is_the_same() {
    for length in 1..12 {
        let (mut world, one, _) = two();
        say(&mut world, one, SerialPhase::Open);
        world.intervals(length);
        say(&mut world, one, SerialPhase::None);
        world.interval();
        assert_eq!(world.counts(), [8, 8], "after {length} intervals");
    }
}

#[test]
fn a_program_that_had_more_than_its_fair_share_has_that_again() {
    let mut world = World::new("mapper", machine(4, 10, 2));
    let scales = world.arrive(linear());
    world.arrive(flat(30.0));
    world.arrive(linear());
    world.intervals(60);
    let (before, fair) = (world.counts(), world.last.shares[0].fair);
    assert!(before[0] > fair, "{before:?} of {fair}");
    say(&mut world, scales, SerialPhase::Open);
    world.intervals(20);
    let lent = world.counts();
    assert!(lent[0] < before[0] / 2, "{lent:?} of {before:?}");
    say(&mut world, scales, SerialPhase::None);
    world.interval();
    assert_eq!(world.counts()[0], before[0], "{:#?}", world.sentences());
}

#[test]
fn while_it_is_serial_a_program_is_not_called_back_by_its_promise() {
    let (mut world, one, _) = two();
    say(&mut world, one, SerialPhase::Open);
    let mut least = 8;
    for _ in 0..40 {
        world.interval();
        let cpus = world.counts()[0];
        assert!(cpus <= least, "{cpus} after {least}");
        least = cpus;
    }
    assert_eq!(least, 1);
}

#[test]
fn who_arrives_in_a_serial_phase_has_its_share_and_the_others_theirs_after_it() {
    let (mut world, one, _) = two();
    say(&mut world, one, SerialPhase::Open);
    world.intervals(10);
    world.arrive(linear());
    world.intervals(10);
    say(&mut world, one, SerialPhase::None);
    world.interval();
    for share in &world.last.shares {
        assert!(share.cpus >= share.fair, "{:#?}", world.sentences());
    }
}

#[test]
fn when_the_borrower_has_left_its_cpus_are_free_for_the_serial_program() {
    let (mut world, one, other) = two();
    say(&mut world, one, SerialPhase::Open);
    world.intervals(10);
    world.leave(other);
    world.interval();
    say(&mut world, one, SerialPhase::None);
    world.intervals(2);
    assert!(world.counts()[0] >= 8, "{:?}", world.counts());
}

#[test]
fn two_phases_that_overlap_leave_every_application_with_its_count() {
    let (mut world, one, other) = two();
    say(&mut world, one, SerialPhase::Open);
    world.intervals(10);
    say(&mut world, other, SerialPhase::Open);
    world.intervals(10);
    say(&mut world, one, SerialPhase::None);
    world.interval();
    let counts = world.counts();
    assert!(counts[0] >= 8, "{counts:?}");
    say(&mut world, other, SerialPhase::None);
    world.intervals(2);
    assert_eq!(world.counts(), [8, 8], "{:#?}", world.sentences());
}

#[test]
fn what_is_lent_survives_a_restart() {
    let (mut world, one, _) = two();
    say(&mut world, one, SerialPhase::Open);
    world.intervals(10);
    let saved = serde_json::to_string(&world.policy.save()).unwrap();
    let mut policy = World::new("mapper", machine(1, 16, 1)).policy;
    policy
        .restore(&serde_json::from_str(&saved).unwrap())
        .unwrap();
    world.policy = policy;
    say(&mut world, one, SerialPhase::None);
    world.interval();
    assert_eq!(world.counts(), [8, 8]);
}

#[test]
fn under_mapper_next_a_serial_program_lends_in_a_mix_that_went_back_to_fair_shares_too() {
    let mut world = World::new("mapper-next", machine(1, 16, 1));
    let (one, _) = (world.arrive(linear()), world.arrive(linear()));
    world.intervals(20);
    let mut saved = world.policy.save();
    saved.state["stage"] = "fallen".into();
    world.policy.restore(&saved).unwrap();
    for (most, lent) in [(None, [1, 15]), (Some(10), [6, 10])] {
        world.apps[1].spec.cpus = CpuRange::new(1, most).unwrap();
        say(&mut world, one, SerialPhase::Open);
        world.intervals(20);
        assert_eq!(world.counts(), lent, "{:#?}", world.sentences());
        say(&mut world, one, SerialPhase::None);
        world.interval();
        assert_eq!(world.counts(), [8, 8], "{:#?}", world.sentences());
    }
}

/// Whether this says that an application gave to one whose serial phase is over.
fn after_a_phase(reason: &Reason, allocation: &Allocation) -> bool {
    let Reason::ReclaimedBy { taker, .. } = reason else {
        return false;
    };
    allocation.shares.iter().any(|share| {
        let ended = |r: &Reason| matches!(r, Reason::SerialPhaseEnded { .. });
        share.app == *taker && share.explanation.reasons.iter().any(ended)
    })
}

fn curve(kind: u64) -> Curve {
    match kind {
        0 => linear(),
        1 => flat(7.0),
        2 => amdahl(0.05),
        _ => amdahl(0.3),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The totals are looked at by the world itself, after every decision.
    #[test]
    fn no_return_brings_a_borrower_below_its_fair_share_or_its_floor(
        seed in any::<u64>(),
        cores in 4u32..24,
        programs in 2u64..5,
        noise in prop_oneof![Just(0.0), Just(0.02)],
    ) {
        let mut numbers = SplitMix64::new(seed);
        let mut world = World::new("mapper", machine(2, cores, 1)).noisy(noise, seed);
        for _ in 0..programs {
            world.arrive(curve(numbers.next_u64() % 4));
        }
        for _ in 0..60 {
            if numbers.next_u64().is_multiple_of(4) {
                let place = (numbers.next_u64() % programs) as usize;
                let app = &mut world.apps[place];
                app.serial = match app.serial {
                    SerialPhase::None => SerialPhase::Open,
                    SerialPhase::Open => SerialPhase::None,
                };
            }
            world.interval();
            for (share, app) in world.last.shares.iter().zip(&world.apps) {
                let reasons = &share.explanation.reasons;
                // Who is serial itself has no use for them, and who gave otherwise as well may have less.
                let returned = reasons.iter().all(|r| after_a_phase(r, &world.last));
                if returned && app.serial == SerialPhase::None && share.cpus < share.fair {
                    let performance = (app.curve)(share.cpus, world.tick);
                    let floor = share.floor.unwrap_or(0.0);
                    // The floor is measured, and so is the curve.
                    prop_assert!(performance >= floor * (1.0 - 5.0 * noise - 1e-9), "{:?}", share);
                }
            }
        }
        // All phases over, every application comes to what it is owed.
        for app in &mut world.apps {
            app.serial = SerialPhase::None;
        }
        world.intervals(40);
        for (share, app) in world.last.shares.iter().zip(&world.apps) {
            let performance = (app.curve)(share.cpus, world.tick);
            let fair = (app.curve)(share.fair, world.tick);
            prop_assert!(
                share.cpus >= share.fair || performance >= 0.85 * fair * (1.0 - 5.0 * noise - 1e-9)
                    || share.state == "exploring",
                "{share:?}"
            );
        }
    }
}
