//! MAPPER in a closed loop: synthetic applications, the real characteriser, decisions that take effect.

mod support;

use mapper_allocate::{AllocationConfig, find};
use mapper_model::{CpuRange, Qos, Resizing, Weight};
use support::{Counted, Curve, World, amdahl, flat, linear, machine};

/// 80 CPUs as in the paper.
fn paper_machine() -> mapper_model::Topology {
    machine(4, 10, 2)
}

#[test]
fn a_linear_application_ends_with_what_a_flat_one_gives_up_within_twenty_intervals() {
    for (sockets, cores) in [
        (4, 20),
        (1, 4),
        (1, 16),
        (1, 32),
        (1, 39),
        (2, 20),
        (8, 128),
    ] {
        let mut world = World::new("mapper", machine(sockets, cores, 1));
        world.arrive(linear());
        world.arrive(flat(30.0));
        let mut log = Vec::new();
        for _ in 0..20 {
            world.interval();
            log.push((world.counts(), world.sentences()));
        }
        let total = sockets * cores;
        assert_eq!(world.counts(), [total - 1, 1], "{log:#?}");
        assert_eq!(world.intervals(100), 0, "and stays there");
    }
}

#[test]
fn two_linear_applications_stay_at_their_fair_shares() {
    let mut world = World::new("mapper", paper_machine());
    world.arrive(linear());
    world.arrive(linear());
    world.intervals(20);
    assert_eq!(world.counts(), [40, 40]);
    assert_eq!(world.intervals(200), 0);
}

#[test]
fn on_two_cpus_two_applications_have_one_each_and_the_last_one_both() {
    let mut world = World::new("mapper", machine(1, 2, 1));
    let first = world.arrive(linear());
    assert_eq!(world.counts(), [2]);
    world.arrive(linear());
    assert_eq!(world.counts(), [1, 1], "at once");
    assert_eq!(world.intervals(50), 0);
    world.leave(first);
    assert_eq!(world.counts(), [2], "at once");
    assert_eq!(world.intervals(50), 0);
}

type Mix = fn() -> Vec<Curve>;

/// The pairs and the mix of four for which the rule about noise is shown.
const MIXES: [(&str, Mix); 5] = [
    ("alike", || vec![linear(), linear()]),
    ("linear and flat", || vec![linear(), flat(30.0)]),
    ("linear and Amdahl's law", || vec![linear(), amdahl(0.05)]),
    ("four alike", || {
        vec![linear(), linear(), linear(), linear()]
    }),
    ("four different", || {
        vec![linear(), flat(30.0), amdahl(0.05), peak(8)]
    }),
];

/// Grows to a peak and falls behind it.
fn peak(best: u32) -> Curve {
    Box::new(move |cpus, _| {
        let (k, b) = (f64::from(cpus), f64::from(best));
        if k <= b { k } else { b * (b / k).sqrt() }
    })
}

/// How long a noisy run is given to find its allocation: 20 intervals suffice without noise, but
/// with 5 % of it a difference of a tenth takes a dozen samples on either side to tell.
const CONVERGED_AFTER: u32 = 150;
/// For how long it is watched then.
const WATCHED: u32 = 200;
const SEEDS: u64 = 100;

/// With 5 % noise the allocation stays within one step of the noise-free one and moves less than once
/// in 20 intervals: in every run the moves, in 99 of 100 runs the allocation (a rare false alarm
/// of a new phase, or a promise measured too high by chance, may displace one).
fn noise_moves_no_cpus(sockets: u32, cores: u32, smt: u32, number: usize) {
    let (name, mix) = MIXES[number];
    let cpus = sockets * cores * smt;
    let apps = mix().len() as u32;
    if apps > cpus {
        // They share CPUs: nothing is allocated.
        return;
    }
    let step = AllocationConfig::default().step_for(cpus, cpus / apps);
    let run = |noise: f64, seed: u64| {
        let mut world = World::new("mapper", machine(sockets, cores, smt)).noisy(noise, seed);
        for curve in mix() {
            world.arrive(curve);
        }
        world.intervals(CONVERGED_AFTER);
        let moves = world.intervals(WATCHED);
        (world.counts(), moves)
    };
    let (expected, moves) = run(0.0, 1);
    assert_eq!(moves, 0, "{cpus} CPUs, {name}: without noise");
    let mut displaced = Vec::new();
    for seed in 1..=SEEDS {
        let (counts, moves) = run(0.05, seed);
        assert!(
            moves * 20 < WATCHED,
            "{cpus} CPUs, {name}, seed {seed}: {moves} moves in {WATCHED} intervals"
        );
        let near = |(a, b): (&u32, &u32)| a.abs_diff(*b) <= step;
        if !expected.iter().zip(&counts).all(near) {
            displaced.push((seed, counts));
        }
    }
    assert!(
        displaced.len() as u64 * 100 <= SEEDS,
        "{cpus} CPUs, {name}: {expected:?} without noise, but with noise {displaced:?}"
    );
}

#[test]
fn with_noise_on_two_cpus_the_allocation_stays_within_a_step_of_the_quiet_one() {
    (0..MIXES.len()).for_each(|mix| noise_moves_no_cpus(1, 2, 1, mix));
}

#[test]
fn with_noise_on_eight_cpus_the_allocation_stays_within_a_step_of_the_quiet_one() {
    (0..MIXES.len()).for_each(|mix| noise_moves_no_cpus(1, 8, 1, mix));
}

#[test]
fn with_noise_on_eighty_cpus_applications_alike_stay_within_a_step_of_their_shares() {
    noise_moves_no_cpus(4, 10, 2, 0);
    noise_moves_no_cpus(4, 10, 2, 3);
}

#[test]
fn with_noise_on_eighty_cpus_a_linear_application_ends_with_what_a_flat_one_gives_up() {
    noise_moves_no_cpus(4, 10, 2, 1);
}

#[test]
fn with_noise_on_eighty_cpus_one_by_amdahls_law_ends_within_a_step_of_its_quiet_count() {
    noise_moves_no_cpus(4, 10, 2, 2);
}

#[test]
fn with_noise_on_eighty_cpus_four_different_ones_end_within_a_step_of_their_quiet_counts() {
    noise_moves_no_cpus(4, 10, 2, 4);
}

#[test]
fn a_breach_is_undone_in_one_interval_through_noise() {
    // Below 36 CPUs it falls to a third: no noise of 5 % looks like that.
    let cliff = |cpus: u32, _: u64| {
        let even = 30.0 * (f64::from(cpus) / 40.0).sqrt();
        if cpus >= 36 { even } else { even / 3.0 }
    };
    for seed in 1..=SEEDS {
        let mut world = World::new("mapper", paper_machine()).noisy(0.05, seed);
        world.arrive(linear());
        world.arrive(Box::new(cliff));
        let mut breaches = 0;
        for _ in 0..200 {
            // Its own trials are not gifts of others, and take the samples they take.
            let before = (world.counts()[1], world.states()[1] == "exploring");
            world.interval();
            if before.0 < 36 && !before.1 {
                breaches += 1;
                assert!(
                    world.counts()[1] >= 36,
                    "seed {seed}: {:?}",
                    world.sentences()
                );
            }
        }
        assert!(breaches <= 3, "seed {seed}: {breaches}");
        assert!(world.counts()[1] >= 36, "seed {seed}");
    }
}

#[test]
fn a_gift_that_breaks_the_promise_is_undone_in_one_interval_and_not_made_again() {
    // Less efficient than the linear one, and useless below 36.
    let cliff = |cpus: u32, _: u64| {
        let even = 30.0 * (f64::from(cpus) / 40.0).sqrt();
        if cpus >= 36 { even } else { even / 3.0 }
    };
    let mut world = World::new("mapper", paper_machine());
    world.arrive(linear());
    world.arrive(Box::new(cliff));
    let mut breaches = 0;
    for _ in 0..100 {
        let below = world.counts()[1] < 36;
        world.interval();
        if below {
            breaches += 1;
            assert!(world.counts()[1] >= 36, "{:?}", world.sentences());
        }
    }
    assert!(breaches <= 2, "{breaches}");
    assert_eq!(world.intervals(100), 0);
}

#[test]
fn no_application_ends_below_its_promise() {
    for serial in [0.0, 0.01, 0.02, 0.05, 0.1, 0.3] {
        let mut world = World::new("mapper", paper_machine());
        world.arrive(linear());
        world.arrive(amdahl(serial));
        world.arrive(amdahl(0.02));
        world.intervals(60);
        let fair = 26;
        for (app, count) in world.apps.iter().zip(world.counts()) {
            let promised = 0.85 * (app.curve)(fair, 0);
            assert!(
                (app.curve)(count, 0) >= 0.999 * promised,
                "{serial}: {:?}",
                world.sentences()
            );
        }
        assert_eq!(world.intervals(60), 0, "{serial}");
    }
}

#[test]
fn a_program_short_of_memory_bandwidth_gives_up_what_it_does_not_need() {
    let mut world = World::new("mapper", paper_machine());
    world.arrive(Box::new(|cpus, _| f64::from(cpus.min(16))));
    world.arrive(linear());
    world.intervals(30);
    let counts = world.counts();
    assert!((14..=18).contains(&counts[0]), "{counts:?}");
    assert_eq!(counts.iter().sum::<u32>(), 80);
}

#[test]
fn a_newcomer_gets_its_fair_share_at_once_and_none_is_cut_below_its_own() {
    let mut world = World::new("mapper", paper_machine());
    world.arrive(linear());
    world.arrive(flat(30.0));
    world.intervals(20);
    assert_eq!(world.counts(), [79, 1]);
    world.arrive(linear());
    // The flat one keeps what it chose.
    assert_eq!(world.counts(), [53, 1, 26]);
    world.intervals(30);
    world.arrive(linear());
    assert!(world.counts().iter().all(|c| *c >= 1));
    assert_eq!(world.counts()[3], 20);
}

#[test]
fn who_gave_gets_back_up_to_its_fair_share_when_the_taker_leaves() {
    let mut world = World::new("mapper", paper_machine());
    let taker = world.arrive(linear());
    world.arrive(amdahl(0.05));
    world.intervals(30);
    assert!(world.counts()[1] < 40);
    world.leave(taker);
    // Alone, its fair share is the machine, but it knows it to be useless beyond what it chose.
    assert!(world.counts()[0] >= 28, "{:?}", world.counts());
}

#[test]
fn a_new_phase_is_explored_anew() {
    // Flat for 60 intervals, then linear.
    let changing = |cpus: u32, tick: u64| {
        if tick < 60 {
            30.0
        } else {
            2.0 * f64::from(cpus)
        }
    };
    let mut world = World::new("mapper", paper_machine());
    world.arrive(linear());
    world.arrive(Box::new(changing));
    world.intervals(40);
    assert_eq!(world.counts(), [79, 1]);
    world.intervals(100);
    let counts = world.counts();
    assert!(counts[1] >= 34, "{counts:?} {:?}", world.sentences());
}

#[test]
fn limits_weights_and_the_wish_not_to_be_resized_are_kept() {
    let mut world = World::new("mapper", machine(1, 16, 1));
    world.arrive_as(linear(), |spec| {
        spec.cpus = CpuRange::new(1, Some(3)).unwrap();
    });
    world.arrive_as(flat(5.0), |spec| {
        spec.cpus = CpuRange::new(2, None).unwrap();
    });
    world.arrive_as(linear(), |spec| spec.weight = Weight::new(2.0).unwrap());
    world.arrive_as(flat(5.0), |spec| spec.resizing = Resizing::Never);
    let fixed = world.counts()[3];
    for _ in 0..60 {
        world.interval();
        let counts = world.counts();
        assert!(counts[0] <= 3 && counts[1] >= 2, "{counts:?}");
        assert_eq!(counts[3], fixed);
    }
    assert_eq!(world.counts(), [3, 2, 16 - 5 - fixed, fixed]);
}

#[test]
fn a_promise_of_everything_gives_nothing_away() {
    let mut world = World::new("mapper", paper_machine());
    world.arrive(linear());
    world.arrive_as(amdahl(0.05), |spec| spec.qos = Qos::new(1.0).unwrap());
    world.intervals(60);
    assert_eq!(world.counts(), [40, 40]);
}

#[test]
fn more_applications_than_cpus_share_and_then_have_their_own_again() {
    let mut world = World::new("mapper", machine(1, 4, 1));
    let ids: Vec<_> = (0..11).map(|_| world.arrive(linear())).collect();
    world.intervals(10);
    for id in &ids[..9] {
        world.leave(*id);
    }
    assert_eq!(world.counts(), [2, 2]);
    world.intervals(20);
    assert_eq!(world.intervals(40), 0);
    assert_eq!(world.counts(), [2, 2]);
}

#[test]
fn the_remainder_goes_to_the_application_that_can_use_it() {
    let mut world = World::new("mapper", machine(1, 5, 1));
    world.arrive(flat(3.0));
    world.arrive(linear());
    // The first had all five and is cut only as far as the second's share goes.
    assert_eq!(world.counts(), [3, 2]);
    world.intervals(20);
    assert_eq!(world.counts(), [1, 4]);
}

#[test]
fn a_state_that_is_saved_and_restored_decides_the_same() {
    let run = |restore_at: u32| {
        let mut world = World::new("mapper", paper_machine()).noisy(0.02, 5);
        world.arrive(linear());
        world.arrive(amdahl(0.03));
        let mut seen = Vec::new();
        for i in 0..50 {
            if i == restore_at {
                let text = serde_json::to_string(&world.policy.save()).unwrap();
                let mut other = (find("mapper").unwrap().build)(&AllocationConfig::default());
                other
                    .restore(&serde_json::from_str(&text).unwrap())
                    .unwrap();
                world.policy = other;
            }
            world.interval();
            seen.push(world.last.clone());
        }
        seen
    };
    let plain = run(u32::MAX);
    for restore_at in [1, 7, 13, 29] {
        assert!(run(restore_at) == plain, "{restore_at}");
    }
}

#[test]
fn a_state_of_another_policy_is_refused_by_name() {
    let state = (find("fair").unwrap().build)(&AllocationConfig::default()).save();
    let mut mapper = (find("mapper").unwrap().build)(&AllocationConfig::default());
    let error = mapper.restore(&state).unwrap_err().to_string();
    assert!(
        error.contains("\"fair\"") && error.contains("\"mapper\""),
        "{error}"
    );
}

#[test]
fn a_program_that_shares_data_is_tried_on_whole_sockets_down_to_one() {
    // The curve of SGD alone [MAPPER §4.4]: the fewer sockets, the better, down to one.
    let sgd = |cpus: u32, _: u64| match cpus {
        61.. => 30.0,
        41..=60 => 30.2,
        21..=40 => 30.6,
        20 => 31.2,
        _ => 1.4 * f64::from(cpus),
    };
    let mut world = World::new("mapper", paper_machine());
    world.arrive(Box::new(sgd));
    world.apps[0].counted = Some(Counted {
        misses_per_cycle: 0.0,
        coherence_per_cycle: 1.2e-3,
        threads: 80,
    });
    let mut seen = Vec::new();
    for _ in 0..30 {
        world.interval();
        seen.extend(world.counts());
    }
    seen.dedup();
    assert_eq!(seen, [80, 60, 40, 20]);
    assert_eq!(world.intervals(60), 0);
}

#[test]
fn a_program_that_fills_the_memory_tries_fewer_cpus_unasked() {
    let mut world = World::new("mapper", paper_machine());
    world.arrive(Box::new(|cpus, _| f64::from(cpus.min(60))));
    world.apps[0].counted = Some(Counted {
        misses_per_cycle: 0.05,
        coherence_per_cycle: 0.0,
        threads: 80,
    });
    world.intervals(40);
    let counts = world.counts();
    assert!((56..=64).contains(&counts[0]), "{counts:?}");
    assert_eq!(world.intervals(60), 0);
}

#[test]
fn cpus_that_a_program_says_it_can_spare_are_taken_whatever_its_efficiency() {
    let mut world = World::new("mapper", paper_machine());
    world.arrive(linear());
    world.arrive(linear());
    world.intervals(20);
    assert_eq!(world.counts(), [40, 40]);
    world.apps[1].spare = Some(10);
    world.intervals(1);
    world.apps[1].spare = None;
    world.intervals(20);
    let counts = world.counts();
    assert!(counts[0] > 40 && counts[1] >= 30, "{counts:?}");
}

#[test]
fn by_the_printed_rules_two_that_were_seen_at_one_count_only_never_move() {
    // Both have a normalized efficiency of 1 there; this is why demand makes others try fewer.
    let mut world = World::new("mapper-paper", paper_machine());
    world.arrive(amdahl(0.05));
    world.arrive(linear());
    assert_eq!(world.intervals(80), 0);
    assert_eq!(world.counts(), [40, 40]);
}

#[test]
fn settings_that_became_policies_are_read_with_their_defaults_and_name_the_policy_otherwise() {
    let read = serde_json::from_str::<AllocationConfig>;
    let defaults = r#"{"required_gain":"half_of_linear","initiative":"demand","history_veto":"obeyed",
        "spare_rule":"linear","acceptance":{"welch":{"confidence":0.998,"max_samples":20}}}"#;
    assert_eq!(read(defaults).unwrap(), AllocationConfig::default());
    for other in [
        r#"{"initiative":"paper"}"#,
        r#"{"spare_rule":"from_curve"}"#,
        r#"{"acceptance":"plain5_percent"}"#,
    ] {
        let error = read(other).unwrap_err().to_string();
        assert!(error.contains("mapper-paper"), "{other}: {error}");
    }
}
