//! For a partly chosen allocation: can any completion still meet every cut?
//!
//! The walk (`search`) asks this at every step. For one cut the best completion is a dynamic program
//! (`completion`), run once when the cut is added. The tables hold the cuts side by side ("lanes"),
//! so that an answer is a few additions on consecutive memory; unused lanes always pass.
//!
//! Invariant: the answer is no only if a cut proves it.

use crate::nucore::completion::Completion;
use crate::nucore::cut::{Cut, Domain};
use crate::nucore::problem::Problem;

/// Cores not handed out yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    /// On the node under consideration.
    pub(crate) node: usize,
    /// In all, if the number is fixed.
    pub(crate) total: Option<usize>,
}

/// Lanes are added in groups, and tested in groups.
const GROUP: usize = 8;

/// The tables of all cuts for one domain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookahead {
    cuts: usize,
    lanes: usize,
    /// Row length of `exactly` in cores.
    stride: usize,
    /// By table entry.
    gain: Vec<f64>,
    /// By table entry.
    in_node: Vec<f64>,
    /// By node and cores.
    exactly: Vec<f64>,
    /// By node: any number of cores.
    any: Vec<f64>,
    completion: Completion,
    /// By number of slots chosen: what they and the constant exceed the need by.
    slack: Vec<f64>,
}

impl Lookahead {
    pub(crate) fn prepare(
        &mut self,
        problem: &Problem,
        domain: &Domain,
        total: usize,
        cuts: &[Cut],
        target: f64,
    ) {
        self.stride = total + 1;
        self.resize(problem, cuts.len());
        for (lane, cut) in cuts.iter().enumerate() {
            self.fill(problem, domain, cut, lane);
        }
        self.cuts = cuts.len();
        self.aim(cuts, target);
    }

    /// Adds the last of `cuts` for the slots chosen so far.
    pub(crate) fn add(
        &mut self,
        problem: &Problem,
        domain: &Domain,
        cuts: &[Cut],
        target: f64,
        chosen: &[usize],
    ) {
        let Some((cut, others)) = cuts.split_last() else {
            return;
        };
        if others.len() == self.lanes {
            self.prepare(problem, domain, self.stride - 1, cuts, target);
            for (slot, &cores) in chosen.iter().enumerate() {
                self.choose(problem, slot, cores);
            }
            return;
        }
        let lane = others.len();
        self.fill(problem, domain, cut, lane);
        self.cuts = cuts.len();
        let mut slack = cut.constant - cut.need(target);
        self.slack[lane] = slack;
        for (slot, &cores) in chosen.iter().enumerate() {
            slack += cut.gain[problem.slots[slot].table + cores];
            self.slack[(slot + 1) * self.lanes + lane] = slack;
        }
    }

    /// Changes the target; nothing is chosen any more.
    pub(crate) fn aim(&mut self, cuts: &[Cut], target: f64) {
        for (slack, cut) in self.slack.iter_mut().zip(cuts) {
            *slack = cut.constant - cut.need(target);
        }
    }

    /// Whether the cuts leave an allocation at all, of exactly `total` cores if given.
    pub(crate) fn can_start(&self, total: Option<usize>) -> bool {
        let later = match total {
            Some(total) => &self.exactly[total * self.lanes..],
            None => &self.any,
        };
        (0..self.cuts).all(|lane| self.slack[lane] + later[lane] >= 0.0)
    }

    /// Notes that slot number `slot` gets `cores`.
    #[inline]
    pub(crate) fn choose(&mut self, problem: &Problem, slot: usize, cores: usize) {
        let lanes = self.lanes;
        let gain = &self.gain[(problem.slots[slot].table + cores) * lanes..][..lanes];
        let (before, after) = self.slack.split_at_mut((slot + 1) * lanes);
        let before = &before[slot * lanes..];
        for ((after, before), gain) in after.iter_mut().zip(before).zip(gain) {
            *after = before + gain;
        }
    }

    /// Whether the slots before `slot` as chosen, `cores` for it, and the best use of what is `left`
    /// for the later ones can meet every cut.
    #[inline]
    pub(crate) fn can_reach(
        &self,
        problem: &Problem,
        slot: usize,
        cores: usize,
        left: Left,
    ) -> bool {
        let lanes = self.lanes;
        let node = problem.node_of_slot[slot];
        let slack = &self.slack[slot * lanes..][..lanes];
        let gain = &self.gain[(problem.slots[slot].table + cores) * lanes..][..lanes];
        if slot + 1 == problem.nodes[node].slots.end {
            let later = match left.total {
                Some(total) => &self.exactly[((node + 1) * self.stride + total) * lanes..][..lanes],
                None => &self.any[(node + 1) * lanes..][..lanes],
            };
            return slack
                .chunks_exact(GROUP)
                .zip(gain.chunks_exact(GROUP))
                .zip(later.chunks_exact(GROUP))
                .all(|((slack, gain), later)| {
                    let mut pass = true;
                    for lane in 0..GROUP {
                        pass &= slack[lane] + gain[lane] + later[lane] >= 0.0;
                    }
                    pass
                });
        }
        (0..self.cuts).all(|lane| {
            slack[lane] + gain[lane] + self.best_in_node(problem, slot + 1, lane, left) >= 0.0
        })
    }

    /// Best gain of one cut from `slot`, which is not the first of its node, on.
    fn best_in_node(&self, problem: &Problem, slot: usize, lane: usize, left: Left) -> f64 {
        let lanes = self.lanes;
        let after = problem.node_of_slot[slot] + 1;
        let table = problem.slots[slot].table;
        let mut best = f64::NEG_INFINITY;
        for cores in 0..=left.node.min(problem.slots[slot].most) {
            let later = match left.total {
                Some(total) if cores > total => break,
                Some(total) => self.exactly[(after * self.stride + total - cores) * lanes + lane],
                None => self.any[after * lanes + lane],
            };
            best = best.max(self.in_node[(table + cores) * lanes + lane] + later);
        }
        best
    }

    /// Empties the tables, with room for as many cuts again.
    fn resize(&mut self, problem: &Problem, cuts: usize) {
        self.lanes = (2 * cuts.max(GROUP)).next_multiple_of(GROUP);
        let lanes = self.lanes;
        let nodes = problem.nodes.len() + 1;
        for (table, len) in [
            (&mut self.gain, problem.table_len()),
            (&mut self.in_node, problem.table_len()),
            (&mut self.exactly, nodes * self.stride),
            (&mut self.any, nodes),
        ] {
            table.clear();
            table.resize(len * lanes, 0.0);
        }
        self.slack.clear();
        self.slack
            .resize((problem.slots.len() + 1) * lanes, f64::INFINITY);
    }

    /// Copies the dynamic program of one cut into its lane.
    fn fill(&mut self, problem: &Problem, domain: &Domain, cut: &Cut, lane: usize) {
        self.completion
            .run(problem, domain, &cut.gain, self.stride - 1);
        let lanes = self.lanes;
        for (to, from) in [
            (&mut self.gain, &cut.gain),
            (&mut self.in_node, &self.completion.in_node),
            (&mut self.exactly, &self.completion.exactly),
            (&mut self.any, &self.completion.any),
        ] {
            for (to, from) in to.iter_mut().skip(lane).step_by(lanes).zip(from) {
                *to = *from;
            }
        }
    }
}
