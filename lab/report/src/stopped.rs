//! What Ctrl-C leaves: the report of what is finished is written, and then the task fails, so that no script
//! takes half an evaluation for a whole one.

use std::fmt;
use std::process::ExitCode;

use crate::output::say;

/// A task of many runs that the user stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
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

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, wanted, next } = self;
        write!(f, "stopped with {done} of {wanted} runs done: {next}")
    }
}

impl std::error::Error for Stopped {}

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
