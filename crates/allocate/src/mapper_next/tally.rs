//! The speed of one application in two parts: a serial one that CPUs do not help, and a parallel one.
//!
//! A program alternates between parts in which one thread works and parts in which all do. Readings mix them at random,
//! so that the mean performance at a count is known only after many seconds. But an interval also shows how many CPUs
//! were busy, and so how it was mixed. With `p` its parallel share at `k` CPUs its performance is
//!
//! ```text
//! y = p·R(k) + (1 − p)·S
//! ```
//!
//! where the parallel rate `R(k)` depends on the count and the serial rate `S` does not. Least squares over all
//! intervals, with sums for each count, gives both in closed form. The serial time per unit of parallel work, `a`, does
//! not depend on the count either, so the speed at any count is `1 / (a + 1/R(k))`: Amdahl's law with measured terms.
//!
//! Threads also leave CPUs idle for other reasons: they wait for a disk, or for the slowest of them. Then what looks like
//! serial time differs from count to count. Between counts where all intervals were alike nothing has to be sorted
//! out: the further they differ beyond chance, the more the speeds count as they were measured, and the less `a` does.
//!
//! Units: performance in that of its source, time in seconds. Old intervals fade.

use serde::{Deserialize, Serialize};

/// The least parallel share that is assumed, so that a serial program has a rate, too.
pub(super) const LEAST_SHARE: f64 = 0.01;
/// Intervals and scatter of the parallel share from which a mix is steady, and the distance of another one.
const STEADY: f64 = 4.5;
const STEADY_WITHIN: f64 = 0.1;
const STRANGE: f64 = 0.3;
/// The least parallel share that is assumed on one CPU.
const LEAST_LEFT: f64 = 0.05;
/// How much the mix must vary for the serial rate to show: part of the squares of the serial share.
const LEAST_CONTRAST: f64 = 0.05;
/// The relative scatter of an interval that is assumed before any was seen, and the intervals that it is worth.
const USUAL_SCATTER: f64 = 0.03;
const USUAL_WEIGHT: f64 = 1.0;
/// Standard errors from which a serial rate counts: noise shows one, too.
const SURE: f64 = 3.0;
/// The standard deviation of the parallel share of an interval that is assumed before any was seen.
const USUAL_SHARES: f64 = 0.15;
/// How far off the parallel share is in any program.
const INEXACT: f64 = 0.03;
/// Squared standard errors by which counts differ by chance, for each count after the first.
const CHANCE: f64 = 3.0;
/// Intervals from which a count can be compared with others.
const SEVERAL: f64 = 1.5;

/// One interval: its CPUs, performance, busy CPUs (where known) and length.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) cpus: u32,
    pub(crate) performance: f64,
    pub(crate) busy: Option<f64>,
    /// CPUs that its threads could keep busy.
    pub(crate) usable: u32,
    pub(crate) seconds: f64,
}

/// The sums of the intervals at one count: of `b` busy CPUs and performance `y`.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    cpus: u32,
    /// How many intervals and how long they were, faded.
    intervals: f64,
    seconds: f64,
    /// The most CPUs that were busy in one, and that its threads could keep busy.
    width: f64,
    usable: u32,
    b: f64,
    bb: f64,
    y: f64,
    by: f64,
    yy: f64,
}

/// The same sums by parallel share `p` and serial share `s = 1 - p`.
#[derive(Clone, Copy, Debug)]
struct Parts {
    p: f64,
    s: f64,
    pp: f64,
    ps: f64,
    ss: f64,
    py: f64,
    sy: f64,
}

impl Parts {
    /// The parallel rate beside a serial one.
    fn rate(&self, serial: f64) -> f64 {
        (self.py - self.ps * serial) / self.pp
    }

    /// Mean and variance of the parallel share.
    fn share(&self) -> (f64, f64) {
        let seconds = self.p + self.s;
        let mean = self.p / seconds;
        (mean, (self.pp / seconds - mean * mean).max(0.0))
    }
}

impl Tally {
    fn add(&mut self, busy: f64, performance: f64, seconds: f64, keep: f64) {
        for sum in [
            &mut self.intervals,
            &mut self.seconds,
            &mut self.b,
            &mut self.bb,
            &mut self.y,
            &mut self.by,
            &mut self.yy,
        ] {
            *sum *= keep;
        }
        self.width = self.width.max(busy);
        self.intervals += 1.0;
        self.seconds += seconds;
        self.b += seconds * busy;
        self.bb += seconds * busy * busy;
        self.y += seconds * performance;
        self.by += seconds * busy * performance;
        self.yy += seconds * performance * performance;
    }

    /// Sum of the squares of what these rates leave unexplained, weighted by time.
    fn squares(&self, t: &Parts, rate: f64, serial: f64) -> f64 {
        self.yy - 2.0 * (rate * t.py + serial * t.sy)
            + rate * rate * t.pp
            + 2.0 * rate * serial * t.ps
            + serial * serial * t.ss
    }

    /// Whether several intervals were alike in their mix and their performance.
    fn is_steady(&self) -> bool {
        let mean = self.y / self.seconds;
        let variance = self.yy / self.seconds - mean * mean;
        self.intervals > SEVERAL
            && self.has_steady_mix()
            && variance < (STEADY_WITHIN * mean).powi(2)
    }

    fn has_steady_mix(&self) -> bool {
        self.parts().share().1 < STEADY_WITHIN * STEADY_WITHIN
    }

    /// With `p = (b - 1) / (k - 1)`.
    fn parts(&self) -> Parts {
        let n = self.seconds;
        let more = f64::from(self.usable) - 1.0;
        if more < 1.0 {
            return Parts {
                p: n,
                s: 0.0,
                pp: n,
                ps: 0.0,
                ss: 0.0,
                py: self.y,
                sy: 0.0,
            };
        }
        let p = (self.b - n) / more;
        let pp = (self.bb - 2.0 * self.b + n) / (more * more);
        let py = (self.by - self.y) / more;
        Parts {
            p,
            s: n - p,
            pp,
            ps: p - pp,
            ss: n - 2.0 * p + pp,
            py,
            sy: self.y - py,
        }
    }
}

/// The serial rate, after each count's parallel rate is eliminated; 0 while it may be chance.
fn serial_rate(counts: &[(Placed, &Tally, Parts)]) -> f64 {
    let (mut above, mut below) = (0.0, 0.0);
    for (_, _, t) in counts {
        above += t.sy - t.ps * t.py / t.pp;
        below += (1.0 + LEAST_CONTRAST) * t.ss - t.ps * t.ps / t.pp;
    }
    if below <= 1e-6 {
        return 0.0;
    }
    let serial = (above / below).max(0.0);
    let off = counts
        .iter()
        .map(|(_, tally, t)| tally.squares(t, t.rate(serial), serial));
    let free: f64 = counts
        .iter()
        .map(|(_, tally, _)| tally.intervals - 1.0)
        .sum::<f64>()
        - 1.0;
    if free < 1.0 {
        return 0.0;
    }
    let variance = off.sum::<f64>().max(0.0) / free / below;
    if serial > SURE * variance.sqrt() {
        serial
    } else {
        0.0
    }
}

/// What looks like serial time at a count.
#[derive(Clone, Copy, Debug)]
struct SerialTime {
    /// Whether its intervals were alike, and it was placed as usual.
    steady: bool,
    waited: f64,
    /// Work in parallel parts, and in all.
    worked: f64,
    done: f64,
    seconds: f64,
    intervals: f64,
}

impl SerialTime {
    fn per_work(&self) -> f64 {
        self.waited / self.worked
    }

    /// Standard error of that, by the scatter of an interval's parallel share and, relatively, of its performance.
    fn error(&self, shares: f64, scatter: f64) -> f64 {
        let intervals = self.intervals.max(1.0).sqrt();
        let share = (shares / intervals).hypot(INEXACT) * self.seconds / self.worked;
        share.hypot(self.per_work() * scatter / intervals)
    }
}

/// How far the serial times of the steady counts differ from each other by more than chance: from 0, for not at all, towards 1.
fn misfit(times: &[SerialTime], error: impl Fn(&SerialTime) -> f64) -> f64 {
    let steady: Vec<&SerialTime> = times.iter().filter(|time| time.steady).collect();
    if steady.len() < 2 {
        return 0.0;
    }
    let weight = |time: &SerialTime| error(time).powi(-2);
    let weights: f64 = steady.iter().map(|time| weight(time)).sum();
    let mean: f64 = steady
        .iter()
        .map(|time| weight(time) * time.per_work())
        .sum::<f64>()
        / weights;
    let squares: f64 = steady
        .iter()
        .map(|time| weight(time) * (time.per_work() - mean).powi(2))
        .sum();
    let by_chance = CHANCE * (steady.len() - 1) as f64;
    if squares > by_chance {
        1.0 - by_chance / squares
    } else {
        0.0
    }
}

/// By whose rule the CPUs of an interval were chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placed {
    /// The placement policy's.
    Usually,
    /// As the static fair share is placed.
    AsFair,
}

/// All counts of one application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tallies {
    counts: Vec<Tally>,
    reference: Option<Tally>,
}

/// The parallel rate at a count.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct RatePoint {
    pub(crate) cpus: u32,
    /// Above 0.
    pub(crate) rate: f64,
    /// Its relative standard error.
    pub(crate) error: f64,
    /// Seconds of parallel work it rests on.
    pub(crate) worked: f64,
    /// Standard error of the parallel share of the time.
    pub(crate) share_error: f64,
    /// The most CPUs that were busy, and that its threads could keep busy.
    pub(crate) width: f64,
    pub(crate) usable: u32,
}

/// The result of the tallies.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Split {
    /// Parallel rates by ascending count.
    pub(crate) points: Vec<RatePoint>,
    pub(crate) reference: Option<RatePoint>,
    /// Seconds in serial parts for each unit of parallel work.
    pub(crate) serial_per_work: f64,
}

impl Split {
    /// Whether every number is usable.
    pub(crate) fn is_sound(&self) -> bool {
        let sound =
            |p: &RatePoint| p.rate.is_normal() && p.error.is_finite() && p.worked.is_finite();
        self.serial_per_work.is_finite() && self.points.iter().chain(&self.reference).all(sound)
    }
    /// Rates of programs that kept all CPUs busy for five seconds.
    #[cfg(test)]
    pub(crate) fn of(points: &[(u32, f64)], error: f64, serial_per_work: f64) -> Self {
        let point = |&(cpus, rate): &(u32, f64)| RatePoint {
            cpus,
            rate,
            error,
            worked: 5.0,
            share_error: 0.0,
            width: f64::from(cpus),
            usable: cpus,
        };
        Self {
            points: points.iter().map(point).collect(),
            reference: None,
            serial_per_work,
        }
    }
}

impl Tallies {
    /// Forgets the results under the static fair share, which has changed.
    pub(crate) fn forget_reference(&mut self) {
        self.reference = None;
    }

    /// Seconds that were measured, faded.
    pub(crate) fn seconds(&self) -> f64 {
        let all = self.counts.iter().chain(&self.reference);
        all.map(|t| t.seconds).sum()
    }

    /// Ingests an interval; `keep` is the weight that earlier ones at its count retain.
    pub(crate) fn add(&mut self, interval: Interval, placed: Placed, keep: f64) {
        let Interval {
            cpus,
            performance,
            busy,
            usable,
            seconds,
        } = interval;
        if cpus == 0 || !performance.is_finite() || performance < 0.0 || seconds <= 0.0 {
            return;
        }
        let fresh = Tally {
            cpus,
            ..Tally::default()
        };
        let tally = match placed {
            Placed::AsFair => {
                self.reference.take_if(|known| known.cpus != cpus);
                self.reference.get_or_insert(fresh)
            }
            Placed::Usually => {
                let found = self.counts.binary_search_by_key(&cpus, |t| t.cpus);
                let place = found.unwrap_or_else(|place| {
                    self.counts.insert(place, fresh);
                    place
                });
                &mut self.counts[place]
            }
        };
        tally.usable = tally.usable.max(usable.min(cpus));
        let full = f64::from(tally.usable);
        let busy = busy.filter(|b| b.is_finite()).unwrap_or(full);
        let least = 1.0 + LEAST_SHARE * (full - 1.0);
        tally.add(busy.clamp(least, full), performance, seconds, keep);
    }

    /// Whether an interval has another mix of serial and parallel than the steady mix of many intervals at its count.
    pub(crate) fn is_strange(&self, interval: &Interval) -> bool {
        let known = self.counts.iter().find(|t| t.cpus == interval.cpus);
        let (Some(known), Some(busy)) = (known, interval.busy) else {
            return false;
        };
        if known.usable < 2 {
            return false;
        }
        let (mean, _) = known.parts().share();
        let share = (busy - 1.0) / f64::from(known.usable - 1);
        known.intervals > STEADY && known.has_steady_mix() && (share - mean).abs() > STRANGE
    }

    /// Parallel rates and serial time by least squares.
    pub(crate) fn split(&self) -> Split {
        let usual = self.counts.iter().map(|t| (Placed::Usually, t));
        let as_fair = self.reference.iter().map(|t| (Placed::AsFair, t));
        let parts: Vec<(Placed, &Tally, Parts)> = usual
            .chain(as_fair)
            .map(|(placed, t)| (placed, t, t.parts()))
            .filter(|(_, _, p)| p.pp > 1e-6)
            .collect();
        let serial = serial_rate(&parts);
        let mut points = Vec::new();
        let mut scatter = USUAL_WEIGHT * USUAL_SCATTER * USUAL_SCATTER;
        let mut shares = 0.0;
        let mut seen = USUAL_WEIGHT;
        for (placed, tally, t) in &parts {
            let rate = t.rate(serial);
            if !(rate > 0.0 && rate.is_finite()) {
                continue;
            }
            let squares = tally.squares(t, rate, serial);
            let point = RatePoint {
                cpus: tally.cpus,
                rate,
                error: tally.intervals.max(1.0).sqrt().recip(),
                worked: t.p,
                share_error: tally.intervals.max(1.0).sqrt().recip(),
                width: tally.width,
                usable: tally.usable,
            };
            scatter += squares.max(0.0) / t.pp / (rate * rate) * tally.intervals;
            shares += t.share().1 * tally.intervals;
            seen += tally.intervals - 1.0;
            // On one CPU both parts look alike.
            let serial_time = (tally.usable > 1).then_some(SerialTime {
                // Under the static fair share it may be faster or slower for its place alone.
                steady: *placed == Placed::Usually && tally.is_steady(),
                waited: t.s,
                worked: t.p * rate,
                done: tally.y,
                seconds: t.p + t.s,
                intervals: tally.intervals,
            });
            points.push((*placed, point, serial_time));
        }
        let scatter = (scatter / seen).sqrt();
        let times: Vec<SerialTime> = points.iter().filter_map(|(_, _, time)| *time).collect();
        let waited: f64 = times.iter().map(|time| time.waited).sum();
        let worked: f64 = times.iter().map(|time| time.worked).sum();
        let common = if worked > 0.0 {
            (waited / worked).max(0.0)
        } else {
            0.0
        };
        let usual = USUAL_WEIGHT * USUAL_SHARES * USUAL_SHARES;
        let error = |time: &SerialTime| time.error(((usual + shares) / seen).sqrt(), scatter);
        let misfit = misfit(&times, error);
        let shares = (shares / (seen - USUAL_WEIGHT).max(f64::MIN_POSITIVE)).sqrt();
        // For each unit of parallel work: what is measured of a mean or on one CPU has the rest in it, too.
        let all_work = 1.0 + common * serial;
        let mut split = Split {
            serial_per_work: (1.0 - misfit) * common,
            ..Split::default()
        };
        for (placed, mut point, time) in points {
            point.error *= scatter;
            point.share_error *= shares;
            match time {
                Some(time) => {
                    let measured = all_work * time.seconds / time.done;
                    point.rate = ((1.0 - misfit) / point.rate + misfit * measured).recip();
                }
                None => {
                    point.rate /= all_work;
                    let left = 1.0 - split.serial_per_work * point.rate;
                    point.rate /= left.max(LEAST_LEFT);
                    point.error /= left.max(LEAST_LEFT);
                }
            }
            match placed {
                Placed::Usually => split.points.push(point),
                Placed::AsFair => split.reference = Some(point),
            }
        }
        // Readings may be nonsense; the result may not.
        if split.is_sound() {
            split
        } else {
            Split::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals at a count, each of its performance and busy CPUs.
    fn add(tallies: &mut Tallies, cpus: u32, intervals: &[(f64, Option<f64>)]) {
        for &(performance, busy) in intervals {
            let interval = Interval {
                cpus,
                performance,
                busy,
                usable: cpus,
                seconds: 1.0,
            };
            tallies.add(interval, Placed::Usually, 1.0);
        }
    }

    /// Intervals with these parallel shares, by the rates of both parts.
    fn mixed(cpus: u32, rates: [f64; 2], shares: &[f64]) -> Vec<(f64, Option<f64>)> {
        let mix = |p: &f64| {
            let busy = p * f64::from(cpus) + (1.0 - p);
            (p * rates[0] + (1.0 - p) * rates[1], Some(busy))
        };
        shares.iter().map(mix).collect()
    }

    #[test]
    fn both_rates_are_found_however_the_intervals_are_mixed() {
        let mut tallies = Tallies::default();
        add(&mut tallies, 40, &mixed(40, [30.0, 2.0], &[1.0, 0.3, 0.6]));
        // Never wholly serial, and only a few of them.
        add(&mut tallies, 20, &mixed(20, [16.0, 2.0], &[1.0, 0.8]));
        let split = tallies.split();
        let rates: Vec<f64> = split.points.iter().map(|p| p.rate).collect();
        // The serial rate is believed a little less than it shows.
        assert!((rates[0] - 16.0).abs() < 0.1 && (rates[1] - 30.0).abs() < 0.2);
        assert!(split.points.iter().all(|p| p.error < 0.03));
        // 1.3 s of serial time; 1.9 s at 30 and 1.8 s at 16 of parallel work.
        let expected = 1.3 / (1.9 * 30.0 + 1.8 * 16.0);
        assert!((split.serial_per_work / expected - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_slower_fair_share_does_not_hide_a_serial_part() {
        let mut tallies = Tallies::default();
        for cpus in [4, 8] {
            let speed = 1.0 / (0.4 + 0.6 / f64::from(cpus));
            add(&mut tallies, cpus, &[(speed, Some(speed)); 20]);
        }
        let before = tallies.split().serial_per_work;
        for _ in 0..5 {
            let (performance, busy) = (0.6 * 2.105, Some(2.105));
            let interval = Interval {
                cpus: 8,
                performance,
                busy,
                usable: 8,
                seconds: 1.0,
            };
            tallies.add(interval, Placed::AsFair, 1.0);
        }
        let after = tallies.split().serial_per_work;
        assert!(
            before > 0.3 && (after / before - 1.0).abs() < 0.2,
            "{before} {after}"
        );
    }

    #[test]
    fn what_is_idle_without_a_serial_part_leaves_the_speeds_as_measured() {
        let mut tallies = Tallies::default();
        // Each CPU rests for 30 % of the time, and the speed is in proportion to their count.
        for cpus in 2..=4 {
            let busy = [0.69, 0.7, 0.71, 0.7, 0.7].map(|busy| busy * f64::from(cpus));
            add(
                &mut tallies,
                cpus,
                &busy.map(|busy| (f64::from(cpus), Some(busy))),
            );
        }
        let split = tallies.split();
        let speeds = split
            .points
            .iter()
            .map(|p| (split.serial_per_work + 1.0 / p.rate).recip());
        for (speed, cpus) in speeds.zip(2_u32..) {
            assert!(
                (speed / f64::from(cpus) - 1.0).abs() < 0.04,
                "{speed} at {cpus}"
            );
        }
    }

    #[test]
    fn the_speed_on_one_cpu_is_compared_with_all_that_is_done_on_more() {
        let mut tallies = Tallies::default();
        // Serial parts do as much in their time as parallel ones on one CPU.
        add(
            &mut tallies,
            4,
            &mixed(4, [4.0, 1.0], &[0.9, 0.5, 0.7, 0.3]),
        );
        add(&mut tallies, 1, &[(1.0, Some(1.0)); 4]);
        let split = tallies.split();
        let speeds: Vec<f64> = split
            .points
            .iter()
            .map(|p| (split.serial_per_work + 1.0 / p.rate).recip())
            .collect();
        // 0.6 of the time at 4 and 0.4 at 1.
        assert!((speeds[1] / speeds[0] - 2.8).abs() < 0.1, "{speeds:?}");
    }

    #[test]
    fn without_busy_cpus_the_rate_is_the_mean() {
        let mut tallies = Tallies::default();
        add(&mut tallies, 8, &[9.0, 11.0, 10.0].map(|p| (p, None)));
        let split = tallies.split();
        assert!((split.points[0].rate - 10.0).abs() < 1e-9);
        assert_eq!(split.serial_per_work, 0.0);
        assert!(split.points[0].error > 0.03);
    }

    #[test]
    fn nonsense_comes_to_nothing() {
        let mut tallies = Tallies::default();
        let nonsense = [f64::NAN, f64::INFINITY, -1.0];
        add(&mut tallies, 4, &nonsense.map(|p| (p, Some(1.0))));
        assert_eq!(tallies.split(), Split::default());
    }
}
