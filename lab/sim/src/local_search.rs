//! Small changes to the division of contexts, kept where they pay.
//!
//! The layouts that can be enumerated are socket by socket or evenly spread; the best for four programs is often
//! neither. Contexts are handed over, exchanged between sockets, left idle, or the siblings of cores paired
//! differently, at random and from one seed, so that a search repeats exactly.

use crate::machine::Machine;
use crate::noise::Noise;
use mapper_model::{CpuId, CpuSet};

/// Sizes of a change, in contexts.
const SIZES: [usize; 6] = [1, 2, 4, 8, 20, 40];

#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// The most changes to try.
    pub(crate) tries: u32,
    /// Useless changes in a row after which it stops.
    pub(crate) in_vain: u32,
}

/// The best division found from `start` on, with its value.
pub(crate) fn improve(
    machine: &Machine,
    start: (f64, Vec<CpuSet>),
    purpose: u64,
    effort: Effort,
    mut value: impl FnMut(&[CpuSet]) -> f64,
) -> (f64, Vec<CpuSet>) {
    let mut random = Noise::new(0, purpose);
    let mut best = start;
    let mut held = Holders::of(machine, &best.1);
    let mut in_vain = 0;
    for _ in 0..effort.tries {
        if in_vain >= effort.in_vain {
            break;
        }
        in_vain += 1;
        let mut changed = held.clone();
        changed.change(machine, &mut random);
        if let Some(sets) = changed.sets().filter(|_| changed != held) {
            let found = value(&sets);
            if found > best.0 * (1.0 + 1e-9) {
                best = (found, sets);
                held = changed;
                in_vain = 0;
            }
        }
    }
    best
}

/// The program that holds each context; `programs` stands for none.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Holders {
    of: Vec<usize>,
    programs: usize,
}

impl Holders {
    fn of(machine: &Machine, sets: &[CpuSet]) -> Self {
        let holder = |context: u32| {
            let held = sets.iter().position(|set| set.contains(CpuId(context)));
            held.unwrap_or(sets.len())
        };
        let (of, programs) = ((0..machine.contexts()).map(holder).collect(), sets.len());
        Self { of, programs }
    }

    /// The sets, if no program is without one.
    fn sets(&self) -> Option<Vec<CpuSet>> {
        let mut sets = vec![CpuSet::new(); self.programs];
        for (context, &holder) in (0..).zip(&self.of) {
            if let Some(set) = sets.get_mut(holder) {
                set.insert(CpuId(context));
            }
        }
        sets.iter().all(|set| !set.is_empty()).then_some(sets)
    }

    fn change(&mut self, machine: &Machine, random: &mut Noise) {
        let mut pick = |below: usize| ((random.unit() * below as f64) as usize).min(below - 1);
        let from = pick(self.programs + 1);
        let to = (from + 1 + pick(self.programs)) % (self.programs + 1);
        let here = pick(machine.spec.sockets as usize);
        let there = pick(machine.spec.sockets as usize);
        let size = SIZES[pick(SIZES.len())];
        let kind = pick(4);
        if kind == 3 {
            return self.pair(machine, here, [from, to], size);
        }
        let given = self.hand_over(machine, here, [from, to], size);
        if kind == 2 {
            self.hand_over(machine, there, [to, from], given);
        }
    }

    /// Contexts of a holder in a socket, those of whole cores first.
    fn contexts(&self, machine: &Machine, socket: usize, holder: usize) -> Vec<usize> {
        let mut found: Vec<usize> = (0..self.of.len())
            .filter(|&c| self.of[c] == holder && machine.socket_of(c) == socket)
            .collect();
        found.sort_by_key(|&context| {
            let sibling = machine.sibling_of(context);
            let shared = sibling.is_some_and(|s| self.of[s] != holder);
            (shared, sibling.map_or(context, |s| s.min(context)))
        });
        found
    }

    /// Hands over up to so many contexts of a socket from one to another; returns how many.
    fn hand_over(&mut self, on: &Machine, socket: usize, of: [usize; 2], count: usize) -> usize {
        let [from, to] = of;
        let contexts = self.contexts(on, socket, from);
        let given = contexts.len().min(count);
        for &context in &contexts[..given] {
            self.of[context] = to;
        }
        given
    }

    /// Turns a whole core of each into two shared ones, or the other way round.
    fn pair(&mut self, machine: &Machine, socket: usize, [a, b]: [usize; 2], count: usize) {
        let cores: Vec<[usize; 2]> = (0..self.of.len())
            .filter(|&c| machine.socket_of(c) == socket)
            .filter_map(|c| machine.sibling_of(c).map(|s| [c, s]))
            .filter(|[c, s]| c < s)
            .collect();
        let held_by = |holders: [usize; 2]| -> Vec<[usize; 2]> {
            let fits = |core: &&[usize; 2]| core.map(|c| self.of[c]) == holders;
            cores.iter().filter(fits).copied().collect()
        };
        let (own, other, shared) = (held_by([a, a]), held_by([b, b]), held_by([a, b]));
        if own.is_empty() || other.is_empty() {
            for two in shared.chunks_exact(2).take(count) {
                self.of[two[0][1]] = a;
                self.of[two[1][0]] = b;
            }
        } else {
            for (mine, yours) in own.iter().zip(&other).take(count) {
                self.of[mine[1]] = b;
                self.of[yours[0]] = a;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::machine;
    use crate::layouts;

    const EFFORT: Effort = Effort {
        tries: 600,
        in_vain: 300,
    };

    #[test]
    fn a_search_finds_a_better_division_and_leaves_no_program_without_a_cpu() {
        let machine = machine("hsw80");
        let start = layouts::packed(&machine, &[40, 40]);
        // The first program wants the first context of each core, and the other as few as possible.
        let wanted: CpuSet = layouts::interleaved(&machine, &[40]).remove(0);
        let value = |sets: &[CpuSet]| {
            f64::from(sets[0].overlap(&wanted)) - 0.5 * f64::from(sets[1].len()) + 100.0
        };
        let (found, sets) = improve(&machine, (value(&start), start), 1, EFFORT, value);
        assert!(found > 125.0, "{found}");
        assert!(sets[0].is_disjoint(&sets[1]) && !sets[1].is_empty());
    }

    #[test]
    fn the_same_search_finds_the_same() {
        let machine = machine("ivb40");
        let run = || {
            let start = layouts::packed(&machine, &[10, 20, 10]);
            let value = |sets: &[CpuSet]| f64::from(sets[1].len());
            improve(&machine, (value(&start), start), 7, EFFORT, value).1
        };
        assert_eq!(run(), run());
    }
}
