//! The launcher exits as the program does, and as shells do when there is none.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

mod support;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use support::{Outcome, Stage, ending, probe, run};

fn file(stage: &Stage, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = stage.folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn launch(stage: &Stage, program: &Path) -> Outcome {
    run(&mut stage.launch(&[], &[program.to_str().unwrap(), "a", "b"]))
}

#[test]
fn the_exit_status_is_the_programs() {
    let stage = Stage::new();
    for status in [0, 1, 2, 42, 124, 125, 126, 127, 128, 130, 255] {
        let exit = format!("exit {status}");
        let outcome = run(&mut stage.launch(&[], &["sh", "-c", &exit]));
        assert_eq!(ending(outcome.status), exit);
        assert_eq!(outcome.stderr, "");
    }
}

#[test]
fn death_by_signal_n_is_128_plus_n() {
    let stage = Stage::new();
    let mut fatal: Vec<i32> = (1..=31).chain([34, 50, 64]).collect();
    let harmless = [
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGSTOP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGURG,
        libc::SIGWINCH,
    ];
    fatal.retain(|signal| !harmless.contains(signal));
    for signal in fatal {
        let outcome = run(&mut stage.launch(&[], &[probe(), "die", &signal.to_string()]));
        assert_eq!(ending(outcome.status), format!("exit {}", 128 + signal));
        assert_eq!(outcome.stderr, "");
    }
}

#[test]
fn a_program_that_is_not_there_is_127() {
    let stage = Stage::new();
    for missing in [
        "no-such-program",
        "./no-such-program",
        "/no/such/program",
        "",
    ] {
        let outcome = run(&mut stage.launch(&[], &[missing]));
        assert_eq!(ending(outcome.status), "exit 127", "{missing:?}");
        assert!(
            outcome.stderr.starts_with("mapper-launch: "),
            "{}",
            outcome.stderr
        );
    }
    // The daemon need not be bothered with that.
    assert_eq!(stage.daemon().seen(), []);
}

#[test]
fn a_program_that_cannot_be_executed_is_126() {
    let stage = Stage::new();
    let plain = file(&stage, "plain", "", 0o644);
    let foreign = file(&stage, "foreign", "\u{7f}ELF of another machine\n", 0o755);
    let data = file(&stage, "data", "\0\u{1}\u{2}\n", 0o755);
    for program in [&plain, &foreign, &data, stage.folder.path()] {
        let outcome = launch(&stage, program);
        assert_eq!(ending(outcome.status), "exit 126", "{}", program.display());
        assert!(
            outcome.stderr.starts_with("mapper-launch: "),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn a_script_runs_by_its_interpreter_and_without_one_by_sh() {
    let stage = Stage::new();
    let text = "echo $0 $1 $2; exit 5\n";
    for script in [
        file(&stage, "with", &format!("#!/bin/sh\n{text}"), 0o755),
        file(&stage, "without", text, 0o755),
    ] {
        let outcome = launch(&stage, &script);
        assert_eq!(outcome.stdout, format!("{} a b\n", script.display()));
        assert_eq!(ending(outcome.status), "exit 5");
    }
}

#[test]
fn a_script_whose_interpreter_is_missing_is_127_and_says_so() {
    let stage = Stage::new();
    let script = file(&stage, "script", "#!/no/such/interpreter\n", 0o755);
    let outcome = launch(&stage, &script);
    assert_eq!(ending(outcome.status), "exit 127");
    assert!(
        outcome.stderr.contains("interpreter or loader is missing"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_program_that_closes_every_descriptor_is_waited_for() {
    let stage = Stage::new();
    assert_eq!(
        ending(run(&mut stage.launch(&[], &[probe(), "close"])).status),
        "exit 7"
    );
}

#[test]
fn a_program_that_leaves_its_process_group_or_session_is_waited_for() {
    let stage = Stage::new();
    let mut running = support::Running::start(&mut stage.launch(&[], &[probe(), "leave"]));
    let program = running.ready();
    assert_eq!(ending(running.end()), "exit 0");
    assert_eq!(support::state(program), None);
    let outcome = run(&mut stage.launch(&[], &["setsid", "sh", "-c", "exit 8"]));
    assert_eq!(ending(outcome.status), "exit 8");
}

#[test]
fn children_that_outlive_the_program_are_not_waited_for() {
    let stage = Stage::new();
    let leaves_one = "sleep 30 >/dev/null 2>&1 </dev/null & echo $!; exit 9";
    let outcome = run(&mut stage.launch(&[], &["sh", "-c", leaves_one]));
    assert_eq!(ending(outcome.status), "exit 9");
    let orphan: i32 = outcome.stdout.trim().parse().unwrap();
    assert!(support::state(orphan).is_some());
    support::kill(orphan, libc::SIGKILL);
}

#[test]
fn orphans_of_the_program_do_not_confuse_the_status() {
    let stage = Stage::new();
    // Grandchildren whose parents are gone end with all kinds of statuses while the program runs.
    let orphans =
        "for i in 1 2 3 4 5; do (sh -c \"sleep 0.0$i; exit $i\" &) ; done; sleep 0.2; exit 11";
    let outcome = run(&mut stage.launch(&[], &["sh", "-c", orphans]));
    assert_eq!(ending(outcome.status), "exit 11");
}

#[test]
fn the_status_is_exact_even_if_the_caller_ignores_sigchld() {
    let stage = Stage::new();
    let mut launch = stage.launch(&[], &["sh", "-c", "exit 3"]);
    // SAFETY: `signal` is async-signal-safe.
    unsafe {
        launch.pre_exec(|| {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            Ok(())
        });
    }
    let outcome = run(&mut launch);
    assert_eq!(ending(outcome.status), "exit 3");
}
