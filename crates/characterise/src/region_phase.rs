//! Phases by which parallel regions run.
//!
//! NuPoCo measures each parallel loop once and recognises it when it comes back [NuPoCo §3.2].
//! Performance alone ([`phase`](crate::phase)) shows that something changed, not that it was measured
//! before. The shim reports, once an interval, the identity of the region that completed last; as a
//! program runs several regions within an interval, a phase is a *set* of identities.
//!
//! The set of the present phase grows until no new identity came for [`SETTLED`] intervals. Then
//! [`CONFIRMED`] strangers in a row begin another phase; fewer become members. If all of them belong
//! to a past phase, that one is back, with its curve.
//!
//! *Errors.* If each interval by itself showed an unknown member with probability `q`, the set would settle with
//! `(1−q)⁸` and be left with `q³` after the first stranger: at most 0.0016, whatever `q`. If intervals hang together, a
//! member that first comes after the set settled and stays for four intervals is taken for a phase; what comes within
//! the next eight joins it, so that stretches of eight and four by turns become one phase after one change.
//!
//! Where nothing completes, the identity is stale and does not help a set settle; where nothing ever
//! completed, it is that of the running region.
//!
//! *Bounds.* Of [`MOST_PHASES`] phases the least recently used goes, of [`MOST_REGIONS`] members the
//! oldest. Identities come from a shared page: ever new ones make a set that never settles.

use mapper_model::{PerformanceCurve, RegionPhase};
use serde::{Deserialize, Serialize};

/// Intervals without a stranger after which a set is known.
const SETTLED: u32 = 8;
/// Strangers in a row that begin another phase.
pub(crate) const CONFIRMED: usize = 4;
/// Phases that are remembered besides the present one.
const MOST_PHASES: usize = 7;
/// Regions of one phase.
const MOST_REGIONS: usize = 64;

/// The phases of one application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RegionPhases {
    present: Set,
    /// Intervals in a row whose region was known.
    settled_for: u32,
    /// Regions of the last intervals, none of the present phase.
    strangers: Vec<u64>,
    /// The curve as it was before the first of them.
    before_strangers: Option<PerformanceCurve>,
    /// Phases that were left, the last one last.
    past: Vec<(Set, PerformanceCurve)>,
    /// Phases that there have been.
    count: u32,
    region: u64,
}

/// The regions of a phase.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Set {
    /// Counts phases from 1 in the order in which they were first seen.
    number: u32,
    regions: Vec<u64>,
}

impl Set {
    fn add(&mut self, region: u64) {
        if self.regions.contains(&region) {
            return;
        }
        if self.regions.len() == MOST_REGIONS {
            self.regions.remove(0);
        }
        self.regions.push(region);
    }
}

/// The meaning of an interval's region.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Shift {
    /// It belongs to the phase, or may.
    None,
    /// Regions never seen together have replaced the others.
    New,
    /// An earlier phase is back, with what had been measured in it.
    Back(PerformanceCurve),
}

/// Whether the identity of a region belongs to the interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Evidence {
    /// Something completed in it, or nothing ever has.
    Fresh,
    /// Nothing completed: the identity may be an old one.
    Stale,
}

impl RegionPhases {
    /// Processes a region (0: not known); `curve` is that of the present phase without this interval.
    pub(crate) fn observe(
        &mut self,
        region: u64,
        evidence: Evidence,
        curve: &PerformanceCurve,
    ) -> Shift {
        if region == 0 {
            return Shift::None;
        }
        self.region = region;
        if self.present.regions.contains(&region) {
            if evidence == Evidence::Fresh {
                self.settled_for = self.settled_for.saturating_add(1);
            }
            if !self.strangers.is_empty() {
                self.adopt_strangers();
            }
            return Shift::None;
        }
        if self.settled_for < SETTLED {
            self.count = self.count.max(1);
            self.present.number = self.present.number.max(1);
            self.present.add(region);
            self.settled_for = 0;
            return Shift::None;
        }
        if self.strangers.is_empty() {
            self.before_strangers = Some(curve.clone());
        }
        self.strangers.push(region);
        if self.strangers.len() < CONFIRMED {
            return Shift::None;
        }
        self.leave(curve)
    }

    /// The present phase, if any.
    pub(crate) fn present(&self) -> Option<RegionPhase> {
        (self.present.number > 0).then_some(RegionPhase {
            number: self.present.number,
            count: self.count,
            // For clients whose numbers have a sign; it only serves to distinguish regions.
            region: self.region & (u64::MAX >> 1),
        })
    }

    /// Whether it may be about to leave its phase.
    pub(crate) fn is_wavering(&self) -> bool {
        !self.strangers.is_empty()
    }

    /// Forgets what was measured, as when the unit of performance changes; keeps the phases.
    pub(crate) fn forget_curves(&mut self) {
        self.before_strangers = self
            .before_strangers
            .take()
            .map(|_| PerformanceCurve::new());
        for (_, curve) in &mut self.past {
            curve.clear();
        }
    }

    /// The strangers were rare members.
    fn adopt_strangers(&mut self) {
        for region in std::mem::take(&mut self.strangers) {
            self.present.add(region);
        }
        self.before_strangers = None;
        self.settled_for = 0;
    }

    fn leave(&mut self, curve: &PerformanceCurve) -> Shift {
        let strangers = std::mem::take(&mut self.strangers);
        let measured = self
            .before_strangers
            .take()
            .unwrap_or_else(|| curve.clone());
        let known = self
            .past
            .iter()
            .rposition(|(set, _)| strangers.iter().all(|region| set.regions.contains(region)));
        let (next, shift) = match known.map(|place| self.past.remove(place)) {
            Some((set, curve)) => {
                // It was known when it was left.
                self.settled_for = SETTLED;
                (set, Shift::Back(curve))
            }
            None => {
                self.settled_for = 0;
                self.count = self.count.saturating_add(1);
                let mut set = Set {
                    number: self.count,
                    regions: Vec::new(),
                };
                for region in strangers {
                    set.add(region);
                }
                (set, Shift::New)
            }
        };
        if self.past.len() == MOST_PHASES {
            self.past.remove(0);
        }
        let left = std::mem::replace(&mut self.present, next);
        self.past.push((left, measured));
        shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(perf: f64) -> PerformanceCurve {
        PerformanceCurve::from_points([(2, perf)])
    }

    /// Shows these regions, one an interval; returns how often a phase began or returned.
    fn shifts(phases: &mut RegionPhases, regions: impl IntoIterator<Item = u64>) -> usize {
        regions
            .into_iter()
            .filter(|&region| phases.observe(region, Evidence::Fresh, &curve(1.0)) != Shift::None)
            .count()
    }

    fn random(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        }
    }

    #[test]
    fn a_phase_that_comes_back_finds_its_curve_again() {
        let mut phases = RegionPhases::default();
        let show = |phases: &mut RegionPhases, region, times, perf| {
            let shifts: Vec<_> = (0..times)
                .map(|_| phases.observe(region, Evidence::Fresh, &curve(perf)))
                .collect();
            shifts.into_iter().find(|shift| *shift != Shift::None)
        };
        assert_eq!(show(&mut phases, 0xa, 20, 1.0), None);
        assert_eq!(show(&mut phases, 0xb, 20, 2.0), Some(Shift::New));
        let present = phases.present().unwrap();
        assert_eq!((present.number, present.count, present.region), (2, 2, 0xb));
        // The curve at the first stranger is the old phase's; what is measured while strangers come
        // is not.
        let back = |perf| Some(Shift::Back(curve(perf)));
        assert_eq!(show(&mut phases, 0xa, 20, 3.0), back(2.0));
        assert_eq!(phases.present().unwrap().number, 1);
        assert_eq!(show(&mut phases, 0xb, 20, 4.0), back(3.0));
    }

    #[test]
    fn fewer_strangers_than_confirm_a_phase_become_members() {
        let mut phases = RegionPhases::default();
        assert_eq!(shifts(&mut phases, [1; 20]), 0);
        assert_eq!(shifts(&mut phases, [2, 2, 2, 1]), 0);
        assert_eq!(shifts(&mut phases, [2; 50]), 0);
        assert_eq!(phases.present().unwrap().count, 1);
    }

    #[test]
    fn stretches_of_two_regions_by_turns_become_one_phase_after_one_change() {
        for (first, second) in [(8, 4), (8, 8), (11, 7), (20, 4)] {
            let mut phases = RegionPhases::default();
            let turn = std::iter::repeat_n(1, first).chain(std::iter::repeat_n(2, second));
            let regions: Vec<u64> = turn.cycle().take(1000).collect();
            let seen = shifts(&mut phases, regions);
            assert!(seen <= 1, "{first} and {second}: {seen}");
        }
        // Shorter stretches never are a phase.
        let mut phases = RegionPhases::default();
        let turn = [1; 20].into_iter().chain([2, 2, 2]);
        assert_eq!(shifts(&mut phases, turn.cycle().take(1000)), 0);
    }

    #[test]
    fn intervals_that_hang_together_make_few_phases() {
        let mut shifted = 0;
        for seed in 1..=100u64 {
            let mut random = random(seed);
            let mut region = 1;
            let regions = (0..1000).map(|_| {
                let number = random();
                // Each region stays for five intervals on average.
                if (number >> 20).is_multiple_of(5) {
                    region = 1 + (number >> 33) % 8;
                }
                region
            });
            shifted += shifts(&mut RegionPhases::default(), regions);
        }
        assert!(shifted < 1000, "{shifted} shifts in 100 runs");
    }

    #[test]
    fn an_identity_that_is_stale_does_not_settle_a_set() {
        let mut phases = RegionPhases::default();
        assert_eq!(shifts(&mut phases, [1]), 0);
        for _ in 0..50 {
            let shift = phases.observe(1, Evidence::Stale, &curve(1.0));
            assert_eq!(shift, Shift::None);
        }
        assert_eq!(shifts(&mut phases, [2; 20]), 0);
        assert_eq!(phases.present().unwrap().count, 1);
    }

    #[test]
    fn what_is_not_known_changes_nothing() {
        let mut phases = RegionPhases::default();
        assert_eq!(shifts(&mut phases, [0; 50]), 0);
        assert_eq!(phases.present(), None);
        shifts(&mut phases, [1; 20]);
        assert_eq!(shifts(&mut phases, [2, 0, 2, 0, 2, 0]), 0);
        assert_eq!(shifts(&mut phases, [2]), 1);
    }

    #[test]
    fn the_least_recently_used_phase_is_forgotten() {
        let mut phases = RegionPhases::default();
        let regions = (1..=20u64).flat_map(|region| [region; 20]);
        assert_eq!(shifts(&mut phases, regions), 19);
        assert_eq!(phases.past.len(), MOST_PHASES);
        assert_eq!(phases.present().unwrap().count, 20);
        // The first is new again, the last but one is not.
        let back = |phases: &mut RegionPhases, region| {
            (0..20).any(|_| {
                matches!(
                    phases.observe(region, Evidence::Fresh, &curve(1.0)),
                    Shift::Back(_)
                )
            })
        };
        assert!(back(&mut phases, 19));
        assert!(!back(&mut phases, 1));
    }

    #[test]
    fn programs_that_mix_many_regions_do_not_flap() {
        let mut shifted = 0;
        for seed in 1..=300u64 {
            let mut random = random(seed);
            let kinds = 1 + seed % 40;
            // The lower numbers come more often.
            let regions = (0..1000).map(|_| {
                let number = random();
                1 + (number >> 33) % kinds.min(1 + (number >> 13) % kinds)
            });
            shifted += shifts(&mut RegionPhases::default(), regions);
        }
        assert!(shifted <= 3, "{shifted} shifts in 300 runs");
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_the_state_survives_being_saved(
            regions in proptest::collection::vec(prop_oneof![Just(1u64), Just(2), 0..200u64, any::<u64>()], 0..400),
        ) {
            let mut phases = RegionPhases::default();
            for region in regions {
                phases.observe(region, Evidence::Fresh, &curve(1.0));
                prop_assert!(phases.past.len() <= MOST_PHASES);
                prop_assert!(phases.strangers.len() < CONFIRMED);
                let sets = phases.past.iter().map(|(set, _)| set).chain([&phases.present]);
                prop_assert!(sets.into_iter().all(|set| set.regions.len() <= MOST_REGIONS));
                prop_assert_eq!(phases.strangers.is_empty(), phases.before_strangers.is_none());
            }
            let text = serde_json::to_string(&phases).unwrap();
            prop_assert_eq!(serde_json::from_str::<RegionPhases>(&text).unwrap(), phases);
        }

        #[test]
        fn a_program_that_stays_in_one_phase_of_few_regions_never_leaves_it(
            kinds in 1u64..4, length in 1usize..300,
        ) {
            let mut phases = RegionPhases::default();
            let regions = (0..length as u64).map(|i| 1 + i % kinds);
            prop_assert_eq!(shifts(&mut phases, regions), 0);
        }
    }
}
