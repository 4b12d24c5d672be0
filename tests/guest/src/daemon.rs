//! The daemon as systemd runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::kernel::{self, wait_for};

/// The daemon's unit.
pub(crate) const UNIT: &str = "mapperd.service";

/// The unit whose control group holds the applications' groups.
pub(crate) const APPS_UNIT: &str = "mapper-apps.service";

/// Runs a command to its end and returns what it printed; it must succeed.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("run {name}"))?;
    ensure!(
        output.status.success(),
        "{name} {:?} failed ({}): {}",
        command.get_args().collect::<Vec<_>>(),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs systemctl.
pub(crate) fn systemctl(arguments: &[&str]) -> Result<String> {
    output_of(Command::new("systemctl").args(arguments))
}

/// A property of a unit.
pub(crate) fn property(unit: &str, name: &str) -> Result<String> {
    Ok(systemctl(&["show", "--value", "--property", name, unit])?
        .trim()
        .to_owned())
}

/// The daemon's process.
pub(crate) fn main_pid() -> Result<u32> {
    let text = property(UNIT, "MainPID")?;
    let pid = text
        .parse()
        .with_context(|| format!("MainPID \"{text}\""))?;
    ensure!(pid != 0, "{UNIT} has no process");
    Ok(pid)
}

/// The control group below which the applications have theirs.
pub(crate) fn apps_group() -> Result<PathBuf> {
    let group = property(APPS_UNIT, "ControlGroup")?;
    ensure!(!group.is_empty(), "{APPS_UNIT} has no control group");
    Ok(Path::new("/sys/fs/cgroup").join(group.trim_start_matches('/')))
}

/// The applications' groups.
pub(crate) fn app_groups() -> Result<Vec<PathBuf>> {
    let mut groups = kernel::groups_below(&apps_group()?)?;
    groups.retain(|group| group.file_name().is_some_and(|name| name != "anchor"));
    Ok(groups)
}

/// Starts the daemon if it does not run, and waits while systemd restarts it.
pub(crate) fn ensure_running() -> Result<()> {
    systemctl(&["start", UNIT])?;
    Ok(())
}

/// Waits until another process than `old` is the daemon, and is ready.
pub(crate) fn wait_for_another(old: u32) -> Result<u32> {
    wait_for("the daemon to come back", || {
        let state = property(UNIT, "ActiveState")?;
        ensure!(state == "active", "{UNIT} is {state}");
        let pid = main_pid()?;
        ensure!(pid != old, "{UNIT} still runs as {pid}");
        Ok(pid)
    })
}

/// What `mapperctl status --json` tells.
pub(crate) fn status() -> Result<Value> {
    let text = output_of(Command::new("mapperctl").args(["status", "--json"]))?;
    serde_json::from_str(&text).with_context(|| format!("mapperctl status --json: {text}"))
}

/// What the status tells of one application.
pub(crate) fn status_of(name: &str) -> Result<Value> {
    let status = status()?;
    let apps = status["apps"]
        .as_array()
        .context("status has no list of applications")?;
    let app = apps.iter().find(|app| app["name"] == name);
    app.cloned()
        .with_context(|| format!("status does not list {name}: {status}"))
}

/// The last lines that the daemon wrote, for the report of a failure.
pub(crate) fn journal_tail() -> Vec<String> {
    let journal = output_of(Command::new("journalctl").args([
        "--no-pager",
        "--lines=15",
        "--output=cat",
        "--unit",
        UNIT,
        "--unit",
        APPS_UNIT,
    ]));
    journal
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}
