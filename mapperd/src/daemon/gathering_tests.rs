//! Applications that end closely after one another.

use crate::fake::{FakeMachine, root};
use mapper_host::enforce::Departure;
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
    let released = apps.map(|app| (app, Departure::ForGood));
    assert_eq!(machine.seen.borrow().released, released);
    assert_eq!(machine.seen.borrow().looks_for_ends, 2);
    assert_eq!(decisions(&machine), before + 2);
}

#[tokio::test(start_paused = true)]
async fn others_are_served_while_many_are_forgotten_and_one_decision_is_taken_after_all() {
    let mut machine = FakeMachine::with_processes_of(0);
    let apps: Vec<_> = (1..=12)
        .map(|n| machine.adopt(&root(), &format!("/jobs/{n}")).unwrap())
        .collect();
    let before = machine.daemon.decider.decisions;
    machine.seen.borrow_mut().empty.extend(&apps);
    machine.seen.borrow_mut().release_takes = Duration::from_millis(10);
    machine.daemon.registry.may_have_ended.extend(&apps);
    let (mut released, mut turns) = (0, 0);
    machine.daemon.end_empty();
    while released < apps.len() {
        let now = machine.seen.borrow().released.len();
        assert!(
            (1..=6).contains(&(now - released)),
            "{now} after {released}"
        );
        let decisions = machine.daemon.decider.decisions - before;
        assert_eq!(decisions, u64::from(now == apps.len()));
        let due = machine.daemon.timing.gathered;
        assert_eq!(due.is_some(), now < apps.len());
        (released, turns) = (now, turns + 1);
        if due.is_some() {
            machine.daemon.act_on_gathered();
        }
    }
    assert!(turns >= 2, "{turns}");
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
async fn ends_wait_as_long_as_those_before_them_took() {
    let mut machine = FakeMachine::with_processes_of(0);
    let app = machine.adopt(&root(), "/jobs/1").unwrap();
    machine.seen.borrow_mut().empty.insert(app);
    machine.daemon.gather_after(Duration::from_millis(20));
    for (passed_ms, looks) in [(15, 0), (10, 1)] {
        tokio::time::advance(Duration::from_millis(passed_ms)).await;
        machine.daemon.may_have_ended(app);
        assert_eq!(machine.seen.borrow().looks_for_ends, looks);
    }
}
