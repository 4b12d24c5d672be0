//! `--report`: what the program got, printed to standard error when it has ended.
//!
//! The daemon does the accounting; the launcher asks for it on a new connection, since the daemon that granted the CPUs
//! may have been replaced. A missing report is printed and is no failure: the exit status is the program's.

use mapper_control::Client;
use mapper_control::schema::ReportReply;
use mapper_model::AppId;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

/// How long a daemon may take to answer; the program's end has to be passed on.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Report {
    app: AppId,
    socket: PathBuf,
    /// Why the shim is not in the program, if its loader cannot load it.
    unreachable: Option<String>,
    /// Standard error, from before the launcher closed it.
    to: File,
}

impl Report {
    /// To be called while standard error is still open; `None` when it cannot be kept.
    pub(crate) fn prepare(
        app: AppId,
        socket: PathBuf,
        unreachable: Option<String>,
    ) -> Option<Self> {
        let to = std::io::stderr().as_fd().try_clone_to_owned().ok()?;
        Some(Self {
            app,
            socket,
            unreachable,
            to: to.into(),
        })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.to.as_fd()
    }

    pub(crate) fn give(mut self) {
        let reply =
            Client::connect(&self.socket, PATIENCE).and_then(|mut client| client.report(self.app));
        let mut text = match reply {
            Ok(reply) => in_words(&reply),
            Err(error) => format!("no report: {error}"),
        };
        text.extend(self.unreachable.iter().flat_map(|why| ["; ", why]));
        let _ = writeln!(self.to, "mapper-launch: {text}");
    }
}

fn in_words(reply: &ReportReply) -> String {
    let account = &reply.account;
    let seconds = |ns: u64| ns as f64 * 1e-9;
    let mut text = format!(
        "{}: managed for {:.1} s on {} to {} CPUs, given {:.1} CPU-seconds",
        reply.name,
        seconds(account.managed_ns),
        account.fewest_cpus,
        account.most_cpus,
        seconds(account.given_cpu_ns),
    );
    // Writing to a String cannot fail.
    if let Some(used_ns) = account.used_cpu_ns {
        let _ = write!(text, ", used {:.1}", seconds(used_ns));
    }
    let _ = write!(text, "; promised {:.0} %", reply.qos.get() * 100.0);
    match account.achieved {
        None => text.push_str(", not judged: it ran too briefly or was idle"),
        Some(achieved) => {
            let _ = write!(
                text,
                ", achieved {:.0} % of its fair-share performance, below the promise in {} of {} \
                 intervals",
                achieved * 100.0,
                account.violations,
                account.judged_intervals,
            );
        }
    }
    if let (Some(floor), Some(performance)) = (account.floor, &account.performance) {
        let _ = write!(
            text,
            "; at the end {:.4} {} with a floor of {floor:.4}",
            performance.value, performance.unit
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_control::PROTOCOL;
    use mapper_control::schema::Account;
    use mapper_model::{AppName, Qos};

    fn reply(account: Account) -> ReportReply {
        ReportReply {
            protocol: PROTOCOL,
            app: AppId(1),
            name: AppName::from_lossy("fft"),
            qos: Qos::default(),
            account,
        }
    }

    #[test]
    fn a_report_shows_the_promise_and_the_result() {
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
        let expected = "fft: managed for 10.0 s on 2 to 4 CPUs, given 25.0 CPU-seconds, used 24.0; promised \
             85 %, achieved 97 % of its fair-share performance, below the promise in 1 of 8 intervals";
        assert_eq!(in_words(&reply(account)), expected);
        let text = in_words(&reply(Account::default()));
        let says = "not judged: it ran too briefly or was idle";
        assert!(text.contains(says), "{text}");
    }
}
