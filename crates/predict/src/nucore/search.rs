//! The exact search: three stages over cuts and small linear programs.
//!
//! F(a), the most bandwidth that core counts a can move, is a linear program [readings, NuCore,
//! formulation]. Wanted are 1. the maximum of F; 2. the fewest cores with F ≥ maximum − 1e-4; 3. of those
//! allocations, the lexicographically largest.
//!
//! All three walk the slots in order, more cores first, and leave a branch as soon as a known cut (`cut`) shows that no
//! completion reaches the target (`lookahead`). A leaf is decided by solving its program; if it fails, its cut excludes
//! all like it. In stage 1 the target rises with the best leaf. Stages 2 and 3 are one walk for each number of cores,
//! from the least that the cuts allow upwards; the first leaf that passes is the answer. Before, each slot is probed
//! for the fewest cores it can have when the others are free.
//!
//! The result is the optimum up to rounding (1e-9 GB/s). A limit on the work bounds the time.

use crate::nucore::completion::Completion;
use crate::nucore::cut::{Cut, Domain};
use crate::nucore::lookahead::{Left, Lookahead};
use crate::nucore::problem::Problem;
use crate::nucore::simplex::{NoConvergence, Packing, Simplex};
use serde::Serialize;

/// Bandwidth given up, at most, for fewer cores (GB/s) [readings, NuCore, stage 2].
pub(crate) const GIVEN_UP: f64 = 1e-4;
/// Bandwidths are compared with this much room for rounding.
const ROUNDING: f64 = 1e-9;

/// Why a search ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// As much work as allowed.
    Limit,
    /// No allocation satisfies the conditions.
    Infeasible,
    /// A program did not converge.
    Numerics,
}

impl From<NoConvergence> for Stop {
    fn from(_: NoConvergence) -> Self {
        Self::Numerics
    }
}

/// How much work a solution may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EffortLimit {
    /// Most linear programs to solve (some microseconds each).
    pub programs: u64,
    /// Most tests of a branch against a cut (some nanoseconds each).
    pub cut_tests: u64,
}

impl Default for EffortLimit {
    /// Far more than one application on any published machine needs; tens of milliseconds at worst.
    fn default() -> Self {
        Self {
            programs: 2_000,
            cut_tests: 10_000_000,
        }
    }
}

/// Work done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Effort {
    /// Linear programs solved.
    pub programs: u64,
    /// Pivots of the simplex method.
    pub pivots: u64,
    /// Branches taken.
    pub branches: u64,
    /// Branches tested against cuts.
    pub cut_tests: u64,
}

/// Core counts by slot, and the bandwidth they give.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Leaf {
    pub(crate) cores: Vec<usize>,
    pub(crate) bandwidth: f64,
}

impl Leaf {
    fn total(&self) -> usize {
        self.cores.iter().sum()
    }
}

/// What a walk looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Goal {
    /// Every leaf above the target; the target rises to each.
    Most,
    /// The first leaf that reaches the target.
    First,
}

/// Cores of the slots after one.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// On later nodes, node limits respected.
    later_least: usize,
    later_most: usize,
    /// On the same node.
    node_least: usize,
    node_most: usize,
}

/// One part of a program under search.
pub(crate) struct Search<'p> {
    problem: &'p Problem,
    simplex: Simplex,
    cuts: Vec<Cut>,
    domain: Domain,
    lookahead: Lookahead,
    spans: Vec<Span>,
    /// The allocation that the walk is at.
    cores: Vec<usize>,
    target: f64,
    best: Option<Leaf>,
    pub(crate) effort: Effort,
    limit: EffortLimit,
}

impl<'p> Search<'p> {
    pub(crate) fn new(problem: &'p Problem, limit: EffortLimit) -> Self {
        let rows = problem.rows.iter().map(|row| row.flows.clone()).collect();
        let slots = problem.slots.len();
        Self {
            problem,
            simplex: Simplex::new(Packing::new(problem.flows.len(), rows)),
            cuts: problem.conditions.iter().map(Cut::from_condition).collect(),
            domain: Domain {
                least: vec![0; slots],
                most: problem.slots.iter().map(|slot| slot.most).collect(),
            },
            lookahead: Lookahead::default(),
            spans: Vec::new(),
            cores: vec![0; slots],
            target: f64::NEG_INFINITY,
            best: None,
            effort: Effort::default(),
            limit,
        }
    }

    /// Stage 1: an allocation of the most bandwidth.
    pub(crate) fn most_bandwidth(&mut self) -> Result<Leaf, Stop> {
        let everything = self.domain.clone();
        let cut = self.bound(&everything)?;
        self.cuts.push(cut);
        self.prepare(self.problem.nodes.iter().map(|node| node.cores).sum());
        self.climb()?;
        self.walk(0, self.all(None), Goal::Most)?;
        self.best.clone().ok_or(Stop::Infeasible)
    }

    /// Raises the target before the walk: from the best allocation of the latest cut to the best of
    /// the cut solved there, as long as the bandwidth rises.
    fn climb(&mut self) -> Result<(), Stop> {
        let mut completion = Completion::default();
        loop {
            let Some(cut) = self.cuts.last() else {
                return Ok(());
            };
            completion.run(self.problem, &self.domain, &cut.gain, 0);
            let cores = completion.best(self.problem, &self.domain, &cut.gain);
            let allowed = self
                .cuts
                .iter()
                .all(|cut| cut.at(self.problem, &cores) >= cut.need(self.target));
            if !allowed {
                return Ok(());
            }
            self.cores = cores;
            let before = self.target;
            self.leaf(Goal::Most)?;
            if self.target == before {
                return Ok(());
            }
        }
    }

    /// The best leaf that an interrupted stage 1 has seen.
    pub(crate) fn best_so_far(&mut self) -> Option<Leaf> {
        self.best.take()
    }

    /// Stages 2 and 3, given a leaf of stage 1: the fewest cores within [`GIVEN_UP`], and of those
    /// allocations the lexicographically largest.
    pub(crate) fn fewest_cores(&mut self, most: &Leaf) -> Result<Leaf, Stop> {
        self.target = most.bandwidth - GIVEN_UP - ROUNDING;
        self.best = None;
        self.probe()?;
        self.prepare(most.total());
        let least: usize = self.domain.least.iter().sum();
        for total in least..=most.total() {
            if self.lookahead.can_start(Some(total)) {
                self.walk(0, self.all(Some(total)), Goal::First)?;
            }
            if let Some(leaf) = self.best.take() {
                return Ok(leaf);
            }
        }
        // `most` itself passes, so only rounding can lead here.
        Ok(most.clone())
    }

    /// The result when stage 2 was interrupted: cores are removed from a leaf of stage 1, from the
    /// last slot to the first, as long as the bandwidth stays within [`GIVEN_UP`].
    pub(crate) fn trim(&mut self, most: Leaf) -> Result<Leaf, Stop> {
        let target = most.bandwidth - GIVEN_UP - ROUNDING;
        let mut leaf = most;
        self.limit.programs = u64::MAX;
        for slot in (0..leaf.cores.len()).rev() {
            while leaf.cores[slot] > 0 {
                let mut cores = leaf.cores.clone();
                cores[slot] -= 1;
                let allowed = self
                    .problem
                    .conditions
                    .iter()
                    .map(Cut::from_condition)
                    .all(|c| c.at(self.problem, &cores) >= c.need(target));
                let bandwidth = if allowed {
                    self.evaluate(&cores)?.0
                } else {
                    f64::NEG_INFINITY
                };
                if bandwidth < target {
                    break;
                }
                leaf = Leaf { cores, bandwidth };
            }
        }
        Ok(leaf)
    }

    /// The bandwidth of given core counts, in all and by flow.
    pub(crate) fn evaluate(&mut self, cores: &[usize]) -> Result<(f64, Vec<f64>), Stop> {
        let cut = self.bound(&Domain::only(cores))?;
        let flows = (0..self.problem.flows.len())
            .map(|flow| self.simplex.flow(flow))
            .collect();
        Ok((cut.at(self.problem, cores), flows))
    }

    fn all(&self, total: Option<usize>) -> Left {
        Left {
            node: self.problem.nodes.first().map_or(0, |node| node.cores),
            total,
        }
    }

    /// Solves the program of a box: every flow at its greatest cap, every drain at its least.
    fn bound(&mut self, domain: &Domain) -> Result<Cut, Stop> {
        if self.effort.programs >= self.limit.programs {
            return Err(Stop::Limit);
        }
        self.effort.programs += 1;
        let problem = self.problem;
        let (caps, limits) = self.simplex.bounds_mut();
        for (cap, flow) in caps.iter_mut().zip(&problem.flows) {
            let (least, most) = (domain.least[flow.slot], domain.most[flow.slot]);
            *cap = if flow.rising {
                flow.cap[most]
            } else {
                flow.cap[least..=most].iter().copied().fold(0.0, f64::max)
            };
        }
        for (limit, row) in limits.iter_mut().zip(&problem.rows) {
            let drained = row.drained_by.map_or(0.0, |node| {
                let slots = problem.nodes[node].slots.clone();
                let drains = slots.map(|slot| {
                    problem.entries(&problem.drain, slot)[domain.least[slot]..=domain.most[slot]]
                        .iter()
                        .copied()
                        .fold(f64::INFINITY, f64::min)
                });
                drains.sum::<f64>()
            });
            *limit = (row.limit - drained).max(0.0);
        }
        self.simplex.solve()?;
        self.effort.pivots = self.simplex.pivots();
        Ok(Cut::from_multipliers(problem, &self.simplex))
    }

    /// Narrows the domain to the core counts that may reach the target.
    fn probe(&mut self) -> Result<(), Stop> {
        for cut in &self.cuts {
            cut.narrow(self.problem, &mut self.domain, self.target);
        }
        for slot in 0..self.problem.slots.len() {
            loop {
                let least = self.domain.least[slot];
                if least == self.domain.most[slot] {
                    break;
                }
                let mut domain = self.domain.clone();
                domain.most[slot] = least;
                let cut = self.bound(&domain)?;
                if cut.allows(self.problem, &domain, self.target) {
                    break;
                }
                let narrowed = cut.narrow(self.problem, &mut self.domain, self.target);
                self.cuts.push(cut);
                if !narrowed || self.domain.least[slot] == least {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Prepares the walk for allocations in the present domain of at most `total` cores.
    fn prepare(&mut self, total: usize) {
        let problem = self.problem;
        self.spans = vec![Span::default(); problem.slots.len()];
        let (mut later_least, mut later_most) = (0, 0);
        for node in problem.nodes.iter().rev() {
            let (mut node_least, mut node_most) = (0, 0);
            for slot in node.slots.clone().rev() {
                self.spans[slot] = Span {
                    later_least,
                    later_most,
                    node_least,
                    node_most,
                };
                node_least += self.domain.least[slot];
                node_most += self.domain.most[slot];
            }
            later_least += node_least;
            later_most += node_most.min(node.cores);
        }
        self.lookahead
            .prepare(problem, &self.domain, total, &self.cuts, self.target);
    }

    /// Tries all core counts of `slot` and, for each, of the later ones.
    fn walk(&mut self, slot: usize, left: Left, goal: Goal) -> Result<(), Stop> {
        let problem = self.problem;
        if slot == problem.slots.len() {
            return self.leaf(goal);
        }
        let span = self.spans[slot];
        let node = problem.node_of_slot[slot];
        let next_node = (slot + 1 == problem.nodes[node].slots.end)
            .then(|| problem.nodes.get(node + 1).map_or(0, |next| next.cores));
        let most = self.domain.most[slot].min(left.node.saturating_sub(span.node_least));
        for cores in (self.domain.least[slot]..=most).rev() {
            let Some(mut after) = hand_out(left, cores, span) else {
                continue;
            };
            if self.effort.cut_tests >= self.limit.cut_tests {
                return Err(Stop::Limit);
            }
            self.effort.cut_tests += self.cuts.len() as u64;
            if !self.lookahead.can_reach(problem, slot, cores, after) {
                continue;
            }
            self.effort.branches += 1;
            self.cores[slot] = cores;
            self.lookahead.choose(problem, slot, cores);
            after.node = next_node.unwrap_or(after.node);
            self.walk(slot + 1, after, goal)?;
            if goal == Goal::First && self.best.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn leaf(&mut self, goal: Goal) -> Result<(), Stop> {
        let domain = Domain::only(&self.cores);
        let cut = self.bound(&domain)?;
        let bandwidth = cut.at(self.problem, &self.cores);
        if bandwidth >= self.target {
            self.best = Some(Leaf {
                cores: self.cores.clone(),
                bandwidth,
            });
            if goal == Goal::First {
                return Ok(());
            }
            self.raise_target(bandwidth + ROUNDING);
        }
        self.add(cut);
        if goal == Goal::Most {
            self.learn(domain)
        } else {
            Ok(())
        }
    }

    /// Stage 1 has no number of cores to bound the walk: frees slots from the last on as long as the
    /// box still fails, and keeps the cuts of these boxes, which exclude more.
    fn learn(&mut self, mut domain: Domain) -> Result<(), Stop> {
        for slot in (0..self.problem.slots.len()).rev() {
            domain.least[slot] = self.domain.least[slot];
            domain.most[slot] = self.domain.most[slot];
            let excluded = self
                .cuts
                .iter()
                .any(|cut| !cut.allows(self.problem, &domain, self.target));
            if excluded {
                continue;
            }
            let cut = self.bound(&domain)?;
            if cut.allows(self.problem, &domain, self.target) {
                break;
            }
            self.add(cut);
        }
        Ok(())
    }

    fn raise_target(&mut self, target: f64) {
        self.target = target;
        self.lookahead.aim(&self.cuts, target);
        for (slot, &cores) in self.cores.iter().enumerate() {
            self.lookahead.choose(self.problem, slot, cores);
        }
    }

    fn add(&mut self, cut: Cut) {
        self.cuts.push(cut);
        self.lookahead.add(
            self.problem,
            &self.domain,
            &self.cuts,
            self.target,
            &self.cores,
        );
    }
}

/// What is left after `cores` for a slot, or nothing if the later slots could not use it up.
fn hand_out(left: Left, cores: usize, span: Span) -> Option<Left> {
    let node = left.node - cores;
    let total = match left.total {
        None => None,
        Some(total) => {
            let total = total.checked_sub(cores)?;
            let most = span.later_most + span.node_most.min(node);
            if total < span.later_least + span.node_least || total > most {
                return None;
            }
            Some(total)
        }
    };
    Some(Left { node, total })
}
