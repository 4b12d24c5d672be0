//! The value of a division.
//!
//! A count is worth the logarithm of the speed expected there, times the weight, so that the sum is that of the
//! weighted geometric mean. A count below the promise is worth so much less that it is taken only when nothing else is
//! possible. While the speed under the static fair share is not known, the fair count always counts as kept.

use super::division::{self, Dividing, Limits};
use super::outlook::Outlook;
use crate::entitlement::Entitlement;

/// The weight of a shortfall of the promise against a gain.
const BROKEN: f64 = 1e3;
/// Standard errors by which a promise must be missed to count as broken.
const DOUBT: f64 = 2.0;
/// The value of staying, so that no application moves for nothing.
const STAYING: f64 = 1e-3;

/// An application that CPUs are divided among.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Candidate {
    /// Its outlook, once it has been measured.
    pub(crate) outlook: Option<Outlook>,
    pub(crate) owed: Entitlement,
    pub(crate) now: u32,
    /// Logarithm of the share of its fair speed that it is promised; and the same at the count it holds,
    /// with less margin.
    pub(crate) ln_promise: f64,
    pub(crate) ln_kept: f64,
    /// Logarithm of its speed under the static fair share, on the scale of the outlook, once known.
    pub(crate) ln_reference: Option<f64>,
    /// The CPUs that it says it needs, for it has a serial part or CPUs to spare.
    pub(crate) needs: Option<u32>,
}

impl Candidate {
    pub(crate) fn limits(&self) -> Limits {
        match (self.needs, &self.outlook) {
            // What nobody else can use stays with it.
            (Some(needs), _) if !self.owed.fixed => Limits {
                least: needs,
                most: self.now.min(self.owed.max).max(needs),
            },
            (None, Some(_)) if !self.owed.fixed => {
                let least = self.owed.min.min(self.owed.fair).max(1);
                Limits {
                    least,
                    most: self.owed.max.max(least),
                }
            }
            _ => Limits {
                least: self.owed.fair,
                most: self.owed.fair,
            },
        }
    }

    /// By how much a count falls short of the promise, as a logarithm.
    fn shortfall(&self, outlook: &Outlook, cpus: u32) -> f64 {
        if cpus == self.owed.fair && self.ln_reference.is_none() {
            return 0.0;
        }
        let fair = self
            .ln_reference
            .unwrap_or_else(|| outlook.ln_speed(self.owed.fair));
        let floor = if cpus == self.now {
            // The speed under the static fair share is measured for long enough.
            let doubt = match self.ln_reference {
                Some(_) => 0.0,
                None => outlook.error(cpus).max(outlook.error(self.owed.fair)),
            };
            fair + self.ln_kept - DOUBT * doubt
        } else {
            fair + self.ln_promise
        };
        (floor - outlook.ln_speed(cpus)).max(0.0)
    }

    /// By how much its speed may fall in a trial, as a logarithm: as far as the promise lets the fair share's speed fall,
    /// and by what it gained since where it is known to be faster with fewer CPUs.
    fn slack(&self) -> f64 {
        let gained = self.outlook.as_ref().filter(|outlook| outlook.falls());
        let gained = gained.map_or(0.0, |outlook| {
            outlook.ln_speed(self.now) - outlook.ln_speed(self.owed.fair)
        });
        gained.max(0.0) - self.ln_promise
    }

    fn value(&self, cpus: u32) -> f64 {
        let stays = if cpus == self.now { STAYING } else { 0.0 };
        let (Some(outlook), None) = (&self.outlook, self.needs) else {
            return self.owed.weight * stays;
        };
        self.owed.weight * (outlook.ln_speed(cpus) + stays) - BROKEN * self.shortfall(outlook, cpus)
    }
}

/// What an application would be given if it scaled as well as may be, and what that would be worth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hope {
    pub(crate) place: usize,
    cpus: u32,
    pub(crate) value: f64,
}

/// CPUs of one application for another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) giver: usize,
    pub(crate) taker: usize,
    pub(crate) cpus: u32,
}

/// The CPUs, those among whom they are divided, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) cpus: u32,
    pub(crate) candidates: &'a [Candidate],
    pub(crate) dividing: Dividing,
}

impl Plan<'_> {
    pub(crate) fn now(&self) -> Vec<u32> {
        self.candidates.iter().map(|c| c.now).collect()
    }

    /// The best division, if every application's lower limits fit together.
    pub(crate) fn best(&self) -> Option<Vec<u32>> {
        let limits: Vec<Limits> = self.candidates.iter().map(Candidate::limits).collect();
        let value = |place: usize, cpus| self.candidates[place].value(cpus);
        match self.dividing {
            Dividing::Exactly => division::best(self.cpus, &limits, value),
            Dividing::OneByOne => division::one_by_one(self.cpus, &limits, value),
        }
    }

    /// The best division if an application scaled as well as may be; `None` where that is known better.
    pub(crate) fn hope(&self, place: usize) -> Option<Hope> {
        let mut candidates = self.candidates.to_vec();
        candidates[place].outlook = Some(self.candidates[place].outlook.as_ref()?.hopeful()?);
        let hopeful = Plan {
            candidates: &candidates,
            ..*self
        };
        let best = hopeful.best()?;
        Some(Hope {
            place,
            cpus: best[place],
            value: hopeful.value(&best),
        })
    }

    /// The transfer that shows most of a hope: as many CPUs as the giver can do without, should all of them count, and
    /// at least one; to or from the application that gains most or loses least by it.
    pub(crate) fn towards(&self, hope: Hope) -> Option<Transfer> {
        let Hope { place, cpus, .. } = hope;
        let now = self.candidates[place].now;
        let others = (0..self.candidates.len()).filter(|other| *other != place);
        let pairs = others.map(|other| match cpus < now {
            true => [place, other],
            false => [other, place],
        });
        let transfers = pairs.filter_map(|[giver, taker]| {
            let (from, to) = (&self.candidates[giver], &self.candidates[taker]);
            let harmless = (-(-from.slack()).exp_m1() * f64::from(from.now)) as u32;
            let cpus = harmless.clamp(1, now.abs_diff(cpus).max(1));
            let least = from.limits().least;
            if from.now < least + cpus || to.now + cpus > to.limits().most {
                return None;
            }
            let gain = to.value(to.now + cpus) - to.value(to.now);
            let loss = from.value(from.now) - from.value(from.now - cpus);
            // What is hoped for is not to be held against it.
            let worth = if giver == place { gain } else { -loss };
            let transfer = Transfer { giver, taker, cpus };
            Some((transfer, worth))
        });
        let best = transfers.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(best.0)
    }

    /// The value of the static fair share, once measured.
    pub(crate) fn reference(&self) -> Option<f64> {
        if self.candidates.iter().all(|c| c.ln_reference.is_none()) {
            return None;
        }
        // One that leaves CPUs idle there has no reference; it has its expected speed.
        let each = self.candidates.iter().filter_map(|c| {
            let outlook = c.outlook.as_ref().filter(|_| c.needs.is_none())?;
            let speed = c
                .ln_reference
                .unwrap_or_else(|| outlook.ln_speed(c.owed.fair));
            Some(c.owed.weight * speed)
        });
        Some(each.sum::<f64>() / self.weights())
    }

    fn weights(&self) -> f64 {
        let sum: f64 = self.candidates.iter().map(|c| c.owed.weight).sum();
        sum.max(f64::MIN_POSITIVE)
    }

    /// Relative gain of the geometric mean of those whose count changes.
    pub(crate) fn gain(&self, counts: &[u32]) -> f64 {
        let changed = |(c, count): &(&Candidate, &u32)| c.now != **count;
        let changed = self.candidates.iter().zip(counts).filter(changed);
        let [mut gain, mut weights] = [0.0; 2];
        for (candidate, &count) in changed {
            gain += candidate.value(count) - candidate.value(candidate.now);
            weights += candidate.owed.weight;
        }
        gain / weights.max(f64::MIN_POSITIVE)
    }

    /// Weighted mean of all values: a difference of two is the relative gain of the geometric mean.
    pub(crate) fn value(&self, counts: &[u32]) -> f64 {
        let each = self.candidates.iter().zip(counts);
        let sum: f64 = each.map(|(c, &count)| c.value(count)).sum();
        sum / self.weights()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapper_next::outlook::{Expectations, Hints};
    use crate::mapper_next::tally::Split;

    /// A program that holds 40 of 80 CPUs, with these parallel rates and this serial time.
    fn candidate(rates: &[(u32, f64)], serial_per_work: f64) -> Candidate {
        let split = Split::of(rates, 0.0, serial_per_work);
        Candidate {
            outlook: Outlook::new(&split, Hints::default(), &Expectations::default()),
            owed: Entitlement {
                weight: 1.0,
                fair: 40,
                min: 1,
                max: 80,
                fixed: false,
            },
            now: 40,
            ln_promise: 0.85_f64.ln(),
            ln_kept: 0.85_f64.ln(),
            ln_reference: None,
            needs: None,
        }
    }

    fn plan(candidates: &[Candidate]) -> Plan<'_> {
        Plan {
            cpus: 80,
            candidates,
            dividing: Dividing::Exactly,
        }
    }

    fn best(candidates: &[Candidate]) -> Vec<u32> {
        plan(candidates).best().unwrap()
    }

    #[test]
    fn cpus_go_where_they_help_and_the_promise_is_kept() {
        let scales = candidate(&[(20, 20.0), (40, 40.0)], 0.0);
        let saturates = candidate(&[(20, 38.0), (40, 40.0)], 0.0);
        let counts = best(&[scales.clone(), saturates.clone()]);
        assert!(counts[0] >= 60, "{counts:?}");
        // A program that scales perfectly gives no more than its promise lets it.
        let greedy = candidate(&[(20, 4.0), (40, 40.0), (60, 400.0)], 0.0);
        let counts = best(&[scales, greedy]);
        assert_eq!(counts, [34, 46]);
    }

    #[test]
    fn the_worth_of_the_fair_share_is_reported_once_measured() {
        let mut candidates = [candidate(&[(40, 40.0)], 0.0), candidate(&[(40, 10.0)], 0.0)];
        assert_eq!(plan(&candidates).reference(), None);
        candidates[0].ln_reference = Some(50.0_f64.ln());
        candidates[1].ln_reference = Some(8.0_f64.ln());
        let plan = plan(&candidates);
        let (reference, here) = (plan.reference(), plan.value(&[40, 40]));
        assert!((reference.unwrap() - 400.0_f64.ln() / 2.0).abs() < 1e-9);
        // 40 of 50 is below the promise, although it is the fair count.
        assert!(here < reference.unwrap() - 1.0, "{here}");
    }

    #[test]
    fn an_application_that_must_not_be_resized_is_left_alone() {
        let mut fixed = candidate(&[(40, 40.0)], 0.0);
        fixed.owed.fixed = true;
        assert_eq!(best(&[fixed, candidate(&[(40, 40.0)], 0.5)])[0], 40);
    }
}
