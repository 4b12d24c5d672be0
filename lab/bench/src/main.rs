//! `cargo xtask bench`, `demo`, `eval --live`, `measure`, `soak` and `teams`: real programs on this machine.

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

use command::corun;
use command::measure;
use command::presets::{Demo, Live, Teams};

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
    Demo(Demo),
    Live(Live),
    Measure(measure::Args),
    Soak(soak::Args),
    Teams(Teams),
}

fn main() -> ExitCode {
    mapper_report::stopped::exit_code(match Cli::parse().task {
        Task::Bench(args) => benchmarks::run(&args),
        Task::Demo(args) => corun::run(args.prepare()),
        Task::Live(args) => corun::run(args.prepare()),
        Task::Measure(args) => measure::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Teams(args) => corun::run(args.prepare()),
    })
}
