//! Tables for the terminal.

use super::policies;
use super::standing::{self, Stand, Standing};
use super::tables::SuiteTable;
use super::targets::{Line, Score, UNJUDGED, Verdict};
use super::validity::Finding;
use std::fmt::Write as _;

/// A suite as a table: a line for each mix, a column for each policy.
pub(super) fn suite(table: &SuiteTable) -> String {
    let suite = &table.suite;
    let titles: Vec<&str> = suite
        .policies
        .iter()
        .map(|name| policies::find(name).map_or(name.as_str(), |p| p.name))
        .collect();
    let first = table
        .mixes
        .iter()
        .map(|row| row.mix.len())
        .max()
        .unwrap_or(0)
        .max(14);
    let mut out = format!("\n{} ({}, in the model)\n", suite.title, suite.machine);
    let _ = write!(out, "{:first$}", "");
    for title in &titles {
        let _ = write!(out, "  {title:>width$}", width = title.len().max(5));
    }
    out.push('\n');
    for row in &table.mixes {
        let star = if row.assumed { "*" } else { "" };
        let _ = write!(out, "{:first$}", format!("{}{star}", row.mix));
        for (name, title) in suite.policies.iter().zip(&titles) {
            let width = title.len().max(5);
            match row.policies.get(name) {
                Some(cell) => drop(write!(out, "  {:>width$.3}", cell.value)),
                None => drop(write!(out, "  {:>width$}", "–")),
            }
        }
        out.push('\n');
    }
    let _ = write!(out, "{:first$}", "geometric mean");
    for (name, title) in suite.policies.iter().zip(&titles) {
        let width = title.len().max(5);
        match table.overall.get(name) {
            Some(value) => drop(write!(out, "  {value:>width$.3}")),
            None => drop(write!(out, "  {:>width$}", "–")),
        }
    }
    out.push('\n');
    if !suite.assumed.is_empty() {
        out.push_str("* not named in the text of the paper\n");
    }
    if table.incomplete > 0 {
        let _ = writeln!(
            out,
            "{} mixes left out: stopped before they were done",
            table.incomplete
        );
    }
    out
}

/// The programs of every mix, for a look at few mixes.
pub(super) fn programs(table: &SuiteTable) -> String {
    let mut out = String::new();
    for row in &table.mixes {
        let _ = writeln!(out, "\n{}", row.mix);
        for name in &table.suite.policies {
            let Some(cell) = row.policies.get(name) else {
                continue;
            };
            let apps = cell.apps.iter().map(|app| {
                let latency = app
                    .p99_ms
                    .map_or_else(String::new, |ms| format!(", p99 {ms:.1} ms"));
                format!(
                    "{} {:.3} on {:.0} CPUs{latency}",
                    app.name, app.speed, app.mean_cpus
                )
            });
            let apps: Vec<String> = apps.collect();
            let _ = writeln!(
                out,
                "  {name:14} {:.3}  {}  ({:.2} rewrites/s)",
                cell.value,
                apps.join("; "),
                cell.rewrites_per_s
            );
        }
    }
    out
}

/// Every target that was computed, those outside their band first.
pub(super) fn targets(lines: &[Line]) -> String {
    let shown: Vec<&Line> = lines
        .iter()
        .filter(|l| l.verdict != Verdict::NotRun)
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    let width = shown
        .iter()
        .map(|l| l.what.chars().count())
        .max()
        .unwrap_or(0);
    let mut out = String::from("\nPublished numbers, in the model; outside their band first\n");
    for line in &shown {
        let verdict = match line.verdict {
            Verdict::Outside => "OUTSIDE",
            other => other.told(),
        };
        let _ = writeln!(
            out,
            "{verdict:10}  {:5}  {:width$}  paper {:>7}  model {:>7}  {:18}  {}{}",
            line.id,
            line.what,
            line.told(line.paper),
            line.told(line.model.unwrap_or(f64::NAN)),
            line.band(),
            line.uses.told(),
            line.cause
                .as_ref()
                .map_or_else(String::new, |cause| format!("  ({})", cause.cause))
        );
    }
    for of in UNJUDGED {
        let _ = writeln!(
            out,
            "{:10}  {}: {} ({})",
            "not judged", of.ids, of.what, of.why
        );
    }
    if let Some(score) = Score::of(lines) {
        let exact = score
            .exact_told()
            .map_or_else(String::new, |told| format!("; {told}"));
        let _ = writeln!(out, "{} of {} inside{exact}", score.inside, score.judged);
    }
    out
}

/// This project's own policy beside MAPPER as printed and the best fixed sets.
pub(super) fn standings(standings: &[Standing]) -> String {
    let mut out = String::new();
    let mut names: Vec<&str> = Vec::new();
    for standing in standings {
        let policies: Vec<&str> = standing
            .policies
            .iter()
            .map(|s| s.policy.as_str())
            .collect();
        if policies != names {
            out.push_str(
                "\nThis project's own policy, in the model: mean of each suite (promises broken)\n",
            );
            let _ = write!(out, "{:22}", "");
            for name in &policies {
                let _ = write!(out, "  {name:>16}");
            }
            out.push_str("   over MAPPER   of best fixed sets   of best known\n");
            names = policies;
        }
        let _ = write!(out, "{:22}", standing.suite);
        for stand in &standing.policies {
            let width = stand.policy.len().max(16);
            let _ = write!(out, "  {:>width$}", stand.told());
        }
        let gain = standing
            .gain()
            .map_or_else(|| "–".into(), |gain| format!("{:+.1} %", 100.0 * gain));
        let share = standing
            .of_ceiling()
            .map_or_else(|| "–".into(), |share| format!("{:.1} %", 100.0 * share));
        let known = standing
            .of_best_known()
            .map_or_else(|| "–".into(), |share| format!("{:.1} %", 100.0 * share));
        let _ = writeln!(out, "  {gain:>12}  {share:>19}  {known:>13}");
        for missed in standing.policies.iter().filter_map(Stand::missed) {
            let _ = writeln!(out, "  {missed}");
        }
    }
    if let Some(kept) = standing::kept_in_all(standings) {
        let _ = writeln!(out, "{kept}");
    }
    out
}

/// The checks of the model itself.
pub(super) fn validity(findings: &[Finding]) -> String {
    let mut out = String::new();
    let width = findings
        .iter()
        .map(|f| f.check.chars().count())
        .max()
        .unwrap_or(0);
    for finding in findings {
        let verdict = if finding.held {
            "holds"
        } else {
            "DOES NOT HOLD"
        };
        let _ = writeln!(
            out,
            "{:width$}  {}: {} ({verdict})",
            finding.check, finding.expected, finding.found
        );
    }
    out
}
