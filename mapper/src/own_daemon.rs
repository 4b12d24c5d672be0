//! `mapper start` and `mapper stop`: the user's own daemon.

use anyhow::{Context, bail, ensure};
use mapper_control::socket_path::Surroundings;
use mapper_control::{Client, ClientErrorKind};
use mapper_launch::StartedWith;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn start(flag: Option<&Path>, started: StartedWith) -> anyhow::Result<()> {
    let around = Surroundings::of_process();
    let socket = around.socket(flag);
    if let Ok(status) = Client::connect(&socket, PATIENCE).and_then(|mut client| client.status()) {
        let (pid, place) = (status.daemon.pid, socket.display());
        return say(&format!(
            "A daemon runs already, as process {pid}, at {place}."
        ));
    }
    ensure!(
        socket == around.user_socket(),
        "{} is not where your own daemon listens; leave out --socket and MAPPER_SOCKET, or see why that one does not \
         run (`systemctl status mapperd`)",
        socket.display()
    );
    let pid = mapper_launch::start_own_daemon(started)?;
    say(&format!(
        "Started a daemon, process {pid}; it stops after ten minutes without programs, or by `mapper stop`."
    ))
}

pub(crate) fn stop(flag: Option<&Path>) -> anyhow::Result<()> {
    let around = Surroundings::of_process();
    let socket = match around.named_socket(flag) {
        Some(named) => named,
        // Never the system's daemon, unless it is named.
        None => around.user_socket(),
    };
    let mut client = match Client::connect(&socket, PATIENCE) {
        Err(error)
            if matches!(
                error.kind,
                ClientErrorKind::NotFound | ClientErrorKind::Refused
            ) =>
        {
            return say(&format!("No daemon of yours runs at {}.", socket.display()));
        }
        connected => connected?,
    };
    let status = client.status()?;
    let number = status.daemon.pid;
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let pid = pid.with_context(|| format!("the daemon says that it is process {number}"))?;
    let place = format!("/proc/{number}");
    let owner = fs::metadata(&place).with_context(|| place.clone())?.uid();
    ensure!(
        owner == geteuid().as_raw(),
        "the daemon, process {number}, is user {owner}'s, not yours; its administrator stops it \
         (`systemctl stop mapperd`)"
    );
    let daemon = pidfd_open(pid, PidfdFlags::empty()).context("open the daemon's process")?;
    // Its number is another process's where it runs in another PID namespace.
    let name = fs::read_to_string(format!("{place}/comm")).with_context(|| place.clone())?;
    ensure!(
        name.trim_end() == "mapperd",
        "the daemon says that it is process {number}, which is `{}` here; stop it in the container that it runs in",
        name.trim_end()
    );
    // It has answered, so that the number was its own, and this is the process that had it.
    let still = client.status()?.daemon.pid;
    ensure!(
        still == number,
        "another daemon has taken its place; try again"
    );
    pidfd_send_signal(&daemon, Signal::TERM).context("end the daemon")?;
    let limit = Timespec::try_from(PATIENCE).context("wait")?;
    let mut ended = [PollFd::new(&daemon, PollFlags::IN)];
    if poll(&mut ended, Some(&limit)).context("wait for the daemon")? == 0 {
        bail!(
            "process {number} was asked to stop and has not within {} s; see its log",
            PATIENCE.as_secs()
        );
    }
    if socket.exists() {
        // Only systemd's stays.
        return say(
            "Stopped the daemon; its socket unit starts the next one for an application that runs or starts \
             (`systemctl --user stop mapperd.socket` stops that, too).",
        );
    }
    say(&match status.apps.len() {
        0 => "Stopped the daemon.".to_owned(),
        1 => "Stopped the daemon; 1 program continues, with all CPUs.".to_owned(),
        several => format!("Stopped the daemon; {several} programs continue, with all CPUs."),
    })
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = io::stdout();
    let said = writeln!(out, "{line}").and_then(|()| out.flush());
    said.context("write to standard output")
}
