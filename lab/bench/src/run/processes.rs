//! Starts programs at set times, waits for them and ends those that take too long.
//!
//! Each program is watched by a thread of its own, which first takes the affinity that the
//! program shall have (a child inherits it), starts the program in a process group of its own and
//! waits on its pidfd. A program that is still there at the deadline is ended through its process
//! group; because it is reaped only afterwards, the group cannot have come to mean another one.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mapper_report::interrupt::Interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use rustix::thread::CpuSet;

/// How long a program gets to end after it was asked to.
const GRACE: Duration = Duration::from_secs(1);

/// The name of the file for what a program prints, in the folder where it runs.
pub(crate) const PRINTED: &str = "printed";

/// How often a waiting thread looks whether the user wants to stop.
const GLANCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

pub(crate) struct Launch {
    pub(crate) command: Command,
    /// The CPUs it is confined to; those of this task when none are given.
    pub(crate) cpus: Option<Vec<usize>>,
    pub(crate) delay: Duration,
    /// The file that its output goes to; one without a name when none is given.
    pub(crate) printed: Option<PathBuf>,
}

impl Launch {
    /// Has it run in this folder, and keep there what it prints.
    pub(crate) fn run_in(&mut self, folder: &Path) {
        self.command.current_dir(folder);
        self.printed = Some(folder.join(PRINTED));
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    Exited(i32),
    Signalled(i32),
    TimedOut,
}

#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// From its start to its end, or the time limit.
    pub(crate) elapsed: Duration,
    pub(crate) ending: Ending,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs all of them, each `delay` after a common start, and gives their outcomes in order.
pub(crate) fn run_side_by_side(
    launches: Vec<Launch>,
    limit: Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<Vec<Outcome>> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let watch = |launch| scope.spawn(move || run_one(launch, start, limit, interrupt));
        let watchers: Vec<_> = launches.into_iter().map(watch).collect();
        let ended = watchers.into_iter().map(ScopedJoinHandle::join);
        let outcome = |ended: Result<_, _>| ended.unwrap_or_else(|of| resume_unwind(of));
        ended.map(outcome).collect()
    })
}

fn run_one(
    mut launch: Launch,
    start: Instant,
    limit: Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    if let Some(cpus) = &launch.cpus {
        confine_this_thread(cpus)?;
    }
    std::thread::sleep((start + launch.delay).saturating_duration_since(Instant::now()));
    interrupt.check()?;

    let file = || tempfile::tempfile().context("make a file for a program's output");
    let stdout = match &launch.printed {
        Some(path) => {
            let mut options = fs_err::OpenOptions::new();
            let file = options.read(true).write(true).create_new(true).open(path)?;
            file.into_parts().0
        }
        None => file()?,
    };
    let stderr = file()?;
    let command = launch.command.stdin(Stdio::null()).process_group(0);
    command.stdout(stdout.try_clone()?);
    command.stderr(stderr.try_clone()?);
    forget_inherited_settings(command);

    let begun = Instant::now();
    let program = Path::new(command.get_program()).display().to_string();
    let child = command.spawn();
    let mut child = child.with_context(|| format!("start {program}"))?;
    let waited = wait_for(&child, begun + limit, interrupt);
    let elapsed = begun.elapsed();
    let status = end_group(&mut child)?;
    let ending = match (waited?, status.code()) {
        (false, _) => {
            interrupt.check()?;
            Ending::TimedOut
        }
        (true, Some(code)) => Ending::Exited(code),
        (true, None) => Ending::Signalled(status.signal().unwrap_or(0)),
    };
    Ok(Outcome {
        elapsed: elapsed.min(limit),
        ending,
        stdout: contents(stdout)?,
        stderr: contents(stderr)?,
    })
}

/// Takes the settings of OpenMP runtimes, of BLAS and of mapper that this task has inherited, and that
/// would falsify the comparison, out of the environment of a program. What was set for the
/// program on purpose stays.
fn forget_inherited_settings(command: &mut Command) {
    let prefixes = [
        "OMP_",
        "GOMP_",
        "KMP_",
        "LIBOMP_",
        "MAPPER_",
        "OPENBLAS_",
        "MKL_",
    ];
    for name in std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
        let matters = prefixes.iter().any(|prefix| name.starts_with(prefix));
        let is_chosen = command.get_envs().any(|(chosen, _)| chosen == &*name);
        if matters && !is_chosen {
            command.env_remove(name);
        }
    }
}

/// Confines the calling thread, and what it starts, to these CPUs.
fn confine_this_thread(cpus: &[usize]) -> anyhow::Result<()> {
    let (mut set, most) = (CpuSet::new(), CpuSet::MAX_CPU);
    for &cpu in cpus {
        let is_known = cpu < most;
        ensure!(
            is_known,
            "CPU {cpu} is beyond the {most} that can be chosen from"
        );
        set.set(cpu);
    }
    let confined = rustix::thread::sched_setaffinity(None, &set);
    confined.with_context(|| format!("confine a program to the CPUs {cpus:?}"))
}

/// The CPUs this task may use, in ascending order.
pub(crate) fn allowed_cpus() -> anyhow::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None).context("ask for the allowed CPUs")?;
    let all = 0..CpuSet::MAX_CPU;
    Ok(all.filter(|&cpu| set.is_set(cpu)).collect())
}

/// Waits for a program to end; no once the deadline has passed or the user wants to stop.
fn wait_for(child: &Child, deadline: Instant, interrupt: &Interrupt) -> anyhow::Result<bool> {
    let pidfd = pidfd_open(pid_of(child)?, PidfdFlags::empty()).context("open a pidfd")?;
    while !interrupt.is_raised() && Instant::now() < deadline {
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&GLANCE)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error).context("wait for a program"),
        }
    }
    Ok(false)
}

/// Ends whatever is left of a program's process group and reaps its leader.
fn end_group(child: &mut Child) -> anyhow::Result<ExitStatus> {
    let group = pid_of(child)?;
    // The leader has not been reaped, so its id still names this group and no other. The group
    // may be empty already, which is an error here and no matter.
    let _ = kill_process_group(group, Signal::TERM);
    // What cannot be waited for is ended and reaped all the same.
    let _ = wait_for(child, Instant::now() + GRACE, &Interrupt::default());
    let _ = kill_process_group(group, Signal::KILL);
    child.wait().context("reap a program")
}

/// Sends SIGTERM to a child that has not been reaped, so its id is its own; a launcher passes it on.
pub(crate) fn terminate(child: &Child) {
    let _ = pid_of(child).map(|pid| kill_process(pid, Signal::TERM));
}

/// A program that is ended when dropped.
pub(crate) struct EndedOnDrop(pub(crate) Child);

impl Drop for EndedOnDrop {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            terminate(&self.0);
        }
        let _ = self.0.wait();
    }
}

/// The process id of a child that has not been reaped.
fn pid_of(child: &Child) -> anyhow::Result<Pid> {
    let pid = Pid::from_raw(child.id().cast_signed());
    pid.with_context(|| format!("{} is no process id", child.id()))
}

fn contents(mut file: File) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.context("read a program's output")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::Ending::{Exited, Signalled};
    use super::*;
    use std::time::SystemTime;

    fn shell(script: &str) -> Launch {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Launch {
            command,
            cpus: None,
            delay: Duration::ZERO,
            printed: None,
        }
    }

    fn run(launch: Launch, limit: Duration) -> Outcome {
        let outcomes = run_side_by_side(vec![launch], limit, &Interrupt::default());
        outcomes.unwrap().remove(0)
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn output_and_ending_are_those_of_the_program_and_what_it_was_given_reaches_it() {
        let cpu = *allowed_cpus().unwrap().last().unwrap();
        let mut confined = shell("grep Cpus_allowed_list /proc/self/status | cut -f2");
        confined.cpus = Some(vec![cpu]);
        let mut chosen = shell("echo $OMP_NUM_THREADS");
        chosen.command.env("OMP_NUM_THREADS", "7");
        for (launch, ending, stdout, stderr) in [
            (shell("echo o; echo e >&2; exit 3"), Exited(3), "o\n", "e\n"),
            (shell("kill -SEGV $$"), Signalled(11), "", ""),
            (confined, Exited(0), &*format!("{cpu}\n"), ""),
            (chosen, Exited(0), "7\n", ""),
        ] {
            let found = run(launch, LONG);
            let said = (&*found.stdout, &*found.stderr);
            assert_eq!((found.ending, said), (ending, (stdout, stderr)));
        }
    }

    #[test]
    fn a_program_beyond_its_limit_is_ended_with_all_it_started() {
        // A busy machine may end the time before the program has come to anything.
        let limits = [200, 2_000, 20_000].map(Duration::from_millis);
        let outcome = limits.into_iter().find_map(|limit| {
            let stubborn = shell("trap '' TERM; sleep 60 & echo $!; wait; wait");
            let outcome = run(stubborn, limit);
            assert_eq!(outcome.ending, Ending::TimedOut);
            assert_eq!(outcome.elapsed, limit);
            (!outcome.stdout.is_empty()).then_some(outcome)
        });
        let left: i32 = outcome.unwrap().stdout.trim().parse().unwrap();
        // Killed it is by now; how long a busy machine takes to let it die is the machine's matter.
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            let stat = std::fs::read_to_string(format!("/proc/{left}/stat")).unwrap_or_default();
            let state = stat.rsplit(") ").next().unwrap_or_default();
            if state.is_empty() || state.starts_with(['Z', 'X']) {
                break;
            }
            assert!(Instant::now() < patience, "still there: {stat}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_late_program_starts_after_its_delay() {
        let delay = Duration::from_millis(150);
        let mut late = shell("date +%s%N");
        late.delay = delay;
        let begun = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let both = vec![shell("true"), late];
        let outcomes = run_side_by_side(both, LONG, &Interrupt::default()).unwrap();
        let started = Duration::from_nanos(outcomes[1].stdout.trim().parse().unwrap());
        assert!(started >= begun + delay, "{begun:?} {started:?}");
        assert!(outcomes.iter().all(|outcome| outcome.elapsed < LONG));
    }

    #[test]
    fn an_interrupt_ends_what_was_started_and_a_program_that_is_not_there_is_named() {
        let interrupt = Interrupt::default();
        interrupt.raise();
        let error = run_side_by_side(vec![shell("sleep 60")], LONG, &interrupt).unwrap_err();
        assert_eq!(error.to_string(), "interrupted");
        let mut launch = shell("");
        launch.command = Command::new("/nonexistent/program");
        let error = run_side_by_side(vec![launch], LONG, &Interrupt::default()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("/nonexistent/program"), "{error}");
    }
}
