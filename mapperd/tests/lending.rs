//! Idle programs lend their CPUs to a daemon's other programs, and have them back at once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use mapper_model::Lending;
use private_daemon::{Daemon, Program, Running, all_cpus, eventually, launch_program, pid};
use rustix::process::{Signal, kill_process};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(2);

/// Stands still until it is let go on, then computes.
const SLEEPS_FIRST: &str = "kill -STOP $$; while :; do :; done";
const COMPUTES: &str = "while :; do :; done";

fn wake(running: &Running) {
    kill_process(pid(&running.program.child), Signal::CONT).unwrap();
}

#[test]
fn an_idle_program_lends_its_cpus_and_has_them_back_long_before_the_next_interval() {
    let all = all_cpus();
    assert!(all.len() > 1, "a machine with one CPU has none to lend");
    let daemon = Daemon::start_with(&["--interval", "2s"]);
    let sleeper = launch_program(&daemon, Program::waiting(SLEEPS_FIRST), "sleeper");
    let worker = launch_program(&daemon, Program::waiting(COMPUTES), "worker");
    let (sleeping, working) = (&sleeper.program, &worker.program);
    let own = sleeping.cpus();
    eventually("the worker has all CPUs", || working.cpus() == all);
    assert_eq!(sleeping.cpus(), own);
    let status = daemon.status();
    let [lends, borrows] = &status.apps[..] else {
        panic!("{status:?}");
    };
    assert_eq!((lends.state.as_str(), &lends.borrowed), ("lends", &None));
    assert_eq!(borrows.borrowed.as_ref(), Some(&own));

    wake(&sleeper);
    let woken = Instant::now();
    eventually("the worker has left the sleeper's CPUs", || {
        working.cpus().is_disjoint(&sleeping.cpus())
    });
    let taken = woken.elapsed();
    assert!(taken < INTERVAL / 4, "{taken:?}");
    assert_eq!(sleeping.cpus(), own);
    let worked = daemon.client().report(worker.launched.reply.app).unwrap();
    assert!(worked.account.borrowed_cpu_ns > 0, "{worked:?}");
}

#[test]
fn a_program_that_does_not_lend_keeps_its_cpus_to_itself() {
    let daemon = Daemon::start();
    let program = Program::sleeping();
    let mut request = program.request("sleeper");
    request.wishes.lending = Some(Lending::Never);
    let mut client = daemon.client();
    client.launch(request).unwrap();
    let worker = launch_program(&daemon, Program::waiting(COMPUTES), "worker");
    let decisions = daemon.status().daemon.decisions;
    eventually("some intervals pass", || {
        daemon.status().daemon.decisions > decisions + 20
    });
    assert!(worker.program.cpus().is_disjoint(&program.cpus()));
}

#[test]
fn a_team_that_keeps_its_first_size_is_not_sized_by_cpus_that_are_borrowed() {
    let all = all_cpus();
    assert!(all.len() > 1, "a machine with one CPU has none to lend");
    let daemon = Daemon::start();
    let _sleeper = launch_program(&daemon, Program::sleeping(), "sleeper");
    let decisions = daemon.status().daemon.decisions;
    eventually("some intervals pass", || {
        daemon.status().daemon.decisions > decisions + 5
    });
    let worker = launch_program(&daemon, Program::waiting(COMPUTES), "worker");
    let reply = &worker.launched.reply;
    assert_eq!((&reply.cpus, reply.cpu_count), (&all, all.len() / 2));
}
