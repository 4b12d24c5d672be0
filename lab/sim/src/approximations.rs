//! Approximations of what papers compare themselves with. They follow the idea that is told of each,
//! not its code. Two predict how many cores one program needs [NuCore §7]: **Varuna** fits a scaling
//! law to three configurations and does not know of nodes; **CRUST** gives each node as many cores as
//! their working sets fit into its cache. **SCAF** divides the machine among programs by what a serial
//! run of a section, next to its parallel one, told of each [Cooperative §5, "Comparison With SCAF"].

use crate::governor::{Fixed, Governor};
use crate::layouts;
use crate::machine::Machine;
use crate::run::run;
use crate::scenario::{Job, Method, Outcome, Scenario};
use mapper_model::CpuSet;

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

/// Runs a scenario's only program on as many cores of each node as have room in its cache; on all of them
/// where not even one has, as fewer would then miss as often.
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
    if count < 1.0 {
        return all;
    }
    count.min(f64::from(all)) as u32
}

/// Runs each program on a share in proportion to the coefficient `C` of a speedup `1 + C·ln n`,
/// through its speeds on one core and on an equal share, as they are when all run together. That
/// maximises the sum of these speedups. A section keeps its threads until it ends, so nobody takes
/// the cores of who ends first; the cost of the serial run is left out, which favours it.
#[must_use]
pub fn scaf(scenario: &Scenario) -> Outcome {
    let machine = &scenario.machine;
    let programs = scenario.jobs.len().max(1) as u32;
    let share = (machine.contexts() / programs).max(1);
    let probe = |counts: &[u32]| {
        let probe = Scenario {
            method: Method::For { seconds: PROBE_S },
            timeline: false,
            ..scenario.clone()
        };
        on_sets(&probe, layouts::packed(machine, counts)).apps
    };
    let serial = probe(&vec![1; scenario.jobs.len()]);
    let parallel = probe(&vec![share; scenario.jobs.len()]);
    let gains = serial.iter().zip(&parallel);
    let coefficients: Vec<f64> = gains
        .map(|(one, many)| {
            let speedup = many.speed / one.speed.max(1e-12);
            (speedup - 1.0).max(0.0) / f64::from(share.max(2)).ln()
        })
        .collect();
    let counts = in_proportion(&coefficients, machine.contexts());
    on_sets(scenario, layouts::packed(machine, &counts))
}

/// Divides cores in proportion, at least one for each, the rest by greatest remainder.
fn in_proportion(weights: &[f64], cores: u32) -> Vec<u32> {
    let sum: f64 = weights.iter().sum();
    let left = cores.saturating_sub(weights.len() as u32);
    let exact = |weight: f64| {
        let share = if sum > 0.0 {
            weight / sum
        } else {
            1.0 / weights.len() as f64
        };
        share * f64::from(left)
    };
    let mut counts: Vec<u32> = weights.iter().map(|w| 1 + exact(*w) as u32).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| {
        let remainder = |at: usize| exact(weights[at]).fract();
        remainder(b).total_cmp(&remainder(a)).then(a.cmp(&b))
    });
    let given: u32 = counts.iter().sum();
    for at in order
        .into_iter()
        .cycle()
        .take(cores.saturating_sub(given) as usize)
    {
        counts[at] += 1;
    }
    counts
}

/// Each program on a set that never changes.
pub(crate) fn on_sets(scenario: &Scenario, sets: Vec<CpuSet>) -> Outcome {
    let names = scenario.jobs.iter().map(|job| job.name.clone());
    let mut fixed = Fixed::new(names.zip(sets).collect());
    run(scenario, Some(&mut fixed as &mut dyn Governor))
}

/// On so many cores, evenly over the nodes.
fn on_cores(scenario: &Scenario, count: u32) -> Outcome {
    let set = layouts::spread(&scenario.machine, &[count])
        .pop()
        .unwrap_or_default();
    on_sets(scenario, vec![set; scenario.jobs.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;
    use mapper_model::{CpuRange, Qos};

    #[test]
    fn cores_are_divided_in_proportion_to_the_last_one() {
        assert_eq!(in_proportion(&[3.0, 1.0], 10), [7, 3]);
        assert_eq!(in_proportion(&[0.0, 0.0, 0.0], 8), [3, 3, 2]);
        assert_eq!(in_proportion(&[1.0, 0.0], 4), [3, 1]);
    }

    #[test]
    fn crust_leaves_cores_out_only_where_that_saves_misses() {
        let machine = presets::machine("x7550").unwrap();
        let fitting = |working_set_mb, shared_set_mb| {
            let mut app = presets::app("sp-solve").unwrap();
            (app.working_set_mb, app.shared_set_mb) = (working_set_mb, shared_set_mb);
            let job = Job {
                name: "job".into(),
                app,
                threads: None,
                qos: Qos::default(),
                cpus: CpuRange::default(),
                arrives_s: 0.0,
            };
            super::fitting(&machine, &job)
        };
        assert_eq!(fitting(3.2, 2.0), 5, "16 MB for sets of 3.2");
        assert_eq!(fitting(0.1, 2.0), 8, "no more than there are");
        assert_eq!(fitting(25.0, 0.0), 8, "none fits");
        assert_eq!(fitting(0.3, 30.0), 8, "nor beside what is shared");
    }

    #[test]
    fn the_law_finds_the_minimum_of_its_own_curve() {
        let counts = [4, 16, 32];
        let times = counts.map(|n| 1.0 + 100.0 / f64::from(n) + 0.25 * f64::from(n));
        assert_eq!(best_count(counts, times), 20);
        let scaling = counts.map(|n| 100.0 / f64::from(n));
        assert_eq!(best_count(counts, scaling), 32);
    }
}
