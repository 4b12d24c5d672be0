//! Progress reaches the daemon, from every thread and process.

use mapper_abi::{ReportFlags, Runtimes};

use crate::harness::{COMPILERS, Compiler, Program, turn};

#[test]
fn progress_shows_within_a_long_region() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "long_region.c");
        let mut dialogue = program.managed().start();
        // Two threads have a chunk of ten iterations each, and wait within it for a line.
        let mut heard = [dialogue.hear(), dialogue.hear()].len() as u64;
        for done in 0..10 {
            let progress = dialogue.page.progress();
            assert_eq!(
                (progress.regions, progress.iterations),
                (0, done * 10),
                "{compiler:?}"
            );
            dialogue.say("");
            if heard < 10 {
                assert!(dialogue.hear().starts_with("chunk "));
                heard += 1;
            } else if done == 8 {
                // The thread that finds no more chunks says nothing, but counts.
                while dialogue.page.progress().iterations < 90 {
                    std::thread::yield_now();
                }
            }
        }
        assert_eq!(dialogue.hear(), "done");
        let progress = dialogue.page.progress();
        assert_eq!(
            (progress.regions, progress.iterations),
            (1, 100),
            "{compiler:?}"
        );
        dialogue.finish();
    }
}

#[test]
fn a_forked_child_counts_beside_its_parent() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "fork.c");
        let mut managed = program.managed().threads(2);
        assert_eq!(
            managed.run().output(),
            "child 148500\nparent 99000\n",
            "{compiler:?}"
        );
        let progress = managed.page.progress();
        assert_eq!(
            (progress.regions, progress.iterations),
            (50, 5000),
            "{compiler:?}"
        );
    }
}

#[test]
fn a_child_forked_between_regions_has_a_slot_of_its_own() {
    // With one thread: libgomp can start no team in such a child.
    for compiler in COMPILERS {
        let program = Program::new(compiler, "fork.c");
        let mut dialogue = program.managed().threads(1).args(&["again"]).start();
        assert_eq!(dialogue.hear(), "child 148500");
        assert_eq!(dialogue.hear(), "both");
        let progress = dialogue.page.progress();
        assert_eq!(
            (progress.regions, progress.iterations),
            (60, 6000),
            "{compiler:?}"
        );
        // The first child ended without giving its slot back.
        assert_eq!(
            progress.threads, 3,
            "parent and child share a slot ({compiler:?})"
        );
        let page = dialogue.finish();
        assert_eq!(page.progress().regions, 70, "{compiler:?}");
    }
}

#[test]
fn slots_of_threads_that_ended_are_used_again() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "churn.c");
        let mut managed = program.managed();
        assert_eq!(managed.run().output(), "27000\n", "{compiler:?}");
        let progress = managed.page.progress();
        assert_eq!(
            (progress.regions, progress.iterations),
            (600, 6000),
            "{compiler:?}"
        );
        let exhausted = managed
            .page
            .report()
            .flags
            .contains(ReportFlags::SLOTS_EXHAUSTED);
        assert!(!exhausted, "{compiler:?}");
    }
}

#[test]
fn slots_of_processes_that_ended_without_a_word_are_used_again() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "children.c");
        let mut managed = program.managed();
        assert_eq!(managed.run().output(), "fine\n", "{compiler:?}");
        assert_eq!(managed.page.progress().regions, 600, "{compiler:?}");
        let exhausted = managed
            .page
            .report()
            .flags
            .contains(ReportFlags::SLOTS_EXHAUSTED);
        assert!(!exhausted, "{compiler:?}");
    }
}

#[test]
fn an_ended_process_leaves_its_slots_and_its_totals() {
    let program = Program::new(Compiler::Gcc, "constructs.c");
    let mut managed = program.managed().threads(2);
    managed.run().output();
    let after_one = managed.page.progress();
    assert_eq!(after_one.threads, 0);
    managed.run().output();
    let after_two = managed.page.progress();
    assert_eq!(after_two.regions, 2 * after_one.regions);
    assert_eq!(after_two.iterations, 2 * after_one.iterations);
}

#[test]
fn a_program_that_another_one_has_become_starts_clean() {
    let first = Program::new(Compiler::Gcc, "becomes.c");
    let second = Program::new(Compiler::Gcc, "patience.c");
    let path = second.path.to_str().unwrap();
    let mut dialogue = first.managed().virtually(2).args(&[path]).start();
    dialogue.ask("go");
    // The first one had no virtual teams, and never gave a slot back.
    assert_eq!(dialogue.page.report().teams_off, None);
    assert_eq!(dialogue.page.progress().threads, 2);
    dialogue.finish();
}

#[test]
fn the_daemon_learns_which_runtime_is_in_use_and_how_it_waits() {
    for (compiler, runtime) in [
        (Compiler::Gcc, Runtimes::LIBGOMP),
        (Compiler::Clang, Runtimes::LIBOMP),
    ] {
        let program = Program::new(compiler, "constructs.c");
        let mut managed = program.managed().threads(3);
        managed.run().output();
        let report = managed.page.report();
        assert!(report.attached());
        assert_eq!((report.runtimes, report.max_threads), (runtime, 3));
        assert!(
            !report.flags.contains(ReportFlags::WAITS_SPIN),
            "{compiler:?}"
        );
        let mut managed = program.managed().threads(2);
        managed
            .command
            .env_remove("GOMP_SPINCOUNT")
            .env_remove("KMP_BLOCKTIME");
        managed.run().output();
        assert!(
            managed
                .page
                .report()
                .flags
                .contains(ReportFlags::WAITS_SPIN),
            "{compiler:?}"
        );
    }
}

/// How long the threads of `waiting.c` should wait, by kind: most of 100 ms, or hardly at all.
const WAITING_MS: [(&str, std::ops::Range<f64>); 6] = [
    ("barrier", 90.0..1e9),
    ("loop", 90.0..1e9),
    ("region", 90.0..1e9),
    ("reduction", 90.0..1e9),
    ("copy", 90.0..1e9),
    ("balanced", 0.0..50.0),
];

/// The same where each of six threads has a thread of the system.
const WAITING_IN_A_TREE_MS: (&str, std::ops::Range<f64>) = ("tree", 90.0..1e9);

/// The same of `waiting_beside_tasks.c`.
const WAITING_BESIDE_TASKS_MS: [(&str, std::ops::Range<f64>); 11] = [
    // Of 200 ms of work.
    ("tasks", 0.0..50.0),
    ("dependent", 0.0..50.0),
    ("taskloop", 0.0..50.0),
    ("ull", 0.0..50.0),
    ("end", 0.0..50.0),
    ("nested", 0.0..50.0),
    // And waiting without a task at hand.
    ("then", 90.0..150.0),
    ("again", 81.0..130.0),
    ("barrier", 90.0..1e9),
    ("loop", 90.0..1e9),
    ("sections", 80.0..1e9),
];

/// Milliseconds that the threads of a program waited.
fn waited_ms(program: &Program, kind: &str) -> f64 {
    let mut managed = program.managed().args(&[kind]);
    managed.run().output();
    assert!(
        managed
            .page
            .report()
            .flags
            .contains(ReportFlags::WAIT_MEASURED)
    );
    managed.page.progress().wait_ns as f64 * 1e-6
}

/// Whether a measurement is as it should be in one of ten runs. A thread that other programs take the CPU from
/// is waited for, and itself comes late to where it would wait: one run has to be undisturbed.
pub(crate) fn once_undisturbed(
    run: impl FnMut() -> f64,
    expected: std::ops::Range<f64>,
    what: &str,
) {
    let mut found = Vec::new();
    let is_expected = std::iter::repeat_with(run).take(10).any(|value| {
        found.push(value);
        expected.contains(&value)
    });
    assert!(is_expected, "{what}: {found:?} are not in {expected:?}");
}

#[test]
fn waiting_at_barriers_is_distinguished_from_work() {
    turn::alone();
    for compiler in COMPILERS {
        let program = Program::new(compiler, "waiting.c");
        for (kind, expected_ms) in WAITING_MS.into_iter().chain([WAITING_IN_A_TREE_MS]) {
            let what = format!("{compiler:?} {kind}");
            once_undisturbed(|| waited_ms(&program, kind), expected_ms, &what);
        }
    }
}

#[test]
fn waits_of_gccs_code_on_libomp_are_counted_once() {
    turn::alone();
    // Its functions for gcc's code call those for clang's, which the shim comes before as well.
    let on_libomp = ["-fopenmp", "-Wl,--no-as-needed", "-l:libomp.so.5"];
    let program = Program::with_flags(Compiler::Gcc, "waiting.c", &on_libomp);
    let preload = format!("{}:libomp.so.5", crate::harness::shim().display());
    for kind in ["barrier", "loop", "region", "reduction", "copy"] {
        let waited_ms = || {
            let mut managed = program.managed().args(&[kind]);
            managed.command.env("LD_PRELOAD", &preload);
            managed.run().output();
            managed.page.progress().wait_ns as f64 * 1e-6
        };
        once_undisturbed(waited_ms, 90.0..150.0, kind);
    }
}

#[test]
fn what_is_waited_in_cancelled_nested_and_teams_regions_is_counted_once_at_most() {
    turn::alone();
    for compiler in COMPILERS {
        let flags = ["-fopenmp", "-DNOT_VIRTUAL"];
        let program = Program::with_flags(compiler, "waiting.c", &flags);
        for (kind, expected_ms) in [
            // libomp's barrier that can be cancelled calls its other one.
            ("cancelled", 90.0..150.0),
            // Waits of inner teams are not measured, nor those of teams that a team of clang's begins.
            ("nested", 80.0..150.0),
            ("teams", 0.0..150.0),
        ] {
            let waited_ms = || {
                let managed = program.managed().args(&[kind]);
                let mut managed = managed.env("OMP_CANCELLATION", "true");
                managed.run().output();
                managed.page.progress().wait_ns as f64 * 1e-6
            };
            once_undisturbed(waited_ms, expected_ms, &format!("{compiler:?} {kind}"));
        }
    }
}

#[test]
fn tasks_that_threads_carry_out_at_barriers_are_no_waiting() {
    turn::alone();
    for compiler in COMPILERS {
        let program = Program::new(compiler, "waiting_beside_tasks.c");
        for (kind, expected_ms) in WAITING_BESIDE_TASKS_MS {
            let what = format!("{compiler:?} {kind}");
            once_undisturbed(|| waited_ms(&program, kind), expected_ms, &what);
        }
    }
}

#[test]
fn short_waits_are_measured_by_sample() {
    turn::alone();
    for compiler in COMPILERS {
        let program = Program::new(compiler, "waiting.c");
        let share = || {
            let mut managed = program.managed().args(&["many"]);
            let took_ns: f64 = managed.run().output().trim().parse().unwrap();
            let waited_ns = managed.page.progress().wait_ns as f64;
            // Two threads that did nothing but wait.
            let share = waited_ns / (2.0 * took_ns);
            assert!(share < 1.3, "{compiler:?}: {share}");
            share
        };
        // Where others take the CPUs from a thread, some of the waits for it are long, and of those that
        // fall among the skipped ones only the least is counted: one run of several has to be undisturbed.
        let mut shares = std::iter::repeat_with(share).take(30);
        assert!(shares.any(|share| share > 0.3), "{compiler:?}");
    }
}

#[test]
fn the_time_in_regions_is_known_whether_they_are_long_or_short_and_repeat_in_pairs() {
    turn::alone();
    for compiler in COMPILERS {
        let program = Program::new(compiler, "serial_parts.c");
        // Regions of 20 and 60 microseconds, of which few are measured, and of 10 and 30 milliseconds.
        for (rounds, unit_ns) in [("3000", "20000"), ("3", "10000000")] {
            let ratio = || {
                let mut managed = program.managed().threads(2).args(&[rounds, unit_ns]);
                let output = managed.run().output().to_owned();
                let parallel_ns = output.split(' ').next().unwrap();
                let parallel_ns: f64 = parallel_ns.parse().unwrap();
                managed.page.progress().parallel_ns as f64 / parallel_ns
            };
            once_undisturbed(ratio, 0.9..1.1, &format!("{compiler:?} {unit_ns}"));
        }
    }
}

#[test]
fn a_region_that_runs_counts_as_far_as_it_has_come() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "long_region.c");
        let mut dialogue = program.managed().start();
        dialogue.hear();
        let before_ns = dialogue.page.progress().parallel_ns;
        std::thread::sleep(std::time::Duration::from_millis(50));
        let gained_ns = dialogue.page.progress().parallel_ns - before_ns;
        assert!(gained_ns >= 50_000_000, "{compiler:?}: {gained_ns}");
        for _ in 0..10 {
            dialogue.say("");
        }
        while dialogue.hear() != "done" {}
        let ended_ns = dialogue.page.progress().parallel_ns;
        assert_eq!(dialogue.page.progress().parallel_ns, ended_ns);
        dialogue.finish();
    }
}

/// How long `waiting.c` took in a virtual team of two on so many CPUs.
struct VirtualRun {
    took_ms: f64,
    waited_ms: f64,
}

fn run_virtually(kind: &str, cpus: u32, storage: &str) -> VirtualRun {
    let program = Program::new(Compiler::Gcc, "waiting.c");
    let managed = program.managed().args(&[kind]).threads(2).virtually(cpus);
    let mut managed = managed.env("MAPPER_THREAD_STORAGE", storage);
    let took_ns: f64 = managed.run().output().trim().parse().unwrap();
    VirtualRun {
        took_ms: took_ns * 1e-6,
        waited_ms: managed.page.progress().wait_ns as f64 * 1e-6,
    }
}

#[test]
fn waiting_carriers_are_distinguished_from_working_ones() {
    turn::alone();
    for (kind, expected_ms) in WAITING_MS {
        once_undisturbed(
            || run_virtually(kind, 2, "any").waited_ms,
            expected_ms,
            kind,
        );
    }
}

#[test]
fn a_thread_that_carries_nothing_counts_as_waiting() {
    turn::alone();
    // The thread whose storage is shared is one more, in the daemon's count of threads, too.
    for (storage, shares) in [("own", 0.8..1.1), ("any", 1.8..2.1)] {
        let share = || {
            let run = run_virtually("series", 1, storage);
            run.waited_ms / run.took_ms
        };
        once_undisturbed(share, shares, "share of the time");
    }
}

#[test]
fn a_region_has_the_same_identity_in_every_run() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "constructs.c");
        let identity = || {
            let mut managed = program.managed();
            managed.run().output();
            managed.page.progress().region
        };
        let (first, second) = (identity(), identity());
        assert_eq!(first, second, "{compiler:?}");
        assert!(first > u64::from(u32::MAX), "it is no address: {first:#x}");
    }
}
