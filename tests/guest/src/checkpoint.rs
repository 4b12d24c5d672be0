//! Programs that a checkpointing tool writes to disk while they run, and continues later.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::daemon::{UNIT, app_groups, apps_group, output_of, status_of, systemctl};
use crate::kernel::{self, wait_for};
use crate::users::User;

const SUMS: &str = "/usr/lib/mapper-tests/sums";
const NAME: &str = "saved";

/// How root restores it.
enum Restored {
    /// Into the group in which it was.
    WhereItWas,
    /// As what a launcher starts.
    Launched,
}

pub(crate) fn a_program_that_criu_saves_and_restores_ends_with_its_result() -> Result<()> {
    // What the tool can do at all.
    let mut plain = Saved::start(&mut Command::new(SUMS)).context("plainly")?;
    plain.save_and_continue()?;
    plain.save_and_end()?;
    plain.restore(&Restored::WhereItWas)?;
    plain.ends_right().context("plainly")?;
    for teams in ["fixed", "follow", "virtual", "auto"] {
        let restored = of_an_application(teams, &Restored::Launched);
        restored.with_context(|| format!("--teams {teams}"))?;
    }
    of_an_application("virtual", &Restored::WhereItWas)?;
    // Nobody manages what criu has put into a group by itself. Its group, which is empty by now, is in nobody's way.
    systemctl(&["restart", UNIT])?;
    wait_for("the daemon to remove empty groups", || {
        let left = app_groups()?;
        ensure!(left.is_empty(), "{left:?} are left");
        Ok(())
    })
}

fn of_an_application(teams: &str, restored: &Restored) -> Result<()> {
    let mut saved = Saved::start(&mut launched(&["--teams", teams, "--", SUMS])?)?;
    saved.save_and_continue()?;
    ensure!(status_of(NAME).is_ok(), "saved, and not an application now");
    saved.save_and_end()?;
    wait_for("the application to end", || {
        ensure!(status_of(NAME).is_err(), "it is one still");
        Ok(())
    })?;
    saved.restore(restored)?;
    let group = kernel::group_of(saved.pid)?;
    ensure!(group.starts_with(apps_group()?), "it is in {group:?}");
    if let Restored::Launched = restored {
        status_of(NAME)?;
        kernel::every_thread_obeys(saved.pid)?;
    }
    saved.ends_right()
}

fn launched(words: &[&str]) -> Result<Command> {
    let mut command = User::Root.command("mapper-launch")?;
    command.args(["--name", NAME]).args(words);
    Ok(command)
}

/// A program with what was saved of it.
struct Saved {
    folder: tempfile::TempDir,
    pid: u32,
    /// The program or its launcher; later what has restored it.
    started: Child,
}

impl Drop for Saved {
    fn drop(&mut self) {
        let _ = self.started.kill();
        let _ = self.started.wait();
        if kernel::is_running(self.pid) {
            let pid = nix::unistd::Pid::from_raw(self.pid.cast_signed());
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
    }
}

impl Saved {
    fn start(command: &mut Command) -> Result<Self> {
        let folder = tempfile::tempdir().context("make a folder")?;
        let output = File::create(folder.path().join("output"))?;
        let started = command
            .arg(folder.path().join("end"))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("start the program")?;
        let mut saved = Self {
            folder,
            pid: 0,
            started,
        };
        saved.pid = wait_for("the first sum", || {
            let said = saved.said()?;
            let first = said.lines().next().unwrap_or_default();
            let words: Vec<&str> = first.split_whitespace().collect();
            let ["ready", pid, _] = words[..] else {
                bail!("it said \"{said}\"");
            };
            pid.parse().context("the number of its process")
        })?;
        Ok(saved)
    }

    fn said(&self) -> Result<String> {
        kernel::read(self.folder.path().join("output"))
    }

    fn images(&self) -> Result<PathBuf> {
        let images = self.folder.path().join("images");
        fs::create_dir_all(&images)?;
        Ok(images)
    }

    /// criu's options for a program whose session began outside.
    fn criu<'a>(&self, command: &'a mut Command, action: &str) -> Result<&'a mut Command> {
        let command = command.args([action, "--shell-job", "--images-dir"]);
        Ok(command.arg(self.images()?))
    }

    fn save_and_continue(&self) -> Result<()> {
        let (mut criu, pid) = (Command::new("criu"), self.pid.to_string());
        let command = self.criu(&mut criu, "dump")?;
        output_of(command.args(["--leave-running", "--tree", &pid]))?;
        self.computes()
    }

    /// It computes further sums, and they are right.
    fn computes(&self) -> Result<()> {
        let before = self.said()?.lines().count();
        wait_for("further sums", || {
            let said = self.said()?;
            // One may have been on its way before.
            ensure!(said.lines().count() > before + 1, "it said \"{said}\"");
            Ok(())
        })
    }

    fn save_and_end(&mut self) -> Result<()> {
        let (mut criu, pid) = (Command::new("criu"), self.pid.to_string());
        output_of(self.criu(&mut criu, "dump")?.args(["--tree", &pid]))?;
        self.started.wait().context("wait for its launcher")?;
        ensure!(!kernel::is_running(self.pid), "it runs still");
        Ok(())
    }

    fn restore(&mut self, how: &Restored) -> Result<()> {
        let mut command = match how {
            Restored::WhereItWas => Command::new("criu"),
            Restored::Launched => launched(&["--", "criu"])?,
        };
        let command = self.criu(&mut command, "restore")?;
        if let Restored::Launched = how {
            command.arg("--manage-cgroups=ignore");
        }
        self.started = command.stdin(Stdio::null()).spawn().context("start criu")?;
        wait_for("it to be restored", || {
            let thread = Path::new("/proc").join(self.pid.to_string()).join("comm");
            ensure!(kernel::read(thread)? == "sums", "it is not the program yet");
            Ok(())
        })?;
        self.computes()
    }

    fn ends_right(&mut self) -> Result<()> {
        fs::write(self.folder.path().join("end"), "")?;
        wait_for("its end", || {
            ensure!(!kernel::is_running(self.pid), "it runs still");
            Ok(())
        })?;
        let ended = self.started.wait().context("wait for criu")?;
        let said = self.said()?;
        ensure!(said.ends_with("right"), "{ended}: it said \"{said}\"");
        Ok(())
    }
}
