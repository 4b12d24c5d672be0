//! `cargo xtask conformance`.

use std::process::ExitCode;

use clap::Parser as _;
use mapper_conformance::Args;

fn main() -> ExitCode {
    mapper_report::stopped::exit_code(mapper_conformance::run(&Args::parse()))
}
