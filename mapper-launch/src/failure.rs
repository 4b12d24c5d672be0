//! Failures of the launcher and the status it exits with, as shells have it.

use std::fmt;

/// The exit status for a program that is not there.
pub(crate) const NOT_FOUND: u8 = 127;
/// The exit status for a program that cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The exit status for a failure of the launcher's own.
pub(crate) const LAUNCHER_FAILED: u8 = 125;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    /// What to print, if anything.
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
    let _ = writeln!(std::io::stderr(), "mapper-launch: {}", message.trim_end());
}
