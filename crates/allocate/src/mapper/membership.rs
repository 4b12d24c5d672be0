//! What happens to counts when somebody comes or goes [readings R3.13, R3.14].
//!
//! A newcomer gets its fair share at once: from the free CPUs, then from those that hold more than
//! their new, smaller fair shares, the largest excess first; nobody is cut below his fair share.
//! When somebody leaves, his CPUs go to the free pool and the fair shares of the others rise.
//!
//! These two are MAPPER's rules as pure functions. The policy goes one step further after a
//! departure and brings those below their risen fair share up to it in the same step, because that
//! is what they are promised; what lies beyond they have to explore.

use super::stealing::{self, Bidder, Passes, Round};
use crate::shares::{self, FairShares};

/// One application.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Member {
    /// CPUs it holds; 0 for a newcomer.
    pub cpus: u32,
    /// Its weight.
    pub weight: f64,
}

/// What came of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The fair shares after it.
    pub fair: FairShares,
    /// Counts and moves.
    pub round: Round,
}

/// Gives newcomers (those without CPUs) their fair shares.
#[must_use]
pub fn arrival(contexts: u32, members: &[Member], min: u32) -> Outcome {
    change(contexts, members, min, |member, fair| {
        if member.cpus == 0 { fair } else { 0 }
    })
}

/// After somebody left: the shares of those who stay, who keep their counts.
#[must_use]
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
    fn the_cpus_of_one_who_left_are_free_and_fair_shares_rise() {
        let outcome = departure(80, &members(&[26, 26]), 1);
        assert_eq!(outcome.fair.shares, [40, 40]);
        assert_eq!(outcome.round.counts, [26, 26]);
        assert_eq!(outcome.round.free, 28);
    }
}
