//! Shows and explains what mapperd does: a table for people, in colour only on a terminal, or with `--json` the reply
//! itself for programs. Nothing is computed here; what a view shows is in the daemon's reply.

mod adopt_view;
mod advice_view;
mod arguments;
mod details_view;
mod doctor_view;
mod explain_view;
mod gather;
mod history_view;
mod hosts;
mod hosts_view;
mod plain_text;
mod policies_view;
mod promise;
mod promise_view;
mod quantities;
mod reload_view;
mod status_view;
mod table;
mod top;
mod users;

#[cfg(test)]
#[path = "../tests/samples/mod.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared with the tests of the command"
)]
mod samples;

pub use arguments::Question;
pub use plain_text::{Width, harmless, wrapped};
pub use quantities::{counted, span};
pub use table::{Cell, Column, Table};

use anyhow::{Context, bail, ensure};
use arguments::Arguments;
use clap::{CommandFactory, Parser};
use hosts::HostName;
use mapper_control::schema::EndedApp;
use mapper_control::socket_path::{self, Surroundings};
use mapper_control::{Client, ClientError, ClientErrorKind, ErrorReply};
use mapper_host::doctor;
use mapper_manual::{Completions, wording};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
/// The least pause before a call that was refused is made again.
const AGAIN: Duration = Duration::from_millis(300);
/// The pause is so many times as long as the attempt took: the daemon decides meanwhile.
const REST: u32 = 3;
/// By this variable a shell asks for completions.
const COMPLETE: &str = "MAPPERCTL_COMPLETE";

/// Everything `mapperctl` does.
#[must_use]
pub fn run() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    match obey(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error);
            ExitCode::FAILURE
        }
    }
}

fn obey(words: &[OsString]) -> anyhow::Result<()> {
    if let Some(folder) = mapper_manual::asked_for(words) {
        return write_manual(folder);
    }
    if mapper_manual::complete(COMPLETE, words, Arguments::command)? {
        return Ok(());
    }
    let arguments = Arguments::parse_from(words);
    answer(&arguments.question, arguments.socket.as_deref())
}

/// Prints an error. That it cannot be printed is no reason to fail in another way.
pub fn say(error: &anyhow::Error) {
    let _ = writeln!(io::stderr(), "{}: {}", wording::ask(), printable(error));
}

/// What the daemon answered may contain what others chose.
fn printable(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let lines: Vec<_> = text.lines().map(harmless).collect();
    lines.join("\n")
}

fn write_manual(folder: &Path) -> anyhow::Result<()> {
    let section = mapper_manual::Section::Users;
    let completions = Completions::Asked(COMPLETE);
    mapper_manual::write(Arguments::command(), section, completions, folder)?;
    Ok(())
}

/// Answers a question; `socket` is the one of the command line.
///
/// # Errors
/// If no daemon answers, if it refuses, or if the answer cannot be printed.
pub fn answer(question: &Question, socket: Option<&Path>) -> anyhow::Result<()> {
    let socket = socket_path::socket_path(socket);
    let width = Width::of_terminal();
    if let Question::Doctor { json, check } = question {
        let daemon = connect(&socket).and_then(|mut client| Ok(client.status()?));
        let findings = doctor::examine();
        let text = shown(*json, &findings, |findings| {
            doctor_view::view(findings, daemon.as_ref(), width)
        })?;
        print(&text)?;
        return match doctor_view::missing(&findings, daemon.as_ref().ok()) {
            Some(missing) if *check => bail!("missing: {missing}"),
            _ => Ok(()),
        };
    }
    if let Question::Status { schema: true, .. } = question {
        return print(&mapper_control::schema::status_schema());
    }
    if let Question::Status {
        hosts: names, json, ..
    } = question
        && !names.is_empty()
    {
        return status_of_hosts(names, *json, width);
    }
    if let Question::Top { interval } = question {
        return top::run(&socket, *interval);
    }
    if let Question::Gather { out } = question {
        return print(&gather::gather(connect(&socket), out.as_deref(), width)?);
    }
    if let Question::Adopt(adopt) = question {
        let request = adopt.request()?;
        let reply = patiently(&socket, |client| client.adopt(request.clone()))??;
        return print(&shown(adopt.json, &reply, adopt_view::adopted)?);
    }
    if let Question::Release { name } = question {
        let reply = patiently(&socket, |client| client.release(name))?;
        return print(&adopt_view::released(&reply.map_err(with_those_that_run)?));
    }
    let mut client = connect(&socket)?;
    let text = match question {
        Question::Status { json, verbose, .. } => {
            shown(*json, &client.status()?, |status| match verbose {
                true => details_view::view(status, width),
                false => status_view::view(status, width),
            })?
        }
        Question::Explain { name, json } => match client.explain(name) {
            Ok(explained) => shown(*json, &explained, |reply| explain_view::view(reply, width))?,
            Err(error) => {
                let app = ended(&mut client, name, error)?;
                shown(*json, &app, |app| history_view::explained(app, width))?
            }
        },
        Question::History { json } => shown(*json, &client.history()?, |reply| {
            history_view::view(reply, width)
        })?,
        Question::Advise { json } => shown(*json, &client.advise()?, |reply| {
            advice_view::view(reply, width)
        })?,
        Question::Report { name, json } => {
            let running = client.explain(name).map(|explained| explained.id);
            let app = match running {
                Ok(app) => app,
                Err(error) => ended(&mut client, name, error)?.app,
            };
            shown(*json, &client.report(app)?, history_view::reported)?
        }
        Question::Policies { json } => shown(*json, &client.policies()?, |reply| {
            policies_view::view(reply, width)
        })?,
        Question::Doctor { .. }
        | Question::Gather { .. }
        | Question::Top { .. }
        | Question::Adopt(_)
        | Question::Release { .. } => String::new(),
        Question::Promise { name, qos } => {
            let reply = client.promise(name.as_deref(), *qos);
            promise_view::view(&reply.map_err(with_those_that_run)?)
        }
        Question::Reload => reload_view::view(&client.reload()?),
    };
    print(&text)
}

/// Shows what is known, and fails if a machine has not answered.
fn status_of_hosts(names: &[HostName], json: bool, width: Width) -> anyhow::Result<()> {
    let hosts = hosts::ask(names);
    print(&shown(json, &hosts, |hosts| {
        hosts_view::view(hosts, width)
    })?)?;
    let silent = hosts
        .iter()
        .filter(|host| matches!(host.answer, hosts::Answer::Error(_)));
    let silent: Vec<&str> = silent.map(|host| host.name.as_str()).collect();
    ensure!(
        silent.is_empty(),
        "no answer from {}; try `ssh {} mapperctl status`",
        silent.join(", "),
        silent[0]
    );
    Ok(())
}

fn connect(socket: &Path) -> anyhow::Result<Client> {
    let failed = match Client::connect(socket, PATIENCE) {
        Ok(client) => return Ok(client),
        Err(failed) => failed,
    };
    let is_own = socket == Surroundings::of_process().user_socket();
    let is_gone = matches!(
        failed.kind,
        ClientErrorKind::NotFound | ClientErrorKind::Refused
    );
    if wording::is_one_command() && is_own && is_gone {
        bail!("no daemon runs; `mapper run -- PROGRAM` starts one, and so does `mapper start`");
    }
    Err(failed.into())
}

/// Calls, and tries again while the daemon says that it cannot now, as where systemd is slow to answer it. The outer error is
/// that of connecting.
fn patiently<T>(
    socket: &Path,
    call: impl Fn(&mut Client) -> Result<T, ClientError>,
) -> anyhow::Result<Result<T, ClientError>> {
    let until = Instant::now() + PATIENCE;
    let mut said = false;
    loop {
        let began = Instant::now();
        match call(&mut connect(socket)?) {
            Err(error) if is_unavailable(&error) && Instant::now() < until => {
                if !std::mem::replace(&mut said, true) {
                    let error = harmless(&error.to_string());
                    eprintln!("mapperctl: {error}; trying for {} s", PATIENCE.as_secs());
                }
                std::thread::sleep(AGAIN.max(REST * began.elapsed()));
            }
            answer => return Ok(answer),
        }
    }
}

fn is_unavailable(error: &ClientError) -> bool {
    matches!(
        error.kind,
        ClientErrorKind::Daemon(ErrorReply::Unavailable { .. })
    )
}

/// The last application of that name or id which has ended; `error` if there is none.
fn ended(client: &mut Client, asked: &str, error: ClientError) -> anyhow::Result<EndedApp> {
    let unknown = matches!(
        error.kind,
        ClientErrorKind::Daemon(ErrorReply::UnknownApplication { .. })
    );
    if !unknown {
        return Err(error.into());
    }
    // A daemon of before has no history.
    let history = client.history().map(|reply| reply.ended);
    let mut history = history.unwrap_or_default().into_iter();
    let found = history.find(|app| app.name.as_str() == asked || app.app.to_string() == asked);
    found.ok_or_else(|| with_those_that_run(error))
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
