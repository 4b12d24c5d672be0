//! `cargo xtask`: every developer task of mapper, one file a task.
//!
//! A task that needs system packages calls [`workspace`] and `setup` first, so that a fresh
//! machine needs nothing but a Rust toolchain to start.

use clap::{Parser, Subcommand};

mod corun;
mod html_report;
mod private_daemon;
mod task_bench;
mod task_conformance;
mod task_demo;
mod task_dist;
mod task_eval;
mod task_install;
mod task_measure;
mod task_replay;
mod task_setup;
mod task_soak;
mod task_teams;
mod task_test;
mod task_tidy;
mod task_vectors;
mod task_vm;
mod workspace;

/// Developer tasks of mapper.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, about)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measures the decision core against its targets
    Bench(task_bench::Args),
    Conformance(task_conformance::Args),
    Demo(task_demo::Args),
    Dist(task_dist::Args),
    Eval(Box<task_eval::Args>),
    Install(task_install::Args),
    Measure(task_measure::Args),
    /// Takes the decisions of a recording again
    Replay(task_replay::Args),
    Setup(task_setup::Args),
    Soak(task_soak::Args),
    Teams(task_teams::Args),
    /// Runs everything that must hold before a change is good
    Test(task_test::Args),
    /// Checks rules of the source tree that no compiler checks
    Tidy(task_tidy::Args),
    /// Holds the code to a folder of worked numbers
    Vectors(task_vectors::Args),
    Vm(task_vm::Args),
}

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    let done = match cli.task {
        Task::Bench(args) => task_bench::run(&args),
        Task::Conformance(args) => task_conformance::run(&args),
        Task::Demo(args) => task_demo::run(&args),
        Task::Dist(args) => task_dist::run(&args),
        Task::Eval(args) => task_eval::run(&args),
        Task::Install(args) => task_install::run(&args),
        Task::Measure(args) => task_measure::run(&args),
        Task::Replay(args) => task_replay::run(&args),
        Task::Setup(args) => task_setup::run(&args),
        Task::Soak(args) => task_soak::run(&args),
        Task::Teams(args) => task_teams::run(&args),
        Task::Test(args) => task_test::run(&args),
        Task::Tidy(args) => task_tidy::run(&args),
        Task::Vectors(args) => task_vectors::run(&args),
        Task::Vm(args) => task_vm::run(&args),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            corun::output::say(format_args!("error: {error:#}"));
            match error.downcast_ref() {
                Some(task_eval::Stopped { .. }) => task_eval::Stopped::STATUS.into(),
                None => std::process::ExitCode::FAILURE,
            }
        }
    }
}
