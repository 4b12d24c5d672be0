//! Real programs on the machine at hand: side by side, and alone.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod benchmarks;
mod build;
mod command;
mod data;
mod evaluate;
mod machine;
mod probe;
mod result;
mod run;
mod show;
mod soak;

use command::{demo, live, measure, teams};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measures the decision core and judges the figures
    Bench(benchmarks::Args),
    Demo(demo::Args),
    Live(live::Args),
    Measure(measure::Args),
    Soak(soak::Args),
    Teams(teams::Args),
}

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    mapper_report::stopped::exit_code(match Cli::parse().task {
        Task::Bench(args) => benchmarks::run(&args),
        Task::Demo(args) => demo::run(&args),
        Task::Live(args) => live::run(&args),
        Task::Measure(args) => measure::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Teams(args) => teams::run(&args),
    })
}
