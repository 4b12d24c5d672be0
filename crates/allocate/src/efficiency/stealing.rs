//! One round in which CPUs change hands [MAPPER §3.3, readings "State machine" step 6].
//!
//! Pass 1, *reclaim*: an application that asks and is below its fair share gets CPUs up to it, from the free ones, then
//! from those above their fair shares, the largest excess first. Pass 2, *growth*: one that still asks, in descending
//! normalized efficiency, gets free CPUs, then what others can spare, the least efficient of them first.
//!
//! Rules: a victim of growth is strictly less efficient than the taker, and gives at most its spare in
//! total; one that received CPUs in this round gives none, one that gave takes none [readings R3.6];
//! partial grants are made down to one CPU [readings R3.3]; growth moves at most the budget. Ties keep
//! the order of arrival. Cost: two sorts; no CPU is handled one by one.

use std::cmp::Reverse;

/// One application in the round.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bidder {
    /// CPUs it holds.
    pub cur: u32,
    /// Its fair share; its present count where nothing may be reclaimed.
    pub fair: u32,
    /// CPUs it asks for.
    pub want: u32,
    /// Its normalized efficiency. Without one it takes no spare CPUs and gives none.
    pub norm_eff: Option<f64>,
    /// The error of that; a victim must be less efficient by more than both margins.
    pub margin: f64,
    /// How it scales around its present count, with an error. It ranks more surely than two efficiencies
    /// close to 1, and replaces the margins where it is known of both.
    pub scaling: Option<Scaling>,
    /// CPUs it can spare.
    pub spare: u32,
}

/// How performance follows the count, with an error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scaling {
    /// Relative change of performance per relative change of the count.
    pub elasticity: f64,
    /// The error of that.
    pub margin: f64,
}

/// Whether a victim is less efficient than a taker beyond doubt.
fn surely_less_efficient(victim: &Bidder, taker: &Bidder) -> bool {
    let (Some(less), Some(more)) = (victim.norm_eff, taker.norm_eff) else {
        return false;
    };
    let beyond = match (victim.scaling, taker.scaling) {
        (Some(victim), Some(taker)) => {
            taker.elasticity - victim.elasticity > taker.margin.hypot(victim.margin)
        }
        _ => less + taker.margin.hypot(victim.margin) < more,
    };
    less < more && beyond
}

/// Why CPUs moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// The taker was below its fair share.
    Reclaim,
    /// The taker grows.
    Growth,
}

/// CPUs that moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The giver's place; `None` is the free pool.
    pub from: Option<usize>,
    /// The taker's place.
    pub to: usize,
    /// How many.
    pub cpus: u32,
    /// Why.
    pub purpose: Purpose,
}

/// The result of a round.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Round {
    /// The counts afterwards.
    pub counts: Vec<u32>,
    /// What moved, in order.
    pub moves: Vec<Move>,
    /// CPUs nobody holds afterwards.
    pub free: u32,
}

/// Which passes are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passes {
    /// Only what is owed changes hands.
    ReclaimOnly,
    /// Both; growth may move this many CPUs.
    All {
        /// The budget.
        budget: u32,
    },
}

/// Runs a round.
pub fn round(free: u32, bidders: &[Bidder], passes: Passes) -> Round {
    let mut table = Table {
        bidders,
        counts: bidders.iter().map(|b| b.cur).collect(),
        gave: vec![0; bidders.len()],
        got: vec![0; bidders.len()],
        moves: Vec::new(),
        free,
    };
    if bidders.iter().any(|b| b.want > 0) {
        table.reclaim();
        if let Passes::All { budget } = passes {
            table.grow(budget);
        }
    }
    Round {
        counts: table.counts,
        moves: table.moves,
        free: table.free,
    }
}

struct Table<'b> {
    bidders: &'b [Bidder],
    counts: Vec<u32>,
    gave: Vec<u32>,
    got: Vec<u32>,
    moves: Vec<Move>,
    free: u32,
}

impl Table<'_> {
    /// Moves up to `cpus` and returns how many.
    fn take(&mut self, from: Option<usize>, to: usize, cpus: u32, purpose: Purpose) -> u32 {
        let available = from.map_or(self.free, |giver| self.counts[giver]);
        let cpus = cpus.min(available);
        if cpus > 0 {
            match from {
                None => self.free -= cpus,
                Some(giver) => {
                    self.counts[giver] -= cpus;
                    self.gave[giver] += cpus;
                }
            }
            self.counts[to] += cpus;
            self.got[to] += cpus;
            self.moves.push(Move {
                from,
                to,
                cpus,
                purpose,
            });
        }
        cpus
    }

    fn reclaim(&mut self) {
        for place in 0..self.bidders.len() {
            let bidder = &self.bidders[place];
            let mut owed = bidder.want.min(bidder.fair.saturating_sub(bidder.cur));
            if owed == 0 {
                continue;
            }
            owed -= self.take(None, place, owed, Purpose::Reclaim);
            while owed > 0 {
                let excess = |i: usize| self.counts[i].saturating_sub(self.bidders[i].fair);
                let richest = (0..self.bidders.len())
                    .filter(|&i| i != place && excess(i) > 0)
                    .max_by_key(|&i| (excess(i), Reverse(i)));
                let Some(giver) = richest else {
                    break;
                };
                let part = owed.min(excess(giver));
                owed -= self.take(Some(giver), place, part, Purpose::Reclaim);
            }
        }
    }

    fn grow(&mut self, mut budget: u32) {
        let bidders = self.bidders;
        let efficiency = |i: usize| bidders[i].norm_eff.unwrap_or(f64::NEG_INFINITY);
        let open = |table: &Self, i: usize| bidders[i].want.saturating_sub(table.got[i]);
        let mut takers: Vec<usize> = (0..bidders.len())
            .filter(|&i| open(self, i) > 0 && self.gave[i] == 0)
            .collect();
        if takers.is_empty() {
            return;
        }
        takers.sort_by(|&a, &b| efficiency(b).total_cmp(&efficiency(a)));
        let mut victims: Vec<usize> = (0..bidders.len())
            .filter(|&i| bidders[i].spare > 0 && bidders[i].norm_eff.is_some())
            .collect();
        victims.sort_by(|&a, &b| efficiency(a).total_cmp(&efficiency(b)));
        // Victims before this one have nothing left.
        let mut first = 0;
        for taker in takers {
            // An earlier taker may have taken from it.
            if self.gave[taker] > 0 {
                continue;
            }
            let mut want = open(self, taker).min(budget);
            let got = self.take(None, taker, want, Purpose::Growth);
            want -= got;
            budget -= got;
            let Some(own) = bidders[taker].norm_eff else {
                continue;
            };
            for (order, &victim) in victims.iter().enumerate().skip(first) {
                if want == 0 || efficiency(victim) >= own {
                    break;
                }
                let spare = bidders[victim].spare.saturating_sub(self.gave[victim]);
                if self.got[victim] > 0 || spare == 0 {
                    if order == first {
                        first += 1;
                    }
                    continue;
                }
                if victim == taker || !surely_less_efficient(&bidders[victim], &bidders[taker]) {
                    continue;
                }
                let got = self.take(Some(victim), taker, want.min(spare), Purpose::Growth);
                want -= got;
                budget -= got;
            }
            if budget == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bidder(cur: u32, want: u32, norm_eff: f64, spare: u32) -> Bidder {
        Bidder {
            cur,
            fair: 40,
            want,
            norm_eff: Some(norm_eff),
            spare,
            ..Bidder::default()
        }
    }

    const ALL: Passes = Passes::All { budget: u32::MAX };

    #[test]
    fn two_takers_share_what_one_can_spare_the_more_efficient_first() {
        let taker = |norm_eff| bidder(20, 4, norm_eff, 0);
        let round = round(0, &[taker(0.8), taker(0.9), bidder(40, 0, 0.4, 6)], ALL);
        // Both are below their fair share of 40, but none is above its own.
        assert_eq!(round.counts, [22, 24, 34]);
    }

    #[test]
    fn an_application_that_received_is_no_victim() {
        let (first, second) = (bidder(40, 4, 0.9, 6), bidder(40, 8, 1.0, 6));
        let round = round(4, &[first, second, bidder(40, 0, 0.95, 0)], ALL);
        // The second takes 4 free ones and 4 from the first, who then gets nothing.
        assert_eq!(round.counts, [36, 48, 40]);
        assert_eq!(round.free, 0);
    }

    #[test]
    fn what_is_owed_comes_from_the_largest_excess() {
        let rich = |cur| bidder(cur, 0, 1.0, 0);
        let bidders = [rich(44), bidder(30, 10, 0.2, 0), rich(46)];
        let round = round(1, &bidders, Passes::ReclaimOnly);
        let moved: Vec<_> = round.moves.iter().map(|m| (m.from, m.cpus)).collect();
        // After five the excess of the third is no longer the largest, but a giver gives in one go.
        assert_eq!(moved, [(None, 1), (Some(2), 6), (Some(0), 3)]);
    }

    #[test]
    fn differences_within_the_margins_move_no_cpus() {
        let mut taker = bidder(40, 4, 0.95, 0);
        let mut victim = bidder(40, 0, 0.90, 6);
        taker.margin = 0.04;
        victim.margin = 0.04;
        assert!(round(0, &[taker, victim], ALL).moves.is_empty());
        victim.margin = 0.01;
        assert_eq!(round(0, &[taker, victim], ALL).counts, [44, 36]);
    }

    #[test]
    fn growth_stops_at_the_budget() {
        let bidders = [bidder(40, 8, 1.0, 0), bidder(40, 0, 0.5, 6)];
        let round = round(5, &bidders, Passes::All { budget: 6 });
        assert_eq!(round.counts, [46, 39]);
    }

    proptest! {
        #[test]
        fn totals_are_conserved_and_no_giver_gives_more_than_it_can_spare(
            free in 0u32..50,
            budget in 0u32..100,
            apps in proptest::collection::vec(
                (1u32..60, 1u32..60, 0u32..12, proptest::option::of(0.0f64..1.0), 0.0f64..0.1, 0u32..80),
                1..12,
            ),
        ) {
            let bidders: Vec<Bidder> = apps
                .iter()
                .map(|&(cur, fair, want, norm_eff, margin, spare)| Bidder {
                    cur,
                    fair,
                    want,
                    norm_eff,
                    margin,
                    scaling: None,
                    spare: spare.min(cur - 1),
                })
                .collect();
            let result = round(free, &bidders, Passes::All { budget });
            let total = |counts: &[u32], free| counts.iter().sum::<u32>() + free;
            let before: Vec<u32> = bidders.iter().map(|b| b.cur).collect();
            prop_assert_eq!(total(&before, free), total(&result.counts, result.free));
            let mut grown = 0;
            for (place, bidder) in bidders.iter().enumerate() {
                let gave: u32 = result.moves.iter().filter(|m| m.from == Some(place)).map(|m| m.cpus).sum();
                let got: u32 = result.moves.iter().filter(|m| m.to == place).map(|m| m.cpus).sum();
                prop_assert!(gave == 0 || got == 0, "{place} gave and got");
                prop_assert!(got <= bidder.want);
                prop_assert_eq!(result.counts[place] + gave, bidder.cur + got);
                let excess = bidder.cur.saturating_sub(bidder.fair);
                prop_assert!(gave <= bidder.spare.max(excess), "{place} gave {gave}");
                prop_assert!(result.counts[place] >= 1);
            }
            for step in &result.moves {
                if step.purpose == Purpose::Growth {
                    grown += step.cpus;
                    if let Some(from) = step.from {
                        let (giver, taker) = (&bidders[from], &bidders[step.to]);
                        prop_assert!(giver.norm_eff.unwrap() < taker.norm_eff.unwrap());
                    }
                }
            }
            prop_assert!(grown <= budget);
        }
    }
}
