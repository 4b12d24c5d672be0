//! Tables for the terminal.

use super::policies;
use super::standing::{self, Stand, Standing};
use super::tables::SuiteTable;
use super::targets::{Line, Score, Unjudged, Verdict};
use super::validity::Finding;
use mapper_report::output::counted;
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
            "{} left out: stopped before all of its runs were done",
            counted(table.incomplete, "mix")
        );
    }
    if let Some(told) = table.without_mean_told() {
        let _ = writeln!(out, "{told}");
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
pub(super) fn targets(lines: &[Line], unjudged: &[Unjudged]) -> String {
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
    for of in unjudged {
        let _ = writeln!(
            out,
            "{:10}  {}: {} ({})",
            "not judged", of.ids, of.what, of.why
        );
    }
    if let Some(score) = Score::of(lines) {
        let exact = score
            .exact_told()
            .map_or_else(String::new, |score| format!("; {score}"));
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

#[cfg(test)]
mod tests {
    use super::super::examples::{at_speed, model, ran, suite, table, table_of};
    use super::super::targets::{self, Book, Explained};
    use super::*;

    fn two_mixes() -> SuiteTable {
        let mut suite = suite("s", &["20 SGD, 20 ALS", "SVD"], &["linux", "mapper-paper"]);
        suite.assumed = vec!["SVD".into()];
        table_of(&suite, &|mix, policy| match (mix, policy) {
            ("SVD", "linux") => 0.5,
            (_, "linux") => 0.8,
            _ => 1.0,
        })
    }

    #[test]
    fn a_suite_is_a_line_for_each_mix_and_one_for_their_mean_under_aligned_titles() {
        let text = suite_lines(&two_mixes());
        assert_eq!(text[1], "                linux  mapper-paper");
        assert_eq!(text[2], "20 SGD, 20 ALS  0.800         1.000");
        assert_eq!(text[3], "SVD*            0.500         1.000");
        assert_eq!(text[4], "geometric mean  0.632         1.000");
        assert!(text[0].contains("in the model"), "{}", text[0]);
        assert!(text[5].starts_with("* not named"), "{}", text[5]);
        assert_eq!(text.len(), 6);
    }

    fn suite_lines(table: &SuiteTable) -> Vec<String> {
        let text = super::suite(table);
        text.trim().lines().map(str::to_owned).collect()
    }

    #[test]
    fn mixes_that_were_left_out_are_counted() {
        let mut table = two_mixes();
        assert!(!super::suite(&table).contains("left out"));
        table.mixes.pop();
        table.incomplete = 1;
        assert!(super::suite(&table).contains("1 mix left out: stopped"));
    }

    #[test]
    fn a_mean_that_there_is_not_is_a_dash() {
        let mut table = two_mixes();
        table.overall.clear();
        assert!(suite_lines(&table)[4].ends_with('–'));
    }

    #[test]
    fn programs_are_listed_with_their_cpus_and_services_with_their_latency() {
        let suite = suite("mix", &["SGD, memcached"], &["linux"]);
        let text = programs(&table(&suite, &|_, _| {
            let mut run = ran(&[("SGD", 0.8), ("memcached", 0.9)]);
            run.apps[1].p99_s = Some(0.0125);
            run
        }));
        assert!(text.contains("SGD 0.800 on 10 CPUs;"), "{text}");
        assert!(
            text.contains("memcached 0.900 on 10 CPUs, p99 12.5 ms"),
            "{text}"
        );
    }

    fn lines(name: &str) -> Vec<Line> {
        let suite = suite(
            name,
            &["SGD, ALS"],
            &["linux", "fair", "mapper-paper", "hill_climb"],
        );
        let tables = [table(&suite, &|mix, policy| {
            at_speed(mix, if policy == "linux" { 0.8 } else { 0.3 })
        })];
        let book = Book {
            tables: &tables,
            model: model(),
        };
        targets::judge(&book, Explained::of_newest()).unwrap()
    }

    #[test]
    fn a_number_outside_its_band_comes_first_with_its_cause() {
        let text = targets_text(&lines("mapper-fig2"));
        let first = text.trim().lines().nth(1).unwrap();
        assert!(first.starts_with("OUTSIDE"), "{first}");
        let place = |part: &str| text.find(part).unwrap();
        assert!(place("OUTSIDE") < place("\ninside"));
        assert!(place("\ninside") < place("not judged"));
        // MP-3's Linux is what was made up to be published.
        let linux = text
            .lines()
            .find(|line| line.contains("MP-3") && line.contains("Linux"));
        assert!(linux.unwrap().starts_with("inside"), "{linux:?}");
    }

    fn targets_text(lines: &[Line]) -> String {
        super::targets(lines, &targets::unjudged().unwrap())
    }

    #[test]
    fn a_number_that_was_not_run_is_not_listed_and_without_any_there_is_no_table() {
        let text = targets_text(&lines("mapper-fig2"));
        assert!(!text.contains("SM-5") && !text.contains("NaN"), "{text}");
        assert_eq!(targets_text(&lines("mix")), "");
    }

    #[test]
    fn the_score_is_that_of_the_lines_above_it() {
        let lines = lines("mapper-fig2");
        let text = targets_text(&lines);
        let told = |begins: &str| text.lines().filter(|line| line.starts_with(begins)).count();
        let (inside, outside) = (told("inside"), told("OUTSIDE"));
        assert!(inside > 0 && outside > 0);
        let score = format!("{inside} of {} inside", inside + outside);
        assert_eq!(text.lines().last().unwrap(), score);
    }

    #[test]
    fn a_check_that_does_not_hold_cannot_be_read_over() {
        let finding = |held| Finding {
            check: "Figure 2".into(),
            expected: "a > b",
            found: "a 1, b 2".into(),
            held,
        };
        let text = validity(&[finding(true), finding(false)]);
        assert_eq!(
            text,
            "Figure 2  a > b: a 1, b 2 (holds)\nFigure 2  a > b: a 1, b 2 (DOES NOT HOLD)\n"
        );
    }

    #[test]
    fn a_standing_shows_its_gain_its_shares_and_the_missed_promises() {
        let policies = ["mapper-next", "mapper-paper", "oracle"];
        let suite = suite("mapper-fig2", &["SGD, ALS"], &policies);
        let table = table_of(&suite, &|_, policy| match policy {
            "mapper-next" => 0.8,
            "mapper-paper" => 0.64,
            _ => 1.0,
        });
        let text = super::standings(&standing::standings(&[table]));
        for part in [
            "0.800 (2/2)",
            "+25.0 %",
            "80.0 %",
            "missed by mapper-next: 2 of 2",
            "mapper-next in all of them: 2 of 2",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn suites_with_other_policies_get_titles_of_their_own() {
        let standing = |name: &str, policies: &[&str]| {
            let suite = suite(name, &["SGD"], policies);
            standing::standings(&[table_of(&suite, &|_, _| 0.9)]).remove(0)
        };
        let both = ["mapper-next", "mapper-paper"];
        let text = super::standings(&[
            standing("a", &both),
            standing("b", &both),
            standing("c", &["mapper-next"]),
        ]);
        assert_eq!(text.matches("This project's own policy").count(), 2);
        assert_eq!(super::standings(&[]), "");
    }
}
