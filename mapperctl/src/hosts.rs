//! Several machines, each of which is asked over ssh.

use mapper_control::schema::Status;
use serde::Serialize;
use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::mpsc;
use std::time::Duration;

/// Machines that are asked at the same time.
const AT_ONCE: usize = 32;

/// How long a machine has for its answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest answer that is read.
const LONGEST: u64 = 64 << 20;

/// A machine as ssh takes it: an address, a name, or one of ssh's configuration, with or without a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostName(String);

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "@._-:[]%".contains(c);
        match text.starts_with(|c: char| c != '-') && text.chars().all(allowed) {
            true => Ok(Self(text.to_owned())),
            false => {
                Err("give names of machines as ssh takes them, with commas between".to_owned())
            }
        }
    }
}

/// What became of the question to one machine.
#[derive(Debug, Serialize)]
pub(crate) struct Host {
    #[serde(rename = "host")]
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Status(Box<Status>),
    /// Why there is none.
    Error(String),
}

/// Asks every machine for its status.
pub(crate) fn ask(names: &[HostName]) -> Vec<Host> {
    let mut hosts = Vec::new();
    let mut each: Vec<&HostName> = Vec::new();
    for name in names {
        if !each.contains(&name) {
            each.push(name);
        }
    }
    for names in each.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            let asked: Vec<_> = names
                .iter()
                .map(|name| scope.spawn(|| status_of(name)))
                .collect();
            for (HostName(name), asked) in names.iter().zip(asked) {
                let answer = asked
                    .join()
                    .unwrap_or_else(|_| Err("it could not be asked".to_owned()));
                hosts.push(Host {
                    name: name.clone(),
                    answer: match answer {
                        Ok(status) => Answer::Status(Box::new(status)),
                        Err(why) => Answer::Error(why),
                    },
                });
            }
        });
    }
    hosts
}

fn status_of(HostName(name): &HostName) -> Result<Status, String> {
    let mut ssh = Command::new("ssh");
    // It asks nobody for a password, and gives a machine up that does not answer.
    for option in ["BatchMode=yes", "ConnectTimeout=5", "ServerAliveInterval=5"] {
        ssh.args(["-o", option]);
    }
    ssh.args(["--", name, "mapperctl", "status", "--json"]);
    let said = run(&mut ssh).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "there is no ssh here; install it".to_owned(),
        io::ErrorKind::TimedOut => format!("nothing came within {} s", PATIENCE.as_secs()),
        _ => format!("ssh: {error}"),
    })?;
    if !said.status.success() {
        // The last line says most: those before it are greetings.
        let errors = String::from_utf8_lossy(&said.errors).into_owned();
        let last = errors.lines().rfind(|line| !line.trim().is_empty());
        return Err(last.map_or_else(
            || format!("ssh ended with {}", said.status),
            |last| last.trim().to_owned(),
        ));
    }
    serde_json::from_slice(&said.output).map_err(|error| {
        format!("its answer is not understood ({error}); install mapper in the same version there")
    })
}

struct Said {
    status: ExitStatus,
    output: Vec<u8>,
    errors: Vec<u8>,
}

/// What a command prints. One that takes too long is ended.
fn run(command: &mut Command) -> io::Result<Said> {
    let command = command.stdin(Stdio::null());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let (finished, finish) = mpsc::channel();
    // A command that it left behind may keep them waiting.
    std::thread::spawn(move || {
        let errors = std::thread::spawn(move || read(errors));
        let output = read(output);
        let _nobody_waits = finished.send((output, errors.join().unwrap_or_default()));
    });
    let Ok((output, errors)) = finish.recv_timeout(PATIENCE) else {
        child.kill()?;
        child.wait()?;
        return Err(io::ErrorKind::TimedOut.into());
    };
    Ok(Said {
        status: child.wait()?,
        output,
        errors,
    })
}

fn read(pipe: Option<impl Read>) -> Vec<u8> {
    let mut text = Vec::new();
    if let Some(pipe) = pipe {
        // What was read before an error counts.
        let _ = pipe.take(LONGEST).read_to_end(&mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named_as_ssh_takes_it_and_is_no_option_of_it() {
        for name in [
            "node1",
            "ana@node1.example",
            "10.0.0.1",
            "[fe80::1%eth0]",
            "my_host",
        ] {
            assert!(name.parse::<HostName>().is_ok(), "{name}");
        }
        for name in [
            "",
            "-oProxyCommand=x",
            "a b",
            "a;b",
            "$(x)",
            "a\n",
            "ssh://a",
        ] {
            assert!(name.parse::<HostName>().is_err(), "{name}");
        }
    }
}
