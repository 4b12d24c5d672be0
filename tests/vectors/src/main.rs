//! `cargo xtask vectors`.

use clap::Parser as _;

fn main() -> anyhow::Result<()> {
    mapper_vectors::run(&mapper_vectors::Args::parse())
}
