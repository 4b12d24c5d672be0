//! Changes of CPUs requested from systemd, and what has come of them.
//!
//! systemd answers when it has taken an order, and writes to the group afterwards; an answer may come late, also as
//! an error. So what a group has been set to is what its file shows. While it shows what was there before, or anything
//! requested, no other program is taken to have set it. What fails is logged, and requested again by the next decision.
//!
//! Invariant: one decision waits for systemd no longer than its patience, however many units there are.

use super::group::{Asked, Group};
use super::systemd::{Change, Property, Systemd, UnitName, failed};
use crate::HostError;
use mapper_model::{AppId, CpuSet};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(2);

/// Asks systemd to change the CPUs of a unit, and waits for it within the patience that is left.
pub(super) fn ask(
    systemd: &mut Systemd,
    patience: &mut Duration,
    group: &mut Group,
    unit: &UnitName,
    cpus: &CpuSet,
) -> Result<(), HostError> {
    if let Some(asked) = &group.change
        && let Some(answer) = &asked.answer
        && answer.answer().is_none()
    {
        let why = "it has not answered the previous call".to_owned();
        return Err(failed("set AllowedCPUs of", unit, why));
    }
    let started = Instant::now();
    let deadline = started + *patience;
    group.expect(cpus);
    let change = systemd.set(unit, Property::Cpus, cpus, *patience);
    let change = change.inspect_err(|_| *patience = patience.saturating_sub(started.elapsed()))?;
    let answer = match change {
        Change::Done => None,
        Change::Late(answer) => Some(answer),
    };
    let is_late = answer.is_some();
    group.change = Some(Asked {
        cpus: cpus.clone(),
        answer,
    });
    if !is_late && shows_by(group, cpus, deadline) {
        shown(group, cpus);
    }
    *patience = patience.saturating_sub(started.elapsed());
    Ok(())
}

fn shows_by(group: &Group, cpus: &CpuSet, deadline: Instant) -> bool {
    loop {
        let shown = group.dir.read_cpus("cpuset.cpus");
        if shown.is_ok_and(|shown| shown == *cpus) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

/// The file shows a set that was requested. systemd takes calls in order: those before it are done.
fn shown(group: &mut Group, cpus: &CpuSet) {
    let place = group.expected.iter().position(|expected| expected == cpus);
    group.expected.drain(..place.map_or(0, |place| place + 1));
    group.written = cpus.clone();
    let newest = group.change.as_ref();
    if newest.is_some_and(|asked| asked.cpus == *cpus) {
        group.change = None;
    }
}

pub(super) fn look(group: &mut Group, app: AppId, found: &CpuSet) {
    if group.expected.contains(found) {
        shown(group, found);
    }
    let accepted = |asked: &Asked| asked.answer.is_none();
    // Until the file shows what was accepted, it shows what was there before, or what another program set.
    if group.change.as_ref().is_some_and(accepted) && *found != group.written {
        group.change = None;
    }
    hear(group, app);
}

/// Takes systemd's answer, if it has come.
pub(super) fn hear(group: &mut Group, app: AppId) {
    let Some(asked) = &mut group.change else {
        return;
    };
    let Some(answer) = &asked.answer else {
        return;
    };
    match answer.answer() {
        None => {}
        Some(Ok(())) => asked.answer = None,
        Some(Err(why)) => {
            tracing::warn!(
                app = app.0,
                "systemd did not set its CPUs, trying again: {why}"
            );
            group.change = None;
        }
    }
}
