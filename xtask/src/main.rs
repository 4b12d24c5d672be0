//! `cargo xtask`: every developer task of mapper, one file a task. Those of the laboratory are
//! programs of their own in `lab/` and `tests/`, which [`laboratory`] starts. A fresh machine needs nothing but a
//! Rust toolchain: tasks install the system packages that they need.

use clap::{Parser, Subcommand};

mod environment;
mod laboratory;
mod python;
mod task_dist;
mod task_fuzz;
mod task_install;
mod task_setup;
mod task_test;
mod task_tidy;
mod workspace;

use laboratory::{Program, Words};
use task_setup::Consent;

/// Developer tasks of mapper.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, about)]
struct Cli {
    /// Install missing system packages without asking
    #[arg(long, global = true)]
    yes: bool,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measures the decision core against its targets
    Bench(Words),
    /// Runs a folder of OpenMP programs under allocations that change all the time
    Conformance(Words),
    /// Shows what mapper brings: real programs side by side, with and without it
    Demo(Words),
    Dist(task_dist::Args),
    /// Repeats the papers' evaluations in a model of their machines
    Eval(Words),
    Fuzz(task_fuzz::Args),
    Install(task_install::Args),
    /// Measures launch overhead, the idle daemon, and how programs take a change of their CPUs
    Measure(Words),
    /// Takes the decisions of a recording again
    Replay(Words),
    Setup(task_setup::Args),
    /// Keeps a daemon busy and fails if it grows
    Soak(Words),
    /// Measures what team modes bring beside the best tuning by hand, and what they cost
    Teams(Words),
    /// Runs everything that must hold before a change is good
    Test(task_test::Args),
    /// Checks rules of the source tree that no compiler checks
    Tidy(task_tidy::Args),
    /// Holds the code to a folder of golden tests
    Vectors(Words),
    /// Builds, runs and tests in a QEMU guest with 4 sockets, systemd and cgroup v2
    Vm(Words),
}

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    let consent = Consent::of_user(cli.yes);
    let done = match cli.task {
        Task::Bench(words) => laboratory::start(Program::Corun("bench"), &words, consent),
        Task::Conformance(words) => laboratory::start(Program::Conformance, &words, consent),
        Task::Demo(words) => laboratory::start(Program::Corun("demo"), &words, consent),
        Task::Dist(args) => task_dist::run(&args, consent),
        Task::Eval(words) => laboratory::evaluate(words, consent),
        Task::Fuzz(args) => task_fuzz::run(&args, consent),
        Task::Install(args) => task_install::run(&args, consent),
        Task::Measure(words) => laboratory::start(Program::Corun("measure"), &words, consent),
        Task::Replay(words) => laboratory::start(Program::Eval("replay"), &words, consent),
        Task::Setup(args) => task_setup::run(&args, consent),
        Task::Soak(words) => laboratory::start(Program::Corun("soak"), &words, consent),
        Task::Teams(words) => laboratory::start(Program::Corun("teams"), &words, consent),
        Task::Test(args) => task_test::run(&args, consent),
        Task::Tidy(args) => task_tidy::run(&args),
        Task::Vectors(words) => laboratory::start(Program::Vectors, &words, consent),
        Task::Vm(words) => laboratory::start(Program::Vm, &words, consent),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
