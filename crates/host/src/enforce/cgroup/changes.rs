//! Changes that systemd makes for us: what was asked for, and what has come of it.
//!
//! systemd answers when it has taken an order, and writes to the group afterwards; it may answer late, or with
//! an error that comes late. So what a group has been set to is what its file shows, and until it shows what was
//! asked for nobody else is taken to have set what stands there. What fails is logged, and asked for again by
//! the next decision, which starts from what is in force; a unit that was released is tried again here.
//!
//! Invariant: one decision waits for systemd no longer than its patience, however many units there are.

use super::adoption::Origin;
use super::files::possible_cpus;
use super::systemd::{Change, Outstanding, PATIENCE, Systemd, UnitName};
use super::{CgroupEnforcer, Group};
use crate::HostError;
use crate::enforce::Departure;
use mapper_model::{AppId, CpuSet};
use std::time::{Duration, Instant};

/// Between two looks whether a file shows what systemd was asked for.
const PAUSE: Duration = Duration::from_millis(2);

/// How often a unit that was released is tried again.
const TRIES: u32 = 10;

/// A change that systemd was asked for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) cpus: CpuSet,
    /// `None`: it has said that it will.
    pub(super) answer: Option<Outstanding>,
}

/// A unit that was released, and what it is to have again.
#[derive(Debug)]
pub(super) struct Restoring {
    unit: UnitName,
    cpus: CpuSet,
    answer: Option<Outstanding>,
    tries: u32,
}

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
        return Err(HostError::Systemd {
            action: "set AllowedCPUs of",
            unit: unit.as_str().to_owned(),
            why: "it has not answered the call before".to_owned(),
        });
    }
    let started = Instant::now();
    let deadline = started + *patience;
    let change = systemd.set(unit, cpus, *patience);
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
        group.written = cpus.clone();
        group.change = None;
    }
    *patience = patience.saturating_sub(started.elapsed());
    Ok(())
}

/// Waits until the file of a group shows a set.
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

/// Takes in what has become of a change, by the answer and by what the file shows.
pub(super) fn look(group: &mut Group, app: AppId, found: &CpuSet) {
    let Some(asked) = &mut group.change else {
        return;
    };
    if asked.cpus == *found {
        group.written = found.clone();
        group.change = None;
        return;
    }
    let Some(answer) = &asked.answer else {
        // It said that it would. Until the file shows it, it shows what was there before, or what somebody else
        // has set.
        if *found != group.written {
            group.change = None;
        }
        return;
    };
    match answer.answer() {
        None => {}
        Some(Ok(())) => asked.answer = None,
        Some(Err(why)) => {
            tracing::warn!(
                app = app.0,
                "systemd did not set its CPUs, asked again: {why}"
            );
            group.change = None;
        }
    }
}

impl CgroupEnforcer {
    /// Gives a group that is not one of ours what it had before. An answer that is still due to an earlier
    /// change does not matter: systemd takes calls in order.
    pub(super) fn restore(
        &mut self,
        group: &mut Group,
        departure: Departure,
    ) -> Result<(), HostError> {
        let all = || possible_cpus().map(|list| list.trim().parse().unwrap_or_default());
        let (unit, before) = match group.origin.clone() {
            Origin::Launched | Origin::Moved(_) => return Ok(()),
            Origin::InPlace(place) => {
                // The kernel refuses an empty list while anybody is in the group.
                let before: CpuSet = match place.before.is_empty() {
                    true => all()?,
                    false => place.before,
                };
                return group.dir.set_cpus(&before);
            }
            Origin::Unit { unit, place } => (unit, place.before),
        };
        // systemd takes an empty list and the kernel does not: with all CPUs first, the group has them whatever
        // becomes of the second call.
        let steps = match before.is_empty() {
            true => vec![all()?, CpuSet::new()],
            false => vec![before],
        };
        let mut first_error = None;
        for cpus in steps {
            let started = Instant::now();
            // Nobody is left to try again when the daemon stops.
            let patience = match departure {
                Departure::DaemonStops => PATIENCE,
                Departure::ForGood => self.patience,
            };
            let answer = match self.systemd.set(&unit, &cpus, patience) {
                Ok(Change::Done) => continue,
                Ok(Change::Late(answer)) => Some(answer),
                Err(error) if error.is_gone() => return Err(error),
                Err(error) => {
                    first_error.get_or_insert(error);
                    None
                }
            };
            self.patience = self.patience.saturating_sub(started.elapsed());
            self.restoring.push(Restoring {
                unit: unit.clone(),
                cpus,
                answer,
                tries: 0,
            });
        }
        first_error.map_or(Ok(()), Err)
    }

    /// A unit is managed again: what it had is not to be put back any more.
    pub(super) fn stop_restoring(&mut self, unit: &UnitName) {
        self.restoring.retain(|restoring| restoring.unit != *unit);
    }

    /// Looks what has become of units that were released, and tries again what failed, without waiting.
    pub(super) fn restore_again(&mut self) {
        for mut restoring in std::mem::take(&mut self.restoring) {
            let why = match restoring.answer.as_ref().map(Outstanding::answer) {
                Some(None) => {
                    self.restoring.push(restoring);
                    continue;
                }
                Some(Some(Ok(()))) => continue,
                Some(Some(Err(why))) => why,
                None => "refused".to_owned(),
            };
            let unit = restoring.unit.as_str().to_owned();
            if why.contains("NoSuchUnit") {
                continue;
            }
            restoring.tries += 1;
            if restoring.tries > TRIES {
                tracing::error!(unit, cpus = %restoring.cpus, "given up to give it its CPUs back: {why}");
                continue;
            }
            tracing::warn!(unit, "its CPUs are not given back yet, tried again: {why}");
            let answer = self
                .systemd
                .set(&restoring.unit, &restoring.cpus, Duration::ZERO);
            restoring.answer = match answer {
                Ok(Change::Done) => continue,
                Ok(Change::Late(answer)) => Some(answer),
                Err(_) => None,
            };
            self.restoring.push(restoring);
        }
    }
}
