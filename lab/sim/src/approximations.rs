//! Approximations of the systems that papers compare themselves with: the published idea of each, not its code.
//! Two predict how many cores one program needs [NuCore §7]: **Varuna** fits a scaling law to three configurations
//! and ignores nodes; **CRUST** gives each node as many cores as have room for their working sets in its cache.
//! **SCAF** divides the machine among programs by a serial run of a section next to its parallel one [Cooperative
//! §5, "Comparison With SCAF"].

use crate::layouts;
use crate::machine::Machine;
use crate::run::on_sets;
use crate::scenario::{AppOutcome, Job, Method, Outcome, Scenario};

const PROBE_S: f64 = 20.0;

/// The programs after a measurement of a configuration.
fn probed(scenario: &Scenario, counts: &[u32], layout: layouts::Layout) -> Vec<AppOutcome> {
    let probe = Scenario {
        method: Method::For(PROBE_S),
        timeline: false,
        ..scenario.clone()
    };
    on_sets(&probe, layout(&scenario.machine, counts)).apps
}

/// Runs a scenario's only program on the best number of cores by a law `a + b/n + c·n`, fitted to its running time on
/// an eighth, half and all of the cores.
#[must_use]
pub fn varuna(scenario: &Scenario) -> Outcome {
    let cores = scenario.machine.contexts();
    let counts = [(cores / 8).max(1), (cores / 2).max(1), cores];
    let times = counts.map(|count| {
        let apps = probed(scenario, &[count], layouts::spread);
        1.0 / apps.first().map_or(0.0, |app| app.speed).max(1e-9)
    });
    on_cores(scenario, best_count(counts, times))
}

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

/// Runs a scenario's only program on as many cores of each node as have room in its cache, or on all if not even one
/// has: fewer would then miss as often.
#[must_use]
pub fn crust(scenario: &Scenario) -> Outcome {
    let machine = &scenario.machine;
    let per_node = scenario.jobs.first().map_or(1, |job| fitting(machine, job));
    on_cores(scenario, per_node * machine.spec.sockets)
}

fn fitting(machine: &Machine, job: &Job) -> u32 {
    let all = machine.contexts() / machine.spec.sockets;
    let room_mb = machine.spec.llc_mb - job.app.shared_set_mb;
    match room_mb / job.app.working_set_mb.max(1e-9) {
        count if count < 1.0 => all,
        count => count.min(f64::from(all)) as u32,
    }
}

/// Runs each program on a share in proportion to the coefficient `C` of a speedup `1 + C·ln n` through its speeds on
/// one core and on an equal share, with all programs running: this maximises the sum of these speedups. Sections
/// keep their threads until they end. The cost of the serial run is left out, which favours SCAF.
#[must_use]
pub fn scaf(scenario: &Scenario) -> Outcome {
    let machine = &scenario.machine;
    let programs = scenario.jobs.len();
    let share = (machine.contexts() / programs.max(1) as u32).max(1);
    let [serial, parallel] =
        [1, share].map(|count| probed(scenario, &vec![count; programs], layouts::packed));
    let gains = serial.iter().zip(&parallel).map(|(one, many)| {
        let speedup = many.speed / one.speed.max(1e-12);
        (speedup - 1.0).max(0.0) / f64::from(share.max(2)).ln()
    });
    let counts = in_proportion(&gains.collect::<Vec<f64>>(), machine.contexts());
    on_sets(scenario, layouts::packed(machine, &counts))
}

/// Divides cores in proportion, at least one for each, the rest by greatest remainder.
fn in_proportion(weights: &[f64], cores: u32) -> Vec<u32> {
    let sum: f64 = weights.iter().sum();
    let equal = 1.0 / weights.len() as f64;
    let left = f64::from(cores.saturating_sub(weights.len() as u32));
    let share = |weight: &f64| if sum > 0.0 { weight / sum } else { equal };
    let exact: Vec<f64> = weights.iter().map(|weight| share(weight) * left).collect();
    let mut counts: Vec<u32> = exact.iter().map(|share| 1 + *share as u32).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()));
    let missing = cores.saturating_sub(counts.iter().sum()) as usize;
    for at in order.into_iter().cycle().take(missing) {
        counts[at] += 1;
    }
    counts
}

fn on_cores(scenario: &Scenario, count: u32) -> Outcome {
    let sets = layouts::spread(&scenario.machine, &[count]);
    on_sets(scenario, sets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{app, job, machine};

    #[test]
    fn cores_are_divided_in_proportion_to_the_last_one() {
        assert_eq!(in_proportion(&[3.0, 1.0], 10), [7, 3]);
        assert_eq!(in_proportion(&[0.0, 0.0, 0.0], 8), [3, 3, 2]);
        assert_eq!(in_proportion(&[1.0, 0.0], 4), [3, 1]);
    }

    #[test]
    fn crust_leaves_cores_out_only_where_that_saves_misses() {
        let fitting = |working_set_mb, shared_set_mb| {
            let mut app = app("sp-solve");
            (app.working_set_mb, app.shared_set_mb) = (working_set_mb, shared_set_mb);
            super::fitting(&machine("x7550"), &job("job", app, None))
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
