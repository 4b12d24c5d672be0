//! Where log lines go: to the journal under systemd, otherwise as text to standard error.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging; `MAPPER_LOG` is the filter, `info` by default.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env("MAPPER_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let registry = tracing_subscriber::registry().with(filter);
    if stderr_is_journal()
        && let Ok(journal) = tracing_journald::layer()
    {
        let journal = journal.with_syslog_identifier("mapperd".to_owned());
        registry.with(journal).init();
    } else {
        let text = tracing_subscriber::fmt::layer().with_target(false);
        let text = text.with_ansi(std::io::stderr().is_terminal());
        registry.with(text.with_writer(std::io::stderr)).init();
    }
}

/// Whether standard error is connected to the journal: device and inode differ from the variable's if it was redirected.
fn stderr_is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    rustix::fs::fstat(std::io::stderr().as_fd())
        .is_ok_and(|stat| named == format!("{}:{}", stat.st_dev, stat.st_ino))
}
