//! Containers that podman starts, adopted by a rule or as their device says.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::adopt_rules::Rules;
use crate::adopting::kill_daemon;
use crate::daemon::{main_pid, output_of, status, status_of};
use crate::drop_in::DropIn;
use crate::kernel::{effective_cpus, every_thread_obeys, group_of, online_cpus, wait_for};
use crate::users::User;

const BOOK: &str = include_str!("../../../docs/book/src/operate/containers.md");

/// What the package has for runtimes, and where they look for it.
const SHIPPED: &str = "/usr/share/mapper/cdi.json";
const DEVICES: &str = "/etc/cdi";

/// A container with the programs of this system, and nothing else of it. It ends with this.
struct Container {
    name: &'static str,
    root: tempfile::TempDir,
}

fn podman(arguments: &[&str]) -> Result<String> {
    let mut podman = User::Root.command("podman")?;
    podman.arg("--cgroup-manager=systemd").args(arguments);
    Ok(output_of(&mut podman)?.trim().to_owned())
}

impl Container {
    fn start(name: &'static str, options: &[&str]) -> Result<Self> {
        let root = tempfile::tempdir().context("make a folder")?;
        for folder in ["usr", "proc", "sys", "dev", "tmp", "etc", "run"] {
            fs::create_dir(root.path().join(folder))?;
        }
        for folder in ["bin", "lib", "lib64"] {
            symlink(format!("usr/{folder}"), root.path().join(folder))?;
        }
        let container = Self { name, root };
        let place = container.root.path().to_str().context("its path")?;
        let words = ["run", "--detach", "--name", name, "--network=none"];
        let program = ["--volume=/usr:/usr:ro", "--rootfs", place];
        let tick = ["/usr/lib/mapper-tests/tick-libgomp"];
        podman(&[&words[..], options, &program, &tick].concat())?;
        Ok(container)
    }

    fn pid(&self) -> Result<u32> {
        let pid = podman(&["inspect", "--format={{.State.Pid}}", self.name])?;
        pid.parse().with_context(|| format!("process \"{pid}\""))
    }

    /// Waits until it is managed.
    fn adopted(&self) -> Result<PathBuf> {
        let group = group_of(self.pid()?)?;
        let below = group.strip_prefix("/sys/fs/cgroup")?;
        let path = Path::new("/").join(below);
        wait_for("its adoption", || {
            let status = status()?;
            let apps = status["apps"].as_array().context("no applications")?;
            let path = path.to_str().context("its path")?;
            let app = apps.iter().find(|app| app["adopted"]["cgroup"] == path);
            let app = app.with_context(|| format!("no {path}: {status}"))?;
            ensure!(app["qos"] == 0.8, "{app}");
            Ok(())
        })?;
        Ok(group)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = podman(&["rm", "--force", "--time=0", self.name]);
    }
}

pub(crate) fn containers_have_cpus_of_their_own_until_they_end() -> Result<()> {
    let _allowed = DropIn::for_adopting()?;
    let _rules = Rules::of_book(BOOK)?;
    let (one, other) = (
        Container::start("one", &[])?,
        Container::start("other", &[])?,
    );
    let (first, second) = (one.adopted()?, other.adopted()?);
    let apart = || {
        let (mine, theirs) = (effective_cpus(&first)?, effective_cpus(&second)?);
        ensure!(mine.is_disjoint(&theirs), "{mine} and {theirs} overlap");
        Ok(())
    };
    wait_for("CPUs of their own", apart)?;
    every_thread_obeys(one.pid()?)?;
    kill_daemon()?;
    wait_for("CPUs of their own under the next daemon", apart)?;
    podman(&["restart", "--time=0", "other"])?;
    let second = other.adopted()?;
    wait_for("CPUs of its own after its restart", || {
        let (mine, theirs) = (effective_cpus(&first)?, effective_cpus(&second)?);
        ensure!(mine.is_disjoint(&theirs), "{mine} and {theirs} overlap");
        Ok(())
    })?;
    podman(&["kill", "other"])?;
    let all = online_cpus()?;
    wait_for("all CPUs", || {
        let cpus = effective_cpus(&first)?;
        ensure!(cpus == all, "it has {cpus} of {all}");
        Ok(())
    })?;
    drop((one, other));
    wait_for("nothing to be left over", || {
        let status = status()?;
        ensure!(
            status["apps"].as_array().is_some_and(Vec::is_empty),
            "{status}"
        );
        Ok(())
    })
}

pub(crate) fn a_container_is_given_its_promise_as_a_device() -> Result<()> {
    let begun = |promise: &str| {
        let device = format!("--device=mapper.dev/promise={promise}");
        let container = Container::start("promised", &[&device])?;
        let number = podman(&["ps", "--format={{.ID}}"])?;
        Ok::<_, anyhow::Error>((container, number))
    };
    let logged = || output_of(Command::new("journalctl").args(["--no-pager", "-t", "mapper"]));
    fs::create_dir_all(DEVICES)?;
    fs::copy(SHIPPED, Path::new(DEVICES).join("mapper.json"))?;
    let checked = || {
        // As the package has it installed the daemon adopts nothing.
        let (container, number) = begun("0.75")?;
        ensure!(status_of(&number).is_err(), "adopted without the drop-in");
        let said = logged()?;
        ensure!(said.contains("adopt.conf"), "the log says {said}");
        drop(container);
        let _allowed = DropIn::for_adopting()?;
        let (container, number) = begun("0.75")?;
        let status = status_of(&number)?;
        ensure!(status["qos"] == 0.75, "{status}");
        every_thread_obeys(container.pid()?)?;
        drop(container);
        wait_for("its end", || {
            ensure!(status_of(&number).is_err(), "it is managed still");
            Ok(())
        })?;
        // A daemon that does not answer keeps no container from starting.
        let daemon = Pid::from_raw(main_pid()?.cast_signed());
        kill(daemon, Signal::SIGSTOP)?;
        let begun = begun("0.75");
        let _ = kill(daemon, Signal::SIGCONT);
        let (_container, number) = begun?;
        let said = logged()?;
        ensure!(said.contains(&number), "the log says {said}");
        Ok(())
    };
    let checked = checked();
    fs::remove_dir_all(DEVICES)?;
    checked
}
