//! Where log lines go: to the journal under systemd, otherwise as text to standard error.
//!
//! A thread writes them, so that a reader who does not read stops nobody: what finds its queue full is dropped and
//! counted, and the count is logged once the reader reads again.

use crate::telemetry::background::{Background, reporting};
use crate::telemetry::journal::{self, Journal};
use crate::telemetry::line::{cut, escaped};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Lines that may wait, and the length at which one is cut: together 4 MiB.
const WAITING: usize = 1024;
const LONGEST: usize = 4 << 10;

/// How long the end of the daemon waits for the reader.
const LAST_LINES: Duration = Duration::from_secs(1);

static LINES: OnceLock<Background<String>> = OnceLock::new();

/// Lines that could not be written.
static NOT_TAKEN: AtomicU64 = AtomicU64::new(0);

const LOST: &str = "log lines were dropped: the log's reader did not read";

/// Logging; what was logged is written when this is dropped, in a panic too.
#[derive(Debug)]
pub(crate) struct Logging(());

impl Drop for Logging {
    fn drop(&mut self) {
        if let Some(lines) = LINES.get() {
            lines.flush(LAST_LINES);
        }
    }
}

/// Starts logging; `MAPPER_LOG` is the filter, `info` by default.
pub(crate) fn start() -> anyhow::Result<Logging> {
    let filter = EnvFilter::try_from_env("MAPPER_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer();
    let journal = match stderr_is_journal() {
        true => UnixDatagram::unbound().ok(),
        false => None,
    };
    let lines = match journal {
        Some(socket) => {
            let layer = layer.event_format(Journal).fmt_fields(Journal);
            registry.with(layer.with_writer(|| Line::Journal)).init();
            let send = move |line: String| {
                count_failure(&socket.send_to(line.as_bytes(), journal::SOCKET));
            };
            Background::start("log", WAITING, send, reporting(LOST, dropped))
        }
        None => {
            let ansi = io::stderr().is_terminal();
            let layer = layer.with_target(false).with_ansi(ansi);
            registry
                .with(layer.with_writer(move || Line::Text { ansi }))
                .init();
            let print = |line: String| count_failure(&io::stderr().write_all(line.as_bytes()));
            Background::start("log", WAITING, print, reporting(LOST, dropped))
        }
    };
    let _ = LINES.set(lines?);
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!("{panic}");
        // Empty unless RUST_BACKTRACE is set.
        for line in format!("{}", std::backtrace::Backtrace::capture()).lines() {
            tracing::error!("{line}");
        }
    }));
    Ok(Logging(()))
}

/// How many lines were lost: dropped here, or not taken by the reader.
pub(crate) fn dropped() -> u64 {
    LINES.get().map_or(0, Background::dropped) + NOT_TAKEN.load(Ordering::Relaxed)
}

fn count_failure<T>(written: &io::Result<T>) {
    if written.is_err() {
        NOT_TAKEN.fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes one line, with one call of `write`.
#[derive(Clone, Copy, Debug)]
enum Line {
    /// Its values are cut and escaped already, each by itself.
    Journal,
    Text {
        ansi: bool,
    },
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        let line = match *self {
            // What matters comes first.
            Self::Journal => {
                let whole = cut(&line, LONGEST);
                whole[..whole.rfind('\n').map_or(0, |end| end + 1)].to_owned()
            }
            // The colours are ours: what a user wrote has none any more.
            Self::Text { ansi } => {
                let text = cut(line.trim_end_matches('\n'), LONGEST);
                escaped(text, ansi.then_some('\u{1b}')) + "\n"
            }
        };
        if let Some(lines) = LINES.get() {
            lines.submit(line);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether standard error is connected to the journal: device and inode differ from the variable's if it was redirected.
fn stderr_is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    rustix::fs::fstat(io::stderr().as_fd())
        .is_ok_and(|stat| named == format!("{}:{}", stat.st_dev, stat.st_ino))
}
