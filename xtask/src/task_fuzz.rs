//! `cargo xtask fuzz`: runs the fuzz targets in `fuzz/`, each for its share of the time.
//!
//! They begin with the inputs in `fuzz/corpus`. What a run adds to these stays below cargo's folder, so that the
//! checkout does not change.

use std::num::NonZeroU32;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::task_setup::{self, Consent, Purpose};
use crate::workspace::{self, output, run as run_shown, tool};

#[derive(clap::Args)]
#[command(about = "Feeds random bytes to what reads bytes of others")]
pub(crate) struct Args {
    /// Minutes of CPU time, for all targets together
    #[arg(long, value_name = "N", default_value = "10")]
    minutes: NonZeroU32,
    /// The targets; all in `fuzz/fuzz_targets` when left out
    targets: Vec<String>,
}

pub(crate) fn run(args: &Args, consent: Consent) -> anyhow::Result<()> {
    task_setup::require(&[Purpose::Build, Purpose::Tests], consent)?;
    output(Command::new("rustup").args(["run", "nightly", "rustc", "--version"]))
        .context("fuzzing needs this: rustup toolchain install nightly --profile minimal")?;
    let fuzz = tool("cargo-fuzz", "0.13.2", &[])?;
    let folder = workspace::target_dir().join("fuzz");
    let command = |task: &str| {
        let mut command = Command::new(&fuzz);
        command.args(["fuzz", task]).current_dir(workspace::root());
        command
            .env("RUSTUP_TOOLCHAIN", "nightly")
            .env("CARGO_TARGET_DIR", &folder);
        // The nightly compiler warns of what the product's own does not.
        command.env("RUSTFLAGS", "-A warnings");
        command
    };
    // `cargo fuzz` has no --locked.
    let mut fetch = workspace::cargo();
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    fetch.args(["fetch", "--quiet", "--locked", "--target", &target]);
    run_shown(fetch.args(["--manifest-path", "fuzz/Cargo.toml"]))?;
    let listed = output(&mut command("list"))?;
    let all: Vec<&str> = listed.lines().collect();
    for name in &args.targets {
        let known = all.join(", ");
        ensure!(
            all.contains(&name.as_str()),
            "no fuzz target {name}; there are {known}"
        );
    }
    let targets = match args.targets.is_empty() {
        true => all,
        false => args.targets.iter().map(String::as_str).collect(),
    };
    let seconds = u64::from(args.minutes.get()) * 60 / targets.len() as u64;
    for target in targets {
        println!("{target}: {seconds} s");
        let found = folder.join("corpus").join(target);
        std::fs::create_dir_all(&found).with_context(|| format!("create {}", found.display()))?;
        let mut fuzzer = command("run");
        fuzzer
            .arg(target)
            .arg(found)
            .arg(format!("fuzz/corpus/{target}"));
        fuzzer.args(["--", "-print_final_stats=1", "-verbosity=0", "-timeout=10"]);
        run_shown(fuzzer.arg(format!("-max_total_time={seconds}")))
            .with_context(|| format!("{target} found a fault; the input is in fuzz/artifacts"))?;
    }
    Ok(())
}
