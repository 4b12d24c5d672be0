//! The expected speed of an application at any count, from the few it was measured at.
//!
//! Between two measured counts the parallel rate is a power of the count (a straight line in logarithms).
//! Beyond them it goes on with the power expected of programs that scale ([`Expectations::power`]) or,
//! where two counts are known, that of the nearest two if that is less.
//!
//! Two expectations rest on knowledge of machines: CPUs that stay idle in the parallel part are not
//! needed; and a program whose threads wait for each other's data gains when they all fit into one region
//! of the machine [SAM-MPH §4.4], which no measurement at a greater count can show.

use super::tally::Split;
use super::universal::Universal;

/// Share of its CPUs that a program keeps busy in its parallel part when it can use more.
const USED: f64 = 0.9;

/// What is expected where nothing was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Expectations {
    /// The power of the count by which a rate grows.
    pub(crate) power: f64,
    /// Gain of a program that comes to fit into one region.
    region_gain: f64,
    /// Times the busy CPUs that are still needed when some stay idle.
    pub(crate) headroom: f64,
}

impl Default for Expectations {
    fn default() -> Self {
        Self {
            power: 0.8,
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
    /// Powers by which the rate goes on below and above the knots.
    below: f64,
    above: f64,
    /// The law that replaces all that.
    universal: Option<Universal>,
}

/// Rate at a count, in logarithms.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Knot {
    ln_cpus: f64,
    ln_rate: f64,
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
        let mut knots: Vec<Knot> = split
            .points
            .iter()
            .map(|p| Knot {
                ln_cpus: f64::from(p.cpus).ln(),
                ln_rate: p.rate.ln(),
            })
            .collect();
        let least = split.points.first()?;
        let needed = (least.width * expected.headroom).max(1.0);
        if needed < f64::from(least.cpus) {
            let idle = Knot {
                ln_cpus: needed.ln(),
                ln_rate: knots[0].ln_rate,
            };
            knots.insert(0, idle);
        }
        let most = split.points.last()?;
        let grows = match knots.as_slice() {
            _ if most.width < USED * f64::from(most.cpus) => 0.0,
            [.., before, end] => power(*before, *end).clamp(0.0, expected.power),
            _ => expected.power,
        };
        if let Some(region) = hints.together_within
            && region < least.cpus
        {
            let ln_cpus = f64::from(region).ln();
            let near = Knot {
                ln_cpus,
                ln_rate: knots[0].ln_rate + expected.region_gain.ln(),
            };
            knots.retain(|k| k.ln_cpus > ln_cpus);
            knots.insert(0, near);
        }
        Some(Self {
            knots,
            serial_per_work: split.serial_per_work,
            below: expected.power,
            above: grows,
            universal: match hints.law {
                Law::Powers => None,
                Law::Universal => Universal::fit(split, expected.power),
            },
        })
    }

    pub(crate) fn ln_speed(&self, cpus: u32) -> f64 {
        self.ln_speed_at(self.ln_rate(cpus).exp())
    }

    /// The logarithm of the speed at a parallel rate.
    pub(crate) fn ln_speed_at(&self, rate: f64) -> f64 {
        -(self.serial_per_work + 1.0 / rate.max(f64::MIN_POSITIVE)).ln()
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
            first.ln_rate - self.below * (first.ln_cpus - ln_cpus)
        } else if after > last {
            let end = knots[last];
            end.ln_rate + self.above * (ln_cpus - end.ln_cpus)
        } else {
            let (a, b) = (knots[after - 1], knots[after]);
            a.ln_rate + power(a, b) * (ln_cpus - a.ln_cpus)
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
    fn cpus_that_stay_idle_are_not_missed() {
        let mut idle = split(&[(40, 9.0)], 0.0);
        idle.points[0].width = 9.0;
        assert!((speed(&idle, Hints::default(), 20) - 9.0).abs() < 1e-9);
        assert!(speed(&idle, Hints::default(), 10) < 9.0);
        assert!((speed(&idle, Hints::default(), 60) - 9.0).abs() < 1e-9);
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
