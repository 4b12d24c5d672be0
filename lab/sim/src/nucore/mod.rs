//! NuCore as published: one profile, one integer program, and fixed cores of each node for the rest of the run
//! [NuCore §5.2, §6]. The daemon's policy of that name decides repeatedly, for several programs, from counters.
//!
//! 1. The machine is measured with programs that stream, as with `bw_mem` ([`bw_mem`]).
//! 2. The program runs on one core of each node while its traffic between nodes is counted ([`profile`]).
//! 3. The integer program ([`mapper_predict::nucore`]) gives the cores of each node with the most bandwidth.
//! 4. The program runs on these with a thread for each ([`run_predicted`]).
//!
//! For comparison: the best allocation reached by changing one core at a time ([`run_best_adjacent`]) [NuCore §7.2], and
//! the error of the predicted bandwidth ([`bandwidth_error`]) [NuCore §7.4].
//!
//! Approximations: c cores ask of their own node c times what one asks, where the paper predicts a table with DraMon; the
//! 0.07 s of profile and solution are not charged. Traffic is not multiplexed, so the profile is exact.

mod allocation;
mod bandwidth;
mod bw_mem;
mod profile;

pub use allocation::AllocationError;
pub use bandwidth::{BandwidthError, bandwidth_error};

use crate::constants::Constants;
use crate::judge::{Aim, Judge};
use crate::machine::Machine;
use crate::run::on_sets;
use crate::scenario::{Outcome, Scenario};
use allocation::{adjacent, cpus};
use mapper_predict::nucore::{DramCharge, EffortLimit, Program};

/// What counts as faster. The model has no noise, but its fixed point has a tolerance.
const FASTER: f64 = 1.0 + 1e-6;

/// The best cores by node for a program by NuCore. One without memory traffic gets all cores.
fn predicted(
    machine: &Machine,
    constants: &Constants,
    app: &crate::AppModel,
) -> Result<Vec<u32>, AllocationError> {
    let measured = bw_mem::measured(machine, constants)?;
    let demands = [profile::demand(machine, constants, &app.behaviour())];
    if profile::asks_nothing(&demands[0]) {
        return Ok(vec![machine.spec.cores_per_socket; machine.nodes()]);
    }
    let solution = Program::new(&measured, &demands, DramCharge::default())
        .and_then(|program| program.solve(EffortLimit::default()))
        .map_err(|source| AllocationError::of(machine, source))?;
    let mut by_application = solution.allocation.0;
    Ok(by_application.pop().unwrap_or_default())
}

/// Runs a scenario's only program on NuCore's allocation.
///
/// # Errors
/// [`AllocationError::Program`] when the integer program is not solved; [`AllocationError::Programs`] for several programs.
pub fn run_predicted(scenario: &Scenario) -> Result<Outcome, AllocationError> {
    let cores = predicted_for(scenario)?;
    Ok(on_sets(scenario, vec![cpus(&scenario.machine, &cores)]))
}

/// Runs a scenario's only program on the best allocation reached from NuCore's by adding or removing one core of one node
/// at a time, the fastest change first, as long as that is faster [NuCore §7.2, eq. 20, "experimental optimal"].
///
/// # Errors
/// As [`run_predicted`].
pub fn run_best_adjacent(scenario: &Scenario) -> Result<Outcome, AllocationError> {
    let mut judge = Judge::new(scenario, Aim::Geometric);
    let machine = &scenario.machine;
    let speed = |cores: &[u32]| judge.value(&[cpus(machine, cores)]);
    let best = climb(
        predicted_for(scenario)?,
        machine.spec.cores_per_socket,
        speed,
    );
    Ok(on_sets(scenario, vec![cpus(machine, &best)]))
}

fn climb(mut best: Vec<u32>, most: u32, mut speed: impl FnMut(&[u32]) -> f64) -> Vec<u32> {
    let mut fastest = speed(&best);
    loop {
        let adjacent = adjacent(&best, most).into_iter();
        let adjacent = adjacent.map(|cores| (speed(&cores), cores));
        match adjacent.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((speed, cores)) if speed > fastest * FASTER => (fastest, best) = (speed, cores),
            _ => return best,
        }
    }
}

fn predicted_for(scenario: &Scenario) -> Result<Vec<u32>, AllocationError> {
    let [job] = &*scenario.jobs else {
        return Err(AllocationError::Programs(scenario.jobs.len()));
    };
    predicted(&scenario.machine, &scenario.constants, &job.app)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AppModel, fixtures};

    fn of(machine: &str, change: impl FnOnce(&mut AppModel)) -> Vec<u32> {
        let mut app = fixtures::app("mg-resid");
        change(&mut app);
        predicted(&fixtures::machine(machine), &Constants::default(), &app).unwrap()
    }

    #[test]
    fn with_little_traffic_all_cores_are_used_and_with_much_fewer_on_every_node_alike() {
        for (misses, expected) in [(0.0, 8..9), (0.01, 8..9), (90.0, 1..8)] {
            let cores = of("x7550", |app| app.misses_per_kilo = [misses; 2]);
            assert!(expected.contains(&cores[0]), "{misses} misses: {cores:?}");
            assert_eq!(cores, [cores[0]; 4]);
        }
    }

    #[test]
    fn data_on_one_node_draw_the_cores_there() {
        let cores = of("opt48", |app| app.home_node = Some(0));
        assert_eq!(cores[0], 6, "{cores:?}");
        assert!(cores.iter().sum::<u32>() < 48, "{cores:?}");
    }

    #[test]
    fn the_climb_ends_where_no_single_core_pays() {
        let wanted = [3.0, 0.0, 5.0];
        let speed = |cores: &[u32]| {
            let off = cores.iter().zip(wanted);
            100.0 - off.map(|(&c, w)| (f64::from(c) - w).powi(2)).sum::<f64>()
        };
        let found = climb(vec![6, 6, 6], 6, speed);
        assert_eq!(found, [3, 0, 5]);
    }
}
