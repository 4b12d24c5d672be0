//! How fast and how well CPUs go to the programs that make more of them.
//!
//! Programs with known curves, of which some keep CPUs idle in serial parts, as CPU time shows: what the daemon reads of
//! programs that wait passively. Promises are judged by the true curves.

mod support;

use mapper_model::random::SplitMix64;
use mapper_model::{AppId, AppName, BuildKey, Reason, Share};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::cell::RefCell;
use support::{Curve, World, amdahl, flat, linear, machine, normal};

/// Promised share of the speed at the fair share.
const PROMISED: f64 = 0.85;

/// Lets a program that keeps so many CPUs busy as it has speedup arrive.
fn arrive(world: &mut World, serial: f64) -> AppId {
    let (noise, speed) = (world.noise, amdahl(serial));
    let random = RefCell::new(SplitMix64::new(world.tick));
    world.arrive_with(amdahl(serial), |app| {
        app.busy = Some(Box::new(move |cpus, tick| {
            let scatter = 1.0 + noise * normal(&mut random.borrow_mut());
            (1.0 + (speed(cpus, tick) - 1.0) * scatter).clamp(0.0, f64::from(cpus))
        }));
    })
}

#[test]
fn a_program_that_scales_has_six_of_eight_cpus_within_four_seconds_and_keeps_them() {
    for seed in 1..=10 {
        let mut world = World::new(POLICY, machine(1, 8, 1)).noisy(0.1, seed);
        arrive(&mut world, 0.0);
        arrive(&mut world, 0.6);
        let mut log = Vec::new();
        for _ in 0..4 {
            world.interval();
            log.push((world.counts(), world.sentences()));
        }
        assert_eq!(world.counts(), [6, 2], "seed {seed}: {log:#?}");
        assert!(
            world.intervals(120) <= 2 && world.counts() == [6, 2],
            "seed {seed}: {:?} {:#?}",
            world.counts(),
            world.sentences()
        );
    }
}

#[test]
fn serial_parts_in_which_threads_wait_actively_are_seen_by_what_the_runtime_tells() {
    const SERIAL: f64 = 0.6;
    let mut world = World::new(POLICY, machine(1, 8, 1)).noisy(0.1, 1);
    let speed = amdahl(SERIAL);
    for serial in [0.0, SERIAL] {
        let speed = amdahl(serial);
        world.arrive_with(amdahl(serial), |app| {
            app.busy = Some(linear());
            app.parallel = Some(Box::new(move |cpus, tick| 1.0 - serial * speed(cpus, tick)));
        });
    }
    world.intervals(4);
    assert_eq!(world.counts(), [6, 2], "{:#?}", world.sentences());
    // It keeps its promise at two CPUs.
    assert!(speed(2, 0) > PROMISED * speed(4, 0));
}

#[test]
fn where_busy_cpus_are_known_the_second_decision_transfers() {
    let mut world = World::new(POLICY, machine(1, 8, 1));
    arrive(&mut world, 0.0);
    arrive(&mut world, 0.6);
    world.intervals(2);
    assert_eq!(world.counts(), [6, 2], "{:#?}", world.sentences());
}

/// Runs a program that scales and one that does not, of these builds and commands, for some intervals; returns the CPUs
/// that they were given at first.
fn run(world: &mut World, programs: [BuildKey; 2], intervals: u32) -> Vec<u32> {
    let programs = [0.0, 0.6].into_iter().zip(programs);
    let apps: Vec<AppId> = programs
        .map(|(serial, build)| {
            world.arrive_with(amdahl(serial), |app| {
                app.spec.build = Some(build);
                // The same two names each time.
                app.spec.name = AppName::from_lossy(&format!("p{}", u8::from(serial > 0.0)));
                app.busy = Some(amdahl(serial));
            })
        })
        .collect();
    let at_first = world.counts();
    world.intervals(intervals);
    apps.into_iter().for_each(|app| world.leave(app));
    at_first
}

#[test]
fn what_is_known_of_a_program_counts_at_once_for_the_next_run_of_its_build_and_of_no_other() {
    let mut world = World::new(POLICY, machine(1, 8, 1));
    let of = |builds: [u64; 2]| builds.map(|build| BuildKey { build, command: 0 });
    assert_eq!(run(&mut world, of([1, 2]), 30), [4, 4]);
    assert_eq!(run(&mut world, of([1, 2]), 1), [6, 2]);
    assert_eq!(run(&mut world, of([3, 4]), 1), [4, 4]);
}

#[test]
fn what_is_known_of_the_same_command_goes_before_what_is_known_of_another_one_of_the_same_build() {
    let mut world = World::new(POLICY, machine(1, 8, 1));
    // One build, whose programs scale by what they were given to do.
    let of = |commands: [u64; 2]| commands.map(|command| BuildKey { build: 7, command });
    assert_eq!(run(&mut world, of([1, 2]), 30), [4, 4]);
    assert_eq!(run(&mut world, of([1, 2]), 1), [6, 2]);
    // Nothing is known of these: both are taken for the one that left last.
    assert_eq!(run(&mut world, of([3, 4]), 30), [4, 4]);
    for command in 5..70 {
        run(&mut world, of([command, command]), 0);
    }
    let forgotten = run(&mut world, of([1, 2]), 1);
    assert_eq!(forgotten, [4, 4]);
}

#[test]
fn the_floor_is_the_promised_share_of_the_fair_shares_speed_wherever_it_runs() {
    let mut world = World::new(POLICY, machine(1, 8, 1));
    for serial in [0.0, 0.6] {
        arrive(&mut world, serial);
    }
    for _ in 0..20 {
        world.interval();
        if world.tick < 4 {
            continue;
        }
        for (share, serial) in world.last.shares.iter().zip([0.0, 0.6]) {
            let floor = share.floor.unwrap();
            let promised = PROMISED * amdahl(serial)(4, 0);
            assert!((floor / promised - 1.0).abs() < 0.05, "{floor} {promised}");
        }
    }
}

#[test]
fn a_program_of_one_thread_is_judged_from_its_second_interval_on() {
    let mut world = World::new(POLICY, machine(1, 8, 1));
    world.arrive_with(flat(3.0), |app| app.busy = Some(flat(1.0)));
    for _ in 0..20 {
        world.interval();
        if world.tick > 3 {
            let floor = world.last.shares[0].floor.unwrap();
            assert!((floor - PROMISED * 3.0).abs() < 0.01, "{floor}");
        }
    }
}

const POLICY: &str = "mapper-next";
/// A program with a drawn curve; CPU time shows how it scales only where CPUs wait.
#[derive(Clone, Copy, Debug)]
enum Drawn {
    /// Amdahl's law with this serial share.
    Serial(f64),
    /// As fast as so many CPUs, and busy on all it has: short of memory bandwidth.
    Saturated(f64),
    /// This power of the count, and busy on all it has.
    Power(f64),
    /// In proportion up to so many CPUs, from there on slower by this power of the count, and busy on all it has. Drawn
    /// as a part of the fair share: a peak between two counts that were measured is not looked for.
    Peak(f64, f64),
    /// In proportion to the count; each CPU is busy for this share of the time only, as where threads wait for the slowest.
    Rests(f64),
}

impl Drawn {
    fn speed(self, cpus: u32) -> f64 {
        match self {
            Self::Serial(serial) => amdahl(serial)(cpus, 0),
            Self::Saturated(most) => f64::from(cpus).min(most),
            Self::Power(power) => f64::from(cpus).powf(power),
            Self::Rests(_) => f64::from(cpus),
            Self::Peak(at, power) => {
                let cpus = f64::from(cpus);
                cpus.min(at) * (cpus / at).max(1.0).powf(-power)
            }
        }
    }

    /// With a fair share of so many CPUs.
    fn of(self, fair: u32) -> Self {
        match self {
            Self::Peak(part, power) => Self::Peak((part * f64::from(fair)).max(1.0), power),
            _ => self,
        }
    }

    fn arrive(self, world: &mut World) {
        match self {
            Self::Serial(serial) => arrive(world, serial),
            Self::Rests(busy) => world.arrive_with(linear(), |app| {
                let random = RefCell::new(SplitMix64::new(busy.to_bits()));
                app.busy = Some(Box::new(move |cpus, _| {
                    let scatter = 1.0 + 0.05 * normal(&mut random.borrow_mut());
                    (busy * f64::from(cpus) * scatter).clamp(0.0, f64::from(cpus))
                }));
            }),
            _ => world.arrive_with(Box::new(move |cpus, _| self.speed(cpus)), |app| {
                app.busy = Some(linear());
            }),
        };
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    prop_oneof![
        (0.0..=1.0).prop_map(Drawn::Serial),
        (1.0..=40.0).prop_map(Drawn::Saturated),
        (0.0..=1.0).prop_map(Drawn::Power),
    ]
}

/// One that is faster with fewer CPUs than its fair share.
fn drawn_peak() -> impl Strategy<Value = Drawn> {
    (0.1..=0.9, 0.1..=1.0).prop_map(|(at, power)| Drawn::Peak(at, power))
}

/// Sum of the logarithms of the speeds, over those at the fair shares.
fn gain(programs: &[Drawn], fair: &[u32], counts: &[u32]) -> f64 {
    let each = programs.iter().zip(fair.iter().zip(counts));
    each.map(|(program, (&fair, &count))| (program.speed(count) / program.speed(fair)).ln())
        .sum()
}

/// The greatest gain of any division that keeps all promises with 3 % to spare, or all fair shares.
fn best_gain(programs: &[Drawn], fair: &[u32], cpus: u32) -> f64 {
    let mut best = vec![0.0; cpus as usize + 1];
    for (program, &fair) in programs.iter().zip(fair) {
        best = (0..=cpus as usize)
            .map(|total| {
                let own = (1..=total as u32).filter_map(|own| {
                    let of_fair = program.speed(own) / program.speed(fair);
                    (own == fair || of_fair >= 1.03 * PROMISED)
                        .then_some(best[total - own as usize] + of_fair.ln())
                });
                own.fold(f64::NEG_INFINITY, f64::max)
            })
            .collect();
    }
    best[cpus as usize]
}

/// What became of programs in their first ten and forty seconds.
struct Outcome {
    /// Of the best gain: the most within ten seconds, and the mean of the last ten.
    best: f64,
    early: f64,
    late: f64,
    /// The least share of the fair share's speed: of the means, and of those of the last ten seconds.
    mean: f64,
    end: f64,
    log: Vec<String>,
}

fn outcome(cpus: u32, programs: &[Drawn]) -> Outcome {
    let mut world = World::new(POLICY, machine(1, cpus, 1));
    for program in programs {
        program.arrive(&mut world);
    }
    let fair: Vec<u32> = world.last.shares.iter().map(|share| share.fair).collect();
    let (mut early, mut late) = (f64::NEG_INFINITY, 0.0);
    let mut log = Vec::new();
    let mut means = vec![0.0; programs.len()];
    let mut ends = means.clone();
    for second in 1..=40 {
        world.interval();
        let counts = world.counts();
        log.push(format!("{counts:?} {:?}", world.sentences()));
        let gained = gain(programs, &fair, &counts);
        match second {
            ..=10 => early = gained.max(early),
            31.. => late += gained / 10.0,
            _ => {}
        }
        for (place, program) in programs.iter().enumerate() {
            let of_fair = program.speed(counts[place]) / program.speed(fair[place]);
            means[place] += of_fair / 40.0;
            if second > 30 {
                ends[place] += of_fair / 10.0;
            }
        }
    }
    let least = |shares: Vec<f64>| shares.into_iter().fold(f64::INFINITY, f64::min);
    Outcome {
        best: best_gain(programs, &fair, cpus),
        early,
        late,
        mean: least(means),
        end: least(ends),
        log,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn where_a_division_is_five_percent_better_one_as_good_is_reached_within_ten_seconds_and_kept(
        cpus in prop_oneof![Just(2u32), Just(4), Just(8), Just(16), Just(80)],
        mut programs in proptest::collection::vec(drawn(), 2..=6),
    ) {
        // On one CPU each, nothing shows how they scale.
        programs.truncate((cpus / 2).max(2) as usize);
        let Outcome { best, early, late, mean, end, log } = outcome(cpus, &programs);
        let five_percent = 1.05_f64.ln() * programs.len() as f64;
        if best >= five_percent {
            for reached in [early, late] {
                prop_assert!(
                    reached >= best - five_percent,
                    "{:.3} of {:.3}: {programs:?} {log:#?}", reached.exp(), best.exp()
                );
            }
        }
        prop_assert!(mean.min(end) >= 0.999 * PROMISED, "{mean} {end} {programs:?} {log:#?}");
    }

    #[test]
    fn beside_one_that_scales_a_program_that_is_faster_with_fewer_cpus_gives_its_own(
        cpus in prop_oneof![Just(4u32), Just(8), Just(16), Just(80)],
        peak in drawn_peak(),
        serial in 0.0..=0.3,
    ) {
        let mut programs = [peak, Drawn::Serial(serial)];
        let fair = cpus / programs.len() as u32;
        programs.iter_mut().for_each(|program| *program = program.of(fair));
        let Outcome { best, late, mean, end, log, .. } = outcome(cpus, &programs);
        let ten_percent = 1.1_f64.ln() * programs.len() as f64;
        prop_assert!(
            late >= best - ten_percent,
            "{:.3} of {:.3}: {programs:?} {log:#?}", late.exp(), best.exp()
        );
        prop_assert!(mean.min(end) >= 0.999 * PROMISED, "{mean} {end} {programs:?} {log:#?}");
    }

    #[test]
    fn a_trial_leaves_no_cpu_idle_and_has_one_giver(
        cpus in 2u32..40,
        mut programs in proptest::collection::vec(drawn(), 2..=6),
        noise in prop_oneof![Just(0.0), Just(0.1)],
    ) {
        programs.truncate(cpus as usize);
        let mut world = World::new(POLICY, machine(1, cpus, 1)).noisy(noise, u64::from(cpus));
        for program in &programs {
            program.arrive(&mut world);
        }
        for _ in 0..60 {
            let free = world.last.free;
            world.interval();
            let tries = |share: &&Share| {
                let tries = |r: &Reason| matches!(r, Reason::Exploring { .. });
                share.explanation.reasons.iter().any(tries)
            };
            let tried: Vec<&Share> = world.last.shares.iter().filter(tries).collect();
            if tried.is_empty() {
                continue;
            }
            let gives = |share: &&&Share| share.cpus < share.explanation.before;
            prop_assert_eq!(tried.iter().filter(gives).count(), 1);
            prop_assert_eq!(world.last.free, free);
            prop_assert_eq!(world.last.transfers.len(), 1);
        }
    }
}

#[test]
fn a_program_known_at_two_counts_close_together_still_gives_what_it_does_not_need() {
    let programs = [
        Drawn::Saturated(1.0),
        Drawn::Saturated(1.0),
        Drawn::Power(0.41),
    ];
    let Outcome {
        best,
        early,
        late,
        log,
        ..
    } = outcome(80, &programs);
    assert!(
        early.min(late) >= best - 3.0 * 1.05_f64.ln(),
        "{early} {late} {best} {log:#?}"
    );
}

#[test]
fn what_threads_that_rest_leave_idle_is_seldom_taken_for_a_serial_part() {
    let cpus = prop_oneof![Just(4u32), Just(6), Just(8), Just(16)];
    let mixes = (cpus, proptest::collection::vec(0.6..=0.95, 2..=4));
    let mut runner = TestRunner::deterministic();
    let mut broken = Vec::new();
    for _ in 0..200 {
        let (cpus, mut busy) = mixes.new_tree(&mut runner).unwrap().current();
        busy.truncate((cpus / 2) as usize);
        let programs: Vec<Drawn> = busy.into_iter().map(Drawn::Rests).collect();
        let Outcome { mean, end, .. } = outcome(cpus, &programs);
        if mean.min(end) < 0.999 * PROMISED {
            broken.push(format!("{mean:.3} {end:.3} {programs:?}"));
        }
    }
    // 90 before speeds counted as measured (2026-11-30).
    assert!(broken.len() <= 12, "{broken:#?}");
}

/// The geometric mean of the speeds as a share of the best one, for programs by Amdahl's law.
fn of_best(world: &World, serials: &[f64]) -> f64 {
    let programs: Vec<Drawn> = serials.iter().map(|s| Drawn::Serial(*s)).collect();
    let fair: Vec<u32> = world.last.shares.iter().map(|share| share.fair).collect();
    let best = best_gain(&programs, &fair, world.usable.len());
    let reached = gain(&programs, &fair, &world.counts());
    ((reached - best) / programs.len() as f64).exp()
}

#[test]
fn through_noise_three_and_four_programs_come_within_five_percent_of_the_best_in_four_seconds() {
    for serials in [&[0.0, 0.6, 0.3][..], &[0.0, 0.7, 0.0, 0.6]] {
        for seed in 1..=10 {
            let mut world = World::new(POLICY, machine(1, 16, 1)).noisy(0.1, seed);
            for serial in serials {
                arrive(&mut world, *serial);
            }
            world.intervals(4);
            let reached = of_best(&world, serials);
            assert!(
                reached >= 0.95,
                "{serials:?}, seed {seed}: {:?}",
                world.counts()
            );
            let moves = world.intervals(60);
            let reached = of_best(&world, serials);
            assert!(
                moves <= 6 && reached >= 0.95,
                "{seed}: {moves} {:?}",
                world.counts()
            );
        }
    }
}

#[test]
fn through_noise_arrivals_and_departures_are_followed_within_four_seconds() {
    for seed in 1..=10 {
        let mut world = World::new(POLICY, machine(1, 8, 1)).noisy(0.1, seed);
        arrive(&mut world, 0.0);
        arrive(&mut world, 0.6);
        world.intervals(10);
        let third = arrive(&mut world, 0.7);
        world.intervals(4);
        let reached = of_best(&world, &[0.0, 0.6, 0.7]);
        assert!(reached >= 0.95, "seed {seed}: {:?}", world.counts());
        world.leave(third);
        world.intervals(4);
        assert_eq!(
            world.counts(),
            [6, 2],
            "seed {seed}: {:#?}",
            world.sentences()
        );
    }
}

/// Two programs change places every ten intervals.
fn swapping(first: f64, second: f64) -> Curve {
    let (first, second) = (amdahl(first), amdahl(second));
    Box::new(move |cpus, tick| match (tick / 10) % 2 {
        0 => first(cpus, tick),
        _ => second(cpus, tick),
    })
}

#[test]
fn a_program_that_tells_nothing_keeps_the_promised_share_of_its_cpus_while_it_seems_serial() {
    for cpus in [8, 32] {
        let mut world = World::new(POLICY, machine(1, cpus, 1));
        world.arrive_with(linear(), |app| {
            app.is_silent = true;
            app.busy = Some(Box::new(|cpus, tick| match tick {
                ..=9 => 1.0,
                _ => f64::from(cpus),
            }));
        });
        arrive(&mut world, 0.0);
        for _ in 0..40 {
            world.interval();
            let kept = f64::from(world.counts()[0]);
            let promised = PROMISED * f64::from(cpus) / 2.0;
            assert!(
                kept >= promised,
                "{:?} {:#?}",
                world.counts(),
                world.sentences()
            );
        }
    }
}

#[test]
fn through_noise_a_phase_change_every_ten_seconds_is_followed_within_four() {
    for seed in 1..=10 {
        let mut world = World::new(POLICY, machine(1, 8, 1)).noisy(0.1, seed);
        for (first, second) in [(0.0, 0.6), (0.6, 0.0)] {
            world.arrive_with(swapping(first, second), |app| {
                app.busy = Some(swapping(first, second));
            });
        }
        for _ in 0..60 {
            world.interval();
            // Readings are of the tick before.
            let (phase, since) = ((world.tick - 1) / 10 % 2, (world.tick - 1) % 10);
            let serials = if phase == 0 { [0.0, 0.6] } else { [0.6, 0.0] };
            if world.tick > 10 && since >= 4 {
                let reached = of_best(&world, &serials);
                assert!(reached >= 0.95, "seed {seed}: {:#?}", world.sentences());
            }
        }
    }
}
