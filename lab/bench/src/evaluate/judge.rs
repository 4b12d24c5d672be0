//! Whether figures are as expected.

use super::mix::{programs, runs_of};
use super::speed::Compared;
use super::summary::{Evaluated, mean, slowest, slowest_program};
use crate::data::experiment::{Expectation, Experiment, Over};
use crate::data::figures::{ExpectedFigure, FigureExperiment};
use crate::data::program::Unit;
use crate::result::report::{Figure, Judged};
use crate::result::speed::Speed;
use mapper_report::statistics::Estimate;

/// Judges the speeds of an experiment on a machine with so many CPUs. What was not measured is not met.
pub(crate) fn speeds(
    experiment: &Experiment,
    evaluated: &[Evaluated<'_>],
    cpus: usize,
) -> Vec<Judged> {
    let expectations = experiment.expectations.iter();
    expectations
        .flat_map(|of| {
            let mixes: Vec<Evaluated<'_>> = evaluated
                .iter()
                .filter(|mix| of.group.is_none() || mix.result.group == of.group)
                .copied()
                .collect();
            judged(of, &mixes, experiment, cpus)
        })
        .collect()
}

fn judged(
    of: &Expectation,
    mixes: &[Evaluated<'_>],
    experiment: &Experiment,
    cpus: usize,
) -> Vec<Judged> {
    let settings = &experiment.settings;
    let title = |key: &str| {
        let found = settings.iter().find(|setting| setting.key == *key);
        found.map_or_else(|| key.to_owned(), |setting| setting.title(cpus))
    };
    let judged = |of_what: String, found: Option<Speed>| {
        let found = found.map(|speed| speed.estimate);
        Judged {
            name: format!("{of_what}{}: {}", title(&of.setting), of.name),
            wanted: of.bound,
            unit: "×".to_owned(),
            found,
            published: None,
            is_met: found.is_some_and(|found| of.bound.is_met(found.value)),
        }
    };
    let of_mix = |mix: &Evaluated<'_>| {
        let compared = Compared {
            base: runs_of(mix.measured, &of.over)?,
            own: runs_of(mix.measured, &of.setting)?,
            which: programs(mix.measured, Some(Unit::Seconds)),
        };
        compared.speed(experiment.method.speed)
    };
    match of.figure {
        Over::EachMix if mixes.is_empty() => vec![judged(String::new(), None)],
        Over::EachMix => mixes
            .iter()
            .map(|mix| judged(format!("{}, ", mix.result.name), of_mix(mix)))
            .collect(),
        Over::Mean => {
            let found = mean(&of.setting, &of.over, mixes, Unit::Seconds, experiment);
            vec![judged(String::new(), found)]
        }
        Over::SlowestMix => vec![judged(
            String::new(),
            slowest(mixes.iter().filter_map(of_mix)),
        )],
        Over::SlowestProgram => {
            let found = slowest_program(&of.setting, &of.over, mixes);
            vec![judged(String::new(), found)]
        }
    }
}

/// Judges figures; those that are expected and were asked for by `is_wanted` have to be there.
pub(crate) fn figures(
    experiment: &FigureExperiment,
    figures: &[Figure],
    is_wanted: impl Fn(&ExpectedFigure) -> bool,
) -> Vec<Judged> {
    let judged = |expected: &ExpectedFigure, name: &str, found: Option<Estimate>| Judged {
        name: name.to_owned(),
        wanted: expected.bound,
        unit: format!(" {}", expected.unit),
        found,
        published: expected.published.clone(),
        is_met: found.is_some_and(|found| expected.bound.is_met(found.value)),
    };
    let mut lines = Vec::new();
    for expected in experiment.expected.iter().filter(|of| is_wanted(of)) {
        let mut found = figures
            .iter()
            .filter(|of| expected.covers(&of.name))
            .peekable();
        if found.peek().is_none() {
            lines.push(judged(expected, &expected.name, None));
        }
        lines.extend(found.map(|figure| judged(expected, &figure.name, Some(figure.estimate))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::mix::mix_result;
    use super::super::mix::tests::{example, live};
    use super::*;
    use crate::data::bound::Bound;
    use crate::result::report::MixResult;

    fn judge(setting: &str, figure: Over, over: &str, at_least: f64) -> Vec<(String, bool)> {
        let mut live = live();
        live.expectations = vec![Expectation {
            name: "as fast as wanted".to_owned(),
            group: None,
            setting: setting.to_owned(),
            figure,
            over: over.to_owned(),
            bound: Bound::AtLeast(at_least),
        }];
        let measured = example();
        let results: Vec<MixResult> = measured.iter().map(|mix| mix_result(mix, &live)).collect();
        let evaluated = measured
            .iter()
            .zip(&results)
            .map(|(measured, result)| Evaluated { measured, result });
        let judged = speeds(&live, &evaluated.collect::<Vec<_>>(), 2);
        judged.into_iter().map(|of| (of.name, of.is_met)).collect()
    }

    #[test]
    fn each_kind_of_figure_is_held_to_its_bound() {
        // Mixes at √1.6 = 1.26 and 2 of the static share, its mean 1.59, the slowest program at 0.8.
        for (figure, value) in [
            (Over::Mean, 1.59),
            (Over::SlowestMix, 1.264),
            (Over::SlowestProgram, 0.799),
        ] {
            assert!(judge("mapper", figure, "static", value)[0].1, "{figure:?}");
            assert!(
                !judge("mapper", figure, "static", value + 0.01)[0].1,
                "{figure:?}"
            );
        }
        let each = judge("mapper", Over::EachMix, "static", 1.5);
        let met: Vec<bool> = each.iter().map(|(_, met)| *met).collect();
        assert_eq!(met, [false, true]);
        assert_eq!(each[0].0, "md+cg, mapper: as fast as wanted");
    }

    #[test]
    fn a_speed_that_was_not_measured_is_not_met() {
        for figure in [
            Over::Mean,
            Over::SlowestMix,
            Over::SlowestProgram,
            Over::EachMix,
        ] {
            assert!(
                judge("virtual", figure, "static", 0.1)
                    .iter()
                    .all(|(_, met)| !met)
            );
        }
    }

    #[test]
    fn a_figure_that_is_wanted_and_was_not_measured_is_not_met() {
        let text = "title = \"\"\nabout = \"\"\n[[expect]]\nfigure = \"a\"\nunit = \"ms\"\nbelow = 2\n\
                    [[expect]]\nfigure = \"b\"\nunit = \"ms\"\nbelow = 2\n";
        let experiment = FigureExperiment::parse("f.toml", text).unwrap();
        let found = [Figure {
            name: "a".to_owned(),
            unit: "ms".to_owned(),
            estimate: Estimate {
                value: 1.0,
                low: 1.0,
                high: 3.0,
            },
            samples: 3,
        }];
        let met = |is_wanted: fn(&ExpectedFigure) -> bool| {
            let judged = figures(&experiment, &found, is_wanted);
            judged
                .into_iter()
                .map(|of| (of.name, of.is_met))
                .collect::<Vec<_>>()
        };
        let (a, b) = (("a".to_owned(), true), ("b".to_owned(), false));
        assert_eq!(met(|_| true), [a.clone(), b]);
        assert_eq!(met(|of| of.name == "a"), [a]);
    }
}
