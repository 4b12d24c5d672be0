//! A program that runs under mapper for the length of a test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};
use mapper_model::CpuSet;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::kernel;
use crate::users::User;

/// The OpenMP runtime that a test program is linked with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runtime {
    Libgomp,
    Libomp,
}

impl Runtime {
    fn tick(self) -> &'static str {
        match self {
            Self::Libgomp => "/usr/lib/mapper-tests/tick-libgomp",
            Self::Libomp => "/usr/lib/mapper-tests/tick-libomp",
        }
    }
}

/// An OpenMP program that was started through mapper-launch and has entered its first region.
pub(crate) struct Application {
    launcher: Child,
    name: &'static str,
    /// The program's process, a child of the launcher.
    pub(crate) pid: u32,
    /// Threads in its first team.
    pub(crate) team: u32,
}

impl Application {
    /// Starts the program under a name, with further options of mapper-launch.
    pub(crate) fn start(
        name: &'static str,
        user: User,
        runtime: Runtime,
        options: &[&str],
    ) -> Result<Self> {
        let mut launcher = launch(
            user,
            &[&["--name", name], options].concat(),
            &[runtime.tick()],
        )?
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("start mapper-launch")?;
        let stdout = launcher
            .stdout
            .take()
            .context("mapper-launch has no output")?;
        let mut application = Self {
            launcher,
            name,
            pid: 0,
            team: 0,
        };
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .with_context(|| format!("hear from {name}"))?;
        let mut words = line.split_whitespace();
        ensure!(
            words.next() == Some("ready"),
            "{name} did not start: \"{line}\""
        );
        let mut number = || -> Result<u32> {
            let word = words
                .next()
                .with_context(|| format!("{name} said \"{line}\""))?;
            word.parse()
                .with_context(|| format!("{name} said \"{line}\""))
        };
        application.pid = number()?;
        application.team = number()?;
        Ok(application)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The launcher's process.
    pub(crate) fn launcher(&self) -> Pid {
        Pid::from_raw(self.launcher.id().cast_signed())
    }

    pub(crate) fn is_running(&self) -> bool {
        kernel::is_running(self.pid)
    }

    /// The CPUs of its group, on which every one of its threads may run, and on no other.
    pub(crate) fn cpus(&self) -> Result<CpuSet> {
        kernel::every_thread_obeys(self.pid).with_context(|| self.name)
    }

    /// Ends the program with a signal to the launcher; returns what the launcher returned.
    pub(crate) fn end(mut self, signal: Signal) -> Result<ExitStatus> {
        kill(self.launcher(), signal).context("signal mapper-launch")?;
        self.launcher.wait().context("wait for mapper-launch")
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        // The program first: a launcher that is killed cannot take it along. A process number of 0
        // would mean this process's own group.
        if self.pid != 0 && self.is_running() {
            let _ = kill(Pid::from_raw(self.pid.cast_signed()), Signal::SIGKILL);
        }
        if matches!(self.launcher.try_wait(), Ok(None)) {
            if self.pid == 0 {
                let _ = self.launcher.kill();
            }
            let _ = self.launcher.wait();
        }
    }
}

/// A command that starts `program` through mapper-launch as `user`.
pub(crate) fn launch(user: User, options: &[&str], program: &[&str]) -> Result<Command> {
    let mut command = user.command("mapper-launch")?;
    command.args(options).arg("--").args(program);
    Ok(command)
}
