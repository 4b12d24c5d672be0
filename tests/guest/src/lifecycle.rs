//! The daemon goes and comes; applications stay.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::application::{Application, Runtime, launch};
use crate::daemon::{
    APPS_UNIT, UNIT, app_groups, ensure_running, main_pid, output_of, property, status, status_of,
    systemctl, wait_for_another,
};
use crate::drop_in::DropIn;
use crate::kernel::{self, online_cpus, wait_for};
use crate::users::User;

/// Two applications, one of them a user's, that have got CPUs of their own.
fn pair() -> Result<[Application; 2]> {
    pair_with(&[])
}

/// The same with options of mapper-launch.
fn pair_with(options: &[&str]) -> Result<[Application; 2]> {
    let pair = [
        Application::start("outlives", User::Alice, Runtime::Libgomp, options)?,
        Application::start("survives", User::Root, Runtime::Libomp, options)?,
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

/// After a crash and after a stop: promise, CPUs, history and page are as before.
pub(crate) fn the_next_daemon_takes_running_applications_over() -> Result<()> {
    let pair = [
        Application::start("kept", User::Alice, Runtime::Libgomp, &["--qos", "0.7"])?,
        Application::start("held", User::Root, Runtime::Libomp, &["--max-cpus", "3"])?,
    ];
    wait_for("both runtimes to attach", || {
        for application in &pair {
            ensure_attached(application.name())?;
        }
        Ok(())
    })?;
    let group = kernel::group_of(pair[0].pid)?;
    for way in ["crash", "restart"] {
        let daemon = main_pid()?;
        if way == "crash" {
            kill(Pid::from_raw(daemon.cast_signed()), Signal::SIGKILL)
                .context("kill the daemon")?;
            wait_for_another(daemon)?;
        } else {
            systemctl(&["restart", UNIT])?;
        }
        wait_for("the applications to be known", || {
            let kept = status_of("kept")?;
            ensure!(
                kept["qos"] == 0.7,
                "after a {way} its promise is {}",
                kept["qos"]
            );
            ensure!(
                kept["command"].as_str().is_some_and(|c| c.contains("tick")),
                "command {}",
                kept["command"]
            );
            let held = status_of("held")?;
            ensure!(held["max_cpus"] == 3, "at most {}", held["max_cpus"]);
            // The page is the one that the program reports to.
            ensure_attached("kept")?;
            ensure_attached("held")
        })
        .with_context(|| format!("after a {way}"))?;
        ensure!(
            kernel::group_of(pair[0].pid)? == group,
            "its group is another"
        );
        let (first, second) = (pair[0].cpus()?, pair[1].cpus()?);
        ensure!(
            first.is_disjoint(&second) && second.len() <= 3,
            "after a {way}: {first} and {second}"
        );
        ensure_both_run(&pair)?;
    }
    end_with_exact_status(pair)?;
    wait_for("groups to be removed", || {
        let groups = app_groups()?;
        ensure!(groups.is_empty(), "there still is {groups:?}");
        Ok(())
    })
}

fn ensure_attached(name: &str) -> Result<()> {
    let state = status_of(name)?["runtime"]["state"].clone();
    ensure!(state == "attached", "the runtime of {name} is {state}");
    Ok(())
}

pub(crate) fn a_reload_takes_the_configuration_over_and_an_error_is_reported() -> Result<()> {
    let file = "/etc/mapper/mapper.toml";
    let write = |text: &str| {
        std::fs::create_dir_all("/etc/mapper")
            .and_then(|()| std::fs::write(file, text))
            .with_context(|| format!("write {file}"))
    };
    let shipped = std::fs::read_to_string(file).unwrap_or_default();
    let running = Application::start("steady", User::Alice, Runtime::Libgomp, &[])?;
    let before = running.cpus()?;
    let outcome = (|| {
        write("interval = \"500ms\"\n")?;
        systemctl(&["reload", UNIT])?;
        let interval = status()?["daemon"]["interval_ns"].clone();
        ensure!(interval == 500_000_000, "the interval is {interval} ns");
        write("interval = \"2s\"\nintervall = 3\n")?;
        let error = match systemctl(&["reload", UNIT]) {
            Ok(_) => anyhow::bail!("a file with an error was taken over"),
            Err(_) => output_of(Command::new("journalctl").args([
                "--no-pager",
                "--output=cat",
                "--lines=20",
                "--unit",
                UNIT,
            ]))?,
        };
        ensure!(
            error.contains("line 2") && error.contains("intervall"),
            "the error is not reported: {error}"
        );
        let interval = status()?["daemon"]["interval_ns"].clone();
        ensure!(interval == 500_000_000, "the interval is {interval} ns");
        Ok(())
    })();
    write(&shipped)?;
    systemctl(&["reload", UNIT])?;
    outcome?;
    ensure!(running.cpus()? == before, "the reload changed its CPUs");
    running.end(Signal::SIGTERM)?;
    Ok(())
}

pub(crate) fn applications_survive_a_damaged_state() -> Result<()> {
    // What the policy found out is lost with the state, and with it what it did because of that.
    let pair = pair_with(&["--no-resize"])?;
    let cpus = [pair[0].cpus()?, pair[1].cpus()?];
    let daemon = main_pid()?;
    // Stopped first, so that it writes no more.
    kill(Pid::from_raw(daemon.cast_signed()), Signal::SIGSTOP).context("stop the daemon")?;
    let file = "/var/lib/mapper/state.json";
    std::fs::write(file, "{\"version\":1,").with_context(|| format!("write {file}"))?;
    kill(Pid::from_raw(daemon.cast_signed()), Signal::SIGKILL).context("kill the daemon")?;
    wait_for_another(daemon)?;
    ensure_both_run(&pair)?;
    ensure!(
        std::path::Path::new(&format!("{file}.damaged")).exists(),
        "the damaged file is not set aside"
    );
    let journal = output_of(Command::new("journalctl").args([
        "--no-pager",
        "--output=cat",
        "--lines=50",
        "--unit",
        UNIT,
    ]))?;
    ensure!(journal.contains("set aside"), "not said: {journal}");
    // They are under management all the same, and nobody was moved.
    let apps = status()?["apps"].as_array().map_or(0, Vec::len);
    ensure!(apps == 2, "{apps} applications are known");
    let now = [pair[0].cpus()?, pair[1].cpus()?];
    ensure!(now[0].is_disjoint(&now[1]), "{now:?} overlap");
    ensure!(now == cpus, "{cpus:?} became {now:?}");
    end_with_exact_status(pair)?;
    wait_for("groups to be removed", || {
        let groups = app_groups()?;
        ensure!(groups.is_empty(), "there still is {groups:?}");
        Ok(())
    })
}

/// systemd ends a daemon that does not answer its watchdog, and starts it again.
pub(crate) fn a_daemon_that_hangs_is_restarted() -> Result<()> {
    let pair = pair()?;
    let drop_in = DropIn::install("watchdog.conf", "[Service]\nWatchdogSec=3s\n")?;
    let daemon = main_pid()?;
    kill(Pid::from_raw(daemon.cast_signed()), Signal::SIGSTOP).context("stop the daemon")?;
    wait_for_another(daemon)?;
    ensure_both_run(&pair)?;
    drop(drop_in);
    end_with_exact_status(pair)
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
