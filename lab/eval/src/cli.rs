//! The command line: what is evaluated, and what is decided again.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{arguments, replay};

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

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    mapper_report::stopped::exit_code(match Cli::parse().task {
        Task::Eval(args) => crate::run(&args),
        Task::Replay(args) => replay::run(&args),
    })
}
