//! Restoring the CPUs that an adopted group or unit had.
//!
//! A group is written directly. The CPUs of a unit are systemd's to set, which may be slow or refuse: then the request
//! is repeated with growing pauses for a minute, also by the next daemon. What a unit had is forgotten only when it has
//! it again, has ended, is managed again, or could not be given it for that long, which is logged as an error.

use super::asked::or_later;
use super::changes;
use super::files::{ALL_NODES, possible_cpus};
use super::group::{Group, Groups, Memory, Origin};
use super::systemd::{
    Change, Look, Outstanding, PATIENCE, Property, STOPPING, Systemd, UnitName, UnitState, failed,
};
use crate::HostError;
use crate::enforce::Departure;
use mapper_model::CpuSet;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

const PERSISTENCE: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Units {
    pub(super) systemd: Systemd,
    pub(super) patience: Duration,
    looks: Vec<Look>,
    pub(super) restoring: Vec<Restoring>,
}

#[derive(Debug)]
pub(super) struct Restoring {
    owed: Owed,
    asked: Asked,
    since: Instant,
    again: Instant,
    pause: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Owed {
    unit: UnitName,
    /// Empty: no limit of its own.
    before: CpuSet,
}

#[derive(Debug)]
enum Asked {
    Done,
    Ended,
    Late(Vec<Outstanding>),
    Failed(String),
}

impl Owed {
    /// systemd takes an empty list and the kernel does not: all CPUs come first, whatever becomes of the second call.
    fn ask(&self, systemd: &mut Systemd, patience: Duration) -> Asked {
        let steps = match self.before.is_empty() {
            true => match possible_cpus() {
                Ok(all) => vec![all, CpuSet::new()],
                Err(error) => return Asked::Failed(crate::chain(&error)),
            },
            false => vec![self.before.clone()],
        };
        let deadline = Instant::now() + patience;
        let mut late = Vec::new();
        let mut failed = None;
        for cpus in steps {
            let left = deadline.saturating_duration_since(Instant::now());
            match systemd.set(&self.unit, Property::Cpus, &cpus, left) {
                Ok(Change::Done) => {}
                Ok(Change::Late(answer)) => late.push(answer),
                Err(error) if error.is_gone() => return Asked::Ended,
                Err(error) => {
                    failed.get_or_insert_with(|| match error {
                        HostError::Systemd(.., why) => why,
                        other => crate::chain(&other),
                    });
                }
            }
        }
        match failed {
            Some(why) => Asked::Failed(why),
            None if late.is_empty() => Asked::Done,
            None => Asked::Late(late),
        }
    }
}

impl Asked {
    fn look(&mut self) {
        let Self::Late(answers) = self else {
            return;
        };
        let mut failed = None;
        answers.retain(|answer| match answer.answer() {
            None => true,
            Some(Ok(())) => false,
            Some(Err(why)) => {
                failed = Some(why);
                false
            }
        });
        match failed {
            Some(why) if why.contains("NoSuchUnit") => *self = Self::Ended,
            Some(why) => *self = Self::Failed(why),
            None if answers.is_empty() => *self = Self::Done,
            None => {}
        }
    }

    fn trouble(&self) -> Option<&str> {
        match self {
            Self::Done | Self::Ended => None,
            Self::Late(_) => Some("no answer yet"),
            Self::Failed(why) => Some(why),
        }
    }
}

impl Default for Units {
    fn default() -> Self {
        Self {
            systemd: Systemd::default(),
            patience: PATIENCE,
            looks: Vec::new(),
            restoring: Vec::new(),
        }
    }
}

/// What [`Units::remember`] returned, to be requested immediately. What cannot be read is of another enforcer.
pub(super) fn recall(remembered: &serde_json::Value, now: Instant) -> Vec<Restoring> {
    let owed: Vec<Owed> = serde_json::from_value(remembered.clone()).unwrap_or_default();
    let anew = |owed| Restoring {
        owed,
        asked: Asked::Failed("the previous daemon did not restore them".to_owned()),
        since: now,
        again: now,
        pause: FIRST_PAUSE,
    };
    owed.into_iter().map(anew).collect()
}

impl Units {
    /// [`HostError::SystemdLate`] if systemd has not answered yet. A later call for the same unit returns the answer.
    pub(super) fn look(&mut self, unit: &UnitName) -> Result<UnitState, HostError> {
        self.looks.retain(|look| !look.is_over());
        let asked = self.looks.iter().position(|look| look.is_at(unit));
        let (look, patience) = match asked {
            Some(place) => (self.looks.swap_remove(place), Duration::ZERO),
            None => (self.systemd.look(unit)?, PATIENCE),
        };
        let answer = look.answer(patience);
        if let Err(HostError::SystemdLate(..)) = answer {
            self.looks.push(look);
        }
        answer
    }

    /// An interval begins. While systemd has not answered what it was asked in an earlier one, it is not waited for.
    pub(super) fn begin_interval(&mut self, groups: &mut Groups) {
        self.restore_again(Instant::now());
        let mut late = false;
        for (app, group) in &mut groups.apps {
            changes::hear(group, *app);
            let change = group.change.as_ref();
            late |= change.is_some_and(|asked| asked.answer.is_some());
        }
        let mut restoring = self.restoring.iter();
        late |= restoring.any(|unit| matches!(unit.asked, Asked::Late(_)));
        self.patience = match late {
            true => Duration::ZERO,
            false => PATIENCE,
        };
    }

    pub(super) fn remember(&self) -> serde_json::Value {
        let owed: Vec<&Owed> = self.restoring.iter().map(|unit| &unit.owed).collect();
        serde_json::to_value(owed).unwrap_or_default()
    }

    pub(super) fn restore(
        &mut self,
        groups: &Groups,
        group: &Group,
        departure: Departure,
    ) -> Result<(), HostError> {
        match &group.origin {
            Origin::Launched | Origin::Moved(_) => Ok(()),
            Origin::InPlace(place) => {
                if group.memory == Memory::Bound {
                    let nodes = match place.nodes_before.is_empty() {
                        true => groups.root.read_cpus(ALL_NODES)?,
                        false => place.nodes_before.clone(),
                    };
                    or_later(group.dir.set_mems(&nodes.to_string()))?;
                }
                // The kernel refuses an empty list while a process is in the group.
                let before = match place.before.is_empty() {
                    true => possible_cpus()?,
                    false => place.before.clone(),
                };
                or_later(group.dir.set_cpus(&before))
            }
            Origin::Unit { unit, place } => {
                if group.memory == Memory::Bound {
                    self.give_nodes_back(groups, unit, place.nodes_before.clone());
                }
                self.give_back(unit, place.before.clone(), departure)
            }
        }
    }

    /// Restores the memory nodes of a unit through systemd, which takes this before the calls that follow. A failure within
    /// the time of a decision is logged: its memory stays where it is.
    pub(super) fn give_nodes_back(&mut self, groups: &Groups, unit: &UnitName, before: CpuSet) {
        // As with CPUs, the kernel refuses an empty list: all nodes come first.
        let all = groups.root.read_cpus(ALL_NODES).ok();
        let steps = all
            .filter(|_| before.is_empty())
            .into_iter()
            .chain([before]);
        for nodes in steps {
            let started = Instant::now();
            let set = self
                .systemd
                .set(unit, Property::MemoryNodes, &nodes, self.patience);
            self.patience = self.patience.saturating_sub(started.elapsed());
            if let Err(error) = set
                && !error.is_gone()
            {
                let unit = unit.as_str();
                tracing::warn!(unit, "memory nodes not restored: {}", crate::chain(&error));
            }
        }
    }

    /// An error if systemd has not done so yet; the request is repeated. systemd takes calls in order.
    pub(super) fn give_back(
        &mut self,
        unit: &UnitName,
        before: CpuSet,
        departure: Departure,
    ) -> Result<(), HostError> {
        // Nothing is left to repeat the request when the daemon stops.
        let patience = match departure {
            Departure::DaemonStops => STOPPING,
            Departure::ForGood | Departure::ToItsOwner => self.patience,
        };
        let owed = Owed {
            unit: unit.clone(),
            before,
        };
        let started = Instant::now();
        let asked = owed.ask(&mut self.systemd, patience);
        self.patience = self.patience.saturating_sub(started.elapsed());
        let Some(why) = asked.trouble() else {
            return Ok(());
        };
        let why = format!("{why}; retrying for {} s", PERSISTENCE.as_secs());
        let error = failed("restore the CPUs of", unit, why);
        let now = Instant::now();
        self.stop_restoring(unit);
        self.restoring.push(Restoring {
            owed,
            asked,
            since: now,
            again: now + FIRST_PAUSE,
            pause: FIRST_PAUSE,
        });
        Err(error)
    }

    pub(super) fn restoring_of(&self, unit: &UnitName) -> Option<CpuSet> {
        let of_it = |restoring: &&Restoring| restoring.owed.unit == *unit;
        Some(self.restoring.iter().find(of_it)?.owed.before.clone())
    }

    /// A unit is managed again, or requested anew: what it was to have is not to be restored any more.
    pub(super) fn stop_restoring(&mut self, unit: &UnitName) {
        self.restoring
            .retain(|restoring| restoring.owed.unit != *unit);
    }

    /// Checks units that were released, and repeats the requests that failed, without waiting.
    pub(super) fn restore_again(&mut self, now: Instant) {
        let systemd = &mut self.systemd;
        self.restoring.retain_mut(|restoring| {
            restoring.asked.look();
            let unit = restoring.owed.unit.as_str();
            let why = match &restoring.asked {
                Asked::Late(_) => return true,
                Asked::Ended => return false,
                Asked::Done => {
                    tracing::info!(unit, "CPUs restored");
                    return false;
                }
                Asked::Failed(why) => why,
            };
            let before = &restoring.owed.before;
            if now.saturating_duration_since(restoring.since) >= PERSISTENCE {
                tracing::error!(
                    unit,
                    %before,
                    "its CPUs could not be restored; restore them with (systemctl set-property --runtime {unit} \
                     AllowedCPUs={before}): {why}"
                );
                return false;
            }
            if now < restoring.again {
                return true;
            }
            tracing::warn!(unit, "its CPUs are not restored yet, trying again: {why}");
            restoring.asked = restoring.owed.ask(systemd, Duration::ZERO);
            restoring.pause = (restoring.pause * 2).min(LONGEST_PAUSE);
            restoring.again = now + restoring.pause;
            true
        });
    }
}

#[cfg(test)]
impl Restoring {
    pub(super) fn is_late(&mut self) -> bool {
        self.asked.look();
        matches!(self.asked, Asked::Late(_))
    }

    /// As if the thread that calls systemd had given up waiting for an answer.
    pub(super) fn give_up_waiting(&mut self) {
        self.asked = Asked::Failed("no answer".to_owned());
    }
}
