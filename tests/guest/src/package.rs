//! The package comes, is replaced by the next and goes.
//!
//! The machine has it installed when the tests begin; before that a list was made of the files there were.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;

use crate::application::{Application, Runtime, launch};
use crate::daemon::{
    APPS_UNIT, UNIT, main_pid, output_of, property, status_of, systemctl, wait_for_another,
};
use crate::kernel::{self, online_cpus, wait_for};
use crate::users::User;

/// The package with the next revision, where the payload has it.
const NEXT: &str = "/payload/packages/next.deb";

/// The files that were there before the package: a line each.
const FILES_BEFORE: &str = "/payload/files-before";

/// What makes that list.
const LIST_FILES: &str = "/payload/list-files.sh";

fn dpkg(arguments: &[&str]) -> Result<String> {
    output_of(Command::new("dpkg").args(arguments))
}

fn installed_version() -> Result<String> {
    let format = "--showformat=${Version} ${db:Status-Status}";
    output_of(Command::new("dpkg-query").args(["--show", format, "mapper"]))
}

/// Two applications on CPUs of their own.
fn pair() -> Result<[Application; 2]> {
    let pair = [
        Application::start("before", User::Alice, Runtime::Libgomp, &["--qos", "0.7"])?,
        Application::start("beside", User::Root, Runtime::Libomp, &[])?,
    ];
    ensure_apart(&pair)?;
    Ok(pair)
}

fn ensure_apart(pair: &[Application; 2]) -> Result<()> {
    wait_for("two disjoint CPU sets", || {
        let (first, second) = (pair[0].cpus()?, pair[1].cpus()?);
        ensure!(first.is_disjoint(&second), "{first} and {second} overlap");
        Ok(())
    })
}

fn ensure_both_run(pair: &[Application; 2]) -> Result<()> {
    for application in pair {
        ensure!(application.is_running(), "{} has ended", application.name());
    }
    Ok(())
}

/// Upgraded under two applications: the daemon is another one, it knows both, the operator's configuration
/// stays, and manual pages and completions are where they are looked for.
pub(crate) fn an_upgrade_ends_no_application_and_keeps_the_configuration() -> Result<()> {
    let file = "/etc/mapper/mapper.toml";
    let shipped = std::fs::read_to_string(file).with_context(|| format!("read {file}"))?;
    let mine = format!("interval = \"700ms\"\n{shipped}");
    std::fs::write(file, &mine).with_context(|| format!("write {file}"))?;
    let version = installed_version()?;
    let pair = pair()?;
    let daemon = main_pid()?;
    let place = main_process(APPS_UNIT)?;
    dpkg(&["--install", NEXT])?;
    wait_for_another(daemon)?;
    let upgraded = installed_version()?;
    ensure!(
        upgraded != version && upgraded.ends_with(" installed"),
        "{version} became {upgraded}"
    );
    ensure_both_run(&pair)?;
    ensure!(
        main_process(APPS_UNIT)? == place,
        "{APPS_UNIT} was restarted"
    );
    let known = status_of("before")?;
    ensure!(known["qos"] == 0.7, "its promise is {}", known["qos"]);
    ensure_apart(&pair)?;
    let kept = std::fs::read_to_string(file).with_context(|| format!("read {file}"))?;
    ensure!(kept == mine, "{file} was changed: {kept}");
    for path in [
        "/usr/share/man/man8/mapperd.8.gz",
        "/usr/share/bash-completion/completions/mapperctl",
        "/usr/share/doc/mapper/changelog.Debian.gz",
    ] {
        let listed = dpkg(&["--listfiles", "mapper"])?;
        ensure!(listed.lines().any(|line| line == path), "{path} is missing");
    }
    ensure!(
        systemctl(&["is-enabled", UNIT])?.trim() == "enabled",
        "{UNIT} is not enabled"
    );
    std::fs::write(file, shipped).with_context(|| format!("write {file}"))?;
    for application in pair {
        application.end(Signal::SIGTERM)?;
    }
    Ok(())
}

fn main_process(unit: &str) -> Result<String> {
    property(unit, "MainPID")
}

/// Removed under two applications: they run on with all CPUs. Purged when they have ended: no file, process,
/// unit or control group is left.
pub(crate) fn removed_it_ends_no_application_and_purged_it_leaves_nothing() -> Result<()> {
    let pair = pair()?;
    dpkg(&["--remove", "mapper"])?;
    ensure_both_run(&pair)?;
    let online = online_cpus()?;
    for application in &pair {
        // Without the unit's file systemd takes the cpuset controller away: threads tell, not groups.
        for cpus in kernel::thread_affinities(application.pid)? {
            ensure!(cpus == online, "{} has {cpus}", application.name());
        }
    }
    for application in pair {
        let name = application.name();
        let status = application.end(Signal::SIGTERM)?;
        ensure!(status.code() == Some(143), "{name} returned {status}");
    }
    // What the package says to do then.
    systemctl(&["stop", APPS_UNIT])?;

    dpkg(&["--install", NEXT])?;
    output_of(&mut launch(User::Alice, &[], &["true"])?)?;
    dpkg(&["--purge", "mapper"])?;
    for unit in [UNIT, APPS_UNIT] {
        let state = property(unit, "ActiveState")?;
        ensure!(state == "inactive", "{unit} is {state}");
    }
    for path in [
        "/run/mapper",
        "/sys/fs/cgroup/mapper.slice/mapper-apps.service",
    ] {
        ensure!(!Path::new(path).exists(), "{path} is left");
    }
    ensure!(processes_named("mapperd")?.is_empty(), "mapperd still runs");
    let list = output_of(Command::new("sh").arg(LIST_FILES))?;
    let before = kernel::read(FILES_BEFORE)?;
    let before: BTreeSet<&str> = before.lines().map(str::trim).collect();
    let left: Vec<&str> = list
        .lines()
        .filter(|path| !before.contains(path.trim()))
        .collect();
    if !left.is_empty() {
        bail!("left over: {}", left.join(", "));
    }
    Ok(())
}

fn processes_named(name: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").context("read /proc")? {
        let path = entry.context("read /proc")?.path();
        if std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name) {
            found.push(path);
        }
    }
    Ok(found)
}
