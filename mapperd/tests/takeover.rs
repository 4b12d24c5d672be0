//! A daemon ends, in whatever way, and the next one continues with what it finds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use mapper_control::schema::{AppStatus, RuntimeState};
use mapper_model::{CpuRange, Qos};
use private_daemon::{Daemon, Program, all_cpus, eventually, launch};
use rustix::process::Signal;

fn app(daemon: &Daemon, name: &str) -> AppStatus {
    let status = daemon.status();
    let found = status.apps.iter().find(|app| app.name.as_str() == name);
    found
        .cloned()
        .unwrap_or_else(|| panic!("{name} is not in {status:?}\n{}", daemon.log()))
}

#[test]
fn applications_of_a_killed_daemon_are_taken_over_with_their_promise_and_history() {
    let mut daemon = Daemon::start();
    let mut program = Program::sleeping();
    let mut request = program.request("kept");
    request.wishes.qos = Some(Qos::new(0.7).unwrap());
    request.wishes.cpus = CpuRange::new(1, Some(3)).unwrap();
    let mut client = daemon.client();
    let launched = client.launch(request).unwrap();
    program.go();
    let other = launch(&daemon, "other");
    eventually("something is learned", || {
        daemon.status().daemon.decisions > 4
    });
    let (before, cpus) = (app(&daemon, "kept"), program.cpus());
    let decisions = daemon.client().explain("kept").unwrap().decisions;
    daemon.crash();
    let after = app(&daemon, "kept");
    assert_eq!(
        (after.id, after.uid, after.pid),
        (before.id, before.uid, before.pid)
    );
    assert_eq!((after.qos, after.max_cpus), (before.qos, before.max_cpus));
    assert_eq!(after.command, before.command);
    assert_eq!(after.cpus, cpus);
    assert_eq!(program.cpus(), cpus);
    let known = daemon.client().explain("kept").unwrap().decisions;
    assert_eq!(known[0].tick, decisions[0].tick);
    // And they are as much under management as ever.
    drop(other);
    eventually("what the other had is given on", || {
        program.cpus().len() == all_cpus().len().min(3)
    });
    program.kill();
    eventually("its end is seen", || daemon.status().apps.is_empty());
    drop(launched);
}

#[test]
fn after_an_orderly_stop_applications_are_confined_again() {
    let mut daemon = Daemon::start();
    let running = [launch(&daemon, "a"), launch(&daemon, "b")];
    let before = [running[0].program.cpus(), running[1].program.cpus()];
    daemon.signal(Signal::TERM);
    daemon.child.wait().unwrap();
    assert_eq!(running[0].program.cpus(), all_cpus());
    daemon.start_again();
    for (running, before) in running.iter().zip(before) {
        assert_eq!(running.program.cpus(), before);
    }
    assert!(daemon.log().contains("taken over"));
}

#[test]
fn the_page_is_found_again_and_tells_of_changes() {
    let mut daemon = Daemon::start();
    let running = launch(&daemon, "paged");
    let page = running.page();
    let before = page.allocation().unwrap();
    daemon.crash();
    assert_eq!(app(&daemon, "paged").runtime.state, RuntimeState::Waiting);
    let other = launch(&daemon, "other");
    let after = page.allocation().unwrap();
    assert_ne!(after.sequence, before.sequence);
    let cpus = running.program.cpus();
    assert_eq!(after.fields.cpu_count, cpus.len());
    drop(other);
}

#[test]
fn processes_that_came_and_went_between_two_daemons_are_followed() {
    let mut daemon = Daemon::start();
    let program = Program::waiting("sleep 60 & exec sleep 60");
    let mut running = private_daemon::launch_program(&daemon, program, "family");
    let family = || {
        let pids = std::process::Command::new("pgrep")
            .args(["-P", &running.program.child.id().to_string()])
            .output()
            .unwrap();
        String::from_utf8(pids.stdout).unwrap()
    };
    eventually("it has a child", || !family().is_empty());
    let child: u32 = family().trim().parse().unwrap();
    let state = daemon.dir.path().join("state/state.json");
    eventually("the child is in the saved state", || {
        private_daemon::text(&state).contains(&format!("\"{child}\""))
    });
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    running.program.kill();
    daemon.start_again();
    assert_eq!(app(&daemon, "family").cpus, all_cpus());
    let other = launch(&daemon, "other");
    if all_cpus().len() >= 2 {
        assert!(private_daemon::cpus_of(child).is_disjoint(&other.program.cpus()));
    }
    let child = rustix::process::Pid::from_raw(child.cast_signed()).unwrap();
    rustix::process::kill_process(child, Signal::KILL).unwrap();
    eventually("its end is seen", || daemon.status().apps.len() == 1);
}

#[test]
fn what_ended_between_two_daemons_is_forgotten() {
    let mut daemon = Daemon::start();
    let mut running = launch(&daemon, "short");
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    running.program.kill();
    daemon.start_again();
    assert!(daemon.status().apps.is_empty());
    assert!(
        daemon.log().contains("has ended in the meantime"),
        "{}",
        daemon.log()
    );
    // Its number is not used again.
    let next = launch(&daemon, "next");
    assert!(next.launched.reply.app > running.launched.reply.app);
}

#[test]
fn a_damaged_state_is_set_aside_and_said_so() {
    let mut daemon = Daemon::start();
    let running = launch(&daemon, "lost");
    let file = daemon.dir.path().join("state/state.json");
    let _ = std::fs::remove_file(file.with_extension("json.previous"));
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    std::fs::write(&file, "{\"version\":1,").unwrap();
    daemon.start_again();
    let log = daemon.log();
    assert!(
        log.contains("saved state set aside as") && log.contains("state.json.damaged"),
        "{log}"
    );
    assert!(file.with_extension("json.damaged").exists());
    drop(running);
}

#[test]
fn applications_survive_damaged_state_by_the_state_before() {
    let mut daemon = Daemon::start();
    let mut running = launch(&daemon, "found");
    // Something else is written after it.
    let mut later = launch(&daemon, "later");
    let file = daemon.dir.path().join("state/state.json");
    let before = file.with_extension("json.previous");
    eventually("the state before is kept", || {
        std::fs::read_to_string(&before).is_ok_and(|text| text.contains("\"found\""))
    });
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    std::fs::write(&file, "garbage").unwrap();
    daemon.start_again();
    let names: Vec<String> = daemon
        .status()
        .apps
        .iter()
        .map(|app| app.name.to_string())
        .collect();
    assert!(
        names.contains(&"found".to_owned()),
        "{names:?}: {}",
        daemon.log()
    );
    for program in [&mut running.program, &mut later.program] {
        program.kill();
    }
    eventually("their ends are noticed", || daemon.status().apps.is_empty());
}

#[test]
fn a_crash_while_nothing_can_be_saved_is_no_reason_to_stop() {
    let daemon = Daemon::start();
    daemon.status();
    std::fs::remove_dir_all(daemon.dir.path().join("state")).unwrap();
    let running = launch(&daemon, "a");
    assert_eq!(running.program.cpus(), all_cpus());
    // A launch does not wait for a disk that is slow, so the answer may come first.
    eventually("it is said", || daemon.log().contains("state not saved"));
}

#[test]
fn twenty_crashes_in_a_row_change_nothing() {
    let mut daemon = Daemon::start();
    let running = [
        launch(&daemon, "a"),
        launch(&daemon, "b"),
        launch(&daemon, "c"),
    ];
    for _ in 0..20 {
        daemon.crash();
        let status = daemon.status();
        assert_eq!(status.apps.len(), 3);
        for app in &status.apps {
            assert!(!app.cpus.is_empty());
        }
    }
    drop(running);
    eventually("all ends are seen", || daemon.status().apps.is_empty());
}

#[test]
fn a_launch_that_an_earlier_daemon_did_not_answer_is_repeated() {
    let mut daemon = Daemon::start();
    let first = launch(&daemon, "again");
    let before = first.launched.reply.app;
    daemon.crash();
    assert_eq!(app(&daemon, "again").id, before);
    let again = first.program.request("again");
    let launched = daemon.client().launch(again).unwrap();
    assert_ne!(launched.reply.app, before);
    let status = daemon.status();
    assert_eq!(status.apps.len(), 1, "{status:?}");
    assert_eq!(status.apps[0].id, launched.reply.app);
    // Nothing has ended.
    assert_eq!(daemon.client().history().unwrap().ended, []);
}
