//! Where log lines go: to the journal under systemd, as text to standard error otherwise.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging. `MAPPER_LOG` says what; `info` by default.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env("MAPPER_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let registry = tracing_subscriber::registry().with(filter);
    if stderr_is_journal()
        && let Ok(journal) = tracing_journald::layer()
    {
        registry
            .with(journal.with_syslog_identifier("mapperd".to_owned()))
            .init();
    } else {
        let terminal = std::io::stderr().is_terminal();
        registry
            .with(
                tracing_subscriber::fmt::layer()
                    .with_writer(std::io::stderr)
                    .with_ansi(terminal)
                    .with_target(false),
            )
            .init();
    }
}

/// Whether standard error is connected to the journal: the variable names device and inode, which
/// differ when it was redirected.
fn stderr_is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    rustix::fs::fstat(std::io::stderr().as_fd())
        .is_ok_and(|stat| named == format!("{}:{}", stat.st_dev, stat.st_ino))
}
