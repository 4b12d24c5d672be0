//! What a pass may cost: the interval is stretched where it would cost more.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use private_daemon::{Daemon, eventually, launch};
use rustix::process::Signal;

const MS: u64 = 1_000_000;

#[test]
fn an_interval_over_its_budget_is_stretched_and_reported() {
    // A thousandth of 20 ms are 20 µs: no pass is as short.
    let daemon = Daemon::start_with(&["--interval", "20ms", "--overhead-budget", "0.001"]);
    let _running = launch(&daemon, "fft");
    eventually("it is stretched", || {
        daemon.status().daemon.stretched.is_some()
    });
    let status = daemon.status().daemon;
    let stretched = status.stretched.unwrap();
    assert_eq!((status.interval_ns, stretched.asked_ns), (20 * MS, 20 * MS));
    assert!(stretched.interval_ns > 20 * MS, "{stretched:?}");
    let share = stretched.pass_ns as f64 / stretched.interval_ns as f64;
    assert!(share <= 0.001, "{stretched:?}");
    let explained = daemon.client().explain("fft").unwrap().stretched.unwrap();
    assert_eq!(explained.asked_ns, 20 * MS);
    let log = daemon.log();
    assert!(log.contains("instead of 20ms: a pass takes "), "{log}");
}

#[test]
fn without_a_budget_the_interval_is_as_set_whatever_it_costs() {
    let daemon = Daemon::start_with(&["--interval", "20ms", "--overhead-budget", "0"]);
    let _running = launch(&daemon, "fft");
    eventually("many decisions", || daemon.status().daemon.decisions > 20);
    assert_eq!(daemon.status().daemon.stretched, None);
}

#[test]
fn another_budget_counts_from_the_next_interval_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mapper.toml");
    let write = |budget| {
        std::fs::write(
            &path,
            format!("interval = \"20ms\"\noverhead_budget = {budget}\n"),
        )
        .unwrap();
    };
    write("0.001");
    let daemon = Daemon::start_with(&["--config", path.to_str().unwrap()]);
    let _running = launch(&daemon, "fft");
    eventually("it is stretched", || {
        daemon.status().daemon.stretched.is_some()
    });
    write("0");
    daemon.signal(Signal::HUP);
    eventually("it is as set", || {
        daemon.status().daemon.stretched.is_none()
    });
    // The log is written by another thread.
    eventually("the log tells it", || {
        daemon.log().contains("overhead_budget: 0.001 → 0")
    });
}
