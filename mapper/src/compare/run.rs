//! Runs the programs once, all at the same time, in one setting.

use super::program::{Ended, Program, Promise, Setting};
use anyhow::{Context, bail, ensure};
use mapper_control::Client;
use mapper_control::socket_path::socket_path;
use mapper_model::{AppName, Qos};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
/// How long the end of a program is awaited in the daemon's history.
const AWAITED: Duration = Duration::from_secs(1);
/// Lines of what a program wrote that are shown when it fails.
const SHOWN_LINES: usize = 10;

/// How programs are started under mapper.
#[derive(Clone, Debug)]
pub(crate) struct Launcher {
    executable: PathBuf,
    socket: Option<PathBuf>,
    qos: Option<Qos>,
}

impl Launcher {
    pub(crate) fn new(socket: Option<&Path>, qos: Option<Qos>) -> anyhow::Result<Self> {
        Ok(Self {
            executable: std::env::current_exe().context("find this program's file")?,
            socket: socket.map(Path::to_owned),
            qos,
        })
    }

    /// Sees to it that a daemon runs, and that it starts programs.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let mut nothing = self.managed(&AppName::from_lossy("true"));
        let status = nothing.arg("true").status().context("start mapper")?;
        ensure!(
            status.success(),
            "nothing is compared, as mapper starts no program here"
        );
        Ok(())
    }

    fn managed(&self, name: &AppName) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(["run", "--quiet", "--name", name.as_str()]);
        // Named only where the user did: no daemon is started for a socket that is named.
        if let Some(socket) = &self.socket {
            command.arg("--socket").arg(socket);
        }
        if let Some(qos) = self.qos {
            command.args(["--qos", &qos.get().to_string()]);
        }
        command.arg("--");
        command
    }

    fn command(&self, program: &Program, setting: Setting) -> Command {
        let mut words = program.command.iter();
        let mut command = match setting {
            Setting::Mapper => self.managed(&program.name),
            Setting::Plain | Setting::Passive => {
                Command::new(words.next().map(OsString::as_os_str).unwrap_or_default())
            }
        };
        if setting == Setting::Passive {
            command.env("OMP_WAIT_POLICY", "passive");
        }
        command.args(words);
        command
    }

    /// How the promises of the programs were kept that started at `started` and have ended. Ends are processed
    /// together, so that the daemon may know of one a little later; of a program with children that go on it does not.
    fn promises(&self, programs: &[Program], started: Instant) -> anyhow::Result<Vec<Promise>> {
        let asked = Instant::now();
        loop {
            let history = Client::connect(&socket_path(self.socket.as_deref()), PATIENCE)
                .and_then(|mut client| client.history())
                .context("ask the daemon how the promises were kept")?;
            let span_ns = started.elapsed().as_nanos();
            let of = |program: &Program| {
                let mut ended = history.ended.iter();
                let ended = ended.find(|ended| {
                    ended.name == program.name && u128::from(ended.ended_ago_ns) < span_ns
                })?;
                Some(Promise {
                    judged_intervals: ended.account.judged_intervals,
                    below: ended.account.violations,
                })
            };
            let promises: Vec<_> = programs.iter().map(of).collect();
            if promises.iter().all(Option::is_some) || asked.elapsed() > AWAITED {
                let known = promises.into_iter();
                return Ok(known.map(Option::unwrap_or_default).collect());
            }
            std::thread::sleep(AWAITED / 10);
        }
    }
}

/// Runs all programs at once until the last has ended.
///
/// # Errors
/// Where one cannot be started, or fails.
pub(crate) fn together(
    programs: &[Program],
    setting: Setting,
    launcher: &Launcher,
) -> anyhow::Result<Vec<Ended>> {
    let started = Instant::now();
    let mut running = Vec::new();
    for program in programs {
        let command = launcher.command(program, setting);
        let begun = Running::start(command);
        running.push(begun.with_context(|| format!("start `{}`", program.name))?);
    }
    let ended: Vec<_> = std::thread::scope(|scope| {
        let wait = |running: Running| scope.spawn(move || running.wait(started));
        let waiting: Vec<_> = running.into_iter().map(wait).collect();
        let ended = waiting.into_iter().map(ScopedJoinHandle::join);
        ended
            .map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let promises = match setting {
        Setting::Mapper => launcher.promises(programs, started)?,
        Setting::Plain | Setting::Passive => vec![Promise::default(); programs.len()],
    };
    let all = programs.iter().zip(ended).zip(promises);
    all.map(|((program, exit), promise)| {
        let exit = exit.with_context(|| format!("wait for `{}`", program.name))?;
        if !exit.status.success() {
            bail!(
                "`{}` failed {} ({}), so nothing is compared; it wrote last:\n{}",
                program.name,
                setting.with_preposition(),
                exit.status,
                last_lines(exit.errors).context("read what it wrote")?
            );
        }
        Ok(Ended {
            after: exit.after,
            output: exit.output,
            promise,
        })
    })
    .collect()
}

/// A program that was started. It is ended when nobody waits for it any more.
#[derive(Debug)]
struct Running {
    child: Child,
    output: File,
    errors: File,
}

struct Exit {
    status: ExitStatus,
    after: Duration,
    output: File,
    errors: File,
}

impl Running {
    fn start(mut command: Command) -> io::Result<Self> {
        // Without names, so that they are gone however this program ends.
        let (output, errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null());
        command
            .stdout(output.try_clone()?)
            .stderr(errors.try_clone()?);
        // SAFETY: the closure makes one system call, and neither allocates nor locks.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
        }
        Ok(Self {
            child: command.spawn()?,
            output,
            errors,
        })
    }

    fn wait(mut self, started: Instant) -> io::Result<Exit> {
        let status = self.child.wait()?;
        Ok(Exit {
            status,
            after: started.elapsed(),
            output: self.output.try_clone()?,
            errors: self.errors.try_clone()?,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let (Ok(None), Some(pid)) = (
            self.child.try_wait(),
            Pid::from_raw(self.child.id().cast_signed()),
        ) {
            // Both fail only for a process that has ended.
            let _ = kill_process(pid, Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

fn last_lines(mut file: File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_what_a_failed_program_wrote_are_kept() {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        for n in 0..20 {
            writeln!(file, "line {n}").unwrap();
        }
        let lines = last_lines(file).unwrap();
        assert!(
            lines.starts_with("line 10\n") && lines.ends_with("line 19"),
            "{lines}"
        );
    }
}
