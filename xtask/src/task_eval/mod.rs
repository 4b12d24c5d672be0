//! `cargo xtask eval`: the papers' evaluations in the simulator.
//!
//! Runs the suites of the protocol ([`protocol`]), or a mix given on the command line, under the
//! policies of the decision core and the papers' baselines, and reports what came out beside what the
//! papers report. **In the model**: see `crates/sim`. With `--live` ([`live`]) real programs run on this
//! machine instead; the two have nothing in common but the command.

mod catalogue;
mod console;
mod draw;
#[cfg(test)]
mod examples;
mod execute;
mod html;
mod live;
mod mix;
mod plan;
mod plot;
mod policies;
mod protocol;
mod run_spec;
mod setting;
mod standing;
mod stopped;
mod summary;
mod tables;
mod targets;
mod timeline;
mod validity;
mod validity_own;

use crate::corun::output::{OutputFile, tell};
use crate::workspace;
use anyhow::{Context as _, bail};
use plan::{Changes, Plan};
use protocol::{Protocol, TeamsName};
use setting::Setting;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
pub(crate) use stopped::Stopped;

/// The protocol that is used unless another is given: the newest.
const PROTOCOL: &str = "docs/eval/protocol-v5.toml";

/// The machine of a mix for which none was named.
const USUAL_MACHINE: &str = "hsw80";

/// Repeats the papers' evaluations in a model of their machines
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Suites to run: all, or how a name begins, such as mapper or sam-fig5; repeatable
    #[arg(long, value_name = "NAME")]
    suite: Vec<String>,
    /// Programs that run together, such as "20 SGD, 20 BSGD", with --live such as md+cg; repeatable
    #[arg(long, value_name = "PROGRAMS")]
    mix: Vec<String>,
    /// The machine for --mix [default: hsw80]
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Policies to compare, in place of the suite's, with --live beside mapper's own; repeatable or
    /// separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<String>,
    /// Whether OpenMP programs of --mix follow their allocation
    #[arg(long)]
    follow: bool,
    /// What programs are promised, in place of the protocol's
    #[arg(long, value_name = "SHARE")]
    qos: Option<f64>,
    /// Time between decisions in seconds, in place of the protocol's
    #[arg(long, value_name = "SECONDS")]
    interval: Option<f64>,
    /// How many seeds, in place of the protocol's
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,
    /// A file of applications of your own, written like crates/sim/presets/apps.toml
    #[arg(long, value_name = "FILE")]
    apps: Option<PathBuf>,
    /// A file of machines of your own, written like crates/sim/presets/machines.toml
    #[arg(long, value_name = "FILE")]
    machines: Option<PathBuf>,
    /// The protocol, in place of the newest one in docs/eval
    #[arg(long, value_name = "FILE")]
    protocol: Option<PathBuf>,
    /// Also write everything to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the means and the published numbers to this file, as docs/eval keeps them
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Folder for the report
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A number of the model to change, such as decision_s=0, app.E*=0.75, SGD.st=0 or
    /// machine.llc_mb*=2; repeatable. Shows what a result rests on
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting::parse)]
    set: Vec<Setting>,
    /// Compute everything anew
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    live: live::LiveArgs,
}

/// Runs `cargo xtask eval`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.live.live {
        return run_live(args);
    }
    args.live.check_unused()?;
    check_together(args)?;
    let path = args
        .protocol
        .clone()
        .unwrap_or_else(|| workspace::root().join(PROTOCOL));
    let (protocol, mut catalogue) = Protocol::read(&path)?;
    if let Some(path) = &args.apps {
        catalogue.add_apps(path)?;
    }
    if let Some(path) = &args.machines {
        catalogue.add_machines(path)?;
    }
    let changes = changes(args)?;
    let mut plan = Plan::default();
    if args.suite.is_empty() && args.mix.is_empty() {
        bail!("nothing to evaluate: give --suite all, or --mix \"20 SGD, 20 BSGD\"");
    }
    let wants_validity = args
        .suite
        .iter()
        .any(|name| name == "validity" || name == "all");
    let names: Vec<String> = args
        .suite
        .iter()
        .filter(|name| *name != "validity")
        .cloned()
        .collect();
    for suite in protocol.suites(&names)? {
        let mut suite = suite.clone();
        if !args.policy.is_empty() {
            suite.policies = once_each(&args.policy);
        }
        plan.add(&suite, &protocol, &catalogue, &changes)?;
    }
    if !args.mix.is_empty() {
        let policies = if args.policy.is_empty() {
            ["linux", "fair", "mapper"].map(String::from).to_vec()
        } else {
            once_each(&args.policy)
        };
        let teams = if args.follow {
            TeamsName::Follow
        } else {
            TeamsName::Fixed
        };
        let machine = args.machine.as_deref().unwrap_or(USUAL_MACHINE);
        let suite = plan::ad_hoc(&once_each(&args.mix), machine, &policies, teams);
        plan.add(&suite, &protocol, &catalogue, &changes)?;
    }
    for setting in &args.set {
        setting.check_meant(plan.runs.values())?;
    }
    if let Some(folder) = &args.out {
        execute::check_writable(folder)?;
    }
    let claim = |file: &Option<PathBuf>, flag| {
        let claimed = file.as_deref().map(OutputFile::claim).transpose();
        claimed.context(flag)
    };
    let json_file = claim(&args.json, "--json")?;
    let summary_file = claim(&args.summary, "--summary")?;
    execute::stop_at_signal()?;
    let done = execute::execute(&plan, args.fresh)?;
    let checks = if wants_validity && done.left_out == 0 {
        let model = validity::check(&protocol, &catalogue, &args.set, args.fresh)?;
        let own = validity_own::check(&protocol, &catalogue, &args.set, args.fresh)?;
        model.and(own)
    } else {
        validity::Checked::default()
    };
    let findings = checks.findings;
    let left_out = done.left_out + checks.left_out;
    let tables: Vec<_> = plan
        .suites
        .iter()
        .map(|suite| tables::table(suite, &done.results))
        .collect();
    let lines = targets::judge(&targets::Book {
        tables: &tables,
        constants: protocol.constants,
    })?;
    let standings = standing::standings(&tables);
    let settings = departures(args);
    let evaluation = Evaluation {
        protocol: &protocol,
        protocol_sha256: &protocol.sha256,
        settings: &settings,
        suites: &tables,
        targets: &lines,
        unjudged: targets::UNJUDGED,
        standings: &standings,
        validity: &findings,
        left_out,
    };
    let json = serde_json::to_string_pretty(&evaluation).context("write results as JSON")? + "\n";
    let write = |path: &Path, text: &str| {
        fs::write(path, text).with_context(|| format!("write {}", path.display()))
    };
    let budget = protocol.budget_told();
    // Files first: whoever reads the terminal may go away.
    if let Some(file) = json_file {
        file.write(&json)?;
    }
    if let Some(file) = summary_file {
        file.write(&summary::summary(&evaluation)?)?;
    }
    if let Some(folder) = &args.out {
        let cpus = |machine: &str| {
            let spec = catalogue.machine(machine);
            spec.map_or(1, |m| m.sockets * m.cores_per_socket * m.threads_per_core)
        };
        let report = html::Report {
            tables: &tables,
            targets: &lines,
            standings: &standings,
            settings: &settings,
            validity: &findings,
            protocol_version: protocol.version,
            protocol_sha256: &protocol.sha256,
            budget: budget.as_deref(),
            cpus: &cpus,
            left_out,
        };
        write(&folder.join("eval.json"), &json)?;
        write(&folder.join("eval.html"), &html::page(&report))?;
    }
    let mut text = String::new();
    for table in &tables {
        text += &console::suite(table);
        if table.suite.name == "mix" {
            text += &console::programs(table);
        }
    }
    text += &console::validity(&findings);
    text += &console::standings(&standings);
    text += &console::targets(&lines);
    let _ = writeln!(
        text,
        "\nprotocol {} version {}, sha256 {}{}; {}, {} of them kept from earlier",
        path.display(),
        protocol.version,
        protocol.sha256,
        budget
            .as_deref()
            .map_or_else(String::new, |budget| format!("; {budget}")),
        console::counted(done.results.len(), "run"),
        done.kept
    );
    if !settings.is_empty() {
        let _ = writeln!(
            text,
            "with {}: not what the protocol says",
            settings.join(", ")
        );
    }
    if left_out > 0 {
        let _ = writeln!(
            text,
            "stopped: {} left out",
            console::counted(left_out, "run")
        );
        if wants_validity && findings.is_empty() {
            text += "the checks of the model itself (--suite validity) are not judged before all of their runs \
                     are done\n";
        }
    }
    if let Some(folder) = &args.out {
        let _ = writeln!(text, "report {}", folder.join("eval.html").display());
    }
    tell(&mut std::io::stdout().lock(), &text)?;
    if left_out > 0 {
        let done = done.results.len() + checks.done;
        return Err(Stopped {
            done,
            wanted: done + left_out,
            go_on: go_on(args.fresh),
        }
        .into());
    }
    Ok(())
}

/// How to come to the runs that a stop left out. What is done is kept in any case, but a fresh evaluation
/// does not look at it.
const fn go_on(fresh: bool) -> &'static str {
    if fresh {
        "they are kept; the same command without --fresh goes on from there"
    } else {
        "they are kept; the same command goes on from there"
    }
}

/// Refuses what would be left out of account without a word.
fn check_together(args: &Args) -> anyhow::Result<()> {
    if args.mix.is_empty() {
        if let Some(machine) = &args.machine {
            bail!("--machine {machine}: only with --mix; each suite has its own machine");
        }
        if args.follow {
            bail!("--follow: only with --mix; each suite says itself whether programs follow");
        }
    }
    if let (Some(json), Some(summary)) = (&args.json, &args.summary)
        && json == summary
    {
        bail!(
            "--json and --summary both name {}: give two files, as each is written whole",
            json.display()
        );
    }
    Ok(())
}

/// What was given twice counts once, where it stood first.
fn once_each(given: &[String]) -> Vec<String> {
    let mut once: Vec<String> = Vec::new();
    for name in given {
        if !once.contains(name) {
            once.push(name.clone());
        }
    }
    once
}

fn run_live(args: &Args) -> anyhow::Result<()> {
    with_shared(args, |shared| live::run(&args.live, shared))
}

/// Does `what` with the arguments that the model and real programs both take.
fn with_shared<T>(
    args: &Args,
    what: impl FnOnce(&live::Shared<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let changes = changes(args)?;
    what(&live::Shared {
        mixes: &args.mix,
        policies: &args.policy,
        qos: changes.qos,
        interval_s: changes.interval_s,
        json: args.json.as_ref(),
        out: args.out.as_ref(),
    })
}

/// Everything that came out.
#[derive(serde::Serialize)]
struct Evaluation<'a> {
    protocol: &'a Protocol,
    protocol_sha256: &'a str,
    settings: &'a [String],
    suites: &'a [tables::SuiteTable],
    targets: &'a [targets::Line],
    unjudged: &'a [targets::Unjudged],
    standings: &'a [standing::Standing],
    validity: &'a [validity::Finding],
    left_out: usize,
}

/// Everything on the command line that makes results others than the protocol's.
fn departures(args: &Args) -> Vec<String> {
    let mut told: Vec<String> = args.set.iter().map(Setting::to_string).collect();
    let mut flag = |name: &str, value: Option<String>| {
        told.extend(value.map(|value| format!("{name} {value}")));
    };
    // A mix of the command line is in no protocol, so nothing departs from one by its policies and teams.
    if !args.suite.is_empty() && !args.policy.is_empty() {
        flag("--policy", Some(args.policy.join(",")));
    }
    flag("--qos", args.qos.map(|qos| qos.to_string()));
    flag(
        "--interval",
        args.interval.map(|seconds| seconds.to_string()),
    );
    flag("--seeds", args.seeds.map(|count| count.to_string()));
    let file = |path: &PathBuf| path.display().to_string();
    flag("--apps", args.apps.as_ref().map(file));
    flag("--machines", args.machines.as_ref().map(file));
    told
}

fn changes(args: &Args) -> anyhow::Result<Changes> {
    if let Some(qos) = args.qos {
        mapper_model::Qos::new(qos).context("--qos")?;
    }
    if let Some(interval_s) = args.interval
        && !(0.01..=60.0).contains(&interval_s)
    {
        bail!("--interval {interval_s}: give seconds from 0.01 to 60");
    }
    Ok(Changes {
        seeds: args.seeds,
        qos: args.qos,
        interval_s: args.interval,
        settings: args.set.clone(),
    })
}
