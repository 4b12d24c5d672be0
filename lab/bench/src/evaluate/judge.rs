//! Whether figures are as expected.

use crate::data::{Expectation, ExpectedFigure, FigureExperiment, Over};
use crate::result::{Figure, Judged, MixResult, Results, Speed};
use mapper_report::statistics::Estimate;

/// Judges the speeds that are expected. What was not measured is not met.
pub(crate) fn speeds(expectations: &[Expectation], results: &Results) -> Vec<Judged> {
    let mut judged = Vec::new();
    for of in expectations {
        judged.extend(of.settings.iter().flat_map(|key| under(key, of, results)));
    }
    judged
}

fn under(setting: &str, of: &Expectation, results: &Results) -> Vec<Judged> {
    let judged = |of_what: String, found: Option<Speed>| {
        let found = found.map(|speed| speed.estimate);
        Judged {
            name: format!("{of_what}{}: {}", results.title_of(setting), of.name),
            wanted: of.wanted,
            unit: "×".to_owned(),
            found,
            published: None,
            is_met: found.is_some_and(|found| of.wanted.is_met(found.value)),
        }
    };
    let is_in_group = |mix: &&MixResult| mix.group.as_ref() == Some(&of.group);
    let each = results.mixes.iter().filter(is_in_group).map(|mix| {
        let speed = mix.under(setting).and_then(|own| own.over.get(&of.over));
        judged(format!("{}, ", mix.name), speed.copied())
    });
    let each: Vec<Judged> = each.collect();
    if of.figure == Over::EachMix && !each.is_empty() {
        return each;
    }
    let group = results.group(&of.group);
    let over = group.and_then(|group| group.under(setting)?.over.get(&of.over));
    let found = over.and_then(|over| match of.figure {
        Over::EachMix => None,
        Over::Mean => over.mean,
        Over::SlowestMix => over.slowest_mix,
        Over::SlowestProgram => over.slowest_program,
    });
    vec![judged(String::new(), found)]
}

/// Judges figures; those that are expected and were asked for by `is_wanted` have to be there.
pub(crate) fn figures(
    experiment: &FigureExperiment,
    figures: &[Figure],
    is_wanted: impl Fn(&ExpectedFigure) -> bool,
) -> Vec<Judged> {
    let judged = |expected: &ExpectedFigure, name: &str, found: Option<Estimate>| Judged {
        name: name.to_owned(),
        wanted: expected.wanted,
        unit: format!(" {}", expected.unit),
        found,
        published: expected.published.clone(),
        is_met: found.is_some_and(|found| expected.wanted.is_met(found.value)),
    };
    let mut lines = Vec::new();
    for expected in experiment.expected.iter().filter(|of| is_wanted(of)) {
        let found = figures.iter().filter(|of| expected.covers(&of.name));
        let mut found = found.peekable();
        if found.peek().is_none() {
            lines.push(judged(expected, &expected.name, None));
        }
        lines.extend(found.map(|figure| judged(expected, &figure.name, Some(figure.estimate))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::mix::tests::{example, live};
    use super::super::results::tests::of_mixes;
    use super::*;
    use crate::data::Bound;

    fn judge(setting: &str, figure: Over, at_least: f64) -> Vec<(String, bool)> {
        let mut live = live();
        live.expectations = vec![Expectation {
            name: "as fast as wanted".to_owned(),
            group: "pairs".to_owned(),
            settings: vec![setting.to_owned()],
            figure,
            over: "static".to_owned(),
            wanted: Bound::AtLeast(at_least),
        }];
        let mut measured = example();
        for of in &mut measured {
            of.group = Some("pairs".to_owned());
        }
        let judged = of_mixes(&live, measured, 0).expectations.into_iter();
        judged.map(|of| (of.name, of.is_met)).collect()
    }

    #[test]
    fn each_kind_of_figure_is_held_to_its_bound() {
        // Mixes at √1.6 = 1.26 and 2 of the static share, its mean 1.59, the slowest program at 0.8.
        let speeds = [
            (Over::Mean, 1.59),
            (Over::SlowestMix, 1.264),
            (Over::SlowestProgram, 0.799),
        ];
        for (figure, value) in speeds {
            assert!(judge("mapper", figure, value)[0].1, "{figure:?}");
            assert!(!judge("mapper", figure, value + 0.01)[0].1, "{figure:?}");
        }
        let each = judge("mapper", Over::EachMix, 1.5);
        let met: Vec<bool> = each.iter().map(|(_, met)| *met).collect();
        assert_eq!(met, [false, true]);
        assert_eq!(each[0].0, "md+cg, mapper: as fast as wanted");
        // What was not measured is not met.
        for (figure, _) in speeds.into_iter().chain([(Over::EachMix, 0.0)]) {
            let judged = judge("virtual", figure, 0.1);
            assert!(!judged.is_empty() && judged.iter().all(|(_, met)| !met));
        }
    }

    #[test]
    fn a_figure_that_is_wanted_and_was_not_measured_is_not_met() {
        let expect = |name: &str| {
            format!("[[expect]]\nfigure = \"{name}\"\nunit = \"ms\"\nwanted = {{ below = 2 }}\n")
        };
        let text = format!("title = \"\"\nabout = \"\"\n{}{}", expect("a"), expect("b"));
        let experiment = FigureExperiment::parse("f.toml", &text).unwrap();
        let found = [Figure::of("a", "ms", &[1.0, 1.0, 3.0]).unwrap()];
        let met = |is_wanted: fn(&ExpectedFigure) -> bool| {
            let judged = figures(&experiment, &found, is_wanted).into_iter();
            let met = judged.map(|of| (of.name, of.is_met));
            met.collect::<Vec<_>>()
        };
        let (a, b) = (("a".to_owned(), true), ("b".to_owned(), false));
        assert_eq!(met(|_| true), [a.clone(), b]);
        assert_eq!(met(|of| of.name == "a"), [a]);
    }
}
