//! Applications that their owners confined (`taskset`) stay within those CPUs.
//!
//! Mapping policies place counts of CPUs and know no such limit. What they have placed is put right
//! afterwards, by exchanging single CPUs: one that an application may not use for one that it may, which
//! is free or with somebody to whom it does not matter which of the two he has. Counts stay as they were
//! allocated, and nobody else loses a CPU that his own mask wants him to have.
//!
//! *Limits.* Where several are confined to the same few CPUs, not all can have them; who arrived first goes
//! first. An exchange may separate CPUs that the policy had placed side by side.

use mapper_model::{CpuId, CpuSet};

/// Where one application was placed.
#[derive(Clone, PartialEq, Debug)]
pub struct Seat<'a> {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Those that it may use, if its owner confined it.
    pub mask: Option<&'a CpuSet>,
    /// Whether they are its own alone.
    pub tenure: Tenure,
}

/// Whether CPUs may be exchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tenure {
    /// They are its own.
    Exclusive,
    /// It shares them, so that an exchange would move others along.
    Shared,
}

impl Seat<'_> {
    fn minds(&self, cpu: CpuId) -> bool {
        self.mask.is_some_and(|mask| !mask.contains(cpu))
    }
}

/// Exchanges CPUs so that as many applications as possible lie within their masks. `free` are the CPUs that
/// nobody has.
pub fn keep_within(seats: &mut [Seat<'_>], free: &mut CpuSet) {
    for place in 0..seats.len() {
        let seat = &seats[place];
        let (Some(mask), Tenure::Exclusive) = (seat.mask, seat.tenure) else {
            continue;
        };
        let outside: Vec<CpuId> = seat.cpus.difference(mask).iter().collect();
        for leaves in outside {
            let Some(takes) = found(seats, place, leaves, mask, free) else {
                continue;
            };
            if free.contains(takes) {
                free.remove(takes);
                free.insert(leaves);
            } else if let Some(other) = seats.iter_mut().find(|seat| seat.cpus.contains(takes)) {
                other.cpus.remove(takes);
                other.cpus.insert(leaves);
            }
            seats[place].cpus.remove(leaves);
            seats[place].cpus.insert(takes);
        }
    }
}

/// A CPU within `mask` for which the one at `place` can leave another: a free one at best.
fn found(
    seats: &[Seat<'_>],
    place: usize,
    leaves: CpuId,
    mask: &CpuSet,
    free: &CpuSet,
) -> Option<CpuId> {
    let wanted = mask.difference(&seats[place].cpus);
    let gives = |takes: &CpuId| {
        let mut owners = seats.iter().filter(|seat| seat.cpus.contains(*takes));
        owners.next().is_some_and(|owner| {
            let content = !owner.minds(leaves) || owner.minds(*takes);
            owner.tenure == Tenure::Exclusive && content
        })
    };
    let first_free = wanted.iter().find(|cpu| free.contains(*cpu));
    first_free.or_else(|| wanted.iter().find(gives))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn seat<'a>(cpus: &str, mask: Option<&'a CpuSet>) -> Seat<'a> {
        Seat {
            cpus: set(cpus),
            mask,
            tenure: Tenure::Exclusive,
        }
    }

    fn settled(mut seats: Vec<Seat<'_>>, free: &str) -> Vec<String> {
        let mut free = if free.is_empty() {
            CpuSet::new()
        } else {
            set(free)
        };
        keep_within(&mut seats, &mut free);
        seats.iter().map(|seat| seat.cpus.to_string()).collect()
    }

    #[test]
    fn two_that_are_placed_on_each_others_cpus_are_exchanged() {
        let (low, high) = (set("0"), set("1"));
        let seats = vec![seat("0", Some(&high)), seat("1", Some(&low))];
        assert_eq!(settled(seats, ""), ["1", "0"]);
        let seats = vec![seat("0-2", None), seat("3", Some(&high))];
        assert_eq!(settled(seats, ""), ["0,2-3", "1"]);
    }

    #[test]
    fn a_free_cpu_comes_before_somebody_elses() {
        let mask = set("0-1");
        let seats = vec![seat("0", None), seat("3", Some(&mask))];
        assert_eq!(settled(seats, "1-2"), ["0", "1"]);
    }

    #[test]
    fn of_two_confined_to_the_same_cpu_the_first_has_it() {
        let mask = set("0");
        let seats = vec![seat("0", Some(&mask)), seat("1", Some(&mask))];
        assert_eq!(settled(seats, ""), ["0", "1"]);
        let shared = Seat {
            tenure: Tenure::Shared,
            ..seat("0", None)
        };
        assert_eq!(
            settled(vec![shared, seat("1", Some(&mask))], ""),
            ["0", "1"]
        );
    }

    proptest! {
        #[test]
        fn counts_and_owners_stay_and_nobody_is_driven_out_of_a_mask(
            owners in proptest::collection::vec(0usize..5, 16),
            masks in proptest::collection::vec(proptest::option::of(1u32..0xffff), 4),
        ) {
            let cpus = |keep: &dyn Fn(u32) -> bool| -> CpuSet { (0..16).filter(|cpu| keep(*cpu)).map(CpuId).collect() };
            let masks: Vec<Option<CpuSet>> = masks
                .into_iter()
                .map(|mask| mask.map(|bits| cpus(&|cpu| bits >> cpu & 1 == 1)))
                .collect();
            let mut free = cpus(&|cpu| owners[cpu as usize] == 4);
            let before: Vec<Seat<'_>> = masks
                .iter()
                .enumerate()
                .map(|(app, mask)| Seat {
                    cpus: cpus(&|cpu| owners[cpu as usize] == app),
                    mask: mask.as_ref(),
                    tenure: Tenure::Exclusive,
                })
                .collect();
            let outside = |seat: &Seat<'_>| seat.mask.map_or(0, |mask| seat.cpus.difference(mask).len());
            let mut seats = before.clone();
            keep_within(&mut seats, &mut free);
            let mut all = free.clone();
            for (now, then) in seats.iter().zip(&before) {
                prop_assert_eq!(now.cpus.len(), then.cpus.len());
                prop_assert!(outside(now) <= outside(then), "{now:?} was {then:?}");
                prop_assert!(all.is_disjoint(&now.cpus));
                all.insert_all(&now.cpus);
            }
            prop_assert_eq!(all, CpuSet::first(16));
            // Alone with a mask, it has what it may use, as far as that goes.
            let masked: Vec<&Seat<'_>> = seats.iter().filter(|seat| seat.mask.is_some()).collect();
            if let [only] = masked[..] {
                let room = only.mask.map_or(0, CpuSet::len);
                prop_assert_eq!(outside(only), only.cpus.len().saturating_sub(room));
            }
        }
    }
}
