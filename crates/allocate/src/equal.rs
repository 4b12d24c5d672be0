//! Equal: the same number of CPUs for every parallel section, one for a serial one [NuPoCo §7.3].
//!
//! Only limits of the applications count. What does not divide evenly stays free.

use crate::accounting::{self, CpuAccounting};
use crate::config::AllocationConfig;
use crate::entitlement::{self, Entitlement};
use crate::fair;
use crate::policy::{AllocationPolicy, PolicyState, RestoreError};
use crate::section::{Section, SectionWatch};
use crate::shares::{self, Claim};
use crate::table::AppTable;
use mapper_model::{Allocation, Reason, Snapshot, Trigger};

pub(crate) const NAME: &str = "equal";

#[derive(Clone, Debug)]
pub(crate) struct Equal {
    config: AllocationConfig,
    sections: AppTable<SectionWatch>,
}

impl Equal {
    pub(crate) fn new(config: AllocationConfig) -> Self {
        Self {
            config,
            sections: AppTable::default(),
        }
    }
}

/// Ingests what the interval shows of every application's sections.
pub(crate) fn watch_sections(sections: &mut AppTable<SectionWatch>, snapshot: &Snapshot<'_>) {
    if snapshot.trigger == Trigger::Interval {
        for (watch, app) in sections.iter_mut().zip(snapshot.apps) {
            watch.observe(Section::shown(app.profile, app.held.len()));
        }
    }
}

impl AllocationPolicy for Equal {
    fn name(&self) -> &'static str {
        NAME
    }

    fn allocate(&mut self, snapshot: &Snapshot<'_>) -> Allocation {
        self.sections
            .sync(snapshot.apps.iter().map(|a| a.app), SectionWatch::default);
        watch_sections(&mut self.sections, snapshot);
        if !accounting::fits(snapshot) {
            return accounting::pool(snapshot);
        }
        let mut entitled = entitlement::entitlements(snapshot, self.config.min_cpus);
        for (entitled, watch) in entitled.iter_mut().zip(self.sections.iter()) {
            entitled.weight = 1.0;
            if watch.section() == Section::Serial && !entitled.fixed {
                // One, or its lower limit.
                entitled.max = entitled.min;
            }
        }
        let claims: Vec<Claim> = entitled.iter().map(Entitlement::claim).collect();
        let targets = shares::bounded_shares(snapshot.usable.len(), &claims);
        for (entitled, target) in entitled.iter_mut().zip(&targets) {
            entitled.fair = *target;
        }
        let mut accounts = CpuAccounting::open(snapshot);
        accounts.settle(&targets);
        let mut notes = fair::notes(snapshot, &entitled, &targets);
        for (place, note) in notes.iter_mut().enumerate() {
            if self.sections.at(place).section() == Section::Serial && !entitled[place].fixed {
                note.state = "serial";
                let rule = match targets[place] {
                    1 => "a serial section gets one CPU",
                    _ => "a serial section gets the fewest CPUs it asked for",
                };
                note.reasons.push(Reason::Model {
                    rule: rule.to_owned(),
                });
            }
        }
        accounts.explain_transfers(&mut notes);
        accounts.close(notes)
    }

    fn save(&self) -> PolicyState {
        PolicyState::of(NAME, &self.sections)
    }

    fn restore(&mut self, state: &PolicyState) -> Result<(), RestoreError> {
        self.sections = state.read(NAME)?;
        Ok(())
    }
}
