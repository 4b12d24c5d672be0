//! The tables of the report, as text in cells; and how they look in a terminal and in Markdown.

use std::fmt::Write as _;

use super::cost::{Bound, Cost, Speed};
use super::evaluate::{MixResult, ProgramResult, SettingResult};
use super::results::{Group, Results};
use super::settings::Setting;
use super::summary::{Promises, Summary};

/// A table: the first column holds names, the others figures.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// What stands where nothing was measured.
const NOTHING: &str = "–";

/// The table of a group of mixes.
pub(super) fn of_group(group: &Group, qos: f64) -> Table {
    let mut header: Vec<String> = [
        "setting",
        "over plain",
        "of static share",
        "worst mix, over plain",
        "worst program, of static",
    ]
    .map(String::from)
    .to_vec();
    let has_latency = group.settings.iter().any(has_latency);
    if has_latency {
        header.push("p99 over plain".to_owned());
        header.push("p99 of static".to_owned());
    }
    header.push(format!("below {qos} of static: programs"));
    header.push("single runs".to_owned());
    let rows = group.settings.iter().map(|of| {
        let mut row = vec![
            of.setting.title(),
            over(&of.setting, &Setting::Plain, of.over_plain),
            over(&of.setting, &Setting::Static, of.of_static),
            value(of.worst_mix_over_plain),
            value(of.worst_program_of_static),
        ];
        if has_latency {
            row.push(over(&of.setting, &Setting::Plain, of.latency_over_plain));
            row.push(over(&of.setting, &Setting::Static, of.latency_of_static));
        }
        row.extend(promises(of.promises.as_ref()));
        row
    });
    let plural = if group.mixes == 1 { "mix" } else { "mixes" };
    Table {
        title: format!("{} ({} {plural})", group.title, group.mixes),
        header,
        rows: rows.collect(),
    }
}

fn has_latency(of: &Summary) -> bool {
    of.latency_over_plain.is_some() || of.latency_of_static.is_some()
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

/// The table of a mix.
pub(super) fn of_mix(mix: &MixResult) -> Table {
    let mut header = vec!["setting".to_owned()];
    for program in &mix.programs {
        header.push(match program.cost {
            Cost::Seconds => format!("{}, s", program.name),
            Cost::P99Ms => format!("{}, p99 ms", program.name),
        });
    }
    header.extend(["over plain", "of static share", "of static, each"].map(String::from));
    Table {
        title: mix.name.clone(),
        header,
        rows: mix.settings.iter().map(mix_row).collect(),
    }
}

fn mix_row(of: &SettingResult) -> Vec<String> {
    let mut row = vec![of.setting.title()];
    row.extend(of.programs.iter().map(cost));
    row.push(over(&of.setting, &Setting::Plain, of.over_plain));
    row.push(over(&of.setting, &Setting::Static, of.of_static));
    let programs = of.programs.iter();
    let each: Vec<String> = programs.map(|program| value(program.of_static)).collect();
    row.push(each.join(" "));
    row
}

/// A cost with its interval, and a mark where the median is only a lower limit.
fn cost(of: &ProgramResult) -> String {
    let Some(cost) = of.cost else {
        return NOTHING.to_owned();
    };
    let over = if of.bound == Bound::Exact { "" } else { ">" };
    format!(
        "{over}{} ({}–{})",
        digits(cost.value),
        digits(cost.low),
        digits(cost.high)
    )
}

/// Three digits that count, no more than two after the point.
fn digits(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else if value < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// The speed of a setting over `base`, with its interval; a setting beside itself has none.
fn over(own: &Setting, base: &Setting, speed: Option<Speed>) -> String {
    match speed {
        None => NOTHING.to_owned(),
        Some(_) if own == base => "1".to_owned(),
        Some(Speed {
            estimate: of,
            bound,
        }) => format!(
            "{}{:.2} ({:.2}–{:.2})",
            bound.mark(),
            of.value,
            of.low,
            of.high
        ),
    }
}

/// A speed without its interval.
fn value(speed: Option<Speed>) -> String {
    speed.map_or_else(
        || NOTHING.to_owned(),
        |of| format!("{}{:.2}", of.bound.mark(), of.estimate.value),
    )
}

/// What needs saying below the tables, a line each.
pub(super) fn notes(results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(group) = results.groups.first() {
        for of in &group.settings {
            let broken = of.promises.as_ref().map(|promises| &promises.broken);
            if let Some(broken) = broken.filter(|broken| !broken.is_empty()) {
                lines.push(format!(
                    "Below {} of the static fair share under {}: {}.",
                    results.method.qos,
                    of.setting.title(),
                    broken.join("; ")
                ));
            }
        }
    }
    lines.push(format!("Wrong results: {}.", results.wrong_results));
    for mix in &results.mixes {
        for of in &mix.settings {
            for wrong in &of.wrong {
                lines.push(format!(
                    "WRONG RESULT in {} under {}: {wrong}",
                    mix.name,
                    of.setting.title()
                ));
            }
        }
    }
    lines.push(results.dlb_note().to_owned());
    let (machine, load) = (&results.machine, &results.load);
    lines.push(format!(
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
    ));
    lines.push(format!(
        "{} {} in {:.0} s. Load average before {:.2}; just before a run {:.1} other threads were \
         runnable on average ({} at most); during runs other processes used {:.2} CPUs on average \
         ({:.2} at most), the hypervisor {:.2}.",
        results.method.repetitions,
        if results.method.repetitions == 1 {
            "repetition"
        } else {
            "repetitions"
        },
        results.method.elapsed_s,
        load.average_before,
        load.runnable_mean,
        load.runnable_most,
        load.others_mean,
        load.others_most,
        load.stolen_mean,
    ));
    lines.extend(results.caution());
    lines
}

/// All tables, the summaries first.
pub(super) fn all(results: &Results) -> Vec<Table> {
    let groups = results.groups.iter();
    groups
        .map(|group| of_group(group, results.method.qos))
        .chain(results.mixes.iter().map(of_mix))
        .collect()
}

/// For the terminal.
pub(super) fn terminal(results: &Results) -> String {
    let mut text = String::from("measured on this machine\n");
    for table in all(results) {
        let width = |column: usize| {
            let cells = table.rows.iter().chain([&table.header]);
            cells
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..table.header.len()).map(width).collect();
        let _ = writeln!(text, "\n{}", table.title);
        for row in [&table.header].into_iter().chain(&table.rows) {
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    let _ = write!(text, "  {cell:<width$}");
                } else {
                    let _ = write!(text, "  {cell:>width$}");
                }
            }
            text.push('\n');
        }
    }
    text.push('\n');
    for line in notes(results) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// What encloses the measured part of a document.
const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->";

/// What stands around the measured part of a document.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Frame<'a> {
    /// There is nothing yet.
    Empty,
    Around {
        head: &'a str,
        tail: &'a str,
    },
}

/// Finds the measured part.
///
/// # Errors
/// A document that has something in it, and not one such part that is marked: nobody asked to lose it.
fn frame(document: &str) -> anyhow::Result<Frame<'_>> {
    if document.trim().is_empty() {
        return Ok(Frame::Empty);
    }
    let marks = [BEGIN, END].map(|mark| document.matches(mark).count());
    let around = document
        .split_once(BEGIN)
        .and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    match (marks, around) {
        ([1, 1], Some((head, tail))) => Ok(Frame::Around { head, tail }),
        ([begin, end], _) => anyhow::bail!(
            "the document has text, and {begin} lines \"{}\" and {end} \"{END}\": the tables go \
             between one of each, so write both where they belong, or give a new file",
            BEGIN.trim_end()
        ),
    }
}

/// Whether the tables can go into a document.
///
/// # Errors
/// See [`document`].
pub(super) fn check_document(before: &str) -> anyhow::Result<()> {
    frame(before).map(drop)
}

/// A document with these results in place of its measured part, or these alone if it is empty.
///
/// # Errors
/// A document with text and without exactly one measured part that is marked.
pub(super) fn document(before: &str, results: &Results) -> anyhow::Result<String> {
    let new = markdown(results);
    Ok(match frame(before)? {
        Frame::Around { head, tail } => format!("{head}{BEGIN}{new}{END}{tail}"),
        Frame::Empty => new,
    })
}

/// For a document.
fn markdown(results: &Results) -> String {
    let mut text = format!("    {}\n", results.method.command);
    for table in all(results) {
        let _ = writeln!(text, "\n### {}\n", table.title);
        let _ = writeln!(text, "| {} |", table.header.join(" | "));
        let _ = writeln!(text, "|{}", "---|".repeat(table.header.len()));
        for row in &table.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
    }
    text.push('\n');
    for line in notes(results) {
        let _ = writeln!(text, "- {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::example;
    use super::*;

    #[test]
    fn the_terminal_shows_every_group_and_mix() {
        insta::assert_snapshot!("terminal", terminal(&example()));
    }

    #[test]
    fn the_document_has_the_same_tables_and_the_command_that_repeats_them() {
        insta::assert_snapshot!("markdown", markdown(&example()));
    }

    #[test]
    fn a_document_keeps_what_stands_around_its_measured_part() {
        let results = example();
        let whole = document("\n", &results).unwrap();
        assert_eq!(whole, markdown(&results));
        let marked = format!("# Title\n{BEGIN}old tables\n{END}\nMore.\n");
        let found = document(&marked, &results).unwrap();
        assert_eq!(found, format!("# Title\n{BEGIN}{whole}{END}\nMore.\n"));
        assert_eq!(document(&found, &results).unwrap(), found);
    }

    #[test]
    fn a_document_without_one_measured_part_is_refused() {
        for text in [
            "an old text\n".to_owned(),
            format!("text {BEGIN}"),
            format!("{END} text {BEGIN}"),
            format!("{BEGIN}{END}{BEGIN}{END}"),
        ] {
            let error = check_document(&text).unwrap_err().to_string();
            assert!(error.contains("measured: begin"), "{text}: {error}");
        }
    }

    #[test]
    fn one_is_told_of_a_setting_beside_itself_and_of_nothing_else() {
        let same = Speed {
            estimate: mapper_report::bootstrap::Estimate {
                value: 1.0,
                low: 1.0,
                high: 1.0,
            },
            bound: Bound::AtMost,
        };
        assert_eq!(over(&Setting::Plain, &Setting::Plain, Some(same)), "1");
        let other = over(&Setting::Static, &Setting::Plain, Some(same));
        assert_eq!(other, "≤1.00 (1.00–1.00)");
    }

    #[test]
    fn three_digits_count() {
        let found: Vec<String> = [0.1234, 9.876, 12.345, 1234.5].map(digits).to_vec();
        assert_eq!(found, ["0.12", "9.88", "12.3", "1234"]);
    }
}
