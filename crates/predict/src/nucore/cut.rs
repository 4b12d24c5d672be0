//! Upper bounds on the bandwidth that are a sum over the slots.
//!
//! For multipliers y ≥ 0 of the rows, weak duality gives for *every* choice of core counts a
//!
//! ```text
//! F(a) ≤ Σ_r y_r·(limit_r − Σ drain[a]) + Σ_f max(0, 1 − Σ_{r∋f} y_r)·cap_f[a]
//! ```
//!
//! a constant plus one table entry for each slot: a *cut*. Every linear program that is solved once
//! gives a cut that bounds all other core counts (Benders' decomposition). Conditions on the core
//! counts alone have the same form and the fixed need 0.
//!
//! Invariant: a cut never lies below F; rounded multipliers make it weaker, never wrong.

use crate::nucore::problem::{Condition, Problem, ROUNDING};
use crate::nucore::simplex::Simplex;

/// Fewest and most cores of each slot under consideration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Domain {
    pub(crate) least: Vec<usize>,
    pub(crate) most: Vec<usize>,
}

impl Domain {
    /// These core counts and no other.
    pub(crate) fn only(cores: &[usize]) -> Self {
        Self {
            least: cores.to_vec(),
            most: cores.to_vec(),
        }
    }
}

/// Σ gain(a) + constant ≥ need.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) constant: f64,
    /// By table entry.
    pub(crate) gain: Vec<f64>,
    /// Whether it bounds the bandwidth, or is a condition with the need 0.
    bounds_bandwidth: bool,
}

impl Cut {
    /// The cut of the program that `simplex` solved last.
    pub(crate) fn from_multipliers(problem: &Problem, simplex: &Simplex) -> Self {
        let mut constant = 0.0;
        let mut gain = problem.free_gain.clone();
        let mut uncovered = vec![1.0; problem.flows.len()];
        for (at, row) in problem.rows.iter().enumerate() {
            let multiplier = simplex.multiplier(at);
            if multiplier == 0.0 {
                continue;
            }
            constant += multiplier * row.limit;
            for &flow in &row.flows {
                uncovered[flow] -= multiplier;
            }
            if let Some(node) = row.drained_by {
                for slot in &problem.slots[problem.nodes[node].slots.clone()] {
                    let entries = slot.entries();
                    for (gain, drain) in gain[entries.clone()]
                        .iter_mut()
                        .zip(&problem.drain[entries])
                    {
                        *gain -= multiplier * drain;
                    }
                }
            }
        }
        for (flow, &weight) in problem.flows.iter().zip(&uncovered) {
            if weight > 0.0 {
                let table = problem.slots[flow.slot].table;
                for (gain, cap) in gain[table..].iter_mut().zip(&flow.cap) {
                    *gain += weight * cap;
                }
            }
        }
        Self {
            constant,
            gain,
            bounds_bandwidth: true,
        }
    }

    pub(crate) fn from_condition(condition: &Condition) -> Self {
        Self {
            constant: condition.constant,
            gain: condition.gain.clone(),
            bounds_bandwidth: false,
        }
    }

    /// What the sum must reach for the bandwidth `target`.
    pub(crate) const fn need(&self, target: f64) -> f64 {
        if self.bounds_bandwidth {
            target
        } else {
            -ROUNDING
        }
    }

    /// Its value for these core counts.
    pub(crate) fn at(&self, problem: &Problem, cores: &[usize]) -> f64 {
        let gains = problem
            .slots
            .iter()
            .zip(cores)
            .map(|(slot, &c)| self.gain[slot.table + c]);
        self.constant + gains.sum::<f64>()
    }

    /// Whether some core counts in a box reach `target`, node limits aside.
    pub(crate) fn allows(&self, problem: &Problem, domain: &Domain, target: f64) -> bool {
        self.most_in(problem, domain) >= self.need(target)
    }

    /// Removes core counts from the ends of the domain that cannot reach `target` whatever the
    /// other slots do; false, and no change, when none can.
    pub(crate) fn narrow(&self, problem: &Problem, domain: &mut Domain, target: f64) -> bool {
        let slack = self.most_in(problem, domain) - self.need(target);
        if slack < 0.0 {
            return false;
        }
        for slot in 0..problem.slots.len() {
            let gain = problem.entries(&self.gain, slot);
            let floor = self.slot_most(problem, domain, slot) - slack;
            let (least, most) = (&mut domain.least[slot], &mut domain.most[slot]);
            while *least < *most && gain[*least] < floor {
                *least += 1;
            }
            while *least < *most && gain[*most] < floor {
                *most -= 1;
            }
        }
        true
    }

    fn most_in(&self, problem: &Problem, domain: &Domain) -> f64 {
        (0..problem.slots.len())
            .map(|slot| self.slot_most(problem, domain, slot))
            .sum::<f64>()
            + self.constant
    }

    fn slot_most(&self, problem: &Problem, domain: &Domain, slot: usize) -> f64 {
        problem.entries(&self.gain, slot)[domain.least[slot]..=domain.most[slot]]
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max)
    }
}
