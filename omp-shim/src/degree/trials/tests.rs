//! What regions of known times get.

use super::*;

impl Trials {
    /// Makes a call of a region whose time depends on the size; returns that.
    fn call(&mut self, limit: u32, sizes: Sizes, time: impl FnOnce(u32) -> u64) -> u32 {
        let Choice { size, timed } = self.choose(limit, sizes);
        if timed {
            self.learn(size, time(size), u64::MAX);
        }
        size
    }

    fn run(&mut self, calls: usize, limit: u32, mut time: impl FnMut(u32) -> u64) -> Vec<u32> {
        let mut call = |_| self.call(limit, Sizes::Any, &mut time);
        (0..calls).map(&mut call).collect()
    }

    /// As many calls as all trials take, after which one thread is chosen if it has the least time.
    fn proportional(&mut self, limit: u32) -> Vec<u32> {
        self.run(TRIALS, limit, |size| 1000 * u64::from(size))
    }
}

const TRIALS: usize = ((WINDOW + WARM_UP) * 8) as usize;

#[test]
fn a_region_that_is_faster_alone_gets_one_thread() {
    let mut trials = Trials::new();
    let sizes = trials.proportional(8);
    assert_eq!((sizes[0], *sizes.last().unwrap()), (8, 1));
}

#[test]
fn a_region_gets_the_size_in_between_that_is_fastest() {
    let mut trials = Trials::new();
    let time = |size| match size {
        8 => 5000,
        4 => 3000,
        2 => 3500,
        _ => 6000,
    };
    assert_eq!(trials.run(TRIALS, 8, time).last(), Some(&4));
}

#[test]
fn where_size_changes_are_expensive_only_all_and_one_are_tried() {
    let mut trials = Trials::new();
    for _ in 0..TRIALS {
        let size = trials.call(8, Sizes::AllOrOne, |size| 1000 + u64::from(size));
        assert!([1, 8].contains(&size));
    }
    assert_eq!(trials.size, 8, "less than the gain that is asked for");
}

#[test]
fn a_large_region_keeps_its_team_without_a_trial() {
    let mut trials = Trials::new();
    let sizes = trials.run(500, 8, |size| 8 * SMALL / u64::from(size) + 1);
    assert!(sizes.iter().all(|size| *size == 8));
    // ... and is hardly looked at.
    assert!(trials.quiet().calls > 1000);
}

#[test]
fn a_region_that_is_long_at_times_gets_its_team_back_soon() {
    let mut trials = Trials::new();
    trials.proportional(4);
    assert_eq!(trials.size, 1);
    for ticks in [3 * SMALL, 1000, 3 * SMALL] {
        assert_eq!(trials.call(4, Sizes::Any, |_| ticks), 1);
    }
    assert_eq!(trials.choose(4, Sizes::Any).size, 4);
    let sizes = trials.run(REST as usize - 1, 4, |_| 1000);
    assert!(sizes.iter().all(|size| *size == 4));
}

#[test]
fn another_limit_begins_anew_once_it_lasts() {
    let mut trials = Trials::new();
    trials.proportional(8);
    for _ in 1..LASTING {
        let choice = trials.choose(6, Sizes::Any);
        assert_eq!((choice.size, choice.timed), (6, false));
    }
    assert_eq!(trials.choose(8, Sizes::Any).size, 1, "nothing is forgotten");
    let sizes = trials.proportional(6);
    assert_eq!((sizes[0], *sizes.last().unwrap()), (6, 1));
}

#[test]
fn sizes_are_tried_again_later() {
    let mut trials = Trials::new();
    trials.proportional(4);
    let sizes = trials.run(2 * REST as usize, 4, |_| 1000);
    assert!(sizes.contains(&4));
    assert_eq!(trials.size, 4, "it is not faster alone any more");
}

#[test]
fn a_region_that_is_faster_with_all_soon_gets_them_back_in_a_trial() {
    let mut trials = Trials::new();
    let sizes = trials.run(TRIALS, 2, |size| 2_000 / u64::from(size));
    let tried = sizes.iter().filter(|size| **size == 1).count();
    assert!((1..=4).contains(&tried), "{tried}");
}

#[test]
fn an_expensive_trial_waits_until_the_budget_allows_it() {
    let mut trials = Trials::new();
    let mut calls = |count: u32, affordable| {
        (0..count).fold(0, |tried, _| {
            let Choice { size, timed } = trials.choose(2, Sizes::Any);
            if timed {
                trials.learn(size, 1_000_000 / u64::from(size), affordable);
            }
            tried + u32::from(size == 1)
        })
    };
    assert_eq!(calls(3 * REST, 1_000_000), 0);
    assert!((1..=4).contains(&calls(2 * REST, 10_000_000)));
}

#[test]
fn a_smaller_team_is_chosen_only_if_it_gains_over_the_full_one_before_and_after() {
    let mut trials = Trials::new();
    let mut call = 0;
    // The full team's first calls made threads, say.
    let sizes = trials.run(TRIALS, 2, |size| {
        call += 1;
        match size {
            2 if call <= WARM_UP + WINDOW => 3_000,
            2 => 1_000,
            _ => 1_500,
        }
    });
    assert_eq!(sizes.last(), Some(&2));
    assert_eq!(trials.size, 2);
}

#[test]
fn a_smaller_team_in_use_that_gets_slower_is_given_up_for_longer_each_time() {
    let mut trials = Trials::new();
    let mut rests = Vec::new();
    for _ in 0..4 {
        // While it is tried it seems to gain.
        while trials.size == 2 || matches!(trials.phase, Phase::Trying { .. }) {
            trials.call(2, Sizes::AllOrOne, |size| 500 * u64::from(size));
        }
        // In use it does not.
        let used = (0..20).take_while(|_| trials.call(2, Sizes::AllOrOne, |_| 2_000) == 1);
        assert!(used.count() <= 5);
        rests.push(trials.quiet().calls);
    }
    let growing = rests.windows(2).all(|pair| pair[0] * 7 < pair[1]);
    assert!(growing, "{rests:?}");
}

#[test]
fn large_and_small_work_in_turn_costs_little() {
    let mut trials = Trials::new();
    // A multigrid method on five grids, a region on each down and up, for the time of one thread.
    let grids = [80_000, 10_000, 1_500, 300, 300, 1_500, 10_000, 80_000_u64];
    let (mut with_two, mut chosen) = (0, 0);
    for call in 0..100_000 {
        let alone = grids[call / 4 % grids.len()];
        let together = alone / 2 + 300;
        let ticks = |size| if size == 2 { together } else { alone };
        with_two += together;
        chosen += ticks(trials.call(2, Sizes::AllOrOne, ticks));
    }
    let loss = chosen as f64 / with_two as f64 - 1.0;
    assert!(loss < 0.003, "{loss}");
}
