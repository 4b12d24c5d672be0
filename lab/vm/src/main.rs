//! `cargo xtask vm`: a real machine to test on, with what a developer's machine seldom has: several sockets, systemd as the
//! first process, the cpuset controller on cgroup v2.
//!
//! A QEMU guest is made from the Debian packages of the host, kept under `target/vm`, and runs a *payload*: a folder with a
//! `run.sh`, whose output is streamed here and whose exit status is returned. The processor is emulated (no `/dev/kvm`
//! needed), so the guest shows what is right and wrong, never what is fast.
//!
//! - [`image`] makes disk, kernel and initrd once for each set of inputs.
//! - [`machine`] starts QEMU with one payload and returns its result.
//! - [`guest_tests`] is the payload that tests mapper as an installed service.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Parser as _, Subcommand};

mod guest_tests;
mod image;
mod machine;
mod scratch;
mod sockets;

use guest_tests::{Chosen, run_guest_tests};
use machine::{Accelerator, Machine};
use scratch::folder;
use sockets::Sockets;

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
    },
    /// Runs a folder with a `run.sh` in it as root in the guest; its exit status is returned.
    Run {
        #[command(flatten)]
        machine: MachineArgs,
        /// The folder to take into the guest.
        payload: PathBuf,
    },
    /// Tests mapper in the guest as an installed service.
    Test {
        #[command(flatten)]
        machine: MachineArgs,
        /// Run only the tests whose name contains this.
        #[arg(long, default_value = "")]
        filter: String,
        /// How long the test that nothing grows keeps the daemon busy [default: 30].
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(30..))]
        soak_seconds: Option<u64>,
    },
    /// Removes the image and everything else under `target/vm`.
    Clean,
}

#[derive(clap::Args)]
struct MachineArgs {
    /// Sockets, cores of a socket and threads of a core.
    #[arg(long, default_value_t = Sockets::DEFAULT, value_name = "SOCKETSxCORESxTHREADS")]
    topology: Sockets,
    /// Seconds after which the guest is stopped and the run has failed.
    #[arg(long, default_value_t = machine::DEFAULT_TIMEOUT.as_secs(), value_name = "SECONDS")]
    timeout: u64,
    /// How the guest's processors are run.
    #[arg(long, value_enum, default_value_t = Accelerator::Tcg)]
    accel: Accelerator,
}

impl MachineArgs {
    fn machine(&self) -> Machine {
        Machine {
            sockets: self.topology,
            accelerator: self.accel,
            timeout: Duration::from_secs(self.timeout),
        }
    }
}

fn main() -> std::process::ExitCode {
    mapper_report::stopped::exit_code(run(&Args::parse()))
}

fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::Build { fresh } => {
            println!("{}", image::ensure(*fresh)?.display());
        }
        Action::Run { machine, payload } => {
            let image = image::ensure(false)?;
            let started = Instant::now();
            let show = |line: &str| println!("{line}");
            let status = machine.machine().run(&image, payload, show)?;
            eprintln!(
                "guest: exit status {status} after {:.0?}",
                started.elapsed()
            );
            anyhow::ensure!(status == 0, "the payload returned {status}");
        }
        Action::Test {
            machine,
            filter,
            soak_seconds,
        } => {
            let chosen = Chosen {
                filter,
                soak_seconds: *soak_seconds,
            };
            let counts = run_guest_tests(&machine.machine(), chosen, |line| println!("{line}"))?;
            let failed = &counts.failed;
            println!("{} passed, {} failed", counts.passed, failed.len());
            anyhow::ensure!(
                failed.is_empty(),
                "guest tests failed: {}",
                failed.join(", ")
            );
        }
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
