//! The speed of an application against what it was promised.

use crate::quantities::percent;
use mapper_control::schema::AppStatus;

/// How an application does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Standing {
    /// Its speed is this share of what it was promised, which is at least 1.
    Kept(f64),
    /// The same, below 1.
    Below(f64),
    /// It was not measured in the last interval, or what it was promised is not known.
    Unknown,
}

impl Standing {
    pub(crate) fn of(app: &AppStatus) -> Self {
        let Some((performance, floor)) = app.performance.as_ref().zip(app.floor) else {
            return Self::Unknown;
        };
        match performance.value / floor {
            share if !share.is_finite() => Self::Unknown,
            share if share < 1.0 => Self::Below(share),
            share => Self::Kept(share),
        }
    }

    /// The speed as a share of what was promised.
    pub(crate) fn share(self) -> Option<f64> {
        match self {
            Self::Kept(share) | Self::Below(share) => Some(share),
            Self::Unknown => None,
        }
    }

    /// `119 %`. What is below the promise is never shown as 100 %.
    pub(crate) fn in_percent(self) -> Option<String> {
        match self {
            Self::Below(share) => Some(percent(share.min(0.99))),
            _ => self.share().map(percent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_speed_is_a_share_of_what_was_promised_and_unknown_without_one() {
        let mut app = samples::status().apps.remove(0);
        let mut standing = |value: f64, floor| {
            app.performance.as_mut().unwrap().value = value;
            app.floor = floor;
            Standing::of(&app)
        };
        assert_eq!(standing(3.0, Some(2.0)), Standing::Kept(1.5));
        assert_eq!(standing(2.0, Some(2.0)), Standing::Kept(1.0));
        let below = standing(1.999, Some(2.0));
        assert!(matches!(below, Standing::Below(_)));
        assert_eq!(below.in_percent().unwrap(), "99 %");
        assert_eq!(standing(3.0, None), Standing::Unknown);
        assert_eq!(standing(0.0, Some(0.0)), Standing::Unknown);
        app.performance = None;
        assert_eq!(Standing::of(&app), Standing::Unknown);
    }
}
