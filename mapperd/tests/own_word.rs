//! What a program says in its own words, by the library for programs or by the page of an earlier
//! version, reaches a daemon that runs, and what the daemon decides reaches the program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use mapper_control::schema::{AppStatus, RuntimeState};
use mapper_model::{PerformanceSource, Qos};
use nix::errno::Errno;
use private_daemon::launcher::{Launched, Made, built};
use private_daemon::{Daemon, all_cpus, eventually, launch};
use std::path::Path;
use std::process::Command;

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A program that reports what its commands say through libmapper.
fn speaking(daemon: &Daemon) -> Launched<'_> {
    let mut compiler = Command::new("gcc");
    let include = workspace().join("crates/client-c/include");
    compiler.arg("-I").arg(include);
    // In front of the source, so that the library is taken whole.
    compiler
        .arg("-Wl,--whole-archive")
        .arg(built().join("libmapper.a"))
        .args(["-Wl,--no-whole-archive", "-pthread", "-ldl", "-lm"]);
    Launched::new(daemon, Made::by(&mut compiler, "speaks.c"), &[], &[])
}

fn app(daemon: &Daemon) -> AppStatus {
    daemon.status().apps.pop().unwrap()
}

/// Waits until the daemon has observed its applications again.
fn some_intervals(daemon: &Daemon) {
    let before = daemon.status().daemon.decisions;
    eventually("it decides", || {
        daemon.status().daemon.decisions > before + 3
    });
}

#[test]
fn the_cpus_that_a_program_declares_are_those_it_gets() {
    let all = all_cpus().len();
    assert!(all > 1, "a machine with one CPU has none to take");
    let daemon = Daemon::start();
    let mut program = speaking(&daemon);
    assert_eq!(program.ask(""), all.to_string());
    // No least and a most; neither; both; a least and no most.
    for (declared, cpus) in [
        ("declare 0 1", 1),
        ("declare 0 0", all),
        ("declare 1 1", 1),
        ("declare 1 0", all),
    ] {
        program.ask(declared);
        // It may know already.
        eventually(declared, || program.ask("") == cpus.to_string());
        assert_eq!(app(&daemon).cpu_count, cpus, "{declared}");
    }
    assert!(program.finish().success());
}

#[test]
fn a_program_in_a_serial_phase_can_spare_all_but_one_cpu_until_the_last_such_phase_ends() {
    let all = all_cpus().len();
    assert!(all > 1, "a machine with one CPU has none to spare");
    let daemon = Daemon::start();
    let mut program = speaking(&daemon);
    for (said, spared) in [
        ("serial 2", all - 1),
        ("serial -1", all - 1),
        ("serial -1", 0),
    ] {
        program.ask(said);
        some_intervals(&daemon);
        eventually(said, || {
            daemon.client().explain("program").unwrap().spare_cpus == spared
        });
        assert_eq!(app(&daemon).cpu_count, all, "nobody else wants them");
    }
    assert!(program.finish().success());
}

#[test]
fn a_program_that_says_what_it_has_done_is_judged_by_that() {
    let daemon = Daemon::start();
    let mut program = speaking(&daemon);
    program.ask("");
    some_intervals(&daemon);
    let performance = app(&daemon).performance;
    let source = performance.map(|performance| performance.source);
    assert_ne!(source, Some(PerformanceSource::Reported));
    program.ask("work");
    eventually("its work is its performance", || {
        app(&daemon).performance.is_some_and(|performance| {
            performance.source == PerformanceSource::Reported && performance.value > 0.0
        })
    });
    // In each interval, although it has always reported since the pass over all applications began.
    for _ in 0..3 {
        some_intervals(&daemon);
        let performance = app(&daemon).performance.unwrap();
        assert_eq!(performance.source, PerformanceSource::Reported);
    }
    assert!(program.explained().contains("units/s"));
    assert!(program.finish().success());
}

#[test]
fn what_is_known_of_a_program_is_reported_while_it_runs_and_after_its_end() {
    let daemon = Daemon::start();
    let mut program = speaking(&daemon);
    // Two threads, which keep two CPUs busy.
    program.ask("work");
    program.ask("work");
    let measured = || daemon.client().explain("program").unwrap().curve.len();
    eventually("it is measured on all CPUs", || measured() > 0);
    some_intervals(&daemon);
    some_intervals(&daemon);
    // How it scales is not known from one count.
    assert!(daemon.client().advise().unwrap().programs.is_empty());
    program.ask("declare 0 1");
    let is_reported = |runs| {
        let advice = daemon.client().advise().unwrap();
        let first = advice.programs.first();
        first.is_some_and(|first| {
            assert_eq!(
                (first.name.as_str(), advice.cpus),
                ("program", all_cpus().len())
            );
            first.speeds.last() == Some(&1.0) && first.app.is_some() == runs
        })
    };
    eventually("it is reported", || is_reported(true));
    assert!(program.finish().success());
    eventually("it is reported after its end", || is_reported(false));
}

#[test]
fn a_program_may_change_its_own_promise_as_its_user_may() {
    let daemon = Daemon::start();
    let mut program = speaking(&daemon);
    program.ask("");
    let promised = || app(&daemon).qos.get();
    for share in [0.5, 1.0] {
        program.ask(&format!("promise {share}"));
        assert_eq!(promised(), share);
    }
    assert_eq!(
        program.ask("promise 1.5"),
        format!("refused {}", Errno::EINVAL as i32)
    );
    let reply = daemon.client().promise(Some("program"), Qos::default());
    assert_eq!(reply.unwrap().before.get(), 1.0);
    assert_eq!(promised(), Qos::default().get());
    let mut client = daemon.client();
    // The test is part of no application.
    let nobodys = client
        .promise(None, Qos::default())
        .unwrap_err()
        .to_string();
    assert!(nobodys.contains("part of no application"), "{nobodys}");
    assert!(program.finish().success());
}

#[test]
fn a_program_that_waits_for_a_change_is_woken_by_the_daemons_next_one() {
    let all = all_cpus().len();
    assert!(all > 1, "a machine with one CPU has none to take");
    let daemon = Daemon::start();
    let mut program = speaking(&daemon);
    assert_eq!(program.ask(""), all.to_string());
    program.say("wait 20");
    let other = launch(&daemon, "other");
    let left: u32 = program.line().parse().unwrap();
    assert!(left < all, "{left}");
    drop(other);
    assert!(program.finish().success());
}

/// The page as of the first version; see `crates/abi/tests/compatibility.rs`.
#[test]
fn a_client_of_the_first_layout_runs_under_this_daemon() {
    let daemon = Daemon::start();
    let source = workspace().join("crates/abi/tests/compatibility/client_1.c");
    let made = Made::of(&mut Command::new("gcc"), &source);
    let mut client = Launched::new(&daemon, made, &["--teams", "follow"], &[]);
    let all = all_cpus();
    let second_word = all.iter().filter(|cpu| (64..128).contains(&cpu.0));
    let mask = second_word.fold(0_u64, |mask, cpu| mask | 1 << (cpu.0 - 64));
    assert_eq!(
        client.line(),
        format!("{} cpus, mode 1, mask {mask:x}", all.len())
    );
    let runtime = app(&daemon).runtime;
    assert_eq!(runtime.state, RuntimeState::Attached);
    assert_eq!(runtime.runtimes, ["libgomp"]);
    assert!(client.finish().success());
}
