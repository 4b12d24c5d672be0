//! The tables that the task ends with, and its lines while it measures.

use std::fmt::Write as _;

use super::evaluate::{ExperimentResult, Figure, Results};
use super::experiments::Experiment;
use super::measure::Run;

/// One run, for the progress lines.
pub(super) fn run_line(experiment: &Experiment, title: &str, run: &Run) -> String {
    let times: Vec<_> = run
        .times_s
        .iter()
        .map(|time| format!("{time:.3}"))
        .collect();
    let over = if run.is_over_limit { " (limit)" } else { "" };
    format!(
        "{}, {title}: {} s{over}",
        experiment.name(),
        times.join(" ")
    )
}

/// Everything, for the terminal.
pub(super) fn tables(results: &Results) -> String {
    let mut text = String::new();
    for experiment in &results.experiments {
        experiment_table(&mut text, experiment);
    }
    for missing in &results.not_measured {
        let _ = writeln!(
            text,
            "{}: not measured: {}\n",
            missing.experiment, missing.why
        );
    }
    let missed = results.figures().filter(|figure| !figure.is_met()).count();
    let _ = writeln!(
        text,
        "{} of {} targets met; wrong results: {}",
        results.figures().count() - missed,
        results.figures().count(),
        results.wrong()
    );
    let _ = writeln!(
        text,
        "{} repetitions in {:.0} s on {} CPUs ({}{}); other processes used {:.2} CPUs, the \
         hypervisor took {:.2}; load average before {:.2}",
        results.repetitions,
        results.elapsed_s,
        results.machine.cpus,
        results.machine.cpu,
        results
            .scikit_learn
            .as_ref()
            .map(|version| format!(", scikit-learn {version}"))
            .unwrap_or_default(),
        results.disturbance.other_processes_cpus,
        results.disturbance.stolen_cpus,
        results.machine.load_average_before,
    );
    text
}

fn experiment_table(text: &mut String, experiment: &ExperimentResult) {
    let beside = if experiment.programs.len() == 1 {
        "alone"
    } else {
        "side by side"
    };
    let _ = writeln!(text, "{} {beside}", experiment.programs.join(" and "));
    for setting in &experiment.settings {
        let medians: Vec<_> = setting
            .medians_s
            .iter()
            .map(|median| format!("{median:>8.3}"))
            .collect();
        let mut remarks = vec![format!("{} runs", setting.times_s.len())];
        if setting.over_limit > 0 {
            remarks.push(format!("{} ended at the limit", setting.over_limit));
        }
        remarks.extend(setting.notes.iter().cloned());
        let _ = writeln!(
            text,
            "  {:<32}{}  s  {}",
            setting.title,
            medians.concat(),
            remarks.join("; ")
        );
    }
    for figure in &experiment.figures {
        let _ = writeln!(text, "  {}", figure_line(figure));
    }
    for setting in &experiment.settings {
        for wrong in &setting.wrong {
            let _ = writeln!(text, "  WRONG RESULT under {}: {wrong}", setting.title);
        }
    }
    text.push('\n');
}

fn figure_line(figure: &Figure) -> String {
    let verdict = if figure.is_met() { "met   " } else { "MISSED" };
    let value = figure
        .value
        .map_or_else(|| "nothing".to_owned(), |value| format!("{value:.3}×"));
    let range = figure
        .range
        .map(|[least, most]| {
            format!(
                ", {least:.3} to {most:.3} in {} comparisons",
                figure.moments
            )
        })
        .unwrap_or_default();
    format!(
        "{verdict} {} over {}: {value} (wanted at least {:.3}{range})",
        figure.of, figure.over, figure.at_least
    )
}

#[cfg(test)]
mod tests {
    use super::super::evaluate::tests::run;
    use super::super::evaluate::{Measured, evaluated};
    use super::super::experiments::{Group, experiments};
    use super::*;

    #[test]
    fn a_missed_target_a_wrong_result_and_a_note_are_told() {
        let experiment = experiments(&[Group::Dynamic]).remove(0);
        let wanted = experiment.wanted[0];
        let mut slow = run(0, [9.0, 9.0]);
        slow.wrong.push("primes are wrong".to_owned());
        slow.notes.insert("threads wait".to_owned());
        let measured = Measured {
            experiment,
            runs: vec![
                (wanted.of, vec![slow]),
                (wanted.over, vec![run(0, [1.0, 1.0])]),
            ],
        };
        let mut text = String::new();
        experiment_table(&mut text, &evaluated(&measured, 2));
        for said in ["MISSED", "0.111×", "primes are wrong", "threads wait"] {
            assert!(text.contains(said), "{said} is not in\n{text}");
        }
    }
}
