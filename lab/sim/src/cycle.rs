//! The cycle of an application: a serial part, then a parallel one with its phases.
//!
//! Progress is counted in seconds of the run alone on the whole machine under plain Linux. A
//! [`Cycle`] says where in the cycle an application is after so much progress, and what is left of
//! that part.

use crate::application::{AppModel, Behaviour};

/// A part of the cycle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Part {
    /// How it behaves.
    pub behaviour: Behaviour,
    /// Whether one thread works or all.
    pub parallel: bool,
    /// Share of the cycle.
    pub share: f64,
}

/// The cycle.
#[derive(Clone, PartialEq, Debug)]
pub struct Cycle {
    parts: Vec<Part>,
    length_s: f64,
    offset_s: f64,
}

/// Where an application is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Position {
    /// The part, by index.
    pub part: usize,
    /// Progress that is left in it.
    pub left_s: f64,
}

impl Cycle {
    /// The cycle of an application; it begins at this share of the cycle.
    #[must_use]
    pub fn of(app: &AppModel, length_s: f64, offset: f64) -> Self {
        let mut parts = Vec::new();
        if app.serial_share > 0.0 {
            parts.push(Part {
                behaviour: app.behaviour(),
                parallel: false,
                share: app.serial_share,
            });
        }
        let parallel = 1.0 - app.serial_share;
        if app.phases.is_empty() && parallel > 0.0 {
            parts.push(Part {
                behaviour: app.behaviour(),
                parallel: true,
                share: parallel,
            });
        }
        parts.extend(app.phases.iter().map(|phase| Part {
            behaviour: app.in_phase(phase),
            parallel: true,
            share: parallel * phase.share,
        }));
        Self {
            parts,
            length_s,
            offset_s: offset.fract() * length_s,
        }
    }

    /// Its parts in order.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Where an application is after this progress.
    #[must_use]
    pub fn position(&self, progress_s: f64) -> Position {
        let mut at_s = (progress_s + self.offset_s) % self.length_s;
        for (part, p) in self.parts.iter().enumerate() {
            let long_s = p.share * self.length_s;
            // What is shorter than a microsecond is over.
            if at_s < long_s - 1e-6 {
                return Position {
                    part,
                    left_s: long_s - at_s,
                };
            }
            at_s -= long_s;
        }
        Position {
            part: 0,
            left_s: self.parts.first().map_or(1.0, |p| p.share) * self.length_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn a_cycle_passes_through_all_parts_in_order() {
        let cycle = Cycle::of(&presets::app("ALS").unwrap(), 5.0, 0.0);
        let mut at_s = 0.0;
        let mut seen = Vec::new();
        for _ in 0..6 {
            let position = cycle.position(at_s);
            seen.push(position.part);
            at_s += position.left_s;
        }
        assert_eq!(seen, [0, 1, 2, 0, 1, 2]);
        assert!((at_s - 10.0).abs() < 1e-5, "{at_s}");
    }

    #[test]
    fn shares_of_every_application_make_a_whole() {
        for (name, app) in presets::apps().unwrap() {
            let sum: f64 = Cycle::of(&app, 5.0, 0.37)
                .parts()
                .iter()
                .map(|p| p.share)
                .sum();
            assert!((sum - 1.0).abs() < 1e-9, "{name}");
        }
    }
}
