//! NuCore as published: one profile, one integer program, and the cores of each node that it names for
//! the rest of the run [NuCore §5.2, §6].
//!
//! The daemon's policy of that name decides again and again, for several programs, from what counters
//! tell. What the paper evaluates is simpler, and is here:
//!
//! 1. the machine is measured with programs that stream, as with `bw_mem` ([`bw_mem`]);
//! 2. the program runs on one core of each node for a moment, while its traffic is counted from each
//!    node to each other ([`profile`]);
//! 3. the integer program ([`mapper_predict::nucore`]) says how many cores of each node bring the most
//!    bandwidth with the fewest cores;
//! 4. the program runs on these from begin to end, with a thread for each ([`run_predicted`]).
//!
//! Beside it stands what the authors compare its answers with: the best allocation that is reached by
//! changing one core at a time ([`run_best_adjacent`]) [NuCore §7.2], and the bandwidth that it says
//! any allocation has ([`bandwidth_error`]) [NuCore §7.4].
//!
//! An approximation in two respects: what c cores ask of their own node is c times what one asks, where
//! the paper predicts a table with DraMon; and the 0.07 s of profile and solution are not charged.
//! Traffic is not multiplexed, so the profile is exact, as is that of the counters of the model.

mod allocation;
mod bandwidth;
mod bw_mem;
mod neighbours;
mod profile;

pub use allocation::{AllocationError, CoresByNode};
pub use bandwidth::{BandwidthError, bandwidth_error};

use crate::approximations::on_sets;
use crate::constants::Constants;
use crate::machine::Machine;
use crate::scenario::{Outcome, Scenario};
use mapper_predict::nucore::{DramCharge, EffortLimit, Program};

/// The allocation that NuCore predicts to be best for a program. One that asks no memory for anything
/// gets all cores.
///
/// # Errors
/// [`AllocationError::Program`] when the integer program is not solved.
pub fn predicted(
    machine: &Machine,
    constants: &Constants,
    app: &crate::AppModel,
) -> Result<CoresByNode, AllocationError> {
    let refused = |source| AllocationError::of(machine, source);
    let measured = bw_mem::measured(machine, constants)?;
    let demand = profile::demand(machine, constants, &app.behaviour());
    if profile::asks_nothing(&demand) {
        return Ok(CoresByNode::all(machine));
    }
    let demands = [demand];
    let solution = Program::new(&measured, &demands, DramCharge::default())
        .and_then(|program| program.solve(EffortLimit::default()))
        .map_err(refused)?;
    let mut by_application = solution.allocation.0;
    Ok(CoresByNode(by_application.pop().unwrap_or_default()))
}

/// Runs a scenario's only program on what NuCore predicts to be best.
///
/// # Errors
/// As [`predicted`]; [`AllocationError::Programs`] when there are several.
pub fn run_predicted(scenario: &Scenario) -> Result<Outcome, AllocationError> {
    let cores = predicted_for(scenario)?;
    Ok(on_cores_by_node(scenario, &cores))
}

/// Runs a scenario's only program on the best allocation that is reached from NuCore's by adding or
/// taking away one core of one node, as long as that is faster [NuCore §7.2, "experimental optimal"].
///
/// # Errors
/// As [`run_predicted`].
pub fn run_best_adjacent(scenario: &Scenario) -> Result<Outcome, AllocationError> {
    let cores = neighbours::best(scenario, predicted_for(scenario)?);
    Ok(on_cores_by_node(scenario, &cores))
}

fn predicted_for(scenario: &Scenario) -> Result<CoresByNode, AllocationError> {
    let [job] = &*scenario.jobs else {
        let count = scenario.jobs.len();
        return Err(AllocationError::Programs { count });
    };
    predicted(&scenario.machine, &scenario.constants, &job.app)
}

fn on_cores_by_node(scenario: &Scenario, cores: &CoresByNode) -> Outcome {
    on_sets(scenario, vec![cores.cpus(&scenario.machine)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    fn of(machine: &str, change: impl FnOnce(&mut crate::AppModel)) -> CoresByNode {
        let machine = presets::machine(machine).unwrap();
        let mut app = presets::app("mg-resid").unwrap();
        change(&mut app);
        predicted(&machine, &Constants::default(), &app).unwrap()
    }

    #[test]
    fn a_program_that_asks_memory_for_little_or_nothing_gets_all_cores() {
        for misses in [0.0, 0.01] {
            let cores = of("x7550", |app| app.misses_per_kilo = [misses; 2]);
            assert_eq!(cores, CoresByNode(vec![8; 4]), "{misses} misses");
        }
    }

    #[test]
    fn cores_that_a_full_memory_of_their_own_could_not_feed_are_left_out_on_every_node_alike() {
        let cores = of("x7550", |app| app.misses_per_kilo = [90.0; 2]);
        let one = cores.0[0];
        assert!((1..8).contains(&one), "{cores}");
        assert_eq!(cores, CoresByNode(vec![one; 4]));
    }

    #[test]
    fn data_on_one_node_draw_the_cores_there() {
        let cores = of("opt48", |app| app.home_node = Some(0));
        assert_eq!(cores.0[0], 6, "{cores}");
        assert!(cores.0.iter().sum::<u32>() < 48, "{cores}");
    }

    #[test]
    fn an_allocation_is_the_first_cores_of_each_node() {
        let machine = presets::machine("x7550").unwrap();
        let cores = CoresByNode(vec![2, 0, 1, 0]);
        assert_eq!(cores.cpus(&machine), "0-1,16".parse().unwrap());
        assert_eq!(cores.to_string(), "{2,0,1,0}");
    }
}
