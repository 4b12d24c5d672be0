//! One run of the program: plainly, or with the shim under an allocation of our own making.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use mapper_abi::{Allocation, CpuMask, PageWriter, Runtimes, TeamMode as PageTeamMode};
use mapper_model::TeamMode;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
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

/// What the program is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Allocations {
    /// One CPU from beginning to end.
    OneCpu,
    /// From one CPU to twice those there are, by this seed.
    Changing(u32),
}

impl fmt::Display for Allocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneCpu => "on one CPU",
            Self::Changing(_) => "when its CPUs change",
        })
    }
}

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
        self.run(self.prepared(), None)
    }

    pub(super) fn managed(
        &self,
        mode: TeamMode,
        allocations: Allocations,
    ) -> anyhow::Result<Outcome> {
        let mut command = self.prepared();
        let mut daemon = StandIn::new(self, mode, allocations)?;
        let descriptor = daemon.writer.as_fd().as_raw_fd();
        let page = format!("/proc/{}/fd/{descriptor}", std::process::id());
        let users = std::env::var_os("LD_PRELOAD");
        command
            .env("LD_PRELOAD", shim::preload(self.shim, users.as_deref()))
            .env(mapper_abi::PAGE_ENV, page)
            .env(mapper_abi::TOKEN_ENV, daemon.writer.token().to_string())
            .env(mapper_abi::TEAMS_ENV, mode.as_str());
        self.run(command, Some(&mut daemon))
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
        default("GOMP_SPINCOUNT", SpinTurns::measured().to_string());
        default("KMP_BLOCKTIME", "0".to_owned());
        default("KMP_AFFINITY", AFFINITY.to_owned());
        command
    }

    fn run(
        &self,
        mut command: Command,
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
        let pause = match &daemon {
            Some(daemon) if daemon.allocations != Allocations::OneCpu => CHANGE,
            _ => LOOK,
        };
        let status = loop {
            if let Some(daemon) = &mut daemon {
                daemon.act(running.pid())?;
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
            not_admitted: daemon.and_then(|daemon| daemon.teams_off()),
        })
    }
}

/// Stands in for the daemon in one run.
struct StandIn {
    writer: PageWriter,
    mode: PageTeamMode,
    allocations: Allocations,
    cpus: Vec<usize>,
    random: u64,
}

impl StandIn {
    fn new(trial: &Trial<'_>, mode: TeamMode, allocations: Allocations) -> anyhow::Result<Self> {
        let seed = match allocations {
            Allocations::OneCpu => 0,
            Allocations::Changing(seed) => u64::from(seed),
        };
        let mut stand_in = Self {
            writer: PageWriter::create().context("make a page")?,
            mode: match mode {
                TeamMode::Fixed => PageTeamMode::Fixed,
                TeamMode::Follow => PageTeamMode::Follow,
                TeamMode::Virtual => PageTeamMode::Virtual,
            },
            allocations,
            cpus: trial.cpus.clone(),
            random: seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        };
        stand_in.publish(1)?;
        Ok(stand_in)
    }

    fn publish(&mut self, count: u32) -> anyhow::Result<()> {
        self.writer.publish(&Allocation {
            cpu_count: count,
            team_mode: self.mode,
            cpus: CpuMask::from_cpus(0..count).context("make a CPU mask")?,
            node_mask: 1,
            ..Allocation::default()
        });
        Ok(())
    }

    /// Gives the program what it is to have now.
    fn act(&mut self, program: Pid) -> anyhow::Result<()> {
        let count = match self.allocations {
            Allocations::OneCpu => 1,
            Allocations::Changing(_) => {
                // xorshift64
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                let most = 2 * self.cpus.len().max(1) as u64;
                let count = 1 + u32::try_from((self.random >> 16) % most).unwrap_or(0);
                self.publish(count)?;
                count
            }
        };
        let mut set = CpuSet::new();
        for &cpu in self.cpus.iter().take(count as usize) {
            // A CPU beyond what the kernel's set can name is left out.
            let _ = set.set(cpu);
        }
        for thread in threads(program) {
            // It may have ended meanwhile.
            let _ = sched_setaffinity(thread, &set);
        }
        Ok(())
    }

    fn teams_off(&self) -> Option<String> {
        let report = self.writer.reader().ok()?.report();
        match report.teams_off {
            Some(why) => Some(format!("{why:?}")),
            None if self.mode == PageTeamMode::Virtual && report.runtimes == Runtimes::LIBOMP => {
                Some("its OpenMP runtime is not libgomp".to_owned())
            }
            None => None,
        }
    }
}

fn threads(process: Pid) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .map(Pid::from_raw)
        .collect()
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
