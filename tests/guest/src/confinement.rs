//! CPU sets: whose CPUs are whose, and does every thread keep to them.

use anyhow::{Result, ensure};
use mapper_model::CpuSet;
use nix::sys::signal::Signal;

use crate::application::{Application, Runtime};
use crate::daemon::status_of;
use crate::kernel::{cpu_list, online_cpus, wait_for};
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
    let told = status_of(application.name())?;
    let told = cpu_list(told["cpus"].as_str().unwrap_or_default())?;
    ensure!(
        told == cpus,
        "{}: status says {told}, the kernel {cpus}",
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
