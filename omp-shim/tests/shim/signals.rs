//! What the C library does to threads by signals of its own, while members of a virtual team take turns.

use std::os::unix::process::ExitStatusExt as _;

use crate::harness::{Compiler, Program, turn};

#[test]
fn users_and_groups_can_be_changed_by_members_and_beside_them() {
    turn::alone();
    let program = Program::with_flags(Compiler::Gcc, "identity.c", &["-fopenmp", "-pthread"]);
    for who in ["0", "1", "3", "beside"] {
        let plain = program.run_plainly(&[who], &[("OMP_NUM_THREADS", "4")]);
        assert_eq!(plain.output(), "right\n", "{who}");
        for (threads, cpus) in [(4, 1), (4, 2), (4, 4), (2, 1)] {
            let managed = program.managed().threads(threads).virtually(cpus);
            let mut managed = managed.args(&[who]);
            let outcome = managed.run_while(|_| {});
            assert_eq!(outcome.output(), "right\n", "{who}: {threads} on {cpus}");
            let report = managed.page.report();
            assert_eq!(report.teams_off, None, "{who}: {threads} on {cpus}");
        }
    }
}

#[test]
fn signals_that_members_send_are_handled_as_often_as_they_were_sent() {
    turn::alone();
    let program = Program::with_flags(Compiler::Gcc, "signals.c", &["-fopenmp", "-pthread"]);
    for what in [
        "raise",
        "kill self",
        "kill others",
        "masks",
        "timer",
        "cancel",
    ] {
        let plain = program.run_plainly(&[what], &[("OMP_NUM_THREADS", "4")]);
        assert_eq!(plain.output(), "right\n", "{what}");
        for (threads, cpus) in [(4, 1), (4, 2), (2, 1)] {
            let managed = program.managed().threads(threads).virtually(cpus);
            let mut managed = managed.args(&[what]);
            let outcome = managed.run_while(|_| {});
            assert_eq!(outcome.output(), "right\n", "{what}: {threads} on {cpus}");
            let report = managed.page.report();
            assert_eq!(report.teams_off, None, "{what}: {threads} on {cpus}");
        }
    }
}

#[test]
fn a_member_that_aborts_ends_the_program_as_any_thread_does() {
    let program = Program::with_flags(Compiler::Gcc, "signals.c", &["-fopenmp", "-pthread"]);
    for cpus in [1, 2] {
        let mut managed = program
            .managed()
            .threads(4)
            .virtually(cpus)
            .args(&["abort"]);
        let outcome = managed.run_while(|_| {});
        assert_eq!(outcome.status.signal(), Some(libc::SIGABRT), "{cpus}");
    }
}
