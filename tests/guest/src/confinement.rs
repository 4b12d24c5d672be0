//! CPU sets: whose CPUs are whose, and does every thread keep to them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use mapper_model::{CpuId, CpuSet};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::application::{Application, Runtime};
use crate::daemon::{app_groups, status_of};
use crate::kernel::{self, cpu_list, online_cpus, read, wait_for};
use crate::users::User;

/// No CPU is in two of the sets, each set has one, and there are no others than the machine's.
fn are_apart(sets: &[&CpuSet]) -> Result<()> {
    let online = online_cpus()?;
    for (index, set) in sets.iter().enumerate() {
        ensure!(!set.is_empty(), "an application has no CPU");
        ensure!(set.is_subset(&online), "{set} is not within {online}");
        for other in &sets[..index] {
            ensure!(set.is_disjoint(other), "{set} and {other} overlap");
        }
    }
    Ok(())
}

/// The CPUs of an application by the kernel, which the daemon must agree with.
fn agreed_cpus(application: &Application) -> Result<CpuSet> {
    let cpus = application.cpus()?;
    let reply = status_of(application.name())?;
    let reply = cpu_list(reply["cpus"].as_str().unwrap_or_default())?;
    ensure!(
        reply == cpus,
        "{}: status says {reply}, the kernel {cpus}",
        application.name()
    );
    Ok(cpus)
}

pub(crate) fn two_programs_get_disjoint_cpus_and_every_thread_obeys() -> Result<()> {
    let first = Application::start("first", User::Root, Runtime::Libgomp, &[])?;
    let second = Application::start("second", User::Root, Runtime::Libomp, &[])?;
    wait_for("two disjoint CPU sets", || {
        are_apart(&[&agreed_cpus(&first)?, &agreed_cpus(&second)?])
    })?;
    ensure!(
        second.team > 1,
        "the team of the second has {} thread",
        second.team
    );
    Ok(())
}

pub(crate) fn an_arrival_and_a_departure_change_the_allocation() -> Result<()> {
    let first = Application::start("stays", User::Root, Runtime::Libgomp, &[])?;
    let second = Application::start("leaves", User::Root, Runtime::Libomp, &[])?;
    let two = wait_for("two disjoint CPU sets", || {
        let sets = [agreed_cpus(&first)?, agreed_cpus(&second)?];
        are_apart(&[&sets[0], &sets[1]])?;
        Ok(sets)
    })?;
    let third = Application::start("arrives", User::Root, Runtime::Libgomp, &[])?;
    let three = wait_for("three disjoint CPU sets", || {
        let sets = [
            agreed_cpus(&first)?,
            agreed_cpus(&second)?,
            agreed_cpus(&third)?,
        ];
        are_apart(&[&sets[0], &sets[1], &sets[2]])?;
        Ok(sets)
    })?;
    ensure!(
        two[..] != three[..2],
        "a third program arrived, and nothing changed: {two:?}"
    );
    second.end(Signal::SIGTERM)?;
    wait_for("the CPUs of the one that left", || {
        let sets = [agreed_cpus(&first)?, agreed_cpus(&third)?];
        are_apart(&[&sets[0], &sets[1]])?;
        let freed = sets[0].union(&sets[1]).intersection(&three[1]);
        ensure!(!freed.is_empty(), "nobody got any of {}", three[1]);
        Ok(())
    })
}

pub(crate) fn an_idle_program_lends_its_cpus_and_has_them_back_once_it_runs() -> Result<()> {
    let online = online_cpus()?;
    // Else a policy that has measured both may move a CPU as soon as the loan ends.
    let half = (online.len() / 2).to_string();
    let options = ["--min-cpus", &half];
    let idle = Application::start("idle", User::Root, Runtime::Libgomp, &options)?;
    let busy = Application::start("busy", User::Root, Runtime::Libgomp, &options)?;
    let own = wait_for("two disjoint CPU sets", || {
        let own = agreed_cpus(&idle)?;
        are_apart(&[&own, &agreed_cpus(&busy)?])?;
        Ok(own)
    })?;
    let stopped = Pid::from_raw(i32::try_from(idle.pid)?);
    kill(stopped, Signal::SIGSTOP)?;
    wait_for("all CPUs for the one that runs", || {
        let cpus = agreed_cpus(&busy)?;
        ensure!(cpus == online, "it has {cpus} of {online}");
        ensure!(agreed_cpus(&idle)? == own, "the idle one was moved");
        let state = status_of("idle")?["state"].clone();
        ensure!(state == "lends", "the idle one is {state}");
        Ok(())
    })?;
    kill(stopped, Signal::SIGCONT)?;
    wait_for("two disjoint CPU sets again", || {
        let back = agreed_cpus(&idle)?;
        ensure!(back == own, "it has {back}, not its own {own}");
        are_apart(&[&back, &agreed_cpus(&busy)?])
    })
}

/// While applications come, go and are resized, no CPU is in two groups at any moment.
pub(crate) fn no_cpu_is_ever_promised_twice() -> Result<()> {
    let first = Application::start("first", User::Root, Runtime::Libgomp, &[])?;
    let second = Application::start("second", User::Root, Runtime::Libomp, &[])?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch_for_overlaps(&over));
        let outcome = applications_come_and_go();
        over.store(true, Ordering::Relaxed);
        let looks = watcher
            .join()
            .map_err(|_| anyhow!("the watcher broke off"))??;
        outcome?;
        ensure!(looks > 10, "looked only {looks} times");
        Ok(())
    })?;
    first.cpus()?;
    second.cpus()?;
    Ok(())
}

fn applications_come_and_go() -> Result<()> {
    for _ in 0..3 {
        let third = Application::start("third", User::Root, Runtime::Libgomp, &[])?;
        std::thread::sleep(Duration::from_millis(1500));
        third.end(Signal::SIGTERM)?;
    }
    Ok(())
}

/// Compares all pairs of groups again and again; returns how often.
fn watch_for_overlaps(over: &AtomicBool) -> Result<u32> {
    let mut looks = 0;
    while !over.load(Ordering::Relaxed) {
        let groups = app_groups()?;
        for (index, one) in groups.iter().enumerate() {
            for other in &groups[..index] {
                looks += 1;
                // The two files cannot be read at the same moment. If the first says the same before
                // and after the second is read, it said so in between too.
                let seen = (confined_to(one), confined_to(other), confined_to(one));
                if let (Some(before), Some(held), Some(after)) = seen
                    && before == after
                {
                    ensure!(
                        before.is_disjoint(&held),
                        "{} has {before} while {} has {held}",
                        one.display(),
                        other.display()
                    );
                }
            }
        }
    }
    Ok(looks)
}

/// The CPUs a group is confined to; `None` if it is gone, or new and not confined yet: then its one
/// process waits for its place. Also if its last process has ended: then its CPUs may be another's before it is removed.
fn confined_to(group: &Path) -> Option<CpuSet> {
    let written = read(group.join("cpuset.cpus")).ok()?;
    let events = read(group.join("cgroup.events")).ok()?;
    if written.is_empty() || !events.contains("populated 1") {
        None
    } else {
        cpu_list(&written).ok()
    }
}

pub(crate) fn bounds_on_cpus_are_kept() -> Result<()> {
    let small = Application::start("small", User::Root, Runtime::Libgomp, &["--max-cpus", "3"])?;
    let large = Application::start("large", User::Root, Runtime::Libgomp, &["--min-cpus", "10"])?;
    wait_for("bounds", || {
        let (small, large) = (agreed_cpus(&small)?, agreed_cpus(&large)?);
        are_apart(&[&small, &large])?;
        ensure!(small.len() <= 3, "--max-cpus 3 got {small}");
        ensure!(large.len() >= 10, "--min-cpus 10 got {large}");
        Ok(())
    })
}

/// The nodes that hold these CPUs, by the kernel.
fn nodes_of(cpus: &CpuSet) -> Result<CpuSet> {
    let mut nodes = CpuSet::new();
    for node in 0.. {
        let path = format!("/sys/devices/system/node/node{node}/cpulist");
        if !std::path::Path::new(&path).exists() {
            break;
        }
        if !kernel::cpu_list(&kernel::read(path)?)?.is_disjoint(cpus) {
            nodes.insert(CpuId(node));
        }
    }
    Ok(nodes)
}

pub(crate) fn memory_follows_the_cpus_of_those_who_asked_and_of_nobody_else() -> Result<()> {
    let refused = Application::start("local", User::Alice, Runtime::Libgomp, &["--mem", "local"]);
    ensure!(
        refused.is_err(),
        "a user may have memory moved without a rule"
    );
    let local = Application::start("local", User::Root, Runtime::Libgomp, &["--mem", "local"])?;
    let spread = Application::start(
        "spread",
        User::Root,
        Runtime::Libgomp,
        &["--mem", "interleave"],
    )?;
    let kept = Application::start("kept", User::Root, Runtime::Libgomp, &[])?;
    let all = kernel::cpu_list(&kernel::read("/sys/devices/system/node/has_memory")?)?;
    ensure!(all.len() > 1, "the guest has one node only");
    let mems = |application: &Application| -> Result<CpuSet> {
        let group = kernel::group_of(application.pid)?;
        kernel::cpu_list(&kernel::read(group.join("cpuset.mems.effective"))?)
    };
    for application in [&local, &spread] {
        wait_for("memory to follow", || {
            let (cpus, mems) = (application.cpus()?, mems(application)?);
            let nodes = nodes_of(&cpus)?;
            ensure!(mems == nodes, "{cpus} are on {nodes}, memory on {mems}");
            Ok(())
        })?;
        ensure!(
            mems(application)? != all,
            "{} has all nodes",
            application.name()
        );
    }
    ensure!(
        mems(&kept)? == all,
        "memory of a program that did not ask is bound"
    );
    let maps = kernel::read(format!("/proc/{}/numa_maps", spread.pid))?;
    ensure!(
        maps.contains("interleave"),
        "no policy to interleave: {maps}"
    );
    let maps = kernel::read(format!("/proc/{}/numa_maps", local.pid))?;
    ensure!(
        !maps.contains("interleave"),
        "a policy that was not asked for: {maps}"
    );
    let reply = crate::daemon::status_of("spread")?;
    ensure!(reply["memory"] == "interleave", "status says {reply}");
    // With the machine for itself it has the memory of all of it.
    drop((spread, kept));
    wait_for("memory to come back", || {
        let mems = mems(&local)?;
        ensure!(mems == all, "memory is bound to {mems}");
        Ok(())
    })
}
