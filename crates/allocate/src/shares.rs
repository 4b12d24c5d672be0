//! Fair shares: how many CPUs each application is owed.
//!
//! [`fair_shares`] is equation 1 of MAPPER: by weight, rounded down [MAPPER §3.3 eq. 1, readings R3.15,
//! R3.18]. [`bounded_shares`] also keeps lower and upper limits, by the rule of flexible boxes in CSS:
//! divide, freeze those that hit a limit, divide again among the rest.
//!
//! Invariants of [`bounded_shares`] for at most as many applications as CPUs: every application gets at least one and
//! at most its upper limit, the sum is at most the number of CPUs, lower limits are kept whenever they fit together.

/// What rounding may take from a product that is a whole number on paper.
const ROUNDING: f64 = 1e-9;

/// Fair shares by equation 1.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FairShares {
    /// One share for each application.
    pub shares: Vec<u32>,
    /// CPUs left over by rounding down.
    pub free: u32,
}

/// Equation 1: `max(min, ⌊C·w/Σw⌋)`.
pub fn fair_shares(contexts: u32, weights: &[f64], min: u32) -> FairShares {
    let total: f64 = weights.iter().sum();
    let shares: Vec<u32> = weights
        .iter()
        .map(|w| portion(contexts, *w, total).max(min))
        .collect();
    let used = shares.iter().fold(0u32, |sum, s| sum.saturating_add(*s));
    FairShares {
        shares,
        free: contexts.saturating_sub(used),
    }
}

fn portion(contexts: u32, weight: f64, total: f64) -> u32 {
    if total > 0.0 {
        (f64::from(contexts) * weight / total + ROUNDING).floor() as u32
    } else {
        0
    }
}

/// What one application may claim.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Claim {
    /// Its weight, above 0.
    pub weight: f64,
    /// The fewest CPUs it is to have.
    pub min: u32,
    /// The most it can use.
    pub max: u32,
}

/// Fair shares within limits, rounded down; one each with more applications than CPUs.
pub fn bounded_shares(contexts: u32, claims: &[Claim]) -> Vec<u32> {
    if claims.len() as u64 >= u64::from(contexts) {
        return vec![1; claims.len()];
    }
    let lower = |claim: &Claim| claim.min.max(1);
    let upper = |claim: &Claim| claim.max.max(1);
    let wanted: u64 = claims
        .iter()
        .map(|c| u64::from(lower(c).min(upper(c))))
        .sum();
    if wanted > u64::from(contexts) {
        // The lower limits do not fit together: share what there is up to them.
        let reduced: Vec<Claim> = claims
            .iter()
            .map(|c| Claim {
                min: 1,
                max: lower(c).min(upper(c)),
                ..*c
            })
            .collect();
        return divide(contexts, &reduced);
    }
    divide(contexts, claims)
}

fn divide(contexts: u32, claims: &[Claim]) -> Vec<u32> {
    let mut shares: Vec<Option<u32>> = vec![None; claims.len()];
    loop {
        let frozen: u32 = shares.iter().flatten().sum();
        let rest = contexts.saturating_sub(frozen);
        let open = |shares: &[Option<u32>]| -> Vec<usize> {
            (0..claims.len()).filter(|&i| shares[i].is_none()).collect()
        };
        let undecided = open(&shares);
        let total: f64 = undecided.iter().map(|&i| claims[i].weight).sum();
        let exact = |i: usize| f64::from(rest) * claims[i].weight / total;
        let limits = |i: usize| {
            let upper = claims[i].max.max(1);
            (claims[i].min.clamp(1, upper), upper)
        };
        let bounded = |i: usize| {
            let (lower, upper) = limits(i);
            exact(i).clamp(f64::from(lower), f64::from(upper))
        };
        // Whether the limits exceed what there is, or leave something over.
        let excess: f64 = undecided.iter().map(|&i| bounded(i) - exact(i)).sum();
        for &i in &undecided {
            let (lower, upper) = limits(i);
            if excess > ROUNDING && exact(i) < f64::from(lower) {
                shares[i] = Some(lower);
            } else if excess < -ROUNDING && exact(i) > f64::from(upper) {
                shares[i] = Some(upper);
            }
        }
        if open(&shares).len() == undecided.len() {
            for &i in &undecided {
                let (lower, upper) = limits(i);
                shares[i] = Some(portion(rest, claims[i].weight, total).clamp(lower, upper));
            }
            return shares.into_iter().map(|s| s.unwrap_or(1)).collect();
        }
    }
}

/// Hands out what rounding left over, one each, to those that were rounded down most; equal ones in
/// order of arrival, none beyond its upper limit.
pub fn hand_out_remainder(contexts: u32, claims: &[Claim], shares: &mut [u32]) {
    let mut left = contexts.saturating_sub(shares.iter().sum());
    while left > 0 {
        let total: f64 = claims.iter().map(|c| c.weight).sum();
        let owed = |i: usize| {
            let exact = f64::from(contexts) * claims[i].weight / total;
            exact - f64::from(shares[i])
        };
        let mut order: Vec<usize> = (0..shares.len())
            .filter(|&i| shares[i] < claims[i].max)
            .collect();
        if order.is_empty() {
            return;
        }
        order.sort_by(|&a, &b| owed(b).total_cmp(&owed(a)));
        order.truncate(left as usize);
        for i in order {
            shares[i] += 1;
            left -= 1;
        }
    }
}

/// The slot of the `place`-th of more applications than CPUs [readings R3.16].
pub const fn slot(place: u32, contexts: u32) -> u32 {
    if contexts == 0 { 0 } else { place % contexts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(weight: f64, min: u32, max: u32) -> Claim {
        Claim { weight, min, max }
    }

    #[test]
    fn weights_divide_the_cpus_and_the_remainder_stays_free() {
        let shares = |contexts, weights: &[f64]| fair_shares(contexts, weights, 1);
        assert_eq!(shares(80, &[1.0, 1.0, 1.0]).shares, [26, 26, 26]);
        assert_eq!(shares(80, &[1.0, 1.0, 1.0]).free, 2);
        assert_eq!(shares(80, &[3.0, 1.0]).shares, [60, 20]);
        // 30 * 0.1 / 0.30000000000000004 is 9.999999999999998.
        assert_eq!(shares(30, &[0.1, 0.2]).shares, [10, 20]);
    }

    #[test]
    fn what_one_cannot_use_the_others_share_and_limits_that_do_not_fit_are_met_in_part() {
        let (any, one) = (u32::MAX, claim(1.0, 1, u32::MAX));
        for (cpus, claims, shares) in [
            (80, &[claim(1.0, 1, 4), one][..], &[4, 76][..]),
            (80, &[claim(1.0, 50, any), one, one], &[50, 15, 15]),
            (8, &[claim(1.0, 6, any), claim(1.0, 6, any)], &[4, 4]),
            (8, &[claim(1.0, 2, any), claim(1.0, 9, any)], &[2, 6]),
        ] {
            assert_eq!(bounded_shares(cpus, claims), shares);
        }
    }

    #[test]
    fn the_remainder_goes_to_those_rounded_down_most() {
        let claims = [
            claim(1.0, 1, 99),
            claim(1.5, 1, 99),
            claim(1.5, 1, 99),
            claim(1.0, 1, 2),
        ];
        let mut shares = bounded_shares(11, &claims);
        assert_eq!(shares, [2, 3, 3, 2]);
        hand_out_remainder(11, &claims, &mut shares);
        assert_eq!(shares, [2, 4, 3, 2]);
    }

    proptest! {
        #[test]
        fn every_claim_gets_one_and_none_more_than_its_limit(
            contexts in 1u32..3000,
            claims in proptest::collection::vec((0.01f64..100.0, 0u32..200, 0u32..400), 1..60),
        ) {
            prop_assume!(claims.len() <= contexts as usize);
            let claims: Vec<Claim> = claims
                .into_iter()
                .map(|(weight, min, more)| claim(weight, min, min.saturating_add(more)))
                .collect();
            let mut shares = bounded_shares(contexts, &claims);
            let lower: u32 = claims.iter().map(|c| c.min.max(1)).sum();
            prop_assert!(shares.iter().sum::<u32>() <= contexts);
            for (share, claim) in shares.iter().zip(&claims) {
                prop_assert!(*share >= 1 && *share <= claim.max.max(1));
                if lower <= contexts {
                    prop_assert!(*share >= claim.min);
                }
            }
            hand_out_remainder(contexts, &claims, &mut shares);
            let full = shares.iter().zip(&claims).all(|(s, c)| *s >= c.max);
            prop_assert!(shares.iter().sum::<u32>() == contexts || full);
        }
    }
}
