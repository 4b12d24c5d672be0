//! Threads without a CPU leave dispensed loops to the others, whatever the mode of teams.

use std::time::{Duration, Instant};

use mapper_abi::ReportFlags;

use crate::harness::{COMPILERS, Compiler, Dialogue, Program, monotonic_ns, turn};

/// Loops of libgomp by the names that the program has for them.
const LIBGOMP_LOOPS: [&str; 6] = [
    "dynamic",
    "monotonic",
    "runtime",
    "ull",
    "combined",
    "combined_runtime",
];

/// The program with four threads, whose iterations take so many microseconds, on so many CPUs.
fn looping(compiler: Compiler, kind: &str, iteration_us: u32, cpus: u32) -> Dialogue {
    let program = Program::new(compiler, "parking.c");
    let mut managed = program
        .managed()
        .threads(4)
        .env("OMP_SCHEDULE", "dynamic")
        .args(&[kind, &iteration_us.to_string()]);
    managed.page.publish(cpus, mapper_abi::TeamMode::Fixed);
    managed.start()
}

/// Waits until exactly these threads work.
fn until_work(program: &mut Dialogue, expected: &str, context: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let working = program.ask("who");
        if working == expected {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "threads {working} work instead of {expected} ({context})"
        );
    }
}

fn stop(mut program: Dialogue, context: &str) {
    assert_eq!(
        program.ask("stop"),
        "iterations 4000000 wrong 0",
        "{context}"
    );
    program.finish();
}

fn excess_threads_follow_the_allocation(compiler: Compiler, kinds: &[&str]) {
    for kind in kinds {
        let context = format!("{compiler:?} {kind}");
        let mut program = looping(compiler, kind, 20, 1);
        until_work(&mut program, "0", &context);
        for (cpus, working) in [(3, "0 1 2"), (2, "0 1"), (64, "0 1 2 3"), (1, "0")] {
            program.page.publish(cpus, mapper_abi::TeamMode::Fixed);
            until_work(&mut program, working, &context);
        }
        stop(program, &context);
    }
}

#[test]
fn excess_threads_park_and_come_back_in_libgomp() {
    excess_threads_follow_the_allocation(Compiler::Gcc, &LIBGOMP_LOOPS);
}

#[test]
fn excess_threads_park_and_come_back_in_libomp() {
    let kinds = [&LIBGOMP_LOOPS[..], &["int", "unsigned"]].concat();
    excess_threads_follow_the_allocation(Compiler::Clang, &kinds);
}

#[test]
fn a_parked_thread_for_which_there_is_a_cpu_again_runs_within_200_us() {
    turn::alone();
    const TURNS: usize = 8;
    for compiler in COMPILERS {
        let context = format!("{compiler:?}");
        let mut program = looping(compiler, "dynamic", 20, 2);
        let turn = |_| {
            until_work(&mut program, "0 1", &context);
            program.page.publish(1, mapper_abi::TeamMode::Fixed);
            until_work(&mut program, "0", &context);
            // The program takes only longer pauses for having been parked.
            std::thread::sleep(Duration::from_millis(40));
            let grown_ns = monotonic_ns();
            program.page.publish(2, mapper_abi::TeamMode::Fixed);
            program.resumed_ns(1, grown_ns) - grown_ns
        };
        let mut times_ns: Vec<u64> = (0..TURNS).map(turn).collect();
        times_ns.sort_unstable();
        // Other programs have the CPUs at times.
        assert!(times_ns[TURNS / 4] < 200_000, "{compiler:?}: {times_ns:?}");
        stop(program, &context);
    }
}

#[test]
fn nobody_parks_before_the_first_decision() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "parking.c");
        let mut dialogue = program.managed().threads(4).args(&["dynamic"]).start();
        until_work(&mut dialogue, "0 1 2 3", "no decision");
        stop(dialogue, "no decision");
    }
}

#[test]
fn ordered_loops_and_static_schedules_are_left_alone() {
    for compiler in COMPILERS {
        let mut program = looping(compiler, "ordered", 20, 1);
        until_work(&mut program, "0 1 2 3", "ordered");
        stop(program, "ordered");
        static_loops_are_left_alone(compiler);
    }
}

fn static_loops_are_left_alone(compiler: Compiler) {
    for kind in ["runtime", "combined_runtime"] {
        let source = Program::new(compiler, "parking.c");
        let mut managed = source
            .managed()
            .threads(4)
            .env("OMP_SCHEDULE", "static")
            .args(&[kind]);
        managed.page.publish(1, mapper_abi::TeamMode::Fixed);
        let mut program = managed.start();
        until_work(&mut program, "0 1 2 3", kind);
        stop(program, kind);
    }
}

#[test]
fn an_excess_thread_parks_within_a_chunk_of_the_daemons_word() {
    turn::alone();
    for compiler in COMPILERS {
        let mut program = looping(compiler, "dynamic", 2000, 4);
        until_work(&mut program, "0 1 2 3", "start");
        program.page.publish(1, mapper_abi::TeamMode::Fixed);
        let published_ns = crate::harness::monotonic_ns();
        until_work(&mut program, "0", "shrunk");
        for thread in 1..4 {
            // Counted in chunks: how long one takes on a busy machine is the machine's matter. One may have
            // been taken before the word and begun after it.
            let begun = program.ask(&format!("begun {thread} {published_ns}"));
            assert!(["0", "1"].contains(&&*begun), "thread {thread}: {begun}");
        }
        stop(program, "park");
    }
}

#[test]
fn iterations_that_wait_for_one_another_are_not_held_up_for_good() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "waiting_iterations.c");
        let mut managed = program.managed();
        managed.page.publish(1, mapper_abi::TeamMode::Fixed);
        // Ended as hanging if it takes minutes.
        let outcome = managed.run_while(|_| {});
        assert_eq!(outcome.output(), "done\n", "{compiler:?}");
        let flags = managed.page.report().flags;
        assert!(flags.contains(ReportFlags::PARKING_ENDED), "{flags:?}");
    }
}

#[test]
fn loops_shorter_than_the_way_to_sleep_are_right_and_no_wake_is_missed() {
    for compiler in COMPILERS {
        short_loops_are_right(compiler);
    }
}

fn short_loops_are_right(compiler: Compiler) {
    let program = Program::new(compiler, "short_loops.c");
    for threads in ["2", "4", "8"] {
        let plain = program.run_plainly(&[], &[("OMP_NUM_THREADS", threads)]);
        for cpus in [1, 2, 3] {
            let mut managed = program.managed().env("OMP_NUM_THREADS", threads);
            managed.page.publish(cpus, mapper_abi::TeamMode::Fixed);
            // One wake missed in each of the 3000 loops would take ten minutes, and be ended as hanging.
            let outcome = managed.run_while(|_| {});
            assert_eq!(
                outcome.output(),
                plain.output(),
                "{compiler:?} {threads} threads on {cpus}"
            );
        }
    }
}

/// What threads for which there is no CPU did in short loops, and in a long one after them; nothing when the machine
/// was so busy that no thread of the program got on for long, which ends parking.
fn done_by_excess_threads(spin_count: &str) -> Option<[u64; 2]> {
    let program = Program::new(Compiler::Gcc, "long_after_short.c");
    let managed = program.managed().threads(4);
    let mut managed = managed.env("GOMP_SPINCOUNT", spin_count);
    managed.page.publish(1, mapper_abi::TeamMode::Fixed);
    let outcome = managed.run();
    let flags = managed.page.report().flags;
    let words: Vec<&str> = outcome.output().split_whitespace().collect();
    let ["short", short, "long", long, "left", "out", "0"] = words[..] else {
        panic!("{words:?}");
    };
    let done = [short, long].map(|count| count.parse().unwrap());
    (!flags.contains(ReportFlags::PARKING_ENDED)).then_some(done)
}

/// The same of the first of some runs that tells it.
fn done_by_excess_threads_that_park(spin_count: &str) -> [u64; 2] {
    let text = (0..8).find_map(|_| done_by_excess_threads(spin_count));
    text.unwrap_or_else(|| panic!("parking was ended in each of eight runs"))
}

/// Of the iterations counted of either, some hundredths. Nobody sleeps for longer than 200 ms without a chunk, and on a
/// busy machine the loops take long.
const FEW: [u64; 2] = [320, 1_000];

#[test]
fn nobody_parks_in_short_loops_where_waiting_is_sleep_until_one_is_long() {
    turn::alone();
    let [short, long] = done_by_excess_threads_that_park("0");
    assert!(short > 0, "they parked in short loops");
    assert!(long < FEW[1], "{long} late iterations of a long loop");
}

#[test]
fn excess_threads_park_in_short_loops_too_where_waiting_is_spinning() {
    turn::alone();
    let [short, long] = done_by_excess_threads_that_park("300");
    assert!(short < FEW[0] && long < FEW[1], "{short} {long}");
}
