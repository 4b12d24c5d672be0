//! Idle time of CPUs goes to those that use all of theirs, under every policy.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

mod support;

use mapper_model::topology::Shape;
use mapper_model::{CpuRange, CpuSet, IdleTimeUse, Lending, Topology, Trigger};
use support::{World, config, linear};

const BATCH: usize = 0;
const SERVICE: usize = 1;

/// A machine of two CPUs on which a program that scales runs beside a service that keeps three tenths of its CPU busy.
fn world(policy: &str) -> World {
    let topology = Topology::regular(Shape {
        sockets: 1,
        cores_per_socket: 2,
        threads_per_core: 1,
    });
    let mut w = World::new(config(policy, "sam_mph"), topology);
    w.start([linear(), linear()]);
    for app in &mut w.apps {
        app.cpu_time_ns = Some(0);
        app.spec.idle_time = IdleTimeUse::WhileLeft;
    }
    w.apps[SERVICE].busy = 0.3;
    w
}

fn used(w: &World) -> &CpuSet {
    &w.last.apps[BATCH].idle_time.cpus
}

/// Intervals with idle time, of so many.
fn with_idle_time(w: &mut World, intervals: u32) -> u32 {
    let with = (0..intervals).filter(|_| {
        w.interval();
        !used(w).is_empty()
    });
    with.count() as u32
}

#[test]
fn under_every_policy_idle_time_of_a_service_goes_to_who_uses_all_its_cpus() {
    for policy in mapper_allocate::POLICIES {
        let mut w = world(policy.name);
        w.intervals(6);
        assert_eq!(*used(&w), w.apps[SERVICE].effective, "{}", policy.name);
        assert_eq!(w.counts(), [1, 1], "{}", policy.name);
        assert!(w.last.apps[SERVICE].idle_time.is_none());
        let said = format!("runs on CPU {} as well while it is idle", used(&w));
        assert!(w.sentences()[BATCH].contains(&said), "{:?}", w.sentences());
    }
}

#[test]
fn a_service_that_gets_busy_leaves_no_idle_time_from_the_next_decision_on() {
    let mut w = world(mapper_allocate::DEFAULT);
    w.intervals(8);
    assert!(!used(&w).is_empty());
    w.apps[SERVICE].busy = 0.95;
    w.interval();
    assert!(used(&w).is_empty());
}

#[test]
fn a_service_that_falls_below_its_promise_leaves_no_idle_time() {
    let mut w = world(mapper_allocate::DEFAULT);
    w.intervals(9);
    assert!(!used(&w).is_empty());
    w.apps[SERVICE].busy = 0.24;
    w.interval();
    assert!(used(&w).is_empty(), "{:?}", w.sentences());
}

#[test]
fn who_gains_nothing_by_idle_time_tries_it_ever_more_rarely() {
    let mut w = world(mapper_allocate::DEFAULT);
    w.apps[BATCH].gains = 0.0;
    let first = with_idle_time(&mut w, 60);
    let later = with_idle_time(&mut w, 300);
    assert!((4..=16).contains(&first), "{first}");
    assert!((4..=12).contains(&later), "{later}");
}

#[test]
fn who_uses_idle_time_is_measured_on_its_own_cpus_now_and_then_and_nowhere_else() {
    let mut w = world(mapper_allocate::DEFAULT);
    let with = with_idle_time(&mut w, 200);
    assert!((160..190).contains(&with), "{with}");
    let fit = w.apps[BATCH].id;
    let profile = w.controller.profile(fit).unwrap();
    let curve = profile.curve.points();
    assert_eq!(curve.len(), 1, "{curve:?}");
    let alone = linear()(1);
    assert!((curve[0].perf / alone - 1.0).abs() < 0.01, "{curve:?}");
}

#[test]
fn scatter_neither_ends_what_pays_nor_keeps_up_what_does_not() {
    let mut w = world(mapper_allocate::DEFAULT);
    w.noise = 0.05;
    let paid = with_idle_time(&mut w, 200);
    assert!(paid >= 120, "{paid}");
    let mut w = world(mapper_allocate::DEFAULT);
    w.noise = 0.05;
    w.apps[BATCH].gains = 0.0;
    let unpaid = with_idle_time(&mut w, 300);
    assert!(unpaid <= 60, "{unpaid}");
}

#[test]
fn an_application_never_has_more_cpus_than_it_wants_with_those_of_others() {
    let mut w = world(mapper_allocate::DEFAULT);
    w.apps[BATCH].spec.cpus = CpuRange::new(1, Some(1)).unwrap();
    assert_eq!(with_idle_time(&mut w, 20), 0);
}

#[test]
fn a_service_that_is_busy_in_every_fourth_interval_moves_others_ever_more_rarely() {
    let mut w = world(mapper_allocate::DEFAULT);
    w.intervals(8);
    let mut begun = 0;
    for interval in 0..200 {
        w.apps[SERVICE].busy = if interval % 4 == 0 { 0.95 } else { 0.3 };
        let before = used(&w).is_empty();
        w.interval();
        begun += u32::from(before && !used(&w).is_empty());
    }
    assert!(begun <= 12, "{begun}");
}

#[test]
fn arrivals_of_others_neither_begin_nor_end_the_use_of_idle_time_and_hide_no_change() {
    let mut w = world(mapper_allocate::DEFAULT);
    w.intervals(9);
    let before = used(&w).clone();
    assert!(!before.is_empty());
    for _ in 0..5 {
        w.decide(Trigger::Membership);
        w.interval();
        assert_eq!(*used(&w), before);
    }
    w.apps[SERVICE].busy = 0.95;
    w.decide(Trigger::Membership);
    assert_eq!(*used(&w), before);
    w.interval();
    assert!(used(&w).is_empty());
}

#[test]
fn no_idle_time_goes_where_it_is_not_lent_not_needed_or_the_kernel_cannot_order_the_two() {
    type Change = fn(&mut World);
    let changes: [Change; 4] = [
        |w| w.apps[SERVICE].spec.lending = Lending::Never,
        |w| w.apps[SERVICE].spec.idle_time = IdleTimeUse::Never,
        |w| w.apps[BATCH].spec.idle_time = IdleTimeUse::Never,
        |w| w.apps[BATCH].busy = 0.8,
    ];
    for change in changes {
        let mut w = world(mapper_allocate::DEFAULT);
        change(&mut w);
        assert_eq!(with_idle_time(&mut w, 20), 0);
    }
}
