//! What Ctrl-C leaves: the report of what is finished is written, and then the task fails, so that no script
//! takes half an evaluation for a whole one.

use std::process::ExitCode;

use crate::output::say;

/// A task of many runs that the user stopped.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("stopped with {done} of {wanted} runs done: {next}")]
pub struct Stopped {
    /// Runs that are finished, those from earlier evaluations among them.
    pub done: usize,
    /// Runs that were wanted, as far as they were counted.
    pub wanted: usize,
    /// How to come to the rest, in words.
    pub next: &'static str,
}

impl Stopped {
    /// What a shell tells of a program that Ctrl-C ended: 128 and the number of SIGINT.
    pub const STATUS: u8 = 130;
}

/// Says what failed, and gives the exit status.
pub fn exit_code(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("error: {error:#}"));
            match error.downcast_ref() {
                Some(Stopped { .. }) => Stopped::STATUS.into(),
                None => ExitCode::FAILURE,
            }
        }
    }
}
