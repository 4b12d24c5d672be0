//! What each application got: for its report, for metrics, for CPU-time accounting.
//!
//! Each interval is recorded from what was in force and measured, and *judged* where performance and promise are both
//! known and belong to one phase: an application counts its progress in other units in each phase, so that the floor of
//! one says nothing of the performance in another. The interval in which a phase changes is not judged, nor the one
//! before it if it turns out to belong to the new phase.
//!
//! Single intervals scatter. A *violation* is a judged interval where the median of the last [`WINDOW`] of its phase is
//! below the promise; *achieved* is the median over all judged intervals of performance as a share of fair-share
//! performance (`qos` is the floor divided by fair-share performance).
//!
//! An interval in which the application was or became idle shows no speed and is not judged. Whether it became idle, or
//! the phase changed, is known an interval later; so the verdict on the latest interval is pending until then, and counts
//! if nothing follows.
//!
//! Invariant: totals only grow, also over restarts of the daemon, since they are part of the saved state.

use mapper_control::schema::Account;
use mapper_model::{Activity, Performance, PhaseChange, Profile, Qos, Trigger};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Intervals of a phase whose median is compared with the promise.
const WINDOW: usize = 3;

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Accounting {
    arrived_ns: u64,
    until_ns: u64,
    given_cpu_ns: u64,
    borrowed_cpu_ns: u64,
    used_cpu_ns: Option<u64>,
    judged: u64,
    violations: u64,
    shares: Shares,
    phase: Phase,
    /// Performance over floor in the last judged intervals of this phase.
    recent: Vec<f64>,
    /// The same of the latest interval, which is not judged yet.
    pending: Option<f64>,
    floor: Option<f64>,
    performance: Option<Performance>,
    moves: u64,
    fewest_cpus: u32,
    most_cpus: u32,
}

/// What has to be the same for performance to be compared with a floor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Phase {
    /// [`Profile::epoch`]: the unit.
    epoch: u64,
    /// The phase by parallel regions, from 1; 0 where none is known.
    number: u32,
}

impl Phase {
    pub(crate) fn of(profile: &Profile) -> Self {
        Self {
            epoch: profile.epoch,
            number: profile.region_phase.map_or(0, |phase| phase.number),
        }
    }
}

/// How often each share of fair-share performance was achieved, in steps of 0.2 %.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Shares(BTreeMap<i16, u64>);

impl Shares {
    const STEP: f64 = 1.002;
    /// Steps above and below 1 beyond which an application reports nonsense: 22,000 times as fast.
    const MOST: f64 = 5000.0;

    fn add(&mut self, share: f64) {
        let steps = (share.ln() / Self::STEP.ln()).clamp(-Self::MOST, Self::MOST);
        *self.0.entry(steps.round() as i16).or_default() += 1;
    }

    fn median(&self) -> Option<f64> {
        // Of two in the middle the better, as for violations.
        let half = self.0.values().sum::<u64>() / 2 + 1;
        let mut below = 0;
        let middle = self.0.iter().find(|(_, count)| {
            below += **count;
            below >= half
        });
        middle.map(|(steps, _)| Self::STEP.powi(i32::from(*steps)))
    }
}

/// The CPUs in force for an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Held {
    pub(crate) own: u32,
    /// Those of idle applications.
    pub(crate) borrowed: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct IntervalSample {
    pub(crate) now_ns: u64,
    pub(crate) trigger: Trigger,
    pub(crate) held: Held,
    pub(crate) used_cpu_ns: Option<u64>,
    pub(crate) performance: Option<Performance>,
    pub(crate) activity: Activity,
    pub(crate) phase: Phase,
    /// Whether it differs from the interval before within the same phase by regions.
    pub(crate) change: PhaseChange,
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
        self.advance(sample.now_ns, sample.held);
        self.used_cpu_ns = sample.used_cpu_ns.or(self.used_cpu_ns);
        if sample.trigger != Trigger::Interval {
            return;
        }
        let is_new = sample.change != PhaseChange::Same || sample.phase != self.phase;
        if is_new {
            self.phase = sample.phase;
            self.recent.clear();
        }
        if is_new || sample.activity == Activity::Idle {
            self.pending = None;
        }
        self.judge(sample.qos);
        let Some(performance) = sample.performance else {
            return;
        };
        self.performance = Some(performance);
        let floor = sample.floor.filter(|floor| *floor > 0.0 && !is_new);
        self.floor = floor;
        // What is infinite could not be saved.
        self.pending = floor.map(|floor| (performance.value / floor).min(f64::MAX));
    }

    fn judge(&mut self, qos: Qos) {
        let Some(ratio) = self.pending.take() else {
            return;
        };
        self.judged += 1;
        self.shares.add(ratio * qos.get());
        if self.recent.len() == WINDOW {
            self.recent.remove(0);
        }
        self.recent.push(ratio);
        let mut sorted = self.recent.clone();
        sorted.sort_by(f64::total_cmp);
        // Of two the better: there is no violation without a second interval that shows it. Then the first was one, too.
        let is_below = sorted[sorted.len() / 2] < 1.0;
        self.violations += match sorted.len() {
            1 => 0,
            2 if is_below => 2,
            _ => u64::from(is_below),
        };
    }

    /// Counts the time up to now on these CPUs.
    pub(crate) fn advance(&mut self, now_ns: u64, held: Held) {
        let passed_ns = now_ns.saturating_sub(self.until_ns);
        self.until_ns = self.until_ns.max(now_ns);
        let add =
            |sum: u64, cpus: u32| sum.saturating_add(passed_ns.saturating_mul(u64::from(cpus)));
        self.given_cpu_ns = add(self.given_cpu_ns, held.own);
        self.borrowed_cpu_ns = add(self.borrowed_cpu_ns, held.borrowed);
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

    pub(crate) fn finished(mut self, qos: Qos) -> Account {
        self.judge(qos);
        self.account()
    }

    pub(crate) fn account(&self) -> Account {
        Account {
            managed_ns: self.until_ns.saturating_sub(self.arrived_ns),
            given_cpu_ns: self.given_cpu_ns,
            borrowed_cpu_ns: self.borrowed_cpu_ns,
            used_cpu_ns: self.used_cpu_ns,
            judged_intervals: self.judged,
            violations: self.violations,
            // One interval alone is no verdict, neither for the promise nor against it.
            achieved: self.shares.median().filter(|_| self.judged > 1),
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

    const SECOND: u64 = 1_000_000_000;

    const fn own(cpus: u32) -> Held {
        Held {
            own: cpus,
            borrowed: 0,
        }
    }

    #[test]
    fn time_on_borrowed_cpus_is_apart_from_that_on_given_ones() {
        let mut accounting = Accounting::open(0);
        accounting.advance(10, own(2));
        let held = Held {
            own: 2,
            borrowed: 3,
        };
        accounting.advance(14, held);
        let account = accounting.account();
        assert_eq!((account.given_cpu_ns, account.borrowed_cpu_ns), (28, 12));
    }

    /// An application with the promise 0.8, whose floor is 8 in its first phase, second by second.
    struct Judged {
        accounting: Accounting,
        sample: IntervalSample,
    }

    impl Judged {
        fn new() -> Self {
            let sample = IntervalSample {
                now_ns: 0,
                trigger: Trigger::Interval,
                held: own(1),
                used_cpu_ns: None,
                performance: None,
                activity: Activity::Active,
                phase: Phase::default(),
                change: PhaseChange::Same,
                floor: Some(8.0),
                qos: Qos::new(0.8).unwrap(),
            };
            Self {
                accounting: Accounting::open(0),
                sample,
            }
        }

        fn record(&mut self) {
            self.sample.now_ns += SECOND;
            self.accounting.record(self.sample);
        }

        fn performs(&mut self, values: &[f64]) {
            let source = PerformanceSource::Runtime;
            for &value in values {
                self.sample.performance = Some(Performance { value, source });
                self.record();
            }
        }

        fn idles(&mut self) {
            self.sample.performance = None;
            self.sample.activity = Activity::Idle;
            self.record();
            self.sample.activity = Activity::Active;
        }

        /// The first interval of another phase: the floor is still that of the phase before.
        fn changes(&mut self, change: PhaseChange, phase: Phase, value: f64, floor: f64) {
            self.sample.change = change;
            self.sample.phase = phase;
            self.performs(&[value]);
            self.sample.change = PhaseChange::Same;
            self.sample.floor = Some(floor);
        }

        fn account(&self) -> Account {
            self.accounting.clone().finished(self.sample.qos)
        }

        /// Judged intervals and violations.
        fn verdicts(&self) -> (u64, u64) {
            let account = self.account();
            (account.judged_intervals, account.violations)
        }
    }

    fn is_near(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value / expected - 1.0).abs() < 0.002)
    }

    #[test]
    fn a_phase_is_not_judged_by_the_floor_of_another() {
        let (first, second) = (
            Phase::default(),
            Phase {
                epoch: 0,
                number: 2,
            },
        );
        for (change, phase) in [
            (PhaseChange::Changed, first),
            (PhaseChange::Same, second),
            (
                PhaseChange::Same,
                Phase {
                    epoch: 1,
                    number: 0,
                },
            ),
        ] {
            let mut app = Judged::new();
            app.performs(&[10.0; 6]);
            app.changes(change, phase, 250_000.0, 200_000.0);
            app.performs(&[250_000.0; 5]);
            app.changes(PhaseChange::Returned, first, 10.0, 8.0);
            app.performs(&[10.0; 5]);
            let account = app.account();
            assert_eq!(account.violations, 0);
            // Not the last of each phase that was left, nor the first of the next.
            assert_eq!(account.judged_intervals, 5 + 4 + 5);
            assert!(is_near(account.achieved, 1.0), "{account:?}");
        }
    }

    #[test]
    fn one_interval_out_of_line_is_no_violation_and_does_not_move_what_was_achieved() {
        for outlier in [0.0, 1e-300, 250_000.0, f64::MAX] {
            for place in 0..5 {
                let mut app = Judged::new();
                let mut values = [10.0; 5];
                values[place] = outlier;
                app.performs(&values);
                assert_eq!(app.verdicts(), (5, 0), "{outlier} at {place}");
                assert!(is_near(app.account().achieved, 1.0), "{outlier} at {place}");
                let text = serde_json::to_string(&app.accounting).unwrap();
                let saved: Accounting = serde_json::from_str(&text).unwrap();
                assert_eq!(saved, app.accounting);
            }
        }
    }

    #[test]
    fn intervals_below_the_floor_are_violations_from_the_second_on() {
        let mut app = Judged::new();
        app.performs(&[10.0, 7.0]);
        assert_eq!(app.verdicts(), (2, 0));
        app.performs(&[7.0, 7.0]);
        assert_eq!(app.verdicts(), (4, 2));
        assert!(is_near(app.account().achieved, 0.7));
        // And to the second that is not.
        app.performs(&[10.0]);
        assert_eq!(app.verdicts(), (5, 3));
        app.performs(&[10.0]);
        assert_eq!(app.verdicts(), (6, 3));
    }

    #[test]
    fn an_application_that_is_always_too_slow_violates_from_its_first_interval_on() {
        let mut app = Judged::new();
        app.performs(&[7.0; 4]);
        assert_eq!(app.verdicts(), (4, 4));
    }

    #[test]
    fn idle_intervals_and_the_one_before_them_are_not_judged() {
        let mut app = Judged::new();
        // Stopped in the middle of the second.
        app.performs(&[9.0, 4.0]);
        for _ in 0..3 {
            app.idles();
        }
        app.performs(&[9.0]);
        assert_eq!(app.verdicts(), (2, 0));
    }

    #[test]
    fn the_pending_verdict_counts_only_when_the_application_has_ended() {
        let mut app = Judged::new();
        app.performs(&[7.0]);
        assert_eq!(app.accounting.account().judged_intervals, 0);
        assert_eq!(app.verdicts(), (1, 0));
        app.performs(&[7.0]);
        assert_eq!(app.accounting.account().violations, 0);
        assert_eq!(app.verdicts(), (2, 2));
    }

    #[test]
    fn what_was_achieved_contradicts_no_verdict_of_few_intervals() {
        let mut app = Judged::new();
        app.performs(&[1.0]);
        assert_eq!(app.account().achieved, None, "one alone is no verdict");
        app.performs(&[10.0]);
        assert_eq!(app.verdicts(), (2, 0));
        assert!(is_near(app.account().achieved, 1.0));
    }

    #[test]
    fn the_cpus_of_each_interval_add_up() {
        let mut app = Judged::new();
        for (seconds, cpus) in [(1, 4), (2, 2)] {
            app.accounting.moved(cpus);
            app.sample.held = own(cpus);
            app.performs(&vec![10.0; seconds]);
        }
        let account = app.account();
        assert_eq!(account.given_cpu_ns, 8 * SECOND);
        let cpus = (account.fewest_cpus, account.most_cpus);
        assert_eq!((account.moves, cpus), (1, (2, 4)));
    }

    #[test]
    fn an_interval_without_a_known_floor_is_not_judged() {
        let mut app = Judged::new();
        app.sample.floor = None;
        app.performs(&[5.0]);
        let account = app.account();
        assert_eq!((account.judged_intervals, account.achieved), (0, None));
        assert_eq!(account.performance.unwrap().value, 5.0);
    }

    #[test]
    fn a_clock_that_goes_back_does_not_reduce_totals() {
        let mut accounting = Accounting::open(10);
        accounting.advance(5, own(4));
        accounting.advance(20, own(1));
        assert_eq!(accounting.account().given_cpu_ns, 10);
    }
}
