//! Loops whose chunks grow give the results of a plain run.

use mapper_abi::TeamMode;

use crate::harness::{COMPILERS, Compiler, Program, turn};

const ADAPTIVE: (&str, &str) = ("MAPPER_SCHEDULE", "adaptive");

#[test]
fn results_and_counts_are_those_of_a_plain_run() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "constructs.c");
        for (threads, schedule) in [
            (1, "dynamic"),
            (2, "guided"),
            (4, "dynamic,4"),
            (3, "static"),
        ] {
            let count = threads.to_string();
            let environment = [
                ("OMP_NUM_THREADS", count.as_str()),
                ("OMP_SCHEDULE", schedule),
            ];
            let plain = program.run_plainly(&["20"], &environment);
            let mut managed = program
                .managed()
                .threads(threads)
                .env("OMP_SCHEDULE", schedule)
                .env(ADAPTIVE.0, ADAPTIVE.1)
                .args(&["20"]);
            managed.page.publish(2, TeamMode::Fixed);
            let context = format!("{compiler:?} {threads} {schedule}");
            assert_eq!(managed.run().output(), plain.output(), "{context}");
            let counted = managed.page.progress();
            let line = format!(
                "regions {} iterations {}",
                counted.regions, counted.iterations
            );
            assert_eq!(plain.output().lines().last().unwrap(), line, "{context}");
        }
    }
}

#[test]
fn last_values_are_those_of_the_last_iteration_and_places_are_used_again() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "lastprivate.c");
        for threads in [1, 2, 5] {
            let mut managed = program
                .managed()
                .threads(threads)
                .env(ADAPTIVE.0, ADAPTIVE.1);
            managed.page.publish(2, TeamMode::Fixed);
            assert_eq!(managed.run().output(), "fine\n", "{compiler:?} {threads}");
        }
    }
}

#[test]
fn loops_of_all_kinds_beside_them_are_right() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "short_loops.c");
        let plain = program.run_plainly(&[], &[("OMP_NUM_THREADS", "4")]);
        for cpus in [1, 2, 4] {
            let mut managed = program.managed().threads(4).env(ADAPTIVE.0, ADAPTIVE.1);
            managed.page.publish(cpus, TeamMode::Fixed);
            assert_eq!(
                managed.run().output(),
                plain.output(),
                "{compiler:?} {cpus}"
            );
        }
    }
}

#[test]
fn small_iterations_cost_less_than_half_to_dispense() {
    turn::alone();
    for compiler in COMPILERS {
        let program = Program::new(compiler, "dispensing.c");
        let run = |mut managed: crate::harness::Managed| {
            let outcome = managed.run();
            let (done, ns) = outcome.output().trim().split_once(' ').unwrap();
            assert_eq!(done, "4000000", "{compiler:?}");
            ns.parse::<u64>().unwrap()
        };
        // The least of several, in turn: others use the machine, too.
        let mut least_ns = [u64::MAX; 2];
        for _ in 0..5 {
            let times_ns = [
                run(program.managed().threads(2)),
                run(program.managed().threads(2).env(ADAPTIVE.0, ADAPTIVE.1)),
            ];
            least_ns = [0, 1].map(|which| least_ns[which].min(times_ns[which]));
        }
        let [as_written, adaptive] = least_ns;
        assert!(adaptive < as_written / 2, "{compiler:?} {least_ns:?}");
    }
}

#[test]
fn the_first_region_has_growing_chunks_already() {
    turn::alone();
    for compiler in COMPILERS {
        let program = Program::new(compiler, "only_region.c");
        for arguments in [&[][..], &["combined"]] {
            let mut managed = program
                .managed()
                .threads(2)
                .args(arguments)
                .env(ADAPTIVE.0, ADAPTIVE.1);
            managed.page.publish(2, TeamMode::Fixed);
            let changes: u32 = managed.run().output().trim().parse().unwrap();
            assert!(changes < 500, "{compiler:?} {arguments:?}: {changes}");
        }
    }
}

#[test]
fn virtual_teams_have_growing_chunks_too() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "only_region.c");
    for cpus in [1, 2] {
        for arguments in [&[][..], &["combined"]] {
            let managed = program.managed().threads(4).virtually(cpus).args(arguments);
            let mut managed = managed.env(ADAPTIVE.0, ADAPTIVE.1);
            let changes: u32 = managed.run().output().trim().parse().unwrap();
            let report = managed.page.report();
            assert_eq!((report.teams_off, report.team_size), (None, cpus));
            assert!(changes < 500, "{cpus} {arguments:?}: {changes}");
        }
    }
}

#[test]
fn virtual_teams_give_the_results_of_a_plain_run_in_growing_chunks() {
    for source in ["lastprivate.c", "short_loops.c", "constructs.c"] {
        let program = Program::new(Compiler::Gcc, source);
        for schedule in ["dynamic", "guided,3", "static"] {
            let environment = [("OMP_NUM_THREADS", "4"), ("OMP_SCHEDULE", schedule)];
            let plain = program.run_plainly(&[], &environment);
            for cpus in [1, 2, 4] {
                let managed = program.managed().threads(4).virtually(cpus);
                let managed = managed.env("OMP_SCHEDULE", schedule);
                let outcome = managed.env(ADAPTIVE.0, ADAPTIVE.1).run();
                assert_eq!(
                    outcome.output(),
                    plain.output(),
                    "{source} {schedule} {cpus}"
                );
            }
        }
    }
}

#[test]
fn it_stays_off_where_threads_may_leave_loops_unseen() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "lastprivate.c");
        let mut managed = program
            .managed()
            .threads(3)
            .env("OMP_CANCELLATION", "true")
            .env(ADAPTIVE.0, ADAPTIVE.1);
        assert_eq!(managed.run().output(), "fine\n", "{compiler:?}");
    }
}
