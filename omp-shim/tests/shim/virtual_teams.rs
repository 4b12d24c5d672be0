//! Virtual teams: the program sees the team it expects, whatever the number of CPUs.

use crate::harness::{Compiler, Program};

#[test]
fn every_construct_is_right_whatever_the_number_of_carriers() {
    let program = Program::new(Compiler::Gcc, "virtual.c");
    for threads in [2, 3, 8] {
        for cpus in [1, 2, 3, 5, 8] {
            let mut managed = program.managed().threads(threads).virtually(cpus);
            let outcome = managed.run();
            assert_eq!(outcome.output(), "right\n", "{threads} on {cpus}");
            let report = managed.page.report();
            assert_eq!(report.teams_off, None);
            assert!(report.team_size <= cpus, "{}", report.team_size);
        }
    }
}
