//! What each application got: for its report, for metrics, for CPU-time accounting.
//!
//! Each interval is recorded from what was in force and measured. A *violation* is an interval with performance below
//! the promise, where both are known; *achieved* is the mean over those intervals of performance as a share of
//! fair-share performance (`qos` is the floor divided by fair-share performance).
//!
//! An interval in which the application was or became idle shows no speed and is not judged. Whether it became idle is
//! known an interval later; so the verdict on the latest interval is pending until then, and counts if nothing follows.
//!
//! Invariant: totals only grow, also over restarts of the daemon, since they are part of the saved state.

use mapper_control::schema::Account;
use mapper_model::{Activity, Performance, Qos};
use serde::{Deserialize, Serialize};

/// The largest share of fair-share performance that is counted: an application may report any number, and an infinite
/// sum could not be saved.
const LARGEST_SHARE: f64 = 1e6;

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Accounting {
    arrived_ns: u64,
    until_ns: u64,
    given_cpu_ns: u64,
    used_cpu_ns: Option<u64>,
    judged: u64,
    violations: u64,
    achieved_sum: f64,
    #[serde(alias = "held_back")]
    pending_verdict: Option<Verdict>,
    floor: Option<f64>,
    performance: Option<Performance>,
    moves: u64,
    fewest_cpus: u32,
    most_cpus: u32,
}

/// Whether the promise was kept in one interval, and by how much.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Verdict {
    promise: Promise,
    /// Performance as a share of fair-share performance.
    achieved: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Promise {
    Kept,
    Broken,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct IntervalSample {
    pub(crate) now_ns: u64,
    pub(crate) cpus: u32,
    pub(crate) used_cpu_ns: Option<u64>,
    pub(crate) performance: Option<Performance>,
    pub(crate) activity: Activity,
    /// With which the interval was planned.
    pub(crate) floor: Option<f64>,
    pub(crate) qos: Qos,
}

impl Accounting {
    pub(crate) fn open(now_ns: u64) -> Self {
        Self {
            arrived_ns: now_ns,
            until_ns: now_ns,
            ..Self::default()
        }
    }

    pub(crate) fn record(&mut self, sample: IntervalSample) {
        self.advance(sample.now_ns, sample.cpus);
        self.used_cpu_ns = sample.used_cpu_ns.or(self.used_cpu_ns);
        match sample.activity {
            Activity::Idle => self.pending_verdict = None,
            Activity::Active => self.count_verdict(),
        }
        let Some(performance) = sample.performance else {
            return;
        };
        self.performance = Some(performance);
        let Some(floor) = sample.floor.filter(|floor| *floor > 0.0) else {
            return;
        };
        self.floor = Some(floor);
        self.pending_verdict = Some(Verdict {
            promise: if performance.value < floor {
                Promise::Broken
            } else {
                Promise::Kept
            },
            achieved: (performance.value / floor * sample.qos.get()).min(LARGEST_SHARE),
        });
    }

    fn count_verdict(&mut self) {
        if let Some(verdict) = self.pending_verdict.take() {
            self.judged += 1;
            self.violations += u64::from(verdict.promise == Promise::Broken);
            self.achieved_sum += verdict.achieved;
        }
    }

    /// Counts the time up to now on this many CPUs.
    pub(crate) fn advance(&mut self, now_ns: u64, cpus: u32) {
        let passed_ns = now_ns.saturating_sub(self.until_ns);
        self.until_ns = self.until_ns.max(now_ns);
        self.given_cpu_ns = self
            .given_cpu_ns
            .saturating_add(passed_ns.saturating_mul(u64::from(cpus)));
    }

    pub(crate) fn moved(&mut self, cpus: u32) {
        // The first placement is no move.
        self.moves += u64::from(self.most_cpus > 0);
        self.fewest_cpus = match self.fewest_cpus {
            0 => cpus,
            fewest => fewest.min(cpus),
        };
        self.most_cpus = self.most_cpus.max(cpus);
    }

    pub(crate) fn finished(mut self) -> Account {
        self.count_verdict();
        self.account()
    }

    pub(crate) fn account(&self) -> Account {
        Account {
            managed_ns: self.until_ns.saturating_sub(self.arrived_ns),
            given_cpu_ns: self.given_cpu_ns,
            used_cpu_ns: self.used_cpu_ns,
            judged_intervals: self.judged,
            violations: self.violations,
            // Exact for as many intervals as a program can live.
            achieved: (self.judged > 0).then(|| self.achieved_sum / self.judged as f64),
            floor: self.floor,
            performance: self.performance.map(Into::into),
            moves: self.moves,
            fewest_cpus: self.fewest_cpus,
            most_cpus: self.most_cpus,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::PerformanceSource;

    #[test]
    fn idle_intervals_and_the_one_before_them_are_not_judged() {
        let mut accounting = Accounting::open(0);
        accounting.record(sample(1, 1, 9.0));
        // Stopped in the middle of it.
        accounting.record(sample(2, 1, 4.0));
        for now_s in 3..6 {
            accounting.record(IntervalSample {
                performance: None,
                activity: Activity::Idle,
                ..sample(now_s, 1, 0.0)
            });
        }
        accounting.record(sample(6, 1, 9.0));
        let account = accounting.finished();
        assert_eq!((account.judged_intervals, account.violations), (2, 0));
    }

    #[test]
    fn the_pending_verdict_counts_only_when_the_application_has_ended() {
        let mut accounting = Accounting::open(0);
        accounting.record(sample(1, 1, 7.0));
        assert_eq!(accounting.account().judged_intervals, 0);
        assert_eq!(accounting.clone().finished().violations, 1);
        accounting.record(sample(2, 1, 9.0));
        assert_eq!(accounting.account().violations, 1);
    }

    fn sample(now_s: u64, cpus: u32, value: f64) -> IntervalSample {
        let source = PerformanceSource::Runtime;
        IntervalSample {
            now_ns: now_s * 1_000_000_000,
            cpus,
            used_cpu_ns: None,
            performance: Some(Performance { value, source }),
            activity: Activity::Active,
            floor: Some(8.0),
            qos: Qos::new(0.8).unwrap(),
        }
    }

    #[test]
    fn an_interval_below_the_floor_is_a_violation() {
        let mut accounting = Accounting::open(0);
        accounting.moved(4);
        accounting.record(sample(1, 4, 10.0));
        accounting.moved(2);
        accounting.record(sample(3, 2, 7.0));
        let account = accounting.finished();
        assert_eq!((account.judged_intervals, account.violations), (2, 1));
        // Fair is 8 / 0.8 = 10: shares 1 and 0.7.
        assert!((account.achieved.unwrap() - 0.85).abs() < 1e-12);
        // 4 CPUs for a second and 2 for two.
        assert_eq!(account.given_cpu_ns, 8_000_000_000);
        let cpus = (account.fewest_cpus, account.most_cpus);
        assert_eq!((account.moves, cpus), (1, (2, 4)));
    }

    #[test]
    fn an_interval_without_a_known_floor_is_not_judged() {
        let mut accounting = Accounting::open(0);
        accounting.record(IntervalSample {
            floor: None,
            ..sample(1, 1, 5.0)
        });
        let account = accounting.finished();
        assert_eq!((account.judged_intervals, account.achieved), (0, None));
        assert_eq!(account.performance.unwrap().value, 5.0);
    }

    #[test]
    fn a_clock_that_goes_back_does_not_reduce_totals() {
        let mut accounting = Accounting::open(10);
        accounting.advance(5, 4);
        accounting.advance(20, 1);
        assert_eq!(accounting.account().given_cpu_ns, 10);
    }
}
