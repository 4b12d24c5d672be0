//! The cycle of an application: a serial part, then a parallel one with its phases.
//!
//! Progress is in seconds of the run alone on the whole machine under plain Linux.

use crate::application::{AppModel, Behaviour};

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Part {
    pub(crate) behaviour: Behaviour,
    /// Whether all threads work, or one.
    pub(crate) parallel: bool,
    pub(crate) share: f64,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Cycle {
    parts: Vec<Part>,
    length_s: f64,
    offset_s: f64,
}

/// Where in its cycle an application is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Position {
    pub(crate) part: usize,
    /// Progress that is left in it.
    pub(crate) left_s: f64,
}

impl Cycle {
    /// The cycle of an application; it begins at this share of the cycle.
    pub(crate) fn of(app: &AppModel, length_s: f64, offset: f64) -> Self {
        let part = |behaviour, parallel, share| Part {
            behaviour,
            parallel,
            share,
        };
        let mut parts = Vec::new();
        if app.serial_share > 0.0 {
            parts.push(part(app.behaviour(), false, app.serial_share));
        }
        let parallel = 1.0 - app.serial_share;
        if app.phases.is_empty() && parallel > 0.0 {
            parts.push(part(app.behaviour(), true, parallel));
        }
        let phases = app.phases.iter();
        parts.extend(phases.map(|phase| part(app.in_phase(phase), true, parallel * phase.share)));
        Self {
            parts,
            length_s,
            offset_s: offset.fract() * length_s,
        }
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(crate) fn position(&self, progress_s: f64) -> Position {
        let mut at_s = (progress_s + self.offset_s) % self.length_s;
        for (part, p) in self.parts.iter().enumerate() {
            let long_s = p.share * self.length_s;
            // What is shorter than a microsecond is over.
            if at_s < long_s - 1e-6 {
                let left_s = long_s - at_s;
                return Position { part, left_s };
            }
            at_s -= long_s;
        }
        let left_s = self.parts.first().map_or(1.0, |p| p.share) * self.length_s;
        Position { part: 0, left_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixtures, presets};

    #[test]
    fn a_cycle_passes_through_all_parts_in_order() {
        let cycle = Cycle::of(&fixtures::app("ALS"), 5.0, 0.0);
        let mut at_s = 0.0;
        let mut next = || {
            let position = cycle.position(at_s);
            at_s += position.left_s;
            position.part
        };
        assert_eq!([(); 6].map(|()| next()), [0, 1, 2, 0, 1, 2]);
        assert!((at_s - 10.0).abs() < 1e-5, "{at_s}");
    }

    #[test]
    fn shares_of_every_application_make_a_whole() {
        for (name, app) in presets::read_apps(presets::APPS).unwrap() {
            let cycle = Cycle::of(&app, 5.0, 0.37);
            let sum: f64 = cycle.parts().iter().map(|p| p.share).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{name}");
        }
    }
}
