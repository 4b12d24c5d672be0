//! Idle applications lend their CPUs, under every policy.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

mod support;

use mapper_model::topology::Shape;
use mapper_model::{AppId, Lending, Loan, Resizing, Topology, Trigger};
use support::{World, config, linear};

const POLICY: &str = mapper_allocate::DEFAULT;

/// A machine of one socket on which these programs, which all scale, have run for some intervals.
fn world(policy: &str, cpus: u32, apps: u32) -> World {
    let topology = Topology::regular(Shape {
        sockets: 1,
        cores_per_socket: cpus,
        threads_per_core: 1,
    });
    let mut w = World::new(config(policy, "sam_mph"), topology);
    w.start((0..apps).map(|_| linear()));
    for app in &mut w.apps {
        app.cpu_time_ns = Some(0);
    }
    w.intervals(3);
    w
}

fn wakes(w: &mut World, app: usize) {
    w.apps[app].asleep = false;
    w.decide(Trigger::Membership);
}

#[test]
fn an_idle_application_lends_after_two_intervals_and_has_its_cpus_back_in_the_next_decision() {
    for cpus in [2, 8, 40] {
        let mut w = world(POLICY, cpus, 2);
        let own = w.apps[1].effective.clone();
        w.apps[1].asleep = true;
        w.interval();
        assert_eq!(w.counts(), [cpus / 2; 2]);
        w.interval();
        assert_eq!(w.last.apps[1].loan, Loan::Lends);
        let borrowed = Loan::Borrows { cpus: own.clone() };
        assert_eq!(w.last.apps[0].loan, borrowed);
        w.intervals(5);
        assert_eq!(w.counts(), [cpus, cpus / 2]);
        wakes(&mut w, 1);
        assert_eq!(w.counts(), [cpus / 2; 2]);
        assert_eq!(w.apps[1].effective, own);
        let back = format!(
            "CPU{} {own} back to an application",
            if cpus == 2 { "" } else { "s" }
        );
        assert!(w.sentences()[0].contains(&back), "{:?}", w.sentences());
    }
}

#[test]
fn under_every_policy_who_lends_keeps_its_cpus_and_has_them_alone_once_it_is_back() {
    for policy in mapper_allocate::POLICIES {
        let mut w = world(policy.name, 8, 2);
        w.apps[1].asleep = true;
        w.intervals(2);
        let own = w.apps[1].effective.clone();
        w.intervals(5);
        assert_eq!(w.apps[1].effective, own, "{}", policy.name);
        assert_eq!(w.last.apps[1].loan, Loan::Lends, "{}", policy.name);
        wakes(&mut w, 1);
        let [other, back] = &w.apps[..] else {
            panic!("two applications");
        };
        let (other, back) = (&other.effective, &back.effective);
        assert!(other.is_disjoint(back), "{}", policy.name);
        assert!(!back.is_disjoint(&own), "{}", policy.name);
        assert!(w.last.apps.iter().all(|app| app.loan.is_none()));
    }
}

#[test]
fn a_newcomer_has_the_cpus_of_those_that_are_idle() {
    let mut w = world(POLICY, 2, 1);
    w.apps[0].asleep = true;
    w.intervals(3);
    let newcomer = arrive(&mut w, Resizing::Allowed);
    assert_eq!(w.counts(), [2, 2]);
    wakes(&mut w, 0);
    assert_eq!(w.counts(), [1, 1]);
    w.apps[0].asleep = true;
    w.intervals(5);
    assert_eq!(w.counts(), [1, 2]);
    w.leave(w.apps[newcomer].id);
    // Nobody would use its CPUs, so it has them all.
    assert_eq!((w.counts(), w.last.apps[0].loan.is_none()), (vec![2], true));
}

#[test]
fn three_programs_on_two_cpus_have_one_each_while_one_is_idle() {
    let mut w = world(POLICY, 2, 3);
    w.apps[2].asleep = true;
    w.intervals(2);
    let [first, second, _] = &w.apps[..] else {
        panic!("three applications");
    };
    assert!(first.effective.is_disjoint(&second.effective));
    // What it shared with the idle one is its own all the same.
    assert!(w.last.apps[..2].iter().all(|app| app.loan.is_none()));
    // Before the next decision its team is no larger than it was.
    assert_eq!(
        (&w.last.apps[2].loan, w.last.apps[2].share.cpus),
        (&Loan::Lends, 1)
    );
    wakes(&mut w, 2);
    assert_eq!(w.counts(), [2; 3], "all share both");
}

/// Lets a program arrive that has work, with its CPU time read.
fn arrive(w: &mut World, resizing: Resizing) -> usize {
    w.arrive_as(linear(), |spec| spec.resizing = resizing);
    let place = w.apps.len() - 1;
    w.apps[place].cpu_time_ns = Some(0);
    w.decide(Trigger::Membership);
    place
}

/// Two that are idle and have lent all four CPUs to a third.
fn two_lend_the_same_cpus() -> World {
    let mut w = world(POLICY, 4, 1);
    w.apps[0].asleep = true;
    w.intervals(3);
    arrive(&mut w, Resizing::Allowed);
    w.intervals(3);
    w.apps[1].asleep = true;
    w.intervals(3);
    arrive(&mut w, Resizing::Allowed);
    assert_eq!(w.counts(), [4; 3]);
    w
}

#[test]
fn two_that_lent_the_same_cpus_share_them_out_when_both_are_back() {
    let mut w = two_lend_the_same_cpus();
    w.apps[0].asleep = false;
    wakes(&mut w, 1);
    let mut counts = w.counts();
    counts.sort_unstable();
    assert_eq!(counts, [1, 1, 2], "{:?}", w.sentences());
}

#[test]
fn of_two_that_lent_the_same_cpus_the_first_that_is_back_owns_its_part_also_once_the_other_is() {
    let mut w = two_lend_the_same_cpus();
    wakes(&mut w, 0);
    let own = w.apps[0].effective.clone();
    assert_eq!(w.last.apps[0].loan, Loan::None, "{:?}", w.sentences());
    let third = w.apps[2].effective.clone();
    assert_eq!(
        w.last.apps[2].loan,
        Loan::Borrows {
            cpus: third.clone()
        }
    );
    assert!(third.is_disjoint(&own));
    w.interval();
    wakes(&mut w, 1);
    assert!(!w.apps[0].effective.is_disjoint(&own), "it was replaced");
    assert!(w.last.apps.iter().all(|app| app.loan.is_none()));
    let all = w.apps.iter().fold(0, |sum, app| sum + app.effective.len());
    assert_eq!(all, 4, "{:?}", w.counts());
}

#[test]
fn a_newcomer_that_keeps_its_count_gets_none_that_is_borrowed() {
    let mut w = world(POLICY, 8, 1);
    w.apps[0].asleep = true;
    w.intervals(3);
    let newcomer = arrive(&mut w, Resizing::Never);
    assert_eq!(w.counts(), [4, 4]);
    w.intervals(4);
    wakes(&mut w, 0);
    assert_eq!(w.apps[newcomer].effective.len(), 4);
}

#[test]
fn loans_stay_while_nobody_has_work_and_nobody_begins_to_lend() {
    let mut w = world(POLICY, 2, 2);
    w.apps[1].asleep = true;
    w.intervals(3);
    w.apps[0].asleep = true;
    w.intervals(6);
    assert_eq!(w.counts(), [2, 1]);
    wakes(&mut w, 0);
    assert_eq!(w.counts(), [2, 1]);

    let mut w = world(POLICY, 2, 2);
    w.apps.iter_mut().for_each(|app| app.asleep = true);
    w.intervals(6);
    assert_eq!(w.counts(), [1, 1]);
    assert!(w.last.apps.iter().all(|app| app.loan.is_none()));
}

#[test]
fn a_program_that_works_now_and_then_soon_moves_nobody() {
    let mut w = world(POLICY, 4, 2);
    let mut moved = 0;
    for _ in 0..100 {
        w.apps[1].asleep = true;
        moved += w.intervals(4);
        wakes(&mut w, 1);
        moved += u32::from(!w.last.actions.is_empty());
    }
    assert!(moved <= 4, "{moved} of 500 decisions");
}

#[test]
fn nothing_is_lent_by_an_application_or_a_machine_that_does_not_lend() {
    let mut w = world(POLICY, 2, 2);
    w.apps[1].spec.lending = Lending::Never;
    w.apps[1].asleep = true;
    w.intervals(10);
    assert_eq!(w.counts(), [1, 1]);

    let mut settings = config(POLICY, "sam_mph");
    settings.lending = Lending::Never;
    let mut w = World::new(settings, w.controller.topology().clone());
    w.start([linear(), linear()]);
    for app in &mut w.apps {
        app.cpu_time_ns = Some(0);
    }
    w.apps[1].asleep = true;
    w.intervals(10);
    assert_eq!(w.counts(), [1, 1]);
}

#[test]
fn explanations_say_who_lends_and_who_borrows_which_cpus() {
    let mut w = world(POLICY, 2, 2);
    w.apps[1].asleep = true;
    w.intervals(4);
    let explained = |id| w.controller.explain(AppId(id)).unwrap();
    let (borrows, lends) = (explained(1), explained(2));
    assert_eq!(lends.state, "lends");
    let last = lends.decisions.last().unwrap();
    assert_eq!(
        last.sentence,
        "1 CPU: idle, lends its CPUs until it has work"
    );
    let sentence = &borrows.decisions.last().unwrap().sentence;
    assert!(
        sentence.ends_with("CPU 1 borrowed from idle applications"),
        "{sentence}"
    );
}
