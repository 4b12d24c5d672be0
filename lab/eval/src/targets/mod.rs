//! Every published number that the model is held against: the paper's, the model's, the band within
//! which they count as agreeing, and whether it may be used to calibrate or only to validate.
//!
//! The bands were set before the model existed. What lies outside comes first, with its cause where
//! that was found ([`causes`]). Agreement is no evidence about hardware; disagreement limits what the
//! model may be used for.

mod book;
mod causes;
mod exact;
mod measure;
mod published;
mod situation;

pub(super) use book::Book;
use causes::{Cause, Causes};
use published::Number;
pub(super) use published::{Unjudged, Use, unjudged};
pub(super) use situation::Model;

use serde::Serialize;

impl Use {
    pub(super) const fn shown(self) -> &'static str {
        match self {
            Self::Calibrate => "calibrates",
            Self::Validate => "validates",
            Self::Exact => "exact",
            Self::Taken => "an input",
        }
    }
}

impl Number {
    fn verdict(&self, uses: Use, model: f64) -> Verdict {
        /// Bands are printed with two or three digits.
        const PRINTED: f64 = 5e-4;
        let inside = model >= self.low - PRINTED && model <= self.high + PRINTED;
        match (inside, uses) {
            (false, _) => Verdict::Outside,
            (true, Use::Taken) => Verdict::Taken,
            (true, _) => Verdict::Inside,
        }
    }
}

/// How a number came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Outside,
    Inside,
    /// An input, inside its band as a matter of course.
    Taken,
    /// Its runs were not part of this evaluation.
    NotRun,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    pub(super) id: String,
    pub(super) source: String,
    pub(super) what: String,
    pub(super) uses: Use,
    pub(super) paper: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) model: Option<f64>,
    pub(super) verdict: Verdict,
    pub(super) cause: Option<Cause>,
}

/// How many numbers came out inside their bands: those that the model foretells, and apart from them those that
/// the papers' own formulas give. Inputs are no evidence and count nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Score {
    pub(super) inside: usize,
    pub(super) judged: usize,
    pub(super) exact_inside: usize,
    pub(super) exact: usize,
}

impl Score {
    /// The score of a table; nothing when no number in it was judged.
    pub(super) fn of(lines: &[Line]) -> Option<Self> {
        let mut score = Self::default();
        for line in lines {
            let inside = match line.verdict {
                Verdict::Inside => 1,
                Verdict::Outside => 0,
                Verdict::Taken | Verdict::NotRun => continue,
            };
            if line.uses == Use::Exact {
                score.exact += 1;
                score.exact_inside += inside;
            } else {
                score.judged += 1;
                score.inside += inside;
            }
        }
        (score.judged + score.exact > 0).then_some(score)
    }

    /// What there is to say of the exact ones, if any were computed.
    pub(super) fn exact_shown(self) -> Option<String> {
        let Self {
            exact_inside,
            exact,
            ..
        } = self;
        (exact > 0).then(|| format!("{exact_inside} of {exact} exact ones"))
    }
}

impl Verdict {
    pub(super) const fn shown(self) -> &'static str {
        match self {
            Self::Outside => "outside",
            Self::Inside => "inside",
            Self::Taken => "taken over",
            Self::NotRun => "not run",
        }
    }
}

impl Line {
    /// Whether it is a yes or no rather than a number.
    pub(super) fn is_yes_or_no(&self) -> bool {
        self.low == self.high && self.low == 1.0
    }

    pub(super) fn shown(&self, value: f64) -> String {
        match (self.is_yes_or_no(), value == 1.0) {
            // Four digits, as many as any paper prints.
            (false, _) if value.abs() >= 99.95 => format!("{value:.1}"),
            (false, _) if value.abs() >= 9.995 => format!("{value:.2}"),
            (false, _) => format!("{value:.3}"),
            (true, true) => "yes".into(),
            (true, false) => "no".into(),
        }
    }

    pub(super) fn band(&self) -> String {
        if self.is_yes_or_no() {
            String::new()
        } else if self.low == self.high {
            format!("only {}", self.shown(self.low))
        } else {
            format!("{} to {}", self.shown(self.low), self.shown(self.high))
        }
    }
}

/// Every target, those outside first, then those inside, then inputs.
/// Causes are given where nothing departs from the protocol of this version.
pub(super) fn judge(book: &Book<'_>, version: Option<u32>) -> anyhow::Result<Vec<Line>> {
    let causes = Causes::read()?.of_evaluation(version);
    let mut lines = Vec::new();
    for target in published::targets()? {
        for number in target.numbers {
            let model = number.model.of(book).filter(|value| value.is_finite());
            let verdict = model.map(|value| number.verdict(target.uses, value));
            let verdict = verdict.unwrap_or(Verdict::NotRun);
            let cause = causes.of(&target.id, &number.what);
            lines.push(Line {
                id: target.id.clone(),
                source: target.source.clone(),
                cause: cause.filter(|_| verdict == Verdict::Outside).cloned(),
                what: number.what,
                uses: target.uses,
                paper: number.paper,
                low: number.low,
                high: number.high,
                model,
                verdict,
            });
        }
    }
    lines.sort_by_key(|line| line.verdict as u8);
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::super::examples::{self, judged, tables_of};
    use super::super::tables::SuiteTable;
    use super::*;
    use std::collections::BTreeSet;

    fn line(verdict: Verdict, uses: Use) -> Line {
        let mut line = judged(&[]).remove(0);
        (line.verdict, line.uses) = (verdict, uses);
        line
    }

    /// Every suite of the newest protocol, in which all programs have the same speed everywhere.
    fn everything() -> Vec<SuiteTable> {
        let of = |suite| examples::table(suite, &|mix, _| examples::at_speed(mix, 0.8));
        examples::protocol().suites.iter().map(of).collect()
    }

    #[test]
    fn a_band_holds_its_ends_and_what_rounds_to_them_and_an_input_inside_is_taken_over() {
        let mut number = published::targets().unwrap().remove(0).numbers.remove(0);
        (number.paper, number.low, number.high) = (1.2, 1.0, 1.5);
        for (uses, verdict, values) in [
            (
                Use::Validate,
                Verdict::Inside,
                &[1.0, 0.9996, 1.2, 1.5, 1.5004][..],
            ),
            (
                Use::Validate,
                Verdict::Outside,
                &[0.999, 1.501, -1.2, f64::INFINITY],
            ),
            (Use::Taken, Verdict::Taken, &[1.2]),
            (Use::Taken, Verdict::Outside, &[2.0]),
        ] {
            for value in values {
                assert_eq!(number.verdict(uses, *value), verdict, "{value}");
            }
        }
    }

    #[test]
    fn the_score_counts_what_could_have_come_out_otherwise_and_exact_ones_apart() {
        let lines = [
            line(Verdict::Inside, Use::Validate),
            line(Verdict::Inside, Use::Calibrate),
            line(Verdict::Outside, Use::Validate),
            line(Verdict::Inside, Use::Exact),
            line(Verdict::Taken, Use::Taken),
            line(Verdict::NotRun, Use::Validate),
        ];
        let score = Score::of(&lines).unwrap();
        assert_eq!((score.inside, score.judged), (2, 3));
        assert_eq!(score.exact_shown().unwrap(), "1 of 1 exact ones");
        assert_eq!(Score::of(&lines[4..]), None, "nothing was judged");
        assert_eq!(Score::of(&lines[..3]).unwrap().exact_shown(), None);
    }

    #[test]
    fn a_number_without_a_value_is_neither_inside_nor_counted_as_with_mixes_of_the_command_line() {
        for rows in [
            &[][..],
            &["mix | 20 SGD, 20 BSGD | linux 0.8 | fair 1 | mapper 0.8"],
        ] {
            let lines = judged(&tables_of(rows));
            assert!(lines.len() > 150);
            for line in &lines {
                assert_eq!(line.verdict, Verdict::NotRun, "{} {}", line.id, line.what);
                assert_eq!(line.model, None);
            }
            assert_eq!(Score::of(&lines), None);
        }
    }

    #[test]
    fn numbers_that_need_no_run_are_judged_with_the_suites_of_their_paper_and_no_others() {
        let papers = [
            ("sam-fig5", ["SM-1", "SM-2"].as_slice()),
            ("nupoco-amd", &["NU-1", "NU-2", "NU-3", "NU-4"]),
            ("nucore-amd", &["NC-1", "NC-5"]),
            ("mapper-fig2", &[]),
        ];
        for (name, expected) in papers {
            let lines = judged(&tables_of(&[&format!("{name} | SGD | none 1")]));
            let judged = lines.iter().filter(|line| line.verdict != Verdict::NotRun);
            let ids: BTreeSet<&str> = judged.map(|line| line.id.as_str()).collect();
            assert_eq!(ids, expected.iter().copied().collect(), "{name}");
        }
    }

    #[test]
    fn every_published_number_finds_its_suites_mixes_and_policies_and_those_outside_come_first() {
        let lines = judged(&everything());
        let order: Vec<u8> = lines.iter().map(|line| line.verdict as u8).collect();
        assert!(order.is_sorted());
        assert_eq!(lines[0].verdict, Verdict::Outside, "all policies are equal");
        for verdict in [Verdict::Inside, Verdict::Taken] {
            assert!(lines.iter().any(|line| line.verdict == verdict));
        }
        assert!(lines.iter().any(|line| line.cause.is_some()));
        for line in &lines {
            let outside = line.verdict == Verdict::Outside;
            assert!(outside || line.cause.is_none(), "{} {}", line.id, line.what);
            // What only services, only programs below their promise, or only policies that predict have.
            let more = ["p99", "how far", "error of"];
            let needs_more = more.iter().any(|part| line.what.contains(part));
            assert!(
                needs_more || line.model.is_some(),
                "{} {} has no value",
                line.id,
                line.what
            );
        }
    }

    #[test]
    fn only_what_the_list_of_calibrating_targets_names_may_set_parameters() {
        let list = include_str!("../../../../tests/vectors/targets_calibration.json");
        let list: serde_json::Value = serde_json::from_str(list).unwrap();
        let may = list["targets"].as_array().unwrap().iter();
        let may: BTreeSet<&str> = may.map(|target| target["id"].as_str().unwrap()).collect();
        let targets = published::targets().unwrap();
        let calibrating = targets.iter().filter(|of| of.uses == Use::Calibrate);
        let calibrating: BTreeSet<&str> = calibrating.map(|of| of.id.as_str()).collect();
        assert!(calibrating.is_subset(&may), "{calibrating:?}");
        // The others on the list are inputs.
        let inputs: String = unjudged().unwrap().into_iter().map(|of| of.ids).collect();
        for id in may.difference(&calibrating) {
            assert!(inputs.contains(id), "{id} is nowhere");
        }
    }

    #[test]
    fn a_cause_is_given_only_where_nothing_departs_from_its_protocol() {
        let tables = everything();
        let book = Book {
            tables: &tables,
            model: examples::model(),
        };
        let newest = examples::protocol().version;
        for (version, explained) in [(Some(newest), true), (None, false), (Some(1), false)] {
            let lines = judge(&book, version).unwrap();
            assert_eq!(lines.iter().any(|line| line.cause.is_some()), explained);
        }
    }

    #[test]
    fn yes_and_no_are_words_and_have_no_band() {
        for (low, high, band, value, expected) in [
            (1.0, 1.0, "", 1.0, "yes"),
            (1.0, 1.0, "", 0.0, "no"),
            (1.0, 1.5, "1.000 to 1.500", 1.0, "1.000"),
            (1.0, 1.5, "1.000 to 1.500", 500.151, "500.2"),
            (1.0, 1.5, "1.000 to 1.500", -20.69, "-20.69"),
            (11.0, 11.0, "only 11.00", 11.0, "11.00"),
        ] {
            let mut line = line(Verdict::Inside, Use::Validate);
            (line.low, line.high) = (low, high);
            assert_eq!((&*line.band(), &*line.shown(value)), (band, expected));
        }
    }
}
