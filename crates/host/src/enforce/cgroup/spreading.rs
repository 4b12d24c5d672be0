//! Threads on isolated CPUs, which the kernel does not balance: a thread stays on the CPU of the one that started it.
//!
//! So at each look the threads that run or wait are counted by CPU, and those that share one while another has fewer
//! are moved: by a mask of one CPU that is widened again immediately. Threads that chose a mask within the set keep it.

use crate::enforce::masks;
use crate::procfs::ProcFs;
use mapper_model::{CpuId, CpuSet, ThreadId};
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Placed {
    pub(super) thread: ThreadId,
    pub(super) on: CpuId,
}

/// Which of `free` to move so that no CPU has two more than another; `bound` count as well, and stay.
pub(super) fn moves(free: &[Placed], bound: &[Placed], cpus: &CpuSet) -> Vec<Placed> {
    let mut load: BTreeMap<CpuId, usize> = cpus.iter().map(|cpu| (cpu, 0)).collect();
    for placed in bound {
        if let Some(count) = load.get_mut(&placed.on) {
            *count += 1;
        }
    }
    let mut stay: BTreeMap<CpuId, Vec<ThreadId>> = BTreeMap::new();
    let mut homeless = Vec::new();
    for placed in free {
        match load.get_mut(&placed.on) {
            Some(count) => {
                *count += 1;
                stay.entry(placed.on).or_default().push(placed.thread);
            }
            None => homeless.push(placed.thread),
        }
    }
    let mut moves = Vec::new();
    loop {
        let Some((&on, &least)) = load.iter().min_by_key(|(cpu, count)| (**count, **cpu)) else {
            return moves;
        };
        let thread = homeless.pop().or_else(|| {
            let crowded = stay
                .iter()
                .filter(|(_, threads)| !threads.is_empty())
                .max_by_key(|(cpu, _)| load.get(cpu));
            let from = *crowded?.0;
            let count = load.get_mut(&from).filter(|count| **count >= least + 2)?;
            *count -= 1;
            stay.get_mut(&from)?.pop()
        });
        let Some(thread) = thread else {
            return moves;
        };
        *load.entry(on).or_default() += 1;
        moves.push(Placed { thread, on });
    }
}

/// Spreads threads over isolated CPUs. `all`: what an unbound thread may use; the kernel cuts it to the group's set.
pub(super) fn spread(proc: &ProcFs, threads: &[ThreadId], cpus: &CpuSet, all: &CpuSet) {
    if cpus.len() < 2 {
        return;
    }
    let (mut free, mut bound) = (Vec::new(), Vec::new());
    for &thread in threads {
        let running = proc
            .thread_stat(thread)
            .ok()
            .filter(|stat| stat.state == 'R');
        let Some(on) = running.map(|stat| stat.cpu) else {
            continue;
        };
        match masks::get(thread) {
            Ok(mask) if cpus.is_subset(&mask) => free.push(Placed { thread, on }),
            Ok(_) => bound.push(Placed { thread, on }),
            Err(_) => {}
        }
    }
    for Placed { thread, on } in moves(&free, &bound, cpus) {
        let alone: CpuSet = [on].into_iter().collect();
        let moved = masks::set(thread, &alone).and_then(|()| masks::set(thread, all));
        if let Err(error) = moved
            && !error.is_gone()
        {
            tracing::debug!(
                thread = thread.0,
                "not put on CPU {on}: {}",
                crate::chain(&error)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn placed(thread: u32, on: u32) -> Placed {
        Placed {
            thread: ThreadId(thread),
            on: CpuId(on),
        }
    }

    #[test]
    fn a_team_that_was_started_on_one_cpu_gets_one_each() {
        let team: Vec<Placed> = (1..=4).map(|thread| placed(thread, 4)).collect();
        let moved = moves(&team, &[], &"4-7".parse().unwrap());
        assert_eq!(moved, [placed(4, 5), placed(3, 6), placed(2, 7)]);
    }

    #[test]
    fn a_thread_alone_on_its_cpu_stays_and_a_pinned_thread_keeps_others_away() {
        let spread: Vec<Placed> = (1..=4).map(|thread| placed(thread, thread)).collect();
        assert!(moves(&spread, &[], &"1-4".parse().unwrap()).is_empty());
        let moved = moves(&[placed(1, 2)], &[placed(9, 2)], &"2-3".parse().unwrap());
        assert_eq!(moved, [placed(1, 3)]);
        let moved = moves(&[placed(1, 7)], &[], &"2-3".parse().unwrap());
        assert_eq!(moved, [placed(1, 2)]);
    }

    proptest! {
        #[test]
        fn afterwards_no_cpu_has_two_more_than_another_and_no_thread_moves_twice(
            on in proptest::collection::vec(0u32..6, 0..40), cpus in 1u32..6,
        ) {
            let free: Vec<Placed> = on.iter().zip(1..).map(|(on, thread)| placed(thread, *on)).collect();
            let set = CpuSet::first(cpus);
            let mut now: BTreeMap<ThreadId, CpuId> = free.iter().map(|p| (p.thread, p.on)).collect();
            for Placed { thread, on } in moves(&free, &[], &set) {
                now.insert(thread, on);
            }
            let counts: Vec<usize> = set.iter().map(|cpu| now.values().filter(|on| **on == cpu).count()).collect();
            prop_assert_eq!(counts.iter().sum::<usize>(), free.len());
            let (least, most) = (counts.iter().min(), counts.iter().max());
            prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least < 2), "{:?}", counts);
            let again: Vec<Placed> = now.iter().map(|(thread, on)| Placed { thread: *thread, on: *on }).collect();
            prop_assert!(moves(&again, &[], &set).is_empty());
        }
    }
}
