//! Wishes within a decision: who tries what, the round in which CPUs change hands, and what is done
//! about wishes that could not be met [MAPPER §3.3, readings "State machine" steps 5 and 6].
//!
//! What is not in the paper: *demand*. Two applications that were only ever seen at their fair
//! shares both have a normalized efficiency of 1, so neither may take from the other, however
//! differently they scale. So when somebody asks for CPUs that nobody can spare, the others try
//! fewer for a while: who is about as good with fewer keeps that and frees the rest, who is not
//! returns at once, and both now have an efficiency that means something. While an application tries
//! fewer, the CPUs it may need back are given to nobody. [`Initiative::Paper`] switches this off.

use super::exploration::{self, Direction};
use super::fit;
use super::metrics::{self, Metrics};
use super::state::{Mode, Source, Trial};
use super::stealing::{self, Bidder, Move, Passes, Purpose, Scaling};
use super::turn::Turn;
use crate::config::Initiative;
use crate::ledger::Holder;
use mapper_model::{Activity, Confidence, PhaseChange, Reason};

/// Standard errors by which an expectation must fall short for a trial to be spared.
const BEYOND_DOUBT: f64 = 2.0;

impl Turn<'_> {
    /// Decides what a steady application tries: fewer CPUs at once, or more, for which it asks.
    pub(super) fn aspire(&mut self, place: usize) {
        let bottleneck = self.app(place).profile.bottleneck;
        let cpus = self.count(place);
        if self.sheets[place].moved
            // It has nothing to do with more, and shows nothing with fewer.
            || self.is_idle(place)
            || self.sheets[place].fixed
            || self.sheets[place].want > 0
            || self.declared(place) > 0
            || self.is_serial(place)
            || self.members.at(place).mode != Mode::Steady
            || self.known(place, cpus).is_none()
        {
            return;
        }
        let at_random = self
            .config
            .reexplore_at_random
            .is_some_and(|chance| chance.happens(self.id(place), self.snapshot));
        let member = self.members.at_mut(place);
        member.steady_for += 1;
        let due = self
            .config
            .reexplore_every
            .is_some_and(|period| member.steady_for >= period.max(1))
            || at_random;
        if due {
            member.up.renew();
            member.down.renew();
        }
        let direction = exploration::direction(bottleneck, cpus, self.cpus_per_socket);
        let wanted = match (self.config.initiative, direction) {
            (_, Direction::Stay) => false,
            (Initiative::Paper, _) => {
                let changed = self.app(place).profile.phase == PhaseChange::Changed;
                due || changed || self.members.at(place).streak > 0
            }
            (Initiative::Demand, Direction::More) => self.members.at(place).up.open_above(cpus),
            (Initiative::Demand, Direction::Fewer) => self.members.at(place).down.open_below(cpus),
        };
        if !wanted {
            return;
        }
        let target = self.target(place, direction);
        match direction {
            Direction::Fewer => self.try_fewer(place, target),
            Direction::More if target > cpus => {
                self.sheets[place].want = target - cpus;
                self.sheets[place].on_trial = true;
            }
            Direction::More | Direction::Stay => {}
        }
        // The printed rules go on in the same direction only right after a success.
        if self.config.initiative == Initiative::Paper {
            self.members.at_mut(place).streak = 0;
            self.members.at_mut(place).steady_for = 0;
        }
    }

    fn is_idle(&self, place: usize) -> bool {
        self.app(place).profile.activity == Activity::Idle
    }

    /// The next count of an application in a direction, within its limits.
    fn target(&self, place: usize, direction: Direction) -> u32 {
        let sheet = &self.sheets[place];
        let next = exploration::step(
            self.count(place),
            direction,
            self.stride(place, direction),
            self.usable,
        );
        next.min(sheet.max)
            .max(sheet.min.min(self.count(place)))
            .max(1)
    }

    /// Begins to try fewer CPUs.
    fn try_fewer(&mut self, place: usize, target: u32) {
        let cpus = self.count(place);
        // Not where the promise is known to break.
        let target = target.max(self.members.at(place).broken_at + 1);
        let Some(before) = self.known(place, cpus) else {
            return;
        };
        // Not again in the same decision: an interval at the old count lies between two trials.
        if target >= cpus || self.sheets[place].returned || self.surely_in_vain(place, target) {
            return;
        }
        self.ledger
            .shift(Holder::App(place), Holder::Pool, cpus - target);
        self.members.at_mut(place).mode = Mode::Exploring(Trial {
            before,
            sources: Vec::new(),
            waited: 0,
        });
        self.members.at_mut(place).settle_at(target);
        self.sheets[place].moved = true;
        let bottleneck = self.app(place).profile.bottleneck;
        self.say(
            place,
            Reason::Exploring {
                from: cpus,
                to: target,
                bottleneck,
            },
        );
    }

    /// Whether the curve tells beyond doubt, without a trial, that fewer CPUs would cost too much.
    fn surely_in_vain(&self, place: usize, target: u32) -> bool {
        let rules = self.metrics_rules(place);
        let (curve, cpus) = (self.curve(place), self.count(place));
        let Some(fit) = fit::around(curve, cpus, rules.noise) else {
            return false;
        };
        let (Some(slope), Some(best)) = (fit.elasticity, metrics::best(curve, &rules)) else {
            return false;
        };
        let distance = (f64::from(target) / f64::from(cpus)).ln();
        let expected = fit.performance * (slope.value * distance).exp();
        let error = (slope.standard_error * distance)
            .hypot(fit.relative_error)
            .hypot(best.relative_error);
        let wanted = (1.0 - self.config.threshold) * best.performance;
        expected * (1.0 + BEYOND_DOUBT * error) < wanted
    }

    /// Holds the round in which CPUs change hands, and begins the trials of those who grow. Returns
    /// what was asked for on trial and not to be had.
    pub(super) fn hold_round(&mut self) -> u32 {
        if self.sheets.iter().all(|s| s.want == 0) {
            return 0;
        }
        let metrics: Vec<Metrics> = (0..self.len())
            .map(|place| self.kept_metrics(place))
            .collect();
        let bidders: Vec<Bidder> = metrics
            .iter()
            .enumerate()
            .map(|(place, metrics)| self.bidder(place, metrics))
            .collect();
        let budget = self.config.budget(self.usable, self.cpus_per_socket);
        let round = stealing::round(self.free(), &bidders, Passes::All { budget });
        let before: Vec<u32> = bidders.iter().map(|b| b.cur).collect();
        for step in &round.moves {
            let from = step.from.map_or(Holder::Pool, Holder::App);
            self.ledger.shift(from, Holder::App(step.to), step.cpus);
            self.record(step, &metrics, &bidders);
        }
        let mut unmet = 0;
        for (place, from) in before.into_iter().enumerate() {
            unmet += self.begin_growth(place, from, &round.moves);
        }
        unmet
    }

    fn bidder(&self, place: usize, metrics: &Metrics) -> Bidder {
        let sheet = &self.sheets[place];
        let cur = self.count(place);
        let shielded = sheet.fixed || sheet.moved || self.reserves(place);
        // Where the curve already tells how efficient it would be at the count it asks for, that
        // counts: otherwise two applications could take the same CPUs from each other for ever.
        let foreseen = (sheet.want > 0)
            .then(|| metrics::interpolated(self.curve(place), cur + sheet.want, self.value()))
            .flatten()
            .zip(metrics.max_eff.filter(|max| *max > 0.0))
            .map(|(p, max)| p / f64::from(cur + sheet.want) / max);
        let norm_eff = match (metrics.norm_eff, foreseen) {
            // What it says it does not need is no use to it at all.
            _ if self.declared(place) > 0 => Some(0.0),
            (Some(now), Some(then)) => Some(now.min(then)),
            (now, _) => now,
        };
        let spare = self.spare(place, metrics);
        Bidder {
            cur,
            fair: if shielded {
                sheet.fair.max(cur)
            } else {
                sheet.fair
            },
            want: sheet.want,
            norm_eff,
            margin: self.efficiency_margin(place, metrics),
            // Looked at only in those who ask or can give.
            scaling: (sheet.want > 0 || spare > 0)
                .then(|| self.scaling(place))
                .flatten(),
            spare,
        }
    }

    /// Whether an application is in the middle of a trial, in which its count must not change.
    fn reserves(&self, place: usize) -> bool {
        matches!(self.members.at(place).mode, Mode::Exploring(_))
    }

    /// How far off a normalized efficiency may be.
    fn efficiency_margin(&self, place: usize, metrics: &Metrics) -> f64 {
        if self.confidence().is_none() || self.declared(place) > 0 {
            return 0.0;
        }
        let noise = self.noise(place);
        if noise.degrees_of_freedom < 1.0 || metrics.performance.is_none() {
            return 1.0;
        }
        let sure = noise.quantile(Confidence::USUAL);
        metrics.norm_eff.unwrap_or(0.0) * metrics.norm_eff_error * sure
    }

    /// How an application scales around its present count, where its samples scatter.
    fn scaling(&self, place: usize) -> Option<Scaling> {
        // What it says it does not need is no use to it, however it scales.
        if self.confidence().is_none() || self.declared(place) > 0 {
            return None;
        }
        let noise = self.noise(place);
        let slope = fit::around(self.curve(place), self.count(place), noise)?.elasticity?;
        Some(Scaling {
            elasticity: slope.value,
            margin: slope.standard_error * noise.quantile(Confidence::HIGH),
        })
    }

    /// Says why CPUs moved, and remembers gifts.
    fn record(&mut self, step: &Move, metrics: &[Metrics], bidders: &[Bidder]) {
        let taker = self.id(step.to);
        let cpus = step.cpus;
        let Some(giver) = step.from else {
            let reason = match step.purpose {
                Purpose::Reclaim => Reason::Reclaimed { from: None, cpus },
                Purpose::Growth => Reason::TookFree { cpus },
            };
            self.say(step.to, reason);
            return;
        };
        let giver_id = self.id(giver);
        let now = self.count(giver);
        self.sheets[giver].moved = true;
        self.members.at_mut(giver).settle_at(now);
        if step.purpose == Purpose::Reclaim {
            self.members.at_mut(giver).forgo(cpus);
            self.say(giver, Reason::ReclaimedBy { taker, cpus });
            let from = Some(giver_id);
            self.say(step.to, Reason::Reclaimed { from, cpus });
            return;
        }
        let (taker_eff, own_eff) = (
            bidders[step.to].norm_eff.unwrap_or(0.0),
            bidders[giver].norm_eff.unwrap_or(0.0),
        );
        let expected = metrics::interpolated(self.curve(giver), now, self.value()).or_else(|| {
            let before = bidders[giver].cur.max(1);
            metrics[giver]
                .performance
                .map(|p| p * f64::from(now) / f64::from(before))
        });
        // What it says it does not need is given whatever was promised.
        let offered = self
            .app(giver)
            .profile
            .spare_cpus
            .is_some_and(|spare| spare > 0);
        let promised = metrics[giver].min_guaranteed.filter(|_| !offered);
        let member = self.members.at_mut(giver);
        if let Some(loans) = &mut member.loans {
            loans.lend(taker, cpus);
        } else {
            member.give(taker, cpus);
            // It gave because others use these CPUs better: it does not ask for them back.
            member.up.close(now);
        }
        self.say(
            giver,
            Reason::GaveTo {
                taker,
                cpus,
                taker_eff,
                own_eff,
                floor: promised,
                expected,
            },
        );
        self.say(
            step.to,
            Reason::TookFrom {
                giver: giver_id,
                cpus,
                giver_eff: own_eff,
                own_eff: taker_eff,
            },
        );
    }

    /// Begins the trial of an application that grew. Returns what it asked for in vain.
    fn begin_growth(&mut self, place: usize, from: u32, moves: &[Move]) -> u32 {
        let cpus = self.count(place);
        let want = self.sheets[place].want;
        let unmet = want.saturating_sub(cpus.saturating_sub(from));
        if want == 0 || cpus < from {
            return 0;
        }
        if cpus > from {
            self.sheets[place].moved = true;
            self.members.at_mut(place).modest = false;
        }
        if !self.sheets[place].on_trial {
            if cpus > from {
                self.members.at_mut(place).settle_at(cpus);
            }
            return 0;
        }
        let Some(before) = self.known(place, from).filter(|_| cpus > from) else {
            self.say(place, Reason::NothingToSpare { wanted: want });
            return unmet;
        };
        let sources = moves
            .iter()
            .filter(|m| m.to == place)
            .map(|m| Source {
                giver: m.from.map(|giver| self.id(giver)),
                cpus: m.cpus,
            })
            .collect();
        let bottleneck = self.app(place).profile.bottleneck;
        let member = self.members.at_mut(place);
        member.mode = Mode::Exploring(Trial {
            before,
            sources,
            waited: 0,
        });
        member.settle_at(cpus);
        self.say(
            place,
            Reason::Exploring {
                from,
                to: cpus,
                bottleneck,
            },
        );
        unmet
    }

    /// Lets those who could do with less try it, when others ask for more than there is.
    pub(super) fn answer_demand(&mut self, unmet: u32) {
        if self.config.initiative == Initiative::Paper {
            return;
        }
        // Whoever is growing will ask again.
        let growing: u32 = (0..self.len())
            .map(|place| match &self.members.at(place).mode {
                Mode::Exploring(trial) if self.count(place) > trial.before.cpus => {
                    let next = self.target(place, Direction::More);
                    next - self.count(place)
                }
                _ => 0,
            })
            .sum();
        let mut demand = unmet
            .saturating_add(growing)
            .saturating_sub(self.free())
            .saturating_sub(self.reserved())
            .min(self.config.budget(self.usable, self.cpus_per_socket));
        if demand == 0 {
            return;
        }
        for place in 0..self.len() {
            let (sheet, member) = (&self.sheets[place], self.members.at(place));
            let cpus = self.count(place);
            let others_ask = unmet + growing > if sheet.on_trial { sheet.want } else { 0 };
            if demand == 0
                || sheet.moved
                || self.is_idle(place)
                // What it does not need it lends.
                || self.is_serial(place)
                || sheet.fixed
                || member.mode != Mode::Steady
                || member.holdoff > 0
                || !member.down.open_below(cpus)
                || !others_ask
            {
                continue;
            }
            let target = self.target(place, Direction::Fewer);
            self.try_fewer(place, target);
            demand = demand.saturating_sub(cpus - self.count(place));
        }
    }
}
