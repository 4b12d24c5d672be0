//! Tasks of virtual teams.

use std::time::Instant;

use mapper_abi::TeamMode;

use crate::harness::{Compiler, Program, turn};

#[test]
fn tasks_of_every_kind_are_right_whatever_the_number_of_carriers() {
    turn::beside_others();
    let program = Program::new(Compiler::Gcc, "task_storm.c");
    for threads in [1, 2, 3, 8] {
        for cpus in [1, 2, 5] {
            let managed = program.managed().threads(threads).virtually(cpus);
            let mut managed = managed.args(&["20"]);
            assert_eq!(managed.run().output(), "right\n", "{threads} on {cpus}");
            let report = managed.page.report();
            assert_eq!(report.teams_off, None, "{threads} on {cpus}");
        }
    }
}

#[test]
fn tasks_are_right_while_the_allocation_flaps() {
    let program = Program::new(Compiler::Gcc, "task_storm.c");
    for threads in [2, 5] {
        let managed = program.managed().threads(threads).virtually(1);
        let mut cpus = 0;
        let outcome = managed.args(&["150"]).run_while(|page| {
            cpus = cpus % 5 + 1;
            page.publish(cpus, TeamMode::Virtual);
        });
        assert_eq!(outcome.output(), "right\n", "{threads}");
    }
}

#[test]
fn tasks_that_wait_for_one_another_are_executed_by_as_many_threads_as_the_team_has() {
    let program = Program::new(Compiler::Gcc, "tasks_that_wait.c");
    for threads in [2, 4, 7] {
        for cpus in [1, 2, 3] {
            for arguments in [&[][..], &["yield"]] {
                let managed = program.managed().threads(threads).virtually(cpus);
                let outcome = managed.args(arguments).run();
                assert_eq!(
                    outcome.output(),
                    "right\n",
                    "{threads} on {cpus} {arguments:?}"
                );
            }
        }
    }
}

#[test]
fn tasks_may_fork() {
    let program = Program::new(Compiler::Gcc, "tasks_that_fork.c");
    for threads in [2, 3] {
        for cpus in [1, 2] {
            let mut managed = program.managed().threads(threads).virtually(cpus);
            assert_eq!(managed.run().output(), "right\n", "{threads} on {cpus}");
        }
    }
}

#[test]
fn all_carriers_execute_tasks_that_one_member_makes() {
    turn::alone();
    let flags = ["-fopenmp", "-DTASKS_ALONE"];
    let program = Program::with_flags(Compiler::Gcc, "waiting_beside_tasks.c", &flags);
    // 20 tasks that sleep for 10 ms each, in teams of two.
    for (kind, cpus, range_ms) in [
        ("tasks", 2, 100..170),
        ("tasks", 1, 200..270),
        ("dependent", 2, 100..170),
        ("taskloop", 2, 100..170),
        ("ull", 2, 100..170),
        ("end", 2, 100..170),
    ] {
        let took_ms = || {
            let mut managed = program.managed().virtually(cpus).args(&[kind]);
            let begun = Instant::now();
            managed.run().output();
            begun.elapsed().as_millis()
        };
        let took: Vec<u128> = std::iter::repeat_with(took_ms).take(3).collect();
        let is_right = took.iter().any(|took_ms| range_ms.contains(took_ms));
        assert!(is_right, "{kind} on {cpus}: {took:?} ms");
    }
}

#[test]
fn a_library_with_tasks_that_is_loaded_late_keeps_virtual_teams() {
    let program = Program::with_flags(Compiler::Gcc, "late.c", &["-fopenmp", "-ldl"]);
    let library = program.dir.path().join("libtasks.so");
    let flags = ["-fopenmp", "-fPIC", "-shared", "-DLIBRARY"];
    Compiler::Gcc.compile("tasks.c", &library, &flags);
    let managed = program.managed().threads(3).virtually(1);
    let mut managed = managed.args(&[library.to_str().unwrap()]);
    assert_eq!(managed.run().output(), "3 20 3 20\n");
    let report = managed.page.report();
    assert_eq!((report.teams_off, report.team_size), (None, 1));
}

#[test]
fn tasks_of_a_library_that_is_loaded_within_a_region_are_executed() {
    let program = Program::with_flags(Compiler::Gcc, "late_within.c", &["-fopenmp", "-ldl"]);
    let library = program.dir.path().join("libtasks.so");
    let flags = ["-fopenmp", "-fPIC", "-shared", "-DTASKS"];
    Compiler::Gcc.compile("unserved.c", &library, &flags);
    for cpus in [1, 2] {
        let managed = program.managed().threads(3).virtually(cpus);
        let outcome = managed.args(&[library.to_str().unwrap()]).run();
        assert_eq!(outcome.output(), "435\n", "{cpus}");
    }
}

#[test]
fn tasks_that_take_long_are_not_taken_for_waiting() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "long_tasks.c");
    for (kind, cpus) in [
        ("barrier", 1),
        ("taskwait", 1),
        ("loop", 1),
        ("every", 1),
        ("every", 2),
    ] {
        let managed = program.managed().threads(4).virtually(cpus);
        let mut managed = managed.args(&[kind, "3"]);
        assert_eq!(managed.run().output(), "120\n", "{kind} on {cpus}");
        let report = managed.page.report();
        assert_eq!(report.teams_off, None, "{kind} on {cpus}");
        if kind != "every" {
            assert_eq!(report.preemptions, 0, "{kind} on {cpus}");
        }
    }
}
