//! Applications that end closely after one another.

use crate::fake::{FakeMachine, root};
use crate::registry::origin::{Adoption, Origin};
use mapper_control::schema::{AdoptTarget, Partition};
use mapper_host::enforce::Departure;
use mapper_model::AppId;
use std::collections::BTreeSet;
use std::time::Duration;

// The clock stands still, so that all ends are close to each other.
#[tokio::test(start_paused = true)]
async fn ends_that_follow_each_other_closely_take_one_look_and_one_decision() {
    let mut machine = FakeMachine::with_processes_of(0);
    let apps = [1, 2, 3, 4].map(|n| machine.adopt(&root(), &format!("/jobs/{n}")).unwrap());
    let decisions = |machine: &FakeMachine| machine.daemon.decider.decisions;
    let before = decisions(&machine);
    machine.seen.borrow_mut().empty.extend(&apps[..3]);
    for app in apps {
        machine.daemon.may_have_ended(app);
    }
    // The first alone, as it may be the only one.
    assert_eq!(machine.seen.borrow().released.len(), 1);
    machine.daemon.end_empty();
    // One that is released meanwhile causes no further look.
    machine.daemon.may_have_ended(apps[3]);
    machine.daemon.forget(apps[3]);
    machine.daemon.end_empty();
    let mut released = machine.seen.borrow().released.clone();
    released.sort_by_key(|(app, _)| *app);
    assert_eq!(released, apps.map(|app| (app, Departure::ForGood)));
    assert_eq!(machine.seen.borrow().looks_for_ends, 2);
    assert_eq!(decisions(&machine), before + 2);
}

/// Applications in groups of ours, which have no process left and take 10 ms each to give back what they hold.
fn that_end_in_groups_of_ours(count: u32) -> (FakeMachine, Vec<AppId>) {
    let mut machine = FakeMachine::with_processes_of(0);
    let adopt = |n| machine.adopt(&root(), &format!("/jobs/{n}")).unwrap();
    let apps: Vec<_> = (1..=count).map(adopt).collect();
    for app in &mut machine.daemon.registry.apps {
        app.record.origin = Origin::Recovered;
    }
    machine.seen.borrow_mut().empty.extend(&apps);
    machine.seen.borrow_mut().release_takes = Duration::from_millis(10);
    machine.daemon.registry.may_have_ended.extend(&apps);
    (machine, apps)
}

#[tokio::test(start_paused = true)]
async fn applications_that_end_at_once_share_a_decision_and_what_they_held_is_given_back_in_turns()
{
    let (mut machine, apps) = that_end_in_groups_of_ours(12);
    let before = machine.daemon.decider.decisions;
    machine.daemon.end_empty();
    let registry = &machine.daemon.registry;
    assert_eq!((registry.apps.len(), registry.count()), (0, 0));
    let (mut released, mut turns) = (0, 0);
    while released < apps.len() {
        let now = machine.seen.borrow().released.len();
        assert!(
            (1..=6).contains(&(now - released)),
            "{now} after {released}"
        );
        let due = machine.daemon.timing.next_return;
        assert_eq!(due.is_some(), now < apps.len());
        (released, turns) = (now, turns + 1);
        if due.is_some() {
            machine.daemon.give_back_in_turn();
        }
    }
    assert!(turns >= 2, "{turns}");
    assert_eq!(machine.daemon.decider.decisions, before + 1);
    assert_eq!(machine.daemon.registry.ended.latest().count(), apps.len());
}

#[tokio::test(start_paused = true)]
async fn groups_of_others_and_isolated_cpus_are_given_back_before_the_decision() {
    let (mut machine, apps) = that_end_in_groups_of_ours(12);
    let [.., isolated, unit] = apps[..] else {
        panic!("{apps:?}");
    };
    let adoption = Adoption {
        target: AdoptTarget::Cgroup("/jobs/12".to_owned()),
        by: 0,
        rule: None,
        fits_rule: None,
    };
    let registry = &mut machine.daemon.registry;
    registry.get_mut(unit).unwrap().record.origin = Origin::Adopted(adoption);
    registry.get_mut(isolated).unwrap().record.partition = Partition::Isolated;
    machine.daemon.end_empty();
    let released = machine.seen.borrow().released.clone();
    assert!(released.len() < apps.len());
    let first: BTreeSet<_> = released[..2].iter().map(|(app, _)| *app).collect();
    assert_eq!(first, BTreeSet::from([isolated, unit]));
}

#[tokio::test(start_paused = true)]
async fn before_a_decision_on_isolated_cpus_nobody_who_has_ended_holds_any() {
    let (mut machine, apps) = that_end_in_groups_of_ours(12);
    let lives = *apps.last().unwrap();
    machine.seen.borrow_mut().empty.remove(&lives);
    let app = machine.daemon.registry.get_mut(lives).unwrap();
    app.record.partition = Partition::Isolated;
    machine.daemon.end_empty();
    assert_eq!(machine.seen.borrow().released.len(), apps.len() - 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_back_what_those_that_have_ended_held() {
    let (mut machine, apps) = that_end_in_groups_of_ours(12);
    machine.daemon.end_empty();
    assert!(!machine.daemon.registry.leaving.is_empty());
    machine.daemon.stop();
    let released = apps.iter().map(|app| (*app, Departure::ForGood));
    assert!(released.eq(machine.seen.borrow().released.iter().copied()));
}

#[tokio::test(start_paused = true)]
async fn an_application_of_which_a_cut_search_says_nothing_is_checked_again_and_lives_meanwhile() {
    let mut machine = FakeMachine::with_processes_of(0);
    let app = machine.adopt(&root(), "/jobs/1").unwrap();
    machine.seen.borrow_mut().empty.insert(app);
    for cut in [true, false] {
        machine.seen.borrow_mut().looks_are_cut = cut;
        match cut {
            true => machine.daemon.may_have_ended(app),
            false => machine.daemon.end_empty(),
        }
        assert_eq!(machine.seen.borrow().released.is_empty(), cut);
    }
}

#[tokio::test(start_paused = true)]
async fn ends_wait_as_long_as_those_before_them_took_but_not_for_ever() {
    for (took_ms, waits_ms) in [(20, 20), (400, 400), (2000, 500)] {
        let mut machine = FakeMachine::with_processes_of(0);
        let app = machine.adopt(&root(), "/jobs/1").unwrap();
        machine.seen.borrow_mut().empty.insert(app);
        machine.daemon.gather_after(Duration::from_millis(took_ms));
        for (passed_ms, looks) in [(waits_ms - 5, 0), (10, 1)] {
            tokio::time::advance(Duration::from_millis(passed_ms)).await;
            machine.daemon.may_have_ended(app);
            let looked = machine.seen.borrow().looks_for_ends;
            assert_eq!(looked, looks, "{took_ms} ms, after {passed_ms}");
        }
    }
}
