//! What the program got, printed to standard error when it has ended: with `--report` two lines, on a terminal otherwise
//! one, unless `--quiet` was given or the program ran too briefly for anything to be measured.
//!
//! The daemon does the accounting; the launcher asks for it on a new connection, since the daemon that granted the CPUs
//! may have been replaced. A missing report is printed, if it was asked for, and is no failure: the exit status is the
//! program's.

use mapper_control::Client;
use mapper_control::schema::ReportReply;
use mapper_manual::wording;
use mapper_model::AppId;
use nix::unistd::{getpgrp, tcgetpgrp};
use std::fs::File;
use std::io::{IsTerminal, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A program that ended sooner has had no interval in which it was measured.
const WORTH_A_LINE: Duration = Duration::from_secs(1);

/// How much is wanted of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Detail {
    /// `--report`.
    Full,
    Line,
}

impl Detail {
    /// By default there is a line on a terminal, for a program in the foreground.
    pub(crate) fn on_terminal() -> Option<Self> {
        let stderr = std::io::stderr();
        // In the background it would disturb what is in the foreground.
        let in_background = || tcgetpgrp(&stderr).is_ok_and(|group| group != getpgrp());
        (stderr.is_terminal() && !in_background()).then_some(Self::Line)
    }

    /// How long a daemon may take to answer; the program's end has to be passed on.
    const fn patience(self) -> Duration {
        match self {
            Self::Full => Duration::from_secs(2),
            Self::Line => Duration::from_millis(200),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Report {
    app: AppId,
    detail: Detail,
    begun: Instant,
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
        detail: Detail,
        socket: PathBuf,
        unreachable: Option<String>,
    ) -> Option<Self> {
        let to = std::io::stderr().as_fd().try_clone_to_owned().ok()?;
        Some(Self {
            app,
            detail,
            begun: Instant::now(),
            socket,
            unreachable,
            to: to.into(),
        })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.to.as_fd()
    }

    pub(crate) fn give(mut self) {
        if self.detail == Detail::Line && self.begun.elapsed() < WORTH_A_LINE {
            return;
        }
        let reply = Client::connect(&self.socket, self.detail.patience())
            .and_then(|mut client| client.report(self.app));
        let speaker = wording::launcher();
        let text = match (self.detail, reply) {
            (Detail::Line, Err(_)) => return,
            (Detail::Full, Err(error)) => {
                let more = self.unreachable.as_deref();
                let more: String = more.into_iter().flat_map(|more| ["; ", more]).collect();
                format!("{speaker}: no report: {error}{more}")
            }
            (
                detail,
                Ok(ReportReply {
                    name, qos, account, ..
                }),
            ) => {
                let prefix = format!("{speaker}: {name}: ");
                match detail {
                    Detail::Full => account.in_two_lines(&prefix, qos, self.unreachable.as_deref()),
                    Detail::Line => {
                        let (time, speed) = (account.time_in_words(), account.speed_in_words(qos));
                        format!("{prefix}{time}; {speed}")
                    }
                }
            }
        };
        let _ = writeln!(self.to, "{text}");
    }
}
