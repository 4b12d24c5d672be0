//! Static loops of libomp are divided among the threads that have CPUs.

use mapper_abi::TeamMode;

use crate::harness::{Compiler, Program};

#[test]
fn loops_without_a_chunk_size_are_divided_among_as_many_threads_as_there_are_cpus() {
    let program = Program::new(Compiler::Clang, "static_loops.c");
    for threads in [1, 2, 4, 7] {
        for cpus in [1, 2, 3, 64] {
            let mut managed = program.managed().threads(threads);
            managed.page.publish(cpus, TeamMode::Fixed);
            let divided = threads.min(cpus);
            assert_eq!(
                managed.run().output(),
                format!("wrong 0\ndealt {threads} {divided}\n"),
                "{threads} threads on {cpus}"
            );
        }
    }
}

#[test]
fn nothing_is_divided_anew_before_the_first_decision_and_in_libgomp() {
    for compiler in [Compiler::Clang, Compiler::Gcc] {
        let program = Program::new(compiler, "static_loops.c");
        let mut managed = program.managed().threads(4);
        if compiler == Compiler::Gcc {
            managed.page.publish(1, TeamMode::Fixed);
        }
        assert_eq!(
            managed.run().output(),
            "wrong 0\ndealt 4 4\n",
            "{compiler:?}"
        );
    }
}

#[test]
fn every_iteration_runs_once_while_the_allocation_flaps() {
    let program = Program::new(Compiler::Clang, "static_loops.c");
    let mut managed = program.managed().threads(4).args(&["300"]);
    managed.page.publish(1, TeamMode::Fixed);
    let mut cpus = 0;
    let outcome = managed.run_while(|page| {
        cpus = cpus % 5 + 1;
        page.publish(cpus, TeamMode::Fixed);
    });
    assert!(outcome.output().starts_with("wrong 0\n"), "{outcome:?}");
}
