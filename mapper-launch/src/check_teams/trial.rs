//! One run of the program: plainly, or with the shim under an allocation of our own making.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use mapper_abi::TeamMode as PageTeamMode;
use mapper_abi::stand_in::{Allocations, StandIn};
use mapper_model::TeamMode;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::environment::AFFINITY;
use crate::shim;
use crate::waiting::SpinTurns;

/// How often a changing allocation changes.
const CHANGE: Duration = Duration::from_micros(300);
/// How often one that does not change is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// Output beyond this is not compared.
const MOST_OUTPUT: u64 = 64 << 20;

/// What came of a run.
#[derive(Debug)]
pub(super) struct Outcome {
    /// How it ended, in words.
    pub(super) status: String,
    /// What it printed to standard output.
    pub(super) printed: Vec<u8>,
    pub(super) elapsed: Duration,
    /// Why the shim kept real teams, if it did.
    pub(super) not_admitted: Option<String>,
}

/// A program to be run.
pub(super) struct Trial<'a> {
    program: &'a Path,
    command: &'a [OsString],
    shim: &'a Path,
    limit: Duration,
    cpus: Vec<usize>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        program: &'a Path,
        command: &'a [OsString],
        shim: &'a Path,
        limit: Duration,
    ) -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).context("ask for the CPUs")?;
        let cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
        Ok(Self {
            program,
            command,
            shim,
            limit,
            cpus: cpus.collect(),
        })
    }

    pub(super) fn plainly(&self) -> anyhow::Result<Outcome> {
        self.run(self.prepared(), LOOK, None)
    }

    pub(super) fn managed(
        &self,
        mode: TeamMode,
        allocations: Allocations,
    ) -> anyhow::Result<Outcome> {
        let mut command = self.prepared();
        let mode = match mode {
            TeamMode::Fixed => PageTeamMode::Fixed,
            TeamMode::Follow => PageTeamMode::Follow,
            TeamMode::Virtual => PageTeamMode::Virtual,
        };
        let mut daemon = StandIn::new(mode, &self.cpus, allocations).context("make a page")?;
        let users = std::env::var_os("LD_PRELOAD");
        command
            .env("LD_PRELOAD", shim::preload(self.shim, users.as_deref()))
            .envs(daemon.environment());
        let pause = match allocations {
            Allocations::OneCpu => LOOK,
            Allocations::Changing(_) => CHANGE,
        };
        self.run(command, pause, Some(&mut daemon))
    }

    /// The program as the launcher would start it on all CPUs.
    fn prepared(&self) -> Command {
        let mut command = Command::new(self.program);
        if let [name, arguments @ ..] = self.command {
            command.arg0(name).args(arguments);
        }
        let mut default = |name: &str, value: String| {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        };
        default("OMP_NUM_THREADS", self.cpus.len().to_string());
        if std::env::var_os("GOMP_SPINCOUNT").is_none() {
            let turns = SpinTurns::measured().to_string();
            default("MAPPER_SPIN_TURNS", turns.clone());
            default("GOMP_SPINCOUNT", turns);
        }
        default("KMP_BLOCKTIME", "0".to_owned());
        default("KMP_AFFINITY", AFFINITY.to_owned());
        command
    }

    fn run(
        &self,
        mut command: Command,
        pause: Duration,
        mut daemon: Option<&mut StandIn>,
    ) -> anyhow::Result<Outcome> {
        let mut output = memory_file()?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("share a file")?)
            // What it forks goes with it when it hangs.
            .process_group(0);
        let begun = Instant::now();
        let child = command
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        let mut running = Running(child);
        let status = loop {
            if let Some(daemon) = &mut daemon {
                daemon.step(running.0.id());
            }
            std::thread::sleep(pause);
            if let Some(status) = running.0.try_wait().context("wait for the program")? {
                break told(status);
            }
            if begun.elapsed() > self.limit {
                break format!("hangs (ended after {} s)", self.limit.as_secs());
            }
        };
        let elapsed = begun.elapsed();
        drop(running);
        output.rewind().context("read the output")?;
        let mut printed = Vec::new();
        output
            .take(MOST_OUTPUT)
            .read_to_end(&mut printed)
            .context("read the output")?;
        Ok(Outcome {
            status,
            printed,
            elapsed,
            not_admitted: daemon.and_then(|daemon| daemon.real_teams_because()),
        })
    }
}

/// A program that ends, with all that it forked, when nobody waits for it any more.
struct Running(Child);

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().cast_signed())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The group is the child's own.
        let _ = killpg(self.pid(), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

fn told(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(number)) => match Signal::try_from(number) {
            Ok(signal) => signal.to_string(),
            Err(_) => format!("signal {number}"),
        },
        (None, None) => "unknown status".to_owned(),
    }
}

/// A file without a name.
fn memory_file() -> anyhow::Result<File> {
    let memory = nix::sys::memfd::memfd_create(c"output", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)
        .context("make a place for the output")?;
    Ok(File::from(memory))
}
