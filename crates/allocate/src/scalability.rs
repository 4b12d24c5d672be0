//! Scalability: hill climbing on CPU utilisation, as NuPoCo describes C3PO [NuPoCo §7.3].
//!
//! An application that keeps its CPUs busy gets a few more, from the free ones or from the application
//! that uses its own least; after an interval the CPUs busy in all are compared, and unless enough of the
//! moved ones became busy, the move is undone and not repeated until the utilisation of the taker changes.
//! That memory is not in C3PO, whose plain climb oscillates: [`Scalability::without_memory`].
//!
//! It is a baseline: utilisation is not progress, and an application that waits actively or saturates
//! memory looks busy.

use crate::accounting::{self, CpuAccounting, Holder, Note};
use crate::config::AllocationConfig;
use crate::entitlement::Entitlement;
use crate::fair;
use crate::opening::{self, Opening, Remembered, Situation};
use crate::policy::{AllocationPolicy, PolicyState, RestoreError};
use crate::table::AppTable;
use mapper_model::{Allocation, AppId, Bottleneck, Reason, Snapshot, Trigger};
use serde::{Deserialize, Serialize};

/// The name it is selected by.
pub const NAME: &str = "scalability";

/// Utilisation from which an application could use more CPUs.
const BUSY: f64 = 0.9;
/// Difference of utilisations that is worth a move, or that voids an old verdict.
const DIFFERENT: f64 = 0.1;
/// Part of the moved CPUs that must become busy.
const WORTH: f64 = 0.5;

/// The policy.
#[derive(Clone, Debug)]
pub struct Scalability {
    config: AllocationConfig,
    verdicts: Verdicts,
    state: State,
}

/// What follows from a move that brought nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdicts {
    /// The move is not tried again until utilisation changes.
    Remembered,
    /// It is repeated, as in C3PO.
    Forgotten,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct State {
    members: AppTable<Member>,
    usable: u32,
    entitled: Vec<Entitlement>,
    trial: Option<Trial>,
}

#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Member {
    cpus: u32,
    /// Utilisation at which a move to it brought nothing.
    refused_at: Option<f64>,
}

impl Remembered for Member {
    fn newcomer() -> Self {
        Self::default()
    }

    fn decided(&self) -> u32 {
        self.cpus
    }
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Trial {
    giver: Option<AppId>,
    taker: AppId,
    cpus: u32,
    busy_before: f64,
}

impl Scalability {
    /// A policy that has decided nothing yet.
    pub fn new(config: AllocationConfig) -> Self {
        Self {
            config,
            verdicts: Verdicts::Remembered,
            state: State::default(),
        }
    }

    /// The climb as C3PO's is described, which repeats what it has just undone [NuPoCo §7.3, §7.4].
    pub fn without_memory(config: AllocationConfig) -> Self {
        Self {
            verdicts: Verdicts::Forgotten,
            ..Self::new(config)
        }
    }

    /// Ends a trial: keeps the move if enough of the CPUs became busy, else undoes it.
    fn judge(
        &mut self,
        trial: Trial,
        used: &[f64],
        accounts: &mut CpuAccounting,
        notes: &mut [Note],
    ) -> Option<()> {
        let taker = self.state.members.place_of(trial.taker)?;
        let giver = match trial.giver {
            Some(id) => Holder::App(self.state.members.place_of(id)?),
            None => Holder::Pool,
        };
        let gained = busy(used, accounts) - trial.busy_before;
        let moved = trial.cpus.max(1);
        let verdict = if gained / f64::from(moved) >= WORTH {
            "kept"
        } else {
            accounts.shift(Holder::App(taker), giver, trial.cpus);
            self.state.members.at_mut(taker).refused_at = match self.verdicts {
                Verdicts::Remembered => Some(used[taker]),
                Verdicts::Forgotten => None,
            };
            "undone"
        };
        let rule = format!("its trial of {moved} more is {verdict}: {gained:+.1} CPUs busy in all");
        notes[taker].reasons.push(Reason::Model { rule });
        Some(())
    }

    /// Moves a few CPUs to the application that uses its own best, if that is promising.
    fn try_next(
        &mut self,
        used: &[f64],
        entitled: &[Entitlement],
        snapshot: &Snapshot<'_>,
        accounts: &mut CpuAccounting,
        notes: &mut [Note],
    ) {
        let wants = |place: usize| {
            let refused = self.state.members.at(place).refused_at;
            used[place] >= BUSY
                && !entitled[place].fixed
                && accounts.count(place) < entitled[place].max
                && refused.is_none_or(|at| (used[place] - at).abs() > DIFFERENT)
        };
        let places = 0..used.len();
        let Some(taker) = places
            .clone()
            .filter(|&i| wants(i))
            .min_by(|&a, &b| used[b].total_cmp(&used[a]))
        else {
            return;
        };
        let room = entitled[taker].max - accounts.count(taker);
        let step = self
            .config
            .step_for(self.state.usable, entitled[taker].fair)
            .min(room);
        let idlest = places
            .filter(|&i| {
                i != taker
                    && !entitled[i].fixed
                    && accounts.count(i) > entitled[i].min
                    && used[i] + DIFFERENT < used[taker]
            })
            .min_by(|&a, &b| used[a].total_cmp(&used[b]));
        let from = match (accounts.free(), idlest) {
            (1.., _) => Holder::Pool,
            (0, Some(giver)) => Holder::App(giver),
            (0, None) => return,
        };
        let most = match from {
            Holder::Pool => step,
            Holder::App(giver) => step.min(accounts.count(giver) - entitled[giver].min),
        };
        let busy_before = busy(used, accounts);
        let before = accounts.count(taker);
        let cpus = accounts.shift(from, Holder::App(taker), most);
        let taker_id = snapshot.apps[taker].app;
        let giver = match from {
            Holder::Pool => None,
            Holder::App(giver) => {
                let rule = format!(
                    "keeps {:.0} % of its CPUs busy, the taker {:.0} %",
                    100.0 * used[giver],
                    100.0 * used[taker]
                );
                notes[giver].reasons.push(Reason::Model { rule });
                Some(snapshot.apps[giver].app)
            }
        };
        notes[taker].reasons.push(Reason::Exploring {
            from: before,
            to: before + cpus,
            // Bottlenecks play no part.
            bottleneck: Bottleneck::None,
        });
        self.state.trial = Some(Trial {
            giver,
            taker: taker_id,
            cpus,
            busy_before,
        });
    }
}

/// CPUs busy in all, by the utilisation of what each held when it was measured.
fn busy(used: &[f64], accounts: &CpuAccounting) -> f64 {
    used.iter()
        .enumerate()
        .map(|(place, used)| used * f64::from(accounts.before(place)))
        .sum()
}

impl AllocationPolicy for Scalability {
    fn name(&self) -> &'static str {
        NAME
    }

    fn allocate(&mut self, snapshot: &Snapshot<'_>) -> Allocation {
        if !accounting::fits(snapshot) {
            self.state = State::default();
            return accounting::pool(snapshot);
        }
        let usable = snapshot.usable.len();
        let Opening {
            entitled,
            mut accounts,
            mut notes,
            situation,
        } = opening::open(
            snapshot,
            self.config.min_cpus,
            &mut self.state.members,
            &mut self.state.entitled,
            &mut self.state.usable,
        );
        if situation == Situation::Changed {
            self.state.trial = None;
            let targets = fair::full_shares(usable, &entitled);
            accounts.settle(&targets);
            notes = fair::notes(snapshot, &entitled, &targets);
            for member in self.state.members.iter_mut() {
                member.refused_at = None;
            }
        } else {
            let used: Option<Vec<f64>> = snapshot
                .apps
                .iter()
                .map(|app| app.profile.utilisation.filter(|u| u.is_finite()))
                .collect();
            match used {
                Some(used) if snapshot.trigger == Trigger::Interval => {
                    match self.state.trial.take() {
                        Some(trial) => {
                            self.judge(trial, &used, &mut accounts, &mut notes);
                        }
                        None => {
                            self.try_next(&used, &entitled, snapshot, &mut accounts, &mut notes);
                        }
                    }
                }
                // Not every application was measured: a comparison would mean nothing.
                _ => {}
            }
        }
        accounts.explain_transfers(&mut notes);
        for (place, note) in notes.iter_mut().enumerate() {
            self.state.members.at_mut(place).cpus = accounts.count(place);
            note.state = match self.state.trial {
                Some(trial) if trial.taker == snapshot.apps[place].app => "exploring",
                _ => "steady",
            };
            if note.reasons.is_empty() {
                note.reasons.push(Reason::Steady);
            }
        }
        accounts.close(notes)
    }

    fn save(&self) -> PolicyState {
        PolicyState::of(NAME, &self.state)
    }

    fn restore(&mut self, state: &PolicyState) -> Result<(), RestoreError> {
        self.state = state.read(NAME)?;
        Ok(())
    }
}
