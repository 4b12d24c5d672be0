//! What each application got, summed up: for its report, for metrics, for whoever pays for CPU time.
//!
//! Once an interval the books are written up from what was in force and what was measured. A
//! *violation* is an interval in which performance was measured, the promise was known, and
//! performance was below it; *achieved* is the mean over those intervals of performance as a share of
//! fair-share performance, the number that was promised (`qos`) being the floor divided by that.
//!
//! An interval in which the application was idle, or by the end of which it had become so, shows no
//! speed and is not judged. Whether it became idle is known an interval later; so the verdict on the latest
//! interval is held back until then, and stands if nothing follows.
//!
//! Invariant: totals only grow, also over restarts of the daemon, since they are part of what is saved.

use mapper_control::schema::{Account, ReportReply};
use mapper_control::{ErrorReply, PROTOCOL, Reply};
use mapper_model::{Activity, AppId, Performance, Qos};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use crate::daemon::{App, Daemon};
use crate::socket::message::{Answer, Peer, Served};

/// Reports of applications that have ended are kept for as many.
const KEPT: usize = 256;

/// A share of the fair-share performance that is taken for no more: what an application reports may
/// be anything, and a sum that is no number could not be saved.
const BEYOND_REASON: f64 = 1e6;

/// The books of one application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Books {
    arrived_ns: u64,
    /// Written up to here.
    until_ns: u64,
    given_cpu_ns: u64,
    used_cpu_ns: Option<u64>,
    judged: u64,
    violations: u64,
    achieved_sum: f64,
    /// On the latest interval.
    held_back: Option<Verdict>,
    floor: Option<f64>,
    performance: Option<Performance>,
    moves: u64,
    fewest_cpus: u32,
    most_cpus: u32,
}

/// How an interval is judged.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Verdict {
    promise: Promise,
    /// Performance as a share of fair-share performance.
    achieved: f64,
}

/// Whether the promise was kept in an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Promise {
    Kept,
    Broken,
}

/// What one interval showed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Showed {
    pub(crate) now_ns: u64,
    pub(crate) cpus: u32,
    pub(crate) used_cpu_ns: Option<u64>,
    pub(crate) performance: Option<Performance>,
    pub(crate) activity: Activity,
    /// The floor by which the interval was planned.
    pub(crate) floor: Option<f64>,
    pub(crate) qos: Qos,
}

impl Books {
    pub(crate) fn open(now_ns: u64) -> Self {
        Self {
            arrived_ns: now_ns,
            until_ns: now_ns,
            ..Self::default()
        }
    }

    /// Writes up an interval.
    pub(crate) fn write_up(&mut self, showed: Showed) {
        self.elapsed(showed.now_ns, showed.cpus);
        self.used_cpu_ns = showed.used_cpu_ns.or(self.used_cpu_ns);
        match showed.activity {
            Activity::Idle => self.held_back = None,
            Activity::Active => self.pass_verdict(),
        }
        let Some(performance) = showed.performance else {
            return;
        };
        self.performance = Some(performance);
        let Some(floor) = showed.floor.filter(|floor| *floor > 0.0) else {
            return;
        };
        self.floor = Some(floor);
        self.held_back = Some(Verdict {
            promise: if performance.value < floor {
                Promise::Broken
            } else {
                Promise::Kept
            },
            achieved: (performance.value / floor * showed.qos.get()).min(BEYOND_REASON),
        });
    }

    /// Enters what was held back.
    fn pass_verdict(&mut self) {
        if let Some(verdict) = self.held_back.take() {
            self.judged += 1;
            self.violations += u64::from(verdict.promise == Promise::Broken);
            self.achieved_sum += verdict.achieved;
        }
    }

    /// Time has passed on so many CPUs.
    pub(crate) fn elapsed(&mut self, now_ns: u64, cpus: u32) {
        let passed_ns = now_ns.saturating_sub(self.until_ns);
        self.until_ns = self.until_ns.max(now_ns);
        self.given_cpu_ns = self
            .given_cpu_ns
            .saturating_add(passed_ns.saturating_mul(u64::from(cpus)));
    }

    /// Its CPUs were set.
    pub(crate) fn moved(&mut self, cpus: u32) {
        // The first placement is no move.
        self.moves += u64::from(self.most_cpus > 0);
        self.fewest_cpus = match self.fewest_cpus {
            0 => cpus,
            fewest => fewest.min(cpus),
        };
        self.most_cpus = self.most_cpus.max(cpus);
    }

    /// As it stands if the application has ended now.
    fn closed(mut self) -> Account {
        self.pass_verdict();
        self.account()
    }

    /// As it stands of an application that runs on.
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

/// Reports of applications that have ended.
#[derive(Debug, Default)]
pub(crate) struct Closed(VecDeque<ClosedBooks>);

#[derive(Debug)]
struct ClosedBooks {
    uid: u32,
    report: ReportReply,
}

impl Closed {
    pub(crate) fn add(&mut self, app: &App) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(ClosedBooks {
            uid: app.uid,
            report: report(app),
        });
    }
}

fn report(app: &App) -> ReportReply {
    ReportReply {
        protocol: PROTOCOL,
        app: app.id,
        name: app.spec.name.clone(),
        qos: app.spec.qos,
        account: app.books.clone().closed(),
    }
}

impl Daemon {
    /// The report of an application, to its own user.
    pub(crate) fn report(&mut self, peer: &Peer, asked: AppId) -> Answer {
        let now_ns = self.parts.clock.now_ns();
        let found = match self.apps.iter_mut().find(|app| app.id == asked) {
            Some(app) => {
                app.books.elapsed(now_ns, app.effective.len());
                Some((app.uid, report(app)))
            }
            None => {
                let closed = self.closed.0.iter().find(|c| c.report.app == asked);
                closed.map(|closed| (closed.uid, closed.report.clone()))
            }
        };
        match found {
            Some((uid, report)) if self.may_look_at(peer, uid) => {
                Ok(Served::plain(Reply::Report(Box::new(report))))
            }
            // Whether there is such an application is nobody else's business either.
            _ => Err(ErrorReply::UnknownApplication {
                message: format!("no application {asked} of user {}", peer.uid),
                running: Vec::new(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::PerformanceSource;

    #[test]
    fn neither_an_idle_interval_nor_the_one_in_which_it_became_idle_is_judged() {
        let mut books = Books::open(0);
        books.write_up(showed(1, 1, 9.0));
        // Stopped in the middle of it.
        books.write_up(showed(2, 1, 4.0));
        for now_s in 3..6 {
            books.write_up(Showed {
                performance: None,
                activity: Activity::Idle,
                ..showed(now_s, 1, 0.0)
            });
        }
        books.write_up(showed(6, 1, 9.0));
        let account = books.closed();
        assert_eq!((account.judged_intervals, account.violations), (2, 0));
    }

    #[test]
    fn what_is_told_of_one_that_runs_on_never_falls_and_of_one_that_ended_is_whole() {
        let mut books = Books::open(0);
        books.write_up(showed(1, 1, 7.0));
        assert_eq!(books.account().judged_intervals, 0);
        assert_eq!(books.clone().closed().violations, 1);
        books.write_up(showed(2, 1, 9.0));
        assert_eq!(books.account().violations, 1);
    }

    fn showed(now_s: u64, cpus: u32, value: f64) -> Showed {
        Showed {
            now_ns: now_s * 1_000_000_000,
            cpus,
            used_cpu_ns: None,
            performance: Some(Performance {
                value,
                source: PerformanceSource::Runtime,
            }),
            activity: Activity::Active,
            floor: Some(8.0),
            qos: Qos::new(0.8).unwrap(),
        }
    }

    #[test]
    fn intervals_below_the_floor_are_violations_and_shares_are_of_the_fair_performance() {
        let mut books = Books::open(0);
        books.moved(4);
        books.write_up(showed(1, 4, 10.0));
        books.moved(2);
        books.write_up(showed(3, 2, 7.0));
        let account = books.closed();
        assert_eq!((account.judged_intervals, account.violations), (2, 1));
        // Fair is 8 / 0.8 = 10: shares 1 and 0.7.
        assert!((account.achieved.unwrap() - 0.85).abs() < 1e-12);
        // 4 CPUs for a second and 2 for two.
        assert_eq!(account.given_cpu_ns, 8_000_000_000);
        assert_eq!(
            (account.moves, account.fewest_cpus, account.most_cpus),
            (1, 2, 4)
        );
    }

    #[test]
    fn nothing_is_judged_before_the_promise_is_known() {
        let mut books = Books::open(0);
        let unknown = Showed {
            floor: None,
            ..showed(1, 1, 5.0)
        };
        books.write_up(unknown);
        let account = books.closed();
        assert_eq!(account.judged_intervals, 0);
        assert_eq!(account.achieved, None);
        assert_eq!(account.performance.unwrap().value, 5.0);
    }

    #[test]
    fn time_that_runs_backwards_takes_nothing_away() {
        let mut books = Books::open(10);
        books.elapsed(5, 4);
        books.elapsed(20, 1);
        assert_eq!(books.account().given_cpu_ns, 10);
    }
}
