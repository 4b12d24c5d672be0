//! Growth within a decision: the round in which CPUs change hands, what is remembered of it, and the
//! trials of the applications that grew [MAPPER §3.3, readings "State machine" step 6].

use super::decision::Decision;
use super::member::Source;
use super::metrics::{self, Metrics};
use super::stealing::{self, Bidder, Move, Passes, Purpose};
use crate::accounting::Holder;
use mapper_model::Reason;

impl Decision<'_> {
    /// Runs the round in which CPUs change hands, and starts the trials of those that grow. `bidder` gives
    /// each application's part in it. Returns the trial requests that could not be met.
    pub(crate) fn run_round(&mut self, bidder: impl Fn(&Self, usize, &Metrics) -> Bidder) -> u32 {
        if self.scratch.iter().all(|s| s.want == 0) {
            return 0;
        }
        let metrics: Vec<Metrics> = (0..self.len())
            .map(|place| self.kept_metrics(place))
            .collect();
        let bidders: Vec<Bidder> = metrics
            .iter()
            .enumerate()
            .map(|(place, metrics)| bidder(self, place, metrics))
            .collect();
        let budget = self.config.budget(self.usable, self.cpus_per_socket);
        let round = stealing::round(self.free(), &bidders, Passes::All { budget });
        for step in &round.moves {
            let from = step.from.map_or(Holder::Pool, Holder::App);
            self.accounts.shift(from, Holder::App(step.to), step.cpus);
            self.record(step, &metrics, &bidders);
        }
        let mut unmet = 0;
        for (place, bidder) in bidders.iter().enumerate() {
            unmet += self.begin_growth(place, bidder.cur, &round.moves);
        }
        unmet
    }

    /// An application's part in a round by equations 5 and 6. An efficiency that the curve already gives
    /// for the requested count counts too: otherwise two applications could take the same CPUs from each
    /// other for ever.
    pub(crate) fn bidder(&self, place: usize, metrics: &Metrics, spare: u32) -> Bidder {
        let scratch = &self.scratch[place];
        let cur = self.count(place);
        let shielded = scratch.fixed || scratch.moved || self.is_exploring(place);
        let foreseen = (scratch.want > 0)
            .then(|| metrics::interpolated(self.curve(place), cur + scratch.want, self.value))
            .flatten()
            .zip(metrics.max_eff.filter(|max| *max > 0.0))
            .map(|(p, max)| p / f64::from(cur + scratch.want) / max);
        Bidder {
            cur,
            fair: if shielded {
                scratch.fair.max(cur)
            } else {
                scratch.fair
            },
            want: scratch.want,
            norm_eff: match (metrics.norm_eff, foreseen) {
                (Some(now), Some(then)) => Some(now.min(then)),
                (now, _) => now,
            },
            spare,
            ..Bidder::default()
        }
    }

    /// Records why CPUs moved, and remembers gifts.
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
        self.scratch[giver].moved = true;
        self.members.at_mut(giver).restart_samples(now);
        if step.purpose == Purpose::Reclaim {
            self.members.at_mut(giver).forgo(cpus);
            self.say(giver, Reason::ReclaimedBy { taker, cpus });
            let from = Some(giver_id);
            self.say(step.to, Reason::Reclaimed { from, cpus });
            return;
        }
        let [taker_eff, own_eff] = [step.to, giver].map(|i| bidders[i].norm_eff.unwrap_or(0.0));
        let expected = metrics::interpolated(self.curve(giver), now, self.value).or_else(|| {
            let before = bidders[giver].cur.max(1);
            metrics[giver]
                .performance
                .map(|p| p * f64::from(now) / f64::from(before))
        });
        // Declared spare CPUs are given whatever was promised.
        let spare_cpus = self.app(giver).profile.spare_cpus;
        let offered = spare_cpus.is_some_and(|spare| spare > 0);
        let promised = metrics[giver].min_guaranteed.filter(|_| !offered);
        let member = self.members.at_mut(giver);
        if let Some(loans) = &mut member.loans {
            loans.lend(taker, cpus);
        } else {
            member.give(taker, cpus);
            // Others use these CPUs better: it does not ask for them back.
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

    /// Starts the trial of an application that grew. Returns its unmet request.
    fn begin_growth(&mut self, place: usize, from: u32, moves: &[Move]) -> u32 {
        let cpus = self.count(place);
        let want = self.scratch[place].want;
        let unmet = want.saturating_sub(cpus.saturating_sub(from));
        if want == 0 || cpus < from {
            return 0;
        }
        if cpus > from {
            self.scratch[place].moved = true;
            self.members.at_mut(place).modest = false;
        }
        if !self.scratch[place].on_trial {
            if cpus > from {
                self.members.at_mut(place).restart_samples(cpus);
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
        self.begin_trial(place, before, sources);
        unmet
    }
}
