//! Idle applications lend their CPUs, under every policy.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

mod support;

use mapper_model::topology::Shape;
use mapper_model::{AppId, Lending, Loan, Topology, Trigger};
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
    let newcomer = w.arrive(linear());
    w.apps[1].cpu_time_ns = Some(0);
    w.decide(Trigger::Membership);
    assert_eq!(w.counts(), [2, 2]);
    wakes(&mut w, 0);
    assert_eq!(w.counts(), [1, 1]);
    w.apps[0].asleep = true;
    w.intervals(3);
    assert_eq!(w.counts(), [1, 2]);
    w.leave(newcomer);
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
    wakes(&mut w, 2);
    assert_eq!(w.counts(), [1; 3]);
}

#[test]
fn two_that_lent_the_same_cpus_share_them_out_when_both_are_back() {
    let mut w = world(POLICY, 4, 1);
    w.apps[0].asleep = true;
    w.intervals(3);
    w.arrive(linear());
    w.apps[1].cpu_time_ns = Some(0);
    w.decide(Trigger::Membership);
    w.intervals(3);
    w.apps[1].asleep = true;
    w.intervals(3);
    w.arrive(linear());
    w.apps[2].cpu_time_ns = Some(0);
    w.decide(Trigger::Membership);
    assert_eq!(w.counts()[2], 4);
    w.apps[0].asleep = false;
    wakes(&mut w, 1);
    let mut counts = w.counts();
    counts.sort_unstable();
    assert_eq!(counts, [1, 1, 2], "{:?}", w.sentences());
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
