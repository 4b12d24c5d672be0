//! Which CPUs each application may use in a decision, and who has to share one.
//!
//! Applications may be kept to so few CPUs ([`AppObservation::allowed`](mapper_model::AppObservation)) that
//! there is not one for each, but policies decide for applications that can have one each. So an
//! [`Assignment`] of one CPU each finds those that together may use fewer CPUs than they are. They share
//! those CPUs; the policies decide about the others and the rest of the machine. With more applications
//! than CPUs and none kept to any, those share whose fair share is less than one CPU; where that of all is, the policies
//! let all share. And those share that [spin](spinning), with others.
//!
//! Invariants: unless threads spin, none shares that can have a CPU of its own without another losing its only one; one that
//! shares has a CPU that it may use.

use crate::spinning;
use mapper_model::{AppId, Assignment, CpuId, CpuSet, Observation, Reason, Spinning, Topology};
use std::cmp::Reverse;

/// A share that falls short of a whole number by this is that number.
const ROUNDING: f64 = 1e-9;

/// What a decision has to keep to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Allowed {
    /// The CPUs that the policies decide about.
    pub(crate) usable: CpuSet,
    /// What each application may use of them, if not all, in the order of the observation.
    pub(crate) sets: Vec<Option<CpuSet>>,
    /// The CPU of each application that has to share one; empty when nobody has to.
    shared: Vec<Option<CpuId>>,
    /// The CPUs that are counted for each that shares as threads spin.
    beside_spinning: Vec<Option<CpuSet>>,
}

/// How an application shares CPUs.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Shared {
    pub(crate) slot: u32,
    /// Those that are counted for it. It runs on those of all slots.
    pub(crate) cpus: CpuSet,
    pub(crate) why: Reason,
}

impl Allowed {
    pub(crate) fn of(observation: &Observation, usable: &CpuSet, topology: &Topology) -> Self {
        let binding = |allowed: &CpuSet| {
            let left = allowed.intersection(usable);
            (!left.is_empty() && left != *usable).then_some(left)
        };
        let apps = observation.apps.iter();
        let mut allowed = Self {
            usable: usable.clone(),
            sets: apps
                .map(|app| app.allowed.as_ref().and_then(binding))
                .collect(),
            shared: Vec::new(),
            beside_spinning: Vec::new(),
        };
        let are_more = observation.apps.len() as u64 > u64::from(usable.len());
        let parts = are_more.then(|| Parts::of(observation, usable));
        let common = parts
            .as_ref()
            .and_then(|parts| allowed.common(parts, observation, topology));
        match common {
            Some(common) => allowed.share_common(&common),
            None if allowed.confines() => allowed.share(),
            None if !are_more => allowed.share_with_spinning(observation),
            None => {}
        }
        allowed
    }

    /// Whether any application may use only some CPUs.
    pub(crate) fn confines(&self) -> bool {
        self.sets.iter().any(Option::is_some)
    }

    /// Whether any application has to share a CPU.
    pub(crate) fn has_sharing(&self) -> bool {
        !self.shared.is_empty() || !self.beside_spinning.is_empty()
    }

    /// The CPU that the application at `place` has to share.
    fn cpu(&self, place: usize) -> Option<CpuId> {
        self.shared.get(place).copied().flatten()
    }

    /// How the application at `place` shares CPUs, if it has to.
    pub(crate) fn shared(&self, observation: &Observation, place: usize) -> Option<Shared> {
        if let Some(cpu) = self.cpu(place) {
            return Some(Shared {
                slot: cpu.0,
                cpus: [cpu].into_iter().collect(),
                why: Reason::Shares { slot: cpu.0 },
            });
        }
        let all = self.beside_spinning.iter().flatten();
        let cpus = self.beside_spinning.get(place)?.clone()?;
        let first = cpus.first_cpu()?;
        let slot = all
            .flat_map(CpuSet::iter)
            .filter(|cpu| *cpu < first)
            .count() as u32;
        let spins = |place: usize| -> Option<(AppId, Spinning)> {
            self.beside_spinning[place].as_ref()?;
            let app = &observation.apps[place];
            Some((app.app, app.reading.spinning?))
        };
        let why = match spins(place) {
            Some((_, Spinning { threads, share })) => Reason::Spins { threads, share },
            None => {
                let (app, _) = (0..self.beside_spinning.len()).find_map(spins)?;
                Reason::BesideSpinning { app }
            }
        };
        Some(Shared { slot, cpus, why })
    }

    /// With more applications than CPUs: the CPUs that those share whose part is less than one CPU, as many as their parts
    /// are together, and for each the one of them that it may use. `None` where no part is more, or where who has one
    /// would have to share with who has none.
    fn common(
        &self,
        parts: &Parts,
        observation: &Observation,
        topology: &Topology,
    ) -> Option<Vec<Option<CpuId>>> {
        let own = parts.0.iter().filter(|part| **part >= 1.0).count() as u32;
        let light = |place: &usize| parts.0[*place] < 1.0;
        let places: Vec<usize> = (0..parts.0.len()).filter(light).collect();
        if own == 0 || places.is_empty() {
            return None;
        }
        let together: f64 = places.iter().map(|place| parts.0[*place]).sum();
        let most = self.usable.len().checked_sub(own)?;
        let count = (together.round() as u32).clamp(1, most.max(1));
        // Where they run already, so that as few as possible move; else whole cores.
        let runs = |cpu: CpuId, light: bool| {
            let mut apps = observation.apps.iter().zip(&parts.0);
            apps.any(|(app, part)| (*part < 1.0) == light && app.effective.contains(cpu))
        };
        let mut order: Vec<CpuId> = self.usable.iter().collect();
        order.sort_by_key(|cpu| {
            let core = topology.thread(*cpu).map(|thread| thread.core);
            (runs(*cpu, false), !runs(*cpu, true), Reverse(core), *cpu)
        });
        let mut common = CpuSet::new();
        for place in &places {
            if let Some(set) = &self.sets[*place]
                && set.is_disjoint(&common)
            {
                common.extend(order.iter().copied().find(|cpu| set.contains(*cpu)));
            }
        }
        let room = count.saturating_sub(common.len()) as usize;
        let further: Vec<CpuId> = order
            .into_iter()
            .filter(|cpu| !common.contains(*cpu))
            .collect();
        common.extend(further.into_iter().take(room));
        let rest = self.usable.difference(&common);
        let others = (0..parts.0.len()).filter(|place| !light(place));
        let sets = others.filter_map(|place| self.sets[place].as_ref());
        let sets: Vec<CpuSet> = sets.map(|set| set.intersection(&rest)).collect();
        let mut assignment = Assignment::new(&rest, sets.iter().collect());
        let mut each = 0..sets.len();
        if rest.len() < own || !each.all(|i| assignment.grow(i, &CpuSet::new()).is_ok()) {
            return None;
        }
        let mut next = common.iter().cycle();
        let one = |place: usize| match &self.sets[place] {
            _ if !light(&place) => None,
            Some(set) => set.intersection(&common).first_cpu(),
            None => next.next(),
        };
        Some((0..parts.0.len()).map(one).collect())
    }

    fn share_common(&mut self, shared: &[Option<CpuId>]) {
        let common: CpuSet = shared.iter().flatten().copied().collect();
        self.shared = shared.to_vec();
        self.leave(self.usable.difference(&common));
    }

    fn share_with_spinning(&mut self, observation: &Observation) {
        if observation
            .apps
            .iter()
            .all(|app| app.reading.spinning.is_none())
        {
            return;
        }
        let parts = Parts::of(observation, &self.usable).0;
        let whole: Vec<u32> = parts.iter().map(|part| (*part as u32).max(1)).collect();
        if whole.iter().sum::<u32>() <= self.usable.len()
            && let Some(shared) = spinning::shared(observation, &self.usable, &whole)
        {
            let taken = shared.iter().flatten().flat_map(CpuSet::iter);
            self.leave(self.usable.difference(&taken.collect()));
            self.beside_spinning = shared;
        }
    }

    /// What the policies decide about.
    fn leave(&mut self, rest: CpuSet) {
        self.usable = rest;
        for set in &mut self.sets {
            let left = set.take().map(|set| set.intersection(&self.usable));
            *set = left.filter(|left| !left.is_empty() && *left != self.usable);
        }
    }

    /// Finds those that have to share, and their CPUs.
    fn share(&mut self) {
        let places: Vec<usize> = (0..self.sets.len())
            .filter(|place| self.sets[*place].is_some())
            .collect();
        let mut assignment = Assignment::new(&self.usable, self.sets.iter().flatten().collect());
        let mut crowded = vec![false; self.sets.len()];
        for i in 0..places.len() {
            if let Err(shortage) = assignment.grow(i, &CpuSet::new()) {
                for app in shortage.apps {
                    crowded[places[app]] = true;
                }
            }
        }
        let mut taken = CpuSet::new();
        for (place, set) in self.sets.iter().enumerate() {
            if let (true, Some(set)) = (crowded[place], set) {
                taken.insert_all(set);
            }
        }
        let mut rest = self.usable.difference(&taken);
        let others = crowded.iter().filter(|crowded| !**crowded).count();
        if others as u64 > u64::from(rest.len()) {
            // Those that may use everything are too many for what is left.
            crowded.fill(true);
            if !rest.is_empty() {
                taken = std::mem::take(&mut rest);
            }
        }
        if !crowded.contains(&true) {
            return;
        }
        // Those with the fewest CPUs first, each where fewest are, so that as few as possible meet on one.
        let mut on_cpu: Vec<(u32, CpuId)> = self.usable.iter().map(|cpu| (0, cpu)).collect();
        let mut order: Vec<usize> = (0..self.sets.len()).filter(|i| crowded[*i]).collect();
        order.sort_by_key(|place| self.sets[*place].as_ref().map_or(u32::MAX, CpuSet::len));
        self.shared = vec![None; self.sets.len()];
        for place in order {
            let may_use = self.sets[place].as_ref().unwrap_or(&taken);
            let possible = on_cpu.iter_mut();
            let possible = possible.filter(|(_, cpu)| may_use.contains(*cpu));
            if let Some((count, cpu)) = possible.min() {
                *count += 1;
                self.shared[place] = Some(*cpu);
            }
        }
        self.leave(rest);
    }
}

/// The part of the CPUs that each application has by weight, within its own limits.
struct Parts(Vec<f64>);

impl Parts {
    fn of(observation: &Observation, usable: &CpuSet) -> Self {
        let weights = observation.apps.iter().map(|app| app.spec.weight.get());
        let total: f64 = weights.clone().sum();
        let cpus = f64::from(usable.len());
        let parts = observation.apps.iter().zip(weights).map(|(app, weight)| {
            let most = app.spec.cpus.max().map_or(f64::INFINITY, f64::from);
            (cpus * weight / total + ROUNDING).min(most)
        });
        Self(parts.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::topology::Shape;
    use mapper_model::{
        AppId, AppName, AppObservation, AppSpec, CpuRange, Reading, Trigger, Weight,
    };

    fn topology() -> Topology {
        Topology::regular(Shape {
            sockets: 1,
            cores_per_socket: 8,
            threads_per_core: 1,
        })
    }

    fn observation(usable: &str, allowed: &[&str]) -> Observation {
        let app = |(list, id): (&&str, u64)| AppObservation {
            app: AppId(id),
            spec: AppSpec::named(AppName::from_lossy("any")),
            effective: CpuSet::new(),
            allowed: list.parse().ok(),
            fixed: None,
            reading: Reading::default(),
        };
        Observation {
            tick: 1,
            now_ns: 0,
            trigger: Trigger::Membership,
            usable: usable.parse().unwrap(),
            apps: allowed.iter().zip(1..).map(app).collect(),
        }
    }

    /// The CPU that each shares, and the CPUs that the policies decide about.
    fn shared(usable: &str, lists: &[&str]) -> (Vec<Option<u32>>, String) {
        let observation = observation(usable, lists);
        let allowed = Allowed::of(&observation, &observation.usable, &topology());
        let cpu = |place| allowed.cpu(place).map(|cpu| cpu.0);
        let usable = allowed.usable.to_string();
        ((0..lists.len()).map(cpu).collect(), usable)
    }

    #[test]
    fn only_those_that_are_too_many_for_their_cpus_share_them() {
        for (usable, lists, cpus, rest) in [
            ("0-2", &["0-2", "0-1", "0"][..], &[None; 3][..], "0-2"),
            // A set that is not usable, or holds all that is, limits nothing.
            ("0-1", &["9", "0-7"], &[None; 2], "0-1"),
            (
                "0-7",
                &["3", "", "3", "2-3"],
                &[Some(3), None, Some(3), None],
                "0-2,4-7",
            ),
            (
                "0-7",
                &["2-3", "2-3", "2-3", ""],
                &[Some(2), Some(3), Some(2), None],
                "0-1,4-7",
            ),
        ] {
            assert_eq!(shared(usable, lists), (cpus.to_vec(), rest.to_owned()));
        }
    }

    #[test]
    fn with_more_applications_than_cpus_those_share_whose_part_is_less_than_one() {
        let mut observation = observation("0-7", &[""; 10]);
        let of = |observation: &Observation| {
            let allowed = Allowed::of(observation, &observation.usable, &topology());
            let shared = (0..10).map(|place| allowed.cpu(place).map(|cpu| cpu.0));
            (shared.collect::<Vec<_>>(), allowed.usable.to_string())
        };
        // Equal ones: the policies let all share.
        assert_eq!(of(&observation), (vec![None; 10], "0-7".to_owned()));
        // One weighs as much as the nine others: half of the machine.
        observation.apps[0].spec.weight = Weight::new(9.0).unwrap();
        let (shared, rest) = of(&observation);
        assert_eq!((shared[0], rest.as_str()), (None, "0-3"));
        assert!(
            shared[1..]
                .iter()
                .all(|cpu| cpu.is_some_and(|cpu| (4..8).contains(&cpu)))
        );
        // It stays where it runs.
        observation.apps[0].effective = "2-5".parse().unwrap();
        assert_eq!(of(&observation).1, "2-5");
        // One that is kept to some CPUs changes nothing for the others.
        observation.apps[1].allowed = "0-1".parse().ok();
        let (shared, rest) = of(&observation);
        assert!(shared[1].is_some_and(|cpu| cpu < 2), "{shared:?}");
        assert_eq!(rest, "2-5");
        // What it may not have is for the others.
        observation.apps[0].spec.cpus = CpuRange::new(1, Some(1)).unwrap();
        assert_eq!(of(&observation).1.parse::<CpuSet>().unwrap().len(), 4);
    }

    #[test]
    fn those_that_share_have_as_many_cpus_as_their_parts_are_together() {
        let mut observation = observation("0-7", &[""; 44]);
        for app in &mut observation.apps[..4] {
            app.spec.weight = Weight::new(40.0).unwrap();
        }
        // Of five users one runs forty programs: a fifth of eight CPUs is theirs.
        let allowed = Allowed::of(&observation, &observation.usable, &topology());
        assert_eq!(allowed.usable.len(), 6);
    }

    #[test]
    fn two_whose_part_is_a_cpu_share_if_both_may_use_only_the_same_one() {
        let mut observation = observation("0-3", &["0", "0", "", "", "", ""]);
        for app in &mut observation.apps[..2] {
            app.spec.weight = Weight::new(40.0).unwrap();
        }
        let allowed = Allowed::of(&observation, &observation.usable, &topology());
        for place in 0..2 {
            assert_eq!(allowed.cpu(place), Some(CpuId(0)));
        }
        // With a CPU for each, none of them does.
        observation.apps[1].allowed = "1".parse().ok();
        let allowed = Allowed::of(&observation, &observation.usable, &topology());
        assert_eq!([allowed.cpu(0), allowed.cpu(1)], [None; 2]);
    }

    #[test]
    fn with_more_applications_than_cpus_all_share() {
        let (cpus, _) = shared("0-1", &["1", "", ""]);
        assert_eq!(cpus, [Some(1), Some(0), Some(0)]);
    }

    #[test]
    fn threads_that_spin_have_a_cpu_each_together_with_as_few_others_as_have_these() {
        let spinning = |threads| {
            Some(Spinning {
                threads,
                share: 0.9,
            })
        };
        // The CPUs counted for each, and those of the policies.
        let of = |observation: &Observation| {
            let allowed = Allowed::of(observation, &observation.usable, &topology());
            let shared = (0..observation.apps.len()).map(|place| {
                let shared = allowed.shared(observation, place);
                shared.map_or(0, |shared| shared.cpus.len())
            });
            (shared.collect::<Vec<_>>(), allowed.usable.to_string())
        };
        let mut two = observation("0-1", &["", ""]);
        assert_eq!(of(&two).0, [0, 0]);
        two.apps[0].reading.spinning = spinning(2);
        assert_eq!(of(&two), (vec![1, 1], String::new()));
        let allowed = Allowed::of(&two, &two.usable, &topology());
        let why = |place| allowed.shared(&two, place).map(|shared| shared.why);
        let expected = Reason::Spins {
            threads: 2,
            share: 0.9,
        };
        assert_eq!(why(0), Some(expected));
        assert_eq!(why(1), Some(Reason::BesideSpinning { app: AppId(1) }));
        // Its CPUs suffice, or the other has said that it shares none.
        two.apps[0].reading.spinning = spinning(1);
        assert_eq!(of(&two).0, [0, 0]);
        two.apps[0].reading.spinning = spinning(2);
        two.apps[1].spec.lending = mapper_model::Lending::Never;
        assert_eq!(of(&two).0, [0, 0]);
        let mut four = observation("0-7", &[""; 4]);
        four.apps[3].effective = "2-3".parse().unwrap();
        four.apps[0].effective = "4-5".parse().unwrap();
        four.apps[1].reading.spinning = spinning(3);
        assert_eq!(of(&four), (vec![2, 2, 0, 0], "2-3,6-7".to_owned()));
        four.apps[1].reading.spinning = spinning(64);
        assert_eq!(of(&four), (vec![2; 4], String::new()));
        four.apps[1].spec.cpus = CpuRange::new(1, Some(2)).unwrap();
        assert_eq!(of(&four).0, [0; 4]);
        // Nobody shares while one application is never to be resized.
        four.apps[1].spec.cpus = CpuRange::default();
        four.apps[2].spec.resizing = mapper_model::Resizing::Never;
        assert_eq!(of(&four).0, [0; 4]);
        let mut three = observation("0-7", &[""; 3]);
        three.apps[2].reading.spinning = spinning(8);
        assert_eq!(of(&three), (vec![2, 2, 4], String::new()));
    }

    #[test]
    fn an_observation_of_earlier_versions_is_read() {
        let text = serde_json::to_string(&observation("0-3", &["1"])).unwrap();
        let old = text.replace("\"allowed\":", "\"own_mask\":");
        assert_ne!(old, text);
        assert_eq!(
            serde_json::from_str::<Observation>(&old).unwrap(),
            observation("0-3", &["1"])
        );
    }
}
