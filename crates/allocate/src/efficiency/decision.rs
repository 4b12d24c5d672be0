//! One decision while it is being made: the CPU accounts, and a scratch entry for every application.

use super::exploration::{self, Direction, Reference, Stride};
use super::member::{Member, Mode, Source, Standing, Trial};
use super::metrics::{self, HistoryVeto, Metrics, MetricsRules, PointValue};
use crate::accounting::{CpuAccounting, Holder, Note};
use crate::config::AllocationConfig;
use crate::entitlement;
use crate::table::AppTable;
use mapper_model::{
    Allocation, AppId, AppView, Bottleneck, Noise, PerformanceCurve, Reason, Snapshot,
};

/// Intervals without a sample after which a trial ends.
const GIVEN_UP_AFTER: u32 = 10;

/// The state of one application during a decision.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) fair: u32,
    pub(crate) min: u32,
    pub(crate) max: u32,
    /// It keeps its count whatever happens.
    pub(crate) fixed: bool,
    /// The sample of the interval, if there is one at the count it held.
    pub(crate) fresh: Option<f64>,
    /// CPUs it is owed or wants to try.
    pub(crate) want: u32,
    pub(crate) on_trial: bool,
    pub(crate) new_phase: bool,
    /// A trial of fewer CPUs has just been undone.
    pub(crate) returned: bool,
    /// It gave or took in this decision, and does nothing more in it.
    pub(crate) moved: bool,
    pub(crate) reasons: Vec<Reason>,
    noise: Noise,
    metrics: Option<KnownMetrics>,
}

/// Metrics at a count.
#[derive(Clone, Copy, Debug)]
struct KnownMetrics {
    cpus: u32,
    metrics: Metrics,
}

/// A decision while it is being made.
pub(crate) struct Decision<'t> {
    pub(crate) config: &'t AllocationConfig,
    pub(crate) snapshot: &'t Snapshot<'t>,
    pub(crate) members: &'t mut AppTable<Member>,
    pub(crate) accounts: CpuAccounting,
    pub(crate) scratch: Vec<Scratch>,
    pub(crate) usable: u32,
    pub(crate) cpus_per_socket: u32,
    /// What counts as performance at a count.
    pub(crate) value: PointValue,
}

impl<'t> Decision<'t> {
    pub(crate) fn open(
        config: &'t AllocationConfig,
        snapshot: &'t Snapshot<'t>,
        members: &'t mut AppTable<Member>,
        value: PointValue,
    ) -> Self {
        let scratch = entitlement::entitlements(snapshot, config.min_cpus)
            .into_iter()
            .zip(snapshot.apps)
            .map(|(entitled, app)| Scratch {
                noise: app.profile.curve.noise(),
                fair: entitled.fair,
                min: entitled.min,
                max: entitled.max,
                fixed: entitled.fixed,
                ..Scratch::default()
            })
            .collect();
        Self {
            config,
            snapshot,
            members,
            accounts: CpuAccounting::open(snapshot),
            scratch,
            usable: snapshot.usable.len(),
            cpus_per_socket: snapshot.topology.most_in_a_socket(snapshot.usable),
            value,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.scratch.len()
    }

    pub(crate) fn app(&self, place: usize) -> &'t AppView<'t> {
        &self.snapshot.apps[place]
    }

    pub(crate) fn id(&self, place: usize) -> AppId {
        self.snapshot.apps[place].app
    }

    pub(crate) fn curve(&self, place: usize) -> &'t PerformanceCurve {
        &self.snapshot.apps[place].profile.curve
    }

    pub(crate) fn count(&self, place: usize) -> u32 {
        self.accounts.count(place)
    }

    pub(crate) fn place_of(&self, app: AppId) -> Option<usize> {
        self.members.place_of(app)
    }

    pub(crate) fn say(&mut self, place: usize, reason: Reason) {
        self.scratch[place].reasons.push(reason);
    }

    pub(crate) fn noise(&self, place: usize) -> Noise {
        self.scratch[place].noise
    }

    pub(crate) fn metrics(&self, place: usize) -> Metrics {
        let rules = self.metrics_rules(place);
        Metrics::of(self.curve(place), self.count(place), &rules)
    }

    pub(crate) fn metrics_rules(&self, place: usize) -> MetricsRules {
        MetricsRules {
            fair: self.scratch[place].fair,
            qos: self.app(place).spec.qos.get(),
            veto: HistoryVeto::Obeyed,
            value: self.value,
            noise: match self.value {
                PointValue::LastTwo => Noise::default(),
                PointValue::Running => self.noise(place),
            },
        }
    }

    /// The same, kept for as long as the count stays as it is.
    pub(crate) fn kept_metrics(&mut self, place: usize) -> Metrics {
        let cpus = self.count(place);
        match self.scratch[place].metrics {
            Some(kept) if kept.cpus == cpus => kept.metrics,
            _ => {
                let metrics = self.metrics(place);
                self.scratch[place].metrics = Some(KnownMetrics { cpus, metrics });
                metrics
            }
        }
    }

    /// What an application can spare now: nothing while it is measured, tries, holds off or is fixed;
    /// never below its limits or to a count at which its promise broke.
    pub(crate) fn spare(&self, place: usize, known: &Metrics) -> u32 {
        let (scratch, member) = (&self.scratch[place], self.members.at(place));
        let cpus = self.count(place);
        if scratch.fixed || scratch.moved || member.holdoff > 0 || member.mode != Mode::Steady {
            return 0;
        }
        let mut spare = known.spare.min(cpus.saturating_sub(scratch.min));
        if member.broken_at > 0 && member.broken_at < cpus {
            spare = spare.min(cpus - member.broken_at - 1);
        }
        // Where the counts around show that the promise would break, equation 5 is too bold.
        let breaks = |spare: u32| {
            metrics::interpolated(self.curve(place), cpus - spare, self.value)
                .zip(known.min_guaranteed)
                .is_some_and(|(expected, floor)| expected < floor)
        };
        while spare > 0 && breaks(spare) {
            spare -= 1;
        }
        spare
    }

    pub(crate) fn known(&self, place: usize, cpus: u32) -> Option<Reference> {
        let point = self.curve(place).at(cpus)?;
        Some(Reference {
            cpus,
            estimate: point.estimate(),
        })
    }

    pub(crate) fn base_step(&self, place: usize) -> u32 {
        self.config.step_for(self.usable, self.scratch[place].fair)
    }

    /// The steps of an application's counts: whole sockets if it shares data heavily, else this many.
    pub(crate) fn stride(&self, place: usize, below: u32, by: u32) -> Stride {
        if self.app(place).profile.bottleneck == Bottleneck::Sharing {
            return Stride::Sockets {
                cpus_per_socket: self.cpus_per_socket,
                below,
            };
        }
        Stride::Cpus(by)
    }

    /// The next count of an application in a direction, within its limits.
    pub(crate) fn next_count(&self, place: usize, direction: Direction, stride: Stride) -> u32 {
        let scratch = &self.scratch[place];
        let next = exploration::step(self.count(place), direction, stride, self.usable);
        next.min(scratch.max)
            .max(scratch.min.min(self.count(place)))
            .max(1)
    }

    /// The trial of an application that can be judged now. A trial is interrupted by a change of phase,
    /// and undone when nothing is measured for many intervals.
    pub(crate) fn measured_trial(&mut self, place: usize) -> Option<Trial> {
        let Mode::Exploring(trial) = &mut self.members.at_mut(place).mode else {
            return None;
        };
        let to = trial.before.cpus;
        if self.scratch[place].new_phase {
            // What it is compared with belongs to another phase.
            self.interrupt(place);
            return None;
        }
        if self.scratch[place].fresh.is_none() {
            trial.waited += 1;
            if trial.waited >= GIVEN_UP_AFTER {
                self.go_back(place);
                self.say(place, Reason::Returned { to, gain: 0.0 });
            }
            return None;
        }
        trial.waited = 0;
        Some(trial.clone())
    }

    /// Starts to try fewer CPUs, but not as few as are known to break the promise. `in_vain`: whether the
    /// curve already shows that a count would cost too much.
    pub(crate) fn try_fewer(
        &mut self,
        place: usize,
        target: u32,
        in_vain: impl Fn(&Self, usize, u32) -> bool,
    ) {
        let cpus = self.count(place);
        let target = target.max(self.members.at(place).broken_at + 1);
        let Some(before) = self.known(place, cpus) else {
            return;
        };
        // Not twice in one decision: an interval at the old count lies between two trials.
        if target >= cpus || self.scratch[place].returned || in_vain(self, place, target) {
            return;
        }
        self.accounts.resize(place, target);
        self.scratch[place].moved = true;
        self.begin_trial(place, before, Vec::new());
    }

    pub(crate) fn begin_trial(&mut self, place: usize, before: Reference, sources: Vec<Source>) {
        let cpus = self.count(place);
        let member = self.members.at_mut(place);
        member.mode = Mode::Exploring(Trial {
            before,
            sources,
            waited: 0,
        });
        member.restart_samples(cpus);
        let reason = Reason::Exploring {
            from: before.cpus,
            to: cpus,
            bottleneck: self.app(place).profile.bottleneck,
        };
        self.say(place, reason);
    }

    /// Whether an application tries another count; its count must not change then.
    pub(crate) fn is_exploring(&self, place: usize) -> bool {
        matches!(self.members.at(place).mode, Mode::Exploring(_))
    }

    /// CPUs that applications which try fewer may need back.
    pub(crate) fn reserved(&self) -> u32 {
        (0..self.len())
            .map(|place| match &self.members.at(place).mode {
                Mode::Exploring(trial) => trial.before.cpus.saturating_sub(self.count(place)),
                Mode::Measuring { .. } | Mode::Steady => 0,
            })
            .sum()
    }

    /// CPUs nobody holds or may need back.
    pub(crate) fn free(&self) -> u32 {
        self.accounts.free().saturating_sub(self.reserved())
    }

    /// Ends a trial that has lost its meaning.
    pub(crate) fn interrupt(&mut self, place: usize) {
        if let Mode::Exploring(trial) = &self.members.at(place).mode {
            let to = trial.before.cpus;
            self.go_back(place);
            self.say(place, Reason::Interrupted { to });
        }
    }

    /// Returns an application to the count before its trial, and CPUs of an upward trial to their sources.
    pub(crate) fn go_back(&mut self, place: usize) {
        let Mode::Exploring(trial) = &self.members.at(place).mode else {
            return;
        };
        let (from, sources) = (trial.before.cpus, trial.sources.clone());
        self.members.at_mut(place).settle();
        let cpus = self.count(place);
        if cpus < from {
            self.accounts.resize(place, from);
        } else {
            self.give_back(place, cpus - from, &sources);
        }
        let cpus = self.count(place);
        self.members.at_mut(place).restart_samples(cpus);
    }

    fn give_back(&mut self, place: usize, cpus: u32, sources: &[Source]) {
        let mut surplus = cpus;
        let taker = self.id(place);
        for source in sources {
            let Some(giver) = source.giver.and_then(|id| self.place_of(id)) else {
                continue;
            };
            let room = self.scratch[giver].max.saturating_sub(self.count(giver));
            // A giver that tries fewer CPUs itself does not need them.
            if self.is_exploring(giver) || self.scratch[giver].fixed {
                continue;
            }
            let part = surplus.min(source.cpus).min(room);
            let (from, to) = (Holder::App(place), Holder::App(giver));
            let got = self.accounts.shift(from, to, part);
            surplus -= got;
            if got > 0 {
                let cpus = self.count(giver);
                self.members.at_mut(giver).take_back(taker, got);
                self.members.at_mut(giver).restart_samples(cpus);
                self.scratch[giver].moved = true;
                let from = Some(taker);
                self.say(giver, Reason::Reclaimed { from, cpus: got });
            }
        }
        self.accounts
            .shift(Holder::App(place), Holder::Pool, surplus);
    }

    /// The decision. `spare` gives what an application can spare now.
    pub(crate) fn close(mut self, spare: impl Fn(&Self, usize, &Metrics) -> u32) -> Allocation {
        let mut notes = Vec::with_capacity(self.len());
        for place in 0..self.len() {
            let metrics = self.kept_metrics(place);
            let spare = spare(&self, place, &metrics);
            let cpus = self.count(place);
            let member = self.members.at_mut(place);
            let scratch = &mut self.scratch[place];
            if member.here.cpus != cpus {
                member.restart_samples(cpus);
            }
            member.cpus = cpus;
            member.fair = scratch.fair;
            member.standing = Standing::Known;
            let mut reasons = std::mem::take(&mut scratch.reasons);
            if scratch.fixed {
                reasons.push(Reason::NeverResized);
            }
            let state = match &member.mode {
                Mode::Measuring { done } => {
                    reasons.push(Reason::Measuring {
                        done: *done,
                        wanted: self.config.initial_intervals,
                    });
                    "measuring"
                }
                Mode::Exploring(trial) => {
                    if reasons.is_empty() {
                        reasons.push(Reason::Exploring {
                            from: trial.before.cpus,
                            to: cpus,
                            bottleneck: member.bottleneck,
                        });
                    }
                    "exploring"
                }
                Mode::Steady => {
                    let intervals = member.holdoff;
                    if intervals > 0 {
                        reasons.push(Reason::HoldingOff { intervals });
                    }
                    if reasons.is_empty() {
                        reasons.push(Reason::Steady);
                    }
                    "steady"
                }
            };
            notes.push(Note {
                fair: scratch.fair,
                floor: metrics.min_guaranteed,
                spare,
                norm_eff: metrics.norm_eff,
                state,
                by_node: None,
                reasons,
            });
        }
        self.accounts.close(notes)
    }
}
