//! A disk that does not answer holds up nobody but the saved state.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use mapper_control::schema::{AdoptRequest, AdoptTarget};
use private_daemon::{Daemon, PATIENCE, Program, eventually};
use rustix::process::Signal;
use std::process::Command;
use std::time::{Duration, Instant};

/// Writing the state does not return as long as the file `DISK_STUCK` names is there.
const STUCK_DISK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
ssize_t write(int fd, const void *data, size_t length) {
    ssize_t (*next)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    char link[64], name[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t end = readlink(link, name, sizeof name - 1);
    if (end > 0 && strstr(name, "/state.json.new"))
        while (access(getenv("DISK_STUCK"), F_OK) == 0) usleep(1000);
    return next(fd, data, length);
}
"#;

/// A daemon whose disk is stuck while `DIR/stuck` is there.
fn daemon_with_gate() -> Daemon {
    let dir = tempfile::tempdir().unwrap();
    let (source, library) = (dir.path().join("disk.c"), dir.path().join("disk.so"));
    std::fs::write(&source, STUCK_DISK).unwrap();
    let mut compiler = Command::new("gcc");
    compiler.args(["-shared", "-fPIC", "-o"]);
    let status = compiler.args([&library, &source]).arg("-ldl").status();
    assert!(status.unwrap().success());
    let mut command = Daemon::command();
    command
        .env("LD_PRELOAD", library)
        .env("DISK_STUCK", dir.path().join("stuck"));
    Daemon::start_as(command, dir, &["--interval", "50ms"])
}

#[test]
fn while_the_disk_is_stuck_programs_are_launched_decisions_taken_and_a_stop_ends() {
    let mut daemon = daemon_with_gate();
    let gate = daemon.dir.path().join("stuck");
    let saved = daemon.dir.path().join("state/state.json");
    let mut first = Program::sleeping();
    let mut first_lease = daemon.client();
    first_lease.launch(first.request("first")).unwrap();
    first.go();
    let is_saved = |name: &str| {
        let text = std::fs::read_to_string(&saved).unwrap_or_default();
        text.contains(&format!("\"{name}\""))
    };
    eventually("the first is saved", || is_saved("first"));

    std::fs::write(&gate, "").unwrap();
    let mut second = Program::sleeping();
    let mut second_lease = daemon.client();
    second_lease.launch(second.request("second")).unwrap();
    second.go();
    let decisions = daemon.status().daemon.decisions;
    eventually("decisions go on", || {
        daemon.status().daemon.decisions > decisions + 3
    });
    assert!(!is_saved("second"), "the disk was not stuck");

    // It answers again, and what was missed is there.
    std::fs::remove_file(&gate).unwrap();
    eventually("the second is saved", || is_saved("second"));

    // A stop does not wait for ever either.
    std::fs::write(&gate, "").unwrap();
    let started = Instant::now();
    daemon.signal(Signal::TERM);
    let status = daemon.child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(started.elapsed() >= Duration::from_secs(3) && started.elapsed() < PATIENCE);
    let log = daemon.log();
    assert!(log.contains("state not saved within 3 s"), "{log}");
    assert!(log.contains("running applications have all CPUs"), "{log}");
}

#[test]
fn nothing_is_adopted_before_its_state_is_saved() {
    let daemon = daemon_with_gate();
    let gate = daemon.dir.path().join("stuck");
    let mut stranger = Program::sleeping();
    stranger.go();
    std::fs::write(&gate, "").unwrap();
    let request = AdoptRequest::of(AdoptTarget::Pid(stranger.child.id()));
    let refused = daemon.client().adopt(request.clone()).unwrap_err();
    assert!(
        refused.to_string().contains("could not be saved"),
        "{refused}"
    );
    assert!(daemon.status().apps.is_empty());
    std::fs::remove_file(&gate).unwrap();
    eventually("it is adopted", || {
        daemon.client().adopt(request.clone()).is_ok()
    });
    let saved = daemon.dir.path().join("state/state.json");
    let text = std::fs::read_to_string(saved).unwrap();
    assert!(text.contains("\"adopted\":{"), "{text}");
}
