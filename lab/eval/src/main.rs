//! `cargo xtask eval`: the papers' evaluations in the simulator, and `cargo xtask replay`.
//!
//! Runs the suites of the protocol ([`protocol`]), or a mix given on the command line, under the policies of the
//! decision core and the papers' baselines, and reports what came out beside what the papers report. **In the
//! model**: see `lab/sim`. `cargo xtask eval --live` runs real programs instead (`lab/bench`).

mod arguments;
mod catalogue;
mod configuration;
mod data;
mod draw;
mod evaluation;
#[cfg(test)]
mod examples;
mod execute;
mod governors;
mod mix;
mod outputs;
mod page;
mod plan;
mod plot;
mod policies;
mod protocol;
mod replay;
mod run;
mod run_spec;
mod setting;
mod show;
mod simulate;
mod standing;
mod summary;
mod table1;
mod tables;
mod targets;
mod validity;
mod validity_own;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Eval(Box<arguments::Args>),
    /// Takes the decisions of a recording again
    Replay(replay::Args),
}

fn main() -> ExitCode {
    mapper_report::stopped::exit_code(match Cli::parse().task {
        Task::Eval(args) => run::run(&args),
        Task::Replay(args) => replay::run(&args),
    })
}
