//! Performance from progress: what the application reports, or what its OpenMP runtime counts.
//!
//! Progress arrives in lumps: a parallel region of 0.3 s completes three or four times a second, and
//! work per interval would scatter by 30 %. So work is divided by the time between *completions*,
//! whose times the shared page holds; while nothing completes, the pair stays open.
//!
//! The OpenMP shim counts regions, and iterations of the loops whose chunks the runtime hands out.
//! Both count the same work whatever the size of the team, but in different units, so each application
//! is judged by one of them ([`WorkUnit`]): regions, if enough complete in an interval for a smooth
//! rate, else iterations. A switch is a change of source: the curve starts anew.
//!
//! A region that was running when the CPU count changed ran partly with the old count. The first pair
//! after a change is used only if a small part of it lies before ([`Straddle`]).
//!
//! The application writes the shared page, so it may hold nonsense: counts and times that run backwards close the pair
//! without a sample. A time may be later than the observation, since pages are read one after another.

use mapper_model::{ReportedProgress, RuntimeProgress};
use serde::{Deserialize, Serialize};

/// Regions per interval from which their rate is smooth enough.
const SMOOTH: u64 = 8;
/// Intervals after which the unit of work may change.
const UNIT_PATIENCE: u32 = 3;

/// The count that is the progress of an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WorkUnit {
    /// Parallel regions completed.
    Regions,
    /// Iterations of dispensed loops completed.
    Iterations,
}

/// What an interval yielded.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) enum Progress {
    /// The source is missing, or made no sense.
    #[default]
    Absent,
    /// Nothing was completed, or too little to tell.
    Pending,
    /// Work per second.
    Rate(f64),
    /// The unit changed: what follows cannot be compared with values from before.
    NewUnit,
}

/// Whether the CPU count of the application changed since the pair was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CpuCount {
    /// It was the same throughout.
    Same,
    /// It changed right after the reading that opened the pair.
    JustChanged,
    /// It changed somewhere in between, so that no rate belongs to one count.
    Mixed,
}

/// How far an open pair reaches back before the last change of the CPU count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Straddle {
    /// Time of the reading that opened the pair.
    opened_ns: u64,
    /// The CPU count changed since, or the program was idle when it was opened.
    changed: bool,
}

impl Straddle {
    /// The largest part of a pair that may lie before the change.
    const LIMIT: f64 = 0.1;

    const fn at(now_ns: u64) -> Self {
        Self {
            opened_ns: now_ns,
            changed: false,
        }
    }

    /// Whether a pair from `from_ns` on, of `elapsed_ns`, belongs to one CPU count.
    fn belongs_to_one_count(self, from_ns: u64, elapsed_ns: u64) -> bool {
        let before = self.opened_ns.saturating_sub(from_ns);
        !self.changed || before as f64 <= Self::LIMIT * elapsed_ns as f64
    }
}

/// Tracks the progress that the runtime counts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RuntimeTracker {
    open: Option<RuntimeProgress>,
    straddle: Straddle,
    // Regions and iterations at the last reading, for the choice of the unit.
    last: Option<RuntimeProgress>,
    unit: Option<WorkUnit>,
    // Intervals in a row in which the other unit would have been better.
    doubts: u32,
}

impl RuntimeTracker {
    pub(crate) fn observe(
        &mut self,
        reading: Option<&RuntimeProgress>,
        now_ns: u64,
        cpus: CpuCount,
    ) -> Progress {
        let Some(now) = reading.filter(|r| counts(r)) else {
            return Progress::Absent;
        };
        let (Some(open), Some(last)) = (self.open, self.last) else {
            self.restart(now, now_ns);
            return Progress::Pending;
        };
        let backwards = |a: &RuntimeProgress| {
            now.regions < a.regions || now.iterations < a.iterations || now.last_ns < a.last_ns
        };
        if backwards(&open) || backwards(&last) {
            self.restart(now, now_ns);
            return Progress::Absent;
        }
        let changed =
            self.choose_unit(now.regions - last.regions, now.iterations - last.iterations);
        self.last = Some(*now);
        if changed {
            self.restart(now, now_ns);
            return Progress::NewUnit;
        }
        self.straddle.changed |= cpus == CpuCount::JustChanged;
        let work = match self.unit {
            Some(WorkUnit::Regions) => now.regions - open.regions,
            Some(WorkUnit::Iterations) => now.iterations - open.iterations,
            None => 0,
        };
        let elapsed_ns = now.last_ns - open.last_ns;
        if cpus == CpuCount::Mixed {
            self.restart(now, now_ns);
            return Progress::Pending;
        }
        if work == 0 || elapsed_ns == 0 {
            return Progress::Pending;
        }
        let usable = self.straddle.belongs_to_one_count(open.last_ns, elapsed_ns);
        self.restart(now, now_ns);
        if usable {
            Progress::Rate(work as f64 / (elapsed_ns as f64 * 1e-9))
        } else {
            Progress::Pending
        }
    }

    /// Opens a new pair at this reading; one that makes no sense leaves no pair open.
    pub(crate) fn restart(&mut self, reading: &RuntimeProgress, now_ns: u64) {
        self.open = Some(*reading).filter(counts);
        self.last = self.open;
        self.straddle = Straddle::at(now_ns);
    }

    /// The program is idle: the time since its last completion does not count as work.
    pub(crate) const fn pause(&mut self) {
        self.straddle.changed = true;
    }

    /// Chooses the unit from what one interval completed. Returns whether a unit in use changed.
    fn choose_unit(&mut self, regions: u64, iterations: u64) -> bool {
        let better = match self.unit {
            None if regions >= SMOOTH || (regions > 0 && iterations == 0) => WorkUnit::Regions,
            None if iterations > 0 => WorkUnit::Iterations,
            None => return false,
            Some(WorkUnit::Regions) if regions < SMOOTH && iterations >= SMOOTH => {
                WorkUnit::Iterations
            }
            Some(WorkUnit::Iterations) if iterations == 0 && regions > 0 => WorkUnit::Regions,
            Some(unit) => unit,
        };
        if self.unit == Some(better) {
            self.doubts = 0;
            return false;
        }
        if self.unit.is_none() {
            self.unit = Some(better);
            return false;
        }
        self.doubts += 1;
        if self.doubts < UNIT_PATIENCE {
            return false;
        }
        self.doubts = 0;
        self.unit = Some(better);
        true
    }
}

/// Tracks the progress that the application reports.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReportedTracker {
    open: Option<ReportedProgress>,
    straddle: Straddle,
}

impl ReportedTracker {
    pub(crate) fn observe(
        &mut self,
        reading: Option<&ReportedProgress>,
        now_ns: u64,
        cpus: CpuCount,
    ) -> Progress {
        let Some(now) = reading.filter(|r| sound(r)) else {
            return Progress::Absent;
        };
        let Some(open) = self.open else {
            self.restart(now, now_ns);
            return Progress::Pending;
        };
        self.straddle.changed |= cpus == CpuCount::JustChanged;
        let outcome = match (open, *now) {
            (
                ReportedProgress::Work { done, at_ns },
                ReportedProgress::Work {
                    done: now_done,
                    at_ns: now_at_ns,
                },
            ) => {
                if now_done < done || now_at_ns < at_ns {
                    Progress::Absent
                } else if (now_at_ns == at_ns || now_done <= done) && cpus != CpuCount::Mixed {
                    return Progress::Pending;
                } else {
                    let elapsed_ns = now_at_ns - at_ns;
                    let rate = (now_done - done) / (elapsed_ns as f64 * 1e-9);
                    let usable = self.straddle.belongs_to_one_count(at_ns, elapsed_ns);
                    if cpus == CpuCount::Mixed || !usable || !rate.is_finite() {
                        Progress::Pending
                    } else {
                        Progress::Rate(rate)
                    }
                }
            }
            (
                ReportedProgress::Latency { at_ns, .. },
                ReportedProgress::Latency {
                    latency_ns,
                    at_ns: now_at_ns,
                },
            ) => {
                if now_at_ns <= at_ns {
                    return Progress::Pending;
                }
                if cpus == CpuCount::Mixed {
                    Progress::Pending
                } else {
                    // Less is better: replies per second to a client that waits for each.
                    Progress::Rate(1e9 / latency_ns)
                }
            }
            _ => Progress::NewUnit,
        };
        self.restart(now, now_ns);
        outcome
    }

    /// Opens a new pair at this reading; one that makes no sense leaves no pair open.
    pub(crate) fn restart(&mut self, reading: &ReportedProgress, now_ns: u64) {
        self.open = Some(*reading).filter(sound);
        self.straddle = Straddle::at(now_ns);
    }

    /// The program is idle: the time since its last report does not count as work.
    pub(crate) const fn pause(&mut self) {
        self.straddle.changed = true;
    }
}

/// Whether the runtime has counted anything.
const fn counts(reading: &RuntimeProgress) -> bool {
    reading.last_ns > 0
}

fn sound(reading: &ReportedProgress) -> bool {
    match *reading {
        ReportedProgress::Work { done, at_ns } => done.is_finite() && done >= 0.0 && at_ns > 0,
        ReportedProgress::Latency { latency_ns, at_ns } => {
            latency_ns.is_finite() && latency_ns >= 1.0 && at_ns > 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    use Progress::{Absent, NewUnit, Pending, Rate};

    fn progress(regions: u64, iterations: u64, last_ms: u64) -> RuntimeProgress {
        RuntimeProgress {
            regions,
            iterations,
            last_ns: last_ms * MS,
            ..RuntimeProgress::default()
        }
    }

    fn observe(tracker: &mut RuntimeTracker, reading: RuntimeProgress, now_ms: u64) -> Progress {
        tracker.observe(Some(&reading), now_ms * MS, CpuCount::Same)
    }

    /// Observes (regions, iterations, last completion in ms), one reading a second.
    fn seconds(readings: &[(u64, u64, u64)]) -> Vec<Progress> {
        let mut tracker = RuntimeTracker::default();
        (1..)
            .zip(readings)
            .map(|(s, &(r, i, last_ms))| observe(&mut tracker, progress(r, i, last_ms), s * 1000))
            .collect()
    }

    #[test]
    fn long_regions_give_an_even_rate_although_they_end_unevenly() {
        // A region every 300 ms, seen each second: 3, 3, 4, 3, ... of them.
        let readings = (1..12u64).map(|second| second * 1000 / 300);
        let readings: Vec<_> = readings.map(|done| (done, 0, done * 300)).collect();
        for seen in &seconds(&readings)[1..] {
            assert!(matches!(seen, Rate(rate) if (rate - 1.0 / 0.3).abs() < 1e-9));
        }
    }

    #[test]
    fn a_pair_stays_open_until_something_is_completed() {
        let seen = seconds(&[(1, 0, 500), (2, 0, 1500), (2, 0, 1500), (3, 0, 3500)]);
        assert_eq!(seen[2..], [Pending, Rate(0.5)]);
    }

    #[test]
    fn iterations_are_used_where_regions_are_few() {
        let seen = seconds(&[(0, 0, 1), (0, 5000, 1001), (1, 9000, 2001)]);
        assert_eq!(seen[1..], [Rate(5000.0), Rate(4000.0)]);
    }

    #[test]
    fn the_unit_changes_only_after_several_intervals_and_says_so() {
        let mut readings = vec![(0, 0, 1), (100, 50, 1001)];
        readings.extend((2..6).map(|s| (100 + s, 50 + 1000 * s, s * 1000 + 1)));
        assert!(matches!(
            seconds(&readings)[2..],
            [Rate(_), Rate(_), NewUnit, Rate(1000.0)]
        ));
    }

    #[test]
    fn a_region_that_straddles_a_change_of_cpus_is_no_sample() {
        // The change comes at 2 s; the region that ends at 2.4 or 4.4 s began at 1.5 s or 1.95 s.
        let run = |began_ms, ended_ms: u64| {
            let mut tracker = RuntimeTracker::default();
            observe(&mut tracker, progress(1, 0, 500), 1000);
            observe(&mut tracker, progress(20, 0, began_ms), 2000);
            let reading = |regions, last_ms| progress(regions, 0, last_ms);
            let mut at = |reading: RuntimeProgress, now_ms: u64, cpus| {
                tracker.observe(Some(&reading), now_ms * MS, cpus)
            };
            let mut seen = Vec::new();
            if ended_ms > 3000 {
                seen.push(at(reading(20, began_ms), 3000, CpuCount::JustChanged));
                seen.push(at(reading(30, ended_ms), 5000, CpuCount::Same));
            } else {
                seen.push(at(reading(30, ended_ms), 3000, CpuCount::JustChanged));
            }
            seen.push(at(
                reading(40, ended_ms + 1000),
                ended_ms + 1500,
                CpuCount::Same,
            ));
            seen
        };
        assert_eq!(run(1500, 2400), [Pending, Rate(10.0)]);
        assert!(matches!(run(1950, 2950)[..], [Rate(_), Rate(_)]));
        assert_eq!(run(1500, 4400), [Pending, Pending, Rate(10.0)]);
    }

    #[test]
    fn a_page_that_holds_nonsense_gives_no_rate() {
        for bad in [(5, 0, 9_999_999), (0, 0, 0), (3, 0, 1900), (50, 0, 100)] {
            let seen = seconds(&[(5, 0, 500), (25, 0, 1500), bad]);
            assert_eq!(seen[2], Absent, "{bad:?}");
        }
    }

    #[test]
    fn a_lower_latency_is_a_better_performance() {
        let mut tracker = ReportedTracker::default();
        let mut observe = |latency_ns, at_ms: u64| {
            let report = ReportedProgress::Latency {
                latency_ns,
                at_ns: at_ms * MS,
            };
            tracker.observe(Some(&report), at_ms * MS, CpuCount::Same)
        };
        assert_eq!(observe(1e6, 1), Pending);
        assert_eq!(observe(2e6, 2), Rate(500.0));
        assert_eq!(observe(1e6, 3), Rate(1000.0));
        assert_eq!(observe(0.0, 4), Absent);
    }

    #[test]
    fn reported_work_is_work_between_reports_over_the_time_between_them() {
        let mut tracker = ReportedTracker::default();
        let mut observe = |done, at_ms: u64, now_ms: u64| {
            let report = ReportedProgress::Work {
                done,
                at_ns: at_ms * MS,
            };
            tracker.observe(Some(&report), now_ms * MS, CpuCount::Same)
        };
        assert_eq!(observe(10.0, 900, 1000), Pending);
        assert_eq!(observe(30.0, 1900, 2000), Rate(20.0));
        assert_eq!(observe(30.0, 1900, 3000), Pending);
        assert_eq!(observe(50.0, 3900, 4000), Rate(10.0));
        // Read later than others were.
        assert_eq!(observe(80.0, 5400, 5000), Rate(20.0));
        assert_eq!(observe(80.0, 5300, 6000), Absent);
        assert_eq!(observe(80.0, 5400, 7000), Pending);
        assert_eq!(observe(f64::NAN, 7900, 8000), Absent);
        assert_eq!(observe(5.0, 7900, 8000), Absent);
    }
}
