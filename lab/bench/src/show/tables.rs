//! The tables of a report as text in cells, and what needs saying below them.

use std::collections::BTreeMap;

use mapper_report::statistics::Estimate;
use mapper_report::table::{Mark, Row, Table};

use crate::data::program::Unit;
use crate::result::report::{
    Group, Judged, MixResult, ProgramResult, Promises, Results, SettingResult,
};
use crate::result::speed::{Certainty, Speed};

/// What stands where nothing was measured.
const NOTHING: &str = "–";

/// The tables of an experiment: the summaries, every mix, single figures, and what was expected.
pub(crate) fn all(results: &Results) -> Vec<Table> {
    let groups = results.groups.iter().map(|group| of_group(group, results));
    let mixes = results.mixes.iter().map(|mix| of_mix(mix, results));
    let mut tables: Vec<Table> = groups.chain(mixes).collect();
    tables.extend(figures(results));
    tables.extend(expectations(results));
    tables
}

/// The settings over a group of mixes.
pub(crate) fn of_group(group: &Group, results: &Results) -> Table {
    let method = results.method.as_ref();
    let baselines: Vec<&String> = method.iter().flat_map(|of| &of.baselines).collect();
    let against = method.and_then(|of| of.promised_against.as_ref());
    let title = |key: &String| results.title_of(key).to_owned();
    let mut header = vec!["setting".to_owned()];
    header.extend(baselines.iter().map(|key| format!("over {}", title(key))));
    let rivals: Vec<&String> = baselines
        .iter()
        .copied()
        .filter(|&key| Some(key) != against)
        .collect();
    header.extend(
        rivals
            .iter()
            .map(|key| format!("slowest mix over {}", title(key))),
    );
    let has_latency = group
        .settings
        .iter()
        .any(|of| of.over.values().any(|of| of.latency.is_some()));
    if has_latency {
        header.extend(
            baselines
                .iter()
                .map(|key| format!("p99 over {}", title(key))),
        );
    }
    if let Some(against) = against {
        header.push(format!("slowest program over {}", title(against)));
        header.push("promises broken".to_owned());
        header.push("single runs below".to_owned());
    }
    let rows = group.settings.iter().map(|of| {
        let mut cells = vec![title(&of.setting)];
        let own = |key: &str| of.over.get(key);
        let over = |key: &&String, speed: Option<Speed>| over(&of.setting, key, speed);
        cells.extend(
            baselines
                .iter()
                .map(|key| over(key, own(key).and_then(|of| of.mean))),
        );
        cells.extend(
            rivals
                .iter()
                .map(|key| value(own(key).and_then(|of| of.slowest_mix))),
        );
        if has_latency {
            cells.extend(
                baselines
                    .iter()
                    .map(|key| over(key, own(key).and_then(|of| of.latency))),
            );
        }
        if against.is_some() {
            cells.push(value(of.slowest_program));
            cells.extend(promises(of.promises.as_ref()));
        }
        row(cells, &of.setting, results)
    });
    let plural = if group.mixes == 1 { "mix" } else { "mixes" };
    Table {
        title: format!("{} ({} {plural})", group.title, group.mixes),
        header,
        rows: rows.collect(),
    }
}

fn row(cells: Vec<String>, setting: &str, results: &Results) -> Row {
    let is_managed = results.setting(setting).is_some_and(|of| of.is_managed);
    Row {
        cells,
        mark: if is_managed { Mark::Own } else { Mark::None },
    }
}

fn promises(promises: Option<&Promises>) -> [String; 2] {
    promises.map_or_else(
        || [NOTHING.to_owned(), NOTHING.to_owned()],
        |of| {
            [
                format!("{} of {}", of.broken.len(), of.made),
                format!("{} of {}", of.runs_below, of.runs),
            ]
        },
    )
}

/// A mix under each of its settings.
pub(crate) fn of_mix(mix: &MixResult, results: &Results) -> Table {
    let method = results.method.as_ref();
    let measured = |key: &&String| mix.settings.iter().any(|of| of.setting == **key);
    let baselines: Vec<&String> = method
        .iter()
        .flat_map(|of| &of.baselines)
        .filter(measured)
        .collect();
    let against = method
        .and_then(|of| of.promised_against.as_ref())
        .filter(measured);
    let mut header = vec!["setting".to_owned()];
    header.extend(mix.programs.iter().map(|program| match program.unit {
        Unit::Seconds => format!("{}, s", program.name),
        Unit::P99 => format!("{}, p99 ms", program.name),
    }));
    header.extend(
        baselines
            .iter()
            .map(|key| format!("over {}", results.title_of(key))),
    );
    if let Some(against) = against {
        header.push(format!("each over {}", results.title_of(against)));
    }
    let cells = |of: &SettingResult| {
        let mut cells = vec![results.title_of(&of.setting).to_owned()];
        cells.extend(of.programs.iter().map(cost));
        let speed = |key: &String, of: &BTreeMap<String, Speed>| of.get(key).copied();
        cells.extend(
            baselines
                .iter()
                .map(|key| over(&of.setting, key, speed(key, &of.over))),
        );
        if let Some(against) = against {
            let programs = of.programs.iter();
            let each: Vec<String> = programs.map(|of| value(speed(against, &of.over))).collect();
            cells.push(each.join(" "));
        }
        row(cells, &of.setting, results)
    };
    let side_by_side = if mix.programs.len() == 1 {
        " alone"
    } else {
        ""
    };
    Table {
        title: format!("{}{side_by_side}", mix.name),
        header,
        rows: mix.settings.iter().map(cells).collect(),
    }
}

/// A cost with its interval, and a mark where the median is only a lower limit.
fn cost(of: &ProgramResult) -> String {
    let Some(cost) = of.cost else {
        return NOTHING.to_owned();
    };
    let over = if of.certainty == Certainty::Exact {
        ""
    } else {
        ">"
    };
    format!("{over}{}{}", digits(cost.value), interval(&cost, digits))
}

/// An interval in brackets; nothing where it has no width, as that of one run.
fn interval(of: &Estimate, digits: impl Fn(f64) -> String) -> String {
    let [low, high] = [of.low, of.high].map(digits);
    if low == high {
        return String::new();
    }
    format!(" ({low}–{high})")
}

/// Three digits that count, no more than three after the point.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        ..1.0 => format!("{value:.3}"),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The speed of a setting over `base`, with its interval; a setting beside itself has none.
fn over(own: &str, base: &str, speed: Option<Speed>) -> String {
    match speed {
        _ if own == base => "1".to_owned(),
        None => NOTHING.to_owned(),
        Some(of) => {
            let range = interval(&of.estimate, |value| format!("{value:.2}"));
            format!("{}{:.2}{range}", of.certainty.mark(), of.estimate.value)
        }
    }
}

/// A speed without its interval.
pub(crate) fn value(speed: Option<Speed>) -> String {
    speed.map_or_else(
        || NOTHING.to_owned(),
        |of| format!("{}{:.2}", of.certainty.mark(), of.estimate.value),
    )
}

/// Single figures, if there are any.
pub(crate) fn figures(results: &Results) -> Option<Table> {
    let rows = results.figures.iter().map(|of| Row {
        cells: vec![
            of.name.clone(),
            format!("{} {}", digits(of.estimate.value), of.unit),
            format!("{} – {}", digits(of.estimate.low), digits(of.estimate.high)),
            of.samples.to_string(),
        ],
        mark: Mark::None,
    });
    (!results.figures.is_empty()).then(|| Table {
        title: "Figures".to_owned(),
        header: ["figure", "median", "range", "samples"]
            .map(String::from)
            .to_vec(),
        rows: rows.collect(),
    })
}

/// What was expected and what was found, if anything was expected.
pub(crate) fn expectations(results: &Results) -> Option<Table> {
    let has_published = results.expectations.iter().any(|of| of.published.is_some());
    let mut header = ["expected", "wanted", "found", "verdict"]
        .map(String::from)
        .to_vec();
    if has_published {
        header.push("published".to_owned());
    }
    let row = |of: &Judged| {
        let found = of.found.map_or_else(
            || "not measured".to_owned(),
            |found| {
                format!(
                    "{}{}{}",
                    digits(found.value),
                    of.unit,
                    interval(&found, digits)
                )
            },
        );
        let verdict = if of.is_met { "met" } else { "MISSED" };
        let mut cells = vec![
            of.name.clone(),
            of.wanted.text(&of.unit),
            found,
            verdict.to_owned(),
        ];
        if has_published {
            cells.push(of.published.clone().unwrap_or_default());
        }
        Row {
            cells,
            mark: if of.is_met { Mark::Met } else { Mark::Missed },
        }
    };
    (!results.expectations.is_empty()).then(|| Table {
        title: "Expectations".to_owned(),
        header,
        rows: results.expectations.iter().map(row).collect(),
    })
}

/// What needs saying below the tables, a line each.
pub(crate) fn notes(results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    for group in &results.groups {
        for of in &group.settings {
            let broken = of.promises.as_ref().map(|promises| &promises.broken);
            let is_managed = results.setting(&of.setting).is_some_and(|of| of.is_managed);
            if let Some(broken) = broken.filter(|broken| !broken.is_empty() && is_managed) {
                lines.push(format!(
                    "Promises broken under {}, {}: {}.",
                    results.title_of(&of.setting),
                    group.title,
                    broken.join("; ")
                ));
            }
        }
    }
    if results.method.is_some() {
        lines.push(format!(
            "Wrong results: {}. Programs ended at the time limit: {}.",
            results.wrong_results, results.timed_out
        ));
    }
    for mix in &results.mixes {
        for of in &mix.settings {
            let title = results.title_of(&of.setting);
            let wrong = of
                .wrong
                .iter()
                .map(|wrong| format!("WRONG RESULT in {} under {title}: {wrong}", mix.name));
            let notes = of
                .notes
                .iter()
                .map(|note| format!("{} under {title}: {note}", mix.name));
            lines.extend(wrong.chain(notes));
        }
    }
    for of in &results.not_measured {
        lines.push(format!("{} was not measured: {}", of.what, of.why));
    }
    lines.extend(circumstances(results));
    lines.extend(results.caution());
    lines
}

fn circumstances(results: &Results) -> Vec<String> {
    let machine = &results.machine;
    let mut lines = vec![format!(
        "{} CPUs ({}{}), Linux {}, {}, revision {}, {}.",
        machine.cpus,
        machine.cpu,
        if machine.virtual_machine {
            ", virtual machine"
        } else {
            ""
        },
        machine.kernel,
        machine.compilers.join(", "),
        machine.revision,
        machine.date,
    )];
    if let Some(daemon) = &results.daemon {
        lines.push(format!(
            "mapperd {}: allocation {}, mapping {}, CPUs by {}, performance by {}.",
            daemon.version, daemon.allocation, daemon.mapping, daemon.enforcer, daemon.counters
        ));
    }
    if let (Some(method), Some(load)) = (&results.method, &results.load) {
        let plural = if method.repetitions_done == 1 {
            "repetition"
        } else {
            "repetitions"
        };
        lines.push(format!(
            "{} of {} {plural} in {:.0} s. Load average before {:.2}; just before a run {:.1} other \
             threads were runnable on average ({} at most); during runs other processes used {:.2} \
             CPUs on average ({:.2} at most), the hypervisor {:.2}.",
            method.repetitions_done,
            method.method.repetitions,
            results.elapsed_s,
            load.average_before,
            load.runnable_mean,
            load.runnable_most,
            load.others_mean,
            load.others_most,
            load.stolen_mean,
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::results::tests::example;

    #[test]
    fn a_setting_is_1_beside_itself_and_only_there() {
        let same = Speed {
            estimate: Estimate {
                value: 1.0,
                low: 1.0,
                high: 1.0,
            },
            certainty: Certainty::AtMost,
        };
        assert_eq!(over("plain", "plain", Some(same)), "1");
        assert_eq!(over("static", "plain", Some(same)), "≤1.00");
        let wide = Estimate {
            high: 1.5,
            ..same.estimate
        };
        let wide = Speed {
            estimate: wide,
            ..same
        };
        assert_eq!(over("static", "plain", Some(wide)), "≤1.00 (1.00–1.50)");
        assert_eq!(over("static", "plain", None), NOTHING);
    }

    #[test]
    fn three_digits_count() {
        let found: Vec<String> = [0.1234, 9.876, 12.345, 1234.5].map(digits).to_vec();
        assert_eq!(found, ["0.123", "9.88", "12.3", "1234"]);
    }

    #[test]
    fn every_row_has_a_cell_for_each_column_and_latencies_are_shown() {
        let tables = all(&example());
        assert!(tables.len() >= 4, "{tables:?}");
        for table in &tables {
            for row in &table.rows {
                assert_eq!(row.cells.len(), table.header.len(), "{table:?}");
            }
        }
        assert!(
            tables[0]
                .header
                .contains(&"p99 over plain Linux".to_owned()),
            "{tables:?}"
        );
    }

    #[test]
    fn a_median_at_the_limit_is_marked() {
        let table = of_mix(&example().mixes[0], &example());
        assert!(table.rows[0].cells[1].starts_with('>'), "{table:?}");
        // Speeds over it are lower limits.
        assert!(table.rows[2].cells[3].starts_with('≥'), "{table:?}");
    }

    #[test]
    fn wrong_results_broken_promises_and_notes_of_the_daemon_are_reported() {
        let notes = notes(&example()).join("\n");
        for part in [
            "WRONG RESULT in md+cg under mapper: md <is> wrong",
            "server in server+matmul at 0.50",
            "threads wait",
            "Wrong results: 1.",
        ] {
            assert!(notes.contains(part), "{part} is not in\n{notes}");
        }
    }
}
