//! The tables of a report as text in cells, and what needs saying below them.

use mapper_report::statistics::Estimate;
use mapper_report::table::{Mark, Row, Table};

use crate::data::{BEST, Unit};
use crate::result::{
    Certainty, Figure, Group, Judged, MemberEntry, MixResult, ProgramResult, Results,
    SettingResult, Speed, Summary,
};

/// What stands where nothing was measured.
const NOTHING: &str = "–";

/// Gives the cell of a column in the row of a `T`.
type InRow<'a, T> = Box<dyn Fn(&T) -> String + 'a>;

/// The columns of a table by their names.
struct Columns<'a, T>(Vec<(String, InRow<'a, T>)>);

impl<'a, T> Columns<'a, T> {
    fn new(name: &str, cell: impl Fn(&T) -> String + 'a) -> Self {
        let mut columns = Self(Vec::new());
        columns.add(name, cell);
        columns
    }

    fn add(&mut self, name: impl Into<String>, cell: impl Fn(&T) -> String + 'a) {
        self.0.push((name.into(), Box::new(cell)));
    }

    fn table(self, title: String, rows: &[T], mark: impl Fn(&T) -> Mark) -> Table {
        let row = |of: &T| Row {
            cells: self.0.iter().map(|(_, cell)| cell(of)).collect(),
            mark: mark(of),
        };
        Table {
            title,
            rows: rows.iter().map(row).collect(),
            header: self.0.into_iter().map(|(name, _)| name).collect(),
        }
    }
}

/// The tables of an experiment: the summaries, every mix, single figures, and what was expected.
pub(crate) fn all(results: &Results) -> Vec<Table> {
    let groups = results.groups.iter().map(|group| of_group(group, results));
    let mixes = results.mixes.iter().map(|mix| of_mix(mix, results));
    let mut tables: Vec<Table> = groups.chain(mixes).collect();
    tables.extend(figures(results));
    tables.extend(expectations(results));
    tables
}

pub(crate) fn of_group(group: &Group, results: &Results) -> Table {
    let title = |key: &str| results.title_of(key).to_owned();
    let (baselines, against) = (results.baselines(), results.promised_against());
    let mut columns = Columns::new("setting", |of: &Summary| title(&of.setting));
    for key in baselines {
        columns.add(format!("over {}", title(key)), |of| {
            over(&of.setting, key, of.over.get(key).and_then(|of| of.mean))
        });
    }
    for key in baselines.iter().filter(|key| Some(*key) != against) {
        columns.add(format!("slowest mix over {}", title(key)), |of| {
            value(of.over.get(key).and_then(|of| of.slowest_mix))
        });
    }
    let mut compared = group.settings.iter().flat_map(|of| of.over.values());
    if compared.any(|of| of.latency.is_some()) {
        for key in baselines {
            columns.add(format!("p99 over {}", title(key)), |of| {
                over(&of.setting, key, of.over.get(key).and_then(|of| of.latency))
            });
        }
    }
    if let Some(against) = against {
        columns.add(format!("slowest program over {}", title(against)), |of| {
            value(of.over.get(against).and_then(|of| of.slowest_program))
        });
        let of_all = |of: Option<(usize, usize)>| {
            of.map_or_else(
                || NOTHING.to_owned(),
                |(part, all)| format!("{part} of {all}"),
            )
        };
        columns.add("promises broken", move |of| {
            of_all(of.promises.as_ref().map(|of| (of.broken.len(), of.made)))
        });
        columns.add("single runs below", move |of| {
            of_all(of.promises.as_ref().map(|of| (of.runs_below, of.runs)))
        });
    }
    let plural = if group.mixes == 1 { "mix" } else { "mixes" };
    let heading = format!("{} ({} {plural})", group.title, group.mixes);
    columns.table(heading, &group.settings, |of| mark(&of.setting, results))
}

fn mark(setting: &str, results: &Results) -> Mark {
    let is_managed = results.setting(setting).is_some_and(|of| of.is_managed);
    if is_managed { Mark::Own } else { Mark::None }
}

pub(crate) fn of_mix(mix: &MixResult, results: &Results) -> Table {
    let title = |key: &str| results.title_of(key).to_owned();
    let mut columns = Columns::new("setting", |of: &SettingResult| title(&of.setting));
    for (at, MemberEntry { name, unit, .. }) in mix.programs.iter().enumerate() {
        let unit = match unit {
            Unit::Seconds => "s",
            Unit::P99 => "p99 ms",
        };
        columns.add(format!("{name}, {unit}"), move |of| cost(&of.programs[at]));
    }
    let baselines = results.baselines().iter();
    for key in baselines.filter(|key| *key == BEST || mix.under(key).is_some()) {
        columns.add(format!("over {}", title(key)), |of| {
            over(&of.setting, key, of.over.get(key).copied())
        });
    }
    let against = results.promised_against();
    if let Some(against) = against.filter(|key| mix.under(key).is_some()) {
        columns.add(format!("each over {}", title(against)), |of| {
            let each = of.programs.iter().map(|of| of.over.get(against).copied());
            each.map(value).collect::<Vec<_>>().join(" ")
        });
    }
    let alone = if mix.programs.len() == 1 {
        " alone"
    } else {
        ""
    };
    let heading = mix.name.clone() + alone;
    columns.table(heading, &mix.settings, |of| mark(&of.setting, results))
}

/// A cost with its interval, and a mark where the median is only a lower limit.
fn cost(of: &ProgramResult) -> String {
    let Some(cost) = of.cost else {
        return NOTHING.to_owned();
    };
    let mark = if of.certainty == Certainty::Exact {
        ""
    } else {
        ">"
    };
    format!("{mark}{}{}", digits(cost.value), interval(&cost, digits))
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
    let range = speed.map(|of| interval(&of.estimate, |value| format!("{value:.2}")));
    match own == base {
        true => "1".to_owned(),
        false => value(speed) + &range.unwrap_or_default(),
    }
}

pub(crate) fn value(speed: Option<Speed>) -> String {
    let text = |of: Speed| format!("{}{:.2}", of.certainty.mark(), of.estimate.value);
    speed.map_or_else(|| NOTHING.to_owned(), text)
}

pub(crate) fn figures(results: &Results) -> Option<Table> {
    let mut columns = Columns::new("figure", |of: &Figure| of.name.clone());
    columns.add("median", |of| digits(of.estimate.value) + " " + &of.unit);
    columns.add("range", |of| {
        format!("{} – {}", digits(of.estimate.low), digits(of.estimate.high))
    });
    columns.add("samples", |of| of.samples.to_string());
    let table = columns.table("Figures".to_owned(), &results.figures, |_| Mark::None);
    (!table.rows.is_empty()).then_some(table)
}

/// What was expected and what was found, if anything was expected.
pub(crate) fn expectations(results: &Results) -> Option<Table> {
    let mut columns = Columns::new("expected", |of: &Judged| of.name.clone());
    columns.add("wanted", |of| of.wanted.text(&of.unit));
    columns.add("found", |of| match &of.found {
        Some(found) => digits(found.value) + &of.unit + &interval(found, digits),
        None => "not measured".to_owned(),
    });
    let verdict = |is_met| if is_met { "met" } else { "MISSED" };
    columns.add("verdict", |of| verdict(of.is_met).to_owned());
    if results.expectations.iter().any(|of| of.published.is_some()) {
        columns.add("published", |of| of.published.clone().unwrap_or_default());
    }
    let mark = |of: &Judged| if of.is_met { Mark::Met } else { Mark::Missed };
    let table = columns.table("Expectations".to_owned(), &results.expectations, mark);
    (!table.rows.is_empty()).then_some(table)
}

/// What needs saying below the tables, a line each.
pub(crate) fn notes(results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    for group in &results.groups {
        for of in &group.settings {
            let broken = of.promises.as_ref().map(|promises| &promises.broken);
            let is_own = mark(&of.setting, results) == Mark::Own;
            if let Some(broken) = broken.filter(|broken| is_own && !broken.is_empty()) {
                let (title, broken) = (results.title_of(&of.setting), broken.join("; "));
                let group = &group.title;
                lines.push(format!("Promises broken under {title}, {group}: {broken}."));
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
            let place = format!("{} under {}", mix.name, results.title_of(&of.setting));
            let wrong = of.wrong.iter();
            lines.extend(wrong.map(|wrong| format!("WRONG RESULT in {place}: {wrong}")));
            lines.extend(of.notes.iter().map(|note| format!("{place}: {note}")));
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
    let Results { machine, .. } = results;
    let (compilers, kernel) = (machine.compilers.join(", "), &machine.kernel);
    let is_virtual = machine.virtual_machine;
    let kind = if is_virtual { ", virtual machine" } else { "" };
    let mut lines = vec![format!(
        "{} CPUs ({}{kind}), Linux {kernel}, {compilers}, revision {}, {}.",
        machine.cpus, machine.cpu, machine.revision, machine.date
    )];
    if let Some(daemon) = &results.daemon {
        lines.push(format!(
            "mapperd {}: allocation {}, mapping {}, CPUs by {}, performance by {}.",
            daemon.version, daemon.allocation, daemon.mapping, daemon.enforcer, daemon.counters
        ));
    }
    if let (Some(method), Some(load)) = (&results.method, &results.load) {
        let done = method.repetitions_done;
        let plural = if done == 1 { "" } else { "s" };
        lines.push(format!(
            "{done} of {} repetition{plural} in {:.0} s. Load average before {:.2}; just before a run {:.1} \
             other threads were runnable on average ({} at most); during runs other processes used {:.2} CPUs \
             on average ({:.2} at most), the hypervisor {:.2}.",
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
        let speed = |high| {
            let (value, low, certainty) = (1.0, 1.0, Certainty::AtMost);
            let estimate = Estimate { value, low, high };
            Some(Speed {
                estimate,
                certainty,
            })
        };
        for (own, speed, wanted) in [
            ("plain", speed(1.0), "1"),
            ("static", speed(1.0), "≤1.00"),
            ("static", speed(1.5), "≤1.00 (1.00–1.50)"),
            ("static", None, NOTHING),
        ] {
            assert_eq!(over(own, "plain", speed), wanted);
        }
        // Three digits count.
        let found: Vec<String> = [0.1234, 9.876, 12.345, 1234.5].map(digits).to_vec();
        assert_eq!(found, ["0.123", "9.88", "12.3", "1234"]);
    }

    #[test]
    fn every_row_has_a_cell_for_each_column_and_latencies_are_shown() {
        let tables = all(&example());
        assert!(tables.len() >= 4, "{tables:?}");
        for table in &tables {
            let columns = table.header.len();
            assert!(table.rows.iter().all(|row| row.cells.len() == columns));
        }
        let header = &tables[0].header;
        assert!(header.contains(&"p99 over plain Linux".to_owned()));
        // A median at the limit is marked.
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
