//! One run of the program: plainly, or with the shim under an allocation made here.

use std::ffi::{OsString, c_int};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use mapper_abi::TeamMode as PageTeamMode;
use mapper_abi::stand_in::{Allocations, Running, StandIn};
use mapper_control::schema::{Terms, Threads, Wishes};
use mapper_model::TeamMode;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg};
use nix::unistd::Pid;

use crate::catalogue::Catalogue;
use crate::descriptors::memory_file;
use crate::environment::{self, Environment, Granted, Runtime};
use crate::loader::Loader;
use crate::signal_state::suffer;
use crate::waiting::SpinTurns;

const CHANGE: Duration = Duration::from_micros(300);
const LOOK: Duration = Duration::from_millis(2);
const ENDING: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];
/// How long a program has to end of one before it is killed.
const GRACE: Duration = Duration::from_secs(2);
pub(super) const MOST_OUTPUT: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Check<'a> {
    pub(crate) program: &'a Path,
    pub(crate) command: &'a [OsString],
    pub(crate) shim: PathBuf,
    pub(crate) catalogue: Catalogue,
    pub(crate) environment: &'a Environment,
    pub(crate) wishes: &'a Wishes,
}

#[derive(Debug)]
pub(super) enum Printed {
    All(Vec<u8>),
    /// Something else in another plain run, so that it is not compared.
    Varies,
    TooMuch,
}

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) status: String,
    pub(super) printed: Printed,
    pub(super) elapsed: Duration,
    pub(super) not_admitted: Option<String>,
    pub(super) parallelism: Parallelism,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Parallelism {
    Seen,
    /// It did not, or it was not observed, as in a plain run.
    NotSeen,
}

pub(super) struct Trial<'a> {
    check: &'a Check<'a>,
    limit: Duration,
    cpus: Vec<usize>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(check: &'a Check<'a>, limit: Duration) -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).context("ask for the CPUs")?;
        let cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
        Ok(Self {
            check,
            limit,
            cpus: cpus.collect(),
        })
    }

    pub(super) fn plainly(&self) -> anyhow::Result<Outcome> {
        self.run(self.prepared(TeamMode::Fixed, None), LOOK, None)
    }

    pub(super) fn managed(
        &self,
        mode: TeamMode,
        allocations: Allocations,
    ) -> anyhow::Result<Outcome> {
        let of_page = match mode {
            TeamMode::Fixed => PageTeamMode::Fixed,
            TeamMode::Follow => PageTeamMode::Follow,
            TeamMode::Virtual => PageTeamMode::Virtual,
        };
        let mut daemon = StandIn::new(of_page, &self.cpus, allocations).context("make a page")?;
        let [(_, page), (_, token), _] = daemon.environment();
        let runtime = Runtime {
            preload: Loader::of(self.check.program).preloads(&self.check.shim),
            shim: self.check.shim.clone(),
            page,
            token,
        };
        let command = self.prepared(mode, Some(runtime));
        let pause = match allocations {
            Allocations::OneCpu => LOOK,
            Allocations::Changing(_) => CHANGE,
        };
        self.run(command, pause, Some(&mut daemon))
    }

    /// The program as the launcher would start it on all CPUs; plainly without a runtime interface.
    fn prepared(&self, teams: TeamMode, runtime: Option<Runtime>) -> Command {
        let mut command = Command::new(self.check.program);
        if let [name, arguments @ ..] = self.check.command {
            command.arg0(name).args(arguments);
        }
        let wishes = self.check.wishes;
        let most = wishes.cpus.max().unwrap_or(u32::MAX);
        let cpus = u32::try_from(self.cpus.len()).map_or(most, |cpus| cpus.min(most));
        let terms = Terms {
            teams,
            teams_by: String::new(),
            threads: wishes.threads.or_rule(Some(Threads::All)),
            schedule: wishes.schedule.or_rule(None),
            max_cpus: wishes.cpus.max(),
        };
        let granted = Granted {
            cpu_count: cpus,
            machine_cpus: cpus,
            runtime,
        };
        let users = self.check.environment;
        for assignment in environment::assignments(&terms, &granted, SpinTurns::measured(), users) {
            let (name, value) = assignment.parts();
            command.env(name, value);
        }
        command
    }

    fn run(
        &self,
        mut command: Command,
        pause: Duration,
        mut daemon: Option<&mut StandIn>,
    ) -> anyhow::Result<Outcome> {
        let output = memory_file()?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("share a file")?);
        let signals = Signals::hold()?;
        let begun = Instant::now();
        let mut running = Running::start(signals.not_held_in(&mut command))
            .with_context(|| format!("start {}", self.check.program.display()))?;
        let status = loop {
            if let Some(daemon) = &mut daemon {
                daemon.step(running.id());
            }
            if let Some(signal) = signals.wait(pause) {
                end(&running, signal);
                drop(running);
                drop(signals);
                suffer(signal as c_int);
                anyhow::bail!("ended by {signal}");
            }
            if running.has_ended().context("wait for the program")? {
                break in_words(running.finish().context("wait for the program")?);
            }
            // The memory of what is not compared: a program may print for ever.
            if length(&output) > MOST_OUTPUT + 1 {
                output
                    .set_len(MOST_OUTPUT + 1)
                    .context("shorten the output")?;
            }
            if begun.elapsed() > self.limit {
                break format!("hangs (ended after {} s)", self.limit.as_secs());
            }
        };
        let elapsed = begun.elapsed();
        drop(running);
        let printed = printed(output).context("read the output")?;
        Ok(Outcome {
            status,
            printed,
            elapsed,
            parallelism: match daemon.as_ref().map(|daemon| daemon.report().attached()) {
                Some(true) => Parallelism::Seen,
                Some(false) | None => Parallelism::NotSeen,
            },
            not_admitted: daemon.and_then(|daemon| daemon.real_teams_because()),
        })
    }
}

/// Passes a signal on to the program and all that it forked, and waits a while for it to end.
fn end(running: &Running, signal: Signal) {
    // It has not been waited for, so that the number is its own.
    let _ = killpg(Pid::from_raw(running.id().cast_signed()), signal);
    let begun = Instant::now();
    while matches!(running.has_ended(), Ok(false)) && begun.elapsed() < GRACE {
        std::thread::sleep(LOOK);
    }
}

/// The signals that end a program, blocked while one runs in a process group of its own: they reach the launcher alone.
struct Signals {
    /// Those that are held back; one that was ignored stays so (`nohup`).
    held: SigSet,
    before: SigSet,
}

impl Signals {
    fn hold() -> anyhow::Result<Self> {
        let held = ENDING.into_iter().filter(|signal| !is_ignored(*signal));
        let held: SigSet = held.collect();
        let before = held
            .thread_swap_mask(SigmaskHow::SIG_BLOCK)
            .context("hold signals back")?;
        Ok(Self { held, before })
    }

    fn not_held_in<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let before = self.before;
        // SAFETY: between fork and exec only a system call is made that is safe there (sigprocmask), and
        // nothing is allocated: the mask is a copy, and an error number becomes an error without text.
        unsafe { command.pre_exec(move || before.thread_set_mask().map_err(std::io::Error::from)) }
    }

    fn wait(&self, pause: Duration) -> Option<Signal> {
        let pause = libc::timespec {
            tv_sec: pause.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: pause.subsec_nanos().into(),
        };
        let set: *const libc::sigset_t = self.held.as_ref();
        // SAFETY: both pointers are to values that live until it returns; what else is known of the
        // signal is not asked for.
        let number = unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), &raw const pause) };
        Signal::try_from(number).ok()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // One that has come meanwhile is delivered now.
        let _ = self.before.thread_set_mask();
    }
}

fn is_ignored(signal: Signal) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: no disposition is set, and the present one is written to a place for one.
    let shown = unsafe { libc::sigaction(signal as c_int, std::ptr::null(), found.as_mut_ptr()) };
    // SAFETY: it succeeded, and so it was written.
    shown == 0 && unsafe { found.assume_init() }.sa_sigaction == libc::SIG_IGN
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(number)) => match Signal::try_from(number) {
            Ok(signal) => signal.to_string(),
            Err(_) => format!("signal {number}"),
        },
        (None, None) => "unknown status".to_owned(),
    }
}

fn length(output: &File) -> u64 {
    output.metadata().map_or(0, |output| output.len())
}

fn printed(mut output: File) -> std::io::Result<Printed> {
    if length(&output) > MOST_OUTPUT {
        return Ok(Printed::TooMuch);
    }
    output.rewind()?;
    let mut bytes = Vec::new();
    output.take(MOST_OUTPUT).read_to_end(&mut bytes)?;
    Ok(Printed::All(bytes))
}
