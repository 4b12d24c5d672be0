//! `mapper`, the one command: `mapper run` is mapper-launch, the other tasks are mapperctl's, and `start` and `stop` are
//! for the user's own daemon. Nothing is done here but to find out which.
//!
//! There is no `main` of Rust's, as its runtime changes signals and descriptors that `run` hands on.

#![no_main]

mod arguments;
mod own_daemon;

use anyhow::Context;
use arguments::{Arguments, Task};
use clap::{CommandFactory, FromArgMatches};
use mapper_command::compare::compare;
use mapper_command::page::page;
use mapper_launch::StartedWith;
use mapper_manual::{Completions, Section, wording};
use std::ffi::{OsString, c_char, c_int};
use std::io::{self, Write};

/// By this variable a shell asks for completions.
const COMPLETE: &str = "MAPPER_COMPLETE";
/// The status of `run` when the program was not started.
const NOT_STARTED: u8 = 125;
/// The status of other tasks whose command line is wrong.
const WRONG_LINE: u8 = 2;
const FAILED: u8 = 1;

#[unsafe(no_mangle)]
extern "C" fn main(
    count: c_int,
    arguments: *mut *mut c_char,
    environment: *mut *mut c_char,
) -> c_int {
    // SAFETY: these are the arguments of `main`, called once by the C runtime.
    let started = unsafe { StartedWith::from_main(count, arguments, environment) };
    wording::one_command();
    mapper_launch::reserve_standard_streams();
    c_int::from(obey(started).unwrap_or_else(|error| {
        mapperctl::say(&error);
        FAILED
    }))
}

/// Does what the command line says. Returns the exit status.
fn obey(started: StartedWith) -> anyhow::Result<u8> {
    let words = started.words();
    if let Some(folder) = mapper_manual::asked_for(words) {
        let completions = Completions::Asked(COMPLETE);
        mapper_manual::write(Arguments::command(), Section::Users, completions, folder)?;
        mapper_manual::write_words(folder)?;
        return Ok(0);
    }
    if mapper_manual::complete(COMPLETE, words, Arguments::command)? {
        return Ok(0);
    }
    let parsed = Arguments::command()
        .try_get_matches_from(words)
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    let Arguments { socket, task } = match parsed {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error, words),
    };
    match task {
        Task::Run(line) => return Ok(mapper_launch::run_line(*line, started)),
        Task::Question(question) => {
            expect_closed_pipes();
            mapperctl::answer(&question, socket.as_deref())?;
        }
        Task::Compare(options) => {
            expect_closed_pipes();
            compare(&options, socket.as_deref())?;
        }
        Task::Page(options) => {
            expect_closed_pipes();
            page(&options, socket.as_deref())?;
        }
        Task::Start => {
            expect_closed_pipes();
            own_daemon::start(socket.as_deref(), started)?;
        }
        Task::Stop => {
            expect_closed_pipes();
            own_daemon::stop(socket.as_deref())?;
        }
    }
    Ok(0)
}

/// Prints help, or what is wrong with the command line.
fn refuse(error: &clap::Error, words: &[OsString]) -> anyhow::Result<u8> {
    expect_closed_pipes();
    let text = error.to_string();
    if !error.use_stderr() {
        let mut out = io::stdout();
        let shown = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        shown.context("write to standard output")?;
        return Ok(0);
    }
    // Help instead of an error, where no task is named, has no such start.
    let text = match text.strip_prefix("error: ") {
        Some(problem) => format!("mapper: {problem}"),
        None => text,
    };
    // That it cannot be printed changes no status.
    let _ = io::stderr().write_all(text.as_bytes());
    // The task is the first word that is neither an option nor its value.
    let mut words = words.iter().skip(1);
    let task = loop {
        match words.next() {
            Some(word) if word == "--socket" => drop(words.next()),
            Some(word) if word.as_encoded_bytes().starts_with(b"-") => {}
            word => break word,
        }
    };
    Ok(match task.is_some_and(|word| word == "run") {
        true => NOT_STARTED,
        false => WRONG_LINE,
    })
}

/// As Rust's own `main` would: a reader that has seen enough is an error of writing and does not end the process.
fn expect_closed_pipes() {
    // SAFETY: no handler is installed, and nothing else is running.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}
