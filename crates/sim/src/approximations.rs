//! Approximations of two predictors that NuCore compares itself with [NuCore §7]. They follow the
//! idea that is told of each, not its code: **Varuna** fits a scaling law to three configurations and
//! does not know of nodes; **CRUST** gives each node as many cores as their working sets fit into its
//! cache.

use crate::governor::{Fixed, Governor};
use crate::layouts;
use crate::machine::Machine;
use crate::run::run;
use crate::scenario::{Job, Method, Outcome, Scenario};

/// How long each configuration is measured.
const PROBE_S: f64 = 20.0;

/// Runs a scenario's only program on the number of cores that a law `a + b/n + c·n`, fitted to its
/// running time on an eighth, half and all of the cores, says is best.
#[must_use]
pub fn varuna(scenario: &Scenario) -> Outcome {
    let cores = scenario.machine.contexts();
    let counts = [(cores / 8).max(1), (cores / 2).max(1), cores];
    let times = counts.map(|count| {
        let probe = Scenario {
            method: Method::For { seconds: PROBE_S },
            ..scenario.clone()
        };
        let speed = on_cores(&probe, count)
            .apps
            .first()
            .map_or(0.0, |app| app.speed);
        1.0 / speed.max(1e-9)
    });
    on_cores(scenario, best_count(counts, times))
}

/// The best count by the law through three points.
fn best_count(counts: [u32; 3], times: [f64; 3]) -> u32 {
    let n = counts.map(f64::from);
    // Two differences remove the constant; what is left is linear in b and c.
    let row = |i: usize, j: usize| (1.0 / n[i] - 1.0 / n[j], n[i] - n[j], times[i] - times[j]);
    let ((b1, c1, t1), (b2, c2, t2)) = (row(0, 1), row(1, 2));
    let determinant = b1 * c2 - b2 * c1;
    if determinant.abs() < 1e-12 {
        return counts[2];
    }
    let b = (t1 * c2 - t2 * c1) / determinant;
    let c = (b1 * t2 - b2 * t1) / determinant;
    if c <= 0.0 || b <= 0.0 {
        return counts[2];
    }
    ((b / c).sqrt().round() as u32).clamp(1, counts[2])
}

/// Runs a scenario's only program on as many cores of each node as have room in its cache.
#[must_use]
pub fn crust(scenario: &Scenario) -> Outcome {
    let machine = &scenario.machine;
    let per_node = scenario.jobs.first().map_or(1, |job| fitting(machine, job));
    on_cores(scenario, per_node * machine.spec.sockets)
}

fn fitting(machine: &Machine, job: &Job) -> u32 {
    let all = machine.contexts() / machine.spec.sockets;
    let room_mb = machine.spec.llc_mb - job.app.shared_set_mb;
    let count = room_mb / job.app.working_set_mb.max(1e-9);
    (count.clamp(1.0, f64::from(all))) as u32
}

/// On so many cores, evenly over the nodes.
fn on_cores(scenario: &Scenario, count: u32) -> Outcome {
    let set = layouts::spread(&scenario.machine, &[count])
        .pop()
        .unwrap_or_default();
    let names = scenario.jobs.iter().map(|job| job.name.clone());
    let mut fixed = Fixed::new(names.map(|name| (name, set.clone())).collect());
    run(scenario, Some(&mut fixed as &mut dyn Governor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_finds_the_minimum_of_its_own_curve() {
        let counts = [4, 16, 32];
        let times = counts.map(|n| 1.0 + 100.0 / f64::from(n) + 0.25 * f64::from(n));
        assert_eq!(best_count(counts, times), 20);
        let scaling = counts.map(|n| 100.0 / f64::from(n));
        assert_eq!(best_count(counts, scaling), 32);
    }
}
