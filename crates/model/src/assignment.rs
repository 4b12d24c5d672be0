//! Distinct CPUs for applications that may use only some of them.
//!
//! Where the CPUs that applications may use overlap, taking them in any order can leave one without,
//! although a division exists. Approach: maximum bipartite matching by augmenting paths. An application
//! whose CPUs are all taken gets one of an application that can have another instead, and so on
//! ([`Assignment::grow`]). An application that cannot grow never can later.
//!
//! Unit: CPUs. Invariants: no CPU belongs to two applications; none has a CPU that it may not use;
//! growing takes from no application's count.

use crate::{CpuId, CpuSet};

/// Which CPUs belong to which application while they are divided. See the [module](self).
#[derive(Clone, Debug)]
pub struct Assignment<'a> {
    allowed: Vec<&'a CpuSet>,
    given: Vec<CpuSet>,
    free: CpuSet,
}

/// Applications that together may use no more CPUs than they have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// Their places in the list, in ascending order.
    pub apps: Vec<usize>,
}

impl<'a> Assignment<'a> {
    /// No CPU is given yet. `allowed` is what each application may use; only `usable` CPUs count.
    pub fn new(usable: &CpuSet, allowed: Vec<&'a CpuSet>) -> Self {
        Self {
            given: vec![CpuSet::new(); allowed.len()],
            allowed,
            free: usable.clone(),
        }
    }

    /// Gives an application its allowed CPUs of `cpus` that are free, up to `most`.
    pub fn keep(&mut self, app: usize, cpus: &CpuSet, most: u32) {
        let possible = cpus
            .intersection(self.allowed[app])
            .intersection(&self.free);
        for cpu in possible.iter().take(most as usize) {
            self.free.remove(cpu);
            self.given[app].insert(cpu);
        }
    }

    /// Gives an application one more CPU, `preferred` ones first. Others keep their count.
    ///
    /// # Errors
    /// [`Shortage`] when no division gives it one more; nothing changes then.
    pub fn grow(&mut self, app: usize, preferred: &CpuSet) -> Result<(), Shortage> {
        // Breadth first, so that the fewest move. `asked_by[b]` wants that CPU of `b`.
        let mut asked_by: Vec<Option<(usize, CpuId)>> = vec![None; self.given.len()];
        let mut found = vec![app];
        let mut next = 0;
        while let Some(&at) = found.get(next) {
            next += 1;
            let free = self.allowed[at].intersection(&self.free);
            let best = free.intersection(preferred).first_cpu();
            if let Some(mut cpu) = best.or_else(|| free.first_cpu()) {
                self.free.remove(cpu);
                let mut at = at;
                while let Some((asker, wanted)) = asked_by[at] {
                    self.given[at].insert(cpu);
                    self.given[at].remove(wanted);
                    (at, cpu) = (asker, wanted);
                }
                self.given[at].insert(cpu);
                return Ok(());
            }
            for (other, given) in self.given.iter().enumerate() {
                if other != app && asked_by[other].is_none() && !given.is_disjoint(self.allowed[at])
                {
                    let wanted = given.intersection(self.allowed[at]).first_cpu();
                    asked_by[other] = wanted.map(|cpu| (at, cpu));
                    found.push(other);
                }
            }
        }
        found.sort_unstable();
        Err(Shortage { apps: found })
    }

    /// The CPUs of an application.
    pub fn given(&self, app: usize) -> &CpuSet {
        &self.given[app]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn an_application_moves_when_it_can_have_another_cpu() {
        let (all, low, only) = (set("0-2"), set("0-1"), set("0"));
        let mut assignment = Assignment::new(&all, vec![&all, &low, &only]);
        for app in 0..3 {
            assert_eq!(assignment.grow(app, &CpuSet::new()), Ok(()));
        }
        let given: Vec<String> = (0..3).map(|a| assignment.given(a).to_string()).collect();
        assert_eq!(given, ["2", "1", "0"]);
        // Only the last one is short.
        assert_eq!(assignment.grow(2, &all), Err(Shortage { apps: vec![2] }));
    }

    #[test]
    fn free_cpus_that_are_preferred_come_first() {
        let all = set("0-7");
        let mut assignment = Assignment::new(&all, vec![&all]);
        assignment.keep(0, &set("1-3,9"), 2);
        assert_eq!(assignment.grow(0, &set("6")), Ok(()));
        assert_eq!(assignment.given(0), &set("1-2,6"));
    }

    proptest! {
        #[test]
        fn all_have_one_exactly_if_no_group_is_larger_than_its_cpus(
            masks in proptest::collection::vec(1u32..256, 1..8),
        ) {
            let cpus = |bits: u32| -> CpuSet { (0..8).filter(|cpu| bits >> cpu & 1 == 1).map(CpuId).collect() };
            let allowed: Vec<CpuSet> = masks.iter().map(|bits| cpus(*bits)).collect();
            let mut assignment = Assignment::new(&CpuSet::first(8), allowed.iter().collect());
            let mut served = true;
            for app in 0..masks.len() {
                if let Err(shortage) = assignment.grow(app, &CpuSet::new()) {
                    served = false;
                    let union = shortage.apps.iter().fold(0, |all, app| all | masks[*app]);
                    prop_assert!(shortage.apps.contains(&app));
                    prop_assert!((union.count_ones() as usize) < shortage.apps.len());
                }
            }
            let mut taken = CpuSet::new();
            for (app, may) in allowed.iter().enumerate() {
                prop_assert!(assignment.given(app).is_subset(may));
                prop_assert!(assignment.given(app).is_disjoint(&taken));
                taken.insert_all(assignment.given(app));
            }
            // Hall's theorem, by all groups.
            let feasible = (1u32..1 << masks.len()).all(|group| {
                let members = (0..masks.len()).filter(|app| group >> app & 1 == 1);
                let union = members.fold(0, |all, app| all | masks[app]);
                union.count_ones() >= group.count_ones()
            });
            prop_assert_eq!(served, feasible);
        }
    }
}
