//! Every signal meant for the program reaches it, once.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

mod support;

use mapper_control::fake::Answer;
use mapper_control::{ErrorReply, Request};
use std::os::unix::process::CommandExt;
use std::time::Duration;
use support::{
    Running, Stage, children, ending, eventually, has_ended, kill, probe, run, state,
    wait_for_witness, witness,
};

/// The probe under the launcher, in a process group of its own, as a shell starts jobs.
fn start(stage: &Stage, what: &str) -> (Running, i32) {
    let mut running = Running::start(stage.launch(&[], &[probe(), what]).process_group(0));
    let program = running.ready();
    // Until then signals to the group cannot be distinguished from others.
    wait_for_witness(running.pid(), program, None);
    (running, program)
}

/// Sends a signal to the launcher's group and waits until the launcher has seen that it was for the group.
fn kill_group(launcher: i32, program: i32, signal: i32) {
    let before = witness(launcher, program);
    kill(-launcher, signal);
    wait_for_witness(launcher, program, before);
}

/// Which signals the probe received, in order.
fn signals(running: &mut Running) -> Vec<i32> {
    // Time for one that is not meant to come.
    std::thread::sleep(Duration::from_millis(100));
    let number = |line: &String| line.split(' ').nth(1).unwrap().parse().unwrap();
    running
        .rest()
        .iter()
        .map(number)
        .filter(|signal| *signal != libc::SIGCHLD)
        .collect()
}

#[test]
fn a_signal_to_the_launcher_reaches_the_program_once() {
    let stage = Stage::new();
    let catchable = (1..=64).filter(|signal| {
        // 32 and 33 are the C library's own.
        ![libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD, 32, 33].contains(signal)
    });
    let (mut running, _) = start(&stage, "signals");
    let mut expected = Vec::new();
    for signal in catchable {
        kill(running.pid(), signal);
        let line = running.line();
        assert!(
            line.starts_with(&format!("signal {signal} from {} ", running.pid())),
            "{line}"
        );
        expected.push(signal);
    }
    assert_eq!(signals(&mut running), [0; 0]);
    assert_eq!(ending(running.end()), "exit 0");
}

#[test]
fn a_signal_to_the_group_reaches_the_program_once() {
    let stage = Stage::new();
    let (mut running, program) = start(&stage, "signals");
    let launcher = running.pid();
    for signal in [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGINT,
        libc::SIGCONT,
        40,
    ] {
        kill_group(launcher, program, signal);
        let line = running.line();
        // Straight from here, not by the launcher.
        let expected = format!("signal {signal} from {} ", std::process::id());
        assert!(line.starts_with(&expected), "{line}");
    }
    assert_eq!(signals(&mut running), [0; 0]);
}

#[test]
fn signals_to_launcher_and_group_in_turn_are_distinguished() {
    let stage = Stage::new();
    let (mut running, program) = start(&stage, "signals");
    let launcher = running.pid();
    for round in 0..6 {
        let to_group = round % 2 == 0;
        if to_group {
            kill_group(launcher, program, libc::SIGUSR1);
        } else {
            kill(launcher, libc::SIGUSR1);
        }
        let sender = if to_group {
            std::process::id()
        } else {
            launcher.unsigned_abs()
        };
        let line = running.line();
        assert!(
            line.starts_with(&format!("signal 10 from {sender} ")),
            "{line}"
        );
    }
    assert_eq!(signals(&mut running), [0; 0]);
}

#[test]
fn a_program_that_left_the_group_gets_what_the_group_gets() {
    let stage = Stage::new();
    let (mut running, _) = start(&stage, "leave");
    kill(-running.pid(), libc::SIGINT);
    assert!(running.line().starts_with("signal 2 "));
    assert_eq!(signals(&mut running), [0; 0]);
}

#[test]
fn a_queued_value_comes_along() {
    let stage = Stage::new();
    let (mut running, _) = start(&stage, "signals");
    let value = libc::sigval {
        sival_ptr: std::ptr::without_provenance_mut(4711),
    };
    // SAFETY: the value is never followed.
    let sent = unsafe { libc::sigqueue(running.pid(), libc::SIGUSR1, value) };
    assert_eq!(sent, 0);
    let line = running.line();
    assert!(
        line.ends_with(&format!("code {} value 4711", libc::SI_QUEUE)),
        "{line}"
    );
}

#[test]
fn what_the_program_sends_to_its_parent_does_not_come_back() {
    let stage = Stage::new();
    let outcome = support::run(stage.launch(&[], &[probe(), "hit-parent"]).process_group(0));
    assert_eq!(ending(outcome.status), "exit 6");
}

#[test]
fn a_fatal_signal_to_the_launcher_ends_the_program_and_is_reported_as_its_status() {
    let stage = Stage::new();
    for signal in [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGUSR2,
        libc::SIGALRM,
    ] {
        let (mut running, program) = start(&stage, "default");
        kill(running.pid(), signal);
        assert_eq!(ending(running.wait()), format!("exit {}", 128 + signal));
        assert_eq!(state(program), None);
    }
}

#[test]
fn a_fatal_signal_to_the_group_ends_both() {
    let stage = Stage::new();
    let (mut running, _) = start(&stage, "default");
    kill(-running.pid(), libc::SIGTERM);
    assert_eq!(ending(running.wait()), "exit 143");
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let stage = Stage::new();
    let mut launch = stage.launch(&[], &[probe(), "default"]);
    // SAFETY: `signal` is async-signal-safe.
    unsafe {
        launch.pre_exec(|| {
            libc::signal(libc::SIGTERM, libc::SIG_IGN);
            Ok(())
        });
    }
    let mut running = Running::start(&mut launch);
    let program = running.ready();
    kill(running.pid(), libc::SIGTERM);
    // Time for it to end, which it is not meant to.
    std::thread::sleep(Duration::from_millis(100));
    assert!(!has_ended(program));
    assert_eq!(ending(running.end()), "exit 0");
}

#[test]
fn a_killed_launcher_leaves_the_program_running() {
    let stage = Stage::new();
    let (mut running, program) = start(&stage, "signals");
    let witness = witness(running.pid(), program).unwrap();
    kill(running.pid(), libc::SIGKILL);
    running.child.wait().unwrap();
    eventually("the witness is gone", || has_ended(witness));
    assert!(!has_ended(program));
    kill(program, libc::SIGUSR1);
    assert!(running.line().starts_with("signal 10 "));
    assert_eq!(signals(&mut running), [0; 0]);
}

#[test]
fn a_launcher_killed_before_the_program_starts_takes_it_along() {
    // The daemon never answers.
    let stage = Stage::with_daemon(|_| Answer::Silence);
    let mut running = Running::start(&mut stage.launch(&[], &[probe(), "signals"]));
    let launcher = running.pid();
    eventually("the child waits", || children(launcher).len() == 1);
    let child = children(launcher)[0];
    kill(launcher, libc::SIGKILL);
    running.child.wait().unwrap();
    eventually("the child is gone", || has_ended(child));
    assert_eq!(running.line(), "");
}

#[test]
fn a_program_that_a_signal_ended_while_it_waited_is_not_a_failed_launch() {
    let stage = Stage::with_daemon(|request| match request {
        Request::Launch(launch) => {
            let child = i32::try_from(launch.pid).unwrap();
            kill(child, libc::SIGTERM);
            eventually("the child has ended", || {
                state(child).is_none_or(|state| state == 'Z')
            });
            Answer::Error(ErrorReply::Unavailable {
                message: "no such process".into(),
            })
        }
        _ => Answer::HangUp,
    });
    let outcome = run(&mut stage.launch(&[], &["true"]));
    assert_eq!(ending(outcome.status), "exit 143", "{}", outcome.stderr);
    assert_eq!(outcome.stderr, "");
}

#[test]
fn a_launch_that_waits_for_the_daemon_can_be_interrupted() {
    let stage = Stage::with_daemon(|_| Answer::Silence);
    let mut running = Running::start(&mut stage.launch(&[], &[probe(), "signals"]));
    let launcher = running.pid();
    eventually("the child waits", || children(launcher).len() == 1);
    kill(launcher, libc::SIGTERM);
    assert_eq!(ending(running.wait()), "exit 143");
}

#[test]
fn a_stopped_program_stops_the_launcher_and_continues_with_it() {
    let stage = Stage::new();
    for stop in [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN] {
        let (mut running, program) = start(&stage, "default");
        let launcher = running.pid();
        kill(program, stop);
        eventually("both are stopped", || {
            state(program) == Some('T') && state(launcher) == Some('T')
        });
        // As the caller sees it: the same signal.
        let mut status = 0;
        // SAFETY: waits for a child of this process, without reaping it.
        let waited = unsafe { libc::waitpid(launcher, &raw mut status, libc::WUNTRACED) };
        assert_eq!(waited, launcher);
        assert!(libc::WIFSTOPPED(status));
        assert_eq!(libc::WSTOPSIG(status), stop);

        kill(launcher, libc::SIGCONT);
        eventually("both go on", || {
            state(program) == Some('S') && state(launcher) == Some('S')
        });
        assert_eq!(ending(running.end()), "exit 0");
    }
}

#[test]
fn a_stop_sent_to_the_launcher_stops_the_program() {
    let stage = Stage::new();
    let (mut running, program) = start(&stage, "default");
    let launcher = running.pid();
    kill(launcher, libc::SIGTSTP);
    eventually("both are stopped", || {
        state(program) == Some('T') && state(launcher) == Some('T')
    });
    kill(-launcher, libc::SIGCONT);
    eventually("both go on", || {
        state(program) == Some('S') && state(launcher) == Some('S')
    });
    assert_eq!(ending(running.end()), "exit 0");
}

#[test]
fn a_program_continued_or_killed_by_itself_takes_the_stopped_launcher_along() {
    let stage = Stage::new();
    let (mut running, program) = start(&stage, "default");
    let launcher = running.pid();
    let stopped = || state(program) == Some('T') && state(launcher) == Some('T');
    kill(program, libc::SIGSTOP);
    eventually("both are stopped", stopped);
    kill(program, libc::SIGCONT);
    eventually("both go on", || state(launcher) == Some('S'));
    kill(program, libc::SIGSTOP);
    eventually("both are stopped again", stopped);
    kill(program, libc::SIGKILL);
    assert_eq!(ending(running.wait()), "exit 137");
}
