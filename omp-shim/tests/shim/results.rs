//! Programs compute what they compute without the shim.

use mapper_abi::{Runtimes, TeamMode};

use crate::harness::{COMPILERS, Compiler, Program};

const SCHEDULES: [&str; 4] = ["static", "static,3", "dynamic,4", "guided"];

#[test]
fn results_are_those_of_a_plain_run_in_every_mode_and_size() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "constructs.c");
        for threads in [1, 2, 4] {
            let count = threads.to_string();
            let environment = [
                ("OMP_NUM_THREADS", count.as_str()),
                ("OMP_SCHEDULE", "dynamic,4"),
            ];
            let plain = program.run_plainly(&[], &environment);
            for cpus in [0, 1, 2, 3] {
                let mut managed = program.managed().threads(threads);
                if cpus > 0 {
                    managed = managed.following(cpus);
                }
                let outcome = managed.env("OMP_SCHEDULE", "dynamic,4").run();
                assert_eq!(
                    outcome.output(),
                    plain.output(),
                    "{compiler:?} {threads} {cpus}"
                );
            }
        }
    }
}

#[test]
fn regions_and_iterations_are_counted_exactly() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "constructs.c");
        for schedule in SCHEDULES {
            let mut managed = program.managed().threads(3).env("OMP_SCHEDULE", schedule);
            let outcome = managed.run();
            let counted = managed.page.progress();
            let line = format!(
                "regions {} iterations {}",
                counted.regions, counted.iterations
            );
            let expected = outcome.output().lines().last().unwrap().to_owned();
            assert_eq!(line, expected, "{compiler:?} {schedule}");
            assert!(counted.last_progress_ns > 0 && counted.region != 0);
        }
    }
}

#[test]
fn results_are_right_while_the_allocation_flaps() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "constructs.c");
        let plain = program.run_plainly(&["300"], &[("OMP_NUM_THREADS", "4")]);
        let mut managed = program.managed().threads(4).following(2).args(&["300"]);
        let mut cpus = 0;
        let outcome = managed.run_while(|page| {
            cpus = cpus % 5 + 1;
            page.allocate(cpus);
        });
        assert_eq!(outcome.output(), plain.output(), "{compiler:?}");
        let counted = managed.page.progress();
        let line = format!(
            "regions {} iterations {}",
            counted.regions, counted.iterations
        );
        assert_eq!(plain.output().lines().last().unwrap(), line, "{compiler:?}");
    }
}

#[test]
fn programs_of_gcc_may_run_on_libomp() {
    // libomp offers gcc's interface too, and calls its own functions behind it.
    let program = Program::with_flags(
        Compiler::Gcc,
        "constructs.c",
        &["-fopenmp", "-Wl,--no-as-needed", "-l:libomp.so.5"],
    );
    let with_libomp_first = |arguments: &[&str]| {
        let mut managed = program.managed().threads(3).args(arguments);
        let preload = format!("{}:libomp.so.5", crate::harness::shim().display());
        managed.command.env("LD_PRELOAD", preload);
        managed
    };
    let plain = program.run_plainly(&[], &[("OMP_NUM_THREADS", "3")]);
    let mut managed = with_libomp_first(&[]);
    let outcome = managed.run();
    let (results, counts) = outcome.output().split_once('\n').unwrap();
    assert_eq!(plain.output().lines().next().unwrap(), results);
    let counted = managed.page.progress();
    let line = format!(
        "regions {} iterations {}\n",
        counted.regions, counted.iterations
    );
    assert_eq!(counts, line);
}

#[test]
fn regions_of_old_gcc_are_counted_and_followed() {
    let program = Program::new(Compiler::Gcc, "legacy.c");
    let plain = program.run_plainly(&[], &[("OMP_NUM_THREADS", "2")]);
    let mut managed = program.managed().threads(2).following(1);
    assert_eq!(managed.run().output(), plain.output());
    let progress = managed.page.progress();
    assert_eq!((progress.regions, progress.iterations), (10, 500));
    assert_eq!(managed.page.report().runtimes, Runtimes::LIBGOMP);
}

#[test]
fn exceptions_within_regions_are_caught_where_they_should_be() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "exception.cpp");
        let outcome = program.managed().threads(3).following(2).run();
        assert_eq!(outcome.output(), "caught 33 passed 66\n", "{compiler:?}");
    }
}

#[test]
fn an_unwinder_finds_its_way_through_the_shim() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "backtrace.c");
        let outcome = program.managed().run();
        assert_eq!(
            outcome.output(),
            "deeper to the start through the shim\n",
            "{compiler:?}"
        );
    }
}

#[test]
fn all_forms_of_old_and_new_gcc_are_right_in_every_mode() {
    let program = Program::new(Compiler::Gcc, "legacy_forms.c");
    let plain = program.run_plainly(&["5"], &[("OMP_NUM_THREADS", "4")]);
    assert_eq!(plain.output(), "right\n");
    for cpus in [1, 2, 3, 4] {
        let mut managed = program.managed().threads(4).virtually(cpus).args(&["5"]);
        assert_eq!(managed.run().output(), "right\n", "virtual {cpus}");
        let report = managed.page.report();
        assert_eq!((report.teams_off, report.team_size), (None, cpus));
        let followed = program.managed().threads(4).following(cpus).args(&["5"]);
        let outcome = followed.env("SIZES_VARY", "1").run();
        assert_eq!(outcome.output(), "right\n", "follow {cpus}");
        for schedule in ["", "adaptive"] {
            let fixed = program.managed().threads(4).args(&["5"]);
            let mut fixed = fixed.env("MAPPER_SCHEDULE", schedule);
            fixed.page.publish(cpus, TeamMode::Fixed);
            assert_eq!(fixed.run().output(), "right\n", "fixed {cpus} {schedule}");
        }
    }
}

#[test]
fn what_a_fortran_program_asks_and_sets_is_answered_as_without_the_shim() {
    for flags in [
        &["-fopenmp"][..],
        &["-fopenmp", "-fdefault-integer-8"], // with names of their own for 8-byte arguments
    ] {
        let program = Program::with_flags(Compiler::Gcc, "queries.f90", flags);
        assert_eq!(program.run_plainly(&[], &[]).output(), "0\n", "{flags:?}");
        for cpus in [1, 2, 3, 4] {
            let mut managed = program.managed().virtually(cpus);
            assert_eq!(managed.run().output(), "0\n", "virtual {cpus} {flags:?}");
            let report = managed.page.report();
            assert_eq!((report.teams_off, report.team_size), (None, cpus));
            // It has asked for its size by Fortran's functions: that is exact.
            let followed = program.managed().following(cpus).run();
            assert_eq!(followed.output(), "0\n", "follow {cpus} {flags:?}");
            let mut fixed = program.managed();
            fixed.page.publish(cpus, TeamMode::Fixed);
            assert_eq!(fixed.run().output(), "0\n", "fixed {cpus} {flags:?}");
        }
    }
}

#[test]
fn the_child_of_a_worker_of_a_region_has_no_team_record() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "fork_of_worker.c");
        let plain = program.run_plainly(&[], &[]);
        assert_eq!(plain.output(), "0\n", "{compiler:?}");
        for schedule in ["", "adaptive"] {
            let mut fixed = program.managed().env("MAPPER_SCHEDULE", schedule);
            fixed.page.publish(1, TeamMode::Fixed);
            assert_eq!(fixed.run().output(), "0\n", "{compiler:?} {schedule}");
        }
    }
}

#[test]
fn tasks_for_devices_run_once_each_on_the_host() {
    let program = Program::new(Compiler::Clang, "target_task.c");
    let plain = program.run_plainly(&[], &[("OMP_NUM_THREADS", "3")]);
    assert_eq!(plain.output(), "right\n");
    for cpus in [1, 2, 3] {
        // Teams of one thread fail an assertion of libomp 14's, without mapper as well.
        if cpus > 1 {
            let followed = program.managed().threads(3).following(cpus).run();
            assert_eq!(followed.output(), "right\n", "follow {cpus}");
        }
        let mut fixed = program.managed().threads(3);
        fixed.page.publish(cpus, TeamMode::Fixed);
        assert_eq!(fixed.run().output(), "right\n", "fixed {cpus}");
    }
}
