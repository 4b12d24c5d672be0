//! The order in which CPU sets are changed, so that no CPU is promised twice on the way.
//!
//! First every application that loses CPUs shrinks to what it keeps ([`Action::Shrink`]), then each takes its planned
//! set ([`Action::Set`]), those first whose new CPUs none is about to leave. An application that keeps nothing can only
//! jump, as a set cannot be empty. If such applications exchange their CPUs, the first in order of arrival jumps onto
//! CPUs that another leaves with the next actions: the only overlap, for as long as the writes take.

use mapper_model::{Action, AppId, CpuSet};
use std::collections::BTreeSet;

/// Where an application is and where it is to be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Move<'a> {
    pub(crate) app: AppId,
    /// The CPUs in force; empty for a newcomer.
    pub(crate) from: &'a CpuSet,
    pub(crate) to: &'a CpuSet,
}

/// The actions that lead every application from where it is to where it is to be.
pub(crate) fn order(moves: &[Move<'_>]) -> Vec<Action> {
    let mut actions = Vec::new();
    // Where each application is after the actions so far; `None` once it is where it is to be.
    let mut pending: Vec<(Move<'_>, CpuSet)> = Vec::new();
    for &step in moves {
        if step.from == step.to {
            continue;
        }
        let kept = step.from.intersection(step.to);
        let shrinks = !kept.is_empty() && kept != *step.from;
        if shrinks {
            actions.push(Action::Shrink {
                app: step.app,
                from: step.from.clone(),
                to: kept.clone(),
            });
        }
        if kept != *step.to {
            pending.push((step, if shrinks { kept } else { step.from.clone() }));
        }
    }

    // Who keeps nothing leaves its CPUs only with its own action; everybody else has already let go.
    // Counts for each CPU how many are still about to leave it.
    let mut leaving: Vec<u32> = Vec::new();
    for (step, now) in &pending {
        for cpu in &now.difference(step.to) {
            if leaving.len() <= cpu.index() {
                leaving.resize(cpu.index() + 1, 0);
            }
            leaving[cpu.index()] += 1;
        }
    }
    // For each application, how many of its new CPUs another application is about to leave, and who waits for each CPU.
    let mut waits: Vec<usize> = vec![0; pending.len()];
    let mut wanted: Vec<Vec<usize>> = vec![Vec::new(); leaving.len()];
    for (i, (step, now)) in pending.iter().enumerate() {
        for cpu in &step.to.difference(now) {
            if leaving.get(cpu.index()).is_some_and(|count| *count > 0) {
                waits[i] += 1;
                wanted[cpu.index()].push(i);
            }
        }
    }
    let mut open: BTreeSet<usize> = (0..pending.len()).collect();
    let mut ready: BTreeSet<usize> = open.iter().copied().filter(|i| waits[*i] == 0).collect();
    // With none ready the rest exchange CPUs in a ring: the first jumps.
    while let Some(next) = ready.pop_first().or_else(|| open.first().copied()) {
        open.remove(&next);
        let (step, now) = &pending[next];
        actions.push(Action::Set {
            app: step.app,
            from: now.clone(),
            to: step.to.clone(),
        });
        for cpu in &now.difference(step.to) {
            leaving[cpu.index()] -= 1;
            if leaving[cpu.index()] == 0 {
                for i in &wanted[cpu.index()] {
                    waits[*i] -= 1;
                    if waits[*i] == 0 && open.contains(i) {
                        ready.insert(*i);
                    }
                }
            }
        }
    }
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn described(steps: &[(&str, &str)]) -> Vec<String> {
        let sets: Vec<(CpuSet, CpuSet)> = steps.iter().map(|(a, b)| (set(a), set(b))).collect();
        let moves: Vec<Move<'_>> = sets
            .iter()
            .zip(0..)
            .map(|((from, to), id)| Move {
                app: AppId(id),
                from,
                to,
            })
            .collect();
        order(&moves)
            .iter()
            .map(|a| match a {
                Action::Shrink { app, from, to } => format!("{app} shrinks {from} to {to}"),
                Action::Set { app, from, to } => format!("{app} set {from} to {to}"),
            })
            .collect()
    }

    #[test]
    fn shrinking_comes_before_growing() {
        assert_eq!(
            described(&[("0-1", "0-3"), ("2-5", "4-5")]),
            ["1 shrinks 2-5 to 4-5", "0 set 0-1 to 0-3"]
        );
    }

    #[test]
    fn a_move_waits_for_its_cpus_to_be_left() {
        // 0 wants what 1 holds, 1 wants what is free: 1 goes first.
        assert_eq!(
            described(&[("0", "1"), ("1", "2")]),
            ["1 set 1 to 2", "0 set 0 to 1"]
        );
    }

    #[test]
    fn an_unchanged_set_needs_no_action() {
        assert!(described(&[("0-1", "0-1"), ("2", "2")]).is_empty());
    }

    #[test]
    fn an_exchange_of_everything_ends_all_the_same() {
        assert_eq!(
            described(&[("0", "1"), ("1", "0")]),
            ["0 set 0 to 1", "1 set 1 to 0"]
        );
    }

    proptest! {
        #[test]
        fn all_arrive_and_only_one_that_keeps_nothing_causes_an_overlap(
            owners in proptest::collection::vec((0usize..6, 0usize..6), 1..40),
        ) {
            // CPU i belongs to owners[i].0 before and owners[i].1 after; app 5 is "nobody".
            let mut from = vec![CpuSet::new(); 6];
            let mut to = vec![CpuSet::new(); 6];
            for (cpu, (before, after)) in owners.iter().enumerate() {
                from[*before].insert(mapper_model::CpuId(cpu as u32));
                to[*after].insert(mapper_model::CpuId(cpu as u32));
            }
            let present: Vec<usize> = (0..5).filter(|a| !to[*a].is_empty()).collect();
            let moves: Vec<Move<'_>> = present
                .iter()
                .map(|&a| Move { app: AppId(a as u64), from: &from[a], to: &to[a] })
                .collect();
            let jumper = present.iter().any(|&a| !from[a].is_empty() && from[a].is_disjoint(&to[a]));
            let mut now: BTreeMap<AppId, CpuSet> =
                present.iter().map(|&a| (AppId(a as u64), from[a].clone())).collect();
            for action in order(&moves) {
                prop_assert!(!action.to().is_empty());
                now.insert(action.app(), action.to().clone());
                let total: u32 = now.values().map(CpuSet::len).sum();
                let union = now.values().fold(CpuSet::new(), |all, s| all.union(s));
                prop_assert!(jumper || total == union.len(), "overlap without a jumper");
            }
            for &a in &present {
                prop_assert_eq!(&now[&AppId(a as u64)], &to[a]);
            }
        }
    }
}
