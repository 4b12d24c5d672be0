//! Every published number that the model is held against: the paper's, the model's, the band within
//! which they count as agreeing, and whether it may be used to calibrate or only to validate.
//!
//! The bands were set before the model existed. What lies outside is told first, with its cause where
//! that was found ([`causes`]). Agreement is no evidence about hardware; disagreement limits what the
//! model may be used for.

mod book;
mod causes;
mod mapper;
mod mapper_services;
mod nupoco;
mod sam;

pub(super) use book::Book;
use causes::{Cause, Causes};

use serde::Serialize;

/// Whether a target may set parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Use {
    /// It may.
    Calibrate,
    /// It may not.
    Validate,
}

/// A published number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    /// What it is.
    what: &'static str,
    paper: f64,
    low: f64,
    high: f64,
    model: fn(&Book<'_>) -> Option<f64>,
}

/// Published numbers that belong together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    id: &'static str,
    source: &'static str,
    uses: Use,
    numbers: &'static [Number],
}

const fn number(
    what: &'static str,
    paper: f64,
    low: f64,
    high: f64,
    model: fn(&Book<'_>) -> Option<f64>,
) -> Number {
    Number {
        what,
        paper,
        low,
        high,
        model,
    }
}

/// An order or another yes or no: 1 where it holds.
const fn holds(what: &'static str, model: fn(&Book<'_>) -> Option<f64>) -> Number {
    number(what, 1.0, 1.0, 1.0, model)
}

const fn validate(id: &'static str, source: &'static str, numbers: &'static [Number]) -> Target {
    Target {
        id,
        source,
        uses: Use::Validate,
        numbers,
    }
}

const fn calibrate(id: &'static str, source: &'static str, numbers: &'static [Number]) -> Target {
    Target {
        id,
        source,
        uses: Use::Calibrate,
        numbers,
    }
}

/// Targets that no run answers, and why.
pub(super) const NOT_RUN: &[(&str, &str)] = &[
    (
        "NU-1, NU-2, NU-3, NU-4, NC-1",
        "exact: cargo xtask vectors checks them",
    ),
    ("MP-2, MP-31, NU-16, SM-3, SM-11", "inputs of the model"),
    (
        "NU-15",
        "a test checks it: crates/sim/tests/queue_model.rs, mean error 3 % against 10 to 15 % on hardware",
    ),
    (
        "SM-2 coherence 0.78e-3 and IPC 0.9",
        "thresholds of the policy, taken as published; SM-10 moves them",
    ),
    (
        "NC-6",
        "to be reported only: bandwidths of the real machines",
    ),
    (
        "NC-3 resid, rprj3, NC-4 solve time",
        "no presets for the phases of mg; the solve time is a benchmark",
    ),
];

/// How a number came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// Outside its band.
    Outside,
    /// Inside its band.
    Inside,
    /// Its runs were not part of this evaluation.
    NotRun,
}

/// A line of the table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    pub(super) id: &'static str,
    pub(super) source: &'static str,
    pub(super) what: &'static str,
    pub(super) uses: Use,
    pub(super) paper: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) model: Option<f64>,
    pub(super) verdict: Verdict,
    pub(super) cause: Option<Cause>,
}

impl Line {
    /// Whether it is a yes or no rather than a number.
    pub(super) fn is_yes_or_no(&self) -> bool {
        self.low == self.high && self.low == 1.0
    }

    /// A value as it is told.
    pub(super) fn told(&self, value: f64) -> String {
        match (self.is_yes_or_no(), value == 1.0) {
            (false, _) => format!("{value:.3}"),
            (true, true) => "yes".into(),
            (true, false) => "no".into(),
        }
    }

    /// The band as it is told.
    pub(super) fn band(&self) -> String {
        if self.is_yes_or_no() {
            String::new()
        } else {
            format!("{:.3} to {:.3}", self.low, self.high)
        }
    }
}

/// Every target.
fn all() -> Vec<Target> {
    [
        mapper::TARGETS,
        mapper_services::TARGETS,
        sam::TARGETS,
        nupoco::TARGETS,
    ]
    .concat()
}

/// Every target, those outside first, then those inside.
pub(super) fn judge(book: &Book<'_>) -> anyhow::Result<Vec<Line>> {
    let causes = Causes::read()?;
    let mut lines: Vec<Line> = all()
        .iter()
        .flat_map(|target| {
            target.numbers.iter().map(|number| {
                let model = (number.model)(book).filter(|value| value.is_finite());
                let verdict = match model {
                    None => Verdict::NotRun,
                    // Bands are printed with two or three digits.
                    Some(value) if value >= number.low - 5e-4 && value <= number.high + 5e-4 => {
                        Verdict::Inside
                    }
                    Some(_) => Verdict::Outside,
                };
                Line {
                    id: target.id,
                    source: target.source,
                    what: number.what,
                    uses: target.uses,
                    paper: number.paper,
                    low: number.low,
                    high: number.high,
                    model,
                    verdict,
                    cause: (verdict == Verdict::Outside)
                        .then(|| causes.of(target.id, number.what).cloned())
                        .flatten(),
                }
            })
        })
        .collect();
    lines.sort_by_key(|line| line.verdict as u8);
    Ok(lines)
}
