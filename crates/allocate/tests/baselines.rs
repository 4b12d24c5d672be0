//! The baseline policies in a closed loop.

mod support;

use mapper_allocate::scalability::Scalability;
use mapper_allocate::{AllocationConfig, AtRandom, Probability};
use mapper_model::{CpuRange, CpuSet, Reason, Resizing, Trigger, Weight};
use support::{Curve, World, amdahl, flat, linear, machine};

#[test]
fn fair_shares_follow_weights_and_leave_nothing_over() {
    let mut world = World::new("fair", machine(1, 10, 1));
    world.arrive(linear());
    world.arrive(linear());
    world.arrive_as(linear(), |spec| spec.weight = Weight::new(2.0).unwrap());
    assert_eq!(world.counts(), [3, 2, 5]);
    assert_eq!(world.intervals(20), 0);
}

#[test]
fn equal_shares_ignore_weights_and_leave_the_remainder() {
    let mut world = World::new("equal", machine(1, 10, 1));
    world.arrive(linear());
    world.arrive(linear());
    world.arrive_as(linear(), |spec| spec.weight = Weight::new(2.0).unwrap());
    assert_eq!(world.counts(), [3, 3, 3]);
    assert_eq!(world.last.free, 1);
}

#[test]
fn a_climber_finds_its_peak_and_another_takes_what_it_left() {
    // Best at 12 CPUs, worse with more.
    let peak =
        |cpus: u32, _: u64| f64::from(cpus.min(12)) - 0.5 * f64::from(cpus.saturating_sub(12));
    let mut world = World::new("hill_climb", machine(2, 20, 1));
    world.arrive(Box::new(peak));
    world.arrive(linear());
    assert_eq!(world.counts(), [20, 20]);
    world.intervals(60);
    let counts = world.counts();
    assert!((11..=13).contains(&counts[0]), "{counts:?}");
    assert!(counts[1] >= 26, "{counts:?}");
    assert_eq!(world.intervals(60), 0);
}

#[test]
fn a_climber_is_blind_to_what_others_could_do() {
    // A flat one is at a peak everywhere: it gives up nothing.
    let mut world = World::new("hill_climb", machine(2, 20, 1));
    world.arrive(linear());
    world.arrive(flat(5.0));
    world.intervals(60);
    assert_eq!(world.counts(), [20, 20]);
}

#[test]
fn a_resting_climber_is_disturbed_only_when_asked_for() {
    let run = |reexplore_every| {
        let config = AllocationConfig {
            reexplore_every,
            ..AllocationConfig::default()
        };
        let mut world = World::with("hill_climb", machine(2, 20, 1), &config);
        world.arrive(amdahl(0.1));
        world.intervals(40);
        world.intervals(60)
    };
    assert_eq!(run(None), 0);
    assert!(run(Some(5)) > 0);
}

const OFTEN: Probability = Probability::OF_MAPPER;

/// In which of 300 intervals the first of two programs that have come to rest tries another count, or
/// asks for one in vain, with a chance of that in each interval.
fn tries(policy: &str, probability: Probability, seed: u64) -> Vec<bool> {
    let config = AllocationConfig {
        reexplore_at_random: Some(AtRandom { probability, seed }),
        ..AllocationConfig::default()
    };
    let mut world = World::with(policy, machine(2, 20, 1), &config);
    world.arrive(flat(5.0));
    world.arrive(flat(5.0));
    world.intervals(40);
    let asks = |reason: &Reason| {
        matches!(
            reason,
            Reason::Exploring { .. } | Reason::NothingToSpare { .. }
        )
    };
    let tried = (0..300).map(|_| {
        world.interval();
        world.last.shares[0].explanation.reasons.iter().any(asks)
    });
    tried.collect()
}

fn how_often(policy: &str, probability: Probability, seed: u64) -> usize {
    let tried = tries(policy, probability, seed);
    tried.into_iter().filter(|tried| *tried).count()
}

#[test]
fn disturbances_at_random_repeat_with_their_seed_and_differ_with_another() {
    for policy in ["hill_climb-paper", "mapper-paper"] {
        assert_eq!(tries(policy, OFTEN, 1), tries(policy, OFTEN, 1), "{policy}");
        assert_ne!(tries(policy, OFTEN, 1), tries(policy, OFTEN, 2), "{policy}");
    }
}

#[test]
fn the_printed_rules_disturb_in_three_of_ten_steady_intervals() {
    // It has no bottleneck, wants more and gets nothing, so that every interval is a steady one.
    let tried: usize = (1..=4)
        .map(|seed| how_often("mapper-paper", OFTEN, seed))
        .sum();
    // 1200 draws, three standard errors.
    assert!((312..=408).contains(&tried), "{tried}");
}

#[test]
fn a_climber_at_its_peak_is_disturbed_the_more_often_the_greater_the_probability() {
    let tried = |probability| how_often("hill_climb-paper", probability, 1);
    let (seldom, often) = (tried(Probability::new(0.02).unwrap()), tried(OFTEN));
    assert!(seldom > 0 && often > 3 * seldom, "{seldom} {often}");
}

#[test]
fn noise_does_not_move_a_climber_often() {
    let mut moves = 0;
    for seed in 1..=6 {
        let mut world = World::new("hill_climb", machine(2, 20, 1)).noisy(0.05, seed);
        world.arrive(linear());
        world.arrive(linear());
        world.intervals(60);
        moves += world.intervals(100);
    }
    assert!(moves * 20 < 600, "{moves}");
}

/// Adds an application that keeps at most this many CPUs busy.
fn arrive_busy(world: &mut World, most: f64) {
    world.arrive(linear());
    let busy: Curve = Box::new(move |cpus, _| f64::from(cpus).min(most));
    if let Some(app) = world.apps.last_mut() {
        app.busy = Some(busy);
    }
}

#[test]
fn cpus_go_to_the_application_that_keeps_them_busy() {
    let mut world = World::new("scalability", machine(2, 20, 1));
    arrive_busy(&mut world, 100.0);
    arrive_busy(&mut world, 5.0);
    world.intervals(60);
    let counts = world.counts();
    // Two CPUs more for one that is busy outweigh one less for the other.
    assert!((4..=6).contains(&counts[1]), "{counts:?}");
    assert_eq!(counts.iter().sum::<u32>(), 40);
    assert_eq!(world.intervals(60), 0, "and it does not oscillate");
}

/// Moves once everything has been tried, where one keeps all its CPUs busy but no more, the other half.
fn moves_without_use(remembers: bool) -> u32 {
    let mut world = World::new("scalability", machine(2, 20, 1));
    if !remembers {
        world.policy = Box::new(Scalability::without_memory(AllocationConfig::default()));
    }
    arrive_busy(&mut world, 20.0);
    arrive_busy(&mut world, 10.0);
    world.intervals(20);
    world.intervals(40)
}

#[test]
fn what_was_undone_is_tried_again_only_without_memory() {
    assert_eq!(moves_without_use(true), 0);
    assert_eq!(moves_without_use(false), 40, "it oscillates");
}

#[test]
fn where_all_are_busy_no_cpus_move() {
    let mut world = World::new("scalability", machine(2, 20, 1));
    arrive_busy(&mut world, 100.0);
    arrive_busy(&mut world, 100.0);
    assert_eq!(world.intervals(40), 0);
    assert_eq!(world.counts(), [20, 20]);
}

#[test]
fn without_cpu_times_there_is_nothing_to_climb_on() {
    let mut world = World::new("scalability", machine(2, 20, 1));
    world.arrive(linear());
    arrive_busy(&mut world, 5.0);
    assert_eq!(world.intervals(40), 0);
}

/// The sentences of every interval in which counts changed.
fn sentences_of_moves(world: &mut World, intervals: u32) -> Vec<String> {
    let mut sentences = Vec::new();
    for _ in 0..intervals {
        let before = world.counts();
        world.interval();
        if before != world.counts() {
            sentences.extend(world.sentences());
        }
    }
    sentences
}

#[test]
fn every_gain_or_loss_of_cpus_has_a_reason() {
    for policy in ["fair", "equal", "hill_climb", "scalability"] {
        let mut world = World::new(policy, machine(2, 20, 1));
        arrive_busy(&mut world, 100.0);
        arrive_busy(&mut world, 5.0);
        let mut sentences = sentences_of_moves(&mut world, 30);
        arrive_busy(&mut world, 5.0);
        sentences.extend(world.sentences());
        sentences.extend(sentences_of_moves(&mut world, 30));
        let leaver = world.apps[0].id;
        world.leave(leaver);
        sentences.extend(world.sentences());
        assert!(
            sentences.iter().any(|s| s.contains('→')),
            "{policy}: {sentences:#?}"
        );
        for sentence in sentences.iter().filter(|s| s.contains('→')) {
            let phrases = ["gave ", "got ", "took ", "tries ", "back to ", "trial of"];
            assert!(
                phrases.iter().any(|words| sentence.contains(words))
                    && !sentence.contains("steady"),
                "{policy}: {sentence}"
            );
        }
    }
}

#[test]
fn a_serial_section_that_must_not_be_resized_is_not_said_to_get_one_cpu() {
    let mut world = World::new("equal", machine(1, 8, 1));
    world.arrive_as(linear(), |spec| spec.resizing = Resizing::Never);
    if let Some(app) = world.apps.last_mut() {
        app.busy = Some(Box::new(|_, _| 1.0));
    }
    world.intervals(5);
    assert_eq!(world.counts(), [8]);
    let sentences = world.sentences();
    assert!(!sentences[0].contains("serial"), "{sentences:?}");
}

#[test]
fn a_limit_that_changes_is_kept_from_the_next_decision_on() {
    for policy in ["fair", "equal", "hill_climb", "scalability"] {
        let mut world = World::new(policy, machine(1, 8, 1));
        arrive_busy(&mut world, 100.0);
        arrive_busy(&mut world, 100.0);
        world.intervals(6);
        world.apps[0].spec.cpus = CpuRange::new(1, Some(2)).unwrap();
        world.interval();
        assert_eq!(world.counts()[0], 2, "{policy}");
    }
}

#[test]
fn an_application_whose_cpus_went_away_is_not_said_to_be_new() {
    for policy in mapper_allocate::POLICIES {
        for usable in [2, 1] {
            let mut world = World::new(policy.name, machine(1, 8, 1));
            arrive_busy(&mut world, 100.0);
            arrive_busy(&mut world, 100.0);
            assert!(world.sentences().iter().any(|s| s.starts_with("new, ")));
            world.intervals(6);
            world.usable = CpuSet::first(usable);
            for app in &mut world.apps {
                app.held = app.held.intersection(&world.usable);
            }
            world.decide(Trigger::Membership);
            let sentences = world.sentences();
            assert!(
                sentences
                    .iter()
                    .all(|s| !s.contains("new") && !s.contains("arrived")),
                "{}: {sentences:#?}",
                policy.name
            );
        }
    }
}
