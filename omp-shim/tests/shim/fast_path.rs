//! What the shim adds to a program's way through its regions: nothing that the kernel or the allocator
//! would have to do.

use mapper_abi::TeamMode;

use crate::harness::{COMPILERS, Compiler, Managed, Program, turn};

/// Enough regions for the shim's tables, trials and looks at the page to come round many times.
const ROUNDS: &[&str] = &["3000"];

/// What `fast_path.c` counted.
#[derive(PartialEq, Eq, Debug)]
struct Asked {
    allocations: u64,
    calls: u64,
}

impl Asked {
    /// From what it printed.
    fn in_output(output: &str) -> Self {
        let words: Vec<&str> = output.split_whitespace().collect();
        let ["allocations", allocations, "calls", calls, "numbers", ..] = words[..] else {
            panic!("not what fast_path.c prints: {output:?}");
        };
        Self {
            allocations: allocations.parse().unwrap(),
            calls: calls.parse().unwrap(),
        }
    }
}

/// In every mode, with what each needs to be in force.
fn modes(program: &Program) -> Vec<(&'static str, Managed)> {
    let mut fixed = program.managed();
    fixed.page.publish(1, TeamMode::Fixed);
    vec![
        ("without a page", {
            let mut without = program.managed();
            without.command.env_remove("MAPPER_PAGE");
            without.command.env_remove("MAPPER_DEBUG");
            without
        }),
        ("fixed", fixed),
        ("follow", program.managed().following(1)),
        ("virtual", program.managed().virtually(1)),
    ]
}

#[test]
fn a_thread_alone_asks_the_kernel_and_the_allocator_for_nothing_more_than_without_the_shim() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "fast_path.c");
        let plain = program.run_plainly(ROUNDS, &[("OMP_NUM_THREADS", "1")]);
        let plain = Asked::in_output(plain.output());
        for schedule in ["as-written", "adaptive"] {
            for (mode, managed) in modes(&program) {
                let managed = managed.threads(1).args(ROUNDS);
                let mut managed = managed.env("MAPPER_SCHEDULE", schedule);
                let outcome = managed.run();
                let output = outcome.output();
                let asked = Asked::in_output(output);
                let case = format!("{compiler:?} {mode} {schedule}: {output}");
                assert_eq!(asked.calls, plain.calls, "{case}");
                if schedule == "adaptive" {
                    // The shim dispenses loops in the place of the runtime: libomp's allocates for each.
                    assert!(asked.allocations <= plain.allocations, "{case}");
                } else {
                    assert_eq!(asked.allocations, plain.allocations, "{case}");
                }
            }
        }
    }
}

#[test]
fn members_of_a_virtual_team_take_turns_without_the_kernel() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "fast_path.c");
    // Members whose carrier has no CPU for long are helped out, which asks the kernel: on a busy machine now and
    // then. What is on the fast path is in every run.
    const RUNS: usize = 12;
    for threads in [2, 8] {
        let run = || {
            let managed = program.managed().threads(threads).virtually(1);
            let mut managed = managed.args(ROUNDS);
            let outcome = managed.run();
            let report = managed.page.report();
            assert_eq!((report.teams_off, report.team_size), (None, 1));
            Asked::in_output(outcome.output())
        };
        let none = Asked {
            allocations: 0,
            calls: 0,
        };
        let mut asked = Vec::new();
        while asked.len() < RUNS && asked.last() != Some(&none) {
            asked.push(run());
        }
        assert_eq!(asked.last(), Some(&none), "{threads}: {asked:?}");
    }
}

#[test]
fn a_program_may_give_up_system_calls_after_its_first_region() {
    turn::alone();
    let program = Program::new(Compiler::Gcc, "filtered.c");
    let plain = program.run_plainly(&[], &[("OMP_NUM_THREADS", "4")]);
    assert_eq!(plain.output(), "right\n");
    let managed = || program.managed().threads(4);
    for mut managed in [managed(), managed().following(4), managed().following(2)] {
        assert_eq!(managed.run().output(), "right\n");
        assert!(managed.page.progress().iterations > 0);
    }
}
