//! The time between two decisions.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The time between two decisions, from 20 ms to 10 s. Below, reading and moving threads costs more than better
/// decisions bring; above, a program of a minute's length would hardly see one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval(Duration);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("interval {0:?}: give 20ms to 10s, such as 1s or 250ms")]
pub(crate) struct BadInterval(String);

const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(10);

impl Interval {
    pub(crate) const fn nanoseconds(self) -> u64 {
        self.0.as_nanos() as u64
    }
}

impl Default for Interval {
    fn default() -> Self {
        Self(Duration::from_secs(1))
    }
}

impl FromStr for Interval {
    type Err = BadInterval;

    fn from_str(text: &str) -> Result<Self, BadInterval> {
        let bad = || BadInterval(text.chars().take(40).collect());
        let trimmed = text.trim();
        let (number, unit_s) = match trimmed.strip_suffix("ms") {
            Some(number) => (number, 1e-3),
            None => (trimmed.strip_suffix('s').ok_or_else(bad)?, 1.0),
        };
        let seconds = number.trim().parse::<f64>().map_err(|_| bad())? * unit_s;
        let duration = Duration::try_from_secs_f64(seconds).map_err(|_| bad())?;
        if (SHORTEST..=LONGEST).contains(&duration) {
            Ok(Self(duration))
        } else {
            Err(bad())
        }
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::assert_says;

    #[test]
    fn seconds_and_milliseconds_are_read() {
        for (text, ms) in [
            ("1s", 1000),
            ("250ms", 250),
            ("0.5s", 500),
            (" 20ms ", 20),
            ("10s", 10_000),
        ] {
            let interval: Interval = text.parse().unwrap();
            assert_eq!(interval.nanoseconds(), ms * 1_000_000);
        }
    }

    #[test]
    fn a_bad_interval_is_named_with_the_range() {
        for text in [
            "19ms", "10.001s", "1", "", "s", "-1s", "nan s", "1e300s", "1m",
        ] {
            let error = text.parse::<Interval>().unwrap_err();
            assert_says(error, &[&format!("{text:?}"), "20ms to 10s"]);
        }
    }
}
