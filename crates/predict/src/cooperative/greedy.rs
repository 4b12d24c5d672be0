//! Algorithm 2: clusters to the applications with the greatest sum of speedups
//! [Cooperative §4.3].
//!
//! A cluster is a group of cores with one last-level cache. Each application gets one; each further one goes where the
//! sum of all speedups, as the model of one memory controller predicts it ([`crate::nupoco::colocation`], reading C),
//! is greatest. The listing compares with `>` from 0, so the first of equal sums wins; its inner loop predicts each
//! speedup from the whole temporary allocation [readings, CPR].
//!
//! Invariants: all clusters are handed out, each application holds at least one.

use crate::error::{ModelError, check_workloads};
use crate::nupoco::colocation::{Crowd, Reading, Share};
use crate::nupoco::{queue, smp};
use crate::units::{Cycles, RequestsPerCycle, Speedup, WorkloadIndex};
use serde::Serialize;

/// A machine of equal clusters on one memory controller.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClusteredMachine {
    /// Clusters.
    pub clusters: usize,
    /// Cores of each.
    pub cores_per_cluster: u32,
    /// Service time of the memory controller.
    pub service: Cycles,
}

/// The result of Algorithm 2.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClusterPlan {
    /// Clusters of each application.
    pub clusters: Vec<u32>,
    /// Speedup of each, with these clusters.
    pub speedups: Vec<Speedup>,
    /// Their sum.
    pub sum: f64,
    /// One step for each cluster after the reserved ones.
    pub trace: Vec<ClusterStep>,
}

/// One cluster handed out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClusterStep {
    /// Sum of speedups with the cluster given to each application in turn.
    pub sum_speedup: Vec<f64>,
    /// The application that got it.
    pub choice: WorkloadIndex,
}

/// Runs Algorithm 2 on applications of these request rates.
///
/// # Errors
/// When there are fewer clusters than applications.
pub fn plan(
    machine: &ClusteredMachine,
    rates: &[RequestsPerCycle],
) -> Result<ClusterPlan, ModelError> {
    check_workloads(rates.len(), machine.clusters as u64, "clusters")?;
    let mut clusters = vec![1u32; rates.len()];
    let mut trace = Vec::new();
    let open = if rates.is_empty() {
        0
    } else {
        machine.clusters - rates.len()
    };
    for _ in 0..open {
        let mut best = 0.0;
        let mut choice = 0;
        let mut sums = Vec::with_capacity(rates.len());
        for candidate in 0..rates.len() {
            clusters[candidate] += 1;
            let sum = sum_of_speedups(machine, rates, &clusters);
            clusters[candidate] -= 1;
            if sum > best {
                (best, choice) = (sum, candidate);
            }
            sums.push(sum);
        }
        clusters[choice] += 1;
        trace.push(ClusterStep {
            sum_speedup: sums,
            choice: WorkloadIndex(choice),
        });
    }

    let response = response(machine, rates, &clusters);
    let speedups: Vec<Speedup> = rates
        .iter()
        .zip(&clusters)
        .map(|(rate, &held)| Speedup(speedup(machine, *rate, held, response)))
        .collect();
    let sum = speedups.iter().map(|s| s.get()).sum();
    Ok(ClusterPlan {
        clusters,
        speedups,
        sum,
        trace,
    })
}

fn sum_of_speedups(
    machine: &ClusteredMachine,
    rates: &[RequestsPerCycle],
    clusters: &[u32],
) -> f64 {
    let response = response(machine, rates, clusters);
    rates
        .iter()
        .zip(clusters)
        .map(|(rate, &held)| speedup(machine, *rate, held, response))
        .sum()
}

/// The response time that all applications see together (reading C).
fn response(machine: &ClusteredMachine, rates: &[RequestsPerCycle], clusters: &[u32]) -> f64 {
    let shares = rates.iter().zip(clusters).map(|(&rate, &held)| Share {
        cores: held * machine.cores_per_cluster,
        rate,
    });
    let crowd = Crowd::of(shares, Reading::Requesting);
    let state = queue::solve_raw(crowd.customers, crowd.mean_rate(), machine.service.get());
    state.response.get()
}

fn speedup(machine: &ClusteredMachine, rate: RequestsPerCycle, held: u32, response: f64) -> f64 {
    let cores = f64::from(held * machine.cores_per_cluster);
    smp::speedup(cores, rate.get(), response, machine.service.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn machine(clusters: usize) -> ClusteredMachine {
        ClusteredMachine {
            clusters,
            cores_per_cluster: 8,
            service: Cycles::new(10.0).unwrap(),
        }
    }

    fn rates(values: &[f64]) -> Vec<RequestsPerCycle> {
        values
            .iter()
            .map(|&v| RequestsPerCycle::new(v).unwrap())
            .collect()
    }

    #[test]
    fn of_equal_sums_the_first_application_wins() {
        let plan = plan(&machine(4), &rates(&[0.0, 0.0])).unwrap();
        assert_eq!(plan.clusters, [3, 1]);
        assert_eq!(plan.sum, 32.0);
    }

    #[test]
    fn no_application_to_serve_is_no_error() {
        let plan = plan(&machine(4), &[]).unwrap();
        assert!(plan.clusters.is_empty() && plan.trace.is_empty());
    }

    #[test]
    fn fewer_clusters_than_applications_are_refused() {
        let error = plan(&machine(1), &rates(&[0.0, 0.1])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "2 workloads for 1 clusters: share clusters between workloads first"
        );
    }

    proptest! {
        #[test]
        fn all_clusters_are_handed_out_and_the_last_step_predicts_the_sum(
            values in prop::collection::vec(0.0..0.1f64, 1..6), extra in 0usize..8,
        ) {
            let machine = machine(values.len() + extra);
            let plan = plan(&machine, &rates(&values)).unwrap();
            prop_assert_eq!(plan.clusters.iter().sum::<u32>() as usize, machine.clusters);
            prop_assert!(plan.clusters.iter().all(|&held| held >= 1));
            prop_assert_eq!(plan.trace.len(), extra);
            if let Some(step) = plan.trace.last() {
                prop_assert_eq!(step.sum_speedup[step.choice.0], plan.sum);
                prop_assert!(step.sum_speedup.iter().all(|&s| s <= plan.sum));
            }
        }
    }
}
