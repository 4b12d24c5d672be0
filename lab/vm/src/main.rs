//! `cargo xtask vm`: a real machine to test on.
//!
//! A developer's machine seldom has what mapper is made for: several sockets, systemd as the first
//! process, the cpuset controller on cgroup v2. This task makes a QEMU guest that has all three
//! from the Debian packages of the host, keeps it under `target/vm`, and runs a *payload* in it:
//! a folder with a `run.sh`, whose output is streamed here and whose exit status comes back.
//! The processor is emulated (no `/dev/kvm` needed), so the guest tells what is right and wrong,
//! never what is fast.
//!
//! - [`image`] makes the disk, the kernel and the initrd, once for each set of inputs.
//! - [`machine`] starts QEMU with one payload and brings back what came out.
//! - [`guest_tests`] is the payload that tests mapper as an installed service.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser as _, Subcommand};

mod guest_tests;
mod image;
mod machine;
mod scratch;
mod sockets;

use guest_tests::{Chosen, run_guest_tests};
use machine::{Accelerator, Machine, Progress, STARTED_AGAIN};
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
            let image = image::ensure(if *fresh {
                image::Cache::Ignore
            } else {
                image::Cache::Use
            })?;
            println!("{}", image.folder().display());
            Ok(())
        }
        Action::Run { machine, payload } => {
            let image = image::ensure(image::Cache::Use)?;
            let outcome = machine
                .machine()
                .run(&image, payload, |progress| match progress {
                    Progress::Line(line) => println!("{line}"),
                    Progress::StartedAgain => println!("{STARTED_AGAIN}"),
                })?;
            eprintln!(
                "guest: exit status {} after {:.0?}",
                outcome.status, outcome.elapsed
            );
            if outcome.status != 0 {
                bail!("the payload returned {}", outcome.status);
            }
            Ok(())
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
            println!("{} passed, {} failed", counts.passed, counts.failed.len());
            if !counts.failed.is_empty() {
                bail!("guest tests failed: {}", counts.failed.join(", "));
            }
            Ok(())
        }
        Action::Clean => {
            let folder = folder();
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(error).with_context(|| format!("remove {}", folder.display()))
                }
                _ => Ok(()),
            }
        }
    }
}
