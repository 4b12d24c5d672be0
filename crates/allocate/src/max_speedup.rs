//! Max speedup: cores, in groups that share a cache, for the greatest sum of speedups
//! [Cooperative §4.3 Algorithm 2] ([`mapper_predict::cooperative::greedy`]).
//!
//! Scalable applications are favoured without bound; that is the paper's aim, and NuPoCo's criticism of
//! it. Clusters are last-level caches where there are enough of them, all equal; else groups of CPUs as
//! small as can be afforded, as the paper goes down to cores when there are too few clusters.

use crate::model_driven::nodes::Division;
use crate::model_driven::{Candidate, Inputs, SERIAL};
use crate::nupoco::work_rates;
use crate::section::Section;
use mapper_predict::cooperative::greedy::{self, ClusteredMachine};
use mapper_predict::{Cycles, ModelError, RequestsPerCycle};
use std::error::Error;

pub(crate) const NAME: &str = "max_speedup";

/// Work that a plan may take, in steps of the queue's recurrence (a nanosecond or two each).
const AFFORDABLE: u64 = 10_000_000;

/// See [`Planner`](crate::model_driven::Planner).
pub(crate) fn plan(inputs: &Inputs<'_>) -> Result<Division, Box<dyn Error>> {
    let service = Cycles::new(inputs.memory.service_cycles)?;
    let parallel: Vec<usize> = (0..inputs.candidates.len())
        .filter(|&i| inputs.candidates[i].section == Section::Parallel)
        .collect();
    let rates: Vec<RequestsPerCycle> = parallel
        .iter()
        .map(|&i| Ok(work_rates(&inputs.candidates[i].measured, service)?.requests))
        .collect::<Result<_, ModelError>>()?;
    let serial = (inputs.candidates.len() - parallel.len()) as u32;
    let cpus = inputs.cpus() - serial;
    let size = cluster_size(inputs, cpus, parallel.len() as u32);
    let machine = ClusteredMachine {
        clusters: (cpus / size) as usize,
        cores_per_cluster: size,
        service,
    };
    let plan = greedy::plan(&machine, &rates)?;

    let mut counts = vec![1; inputs.candidates.len()];
    let mut rules = vec![SERIAL.to_owned(); counts.len()];
    for ((&place, &clusters), speedup) in parallel.iter().zip(&plan.clusters).zip(&plan.speedups) {
        counts[place] = clusters * size;
        let part = match size {
            1 => format!("{clusters} of {} CPUs", machine.clusters),
            _ => format!("{clusters} of {} clusters of {size} CPUs", machine.clusters),
        };
        rules[place] = format!(
            "{part} for the greatest sum of speedups; {:.1} of {:.1} is its part",
            speedup.get(),
            plan.sum
        );
    }
    // CPUs that make no whole cluster go to the first of the largest.
    let most = parallel
        .iter()
        .copied()
        .max_by_key(|&i| (counts[i], std::cmp::Reverse(i)));
    let left = cpus % size;
    if let Some(most) = most
        && left > 0
    {
        counts[most] += left;
        rules[most].push_str(&format!("; and {left} that make no cluster"));
    }
    Ok(Division {
        counts,
        by_node: None,
        rules,
        surplus: inputs.candidates.iter().map(Candidate::surplus).collect(),
    })
}

/// CPUs of a cluster: those of a last-level cache, or as few as can be afforded when there are too few
/// caches. What serial sections leave of a cache does not count.
fn cluster_size(inputs: &Inputs<'_>, cpus: u32, apps: u32) -> u32 {
    let equal = inputs.caches.windows(2).all(|pair| pair[0] == pair[1]);
    if let (true, Some(&size)) = (equal, inputs.caches.first())
        && inputs.caches.len() > 1
        && cpus / size >= apps
    {
        return size;
    }
    let apps = apps.max(1);
    let largest = (cpus / apps).max(1);
    // For each open cluster, each application is tried, at the cost of a walk over all CPUs.
    let cost = |size: u32| {
        u64::from((cpus / size).saturating_sub(apps)) * u64::from(apps) * u64::from(cpus + apps)
    };
    (1..=largest)
        .find(|&size| cost(size) <= AFFORDABLE)
        .unwrap_or(largest)
}
