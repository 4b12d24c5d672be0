//! `cargo xtask`: every developer task of mapper, one file a task.
//!
//! A task that needs system packages calls [`workspace`] and `setup` first, so that a fresh
//! machine needs nothing but a Rust toolchain to start.

use clap::{Parser, Subcommand};

mod workspace;

/// Developer tasks of mapper.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, about)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {}

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    match cli.task {}
}
