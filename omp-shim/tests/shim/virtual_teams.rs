//! Virtual teams: the program sees the team it expects, whatever the number of CPUs.

use std::path::Path;
use std::process::{Child, Command};

use mapper_abi::{Generation, TeamMode, TeamsOff};

use crate::harness::{
    Compiler, Managed, Outcome, Program, monotonic_ns, on_cpus, on_one_cpu, turn,
};

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

#[test]
fn ordered_regions_run_in_the_order_of_the_iterations() {
    let program = Program::new(Compiler::Gcc, "ordered.c");
    let plain = program.run_plainly(&[], &[("OMP_NUM_THREADS", "4")]);
    assert_eq!(plain.output(), "right\n");
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

#[test]
fn clauses_of_several_sizes_are_not_news_each_time() {
    let program = Program::new(Compiler::Gcc, "clauses_in_turn.c");
    let mut managed = program.managed().threads(4).virtually(3);
    assert_eq!(managed.run().output(), "600\n");
    // The last region had two threads.
    assert_eq!(managed.page.report().team_size, 3);
}

#[test]
fn regions_that_ask_for_more_than_the_usual_one_thread_are_virtual() {
    let program = Program::new(Compiler::Gcc, "alone_by_default.c");
    for cpus in [1, 2] {
        let mut managed = program.managed().threads(1).virtually(cpus);
        assert_eq!(managed.run().output(), "right\n", "on {cpus}");
        let report = managed.page.report();
        assert_eq!(report.teams_off, None);
        assert_eq!(report.team_size, cpus, "three threads, carried by so many");
    }
}

/// Whether two of three runs are as they should be, with what all came to; a third is made if it decides.
fn in_two_of_three<T>(
    run: impl Fn() -> T,
    is_right: impl Fn(&T) -> bool,
) -> Result<Vec<T>, Vec<T>> {
    let mut runs = vec![run(), run()];
    let right = |runs: &[T]| runs.iter().filter(|run| is_right(run)).count();
    if right(&runs) == 1 {
        runs.push(run());
    }
    if right(&runs) >= 2 {
        Ok(runs)
    } else {
        Err(runs)
    }
}

/// Runs `waiting_by_hand.c` on one CPU; returns why teams are not virtual at its end.
fn wait_by_hand(arguments: &[&str], threads: u32) -> Option<TeamsOff> {
    let program = Program::new(Compiler::Gcc, "waiting_by_hand.c");
    let mut managed = program
        .managed()
        .threads(threads)
        .virtually(1)
        .args(arguments);
    let outcome = managed.run_while(|_| {});
    let right = outcome.output().starts_with("right\n");
    assert!(right, "{arguments:?} {threads}");
    let report = managed.page.report();
    if arguments[0] != "yield" {
        assert!(report.preemptions > 0, "{arguments:?} hangs without help");
    }
    report.teams_off
}

#[test]
fn threads_that_wait_for_one_another_by_hand_are_helped_out() {
    turn::alone();
    for how in ["flag", "doze", "lock", "section", "condition"] {
        for threads in [2, 4] {
            let off = wait_by_hand(&[how, "2"], threads);
            assert_eq!(off, None, "{how}: two rounds are no reason to give up");
        }
    }
}

#[test]
fn a_program_that_waits_by_hand_again_and_again_is_sent_back_to_real_teams() {
    turn::alone();
    for how in ["flag", "section"] {
        for threads in [2, 4] {
            for form in [&[how, "40"][..], &[how, "40", "within one region"]] {
                // Who stops first after a wait is a matter of nanoseconds, or of who has a CPU; where it is
                // the carrier, it seems to have computed. On a busy machine that may be so in one run.
                let runs = in_two_of_three(
                    || wait_by_hand(form, threads),
                    |off| *off == Some(TeamsOff::Spun),
                );
                assert!(runs.is_ok(), "{form:?} {threads}: {runs:?}");
            }
        }
    }
}

#[test]
fn threads_that_hand_work_to_each_other_by_spinning_take_turns_of_microseconds_on_one_cpu() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "handing_over.c");
    let times = |outcome: &Outcome| numbers(outcome)[0];
    let turns = in_two_of_three(
        || {
            on_one_cpu(|| {
                let plainly = program.run_plainly(&["3"], &[("OMP_WAIT_POLICY", "passive")]);
                let mut managed = program.managed().threads(2).virtually(1).args(&["3"]);
                [times(&managed.run()), times(&plainly)]
            })
        },
        |[managed, plainly]| *managed > 4 * plainly,
    );
    assert!(turns.is_ok(), "{turns:?}");
}

/// Whether virtual teams were given up since threads waited for one another.
fn was_given_up(off: TeamsOff) -> bool {
    matches!(off, TeamsOff::Stalled | TeamsOff::Spun)
}

/// The numbers that a program printed.
fn numbers(outcome: &Outcome) -> Vec<u64> {
    let words = outcome.output().split_whitespace();
    words.map(|word| word.parse().unwrap()).collect()
}

#[test]
fn threads_that_took_turns_on_several_cpus_may_run_on_all_of_them_afterwards() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "handing_over.c");
    let turns = in_two_of_three(
        || {
            on_cpus(2, || {
                let plainly = program.run_plainly(&["3", "4"], &[("OMP_WAIT_POLICY", "passive")]);
                let mut managed = program.managed().threads(4).virtually(2).args(&["3", "4"]);
                [numbers(&managed.run()), numbers(&plainly)]
            })
        },
        |[managed, plainly]| managed[0] > 2 * plainly[0] && managed[1] == 0,
    );
    assert!(turns.is_ok(), "{turns:?}");
}

#[test]
fn members_that_wait_for_ever_others_are_right_after_virtual_teams_are_given_up() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "waiting_in_pairs.c");
    for seed in ["1", "3", "6"] {
        let mut managed = program.managed().threads(5).virtually(1);
        managed = managed.args(&["60", seed]);
        assert_eq!(managed.run().output(), "9150\n", "{seed}");
        let off = managed.page.report().teams_off;
        assert!(off.is_some_and(was_given_up), "{seed} {off:?}");
    }
}

#[test]
fn each_thread_that_begins_regions_has_its_own_settings() {
    let program = Program::new(Compiler::Gcc, "owners.c");
    for others in ["2", "8"] {
        let mut managed = program.managed().threads(4).virtually(1).args(&[others]);
        assert_eq!(managed.run().output(), "4 4\n", "{others}");
    }
}

#[test]
fn a_team_that_is_much_larger_than_the_first_is_virtual_too() {
    let program = Program::new(Compiler::Gcc, "growing_teams.c");
    let mut managed = program.managed().virtually(1);
    assert_eq!(managed.run().output(), "1\n");
    assert_eq!(managed.page.report().teams_off, None);
}

#[test]
fn critical_sections_exclude_each_other_while_the_page_is_still_being_found() {
    let flags = ["-fopenmp", "-rdynamic"];
    let program = Program::with_flags(Compiler::Gcc, "critical_first.c", &flags);
    let outcome = program.managed().virtually(2).run();
    assert_eq!(outcome.output(), "right\n");
}

#[test]
fn a_stack_size_that_no_thread_can_have_is_the_runtimes_to_refuse() {
    // So many bytes that what mapper adds for itself would begin from zero again.
    let size = "18446744073709551615B";
    let program = Program::new(Compiler::Gcc, "virtual.c");
    let managed = program.managed().threads(4).virtually(1);
    let outcome = managed.env("OMP_STACKSIZE", size).run();
    let plain = [("OMP_NUM_THREADS", "4"), ("OMP_STACKSIZE", size)];
    let plain = program.run_plainly(&[], &plain);
    assert!(plain.stderr.contains("Thread creation failed"), "{plain:?}");
    assert_eq!(outcome.stderr, plain.stderr);
    assert_eq!(outcome.status, plain.status);
}

#[test]
fn teams_too_large_to_be_virtual_are_reported() {
    let program = Program::new(Compiler::Gcc, "virtual.c");
    for (name, value, off) in [
        ("OMP_DYNAMIC", "true", TeamsOff::Dynamic),
        ("OMP_THREAD_LIMIT", "2", TeamsOff::TooLarge),
    ] {
        let mut managed = program.managed().threads(3).virtually(1).env(name, value);
        managed.run();
        assert_eq!(managed.page.report().teams_off, Some(off), "{name}");
    }
}

#[test]
fn a_program_that_waits_by_hand_is_not_stalled_by_trials_where_every_thread_has_a_cpu() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "waiting_by_hand.c");
    for how in ["flag", "section", "condition"] {
        let run = || {
            let mut managed = program.managed().threads(2).virtually(2);
            managed = managed.args(&[how, "20000"]);
            let outcome = managed.run_while(|_| {});
            assert!(outcome.output().starts_with("right\n"), "{how}");
            let report = managed.page.report();
            assert_eq!(report.teams_off, None, "{how}");
            report.preemptions
        };
        // Once for the first trial of one CPU, and once more for other programs on the machine. Those may
        // keep threads from their CPUs more often, but not in each of some runs.
        let mut helped = std::iter::repeat_with(run).take(4);
        assert!(helped.any(|times| times <= 2), "{how}");
    }
}

/// A process that keeps a CPU busy.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// For how many ns `waiting_by_hand.c` waited until it was through or had real teams.
fn waited_ns(program: &Program, form: &[&str]) -> u64 {
    let mut managed = program.managed().threads(4).virtually(1).args(form);
    let mut real_teams_ns = None;
    let outcome = managed.run_while(|page| {
        if page.report().teams_off.is_some_and(was_given_up) {
            real_teams_ns.get_or_insert_with(monotonic_ns);
        }
    });
    let lines: Vec<&str> = outcome.output().lines().collect();
    assert_eq!(lines[0], "right", "{form:?}");
    let [began_ns, ended_ns] = [2, 3].map(|line: usize| lines[line].parse::<u64>().unwrap());
    real_teams_ns.unwrap_or(ended_ns) - began_ns
}

#[test]
fn on_a_busy_machine_too_a_program_that_waits_by_hand_is_through_or_has_real_teams_within_a_second()
{
    turn::alone();
    let program = Program::new(Compiler::Gcc, "waiting_by_hand.c");
    let _busy = [Busy::start(), Busy::start()];
    for how in ["flag", "doze", "lock", "section", "condition"] {
        for form in [&[how, "20"][..], &[how, "20", "within one region"]] {
            // Other tests may keep the watcher and this thread from a CPU, but not most times.
            let times = in_two_of_three(
                || waited_ns(&program, form),
                |waited_ns| *waited_ns < 1_000_000_000,
            );
            assert!(times.is_ok(), "{form:?}: ns waited: {times:?}");
        }
    }
}

#[test]
fn a_program_that_waits_by_hand_is_right_while_the_allocation_flaps() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "waiting_by_hand.c");
    let _busy = [Busy::start(), Busy::start()];
    for how in ["flag", "lock", "section", "condition"] {
        let mut managed = program.managed().threads(4).virtually(1).args(&[how, "20"]);
        let mut cpus = 0;
        let outcome = managed.run_while(|page| {
            cpus = cpus % 3 + 1;
            page.publish(cpus, TeamMode::Virtual);
        });
        assert!(outcome.output().starts_with("right\n"), "{how}");
    }
}

#[test]
fn threads_that_yield_while_they_wait_need_no_help() {
    turn::alone();
    // Were they helped each time, they would have real teams before the tenth round.
    assert_eq!(wait_by_hand(&["yield", "200"], 4), None);
}

#[test]
fn a_program_that_computes_for_long_between_barriers_keeps_its_virtual_teams() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "coarse.c");
    let mut managed = program
        .managed()
        .threads(4)
        .virtually(1)
        .args(&["9", "20000"]);
    let outcome = on_one_cpu(|| managed.run_while(|_| {}));
    assert_eq!(outcome.output(), "right\n1\n");
    let report = managed.page.report();
    assert!(report.preemptions > 0, "it was taken to wait at first");
    assert_eq!(report.teams_off, None);
}

#[test]
fn results_are_right_while_the_allocation_flaps_under_virtual_teams() {
    for source in ["virtual.c", "legacy_forms.c"] {
        let program = Program::new(Compiler::Gcc, source);
        for threads in [2, 4] {
            let mut managed = program
                .managed()
                .threads(threads)
                .virtually(1)
                .args(&["10"]);
            let mut cpus = 0;
            let outcome = managed.run_while(|page| {
                cpus = cpus % 5 + 1;
                page.publish(cpus, TeamMode::Virtual);
            });
            assert_eq!(outcome.output(), "right\n", "{source} {threads}");
        }
    }
}

#[test]
fn exceptions_and_thread_local_objects_are_each_logical_threads_own() {
    let program = Program::new(Compiler::Gcc, "own_storage.cpp");
    let plain = program.run_plainly(&[], &[("OMP_NUM_THREADS", "4")]);
    for cpus in [1, 2, 3, 4] {
        let outcome = program.managed().threads(4).virtually(cpus).run();
        assert_eq!(outcome.output(), plain.output(), "{cpus}");
    }
    let program = Program::new(Compiler::Gcc, "exception.cpp");
    let outcome = program.managed().threads(3).virtually(2).run();
    assert_eq!(outcome.output(), "caught 33 passed 66\n");
}

#[test]
fn regions_and_iterations_are_counted_in_virtual_teams() {
    let program = Program::new(Compiler::Gcc, "constructs.c");
    for schedule in ["static", "dynamic,4", "guided"] {
        for cpus in [1, 2] {
            let plain =
                program.run_plainly(&[], &[("OMP_NUM_THREADS", "3"), ("OMP_SCHEDULE", schedule)]);
            let mut managed = program
                .managed()
                .threads(3)
                .virtually(cpus)
                .env("OMP_SCHEDULE", schedule);
            let outcome = managed.run();
            assert_eq!(outcome.output(), plain.output(), "{schedule} {cpus}");
            let counted = managed.page.progress();
            let line = format!(
                "regions {} iterations {}",
                counted.regions, counted.iterations
            );
            assert_eq!(outcome.output().lines().last().unwrap(), line, "{schedule}");
        }
    }
}

#[test]
fn a_program_with_doacross_loops_keeps_real_teams_and_the_page_says_why() {
    let program = Program::new(Compiler::Gcc, "doacross.c");
    let mut managed = program.managed().threads(3).virtually(1);
    assert_eq!(managed.run().output(), "20 iterations\n");
    let report = managed.page.report();
    assert_eq!(report.teams_off, Some(TeamsOff::Ordered));
    // And which allocation it has seen, and the team that it has.
    assert_eq!(
        (report.applied, report.team_size),
        (Generation::from_number(1), 3)
    );
}

#[test]
fn a_program_with_real_teams_says_of_each_allocation_that_it_has_seen_it() {
    // A list of sizes refuses virtual teams.
    for (compiler, sizes) in [(Compiler::Gcc, "2,1"), (Compiler::Clang, "2")] {
        let program = Program::new(compiler, "teams.c");
        let mut dialogue = program
            .managed()
            .virtually(2)
            .env("OMP_NUM_THREADS", sizes)
            .start();
        for cpus in [2, 1, 3] {
            let published = dialogue.page.publish(cpus, TeamMode::Virtual);
            // The first region after it may still find out that there are no virtual teams.
            assert_eq!(dialogue.team(""), 2, "{compiler:?}");
            dialogue.team("");
            let report = dialogue.page.report();
            assert_eq!(
                (report.applied, report.team_size),
                (published, 2),
                "{compiler:?}"
            );
        }
        dialogue.finish();
    }
}

#[test]
fn a_library_with_doacross_loops_that_is_loaded_late_ends_virtual_teams() {
    let program = Program::with_flags(Compiler::Gcc, "late.c", &["-fopenmp", "-ldl"]);
    let library = program.dir.path().join("libdoacross.so");
    let flags = ["-fopenmp", "-fPIC", "-shared", "-DLIBRARY"];
    Compiler::Gcc.compile("doacross.c", &library, &flags);
    let mut managed = program
        .managed()
        .threads(3)
        .virtually(1)
        .args(&[library.to_str().unwrap()]);
    assert_eq!(managed.run().output(), "3 20 3 20\n");
    assert_eq!(managed.page.report().teams_off, Some(TeamsOff::Ordered));
}

#[test]
fn a_library_that_another_thread_loads_while_regions_begin_ends_virtual_teams_and_breaks_none() {
    let flags = ["-fopenmp", "-ldl", "-pthread"];
    let program = Program::with_flags(Compiler::Gcc, "loads_meanwhile.c", &flags);
    let library = program.dir.path().join("libdoacross.so");
    let flags = ["-fopenmp", "-fPIC", "-shared", "-DLIBRARY"];
    Compiler::Gcc.compile("doacross.c", &library, &flags);
    // The first load that is seen ends virtual teams, so that each process is one trial. Where there is but
    // one load, many regions begin between its announcement and its end.
    for round in 0..20 {
        let loads_before = ["0", "40"][round as usize / 10];
        let mut managed = program
            .managed()
            .threads(3)
            .virtually(1 + round % 2)
            .args(&[library.to_str().unwrap(), loads_before]);
        assert_eq!(managed.run().output(), "right 20\n");
        assert_eq!(managed.page.report().teams_off, Some(TeamsOff::Ordered));
    }
}

/// Why `three_threads.c` compiled with these flags has no virtual teams.
fn refusal_of(flags: &[&str]) -> Option<TeamsOff> {
    let program = Program::with_flags(Compiler::Gcc, "three_threads.c", flags);
    // Some sanitizers need the addresses that a program has without randomisation.
    let mut managed = Managed::new(Path::new("/usr/bin/setarch"))
        .threads(3)
        .virtually(1)
        .env("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0")
        .env("LSAN_OPTIONS", "detect_leaks=0")
        .env("TSAN_OPTIONS", "report_bugs=0")
        .args(&["-R", program.path.to_str().unwrap()]);
    let outcome = managed.run();
    assert!(outcome.status.success(), "{flags:?} {outcome:?}");
    assert_eq!(outcome.stdout, "9\n", "{flags:?} {outcome:?}");
    managed.page.report().teams_off
}

#[test]
fn a_program_with_a_sanitizer_has_real_teams_however_that_is_linked() {
    // gcc 12's leak sanitizer does not start when it is linked statically, with or without mapper.
    for flags in [
        &["-fsanitize=address"][..],
        &["-fsanitize=address", "-static-libasan"],
        &["-fsanitize=thread"],
        &["-fsanitize=thread", "-static-libtsan"],
        &["-fsanitize=leak"],
        &["-fsanitize=undefined"],
        &["-fsanitize=undefined", "-static-libubsan"],
    ] {
        let off = refusal_of(&[&["-fopenmp"], flags].concat());
        assert_eq!(off, Some(TeamsOff::Sanitizer), "{flags:?}");
    }
}

#[test]
fn a_program_with_its_own_area_for_restartable_sequences_has_real_teams() {
    assert_eq!(refusal_of(&["-fopenmp", "-rdynamic"]), None);
    let off = refusal_of(&["-fopenmp", "-rdynamic", "-DOWN_RSEQ"]);
    assert_eq!(off, Some(TeamsOff::ThreadBound));
}

#[test]
fn threads_bound_by_the_environment_are_real_ones() {
    let program = Program::new(Compiler::Gcc, "virtual.c");
    for (name, value, off) in [
        ("OMP_PROC_BIND", "true", TeamsOff::Binding),
        ("OMP_PLACES", "cores", TeamsOff::Binding),
        ("OMP_NUM_THREADS", "3,2", TeamsOff::NestedSizes),
    ] {
        let mut managed = program.managed().threads(3).virtually(1).env(name, value);
        managed.run();
        assert_eq!(managed.page.report().teams_off, Some(off), "{name}");
    }
}

#[test]
fn children_forked_inside_and_between_virtual_regions_continue() {
    let program = Program::new(Compiler::Gcc, "fork_within.c");
    for cpus in [1, 2, 3] {
        let outcome = program.managed().threads(3).virtually(cpus).run();
        assert_eq!(outcome.output(), "right\n", "{cpus}");
    }
}

#[test]
fn a_program_launched_on_one_cpu_sees_as_many_as_it_may_ever_get() {
    let program = Program::new(Compiler::Gcc, "machine_view.c");
    for (mode, sees) in [(TeamMode::Virtual, "4 4 4\n"), (TeamMode::Fixed, "1 1 4\n")] {
        let mut managed = program.managed().threads(4).virtually(1);
        if mode == TeamMode::Fixed {
            managed = program.managed().threads(4);
        }
        managed.page.publish_of(4, 1, mode);
        let outcome = on_one_cpu(|| managed.run());
        assert_eq!(outcome.output(), sees, "{mode:?}");
    }
}
