//! A program whose threads spin for one another, outside OpenMP, shares CPUs in place of having fewer than threads.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use private_daemon::{Daemon, Program, all_cpus, eventually, launch_program};
use std::process::Command;

/// Threads as many as CPUs, which pass a turn around, or count.
const PROGRAM: &str = r#"
    #include <pthread.h>
    #include <unistd.h>
    static volatile long turn, threads;
    static void *work(void *arg) {
        for (long me = (long)arg;;) {
    #ifdef SPINS
            while (turn != me) {}
            for (volatile int i = 0; i < 1000; i++) {}
            turn = (me + 1) % threads;
    #else
            for (volatile long i = 0; i < 1000000; i++) {}
    #endif
        }
    }
    int main(void) {
        threads = sysconf(_SC_NPROCESSORS_ONLN);
        for (long me = 1; me < threads; me++) {
            pthread_t thread;
            pthread_create(&thread, 0, work, (void *)me);
        }
        work(0);
    }
"#;

#[test]
fn a_program_that_spins_shares_cpus_with_another_and_one_that_computes_does_not() {
    if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) {
        return;
    }
    let all = all_cpus();
    assert!(all.len() > 1, "a machine with one CPU has none to share");
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("p.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let made = |name: &str, define: &str| {
        let file = dir.path().join(name);
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-pthread", define, "-o"]).arg(&file);
        assert!(compiler.arg(&source).status().unwrap().success());
        format!("exec {}", file.display())
    };
    let (spins, computes) = (made("spins", "-DSPINS"), made("computes", "-UNONE"));
    let daemon = Daemon::start();
    let computing = launch_program(&daemon, Program::waiting(&computes), "computes");
    let spinning = launch_program(&daemon, Program::waiting(&spins), "spins");
    eventually("the spinning program has all CPUs", || {
        spinning.program.cpus() == all
    });
    assert_eq!(computing.program.cpus(), all, "they share them");
    let said = |name: &str| daemon.client().explain(name).unwrap().decisions;
    let said = |name: &str| said(name).last().unwrap().sentence.clone();
    assert!(said("spins").contains("by spinning, outside OpenMP"));
    assert!(said("computes").contains("shares its CPUs with `spins`"));
    // The next one of two that compute has CPUs of its own.
    drop(spinning);
    let other = launch_program(&daemon, Program::waiting(&computes), "other");
    eventually("each has CPUs of its own", || {
        computing.program.cpus().is_disjoint(&other.program.cpus())
    });
    let decisions = daemon.status().daemon.decisions;
    eventually("they were looked at", || {
        daemon.status().daemon.decisions > decisions + 40
    });
    assert!(computing.program.cpus().is_disjoint(&other.program.cpus()));
}
