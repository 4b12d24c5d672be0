//! What is said of a measurement.

use core::fmt;

/// Whether a measurement is what was wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is.
    Met,
    /// It is not; in these settings, where there are several.
    Missed(String),
    /// Nothing was wanted.
    Unjudged,
}

impl Verdict {
    /// Of a value that has an upper limit, if it has one.
    pub(crate) fn of(value: f64, limit: Option<f64>) -> Self {
        match limit {
            None => Self::Unjudged,
            Some(limit) if value <= limit => Self::Met,
            Some(_) => Self::Missed(String::new()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Met => f.write_str("met"),
            Self::Missed(by) if by.is_empty() => f.write_str("MISSED"),
            Self::Missed(by) => write!(f, "MISSED by {by}"),
            Self::Unjudged => Ok(()),
        }
    }
}

/// The value, of at least one, that this part of them does not exceed.
pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

/// The median of at least one value.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// How far apart the quartiles are.
pub(crate) fn quartile_distance(values: &[f64]) -> f64 {
    quantile(values, 0.75) - quantile(values, 0.25)
}
