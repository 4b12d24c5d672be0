//! One run of one program: started, watched, and ended when it takes too long.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use mapper_abi::TeamMode;
use mapper_abi::stand_in::{self, Running, StandIn};
use serde::Serialize;

use super::sanitizer::{Programs, Sanitizer};
use mapper_report::interrupt::Interrupt;

/// How often the allocation of a managed program changes.
const FLAP: Duration = Duration::from_micros(300);
/// Turns of libgomp's waiting loop: the most that the launcher ever chooses.
const SPIN_TURNS: &str = "3000";
/// How often a plain program is checked.
const LOOK: Duration = Duration::from_millis(1);
/// Lines kept of a program's output, and the bytes in which they are looked for.
const KEPT_LINES: usize = 8;
const KEPT_BYTES: u64 = 1 << 14;
/// Earlier output is freed once it is this large, so that an endless loop fills no disk.
const MOST_LOG: u64 = 1 << 24;

/// What the shim may do with teams, as `MAPPER_TEAMS` names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Teams {
    /// Their size never changes.
    Fixed,
    /// Their size follows the allocation.
    Follow,
    /// The program sees the team it expects, carried by as many threads as it has CPUs.
    Virtual,
}

impl Teams {
    pub(crate) const fn mode(self) -> TeamMode {
        match self {
            Self::Fixed => TeamMode::Fixed,
            Self::Follow => TeamMode::Follow,
            Self::Virtual => TeamMode::Virtual,
        }
    }

    /// Its name in the environment.
    pub(crate) const fn name(self) -> &'static str {
        self.mode().as_str()
    }
}

/// How the shim dispenses dynamic and guided loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoopSchedule {
    /// In the chunks that the program asks for.
    #[default]
    AsWritten,
    /// In chunks that grow, as under `MAPPER_SCHEDULE=adaptive`.
    Adaptive,
}

/// Where programs run.
pub(crate) struct Machine {
    /// The shim to preload.
    pub(crate) shim: PathBuf,
    /// CPUs that this process may use.
    pub(crate) cpus: Vec<usize>,
    /// How loops are dispensed in managed runs.
    pub(crate) schedule: LoopSchedule,
    /// What shim and programs are built with.
    pub(crate) sanitizer: Option<Sanitizer>,
    /// How that is done, by compiler.
    pub(crate) sanitized: BTreeMap<String, Programs>,
    /// Ends a run immediately, with an error.
    pub(crate) interrupt: Interrupt,
}

impl Machine {
    pub(crate) fn of_this_process(
        shim: PathBuf,
        schedule: LoopSchedule,
        interrupt: Interrupt,
    ) -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).context("ask for the CPUs")?;
        let cpus = 0..CpuSet::count();
        let cpus = cpus.filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
        Ok(Self {
            shim,
            cpus: cpus.collect(),
            schedule,
            sanitizer: None,
            sanitized: BTreeMap::new(),
            interrupt,
        })
    }

    /// How programs of a compiler are built and run.
    pub(crate) fn programs_of(&self, compiler: &str) -> &Programs {
        const AS_USUAL: &Programs = &Programs {
            flags: Vec::new(),
            before_shim: None,
        };
        self.sanitized.get(compiler).unwrap_or(AS_USUAL)
    }

    /// Threads that programs start with: twice the CPUs, the most they are ever given.
    fn threads(&self) -> usize {
        2 * self.cpus.len()
    }
}

/// Why a program failed, unless its exit status is 0.
fn failure(status: ExitStatus) -> Option<String> {
    let number = status.signal().unwrap_or(0);
    match (status.code(), Signal::try_from(number)) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, Ok(signal)) => Some(signal.to_string()),
        (None, Err(_)) => Some(format!("signal {number}")),
    }
}

/// A finished run.
pub(crate) struct Run {
    /// Why it failed, if it did.
    pub(crate) failed: Option<String>,
    pub(crate) elapsed: Duration,
    /// The end of its output.
    pub(crate) said: String,
}

/// A program to run, with its limits.
pub(crate) struct Runner<'a> {
    /// It runs in its folder, which should hold nothing else: programs leave files.
    pub(crate) program: &'a Path,
    /// As `--cc` names it.
    pub(crate) compiler: &'a str,
    pub(crate) machine: &'a Machine,
    pub(crate) time_limit: Duration,
}

impl Runner<'_> {
    /// Runs it without mapper, but with mapper's short waits, a sanitizer's runtime, and `extra` variables.
    pub(crate) fn plainly(&self, extra: &[(&str, &str)]) -> anyhow::Result<Run> {
        let mut command = self.command();
        command.envs(extra.iter().copied());
        if let Some(library) = &self.machine.programs_of(self.compiler).before_shim {
            command.env("LD_PRELOAD", library);
        }
        self.run(&mut command, None)
    }

    /// Runs it with the shim, under an allocation that keeps changing.
    pub(crate) fn managed(&self, daemon: &mut StandIn) -> anyhow::Result<Run> {
        let mut command = self.command();
        let preloaded = self.machine.programs_of(self.compiler).before_shim.iter();
        let preloaded = preloaded
            .chain([&self.machine.shim])
            .map(|path| path.as_os_str());
        let preloaded: Vec<&OsStr> = preloaded.collect();
        command
            .env("LD_PRELOAD", preloaded.join(OsStr::new(":")))
            .env("OMP_TOOL_LIBRARIES", &self.machine.shim)
            .envs(daemon.environment());
        if self.machine.schedule == LoopSchedule::Adaptive {
            command.env("MAPPER_SCHEDULE", "adaptive");
        }
        self.run(&mut command, Some(daemon))
    }

    /// The program with an environment like the launcher's, but with threads of libomp that sleep immediately, and without
    /// the variables of this process.
    fn command(&self) -> Command {
        const OURS: [&str; 5] = ["OMP_", "GOMP_", "KMP_", "MAPPER_", "LD_PRELOAD"];
        let mut command = Command::new(self.program);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if OURS.iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        command
            .env("OMP_NUM_THREADS", self.machine.threads().to_string())
            .env("GOMP_SPINCOUNT", SPIN_TURNS)
            .env("MAPPER_SPIN_TURNS", SPIN_TURNS)
            .env("KMP_BLOCKTIME", "0")
            .env("KMP_AFFINITY", "disabled")
            // Virtual teams keep memory as long as the process lives.
            .env("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0");
        command
    }

    fn run(&self, command: &mut Command, mut daemon: Option<&mut StandIn>) -> anyhow::Result<Run> {
        let output = tempfile::tempfile().context("make a file for the output")?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("share a file")?)
            .stderr(output.try_clone().context("share a file")?)
            .current_dir(self.program.parent().unwrap_or(Path::new("/")));
        // SAFETY: one system call, which is safe between fork and exec, and nothing is allocated.
        unsafe { command.pre_exec(end_with_this_thread) };
        let begun = Instant::now();
        let mut running =
            Running::start(command).with_context(|| format!("start {}", self.program.display()))?;
        let mut log = Log {
            file: output,
            kept_from: 0,
        };
        let pause = if daemon.is_some() { FLAP } else { LOOK };
        let failed = loop {
            std::thread::sleep(pause);
            if running.has_ended().context("wait for a program")? {
                break failure(running.finish().context("wait for a program")?);
            }
            if begun.elapsed() > self.time_limit {
                let (seconds, threads) = (self.time_limit.as_secs(), thread_states(running.id()));
                break Some(format!("hung for {seconds} s ({threads})"));
            }
            if self.machine.interrupt.is_raised() {
                bail!("interrupted");
            }
            log.give_back();
            if let Some(daemon) = &mut daemon {
                daemon.step(running.id());
            }
        };
        let elapsed = begun.elapsed();
        drop(running);
        let text = log.text();
        let found = self
            .machine
            .sanitizer
            .and_then(|sanitizer| sanitizer.found(&text));
        let said = last_lines(&text);
        Ok(Run {
            failed: failed.or_else(|| found.map(str::to_owned)),
            elapsed,
            said,
        })
    }
}

/// Has the kernel end the program if this task is killed.
fn end_with_this_thread() -> std::io::Result<()> {
    use rustix::process::{Signal, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from)
}

/// How many threads run and how many sleep, to distinguish a deadlock from an endless loop.
fn thread_states(process: u32) -> String {
    let threads = stand_in::threads(process);
    let runs = |thread: &rustix::process::Pid| {
        let path = format!("/proc/{process}/task/{}/stat", thread.as_raw_nonzero());
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        // The state follows the name, which is in parentheses and may contain some.
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('R'))
    };
    let running = threads.iter().filter(|thread| runs(thread)).count();
    let others = threads.len() - running;
    format!("{running} threads running, {others} waiting")
}

/// The file of a program's output, of which only the end is kept.
struct Log {
    file: File,
    /// Earlier output was freed.
    kept_from: u64,
}

impl Log {
    fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |file| file.len())
    }

    /// Frees what will not be shown. On a file system without holes the file grows.
    fn give_back(&mut self) {
        let old = self.len().saturating_sub(KEPT_BYTES);
        let length = old.saturating_sub(self.kept_from);
        if length < MOST_LOG {
            return;
        }
        if let (Ok(start), Ok(len)) = (i64::try_from(self.kept_from), i64::try_from(length)) {
            let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            let _ = fallocate(self.file.as_fd(), hole, start, len);
        }
        self.kept_from = old;
    }

    /// The end of it; nothing if it cannot be read.
    fn text(mut self) -> String {
        let from = self.len().saturating_sub(KEPT_BYTES);
        let mut bytes = Vec::new();
        let read = self.file.seek(SeekFrom::Start(from));
        let read = read.and_then(|_| (&self.file).take(KEPT_BYTES).read_to_end(&mut bytes));
        match read {
            Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => String::new(),
        }
    }
}

/// The last lines, without control characters.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines[lines.len().saturating_sub(KEPT_LINES)..].join("\n");
    let control = |c: char| c.is_control() && c != '\n' && c != '\t';
    shown.replace(control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn run(script: &str, time_limit: Duration) -> Run {
        run_unless(&Interrupt::default(), script, time_limit).unwrap()
    }

    fn run_unless(interrupt: &Interrupt, script: &str, limit: Duration) -> anyhow::Result<Run> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        // A copy could not be started while a test beside forks, which has it open for writing then.
        std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
        let machine = Machine {
            shim: PathBuf::new(),
            cpus: vec![0],
            schedule: LoopSchedule::AsWritten,
            sanitizer: None,
            sanitized: BTreeMap::new(),
            interrupt: interrupt.clone(),
        };
        let runner = Runner {
            program: &program,
            compiler: "sh",
            machine: &machine,
            time_limit: limit,
        };
        runner.run(runner.command().args(["-c", script]), None)
    }

    #[test]
    fn an_interrupt_does_not_wait_for_a_program_that_hangs() {
        let interrupt = Interrupt::default();
        interrupt.raise();
        let begun = Instant::now();
        let stopped = run_unless(&interrupt, "sleep 600", Duration::from_secs(600));
        assert!(stopped.is_err_and(|error| error.to_string() == "interrupted"));
        assert!(begun.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn the_end_of_a_program_in_its_folder_is_reported_without_control_characters() {
        let (coloured, plain) = (
            "printf '\\033[2Jred\\a\\tand blue'",
            "\u{fffd}[2Jred\u{fffd}\tand blue",
        );
        let both = "echo one; echo two >&2; exit 3";
        for (script, failed, said) in [
            ("exit 0", None, ""),
            (both, Some("exit status 3"), "one\ntwo"),
            ("kill -11 $$", Some("SIGSEGV"), ""),
            ("test -x ./program", None, ""),
            (coloured, None, plain),
        ] {
            let run = run(script, LIMIT);
            let found = (run.failed.as_deref(), &*run.said);
            assert_eq!(found, (failed, said), "{script}");
        }
    }

    #[test]
    fn of_a_program_that_says_the_same_for_ever_only_the_end_is_kept() {
        use std::io::Write as _;
        use std::os::unix::fs::MetadataExt as _;
        let mut file = tempfile::tempfile().unwrap();
        let mut log = Log {
            file: file.try_clone().unwrap(),
            kept_from: 0,
        };
        let line = [&[b'a'; 1023][..], b"\n"].concat();
        for _ in 0..3 * MOST_LOG / line.len() as u64 {
            file.write_all(&line).unwrap();
            log.give_back();
        }
        file.write_all(b"the end\n").unwrap();
        let on_disk = file.metadata().unwrap().blocks() * 512;
        assert!(on_disk < 2 * MOST_LOG, "{on_disk} bytes");
        let said = last_lines(&log.text());
        assert_eq!(said.lines().count(), KEPT_LINES);
        assert!(said.ends_with("a\nthe end"), "{said}");
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_what_it_forked() {
        // A busy machine may end the time before the program has come to anything.
        let limits = [300, 3_000, 30_000].map(Duration::from_millis);
        let said = limits.into_iter().find_map(|limit| {
            let hung = run("sleep 600 & echo $!; wait", limit);
            let how = hung.failed.unwrap();
            assert!(how.starts_with("hung for "), "{how}");
            (!hung.said.is_empty()).then_some(hung.said)
        });
        let forked = said.unwrap().trim().to_owned();
        let there = || {
            let state = std::fs::read_to_string(format!("/proc/{forked}/stat")).unwrap_or_default();
            !state.is_empty() && !state.contains(") Z ")
        };
        // A killed process still needs a CPU to end on.
        let patience = Instant::now() + Duration::from_secs(20);
        while there() {
            assert!(Instant::now() < patience, "{forked} is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
