//! The results as tables of text, for the terminal and for the page.

use super::evaluation::Evaluation;
use super::policies;
use super::standing::{self, Stand, Standing};
use super::tables::{Cell, SuiteTable};
use super::targets::{Line, Score, Unjudged, Verdict};
use super::validity::Finding;
use mapper_report::output::counted;
use mapper_report::table::{Mark, Row, Table, texts};
use std::fmt::Write as _;

fn row(mark: Mark, cells: impl IntoIterator<Item = String>) -> Row {
    let cells = cells.into_iter().collect();
    Row { cells, mark }
}

fn table(title: &str, header: Vec<String>, rows: impl IntoIterator<Item = Row>) -> Table {
    Table {
        title: title.into(),
        header,
        rows: rows.into_iter().collect(),
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

/// A suite: a line for each mix and one for their mean, a column for each policy.
pub(super) fn suite(table: &SuiteTable) -> Table {
    let suite = &table.suite;
    let line = |mark, first: String, value: &dyn Fn(&String) -> Option<f64>| {
        let values = suite.policies.iter().map(value);
        let values = values.map(|value| or_dash(value.map(|value| format!("{value:.3}"))));
        row(mark, std::iter::once(first).chain(values))
    };
    let rows = table.mixes.iter().map(|row| {
        let star = if row.assumed { "*" } else { "" };
        let value = |name: &String| Some(row.policies.get(name)?.value);
        line(Mark::None, format!("{}{star}", row.mix), &value)
    });
    let mean = |name: &String| table.overall.get(name).copied();
    let mean = line(Mark::Own, "geometric mean".into(), &mean);
    let header = std::iter::once("mix").chain(suite.policies.iter().map(String::as_str));
    let title = format!("{} ({}, in the model)", suite.title, suite.machine);
    self::table(&title, texts(header), rows.chain([mean]))
}

/// What is to be said of a suite's numbers.
pub(super) fn notes(table: &SuiteTable) -> Vec<String> {
    let mut notes = Vec::new();
    if !table.suite.assumed.is_empty() {
        notes.push("* not named in the text of the paper".to_owned());
    }
    if table.incomplete > 0 {
        let mixes = counted(table.incomplete, "mix");
        notes.push(format!(
            "{mixes} left out: stopped before all of its runs were done"
        ));
    }
    notes.extend(table.without_mean_shown());
    notes
}

pub(super) fn programs(table: &SuiteTable) -> Table {
    let mut rows = Vec::new();
    for mix in &table.mixes {
        for name in &table.suite.policies {
            let Some(cell) = mix.policies.get(name) else {
                continue;
            };
            let apps = cell.apps.iter().map(|app| {
                let p99 = app.p99_ms.map(|ms| format!(", p99 {ms:.1} ms"));
                let cpus = format!("{:.0} CPUs{}", app.mean_cpus, p99.unwrap_or_default());
                format!("{} {:.3} on {cpus}", app.name, app.speed)
            });
            let apps = texts(apps).join("; ");
            let (value, rewrites) = (cell.value, cell.rewrites_per_s);
            let numbers = [format!("{value:.3}"), apps, format!("{rewrites:.2}")];
            let names = [mix.mix.clone(), name.clone()];
            rows.push(row(Mark::None, names.into_iter().chain(numbers)));
        }
    }
    let header = texts(["mix", "policy", "value", "programs", "rewrites/s"]);
    self::table("Programs", header, rows)
}

/// How often CPU sets were written and how many CPUs moved by it [MAPPER Table 4]; nothing where none were.
pub(super) fn reallocation(table: &SuiteTable) -> Option<Table> {
    let cells = |policy: &String| -> Vec<Option<&Cell>> {
        let rows = table.mixes.iter();
        rows.map(|row| row.policies.get(policy)).collect()
    };
    let rate = |cell: &&Cell| cell.rewrites_per_s;
    let writes = |policy: &&String| cells(policy).iter().flatten().map(rate).sum::<f64>() > 0.0;
    let policies: Vec<&String> = table.suite.policies.iter().filter(writes).collect();
    let columns = policies.iter();
    let columns = columns.flat_map(|of| [format!("{of} sets"), format!("{of} CPUs")]);
    let header = std::iter::once("mix".to_owned()).chain(columns).collect();
    let rows = table.mixes.iter().map(|mix| {
        let numbers = policies.iter().flat_map(|policy| {
            let cell = mix.policies.get(*policy);
            let numbers = cell.map(|cell| [cell.rewrites_per_s, cell.moves_per_s]);
            numbers.map_or(["–", "–"].map(String::from), |of| {
                of.map(|of| format!("{of:.2}"))
            })
        });
        row(Mark::None, std::iter::once(mix.mix.clone()).chain(numbers))
    });
    let title = "CPU sets written per second, and CPUs that changed hands";
    (!policies.is_empty()).then(|| self::table(title, header, rows))
}

/// Every target that was computed, those outside their band first.
pub(super) fn targets(lines: &[Line]) -> Table {
    let shown = lines.iter().filter(|line| line.verdict != Verdict::NotRun);
    let rows = shown.map(|line| {
        let (mark, verdict) = match line.verdict {
            Verdict::Outside => (Mark::Missed, "OUTSIDE"),
            other => (Mark::None, other.shown()),
        };
        let numbers = [line.paper, line.model.unwrap_or(f64::NAN)].map(|of| line.shown(of));
        let names = [format!("{} {}", line.id, line.what)];
        let rest = [
            line.band(),
            line.uses.shown().to_owned(),
            verdict.to_owned(),
        ];
        row(mark, names.into_iter().chain(numbers).chain(rest))
    });
    let header = texts(["number", "paper", "model", "band", "use", ""]);
    table(
        "Published numbers, in the model; outside their band first",
        header,
        rows,
    )
}

/// This project's own policy beside MAPPER as printed and the best fixed sets: a table for suites with the same
/// policies.
pub(super) fn standings(standings: &[Standing]) -> Vec<Table> {
    let policies = |of: &Standing| texts(of.policies.iter().map(|stand| &stand.policy));
    let groups = standings.chunk_by(|one, other| policies(one) == policies(other));
    let percent = |value: Option<f64>| or_dash(value.map(|of| format!("{:.1} %", 100.0 * of)));
    let of_group = |group: &[Standing]| {
        let names = group.first().map(&policies).unwrap_or_default();
        let titles = names.iter().map(|name| policies::title(name).to_owned());
        let last = ["over MAPPER", "of best fixed sets", "of best known"].map(String::from);
        let rows = group.iter().map(|standing| {
            let gain = standing.gain().map(|of| format!("{:+.1} %", 100.0 * of));
            let shares = [standing.of_ceiling(), standing.of_best_known()].map(percent);
            let stands = standing.policies.iter().map(Stand::shown);
            let cells = std::iter::once(standing.suite.clone()).chain(stands);
            row(Mark::None, cells.chain([or_dash(gain)]).chain(shares))
        });
        let header = std::iter::once("suite".to_owned())
            .chain(titles)
            .chain(last);
        let title = "This project's own policy, in the model: mean of each suite (promises broken)";
        table(title, header.collect(), rows)
    };
    groups.map(of_group).collect()
}

pub(super) fn validity(findings: &[Finding]) -> Table {
    let rows = findings.iter().map(|finding| {
        let (mark, verdict) = match finding.held {
            true => (Mark::Met, "holds"),
            false => (Mark::Missed, "DOES NOT HOLD"),
        };
        let [check, expected, found] = [&finding.check, finding.expected, &finding.found];
        row(mark, texts([check, expected, found, verdict]))
    });
    let header = texts(["check", "expected", "found", ""]);
    table("Checks of the model itself", header, rows)
}

pub(super) fn text(evaluation: &Evaluation<'_>) -> String {
    let mut out = String::new();
    let mut add = |table: &Table, notes: &[String]| {
        if !table.rows.is_empty() {
            let _ = writeln!(out, "\n{}", table.terminal().trim_end());
        }
        for note in notes {
            let _ = writeln!(out, "{note}");
        }
    };
    for table in evaluation.suites {
        add(&suite(table), &notes(table));
        let table1 = evaluation.nucore_table1.iter();
        for table1 in table1.filter(|of| of.suite == table.suite.name) {
            add(&table1.table(), &table1.agreements());
        }
        if table.suite.name == "mix" {
            add(&programs(table), &[]);
        }
    }
    add(&validity(evaluation.validity), &[]);
    let missed = |of: &Standing| -> Vec<String> {
        let missed = of.policies.iter().filter_map(Stand::missed);
        missed.map(|how| format!("{}: {how}", of.suite)).collect()
    };
    for table in standings(evaluation.standings) {
        add(&table, &[]);
    }
    let mut notes: Vec<String> = evaluation.standings.iter().flat_map(missed).collect();
    notes.extend(standing::kept_in_all(evaluation.standings));
    let lines = evaluation.targets;
    let cause = |line: &Line| {
        let why = &line.cause.as_ref()?.cause;
        Some(format!("{} {}: {why}", line.id, line.what))
    };
    let mut below: Vec<String> = lines.iter().filter_map(cause).collect();
    if lines.iter().any(|line| line.verdict != Verdict::NotRun) {
        for Unjudged { ids, what, why } in evaluation.unjudged {
            below.push(format!("not judged: {ids}: {what} ({why})"));
        }
    }
    if let Some(score) = Score::of(lines) {
        let exact = score.exact_shown().map(|score| format!("; {score}"));
        let exact = exact.unwrap_or_default();
        let Score { inside, judged, .. } = score;
        below.push(format!("{inside} of {judged} inside{exact}"));
    }
    let empty = targets(&[]);
    add(&empty, &notes);
    add(&targets(lines), &below);
    out
}

#[cfg(test)]
mod tests {
    use super::super::examples::{changed_tables_of, judged, tables_of};
    use super::*;

    fn cells(table: &Table, at: usize) -> Vec<&str> {
        table.rows[at].cells.iter().map(String::as_str).collect()
    }

    #[test]
    fn a_suite_is_a_line_for_each_mix_and_one_for_their_mean_or_a_dash_and_mixes_left_out_counted()
    {
        let mut table = tables_of(&[
            "s | 20 SGD, 20 ALS | linux 0.8 | mapper-paper 1",
            "s | SVD | linux 0.5 | mapper-paper 1",
        ])
        .remove(0);
        table.suite.assumed = vec!["SVD".into()];
        table.mixes[1].assumed = true;
        let shown = super::suite(&table);
        assert_eq!(shown.header, ["mix", "linux", "mapper-paper"]);
        assert_eq!(cells(&shown, 0), ["20 SGD, 20 ALS", "0.800", "1.000"]);
        assert_eq!(cells(&shown, 1), ["SVD*", "0.500", "1.000"]);
        assert_eq!(cells(&shown, 2), ["geometric mean", "0.632", "1.000"]);
        assert!(shown.title.contains("in the model"), "{}", shown.title);
        table.overall.clear();
        assert_eq!(cells(&super::suite(&table), 2)[1..], ["–", "–"]);

        assert_eq!(notes(&table), ["* not named in the text of the paper"]);
        table.incomplete = 1;
        assert!(notes(&table)[1].starts_with("1 mix left out: stopped"));
    }

    #[test]
    fn programs_are_listed_with_their_cpus_and_services_with_their_latency() {
        let rows = ["mix | SGD, memcached | linux 0.8 0.9"];
        let tables = changed_tables_of(&rows, &|_, _, run| run.apps[1].p99_s = Some(0.0125));
        let expected = "SGD 0.800 on 10 CPUs; memcached 0.900 on 10 CPUs, p99 12.5 ms";
        assert_eq!(cells(&programs(&tables[0]), 0)[3], expected);
    }

    #[test]
    fn writes_are_shown_of_the_policies_that_write() {
        let writing = |rate: f64| {
            let rows = [
                "s | SGD | linux 1 | mapper 1",
                "s | ALS | linux 1 | mapper 1",
            ];
            let tables = changed_tables_of(&rows, &|_, policy, run| {
                run.rewrites_per_s = if policy == "mapper" { rate } else { 0.0 };
                run.moves_per_s = 4.0 * run.rewrites_per_s;
            });
            reallocation(&tables[0])
        };
        let shown = writing(0.5).unwrap();
        assert_eq!(shown.header, ["mix", "mapper sets", "mapper CPUs"]);
        assert_eq!(cells(&shown, 1), ["ALS", "0.50", "2.00"]);
        assert_eq!(writing(0.0), None);
    }

    fn lines(name: &str) -> Vec<Line> {
        let speeds = "linux 0.8 | fair 1 | mapper-paper 0.3 | hill_climb 0.3";
        judged(&tables_of(&[&format!("{name} | SGD, ALS | {speeds}")]))
    }

    #[test]
    fn numbers_outside_come_first_and_those_not_run_are_not_listed() {
        let shown = targets(&lines("mapper-fig2"));
        let verdicts: Vec<&str> = shown.rows.iter().map(|row| &*row.cells[5]).collect();
        assert_eq!(verdicts[0], "OUTSIDE");
        let inside = verdicts.iter().position(|of| *of == "inside").unwrap();
        assert!(!verdicts[inside..].contains(&"OUTSIDE"), "{verdicts:?}");
        // MP-3's Linux is what was made up to be published.
        let linux = shown.rows.iter().find(|row| row.cells[0] == "MP-3 Linux");
        assert_eq!(linux.unwrap().cells[5], "inside");
        let mut rows = shown.rows.iter();
        assert!(!rows.any(|row| row.cells[0].starts_with("SM-5")));
        assert_eq!(targets(&lines("mix")).rows, []);
    }

    #[test]
    fn causes_and_the_score_of_the_lines_above_stand_below_them() {
        let lines = lines("mapper-fig2");
        let unjudged = super::super::targets::unjudged().unwrap();
        let mut evaluation = super::super::examples::evaluation();
        (evaluation.targets, evaluation.unjudged) = (&lines, &unjudged);
        let text = super::text(&evaluation);
        let count = |of| lines.iter().filter(|line| line.verdict == of).count();
        let (inside, outside) = (count(Verdict::Inside), count(Verdict::Outside));
        assert!(inside > 0 && outside > 0);
        let score = format!("{inside} of {} inside", inside + outside);
        assert_eq!(text.lines().last().unwrap(), score);
        let cause = lines.iter().find_map(|line| line.cause.as_ref()).unwrap();
        let place = |part: &str| text.find(part).unwrap();
        assert!(place(&cause.cause) < place("not judged: "), "{text}");
        evaluation.targets = &[];
        assert_eq!(super::text(&evaluation), "");
    }

    #[test]
    fn a_check_that_does_not_hold_cannot_be_read_over() {
        let finding = |held| Finding {
            check: "Figure 2".into(),
            expected: "a > b",
            found: "a 1, b 2".into(),
            held,
        };
        let shown = validity(&[finding(true), finding(false)]);
        assert_eq!(cells(&shown, 0), ["Figure 2", "a > b", "a 1, b 2", "holds"]);
        assert_eq!(cells(&shown, 1)[3], "DOES NOT HOLD");
        let marks = [shown.rows[0].mark, shown.rows[1].mark];
        assert_eq!(marks, [Mark::Met, Mark::Missed]);
    }

    #[test]
    fn a_standing_shows_its_gain_its_shares_and_the_missed_promises_beside_those_with_its_policies()
    {
        let row = "mapper-fig2 | SGD, ALS | mapper-next 0.8 | mapper-paper 0.64 | oracle 1";
        let standings = standing::standings(&tables_of(&[row]));
        let mut evaluation = super::super::examples::evaluation();
        evaluation.standings = &standings;
        let text = super::text(&evaluation);
        for part in [
            "0.800 (2/2)",
            "+25.0 %",
            "80.0 %",
            "missed by mapper-next: 2 of 2",
            "mapper-next in all of them: 2 of 2",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let tables = tables_of(&[
            "a | SGD | mapper-next 0.9 | mapper-paper 0.9",
            "b | SGD | mapper-next 0.9 | mapper-paper 0.9",
            "c | SGD | mapper-next 0.9",
        ]);
        let shown = super::standings(&standing::standings(&tables));
        let rows: Vec<usize> = shown.iter().map(|table| table.rows.len()).collect();
        assert_eq!(rows, [2, 1]);
        assert_eq!(super::standings(&[]), []);
    }
}
