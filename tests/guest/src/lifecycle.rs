//! The daemon goes and comes; applications stay.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::application::{Application, Runtime, launch};
use crate::daemon::{
    APPS_UNIT, UNIT, app_groups, ensure_running, main_pid, output_of, property, systemctl,
    wait_for_another,
};
use crate::kernel::{self, online_cpus, wait_for};
use crate::users::User;

/// Two applications, one of them a user's, that have got CPUs of their own.
fn pair() -> Result<[Application; 2]> {
    let pair = [
        Application::start("outlives", User::Alice, Runtime::Libgomp, &[])?,
        Application::start("survives", User::Root, Runtime::Libomp, &[])?,
    ];
    wait_for("two disjoint CPU sets", || {
        let (first, second) = (pair[0].cpus()?, pair[1].cpus()?);
        ensure!(first.is_disjoint(&second), "{first} and {second} overlap");
        Ok(())
    })?;
    Ok(pair)
}

fn ensure_both_run(pair: &[Application; 2]) -> Result<()> {
    for application in pair {
        ensure!(application.is_running(), "{} has ended", application.name());
        ensure!(
            kernel::is_running(application.launcher().as_raw().cast_unsigned()),
            "the launcher of {} has ended",
            application.name()
        );
    }
    Ok(())
}

/// The launchers of applications that outlived a daemon still return what their programs do.
fn end_with_exact_status(pair: [Application; 2]) -> Result<()> {
    for application in pair {
        let name = application.name();
        let status = application.end(Signal::SIGTERM)?;
        ensure!(
            status.code() == Some(143),
            "the launcher of {name} returned {status}"
        );
    }
    Ok(())
}

/// A daemon that has come back takes new applications and holds them apart from one another.
fn ensure_new_ones_launch() -> Result<()> {
    let [first, second] = [
        Application::start("new", User::Alice, Runtime::Libgomp, &[])?,
        Application::start("newer", User::Root, Runtime::Libgomp, &[])?,
    ];
    wait_for("new applications to be held apart", || {
        let (first, second) = (first.cpus()?, second.cpus()?);
        ensure!(first.is_disjoint(&second), "{first} and {second} overlap");
        Ok(())
    })
}

/// The groups of applications that an earlier daemon started are removed, with the next launch at
/// the latest.
fn ensure_groups_vanish() -> Result<()> {
    output_of(&mut launch(User::Root, &[], &["true"])?)?;
    wait_for("groups to be removed", || {
        let groups = app_groups()?;
        ensure!(groups.is_empty(), "there still is {groups:?}");
        Ok(())
    })
}

pub(crate) fn daemon_reload_changes_nothing() -> Result<()> {
    let pair = pair()?;
    for command in ["daemon-reload", "daemon-reexec"] {
        let before = [
            kernel::group_of(pair[0].pid)?,
            kernel::group_of(pair[1].pid)?,
        ];
        systemctl(&[command])?;
        ensure_both_run(&pair)?;
        let after = [
            kernel::group_of(pair[0].pid)?,
            kernel::group_of(pair[1].pid)?,
        ];
        ensure!(
            before == after,
            "after {command} groups are {after:?}, not {before:?}"
        );
        let (first, second) = (pair[0].cpus()?, pair[1].cpus()?);
        ensure!(
            first.is_disjoint(&second),
            "after {command} {first} and {second} overlap"
        );
    }
    end_with_exact_status(pair)
}

pub(crate) fn a_stop_gives_all_cpus_back() -> Result<()> {
    let pair = pair()?;
    systemctl(&["stop", UNIT])?;
    ensure_both_run(&pair)?;
    let online = online_cpus()?;
    for application in &pair {
        let cpus = application.cpus()?;
        ensure!(
            cpus == online,
            "{} has {cpus} after the stop, not {online}",
            application.name()
        );
    }
    ensure!(
        property(APPS_UNIT, "ActiveState")? == "active",
        "{APPS_UNIT} stopped with the daemon"
    );
    ensure_running()?;
    ensure_both_run(&pair)?;
    ensure_new_ones_launch()?;
    end_with_exact_status(pair)?;
    ensure_groups_vanish()
}

pub(crate) fn applications_outlive_a_killed_daemon_and_it_comes_back() -> Result<()> {
    let pair = pair()?;
    for _ in 0..3 {
        let daemon = main_pid()?;
        kill(Pid::from_raw(daemon.cast_signed()), Signal::SIGKILL).context("kill the daemon")?;
        wait_for_another(daemon)?;
        ensure_both_run(&pair)?;
        for application in &pair {
            application.cpus()?;
        }
    }
    ensure_new_ones_launch()?;
    end_with_exact_status(pair)?;
    ensure_groups_vanish()
}

pub(crate) fn applications_outlive_a_restart() -> Result<()> {
    let pair = pair()?;
    systemctl(&["restart", UNIT])?;
    ensure_both_run(&pair)?;
    ensure_new_ones_launch()?;
    end_with_exact_status(pair)?;
    ensure_groups_vanish()
}

/// systemd ends a daemon that does not answer its watchdog, and starts it again.
pub(crate) fn a_daemon_that_hangs_is_restarted() -> Result<()> {
    let pair = pair()?;
    let folder = "/run/systemd/system/mapperd.service.d";
    let drop_in = format!("{folder}/watchdog.conf");
    std::fs::create_dir_all(folder).with_context(|| format!("create {folder}"))?;
    std::fs::write(&drop_in, "[Service]\nWatchdogSec=3s\n")
        .with_context(|| format!("write {drop_in}"))?;
    let outcome = hang_under_short_watchdog(&pair);
    std::fs::remove_file(&drop_in).with_context(|| format!("remove {drop_in}"))?;
    systemctl(&["daemon-reload"])?;
    systemctl(&["restart", UNIT])?;
    outcome?;
    end_with_exact_status(pair)
}

fn hang_under_short_watchdog(pair: &[Application; 2]) -> Result<()> {
    systemctl(&["daemon-reload"])?;
    systemctl(&["restart", UNIT])?;
    let daemon = main_pid()?;
    kill(Pid::from_raw(daemon.cast_signed()), Signal::SIGSTOP).context("stop the daemon")?;
    wait_for_another(daemon)?;
    ensure_both_run(pair)
}

pub(crate) fn stopping_the_groups_place_ends_everything() -> Result<()> {
    let pair = pair()?;
    systemctl(&["stop", APPS_UNIT])?;
    wait_for("the applications to end", || {
        for application in &pair {
            ensure!(!application.is_running(), "{} runs on", application.name());
        }
        Ok(())
    })?;
    let state = property(UNIT, "ActiveState")?;
    ensure!(state == "inactive", "{UNIT} is {state}");
    ensure_running()?;
    ensure_new_ones_launch()
}
