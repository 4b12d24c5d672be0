//! `cargo xtask eval`: computes what is wanted, judges it and writes it.

use super::arguments::Args;
use super::evaluation::Evaluation;
use super::outputs::{Outputs, Texts};
use super::protocol::{self, Protocol};
use super::table1::Table1;
use super::validity::{Checked, Checks};
use super::{execute, page, show, standing, summary, tables, targets, validity_own};
use anyhow::Context as _;
use mapper_report::output::{counted, tell};
use mapper_report::stopped::Stopped;
use std::fmt::Write as _;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    args.check_together()?;
    let path = args.protocol.clone().unwrap_or_else(protocol::newest);
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
    let mut checked = Checked::default();
    if wants_validity && done.left_out == 0 {
        let checks = Checks {
            protocol: &protocol,
            catalogue: &catalogue,
            settings: &args.set,
            fresh: args.fresh,
        };
        checks.check(&mut checked)?;
        validity_own::check(&checks, &mut checked)?;
    }
    let left_out = done.left_out + checked.left_out;
    let table = |suite| tables::table(suite, &done.results);
    let tables: Vec<_> = plan.suites.iter().map(table).collect();
    let settings = args.departures(&path, &protocol, &plan)?;
    let book = targets::Book {
        tables: &tables,
        model: targets::Model {
            constants: protocol.constants,
            catalogue: &catalogue,
            settings: &args.set,
        },
    };
    let version = protocol.version;
    let unchanged = settings.is_empty().then_some(version);
    let evaluation = Evaluation {
        protocol: &protocol,
        protocol_sha256: &protocol.sha256,
        settings: &settings,
        suites: &tables,
        nucore_table1: Table1::all(&tables)?,
        targets: &targets::judge(&book, unchanged)?,
        unjudged: &targets::unjudged()?,
        standings: &standing::standings(&tables),
        validity: &checked.findings,
        left_out,
    };
    let json = serde_json::to_string_pretty(&evaluation).context("write results as JSON")? + "\n";
    let shown = outputs.page();
    // Files first: the terminal may be closed. What cannot be written is reported last, below the tables.
    let written = outputs.write(&Texts {
        summary: summary::summary(&evaluation)?,
        page: page::page(&evaluation)?,
        json,
    });
    let mut text = show::text(&evaluation);
    let budget = protocol.budget_shown().map(|budget| format!("; {budget}"));
    let _ = writeln!(
        text,
        "\nprotocol {} version {version}, sha256 {}{}; {}, {} of them kept from earlier",
        path.display(),
        protocol.sha256,
        budget.unwrap_or_default(),
        counted(done.results.len(), "run"),
        done.kept
    );
    if !settings.is_empty() {
        let settings = settings.join(", ");
        let _ = writeln!(text, "with {settings}: not what the protocol says");
    }
    if left_out > 0 {
        let _ = writeln!(text, "stopped: {} left out", counted(left_out, "run"));
        if wants_validity && checked.findings.is_empty() {
            text += "the checks of the model itself (--suite validity) are not judged before all of their runs \
                     are done\n";
        }
    }
    if let Some(page) = shown.filter(|page| written.is_ok() || page.exists()) {
        let _ = writeln!(text, "report {}", page.display());
    }
    tell(&mut std::io::stdout().lock(), &text)?;
    written?;
    if left_out > 0 {
        let done = done.results.len() + checked.done;
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
/// does not read it.
const fn next(fresh: bool) -> &'static str {
    match fresh {
        true => "they are kept; the same command without --fresh continues from there",
        false => "they are kept; the same command continues from there",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_evaluation_says_how_to_continue_and_a_fresh_one_not_to_start_over() {
        let (done, wanted) = (34, 72);
        for (fresh, how) in [(false, "same command continues"), (true, "without --fresh")] {
            let next = next(fresh);
            let shown = Stopped { done, wanted, next }.to_string();
            assert!(shown.contains("34 of 72 runs done"), "{shown}");
            assert!(shown.contains(how), "{shown}");
            assert!(shown.ends_with("continues from there"), "{shown}");
        }
    }
}
