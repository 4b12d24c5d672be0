//! What users may have of the socket and of the time of the thread that decides.

use super::*;

/// A user who does not run this test.
fn other_user() -> u32 {
    rustix::process::geteuid().as_raw() + 1000
}

fn quotas() -> (Quotas, Instant) {
    (Quotas::new(u64::MAX), Instant::now())
}

fn connect(quotas: &Quotas, uid: u32, now: Instant) -> Place {
    quotas.connect(uid, uid, now).unwrap()
}

#[test]
fn connections_are_limited_per_user_but_for_root_and_the_user_of_the_daemon() {
    let (quotas, now) = quotas();
    let (user, neighbour) = (other_user(), other_user() + 1);
    // Of several uids, one account.
    let open = |nth| quotas.connect(user + 2 + nth, user, now).unwrap();
    let mut held: Vec<_> = (0..OWN_CONNECTIONS as u32).map(open).collect();
    let refused = quotas.connect(user, user, now).unwrap_err();
    assert_eq!(refused, Refused::TooMany(user));
    connect(&quotas, neighbour, now);
    held.pop();
    connect(&quotas, user, now);
    for exempt in [0, rustix::process::geteuid().as_raw()] {
        let connect = |_| connect(&quotas, exempt, now);
        let _held: Vec<_> = (0..2 * OWN_CONNECTIONS).map(connect).collect();
        quotas.charge(exempt, exempt, Duration::from_secs(100));
        connect(0);
    }
}

#[test]
fn many_users_leave_places_for_another_and_the_last_for_root() {
    let (quotas, now) = quotas();
    let fill = |uid| {
        let more = std::iter::from_fn(|| quotas.connect(uid, uid, now).ok());
        more.collect::<Vec<_>>()
    };
    let users = other_user()..;
    let mut held: Vec<_> = users.clone().take(16).map(fill).collect();
    assert!(fill(other_user() + 16).len() >= 32);
    held.extend(users.skip(16).map(fill).take_while(|held| !held.is_empty()));
    let all: usize = held.iter().map(Vec::len).sum();
    assert_eq!(all, CONNECTIONS - RESERVED);
    let refused = quotas.connect(other_user(), other_user() - 1, now);
    assert_eq!(refused.unwrap_err(), Refused::Full);
    assert_eq!(fill(0).len(), RESERVED);
    // Few descriptors.
    assert_eq!(Quotas::new(2048).state().places, 512);
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn time_beyond_a_burst_is_waited_for_and_shared_by_all_in_debt() {
    let (quotas, now) = quotas();
    let (user, neighbour) = (other_user(), other_user() + 1);
    let _held = [user, neighbour].map(|uid| connect(&quotas, uid, now));
    let mut state = quotas.state();
    let mut wait = |uid, spent, now| {
        state.user(uid, now).0.seconds -= spent;
        state.call(uid, now);
        state.wait(uid, now).as_secs_f64()
    };
    assert_eq!(wait(user, BURST - CONNECTION, now), 0.0);
    let alone = wait(user, 0.1, now);
    assert!((alone - 0.1 / SHARE).abs() < 1e-6, "{alone}");
    let together = wait(neighbour, BURST - CONNECTION + 0.1, now);
    assert!((together - 2.0 * 0.1 / SHARE).abs() < 1e-6, "{together}");
    assert_eq!(wait(user, 0.0, now + Duration::from_secs(1)), 0.0);
}

#[test]
fn a_call_is_charged_before_it_begins_as_much_as_those_before_it_took() {
    let (quotas, now) = quotas();
    let user = other_user();
    let _held = connect(&quotas, user, now);
    for _ in 0..100 {
        quotas.state().turns -= 1;
        quotas.charge(user, user, MS);
        let before = quotas.state().call(user, now);
        quotas.state().end(user, before, now);
    }
    let mut state = quotas.state();
    let expected = state.user(user, now).0.expected;
    assert!((expected - 1e-3).abs() < 1e-6, "{expected}");
    // Calls at a time wait for one another, before any has cost anything.
    (0..1000).for_each(|_| assert!(state.call(user, now) > 0.0));
    assert!(state.wait(user, now) > Duration::from_secs(1));
}

#[test]
fn calls_that_were_expected_to_take_nothing_are_charged_what_they_took() {
    let (quotas, now) = quotas();
    let user = other_user();
    let _held = connect(&quotas, user, now);
    // All come before any has taken anything; the long ones run first.
    let before: Vec<f64> = (0..200).map(|_| quotas.state().call(user, now)).collect();
    for (place, before) in before.into_iter().enumerate() {
        quotas.state().turns -= 1;
        let wait = quotas.state().begin(user, before, now);
        // Once the burst is used up, after 25, the next would wait.
        let (before_end, after) = (place < 24, place > 30 && place < 120);
        assert!(wait.is_zero() || !before_end, "{place}: {wait:?}");
        assert!(!wait.is_zero() || !after, "{place}: {wait:?}");
        if place < 120 {
            quotas.charge(user, user, 20 * MS);
        }
        quotas.state().end(user, before, now);
    }
    let left = quotas.state().user(user, now).0.seconds;
    // Some of 2.4 s was paid while the test ran.
    assert!(left < -1.0, "{left}");
}

#[test]
fn launches_and_ends_pay_for_themselves_in_full_and_for_the_decision_in_part() {
    // 64 applications of one user have ended beside 936 of others, one of them launched now, which took long.
    let event = |uid, own| Event {
        uid,
        account: uid,
        own,
    };
    let mut events = vec![event(7, MS); 64];
    events.push(event(8, 500 * MS));
    let apps_of = |account| if account == 7 { 0 } else { 100 };
    let parts = parts(events, apps_of, 936, 1565 * MS);
    let [(7, 7, ended), (8, 8, launched)] = parts[..] else {
        panic!("{parts:?}");
    };
    assert!(ended.abs_diff(128 * MS) < MS, "{ended:?}");
    assert!(launched.abs_diff(601 * MS) < MS, "{launched:?}");
}

#[test]
fn the_time_that_a_user_has_left_comes_back_while_the_user_does_nothing() {
    let (quotas, now) = quotas();
    let user = other_user();
    quotas.charge(user, user, 300 * MS);
    let left = |after| quotas.left_us(user, user, now + after);
    assert!((200_000..250_000).contains(&left(Duration::ZERO)));
    assert!((300_000..350_000).contains(&left(200 * MS)));
    assert_eq!(left(2000 * MS), 500_000);
    assert_eq!(quotas.left_us(0, 0, now), i64::MAX);
}

#[test]
fn debtors_who_never_come_back_slow_nobody_down() {
    let (quotas, now) = quotas();
    for uid in 0..100 {
        quotas.charge(
            other_user() + uid,
            other_user() + uid,
            Duration::from_secs(1),
        );
    }
    let mut state = quotas.state();
    assert!(state.rate(now) < SHARE / 99.0);
    // In debt together they pay no more than their part of the time.
    assert!(state.rate(now + 60 * Duration::from_secs(1)) < SHARE / 99.0);
    assert_eq!(state.rate(now + Duration::from_secs(3600)), SHARE);
}

#[test]
fn who_is_far_in_debt_cannot_connect_until_it_is_paid() {
    let (quotas, now) = quotas();
    let user = other_user();
    quotas.charge(user, user, Duration::from_secs(4));
    let refused = quotas.connect(user, user, now).unwrap_err();
    assert_eq!(refused, Refused::TooFast(user));
    connect(&quotas, user, now + Duration::from_secs(4));
    // Connections alone are charged.
    let mut tries = (0..10_000).map(|_| quotas.connect(user + 1, user + 1, now).map(drop));
    assert!(tries.any(|tried| tried == Err(Refused::TooFast(user + 1))));
}

#[test]
fn a_newcomers_call_goes_before_those_that_wait_behind_a_flood() {
    let (quotas, now) = quotas();
    let (user, newcomer) = (other_user(), other_user() + 1);
    let _held = [user, newcomer].map(|uid| connect(&quotas, uid, now));
    let mut state = quotas.state();
    let granted = |calls: &mut Vec<oneshot::Receiver<()>>| {
        let before = calls.len();
        calls.retain_mut(|call| call.try_recv().is_err());
        before - calls.len()
    };
    let mut calls: Vec<_> = (0..1000).map(|_| state.queue(user, now)).collect();
    // Never all.
    let running = granted(&mut calls);
    assert!(running < TURNS / 2, "{running}");
    assert!(state.queue(newcomer, now).try_recv().is_ok());
    state.end(newcomer, 0.0, now);
    state.turns = 0;
    let mut late = state.queue(newcomer, now);
    state.end(user, 0.0, now);
    assert!(late.try_recv().is_ok());
    assert_eq!(granted(&mut calls), 0);
    for _ in 0..running + 2000 {
        state.turns = TURNS - 1;
        state.end(user, 0.0, now);
    }
    granted(&mut calls);
    assert!(calls.is_empty());
}

#[test]
fn of_users_without_a_running_call_the_one_with_least_debt_has_the_next_turn() {
    let (quotas, now) = quotas();
    let users = [0, 1, 2].map(|nth| other_user() + nth);
    let _held = users.map(|uid| connect(&quotas, uid, now));
    let mut state = quotas.state();
    state.turns = 0;
    let calls: Vec<_> = users
        .iter()
        .flat_map(|user| {
            (0..3)
                .map(|_| (*user, state.queue(*user, now)))
                .collect::<Vec<_>>()
        })
        .collect();
    for (user, seconds) in users.into_iter().zip([-2.0, 1.0, -1.0]) {
        state.user(user, now).0.seconds = seconds;
    }
    state.turns = 1;
    state.grant();
    let granted = |(user, call): (u32, oneshot::Receiver<()>)| {
        let mut call = call;
        call.try_recv().is_ok().then_some(user)
    };
    let granted: Vec<u32> = calls.into_iter().filter_map(granted).collect();
    assert_eq!(granted, [users[1]]);
}

#[test]
fn nobody_holds_more_bytes_than_a_share_and_half_of_what_is_free() {
    let (quotas, now) = quotas();
    let hold = |uid, bytes| connect(&quotas, uid, now).hold(bytes);
    let fill = |uid| std::iter::from_fn(|| hold(uid, 64 << 10)).collect::<Vec<_>>();
    let users = other_user()..;
    let held: Vec<_> = users.clone().take(16).map(fill).collect();
    assert_eq!(held[0].len() * (64 << 10), OWN_BYTES);
    assert!(held[15].len() >= 4, "{}", held[15].len());
    assert!(hold(0, usize::MAX).is_some());
    drop(held);
    // A single long reply, and no other.
    let long = hold(other_user(), 2 * OWN_BYTES).unwrap();
    assert!(hold(other_user(), 1).is_none());
    drop(long);
    assert_eq!(quotas.state().bytes, BYTES);
}

#[test]
fn users_without_connections_are_forgotten() {
    let (quotas, now) = quotas();
    for uid in 0..10 * REMEMBERED as u32 {
        drop(connect(&quotas, uid, now + uid * 3 * MS));
    }
    assert!(quotas.state().users.len() <= REMEMBERED);
}
