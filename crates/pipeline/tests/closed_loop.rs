//! The whole loop with applications of known scaling: who ends with how many CPUs, and how quietly.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

mod support;

use mapper_model::random::SplitMix64;
use mapper_model::topology::Shape;
use mapper_model::{AppId, CpuRange, CpuSet, Fixed, Reason, Resizing, Strategy, Topology, Trigger};
use support::{World, amdahl, config, flat, linear, peak};

fn machine(sockets: u32, cores: u32, smt: u32) -> Topology {
    Topology::regular(Shape {
        sockets,
        cores_per_socket: cores,
        threads_per_core: smt,
    })
}

fn world(sockets: u32, cores: u32, smt: u32) -> World {
    World::new(config("mapper", "sam_mph"), machine(sockets, cores, smt))
}

#[test]
fn a_linear_application_gets_what_one_that_does_not_scale_gives_up() {
    for (sockets, cores, smt) in [(4, 10, 2), (1, 4, 1), (2, 8, 2), (1, 16, 1)] {
        let mut w = world(sockets, cores, smt);
        w.start([linear(), flat(30.0)]);
        w.intervals(20);
        let all = sockets * cores * smt;
        assert_eq!(w.counts(), [all - 1, 1], "{:?}", w.sentences());
        assert_eq!(w.intervals(60), 0, "and stays there");
    }
}

#[test]
fn applications_alike_stay_at_their_fair_shares_and_never_move() {
    let mut w = world(4, 10, 2);
    w.start([linear(), linear(), linear(), linear()]);
    w.intervals(20);
    assert_eq!(w.counts(), [20; 4]);
    assert_eq!(w.intervals(200), 0);
}

#[test]
fn an_application_that_peaks_ends_near_its_peak() {
    let mut w = world(4, 10, 2);
    w.start([linear(), peak(20)]);
    w.intervals(40);
    let counts = w.counts();
    assert!(counts[1] <= 24, "{counts:?}: {:?}", w.sentences());
    assert_eq!(w.intervals(60), 0);
}

#[test]
fn noise_moves_the_allocation_by_no_more_than_a_step_and_seldom() {
    // The noise-free run is the measure [the fixture's own numbers: 80 CPUs, step 4].
    type Mix = fn() -> Vec<support::Curve>;
    let mixes: [Mix; 4] = [
        || vec![linear(), linear()],
        || vec![linear(), flat(30.0)],
        || vec![linear(), amdahl(0.05)],
        || vec![linear(), flat(30.0), amdahl(0.05), peak(8)],
    ];
    const WATCHED: u32 = 200;
    for (number, mix) in mixes.iter().enumerate() {
        let mut quiet = world(4, 10, 2);
        quiet.start(mix());
        quiet.intervals(60);
        for seed in 1..=20 {
            let mut noisy = world(4, 10, 2);
            noisy.noise = 0.05;
            noisy.numbers = SplitMix64::new(seed);
            noisy.start(mix());
            noisy.intervals(150);
            let mut moves = 0;
            for _ in 0..WATCHED {
                let before = noisy.counts();
                noisy.interval();
                if noisy.counts() != before {
                    moves += 1;
                } else {
                    // Who keeps its count keeps its CPUs.
                    assert!(noisy.last.actions.is_empty(), "{:?}", noisy.last.actions);
                }
            }
            assert!(
                moves * 20 < WATCHED,
                "mix {number}, seed {seed}: {moves} moves in {WATCHED} intervals"
            );
            for (a, b) in quiet.counts().iter().zip(noisy.counts()) {
                assert!(
                    a.abs_diff(b) <= 4,
                    "mix {number}, seed {seed}: {:?} without noise, {:?} with",
                    quiet.counts(),
                    noisy.counts()
                );
            }
        }
    }
}

#[test]
fn a_broken_promise_is_undone_in_one_interval() {
    // As fast with 10 CPUs as with 40, but below 10 it falls under every promise.
    for cliff in [6, 10, 20, 30, 39] {
        let mut w = world(4, 10, 2);
        w.start([
            linear(),
            Box::new(move |cpus| if cpus >= cliff { 30.0 } else { 10.0 }),
        ]);
        let mut breaches = 0;
        for _ in 0..60 {
            let before = w.counts()[1];
            w.interval();
            if before < cliff {
                breaches += 1;
                assert!(w.counts()[1] >= cliff, "{cliff}: {:?}", w.sentences());
            }
        }
        assert!(breaches <= 3, "{cliff}: tried {breaches} times");
        assert!(w.counts()[1] >= cliff);
    }
}

#[test]
fn arrivals_get_their_fair_share_at_once_and_departures_are_used() {
    let mut w = world(1, 4, 1);
    w.start([linear()]);
    assert_eq!(w.counts(), [4]);
    w.intervals(10);
    w.arrive(linear());
    w.decide(Trigger::Membership);
    assert_eq!(w.counts(), [2, 2]);
    w.intervals(10);
    w.leave(AppId(1));
    w.intervals(20);
    assert_eq!(w.counts(), [4]);
}

#[test]
fn limits_and_the_wish_not_to_be_resized_are_kept() {
    let mut w = world(1, 8, 1);
    w.arrive_as(flat(3.0), |spec| {
        spec.cpus = CpuRange::new(3, Some(5)).unwrap();
    });
    w.arrive_as(flat(3.0), |spec| spec.resizing = Resizing::Never);
    w.arrive(linear());
    w.decide(Trigger::Membership);
    let fixed = w.counts()[1];
    for _ in 0..40 {
        w.interval();
        let counts = w.counts();
        assert!((3..=5).contains(&counts[0]), "{counts:?}");
        assert_eq!(counts[1], fixed);
    }
}

#[test]
fn more_applications_than_cpus_share_and_split_again() {
    for mapping in mapper_placement::POLICIES {
        let mut w = World::new(config("mapper", mapping.name), machine(1, 2, 1));
        w.start((0..5).map(|_| linear()));
        assert_eq!(w.counts(), [2; 5], "the kernel divides both among all");
        assert!(w.last.apps.iter().all(|app| app.share.cpus == 1));
        assert_eq!(w.intervals(20), 0, "{}", mapping.name);
        for id in 1..=3 {
            w.leave(AppId(id));
        }
        assert_eq!(w.counts(), [1, 1]);
        assert!(w.apps[0].effective.is_disjoint(&w.apps[1].effective));
    }
}

#[test]
fn who_has_to_share_does_so_on_every_cpu_that_it_may_use_and_is_not_measured() {
    let mut w = world(1, 2, 1);
    w.start((0..3).map(|_| linear()));
    w.arrive_as(linear(), |spec| {
        spec.cpus = CpuRange::new(1, Some(1)).unwrap();
    });
    w.intervals(5);
    let observation = |w: &World, trigger| {
        let mut observation = w.observation(trigger);
        observation.apps[1].allowed = Some("1".parse().unwrap());
        observation
    };
    w.decide_on(&observation(&w, Trigger::Membership));
    let sets: Vec<String> = w.apps.iter().map(|a| a.effective.to_string()).collect();
    assert_eq!(sets[..3], ["0-1", "1", "0-1"]);
    assert_eq!(w.counts()[3], 1, "the most that it asked for");
    let sentence = &w.last.apps[2].sentence;
    assert!(
        sentence.ends_with("more applications than CPUs: they share these"),
        "{sentence}"
    );
    w.intervals(5);
    for app in &w.apps {
        let profile = w.controller.profile(app.id).unwrap();
        assert_eq!((profile.samples, profile.performance), (0, None));
    }
    w.leave(AppId(3));
    w.leave(AppId(4));
    w.intervals(5);
    assert!(
        w.apps
            .iter()
            .all(|app| w.controller.profile(app.id).unwrap().samples > 0)
    );
}

#[test]
fn cpus_that_go_offline_are_left_and_come_back_into_use() {
    let mut w = world(2, 4, 2);
    w.start([linear(), linear()]);
    w.intervals(10);
    let all = w.usable.clone();
    w.usable = "0-3,8-9".parse().unwrap();
    w.decide(Trigger::Membership);
    assert!(w.apps.iter().all(|a| a.effective.is_subset(&w.usable)));
    assert_eq!(w.counts().iter().sum::<u32>(), 6);
    w.usable = all;
    w.decide(Trigger::Membership);
    w.intervals(20);
    assert_eq!(w.counts().iter().sum::<u32>(), 16, "{:?}", w.sentences());
}

#[test]
fn an_application_that_the_operator_placed_is_in_the_plan_and_stays() {
    let mut w = world(2, 4, 2);
    w.start([linear(), linear(), linear()]);
    w.intervals(3);
    let mut observation = w.observation(Trigger::Membership);
    let set: CpuSet = "1,3".parse().unwrap();
    observation.usable.remove_all(&set);
    observation.apps[1].effective.clone_from(&set);
    observation.apps[1].fixed = Some(Fixed::ByOperator);
    w.decide_on(&observation);
    let planned = &w.last.apps[1];
    assert_eq!((planned.app, &planned.cpus), (AppId(2), &set));
    assert_eq!(planned.strategy, Strategy::Fixed);
    assert_eq!(
        planned.sentence,
        "2 CPUs: set by the operator, until all CPUs are written to its cpuset.cpus"
    );
    let others = [0, 2].map(|app| w.last.apps[app].cpus.len());
    assert_eq!(others, [7, 7]);
    assert!(
        w.last
            .apps
            .iter()
            .all(|app| app.app == AppId(2) || app.cpus.is_disjoint(&set))
    );
}

#[test]
fn without_any_usable_cpu_all_stay() {
    let mut w = world(1, 4, 1);
    w.start([linear(), linear()]);
    w.intervals(3);
    let before = w.counts();
    w.usable = "17".parse().unwrap();
    w.interval();
    assert!(w.last.actions.is_empty());
    assert_eq!(w.counts(), before);
}

#[test]
fn the_last_ten_decisions_are_explained_with_curve_and_floor() {
    let mut w = world(4, 10, 2);
    w.start([linear(), flat(30.0)]);
    w.intervals(40);
    let explained = w.controller.explain(AppId(2)).unwrap();
    assert!(explained.decisions.len() <= 10 && !explained.decisions.is_empty());
    assert!(explained.curve.iter().any(|p| p.cpus == 40));
    assert_eq!((explained.fair, explained.cpus.len()), (40, 1));
    assert!(explained.floor.is_some() && explained.slack.is_some());
    let tried = explained.decisions.iter().any(|d| {
        let mut reasons = d.explanation.reasons.iter();
        reasons.any(|r| matches!(r, Reason::Exploring { .. }))
    });
    assert!(tried, "{:#?}", explained.decisions);
    assert!(w.controller.explain(AppId(9)).is_none());
    let text = serde_json::to_string(&explained).unwrap();
    let read: mapper_pipeline::AppExplanation = serde_json::from_str(&text).unwrap();
    assert_eq!(read, explained);
}

/// A number that depends on the tick alone, evenly spread.
fn spread(tick: u64) -> u64 {
    let mixed = (tick ^ (tick >> 3)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 29)
}

#[test]
fn the_regions_of_a_program_with_one_phase_change_no_decision() {
    for seed in 1..6 {
        let run = |region: fn(u64) -> u64| {
            let mut world = world(1, 20, 1);
            (world.noise, world.numbers) = (0.05, SplitMix64::new(seed));
            world.region = Box::new(region);
            world.start([linear(), flat(10.0)]);
            (0..150)
                .map(|_| {
                    world.interval();
                    world.counts()
                })
                .collect::<Vec<_>>()
        };
        let unknown = run(|_| 0);
        assert_eq!(unknown, run(|_| 7), "seed {seed}: one region");
        assert_eq!(
            unknown,
            run(|tick| 1 + (spread(tick) >> 20) % 9),
            "seed {seed}: nine regions"
        );
    }
}

#[test]
fn a_phase_that_returns_at_the_same_count_moves_nothing() {
    // Two programs that turn from scaling to not scaling and back, by turns.
    const LENGTH: u64 = 80;
    let scales = std::rc::Rc::new(std::cell::Cell::new(true));
    let of = |scales: &std::rc::Rc<std::cell::Cell<bool>>| -> support::Curve {
        let scales = std::rc::Rc::clone(scales);
        Box::new(move |cpus| match scales.get() {
            true => f64::from(cpus),
            false => 4.0,
        })
    };
    let mut world = world(1, 20, 1);
    world.region = Box::new(|tick| 1 + (tick / LENGTH) % 2);
    world.start([of(&scales), amdahl(0.2)]);
    let mut settled_after = Vec::new();
    let mut came_with = Vec::new();
    for _ in 0..8 {
        let mut last_move = 0;
        came_with.push(world.counts());
        let mut passed = 0;
        loop {
            scales.set(((world.tick + 1) / LENGTH).is_multiple_of(2));
            world.interval();
            passed += 1;
            if !world.last.actions.is_empty() {
                last_move = passed;
            }
            if (world.tick + 1).is_multiple_of(LENGTH) {
                break;
            }
        }
        settled_after.push(last_move);
    }
    // From the third visit on both phases are known.
    assert!(
        settled_after[..2].iter().all(|&at| at > 0),
        "{settled_after:?}"
    );
    let returns = came_with.windows(3).zip(&settled_after).skip(2);
    let mut same = 0;
    for (counts, last_move) in returns {
        if counts[0] == counts[2] {
            same += 1;
            assert_eq!(*last_move, 0, "{settled_after:?} {came_with:?}");
        }
    }
    assert!(same > 0, "{came_with:?}");
}
