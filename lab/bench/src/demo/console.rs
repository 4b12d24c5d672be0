//! The lines shown while measuring, and the tables at the end.

use std::fmt::Write as _;

use super::measure::Run;
use super::pairs::{Pair, Setting};
use super::results::{PairResult, Results, SettingResult, Summary};

/// One run, for the progress lines.
pub(crate) fn run_line(repetition: usize, pair: &Pair, setting: Setting, run: &Run) -> String {
    let mut line = format!(
        "repetition {}, {}, {}:",
        repetition + 1,
        pair.name,
        setting.title()
    );
    for (which, entrant) in pair.entrants.iter().enumerate() {
        let over = if run.timed_out[which] { "over " } else { "" };
        let comma = if which == 0 { "" } else { "," };
        let _ = write!(
            line,
            "{comma} {} {over}{:.2} s",
            entrant.program.name(),
            run.times_s[which]
        );
    }
    for wrong in &run.wrong {
        let _ = write!(line, "; WRONG: {wrong}");
    }
    line
}

/// The tables that the task ends with.
pub(crate) fn tables(results: &Results) -> String {
    let mut text = String::new();
    for pair in &results.pairs {
        pair_table(&mut text, pair);
    }
    for (runtime, settings) in &results.by_runtime {
        let pairs = results
            .pairs
            .iter()
            .filter(|pair| pair.runtime == *runtime)
            .count();
        let plural = if pairs == 1 { "pair" } else { "pairs" };
        let _ = writeln!(text, "over {pairs} {runtime} {plural}");
        let _ = writeln!(
            text,
            "  {:<24}{:>12}{:>13}{:>14}{:>16}  QoS broken",
            "", "over plain", "over passive", "slowest pair", "slowest program"
        );
        for (setting, summary) in settings {
            summary_row(&mut text, *setting, summary);
        }
        text.push('\n');
    }
    let _ = writeln!(text, "targets");
    for target in &results.targets {
        let _ = writeln!(
            text,
            "  {}  {}: {} (wanted {})",
            if target.met { "met   " } else { "MISSED" },
            target.what,
            target.found,
            target.wanted
        );
    }
    for pair in &results.pairs {
        for wrong in pair.settings.values().flat_map(|setting| &setting.wrong) {
            let _ = writeln!(text, "  WRONG RESULT in {}: {wrong}", pair.name);
        }
    }
    let _ = writeln!(
        text,
        "\n{} {} in {:.0} s on {} CPUs ({}); other processes used {:.2} CPUs, the \
         hypervisor took {:.2}; load average before {:.2}",
        results.method.repetitions_done,
        repetitions(results.method.repetitions_done),
        results.elapsed_s,
        results.machine.cpus,
        results.machine.cpu,
        results.disturbance.other_processes_cpus,
        results.disturbance.stolen_cpus,
        results.machine.load_average_before,
    );
    if let Some(caution) = results.caution() {
        let _ = writeln!(text, "{caution}");
    }
    text
}

/// The word for this many.
pub(crate) fn repetitions(count: usize) -> &'static str {
    if count == 1 {
        "repetition"
    } else {
        "repetitions"
    }
}

fn pair_table(text: &mut String, pair: &PairResult) {
    let [first, second] = &pair.programs;
    let _ = writeln!(text, "{} ({})", pair.name, pair.runtime);
    let _ = writeln!(
        text,
        "  {:<24}{:>12}{:>13}{:>14}{:>16}  QoS",
        "median seconds", first.name, second.name, "over plain", "over passive"
    );
    for (setting, result) in &pair.settings {
        let _ = writeln!(
            text,
            "  {:<24}{:>12}{:>13}{:>14}{:>16}  {}",
            setting.title(),
            time(result, 0),
            time(result, 1),
            ratio(result.geomean_vs_plain),
            ratio(result.geomean_vs_passive),
            promise(pair, *setting, result),
        );
    }
    text.push('\n');
}

fn summary_row(text: &mut String, setting: Setting, summary: &Summary) {
    let _ = writeln!(
        text,
        "  {:<24}{:>12}{:>13}{:>14}{:>16}  {}",
        setting.title(),
        ratio(summary.geomean_vs_plain),
        ratio(summary.geomean_vs_passive),
        ratio(summary.worst_pair_vs_passive),
        ratio(summary.worst_program_vs_static),
        match (setting.is_managed(), summary.qos_violations) {
            (true, Some(0)) => "none".to_owned(),
            (true, Some(_)) => summary.violations.join("; "),
            _ => "-".to_owned(),
        },
    );
}

/// A median, with `>` when half of the runs or more were ended at the limit.
fn time(result: &SettingResult, which: usize) -> String {
    let over = if result.median_is_limit(which) {
        ">"
    } else {
        ""
    };
    format!("{over}{:.2}", result.medians[which])
}

/// A ratio as people write it.
pub(crate) fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}×"))
}

fn promise(pair: &PairResult, setting: Setting, result: &SettingResult) -> String {
    let (Some(kept), Some(speeds), true) =
        (result.qos_kept, result.vs_static, setting.is_managed())
    else {
        return "-".to_owned();
    };
    let broken: Vec<String> = (0..2)
        .filter(|&which: &usize| !kept[which])
        .map(|which| format!("{} at {:.2}", pair.programs[which].name, speeds[which]))
        .collect();
    if broken.is_empty() {
        "kept".to_owned()
    } else {
        format!("broken: {}", broken.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluate::tests::example;
    use super::*;

    #[test]
    fn the_tables_name_every_pair_setting_and_missed_target() {
        let results = example();
        let text = tables(&results);
        for pair in &results.pairs {
            assert!(text.contains(pair.name), "{text}");
        }
        for setting in Setting::ALL {
            assert!(text.contains(setting.title()), "{text}");
        }
        assert_eq!(text.matches("MISSED").count(), 1, "{text}");
        assert!(text.contains("md <is> wrong"), "{text}");
    }
}
