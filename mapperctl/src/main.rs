//! Shows and explains what mapperd does: a table for people, in colour only on a terminal, or with `--json` the reply
//! itself for programs. Nothing is computed here; what a view shows is in the daemon's reply.

mod adopt_view;
mod arguments;
mod doctor_view;
mod explain_view;
mod plain_text;
mod policies_view;
mod quantities;
mod reload_view;
mod status_view;
mod table;
mod top;

#[cfg(test)]
#[path = "../tests/samples/mod.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared with the tests of the command"
)]
mod samples;

use anyhow::Context;
use arguments::{Arguments, Question};
use clap::{CommandFactory, Parser};
use mapper_control::{Client, ClientError, ClientErrorKind, ErrorReply, socket_path};
use mapper_host::doctor;
use plain_text::{Width, harmless};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let done = match mapper_manual::asked_for(&words) {
        Some(folder) => write_manual(folder),
        None => run(&Arguments::parse_from(&words)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // That it cannot be said is no reason to fail in another way.
            let _ = writeln!(io::stderr(), "mapperctl: {}", printable(&error));
            ExitCode::FAILURE
        }
    }
}

/// What the daemon answered may contain what others chose.
fn printable(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let lines: Vec<_> = text.lines().map(harmless).collect();
    lines.join("\n")
}

fn write_manual(folder: &Path) -> anyhow::Result<()> {
    let section = mapper_manual::Section::Users;
    mapper_manual::write(Arguments::command(), section, folder)?;
    Ok(())
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let socket = socket_path::socket_path(arguments.socket.as_deref());
    let width = Width::of_terminal();
    if let Question::Doctor { json } = &arguments.question {
        let daemon = Client::connect(&socket, PATIENCE).and_then(|mut client| client.status());
        let text = shown(*json, &doctor::examine(), |findings| {
            doctor_view::view(findings, daemon.as_ref().ok(), width)
        })?;
        return print(&text);
    }
    if let Question::Status { schema: true, .. } = &arguments.question {
        return print(&mapper_control::schema::status_schema());
    }
    if let Question::Top { interval } = &arguments.question {
        return top::run(&socket, *interval);
    }
    let mut client = Client::connect(&socket, PATIENCE)?;
    let text = match &arguments.question {
        Question::Status { json, .. } => shown(*json, &client.status()?, |status| {
            status_view::view(status, width)
        })?,
        Question::Explain { name, json } => {
            let explained = client.explain(name).map_err(with_those_that_run)?;
            shown(*json, &explained, |reply| explain_view::view(reply, width))?
        }
        Question::Policies { json } => shown(*json, &client.policies()?, |reply| {
            policies_view::view(reply, width)
        })?,
        Question::Doctor { .. } | Question::Top { .. } => String::new(),
        Question::Adopt(adopt) => {
            let reply = client.adopt(adopt.request()?)?;
            shown(adopt.json, &reply, adopt_view::adopted)?
        }
        Question::Release { name } => {
            let reply = client.release(name).map_err(with_those_that_run)?;
            adopt_view::released(&reply)
        }
        Question::Reload => reload_view::view(&client.reload()?),
    };
    print(&text)
}

fn shown<T: Serialize>(
    json: bool,
    reply: &T,
    view: impl Fn(&T) -> String,
) -> anyhow::Result<String> {
    if !json {
        return Ok(view(reply));
    }
    let json = serde_json::to_string_pretty(reply).context("write the reply as JSON")?;
    Ok(plain_text::harmless_json(&json) + "\n")
}

/// A reader that has seen enough (`mapperctl status | head`) is no failure.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("write to standard output"),
    }
}

fn with_those_that_run(error: ClientError) -> anyhow::Error {
    let ClientErrorKind::Daemon(ErrorReply::UnknownApplication { running, .. }) = &error.kind
    else {
        return error.into();
    };
    if running.is_empty() {
        return anyhow::anyhow!("{}; no application runs", error.kind);
    }
    let names: Vec<_> = running.iter().map(ToString::to_string).collect();
    anyhow::anyhow!("{}; these run: {}", error.kind, names.join(", "))
}
