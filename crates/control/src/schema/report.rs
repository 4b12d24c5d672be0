//! What an application got, in sum.

use super::status::PerformanceStatus;
use mapper_model::{AppId, AppName, Qos};
use serde::{Deserialize, Serialize};

/// `Report`: asks what an application got so far, or got until it ended a short while ago.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReportRequest {
    /// The application.
    pub app: AppId,
}

/// Reply to `Report`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReportReply {
    /// [`PROTOCOL`](crate::PROTOCOL).
    pub protocol: u32,
    /// The application.
    pub app: AppId,
    /// Its name.
    pub name: AppName,
    /// The promise: a share of its performance on its fair share of the CPUs.
    pub qos: Qos,
    /// What it got.
    #[serde(flatten)]
    pub account: Account,
}

/// Reply to `History`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HistoryReply {
    /// [`PROTOCOL`](crate::PROTOCOL).
    pub protocol: u32,
    /// Those that ended last, the latest first.
    pub ended: Vec<EndedApp>,
}

/// An application that has ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EndedApp {
    /// The application.
    pub app: AppId,
    /// Its name.
    pub name: AppName,
    /// Its user.
    pub uid: u32,
    /// Its command line, or what it was before it was adopted.
    pub command: String,
    /// How long ago it ended or was released.
    pub ended_ago_ns: u64,
    /// Its exit status, or 128 + n after signal n, where its launcher has reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<u8>,
    /// The promise.
    pub qos: Qos,
    /// What it got.
    #[serde(flatten)]
    pub account: Account,
}

/// What an application got since it was launched.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    /// How long it has been managed.
    pub managed_ns: u64,
    /// Time on CPUs that it was given, summed over them: what it could have used.
    pub given_cpu_ns: u64,
    /// The same on CPUs of idle applications, which it had beside those, or that others left idle.
    pub borrowed_cpu_ns: u64,
    /// CPU time that it used, where that is measured.
    pub used_cpu_ns: Option<u64>,
    /// Intervals in which its performance was measured while the promise of that phase was known.
    pub judged_intervals: u64,
    /// Those of them where the median of it and the two before it, of the same phase, was below the promise.
    pub violations: u64,
    /// Median share of its fair-share performance over the judged intervals, comparable with the promise.
    pub achieved: Option<f64>,
    /// The promise in the unit of its performance, as last known.
    pub floor: Option<f64>,
    /// Its performance when it was last measured.
    pub performance: Option<PerformanceStatus>,
    /// How often its CPUs were changed.
    pub moves: u64,
    /// The fewest CPUs it had.
    pub fewest_cpus: u32,
    /// The most CPUs it had.
    pub most_cpus: u32,
}

/// In words for people: for the end of a launch, for reports and for the history.
impl Account {
    /// How long it was managed and on how many CPUs: `20.5 s on 1 to 2 CPUs`.
    pub fn time_in_words(&self) -> String {
        let seconds = self.managed_ns as f64 * 1e-9;
        let (fewest, most) = (self.fewest_cpus, self.most_cpus);
        let cpus = match (fewest == most, most) {
            (true, 1) => "1 CPU".to_owned(),
            (true, most) => format!("{most} CPUs"),
            (false, most) => format!("{fewest} to {most} CPUs"),
        };
        format!("{seconds:.1} s on {cpus}")
    }

    /// All of it in two lines, the second below the first after `prefix`; `more` may follow.
    pub fn in_two_lines(&self, prefix: &str, qos: Qos, more: Option<&str>) -> String {
        let seconds = |ns: u64| ns as f64 * 1e-9;
        let mut spent = format!("given {:.1}", seconds(self.given_cpu_ns));
        if self.borrowed_cpu_ns > 0 {
            spent += &format!(", borrowed {:.1}", seconds(self.borrowed_cpu_ns));
        }
        if let Some(used_ns) = self.used_cpu_ns {
            spent += &format!(", used {:.1}", seconds(used_ns));
        }
        let mut speed = self.speed_in_words(qos);
        if self.achieved.is_some() {
            let (below, judged) = (self.violations, self.judged_intervals);
            speed += &format!(", below the promise in {below} of {judged} intervals");
        }
        speed.extend(more.into_iter().flat_map(|more| ["; ", more]));
        format!(
            "{prefix}{}, CPU-seconds: {spent}\n{:indent$}{speed}",
            self.time_in_words(),
            "",
            indent = prefix.chars().count(),
        )
    }

    /// Its speed against its promise: `97 % of its fair-share speed (85 % promised)`.
    pub fn speed_in_words(&self, qos: Qos) -> String {
        let promised = qos.get() * 100.0;
        match self.achieved {
            Some(achieved) => {
                let achieved = achieved * 100.0;
                format!("{achieved:.0} % of its fair-share speed ({promised:.0} % promised)")
            }
            None => "not judged: it ran too briefly or was idle".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lines_are_aligned_and_hold_the_promise_and_the_result() {
        let account = Account {
            managed_ns: 10_000_000_000,
            given_cpu_ns: 25_000_000_000,
            used_cpu_ns: Some(24_000_000_000),
            judged_intervals: 8,
            violations: 1,
            achieved: Some(0.97),
            fewest_cpus: 2,
            most_cpus: 4,
            ..Account::default()
        };
        let text = account.in_two_lines("mapper: fft: ", Qos::default(), Some("no shim"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "mapper: fft: 10.0 s on 2 to 4 CPUs, CPU-seconds: given 25.0, used 24.0",
                "             97 % of its fair-share speed (85 % promised), below the promise in 1 of 8 intervals; no shim",
            ]
        );
    }

    #[test]
    fn an_account_is_said_in_the_words_of_its_numbers() {
        let mut account = Account {
            managed_ns: 20_460_000_000,
            fewest_cpus: 1,
            most_cpus: 2,
            achieved: Some(0.974),
            ..Account::default()
        };
        assert_eq!(account.time_in_words(), "20.5 s on 1 to 2 CPUs");
        let speed = "97 % of its fair-share speed (85 % promised)";
        assert_eq!(account.speed_in_words(Qos::default()), speed);
        account.most_cpus = 1;
        account.achieved = None;
        assert_eq!(account.time_in_words(), "20.5 s on 1 CPU");
        let speed = account.speed_in_words(Qos::default());
        assert!(speed.starts_with("not judged"), "{speed}");
    }
}
