//! One decision while it is being made: the books, and a sheet of notes for every application.

use super::exploration::{Direction, Reference, Stride};
use super::metrics::{self, FairReference, Metrics, MetricsRules, PointValue};
use super::state::{Member, Mode, Source, Standing};
use crate::config::{Acceptance, AllocationConfig, Initiative};
use crate::entitlement;
use crate::ledger::{Holder, Ledger, Note};
use crate::roll::Roll;
use mapper_model::{
    Allocation, AppId, AppView, Bottleneck, Confidence, Noise, PerformanceCurve, Reason, Snapshot,
};

/// Standard deviations of a sample by which performance is to differ, if the application scales
/// perfectly, when it tries fewer CPUs.
const CONTRAST: f64 = 3.5;

/// Notes on one application during a decision.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    pub(super) fair: u32,
    pub(super) min: u32,
    pub(super) max: u32,
    /// It keeps its count whatever happens.
    pub(super) fixed: bool,
    /// The sample of the interval, if there is one at the count it held.
    pub(super) fresh: Option<f64>,
    /// CPUs it is owed or wants to try.
    pub(super) want: u32,
    /// What it wants is a trial.
    pub(super) on_trial: bool,
    /// Its performance entered a new phase.
    pub(super) new_phase: bool,
    /// A trial of fewer CPUs has just ended in vain.
    pub(super) returned: bool,
    /// It has given or taken in this decision, and is left alone for the rest of it.
    pub(super) moved: bool,
    pub(super) reasons: Vec<Reason>,
    /// The scatter of its samples.
    noise: Noise,
    /// Its metrics, with the count they are for.
    metrics: Option<KnownMetrics>,
}

/// Metrics at a count.
#[derive(Clone, Copy, Debug)]
struct KnownMetrics {
    cpus: u32,
    metrics: Metrics,
}

/// A decision while it is being made.
pub(super) struct Turn<'t> {
    pub(super) config: &'t AllocationConfig,
    pub(super) snapshot: &'t Snapshot<'t>,
    pub(super) members: &'t mut Roll<Member>,
    pub(super) ledger: Ledger,
    pub(super) sheets: Vec<Sheet>,
    pub(super) usable: u32,
    pub(super) cpus_per_socket: u32,
}

impl<'t> Turn<'t> {
    pub(super) fn open(
        config: &'t AllocationConfig,
        snapshot: &'t Snapshot<'t>,
        members: &'t mut Roll<Member>,
    ) -> Self {
        let sheets = entitlement::entitlements(snapshot, config.min_cpus)
            .into_iter()
            .zip(snapshot.apps)
            .map(|(entitled, app)| Sheet {
                noise: app.profile.curve.noise(),
                fair: entitled.fair,
                min: entitled.min,
                max: entitled.max,
                fixed: entitled.fixed,
                ..Sheet::default()
            })
            .collect();
        Self {
            config,
            snapshot,
            members,
            ledger: Ledger::open(snapshot),
            sheets,
            usable: snapshot.usable.len(),
            cpus_per_socket: snapshot.topology.most_in_a_socket(snapshot.usable),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.sheets.len()
    }

    pub(super) fn app(&self, place: usize) -> &'t AppView<'t> {
        &self.snapshot.apps[place]
    }

    pub(super) fn id(&self, place: usize) -> AppId {
        self.snapshot.apps[place].app
    }

    pub(super) fn curve(&self, place: usize) -> &'t PerformanceCurve {
        &self.snapshot.apps[place].profile.curve
    }

    pub(super) fn count(&self, place: usize) -> u32 {
        self.ledger.count(place)
    }

    pub(super) fn place_of(&self, app: AppId) -> Option<usize> {
        self.members.place_of(app)
    }

    pub(super) fn say(&mut self, place: usize, reason: Reason) {
        self.sheets[place].reasons.push(reason);
    }

    /// What counts as performance at a count.
    pub(super) const fn value(&self) -> PointValue {
        match self.config.acceptance {
            Acceptance::Plain5Percent => PointValue::LastTwo,
            Acceptance::Welch { .. } => PointValue::Running,
        }
    }

    /// The confidence of tests; `None` when the printed rules hold.
    pub(super) const fn confidence(&self) -> Option<Confidence> {
        match self.config.acceptance {
            Acceptance::Plain5Percent => None,
            Acceptance::Welch { confidence, .. } => Some(confidence),
        }
    }

    /// The scatter of an application's samples, where tests are made.
    pub(super) fn noise(&self, place: usize) -> Noise {
        self.sheets[place].noise
    }

    /// The metrics of an application at the count it holds now.
    pub(super) fn metrics(&self, place: usize) -> Metrics {
        Metrics::of(
            self.curve(place),
            self.count(place),
            &self.metrics_rules(place),
        )
    }

    /// The rules by which the metrics of an application are computed.
    pub(super) fn metrics_rules(&self, place: usize) -> MetricsRules {
        MetricsRules {
            fair: self.sheets[place].fair,
            qos: self.app(place).spec.qos.get(),
            veto: self.config.history_veto,
            spare_rule: self.config.spare_rule,
            value: self.value(),
            fair_reference: match self.value() {
                PointValue::LastTwo => FairReference::Measured,
                PointValue::Running => FairReference::Interpolated,
            },
            noise: match self.value() {
                PointValue::LastTwo => Noise::default(),
                PointValue::Running => self.noise(place),
            },
        }
    }

    /// The same, kept for as long as the count stays as it is.
    pub(super) fn kept_metrics(&mut self, place: usize) -> Metrics {
        let cpus = self.count(place);
        match self.sheets[place].metrics {
            Some(kept) if kept.cpus == cpus => kept.metrics,
            _ => {
                let metrics = self.metrics(place);
                self.sheets[place].metrics = Some(KnownMetrics { cpus, metrics });
                metrics
            }
        }
    }

    /// CPUs that an application says it does not need now.
    pub(super) fn declared(&self, place: usize) -> u32 {
        let sheet = &self.sheets[place];
        if sheet.fixed || matches!(self.members.at(place).mode, Mode::Exploring(_)) {
            return 0;
        }
        let beyond_limit = self.count(place).saturating_sub(sheet.min);
        self.app(place)
            .profile
            .spare_cpus
            .map_or(0, |cpus| cpus.min(beyond_limit))
    }

    /// What an application can spare now: what it says itself, if it does; nothing while it is measured, tries, holds off or is fixed;
    /// never below its limits or to a count at which its promise broke.
    pub(super) fn spare(&self, place: usize, known: &Metrics) -> u32 {
        let (sheet, member) = (&self.sheets[place], self.members.at(place));
        let cpus = self.count(place);
        let declared = self.declared(place);
        if declared > 0 && !sheet.moved {
            return declared;
        }
        if sheet.fixed || sheet.moved || member.holdoff > 0 || member.mode != Mode::Steady {
            return 0;
        }
        let mut spare = known.spare.min(cpus.saturating_sub(sheet.min));
        if member.broken_at > 0 && member.broken_at < cpus {
            spare = spare.min(cpus - member.broken_at - 1);
        }
        // Where the counts around already tell that the promise would break, equation 5 is too bold.
        let breaks = |spare: u32| {
            metrics::interpolated(self.curve(place), cpus - spare, self.value())
                .zip(known.min_guaranteed)
                .is_some_and(|(expected, floor)| expected < floor)
        };
        while spare > 0 && breaks(spare) {
            spare -= 1;
        }
        if self.confidence().is_some() && spare < self.base_step(place).div_ceil(2) {
            // Not worth a migration.
            return 0;
        }
        spare
    }

    /// The performance known at a count.
    pub(super) fn known(&self, place: usize, cpus: u32) -> Option<Reference> {
        let point = self.curve(place).at(cpus)?;
        Some(Reference {
            cpus,
            estimate: point.estimate(),
        })
    }

    /// The basic step of an application.
    pub(super) fn base_step(&self, place: usize) -> u32 {
        self.config.step_for(self.usable, self.sheets[place].fair)
    }

    /// By how many CPUs fewer it takes for an application to show how it scales, without breaking
    /// its promise even if it scales perfectly.
    pub(super) fn contrasting_step(&self, place: usize, cpus: u32) -> u32 {
        let noise = match self.config.acceptance {
            Acceptance::Plain5Percent => 0.0,
            Acceptance::Welch { .. } => self.noise(place).relative_sd,
        };
        let cpus = f64::from(cpus);
        let harmless = (1.0 - self.app(place).spec.qos.get()).clamp(0.0, 1.0) * cpus;
        let step = (CONTRAST * noise * cpus).min(harmless) as u32;
        step.max(self.base_step(place))
    }

    /// How an application's counts are stepped through: whole sockets if it shares data heavily;
    /// else its basic step, doubled with each success in a row up to a quarter of what it has, and
    /// as long as it takes to show through the scatter.
    pub(super) fn stride(&self, place: usize, direction: Direction) -> Stride {
        let base = match direction {
            Direction::Fewer if !self.members.at(place).down.tried_in_vain() => {
                self.contrasting_step(place, self.count(place))
            }
            Direction::Fewer => self.base_step(place),
            Direction::Stay | Direction::More => self.base_step(place),
        };
        if self.app(place).profile.bottleneck == Bottleneck::Sharing {
            return Stride::Sockets {
                cpus_per_socket: self.cpus_per_socket,
                below: base,
            };
        }
        let member = self.members.at(place);
        let doubled = if self.config.initiative == Initiative::Demand && member.heading == direction
        {
            base.saturating_mul(1 << member.streak.min(8))
        } else {
            base
        };
        Stride::Cpus(doubled.min(self.count(place) / 4).max(base))
    }

    /// CPUs that applications which try fewer may need back.
    pub(super) fn reserved(&self) -> u32 {
        (0..self.len())
            .map(|place| match &self.members.at(place).mode {
                Mode::Exploring(trial) => trial.before.cpus.saturating_sub(self.count(place)),
                Mode::Measuring { .. } | Mode::Steady => 0,
            })
            .sum()
    }

    /// CPUs nobody holds or may need back.
    pub(super) fn free(&self) -> u32 {
        self.ledger.free().saturating_sub(self.reserved())
    }

    /// Ends a trial that means nothing any more.
    pub(super) fn interrupt(&mut self, place: usize) {
        if let Mode::Exploring(trial) = &self.members.at(place).mode {
            let to = trial.before.cpus;
            self.go_back(place);
            self.say(place, Reason::Interrupted { to });
        }
    }

    /// Returns an application that tries another count to the one before. CPUs of an upward trial go
    /// back to where they came from.
    pub(super) fn go_back(&mut self, place: usize) {
        let Mode::Exploring(trial) = &self.members.at(place).mode else {
            return;
        };
        let (from, sources) = (trial.before.cpus, trial.sources.clone());
        self.members.at_mut(place).be_steady();
        let cpus = self.count(place);
        if cpus < from {
            self.ledger
                .shift(Holder::Pool, Holder::App(place), from - cpus);
        } else {
            self.give_back(place, cpus - from, &sources);
        }
        let cpus = self.count(place);
        self.members.at_mut(place).settle_at(cpus);
    }

    fn give_back(&mut self, place: usize, cpus: u32, sources: &[Source]) {
        let mut surplus = cpus;
        let taker = self.id(place);
        for source in sources {
            let Some(giver) = source.giver.and_then(|id| self.place_of(id)) else {
                continue;
            };
            let room = self.sheets[giver].max.saturating_sub(self.count(giver));
            // A giver that is trying fewer CPUs itself has no use for them.
            let trying = matches!(self.members.at(giver).mode, Mode::Exploring(_));
            if trying || self.sheets[giver].fixed {
                continue;
            }
            let part = surplus.min(source.cpus).min(room);
            let got = self
                .ledger
                .shift(Holder::App(place), Holder::App(giver), part);
            surplus -= got;
            if got > 0 {
                let cpus = self.count(giver);
                self.members.at_mut(giver).take_back(taker, got);
                self.members.at_mut(giver).settle_at(cpus);
                self.sheets[giver].moved = true;
                self.say(
                    giver,
                    Reason::Reclaimed {
                        from: Some(taker),
                        cpus: got,
                    },
                );
            }
        }
        self.ledger.shift(Holder::App(place), Holder::Pool, surplus);
    }

    /// Closes the books and writes the notes down.
    pub(super) fn close(mut self) -> Allocation {
        let mut notes = Vec::with_capacity(self.len());
        for place in 0..self.len() {
            let metrics = self.kept_metrics(place);
            let spare = self.spare(place, &metrics);
            let cpus = self.count(place);
            let member = self.members.at_mut(place);
            let sheet = &mut self.sheets[place];
            if member.here.cpus != cpus {
                member.settle_at(cpus);
            }
            member.cpus = cpus;
            member.fair = sheet.fair;
            member.standing = Standing::Known;
            let mut reasons = std::mem::take(&mut sheet.reasons);
            if sheet.fixed {
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
                    if member.holdoff > 0 {
                        reasons.push(Reason::HoldingOff {
                            intervals: member.holdoff,
                        });
                    }
                    if reasons.is_empty() {
                        reasons.push(Reason::Steady);
                    }
                    "steady"
                }
            };
            notes.push(Note {
                fair: sheet.fair,
                floor: metrics.min_guaranteed,
                spare,
                norm_eff: metrics.norm_eff,
                state,
                by_node: None,
                reasons,
            });
        }
        self.ledger.close(notes)
    }
}
