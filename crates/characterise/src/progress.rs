//! Performance from progress: what the application reports, or what its OpenMP runtime counts.
//!
//! The problem: progress arrives in lumps. A parallel region that takes 0.3 s completes three or
//! four times in a one-second interval, and dividing by the interval would see a scatter of 30 %
//! where there is none. The approach: divide by the time between *completions*. The shared page
//! holds the time of the last completion; the rate is the work between two such times over the time
//! between them. When nothing was completed the pair stays open, over as many intervals as it
//! takes.
//!
//! The OpenMP shim counts two things: regions, and iterations of the loops whose chunks the runtime
//! hands out. Both count the same work whatever the size of the team, so either can be compared
//! across CPU counts within a phase; but they are not of one unit, and any weighted sum would drift
//! with its weights. So one of them is used for each application ([`WorkUnit`]): regions, if enough
//! of them complete in an interval for the rate to be smooth, else iterations. Switching to the
//! other one is a change of source: the curve starts anew.
//!
//! A region that was under way when the CPU count changed ran partly with the old count. The first
//! pair after a change is therefore used only if what it reaches back before the change is a small
//! part of it ([`Straddle`]).
//!
//! What stands in a shared page is written by the application and may be nonsense. Counts that run
//! backwards or times from the future close the pair without a sample.

use mapper_model::{ReportedProgress, RuntimeProgress};
use serde::{Deserialize, Serialize};

/// Regions per interval from which their rate is smooth enough.
const SMOOTH: u64 = 8;
/// Intervals after which the unit of work may change.
const UNIT_PATIENCE: u32 = 3;

/// Which of the runtime's counts is the progress of an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkUnit {
    /// Parallel regions completed.
    Regions,
    /// Iterations of dispensed loops completed.
    Iterations,
}

/// What an interval yielded.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Progress {
    /// The source is not there, or said nothing that makes sense.
    #[default]
    Absent,
    /// The source is there, but nothing was completed (or too little to tell).
    Pending,
    /// Work per second.
    Rate(f64),
    /// The unit changed: values from before are not to be compared with what follows.
    NewUnit,
}

/// Whether the CPU count of the application changed since the pair was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuCount {
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

    /// Whether a pair that began with the completion at `from_ns` and took `elapsed_ns` belongs to
    /// one CPU count.
    fn belongs_to_one_count(self, from_ns: u64, elapsed_ns: u64) -> bool {
        let before = self.opened_ns.saturating_sub(from_ns);
        !self.changed || before as f64 <= Self::LIMIT * elapsed_ns as f64
    }
}

/// Follows the progress that the runtime counts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RuntimeTracker {
    open: Option<RuntimeProgress>,
    straddle: Straddle,
    // Regions and iterations at the last reading, for the choice of the unit.
    last: Option<RuntimeProgress>,
    unit: Option<WorkUnit>,
    // Intervals in a row in which the other unit would have been better.
    doubts: u32,
}

impl RuntimeTracker {
    /// Takes in a reading.
    pub fn observe(
        &mut self,
        reading: Option<&RuntimeProgress>,
        now_ns: u64,
        cpus: CpuCount,
    ) -> Progress {
        let Some(now) = reading.filter(|r| counts(r, now_ns)) else {
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

    /// Opens a new pair at this reading: what came before it is not a sample. A reading that makes
    /// no sense leaves no pair open.
    pub fn restart(&mut self, reading: &RuntimeProgress, now_ns: u64) {
        self.open = Some(*reading).filter(|r| counts(r, now_ns));
        self.last = self.open;
        self.straddle = Straddle::at(now_ns);
    }

    /// The program is idle: the time since its last completion is none in which it worked.
    pub const fn pause(&mut self) {
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

/// Follows the progress that the application reports.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ReportedTracker {
    open: Option<ReportedProgress>,
    straddle: Straddle,
}

impl ReportedTracker {
    /// Takes in a reading.
    pub fn observe(
        &mut self,
        reading: Option<&ReportedProgress>,
        now_ns: u64,
        cpus: CpuCount,
    ) -> Progress {
        let Some(now) = reading.filter(|r| sound(r, now_ns)) else {
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
                    // Less is better: the replies a second of one who waits for each.
                    Progress::Rate(1e9 / latency_ns)
                }
            }
            _ => Progress::NewUnit,
        };
        self.restart(now, now_ns);
        outcome
    }

    /// Opens a new pair at this reading. A reading that makes no sense leaves no pair open.
    pub fn restart(&mut self, reading: &ReportedProgress, now_ns: u64) {
        self.open = Some(*reading).filter(|r| sound(r, now_ns));
        self.straddle = Straddle::at(now_ns);
    }

    /// The program is idle: the time since its last report is none in which it worked.
    pub const fn pause(&mut self) {
        self.straddle.changed = true;
    }
}

/// Whether the runtime has counted anything, and not in the future.
const fn counts(reading: &RuntimeProgress, now_ns: u64) -> bool {
    reading.last_ns > 0 && reading.last_ns <= now_ns
}

fn sound(reading: &ReportedProgress, now_ns: u64) -> bool {
    match *reading {
        ReportedProgress::Work { done, at_ns } => {
            done.is_finite() && done >= 0.0 && at_ns > 0 && at_ns <= now_ns
        }
        ReportedProgress::Latency { latency_ns, at_ns } => {
            latency_ns.is_finite() && latency_ns >= 1.0 && at_ns > 0 && at_ns <= now_ns
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

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

    #[test]
    fn long_regions_give_an_even_rate_although_they_end_unevenly() {
        // A region every 300 ms, seen each second: 3, 3, 4, 3, ... of them.
        let mut tracker = RuntimeTracker::default();
        let mut rates = Vec::new();
        for second in 1..12u64 {
            let done = second * 1000 / 300;
            if let Progress::Rate(rate) =
                observe(&mut tracker, progress(done, 0, done * 300), second * 1000)
            {
                rates.push(rate);
            }
        }
        assert_eq!(rates.len(), 10);
        assert!(
            rates.iter().all(|r| (r - 1.0 / 0.3).abs() < 1e-9),
            "{rates:?}"
        );
    }

    #[test]
    fn a_pair_stays_open_until_something_is_completed() {
        let mut tracker = RuntimeTracker::default();
        observe(&mut tracker, progress(1, 0, 500), 1000);
        observe(&mut tracker, progress(2, 0, 1500), 2000);
        assert_eq!(
            observe(&mut tracker, progress(2, 0, 1500), 3000),
            Progress::Pending
        );
        assert_eq!(
            observe(&mut tracker, progress(3, 0, 3500), 4000),
            Progress::Rate(0.5)
        );
    }

    #[test]
    fn iterations_are_used_where_regions_are_few() {
        let mut tracker = RuntimeTracker::default();
        observe(&mut tracker, progress(0, 0, 1), 1000);
        assert_eq!(
            observe(&mut tracker, progress(0, 5000, 1001), 2000),
            Progress::Rate(5000.0)
        );
        assert_eq!(
            observe(&mut tracker, progress(1, 9000, 2001), 3000),
            Progress::Rate(4000.0)
        );
    }

    #[test]
    fn the_unit_changes_only_after_several_intervals_and_says_so() {
        let mut tracker = RuntimeTracker::default();
        observe(&mut tracker, progress(0, 0, 1), 1000);
        observe(&mut tracker, progress(100, 50, 1001), 2000);
        let seen: Vec<Progress> = (2..6u64)
            .map(|s| {
                let reading = progress(100 + s, 50 + 1000 * s, s * 1000 + 1);
                observe(&mut tracker, reading, (s + 1) * 1000)
            })
            .collect();
        assert!(matches!(
            seen[..],
            [
                Progress::Rate(_),
                Progress::Rate(_),
                Progress::NewUnit,
                Progress::Rate(1000.0)
            ]
        ));
    }

    #[test]
    fn a_region_that_straddles_a_change_of_cpus_is_no_sample() {
        // The change comes with the reading at 2 s; the region that ends at 2.4 or 4.4 s began
        // at 1.5 s or 1.95 s.
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
        assert_eq!(run(1500, 2400), [Progress::Pending, Progress::Rate(10.0)]);
        assert!(matches!(
            run(1950, 2950)[..],
            [Progress::Rate(_), Progress::Rate(_)]
        ));
        assert_eq!(
            run(1500, 4400),
            [Progress::Pending, Progress::Pending, Progress::Rate(10.0)]
        );
    }

    #[test]
    fn a_page_that_holds_nonsense_gives_no_rate() {
        for bad in [
            progress(5, 0, 9_999_999),
            progress(0, 0, 0),
            progress(3, 0, 1900),
            progress(50, 0, 100),
        ] {
            let mut tracker = RuntimeTracker::default();
            observe(&mut tracker, progress(5, 0, 500), 1000);
            observe(&mut tracker, progress(25, 0, 1500), 2000);
            let got = observe(&mut tracker, bad, 3000);
            assert_eq!(got, Progress::Absent, "{bad:?}");
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
        assert_eq!(observe(1e6, 1), Progress::Pending);
        assert_eq!(observe(2e6, 2), Progress::Rate(500.0));
        assert_eq!(observe(1e6, 3), Progress::Rate(1000.0));
        assert_eq!(observe(0.0, 4), Progress::Absent);
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
        assert_eq!(observe(10.0, 900, 1000), Progress::Pending);
        assert_eq!(observe(30.0, 1900, 2000), Progress::Rate(20.0));
        assert_eq!(observe(30.0, 1900, 3000), Progress::Pending);
        assert_eq!(observe(50.0, 3900, 4000), Progress::Rate(10.0));
        assert_eq!(observe(f64::NAN, 4900, 5000), Progress::Absent);
        assert_eq!(observe(5.0, 4900, 5000), Progress::Absent);
    }
}
