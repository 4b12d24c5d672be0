//! The expected speed of an application at any count, from the few it was measured at.
//!
//! Between two measured counts the parallel rate is a power of the count (a straight line in logarithms).
//! Beyond them it goes on with the power expected of programs that scale ([`Expectations::power`]) or,
//! where two counts are known, that of the nearest two if that is less.
//!
//! Two expectations rest on knowledge of machines: CPUs that stay idle in the parallel part are not
//! needed; and a program whose threads wait for each other's data gains when they all fit into one region
//! of the machine [SAM-MPH §4.4], which no measurement at a greater count can show.

use super::tally::{RatePoint, Split};
use super::universal::Universal;

/// Standard errors by which a power may be off, and the error from which it is worth a trial.
const DOUBT: f64 = 2.0;
const IN_DOUBT: f64 = 0.05;
/// A power below which fewer CPUs are better. Where that ends is not known: the next trial is of fewer still.
const PEAK: f64 = -0.05;
/// Logarithm of how far two counts are apart that show a slope.
const APART: f64 = 0.1;
/// Logarithm of how far two counts are apart between which a curve may bend, and the power from which it does not.
const WIDE: f64 = 0.2;
const STRAIGHT: f64 = 0.8;

/// What is expected where nothing was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Expectations {
    /// The power of the count by which a rate grows beyond the counts that were measured.
    pub(crate) power: f64,
    /// The power by which it falls below them: work that keeps CPUs busy takes longer in proportion.
    below: f64,
    /// The least power that is expected of fewer CPUs, whatever was measured.
    least: f64,
    /// How far off these powers may be, as a standard deviation.
    spread: f64,
    /// Gain of a program that comes to fit into one region.
    region_gain: f64,
    /// Times the busy CPUs that are still needed when some stay idle.
    pub(crate) headroom: f64,
}

impl Default for Expectations {
    fn default() -> Self {
        Self {
            power: 0.8,
            below: 1.0,
            least: 0.02,
            spread: 0.4,
            region_gain: 1.1,
            headroom: 2.0,
        }
    }
}

/// The expected speed at each count, on a scale of its own.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Outlook {
    knots: Vec<Knot>,
    serial_per_work: f64,
    /// Powers by which the rate goes on below the knots, as far again as they reach and at least to half the least one;
    /// below that; and above the knots.
    near: f64,
    reach: f64,
    below: f64,
    above: f64,
    /// How far off `near` may be, and what it is at best; infinite where nothing was measured or fewer CPUs are better.
    near_error: f64,
    near_at_best: f64,
    /// Between two counts it goes on as below them, up to the rate at the greater one.
    bends: bool,
    /// The law that replaces all that.
    universal: Option<Universal>,
}

/// Rate at a count, in logarithms.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Knot {
    ln_cpus: f64,
    ln_rate: f64,
    /// How far off the rate may be, against that of the best known knot.
    error: f64,
}

impl Knot {
    /// The rate at a count. The measured difference from the best known count is believed as far as it is sure, and
    /// what is expected otherwise.
    fn between(surest: &RatePoint, point: &RatePoint, expected: &Expectations) -> Self {
        let ln_cpus = f64::from(point.cpus).ln();
        let distance = ln_cpus - f64::from(surest.cpus).ln();
        let power = if distance < 0.0 {
            expected.below
        } else {
            expected.power
        };
        let variance = point.error.powi(2) + surest.error.powi(2);
        let prior = (expected.spread * distance).powi(2);
        let believed = if prior > 0.0 {
            prior / (prior + variance)
        } else {
            0.0
        };
        let measured = (point.rate / surest.rate).ln();
        Self {
            ln_cpus,
            ln_rate: surest.rate.ln() + believed * measured + (1.0 - believed) * power * distance,
            error: (believed * variance).sqrt(),
        }
    }
}

/// The power of the count by which the rate goes from one knot to the next.
fn power(a: Knot, b: Knot) -> f64 {
    (b.ln_rate - a.ln_rate) / (b.ln_cpus - a.ln_cpus)
}

/// The law that rates follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Law {
    /// Powers of the count from one known count to the next, with a step at a region.
    #[default]
    Powers,
    /// The [`Universal`] scalability law.
    Universal,
}

/// The CPUs of a region, when the threads are known to wait for each other's data, and the law.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Hints {
    pub(crate) together_within: Option<u32>,
    pub(crate) law: Law,
}

impl Outlook {
    /// The outlook of a split; `None` when no rate is known.
    pub(crate) fn new(split: &Split, hints: Hints, expected: &Expectations) -> Option<Self> {
        let by_error = |a: &&RatePoint, b: &&RatePoint| a.error.total_cmp(&b.error);
        let surest = split.points.iter().min_by(by_error)?;
        let mut knots: Vec<Knot> = split
            .points
            .iter()
            .map(|p| Knot::between(surest, p, expected))
            .collect();
        let least = split.points.first()?;
        let most = split.points.last()?;
        let grows = match knots.as_slice() {
            _ if most.usable < most.cpus => 0.0,
            [.., before, end] => power(*before, *end).clamp(0.0, expected.power),
            _ => expected.power,
        };
        let first = knots[0];
        let others = &knots[1..];
        let beyond = |least: f64| {
            let beyond = |k: &&Knot| k.ln_cpus - first.ln_cpus > least;
            let second = others.iter().find(beyond).or(others.last());
            second.map(|second| (second, power(first, *second)))
        };
        // Between two counts that are close together noise hides how it falls.
        let falls = beyond(WIDE).filter(|(_, slope)| *slope <= PEAK);
        let slope = falls.or_else(|| beyond(APART));
        let [near, near_error, near_at_best, reach] = match slope {
            Some((second, slope)) if slope > PEAK => {
                let near = slope.clamp(expected.least, expected.below);
                let error = first.error.hypot(second.error) / (second.ln_cpus - first.ln_cpus);
                let span = knots[knots.len() - 1].ln_cpus - first.ln_cpus;
                let at_best = (near - DOUBT * error).max(0.0);
                [near, error, at_best, span.max(std::f64::consts::LN_2)]
            }
            Some((_, slope)) => [
                expected.below,
                f64::INFINITY,
                slope.max(-1.0),
                f64::INFINITY,
            ],
            None => [expected.below, f64::INFINITY, 0.0, std::f64::consts::LN_2],
        };
        if let Some(region) = hints.together_within
            && region < least.cpus
        {
            let ln_cpus = f64::from(region).ln();
            let near = Knot {
                ln_cpus,
                ln_rate: knots[0].ln_rate + expected.region_gain.ln(),
                error: 0.0,
            };
            knots.retain(|k| k.ln_cpus > ln_cpus);
            knots.insert(0, near);
        }
        Some(Self {
            knots,
            serial_per_work: split.serial_per_work,
            near,
            reach,
            below: expected.below,
            above: grows,
            near_error,
            near_at_best,
            bends: false,
            universal: match hints.law {
                Law::Powers => None,
                Law::Universal => Universal::fit(split, expected.power),
            },
        })
    }

    /// The same if fewer CPUs were as good, and more as good, as may be; `None` where that is known.
    pub(crate) fn hopeful(&self) -> Option<Self> {
        let is_open = self.near_error.is_infinite();
        let hopeful = || Self {
            near: self.near_at_best,
            below: if is_open { 0.0 } else { self.below },
            above: if is_open && self.above > 0.0 {
                1.0
            } else {
                self.above
            },
            bends: true,
            ..self.clone()
        };
        (self.near_error > IN_DOUBT || self.may_bend()).then(hopeful)
    }

    /// Whether it may have come to the rate of a count with far fewer CPUs, of a count between two.
    fn may_bend(&self) -> bool {
        let wide = |pair: &[Knot]| {
            let slope = power(pair[0], pair[1]);
            pair[1].ln_cpus - pair[0].ln_cpus > WIDE && slope > 0.0 && slope < STRAIGHT
        };
        self.knots.windows(2).any(wide)
    }

    /// Whether it was faster with the fewest CPUs that it was measured with than with more.
    pub(crate) fn falls(&self) -> bool {
        self.near_at_best < 0.0
    }

    pub(crate) fn ln_speed(&self, cpus: u32) -> f64 {
        self.ln_speed_at(self.ln_rate(cpus).exp())
    }

    /// The logarithm of the speed at a parallel rate.
    pub(crate) fn ln_speed_at(&self, rate: f64) -> f64 {
        -(self.serial_per_work + 1.0 / rate.max(f64::MIN_POSITIVE)).ln()
    }

    /// How far off the speed at a measured count may be, relative to that at the best known one.
    pub(crate) fn error(&self, cpus: u32) -> f64 {
        let ln_cpus = f64::from(cpus.max(1)).ln();
        let at = |k: &&Knot| (k.ln_cpus - ln_cpus).abs() < 1e-9;
        let knot = self.knots.iter().find(at);
        // Only the parallel part of the time is in doubt.
        let speed = self.ln_speed(cpus) - self.ln_rate(cpus);
        knot.map_or(0.0, |k| k.error * speed.exp())
    }

    pub(crate) fn ln_rate(&self, cpus: u32) -> f64 {
        if let Some(law) = self.universal {
            return law.ln_rate(cpus);
        }
        let ln_cpus = f64::from(cpus.max(1)).ln();
        let knots = &self.knots;
        let after = knots.partition_point(|k| k.ln_cpus < ln_cpus);
        let last = knots.len() - 1;
        if after == 0 {
            let first = knots[0];
            let distance = first.ln_cpus - ln_cpus;
            let near = distance.min(self.reach);
            first.ln_rate - self.near * near - self.below * (distance - near)
        } else if after > last {
            let end = knots[last];
            end.ln_rate + self.above * (ln_cpus - end.ln_cpus)
        } else {
            let (a, b) = (knots[after - 1], knots[after]);
            let straight = a.ln_rate + power(a, b) * (ln_cpus - a.ln_cpus);
            // Curves that bend do so downwards: half as far as those on both sides let it.
            let before = match after {
                1 => self.below,
                _ => power(knots[after - 2], a),
            };
            let beyond = knots
                .get(after + 1)
                .map_or(self.above, |next| power(b, *next));
            let from_a = a.ln_rate + before * (ln_cpus - a.ln_cpus);
            if self.bends {
                return from_a.min(b.ln_rate).max(straight);
            }
            let from_b = b.ln_rate - beyond * (b.ln_cpus - ln_cpus);
            straight.midpoint(from_a.min(from_b).max(straight))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(points: &[(u32, f64)], serial_per_work: f64) -> Split {
        Split::of(points, 0.0, serial_per_work)
    }

    fn speed(split: &Split, hints: Hints, cpus: u32) -> f64 {
        let outlook = Outlook::new(split, hints, &Expectations::default()).unwrap();
        outlook.ln_speed(cpus).exp()
    }

    #[test]
    fn serial_time_bounds_the_speed_as_amdahl_has_it() {
        let program = split(&[(10, 10.0), (40, 40.0)], 0.05);
        let at = |cpus| speed(&program, Hints::default(), cpus);
        assert!((at(20) - 1.0 / (0.05 + 1.0 / 20.0)).abs() < 1e-9);
        assert!(at(80) < 1.0 / 0.05);
    }

    #[test]
    fn more_than_there_are_threads_brings_nothing() {
        let mut few = split(&[(40, 9.0)], 0.0);
        few.points[0].usable = 20;
        let at = |cpus| speed(&few, Hints::default(), cpus);
        assert!((at(60) - 9.0).abs() < 1e-9);
        assert!(at(10) < 9.0);
    }

    #[test]
    fn what_scatters_is_believed_as_far_as_it_is_sure() {
        let fall = |error| {
            let both = Split::of(&[(2, 6.0), (4, 10.0)], error, 0.0);
            speed(&both, Hints::default(), 4) / speed(&both, Hints::default(), 2)
        };
        assert!((fall(1e-6) - 10.0 / 6.0).abs() < 1e-6);
        // Of nothing but noise it expects what it expects of any program.
        assert!((fall(10.0) - 2.0_f64.powf(0.8)).abs() < 0.01);
        assert!(fall(0.1) < 10.0 / 6.0 + 0.08);
    }

    #[test]
    fn two_counts_that_are_close_together_do_not_show_how_fewer_do() {
        let at = |points: &[(u32, f64)]| {
            let scatters = Split::of(points, 0.02, 0.0);
            speed(&scatters, Hints::default(), 13) / speed(&scatters, Hints::default(), 26)
        };
        // 27 CPUs scatter too much against 26; 38 do not, and the curve is flat.
        assert!(at(&[(26, 1.0), (27, 1.0)]) < 0.8);
        assert!(at(&[(26, 1.0), (27, 1.0), (38, 1.0)]) > 0.9);
    }

    #[test]
    fn a_region_is_hoped_for_until_it_was_tried() {
        let hints = Hints {
            together_within: Some(20),
            law: Law::Powers,
        };
        let wide = split(&[(40, 10.0)], 0.0);
        assert!(speed(&wide, hints, 20) > speed(&wide, hints, 40));
        assert!(speed(&wide, Hints::default(), 20) < speed(&wide, hints, 40));
        let tried = split(&[(20, 8.0), (40, 10.0)], 0.0);
        assert!(speed(&tried, hints, 20) < speed(&tried, hints, 40));
    }
}
