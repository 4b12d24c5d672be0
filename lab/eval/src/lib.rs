//! `cargo xtask eval`: the papers' evaluations in the simulator.
//!
//! Runs the suites of the protocol ([`protocol`]), or a mix given on the command line, under the
//! policies of the decision core and the papers' baselines, and reports what came out beside what the
//! papers report. **In the model**: see `lab/sim`. `cargo xtask eval --live` runs real programs
//! instead: that is `lab/bench`, and the two have nothing in common but the command.

mod arguments;
mod catalogue;
mod cli;
mod configuration;
mod console;
mod draw;
mod evaluation;
#[cfg(test)]
mod examples;
mod execute;
mod governors;
mod html;
mod mix;
mod only_live;
mod outputs;
mod plan;
mod plot;
mod policies;
mod protocol;
mod replay;
mod run_spec;
mod setting;
mod simulate;
mod standing;
mod summary;
mod table1;
mod tables;
mod targets;
mod timeline;
mod validity;
mod validity_own;

use anyhow::Context as _;
pub(crate) use arguments::Args;
pub use cli::main;
use evaluation::Evaluation;
use mapper_report::output::{counted, tell};
use mapper_report::stopped::Stopped;
use mapper_report::workspace;
use outputs::{Outputs, Texts};
use protocol::Protocol;
use std::fmt::Write as _;

/// The protocol that is used unless another is given: the newest.
const PROTOCOL: &str = "lab/eval/data/protocol-v7.toml";

/// Runs `cargo xtask eval`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.live.check_unused()?;
    args.check_together()?;
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
    let wants_validity = args.wants_validity();
    let plan = args.planned(&protocol, &catalogue)?;
    let outputs = Outputs::claim(args, &path)?;
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
    let settings = args.departures(&path, &protocol, &plan)?;
    let book = targets::Book {
        tables: &tables,
        model: targets::Model {
            constants: protocol.constants,
            catalogue: &catalogue,
            settings: &args.set,
        },
    };
    let explained = match settings.is_empty() {
        true => targets::Explained::AsProtocol {
            version: protocol.version,
        },
        false => targets::Explained::Departing,
    };
    let lines = targets::judge(&book, explained)?;
    let unjudged = targets::unjudged()?;
    let standings = standing::standings(&tables);
    let evaluation = Evaluation {
        protocol: &protocol,
        protocol_sha256: &protocol.sha256,
        settings: &settings,
        suites: &tables,
        nucore_table1: tables.iter().filter_map(table1::Table1::of).collect(),
        targets: &lines,
        unjudged: &unjudged,
        standings: &standings,
        validity: &findings,
        left_out,
    };
    let json = serde_json::to_string_pretty(&evaluation).context("write results as JSON")? + "\n";
    let budget = protocol.budget_told();
    let report = html::Report {
        tables: &tables,
        targets: &lines,
        unjudged: &unjudged,
        standings: &standings,
        settings: &settings,
        validity: &findings,
        protocol_version: protocol.version,
        protocol_sha256: &protocol.sha256,
        budget: budget.as_deref(),
        left_out,
    };
    let page = outputs.page();
    // Files first: whoever reads the terminal may go away. What cannot be written is told last, below the tables.
    let written = outputs.write(&Texts {
        summary: summary::summary(&evaluation)?,
        page: html::page(&report),
        json,
    });
    let mut text = String::new();
    for table in &tables {
        text += &console::suite(table);
        if let Some(table1) = table1::Table1::of(table) {
            text += &table1.text();
        }
        if table.suite.name == "mix" {
            text += &console::programs(table);
        }
    }
    text += &console::validity(&findings);
    text += &console::standings(&standings);
    text += &console::targets(&lines, &unjudged);
    let _ = writeln!(
        text,
        "\nprotocol {} version {}, sha256 {}{}; {}, {} of them kept from earlier",
        path.display(),
        protocol.version,
        protocol.sha256,
        budget
            .as_deref()
            .map_or_else(String::new, |budget| format!("; {budget}")),
        counted(done.results.len(), "run"),
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
        let _ = writeln!(text, "stopped: {} left out", counted(left_out, "run"));
        if wants_validity && findings.is_empty() {
            text += "the checks of the model itself (--suite validity) are not judged before all of their runs \
                     are done\n";
        }
    }
    if let Some(page) = page.filter(|page| written.is_ok() || page.exists()) {
        let _ = writeln!(text, "report {}", page.display());
    }
    tell(&mut std::io::stdout().lock(), &text)?;
    written?;
    if left_out > 0 {
        let done = done.results.len() + checks.done;
        return Err(Stopped {
            done,
            wanted: done + left_out,
            next: next(args.fresh),
        }
        .into());
    }
    Ok(())
}

/// How to come to the runs that a stop left out. What is done is kept in any case, but a fresh evaluation
/// does not look at it.
const fn next(fresh: bool) -> &'static str {
    if fresh {
        "they are kept; the same command without --fresh continues from there"
    } else {
        "they are kept; the same command continues from there"
    }
}
