//! What neighbours cost each other through memory, by NuPoCo's queue [NuPoCo §3.3].
//!
//! Every CPU works for a while and then waits for an answer of memory, which serves one after the other. Everybody is taken
//! to be spread evenly over the nodes, so that one memory stands for all. From misses per unhalted cycle follows what each asks
//! for in a cycle of work ([`Neighbours::new`]), and from that, for any division, the share of its time in which each
//! works rather than waits ([`Neighbours::working`]).
//!
//! Units: cycles; requests per cycle. Invariant: shares are above 0 and at most 1.

use mapper_predict::nupoco::queue;
use mapper_predict::{Cycles, RequestsPerCycle};

/// Most of its time that anybody is taken to wait: a measurement beyond what memory serves counts as that.
const MOST_WAITING: f64 = 0.95;
/// Steps in which the response time is found.
const STEPS: usize = 40;

/// What everybody asks memory for.
#[derive(Clone, PartialEq, Debug)]
pub struct Neighbours {
    /// Requests per cycle of work of a CPU.
    demands: Vec<f64>,
    nodes: f64,
    service: Cycles,
}

impl Neighbours {
    /// From misses per unhalted cycle, measured while they had `now` CPUs on `nodes` nodes. Nothing when nobody misses.
    #[must_use]
    pub fn new(misses: &[f64], now: &[u32], nodes: usize, service: Cycles) -> Option<Self> {
        let most = misses.iter().copied().fold(0.0, f64::max);
        if !(most > 0.0 && most.is_finite()) || nodes == 0 {
            return None;
        }
        let mut neighbours = Self {
            demands: Vec::new(),
            nodes: nodes as f64,
            service,
        };
        let at = |response: f64| -> Vec<f64> {
            let demand = |x: &f64| x / (1.0 - x * response);
            misses.iter().map(demand).collect()
        };
        let (mut low, mut high) = (0.0, MOST_WAITING / most);
        for _ in 0..STEPS {
            let middle = 0.5 * (low + high);
            neighbours.demands = at(middle);
            if neighbours.response(now)? > middle {
                low = middle;
            } else {
                high = middle;
            }
        }
        neighbours.demands = at(low);
        Some(neighbours)
    }

    /// Response time of memory, in cycles.
    fn response(&self, counts: &[u32]) -> Option<f64> {
        let total: f64 = counts.iter().map(|c| f64::from(*c)).sum();
        let asked = self.demands.iter().zip(counts);
        let mean = asked.map(|(demand, c)| demand * f64::from(*c)).sum::<f64>() / total.max(1.0);
        let customers = (total / self.nodes).round().max(1.0) as u32;
        let rate = RequestsPerCycle::new(mean).ok()?;
        Some(queue::solve(customers, rate, self.service).response.get())
    }

    /// The share of its time in which each works, at these counts.
    #[must_use]
    pub fn working(&self, counts: &[u32]) -> Vec<f64> {
        let response = self.response(counts).unwrap_or(0.0);
        let share = |demand: &f64| 1.0 / (1.0 + demand * response);
        self.demands.iter().map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(value: f64) -> Cycles {
        Cycles::new(value).unwrap()
    }

    #[test]
    fn what_was_measured_comes_out_again() {
        let misses = [0.012, 0.002];
        let neighbours = Neighbours::new(&misses, &[20, 20], 2, cycles(5.0)).unwrap();
        let working = neighbours.working(&[20, 20]);
        for ((share, demand), misses) in working.iter().zip(&neighbours.demands).zip(misses) {
            assert!((share * demand - misses).abs() < 1e-6);
        }
    }

    #[test]
    fn who_asks_little_gains_when_the_other_shrinks() {
        let neighbours = Neighbours::new(&[0.008, 0.001], &[20, 20], 2, cycles(8.0)).unwrap();
        let (before, after) = (neighbours.working(&[20, 20]), neighbours.working(&[8, 32]));
        assert!(after[0] > before[0] && after[1] > before[1]);
    }

    #[test]
    fn without_misses_nothing_is_said() {
        assert_eq!(Neighbours::new(&[0.0, 0.0], &[1, 1], 1, cycles(1.0)), None);
        assert_eq!(
            Neighbours::new(&[f64::NAN, 0.0], &[1, 1], 1, cycles(1.0)),
            None
        );
    }
}
