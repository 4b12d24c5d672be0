//! `mapper start` and `mapper stop`: the user's own daemon.

use anyhow::{Context, bail, ensure};
use mapper_control::socket_path::{Surroundings, socket_path};
use mapper_control::{Client, ClientErrorKind};
use mapper_launch::StartedWith;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn start(flag: Option<&Path>, started: StartedWith) -> anyhow::Result<()> {
    let around = Surroundings::of_process();
    let socket = around.socket(flag);
    if let Ok(status) = Client::connect(&socket, PATIENCE).and_then(|mut client| client.status()) {
        let (pid, place) = (status.daemon.pid, socket.display());
        println!("A daemon runs already, as process {pid}, at {place}.");
        return Ok(());
    }
    ensure!(
        socket == around.user_socket(),
        "{} is not where your own daemon listens; leave out --socket and MAPPER_SOCKET, or see why that one does not \
         run (`systemctl status mapperd`)",
        socket.display()
    );
    let pid = mapper_launch::start_own_daemon(started)?;
    println!(
        "Started a daemon, process {pid}; it stops after ten minutes without programs, or by `mapper stop`."
    );
    Ok(())
}

pub(crate) fn stop(flag: Option<&Path>) -> anyhow::Result<()> {
    let mut client = match Client::connect(&socket_path(flag), PATIENCE) {
        Err(error)
            if matches!(
                error.kind,
                ClientErrorKind::NotFound | ClientErrorKind::Refused
            ) =>
        {
            println!("No daemon runs.");
            return Ok(());
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
    match status.apps.len() {
        0 => println!("Stopped the daemon."),
        1 => println!("Stopped the daemon; 1 program continues, with all CPUs."),
        several => println!("Stopped the daemon; {several} programs continue, with all CPUs."),
    }
    Ok(())
}
