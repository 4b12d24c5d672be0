//! The comparison as a table and a sentence.

use super::program::Promise;
use super::verdict::{Compared, Comparison, Effect, Output, Speedup, median};
use mapperctl::{Cell, Column, Table, Width, wrapped};

pub(crate) fn view(comparison: &Comparison, width: Width) -> String {
    let mut table = Table::new([
        Column::text("PROGRAM", 10),
        Column::number("PLAIN"),
        Column::number("PASSIVE"),
        Column::number("MAPPER"),
        Column::number("OVER PLAIN"),
        Column::number("OVER PASSIVE"),
        Column::word("OUTPUT"),
    ])
    .without_at_need(&["OVER PASSIVE", "OUTPUT"]);
    for program in &comparison.programs {
        let seconds = &program.seconds;
        let over = |other: &[f64]| times(median(other) / median(&seconds.mapper));
        table.row(
            [
                Cell::from(&program.name),
                time(&seconds.plain).into(),
                time(&seconds.passive).into(),
                time(&seconds.mapper).into(),
                over(&seconds.plain).into(),
                over(&seconds.passive).into(),
                output(program.output).into(),
            ],
            vec![],
        );
    }
    let mut text = table.render(width);
    text.push('\n');
    for line in sentences(comparison).into_iter().chain([note(comparison)]) {
        text.push_str(&wrapped("", &line, width));
    }
    text
}

/// What the numbers are.
pub(super) fn note(comparison: &Comparison) -> String {
    let rounds = comparison
        .programs
        .first()
        .map_or(0, |program| program.seconds.mapper.len());
    format!(
        "Seconds from the common start to the end, medians of {rounds} rounds and their range. \
         Passive waiting is OMP_WAIT_POLICY=passive."
    )
}

/// The median, and the range if it can be seen: `2.71 (2.65-2.90)`.
pub(super) fn time(seconds: &[f64]) -> String {
    let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = seconds.iter().copied().fold(0.0, f64::max);
    let [median, least, most] = [median(seconds), least, most].map(|value| match value {
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    });
    match least == most {
        true => median,
        false => format!("{median} ({least}-{most})"),
    }
}

/// A ratio: `2.9`, but `1.03` near to 1.
pub(super) fn times(ratio: f64) -> String {
    match ratio {
        _ if ratio < 2.0 => format!("{ratio:.2}"),
        _ => format!("{ratio:.1}"),
    }
}

pub(super) const fn output(output: Output) -> &'static str {
    match output {
        Output::Equal => "equal",
        Output::Varies => "varies",
        Output::DiffersPassive => "PASSIVE DIFFERS",
        Output::DiffersMapper => "MAPPER DIFFERS",
    }
}

/// What mapper made of it.
pub(super) fn sentences(comparison: &Comparison) -> [String; 4] {
    let programs = comparison.programs.as_slice();
    let who = match programs {
        [one] => one.name.as_str(),
        _ => "Together",
    };
    let plain = in_words(comparison.over_plain, "plain Linux");
    let first = match comparison.over_plain.effect() {
        Effect::Faster => format!("{who} {plain}."),
        Effect::NoDifference => format!("mapper makes no difference here: {plain}."),
        Effect::Slower => format!("mapper is slower here: {plain}."),
        Effect::Unclear => format!("The times vary too much to tell; try more --runs: {plain}."),
    };
    let passive = in_words(comparison.over_passive, "with passive waiting");
    let second = match comparison.over_passive.effect() {
        Effect::Faster => format!("It is {passive}."),
        Effect::NoDifference => format!("Passive waiting does as much: it is {passive}."),
        Effect::Slower => format!("Passive waiting does better: it is {passive}."),
        Effect::Unclear => format!("It is {passive}: too varied to tell."),
    };
    [first, second, promises(programs), outputs(programs)]
}

fn in_words(speedup: Speedup, other: &str) -> String {
    let Speedup {
        median,
        least,
        most,
    } = speedup;
    format!(
        "{} times as fast as {other} ({} to {})",
        times(median),
        times(least),
        times(most)
    )
}

fn promises(programs: &[Compared]) -> String {
    let mut text = Vec::new();
    for program in programs.iter().filter(|program| program.promise.below > 0) {
        let Promise {
            below,
            judged_intervals,
        } = program.promise;
        text.push(format!(
            "{} was below its promise in {below} of {judged_intervals} intervals.",
            program.name
        ));
    }
    let unknown = programs
        .iter()
        .filter(|program| program.promise.judged_intervals == 0);
    let unknown: Vec<_> = unknown.map(|program| program.name.as_str()).collect();
    if text.is_empty() && unknown.len() < programs.len() {
        text.push("No promise was seen broken.".to_owned());
    }
    if !unknown.is_empty() {
        let names = unknown.join(" and ");
        text.push(format!(
            "The promise of {names} was not judged, as mapper did not measure it for long enough."
        ));
    }
    text.join(" ")
}

fn outputs(programs: &[Compared]) -> String {
    let with = |wanted: Output| {
        let those = programs.iter().filter(|program| program.output == wanted);
        let names: Vec<_> = those.map(|program| program.name.as_str()).collect();
        (!names.is_empty()).then(|| names.join(" and "))
    };
    if let Some(names) = with(Output::DiffersMapper) {
        return format!("UNDER MAPPER THE OUTPUT OF {names} DIFFERS from that under plain Linux.");
    }
    if let Some(names) = with(Output::DiffersPassive) {
        return format!("With passive waiting the output of {names} differs.");
    }
    match with(Output::Varies) {
        Some(names) => {
            format!("The output of {names} varies from run to run under plain Linux, too.")
        }
        None => "All outputs are equal.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::verdict::tests::comparison;

    fn shown(times: [[f64; 3]; 3], outputs: [&str; 3]) -> String {
        let text = view(&comparison(times, outputs), Width::new(100));
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn a_gain_is_shown_with_its_range() {
        let text = shown(
            [[3.0, 3.1, 2.9], [1.2, 1.3, 1.2], [1.0, 1.05, 1.0]],
            ["1", "1", "1"],
        );
        insta::assert_snapshot!(text);
    }

    #[test]
    fn no_difference_is_said() {
        let text = shown(
            [[1.0, 1.01, 0.99], [1.0; 3], [1.0, 0.99, 1.01]],
            ["1", "1", "1"],
        );
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_loss_and_a_wrong_output_are_said() {
        let text = shown([[1.0; 3], [0.9; 3], [1.2, 1.3, 1.25]], ["1", "1", "2"]);
        insta::assert_snapshot!(text);
    }
}
