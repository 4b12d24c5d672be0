//! The program's interface: build, solve, predict.

use crate::nucore::demand::Demand;
use crate::nucore::error::NuCoreError;
use crate::nucore::machine::{DramCharge, Machine, check_cores, check_length};
use crate::nucore::pair::Pair;
use crate::nucore::problem::{FlowKind, Problem, ROUNDING};
use crate::nucore::search::{Effort, EffortLimit, GIVEN_UP, Search, Stop};
use crate::units::GbPerSecond;
use serde::Serialize;
use std::collections::BTreeMap;

/// Cores by application, and within it by node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct NodeAllocation(pub Vec<Vec<u32>>);

impl NodeAllocation {
    /// All cores handed out.
    pub fn total(&self) -> u64 {
        self.0.iter().flatten().map(|&cores| u64::from(cores)).sum()
    }
}

/// The answer of the program.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Solution {
    /// Bandwidth of this allocation, within 1e-4 of the most there is.
    pub total_bandwidth: GbPerSecond,
    /// Cores that it takes.
    pub total_cores: u64,
    /// The allocation.
    pub allocation: NodeAllocation,
    /// Whether it is the proven optimum of all three stages; false when the effort limit was hit
    /// before: then it is the best one seen, without cores that it can do without.
    pub proven: bool,
    /// The work it took.
    pub effort: Effort,
}

/// The bandwidth of an allocation [NuCore §6.9]; of a saturated memory, one of several divisions.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BandwidthPrediction {
    /// Everything.
    pub total: GbPerSecond,
    /// Local bandwidth by application and node.
    pub local: Vec<Vec<GbPerSecond>>,
    /// Bandwidth between nodes, by application and pair.
    pub remote: Vec<RemoteFlow>,
}

/// The bandwidth of an application from one node to another, reads and writes together.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RemoteFlow {
    /// The application.
    pub app: usize,
    /// From which node to which.
    pub pair: Pair,
    /// How much.
    pub bandwidth: GbPerSecond,
}

/// A machine and the applications on it.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    machine: &'a Machine,
    demands: &'a [Demand],
    charge: DramCharge,
}

impl<'a> Program<'a> {
    /// The program of `demands` side by side on `machine`.
    ///
    /// # Errors
    /// A [`NuCoreError`] that names the entry of a demand that does not fit the machine.
    pub fn new(
        machine: &'a Machine,
        demands: &'a [Demand],
        charge: DramCharge,
    ) -> Result<Self, NuCoreError> {
        for (app, demand) in demands.iter().enumerate() {
            demand.check(machine, app)?;
        }
        Ok(Self {
            machine,
            demands,
            charge,
        })
    }

    /// Solves all three stages.
    ///
    /// # Errors
    /// [`NuCoreError::Infeasible`] or [`NuCoreError::Undecided`].
    pub fn solve(&self, limit: EffortLimit) -> Result<Solution, NuCoreError> {
        let mut solution = Solution {
            total_bandwidth: GbPerSecond(0.0),
            total_cores: 0,
            allocation: self.nobody(),
            proven: true,
            effort: Effort::default(),
        };
        if self.demands.is_empty() {
            return Ok(solution);
        }
        let parts = Problem::compiled(self.machine, self.demands, self.charge).parts();
        let mut given_up = 0.0;
        for part in &parts {
            given_up += solve_part(part, limit, &mut solution)?;
        }
        if given_up > GIVEN_UP && parts.len() > 1 {
            // The parts share the allowance, and together they gave up more than it. Rare: a core
            // must be worth less than 1e-4 GB/s.
            let whole = Problem::compiled(self.machine, self.demands, self.charge);
            solution.total_bandwidth = GbPerSecond(0.0);
            solve_part(&whole, limit, &mut solution)?;
        }
        solution.total_cores = solution.allocation.total();
        Ok(solution)
    }

    /// Predicts the bandwidth of a given allocation.
    ///
    /// # Errors
    /// [`NuCoreError::Invalid`] or [`NuCoreError::Overload`].
    pub fn bandwidth(
        &self,
        allocation: &NodeAllocation,
    ) -> Result<BandwidthPrediction, NuCoreError> {
        self.check(allocation)?;
        let mut local = vec![vec![GbPerSecond(0.0); self.machine.nodes()]; self.demands.len()];
        let mut remote = BTreeMap::<(usize, Pair), f64>::new();
        let problem = Problem::plain(self.machine, self.demands, self.charge);
        let cores: Vec<usize> = problem
            .slots
            .iter()
            .map(|slot| allocation.0[slot.app][slot.node] as usize)
            .collect();
        let mut search = Search::new(&problem, EffortLimit::default());
        let (total, flows) = search
            .evaluate(&cores)
            .map_err(|stop| refused(stop, &search))?;
        for (flow, &bandwidth) in problem.flows.iter().zip(&flows) {
            let slot = problem.slots[flow.slot];
            match flow.kind {
                FlowKind::Local => local[slot.app][slot.node] = GbPerSecond(bandwidth),
                FlowKind::Remote(pair) => *remote.entry((slot.app, pair)).or_default() += bandwidth,
            }
        }
        let remote = remote
            .into_iter()
            .map(|((app, pair), bandwidth)| RemoteFlow {
                app,
                pair,
                bandwidth: GbPerSecond(bandwidth),
            })
            .collect();
        Ok(BandwidthPrediction {
            total: GbPerSecond(total),
            local,
            remote,
        })
    }

    fn nobody(&self) -> NodeAllocation {
        NodeAllocation(vec![vec![0; self.machine.nodes()]; self.demands.len()])
    }

    fn check(&self, allocation: &NodeAllocation) -> Result<(), NuCoreError> {
        check_length("the allocation", allocation.0.len(), self.demands.len())?;
        for (app, cores) in allocation.0.iter().enumerate() {
            let what = || format!("the allocation of application {app}");
            check_length(&what(), cores.len(), self.machine.nodes())?;
        }
        let spec = self.machine.spec();
        for (node, &available) in self.machine.cores().iter().enumerate() {
            let held = allocation.0.iter().map(|cores| cores[node]);
            let wanted: u64 = held.clone().map(u64::from).sum();
            check_cores(&format!("node {node}"), wanted, available.into())?;
            let demand: f64 = held
                .zip(self.demands)
                .map(|(cores, d)| d.local[node][cores as usize])
                .sum();
            let (alpha, beta) = (spec.alpha[node], spec.beta[node]);
            if beta * demand > alpha + ROUNDING {
                return Err(NuCoreError::Overload {
                    node,
                    demand,
                    beta,
                    alpha,
                });
            }
        }
        Ok(())
    }
}

/// Solves one part into `solution`; returns the bandwidth given up in stage 2.
fn solve_part(
    part: &Problem,
    limit: EffortLimit,
    solution: &mut Solution,
) -> Result<f64, NuCoreError> {
    let spent = solution.effort;
    let limit = EffortLimit {
        programs: limit.programs.saturating_sub(spent.programs),
        cut_tests: limit.cut_tests.saturating_sub(spent.cut_tests),
    };
    let mut search = Search::new(part, limit);
    let most = match search.most_bandwidth() {
        Ok(most) => most,
        Err(Stop::Limit) => {
            solution.proven = false;
            search.best_so_far().ok_or(NuCoreError::Undecided {
                programs: limit.programs,
                cut_tests: limit.cut_tests,
            })?
        }
        Err(stop) => return Err(refused(stop, &search)),
    };
    let fewest = match search.fewest_cores(&most) {
        Err(Stop::Limit) => {
            solution.proven = false;
            search.trim(most.clone())
        }
        result => result,
    };
    let leaf = fewest.map_err(|stop| refused(stop, &search))?;
    for (slot, &cores) in part.slots.iter().zip(&leaf.cores) {
        solution.allocation.0[slot.app][slot.node] = cores as u32;
    }
    solution.total_bandwidth.0 += leaf.bandwidth;
    solution.effort.programs += search.effort.programs;
    solution.effort.pivots += search.effort.pivots;
    solution.effort.branches += search.effort.branches;
    solution.effort.cut_tests += search.effort.cut_tests;
    Ok(most.bandwidth - leaf.bandwidth)
}

fn refused(stop: Stop, search: &Search<'_>) -> NuCoreError {
    match stop {
        Stop::Infeasible => NuCoreError::Infeasible,
        Stop::Numerics => NuCoreError::Numerics(search.effort.pivots),
        Stop::Limit => NuCoreError::Undecided {
            programs: search.effort.programs,
            cut_tests: search.effort.cut_tests,
        },
    }
}
