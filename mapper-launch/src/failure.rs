//! Failures of the launcher and the status it exits with, as shells have it.

use std::fmt;

pub(crate) const NOT_FOUND: u8 = 127;
pub(crate) const NOT_EXECUTABLE: u8 = 126;
pub(crate) const LAUNCHER_FAILED: u8 = 125;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn own(message: impl fmt::Display) -> Self {
        Self {
            status: LAUNCHER_FAILED,
            message: message.to_string(),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::own(format_args!("{error:#}"))
    }
}

/// Prints one line to standard error. A failed write is no reason to fail.
pub(crate) fn say(message: &str) {
    use std::io::Write;
    let speaker = mapper_manual::wording::launcher();
    let _ = writeln!(std::io::stderr(), "{speaker}: {}", message.trim_end());
}
