//! mapper-launch: exit status, signals, and programs of every kind.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;

use crate::application::{Application, Runtime, launch};
use crate::daemon::{app_groups, apps_group};
use crate::kernel::{self, online_cpus, wait_for};
use crate::users::User;

/// Runs a program through mapper-launch to its end.
fn run(options: &[&str], program: &[&str]) -> Result<Output> {
    finish(launch(User::Root, options, program)?.stdin(Stdio::null()))
}

fn finish(command: &mut Command) -> Result<Output> {
    command.output().context("run mapper-launch")
}

/// The launcher itself must not die by the signal that its program died by: its status is reported as
/// a shell does.
fn ensure_status(output: &Output, expected: i32, of: &str) -> Result<()> {
    ensure!(
        output.status.code() == Some(expected),
        "{of}: {}, not {expected}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

pub(crate) fn the_exit_status_is_the_programs() -> Result<()> {
    for status in [0, 1, 42, 255] {
        let script = format!("exit {status}");
        ensure_status(&run(&[], &["sh", "-c", &script])?, status, &script)?;
    }
    Ok(())
}

pub(crate) fn a_programs_death_by_signal_is_reported_as_a_shell_does() -> Result<()> {
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGKILL,
        Signal::SIGSEGV,
    ] {
        let script = format!("kill -{} $$", signal as i32);
        ensure_status(
            &run(&[], &["sh", "-c", &script])?,
            128 + signal as i32,
            &script,
        )?;
    }
    Ok(())
}

pub(crate) fn signals_are_passed_on() -> Result<()> {
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGUSR1,
    ] {
        let application = Application::start("signalled", User::Root, Runtime::Libgomp, &[])?;
        let pid = application.pid;
        let status = application.end(signal)?;
        ensure!(
            status.code() == Some(128 + signal as i32),
            "after {signal} mapper-launch returned {status}"
        );
        ensure!(
            !kernel::is_running(pid),
            "after {signal} the program runs on"
        );
    }
    Ok(())
}

pub(crate) fn a_missing_program_is_127_and_one_that_cannot_run_is_126() -> Result<()> {
    ensure_status(&run(&[], &["/no/such/program"])?, 127, "no such file")?;
    ensure_status(&run(&[], &["no-such-program"])?, 127, "not in PATH")?;
    ensure_status(&run(&[], &["/etc/passwd"])?, 126, "not executable")?;
    ensure_status(&run(&[], &["/etc"])?, 126, "a folder")?;
    Ok(())
}

pub(crate) fn the_launchers_own_failures_are_125() -> Result<()> {
    for (options, what) in [
        (["--qos", "1.5"], "a promise above 1"),
        (["--socket", "/no/such/socket"], "no daemon"),
    ] {
        let output = run(&options, &["true"])?;
        ensure_status(&output, 125, what)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            said.starts_with("mapper-launch: "),
            "{what}: it says \"{said}\""
        );
    }
    Ok(())
}

pub(crate) fn scripts_run() -> Result<()> {
    let script = "/tmp/script";
    std::fs::write(script, "#!/bin/sh\nexit 9\n").context("write a script")?;
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755))
        .context("make a script executable")?;
    ensure_status(&run(&[], &[script])?, 9, script)
}

pub(crate) fn standard_streams_are_left_alone() -> Result<()> {
    let mut command = launch(
        User::Root,
        &[],
        &["sh", "-c", "cat; echo on standard error >&2"],
    )?;
    command.stdin(std::fs::File::open("/etc/hostname").context("open /etc/hostname")?);
    let output = finish(&mut command)?;
    ensure_status(&output, 0, "cat")?;
    let sent = kernel::read("/etc/hostname")?;
    ensure!(
        String::from_utf8_lossy(&output.stdout).trim() == sent,
        "standard output differs"
    );
    ensure!(
        output.stderr == b"on standard error\n",
        "standard error differs"
    );
    Ok(())
}

pub(crate) fn a_program_that_forks_stays_in_its_group() -> Result<()> {
    let script =
        "cat /proc/self/cgroup & (cat /proc/self/cgroup; cat /proc/self/cgroup) & wait; exit 3";
    let output = run(&[], &["sh", "-c", script])?;
    ensure_status(&output, 3, "a script that forks")?;
    let root = apps_group()?
        .display()
        .to_string()
        .replace("/sys/fs/cgroup", "0::");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let groups: Vec<&str> = text.lines().collect();
    ensure!(groups.len() == 3, "three processes said \"{text}\"");
    ensure!(
        groups
            .iter()
            .all(|group| *group == groups[0] && group.starts_with(&root)),
        "processes of one application are in {groups:?}"
    );
    Ok(())
}

pub(crate) fn a_program_may_close_all_descriptors() -> Result<()> {
    ensure_status(&run(&[], &["/usr/lib/mapper-tests/closer"])?, 7, "closer")
}

pub(crate) fn a_set_uid_program_runs_without_the_shim() -> Result<()> {
    let alice = User::Alice.uid()?;
    for (program, expected) in [
        (
            "/usr/lib/mapper-tests/whoami",
            format!("{alice} {alice} shim\n"),
        ),
        (
            "/usr/lib/mapper-tests/whoami-setuid",
            format!("{alice} 0 bare\n"),
        ),
    ] {
        let output = finish(launch(User::Alice, &[], &[program])?.stdin(Stdio::null()))?;
        ensure_status(&output, 0, program)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            said == expected,
            "{program} says \"{said}\", not \"{expected}\""
        );
    }
    Ok(())
}

pub(crate) fn a_program_is_confined_before_its_first_instruction() -> Result<()> {
    let output = run(&["--max-cpus", "2"], &["cat", "/proc/self/status"])?;
    ensure_status(&output, 0, "cat")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let allowed = text
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = kernel::cpu_list(allowed.context("no Cpus_allowed_list")?)?;
    ensure!(
        allowed.len() <= 2,
        "with --max-cpus 2 it started on {allowed}"
    );
    ensure!(
        allowed.is_subset(&online_cpus()?),
        "it started on {allowed}"
    );
    Ok(())
}

pub(crate) fn an_empty_group_is_removed() -> Result<()> {
    ensure_status(&run(&[], &["true"])?, 0, "true")?;
    wait_for("groups to be removed", || {
        let groups = app_groups()?;
        ensure!(groups.is_empty(), "there still is {groups:?}");
        Ok(())
    })
}
