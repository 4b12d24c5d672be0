//! What changes around the applications: CPUs, limits, sets written by others.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mapper_model::CpuSet;
use nix::sys::signal::Signal;

use crate::application::{Application, Runtime, launch};
use crate::daemon::{APPS_UNIT, app_groups, apps_group, output_of, status, status_of, systemctl};
use crate::kernel::{self, online_cpus, wait_for};
use crate::users::User;

fn set_online(cpu: u32, online: bool) -> Result<()> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    fs::write(&file, if online { "1" } else { "0" }).with_context(|| format!("write {file}"))
}

fn usable() -> Result<CpuSet> {
    let status = status()?;
    let text = status["topology"]["usable"].as_str();
    text.context("status tells no usable CPUs")?
        .parse()
        .context("usable CPUs")
}

/// Two applications that hold all CPUs between them.
fn pair() -> Result<[Application; 2]> {
    Ok([
        Application::start("left", User::Alice, Runtime::Libgomp, &[])?,
        Application::start("right", User::Root, Runtime::Libomp, &[])?,
    ])
}

/// Each has CPUs of its own, and those are all of `cpus`.
fn ensure_they_share(pair: &[Application; 2], cpus: &CpuSet) -> Result<()> {
    let (first, second) = (pair[0].cpus()?, pair[1].cpus()?);
    ensure!(first.is_disjoint(&second), "{first} and {second} overlap");
    let both = first.union(&second);
    ensure!(both.is_subset(cpus), "{both} is not within {cpus}");
    Ok(())
}

pub(crate) fn cpus_that_go_offline_are_left_and_taken_again() -> Result<()> {
    let all = online_cpus()?;
    let pair = pair()?;
    let outcome = (|| {
        for cpus in [&[3, 5][..], &[8, 9, 10, 11], &[15]] {
            let mut left = all.clone();
            for cpu in cpus {
                set_online(*cpu, false)?;
                left.remove(mapper_model::CpuId(*cpu));
            }
            wait_for("the daemon to see that CPUs are gone", || {
                let now = usable()?;
                ensure!(now == left, "usable are {now}, online {left}");
                ensure_they_share(&pair, &left)
            })?;
            for cpu in cpus {
                set_online(*cpu, true)?;
            }
            wait_for("the daemon to see that CPUs are back", || {
                let now = usable()?;
                ensure!(now == all, "usable are {now}, online {all}");
                ensure_they_share(&pair, &all)
            })?;
        }
        for application in &pair {
            ensure!(application.is_running(), "{} ended", application.name());
        }
        Ok(())
    })();
    for cpu in 1..16 {
        // Those that are online stay so.
        let _ = set_online(cpu, true);
    }
    outcome
}

/// One has eight processes that compute, the other one, which by threads would have a ninth.
pub(crate) fn programs_that_share_a_cpu_have_it_by_their_weights_whatever_processes_they_have()
-> Result<()> {
    const COMPUTES: &str = "while :; do :; done";
    let many = format!("for i in 1 2 3 4 5 6 7 8; do ({COMPUTES}) & done; wait");
    let all = online_cpus()?;
    systemctl(&["set-property", "--runtime", APPS_UNIT, "AllowedCPUs=3"])?;
    let mut launchers = Vec::new();
    let outcome = (|| {
        let mut groups = Vec::new();
        for (name, weight, script) in [("one", "3", COMPUTES), ("many", "1", &many)] {
            let options = ["--name", name, "--weight", weight];
            let mut launcher = launch(User::Root, &options, &["sh", "-c", script])?;
            launchers.push(launcher.spawn().context("mapper-launch")?);
            let app = wait_for("it to be managed", || status_of(name))?;
            groups.push(apps_group()?.join(format!("app-{}", app["id"])));
        }
        let used_us = || -> Result<Vec<u64>> {
            let used = groups.iter().map(|group| {
                let stat = kernel::read(group.join("cpu.stat"))?;
                let used = stat
                    .lines()
                    .find_map(|line| line.strip_prefix("usage_usec "));
                used.context("no CPU time")?.parse().context("CPU time")
            });
            used.collect()
        };
        wait_for("eight processes", || {
            let members = kernel::read(groups[1].join("cgroup.procs"))?;
            ensure!(members.lines().count() >= 9, "it has {members}");
            Ok(())
        })?;
        let before = used_us()?;
        sleep(Duration::from_secs(4));
        let [one, many] = [0, 1].map(|app| used_us().map(|now| now[app] - before[app]));
        let (one, many) = (one?, many?);
        for group in &groups {
            fs::write(group.join("cgroup.kill"), "1").context("end it")?;
        }
        ensure!(
            (2 * many..5 * many).contains(&one),
            "they used {one} and {many} µs"
        );
        Ok(())
    })();
    for group in app_groups()? {
        let _ = fs::write(group.join("cgroup.kill"), "1");
    }
    for mut launcher in launchers {
        let _ = launcher.kill();
        let _ = launcher.wait();
    }
    let everything = format!("AllowedCPUs={all}");
    systemctl(&["set-property", "--runtime", APPS_UNIT, &everything])?;
    outcome
}

pub(crate) fn a_limit_on_the_groups_place_is_kept() -> Result<()> {
    let all = online_cpus()?;
    let pair = pair()?;
    let outcome = (|| {
        systemctl(&["set-property", "--runtime", APPS_UNIT, "AllowedCPUs=4-9"])?;
        let within: CpuSet = "4-9".parse().context("a CPU list")?;
        wait_for("the daemon to keep to the limit", || {
            let now = usable()?;
            ensure!(now == within, "usable are {now}");
            ensure_they_share(&pair, &within)
        })
    })();
    // An empty list would be the natural way to lift it, but the kernel takes none for a group with
    // processes in it, so that systemd fails to write it.
    let everything = format!("AllowedCPUs={all}");
    systemctl(&["set-property", "--runtime", APPS_UNIT, &everything])?;
    outcome?;
    wait_for("the daemon to see that the limit is gone", || {
        let now = usable()?;
        ensure!(now == all, "usable are {now}");
        ensure_they_share(&pair, &all)
    })
}

pub(crate) fn cpus_set_by_somebody_else_are_respected_until_given_back() -> Result<()> {
    let pair = pair()?;
    wait_for("two disjoint CPU sets", || {
        ensure_they_share(&pair, &online_cpus()?)
    })?;
    let file = kernel::group_of(pair[0].pid)?.join("cpuset.cpus");
    let write = |text: &str| {
        fs::write(&file, text).with_context(|| format!("write {text} to {}", file.display()))
    };
    write("6-7")?;
    let placed: CpuSet = "6-7".parse().context("a CPU list")?;
    wait_for("the daemon to notice", || {
        let reply = status_of("left")?;
        ensure!(
            reply["state"] == "set by others",
            "its state is {}",
            reply["state"]
        );
        let (first, second) = (pair[0].cpus()?, pair[1].cpus()?);
        ensure!(first == placed, "it was moved to {first}");
        ensure!(second.is_disjoint(&placed), "the other has {second}");
        Ok(())
    })?;
    // It stays so, whatever happens.
    output_of(&mut launch(User::Root, &[], &["sleep", "2"])?)?;
    ensure!(pair[0].cpus()? == placed, "it was moved");
    write(&online_cpus()?.to_string())?;
    wait_for("the daemon to manage it again", || {
        let reply = status_of("left")?;
        ensure!(
            reply["state"] != "set by others",
            "its state is {}",
            reply["state"]
        );
        ensure_they_share(&pair, &online_cpus()?)?;
        ensure!(pair[0].cpus()?.len() > 2, "it has {}", pair[0].cpus()?);
        Ok(())
    })?;
    let [first, second] = pair;
    first.end(Signal::SIGTERM)?;
    second.end(Signal::SIGTERM)?;
    Ok(())
}

/// `taskset` around the launcher narrows what the program can use: its first team is not larger.
pub(crate) fn a_mask_that_a_program_inherits_counts() -> Result<()> {
    let mut command = std::process::Command::new("taskset");
    command.args([
        "-c",
        "2,5",
        "mapper-launch",
        "--",
        "sh",
        "-c",
        "echo $OMP_NUM_THREADS; nproc",
    ]);
    let text = output_of(&mut command)?;
    ensure!(text == "2\n2\n", "it says {text:?}");
    Ok(())
}
