//! `cargo xtask vm`: a real machine to test on, with what a developer's machine seldom has: several sockets, systemd as the
//! first process, the cpuset controller on cgroup v2.
//!
//! A QEMU guest is made from the Debian packages of the host, kept under `target/vm`, and runs a *payload*: a folder with a
//! `run.sh`, whose output is streamed here and whose exit status is returned. The processor is emulated (no `/dev/kvm`
//! needed), so the guest shows what is right and wrong, never what is fast, unless its clock is slowed (`--dilate`).
//!
//! - [`image`] makes disk, kernel and initrd once for each set of inputs.
//! - [`machine`] starts QEMU with one payload and returns its result.
//! - [`guest_tests`] is the payload that tests mapper as an installed service.
//! - [`live`] compares ways to share a machine, with real programs.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Parser as _, Subcommand};

mod guest_tests;
mod image;
mod live;
mod machine;
mod scratch;
mod sockets;

use guest_tests::{Chosen, run_guest_tests};
use image::Kernel;
use live::{InGuest, Live};
use machine::{Line, Machine};
use scratch::folder;

/// Builds, runs and tests in a QEMU guest with 4 sockets, systemd and cgroup v2.
#[derive(clap::Parser)]
#[command(name = "cargo xtask vm", bin_name = "cargo xtask vm")]
struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Makes the guest's image, if there is none for the present recipe.
    Build {
        /// Make it anew, with today's packages.
        #[arg(long)]
        fresh: bool,
        #[command(flatten)]
        kernel: Kernel,
    },
    /// Runs a folder with a `run.sh` in it as root in the guest; its exit status is returned.
    Run {
        #[command(flatten)]
        machine: Machine,
        /// The folder to take into the guest.
        payload: PathBuf,
    },
    /// Tests mapper in the guest as an installed service.
    Test {
        #[command(flatten)]
        machine: Machine,
        #[command(flatten)]
        chosen: Chosen,
    },
    /// Runs mixes of real programs on a slowed machine of 8 or 16 CPUs: plain Linux, static fair share, mapper.
    Live(Live),
    /// What `live` runs in the guest.
    #[command(hide = true)]
    InGuest(InGuest),
    /// Removes the image and everything else under `target/vm`.
    Clean,
}

fn main() -> std::process::ExitCode {
    mapper_report::stopped::exit_code(run(&Args::parse()))
}

fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::Build { fresh, kernel } => {
            println!("{}", image::ensure(kernel, *fresh)?.display());
        }
        Action::Run { machine, payload } => {
            let image = image::ensure(&machine.kernel, false)?;
            let started = Instant::now();
            let show = |line: &Line<'_>| println!("{}", line.text);
            let status = machine.run(&image, payload, None, show)?;
            eprintln!(
                "guest: exit status {status} after {:.0?}",
                started.elapsed()
            );
            anyhow::ensure!(status == 0, "the payload returned {status}");
        }
        Action::Test { machine, chosen } => {
            let counts = run_guest_tests(machine, chosen, |line| println!("{line}"))?;
            let failed = &counts.failed;
            println!("{} passed, {} failed", counts.passed, failed.len());
            anyhow::ensure!(
                failed.is_empty(),
                "guest tests failed: {}",
                failed.join(", ")
            );
        }
        Action::Live(live) => live.run()?,
        Action::InGuest(in_guest) => in_guest.run()?,
        Action::Clean => {
            let folder = folder();
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.with_context(|| format!("remove {}", folder.display()))?,
            }
        }
    }
    Ok(())
}
