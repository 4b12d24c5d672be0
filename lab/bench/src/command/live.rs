//! `cargo xtask eval --live`: mixes of real programs on the machine at hand.

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};

use super::corun::{self, Prepared, WithoutPython};
use crate::build::dlb::Dlb;
use crate::data::experiment::{Experiment, Tables};
use crate::data::setting::{Manager, Setting};
use crate::show::publish::{Outputs, Paths};

/// Runs real programs on this machine
///
/// Runs mixes of the programs of benches/workloads under plain Linux, on a static fair share, with
/// mapper moving CPUs only and with mapper, interleaved. About ten minutes on an otherwise idle
/// machine: 10 repetitions of 8 mixes under 5 settings, each some 1 to 2 seconds; --seconds,
/// --reps, --mix and --setting make it shorter. Ctrl-C keeps what is finished.
#[derive(clap::Args)]
#[command(
    bin_name = "cargo xtask eval --live",
    display_name = "cargo xtask eval --live"
)]
pub(crate) struct Args {
    /// Programs that run together, such as md+cg; repeatable
    #[arg(long, value_name = "PROGRAMS")]
    mix: Vec<String>,
    /// Policies to compare beside mapper's own; repeatable or separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<String>,
    /// The promise: the share of its speed on a static fair share that every program is to have
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    qos: Option<f64>,
    /// Time between decisions in seconds
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    interval: Option<f64>,
    /// Also write everything to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder for the report
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Repetitions of every run [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    reps: Option<u32>,
    /// Settings to compare, separated by commas [default: plain, static, cpus, mapper,
    /// virtual, and dlb where it is installed]
    #[arg(long, value_name = "SETTING", value_delimiter = ',')]
    setting: Vec<String>,
    /// How long each program works alone on half of the machine [default: 0.7]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Also write the tables to this file, as Markdown, in place of what stands between
    /// its comments "measured: begin" and "measured: end"; a file with text and without them is refused
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// Runs `cargo xtask eval --live`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    corun::run(prepare(args)?)
}

fn prepare(args: &Args) -> anyhow::Result<Prepared> {
    let tables = Tables::read()?;
    let text = include_str!("../../experiments/live.toml");
    let mut experiment = Experiment::parse("live.toml", text, &tables)?;
    if !args.mix.is_empty() {
        let mixes = args
            .mix
            .iter()
            .map(|text| tables.mix(text).context("--mix"));
        experiment.replace_mixes(mixes.collect::<anyhow::Result<_>>()?);
    }
    let settings = settings(args, &experiment, &tables, Dlb::find().is_some())?;
    experiment.replace_settings(&settings);
    let method = &mut experiment.method;
    if let Some(reps) = args.reps {
        method.repetitions = usize::try_from(reps)?;
    }
    if let Some(seconds) = args.seconds {
        ensure!(
            (0.05..=60.0).contains(&seconds),
            "--seconds {seconds}: give seconds from 0.05 to 60"
        );
        method.work_s = seconds;
    }
    if let Some(promise) = args.qos {
        ensure!(
            promise > 0.0 && promise <= 1.0,
            "--qos {promise}: give a share above 0 and at most 1"
        );
        method.promise = Some(promise);
    }
    if let Some(interval_s) = args.interval {
        method.interval_ms = interval_ms(interval_s)?;
    }
    let outputs = Outputs::claim(Paths {
        json: args.json.as_deref(),
        markdown: args.markdown.as_deref(),
        folder: args.out.as_deref(),
        page: None,
    })?;
    Ok(Prepared {
        experiment,
        outputs,
        without_python: WithoutPython::Fails,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be some milliseconds"
)]
fn interval_ms(interval_s: f64) -> anyhow::Result<u64> {
    ensure!(
        (0.02..=10.0).contains(&interval_s),
        "--interval {interval_s}: with --live give seconds from 0.02 to 10"
    );
    Ok((interval_s * 1e3).round() as u64)
}

/// The settings that are asked for, or else those of the experiment that can be had, and mapper by each policy.
fn settings(
    args: &Args,
    experiment: &Experiment,
    tables: &Tables,
    has_dlb: bool,
) -> anyhow::Result<Vec<Setting>> {
    let mut settings = if args.setting.is_empty() {
        let is_there = |setting: &&Setting| {
            has_dlb
                || setting.manager != Manager::Dlb
                || !experiment.optional_settings.contains(&setting.key)
        };
        experiment
            .settings
            .iter()
            .filter(is_there)
            .cloned()
            .collect()
    } else {
        tables.settings(&args.setting).context("--setting")?
    };
    if !has_dlb && settings.iter().any(|of| of.manager == Manager::Dlb) {
        bail!(
            "--setting dlb: neither pkg-config nor the dynamic loader knows the DLB library; \
             install it from https://pm.bsc.es/dlb, or leave the setting out"
        );
    }
    for policy in &args.policy {
        mapper_allocate::find(policy).context("--policy with --live")?;
        settings.push(tables.settings.find("mapper")?.with_policy(policy));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Live {
        #[command(flatten)]
        args: Args,
    }

    fn prepared(arguments: &[&str]) -> anyhow::Result<Prepared> {
        let live = Live::try_parse_from(["live"].iter().chain(arguments))?;
        prepare(&live.args)
    }

    fn keys(arguments: &[&str], has_dlb: bool) -> anyhow::Result<Vec<String>> {
        let args = Live::try_parse_from(["live"].iter().chain(arguments))?.args;
        let tables = Tables::read()?;
        let mut live = crate::data::experiment::tests::experiment("live.toml");
        live.replace_settings(&settings(&args, &live, &tables, has_dlb)?);
        Ok(live.settings.into_iter().map(|of| of.key).collect())
    }

    #[test]
    fn bad_arguments_are_refused_by_name_before_anything_runs() {
        for (arguments, named) in [
            (&["--mix", "md+nobody"][..], "nobody"),
            (&["--reps", "0"], "--reps"),
            (&["--setting", "elastic"], "elastic"),
            (&["--policy", "genius"], "hill_climb"),
            (&["--seconds", "0"], "--seconds 0"),
            (&["--seconds", "many"], "many"),
            (&["--interval", "11"], "--interval 11"),
            (&["--qos", "1.5"], "--qos"),
            (&["--json", "/nonexistent/a/b"], "/nonexistent/a/b"),
            (&["--markdown", "/nonexistent/a/b"], "/nonexistent/a/b"),
            (&["--out", "/proc/nonexistent"], "/proc/nonexistent"),
        ] {
            let Err(error) = prepared(arguments) else {
                panic!("{arguments:?} was accepted")
            };
            let error = format!("{error:#}");
            assert!(error.contains(named), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn dlb_is_compared_where_it_is_installed() {
        let usual = ["plain", "static", "cpus", "mapper", "virtual"];
        assert_eq!(keys(&[], false).unwrap(), usual);
        assert_eq!(keys(&[], true).unwrap().last().unwrap(), "dlb");
        let error = keys(&["--setting=dlb"], false).unwrap_err();
        assert!(error.to_string().contains("--setting dlb"), "{error}");
    }

    #[test]
    fn policies_are_compared_beside_the_settings_and_each_thing_once() {
        let found = keys(
            &[
                "--setting=plain,mapper,plain",
                "--policy=hill_climb,hill_climb",
            ],
            false,
        );
        assert_eq!(found.unwrap(), ["plain", "mapper", "mapper:hill_climb"]);
    }
}
