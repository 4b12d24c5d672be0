//! Counts when an application comes or leaves [readings R3.13, R3.14].
//!
//! A newcomer gets its fair share: from the free CPUs, then from those above their new, smaller fair
//! shares, the largest excess first; no application is cut below its fair share. After a departure the
//! CPUs are free and the fair shares of the others rise.
//!
//! [`arrival`] and [`departure`] are MAPPER's rules as pure functions. After a departure the policies also
//! bring those below their risen fair share up to it, as it is promised ([`reclaim`]).

use super::stealing::{self, Bidder, Passes, Round};
use crate::accounting::{CpuAccounting, Holder};
use crate::shares::{self, FairShares};
use mapper_model::{AppView, Reason};

/// An application before a change.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Member {
    /// CPUs it holds; 0 for a newcomer.
    pub cpus: u32,
    /// Its weight.
    pub weight: f64,
}

/// The result of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The fair shares after it.
    pub fair: FairShares,
    /// Counts and moves.
    pub round: Round,
}

/// Gives newcomers (those without CPUs) their fair shares.
pub fn arrival(contexts: u32, members: &[Member], min: u32) -> Outcome {
    change(contexts, members, min, |member, fair| {
        if member.cpus == 0 { fair } else { 0 }
    })
}

/// After a departure: the shares of those that stay, which keep their counts.
pub fn departure(contexts: u32, members: &[Member], min: u32) -> Outcome {
    change(contexts, members, min, |_, _| 0)
}

fn change(
    contexts: u32,
    members: &[Member],
    min: u32,
    want: impl Fn(&Member, u32) -> u32,
) -> Outcome {
    let weights: Vec<f64> = members.iter().map(|m| m.weight).collect();
    let fair = shares::fair_shares(contexts, &weights, min);
    let bidders: Vec<Bidder> = members
        .iter()
        .zip(&fair.shares)
        .map(|(member, &fair)| Bidder {
            cur: member.cpus,
            fair,
            want: want(member, fair),
            ..Bidder::default()
        })
        .collect();
    let held = members
        .iter()
        .fold(0u32, |sum, m| sum.saturating_add(m.cpus));
    let round = stealing::round(contexts.saturating_sub(held), &bidders, Passes::ReclaimOnly);
    Outcome { fair, round }
}

/// Takes from an application what is beyond its limit, and returns the reason if that is anything.
pub(crate) fn cut_to_limit(
    accounts: &mut CpuAccounting,
    place: usize,
    app: &AppView<'_>,
    max: u32,
) -> Option<Reason> {
    let surplus = accounts.count(place).saturating_sub(max);
    let range = app.spec.cpus;
    (accounts.shift(Holder::App(place), Holder::Pool, surplus) > 0).then(|| Reason::Limited {
        min: range.min(),
        max: range.max(),
    })
}

/// Gives each bidder what it is owed. A newcomer gets no reason for it.
pub(crate) fn reclaim(
    accounts: &mut CpuAccounting,
    apps: &[AppView<'_>],
    bidders: &[Bidder],
    is_newcomer: impl Fn(usize) -> bool,
    mut say: impl FnMut(usize, Reason),
) {
    for step in stealing::round(accounts.free(), bidders, Passes::ReclaimOnly).moves {
        let from = step.from.map_or(Holder::Pool, Holder::App);
        let cpus = accounts.shift(from, Holder::App(step.to), step.cpus);
        let taker = apps[step.to].app;
        if let Some(giver) = step.from {
            say(giver, Reason::ReclaimedBy { taker, cpus });
        }
        if !is_newcomer(step.to) {
            let from = step.from.map(|giver| apps[giver].app);
            say(step.to, Reason::Reclaimed { from, cpus });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(cpus: &[u32]) -> Vec<Member> {
        cpus.iter()
            .map(|&cpus| Member { cpus, weight: 1.0 })
            .collect()
    }

    #[test]
    fn others_are_cut_only_down_to_their_new_fair_share() {
        let outcome = arrival(80, &members(&[50, 30, 0]), 1);
        assert_eq!(outcome.fair.shares, [26, 26, 26]);
        assert_eq!(outcome.round.counts, [26, 28, 26]);
    }

    #[test]
    fn a_newcomer_takes_free_cpus_first() {
        let outcome = arrival(80, &members(&[20, 0]), 1);
        assert_eq!(outcome.round.counts, [20, 40]);
        assert_eq!(outcome.round.free, 20);
    }

    #[test]
    fn after_a_departure_its_cpus_are_free_and_fair_shares_rise() {
        let outcome = departure(80, &members(&[26, 26]), 1);
        assert_eq!(outcome.fair.shares, [40, 40]);
        assert_eq!(outcome.round.counts, [26, 26]);
        assert_eq!(outcome.round.free, 28);
    }
}
