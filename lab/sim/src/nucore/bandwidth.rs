//! The error of the bandwidth that NuCore predicts, relative to that of the model, for random allocations [NuCore §6.9,
//! §7.4, eq. 19].

use super::allocation::AllocationError;
use super::{bw_mem, profile};
use crate::constants::Constants;
use crate::machine::Machine;
use crate::noise::Noise;
use mapper_predict::nucore::{DramCharge, NodeAllocation, Program};
use serde::{Deserialize, Serialize};

/// Allocations that are tried [NuCore §7.1].
const ALLOCATIONS: u32 = 10;

/// Mean absolute relative errors; 0 without traffic.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct BandwidthError {
    /// Of traffic to the own node.
    pub local: f64,
    /// Of traffic between nodes.
    pub between: f64,
    /// Of both together.
    pub total: f64,
}

/// The error for one program on ten allocations, drawn by a seed: any number of cores of each node.
///
/// # Errors
/// [`AllocationError::Program`] when the integer program refuses an allocation.
pub fn bandwidth_error(
    machine: &Machine,
    constants: &Constants,
    app: &crate::AppModel,
    seed: u64,
) -> Result<BandwidthError, AllocationError> {
    let refused = |source| AllocationError::of(machine, source);
    let measured = bw_mem::measured(machine, constants)?;
    let behaviour = app.behaviour();
    let demands = [profile::demand(machine, constants, &behaviour)];
    let program = Program::new(&measured, &demands, DramCharge::default()).map_err(refused)?;
    let mut random = Noise::new(seed, 0);
    let mut errors: [Vec<f64>; 3] = Default::default();
    for _ in 0..ALLOCATIONS {
        let cores = drawn(machine, &mut random);
        let real = profile::traffic(machine, constants, &behaviour, &cores);
        let allocation = NodeAllocation(vec![cores]);
        let said = program.bandwidth(&allocation).map_err(refused)?;
        let said_local: f64 = said.local.iter().flatten().map(|of| of.get()).sum();
        let said_between: f64 = said.remote.iter().map(|flow| flow.bandwidth.get()).sum();
        let real_local: f64 = (0..real.len()).map(|node| real[node][node]).sum();
        let real_total: f64 = real.iter().flatten().sum();
        let said = [said_local, said_between, said_local + said_between];
        let real = [real_local, real_total - real_local, real_total];
        for ((errors, said), real) in errors.iter_mut().zip(said).zip(real) {
            if real > 1e-9 {
                errors.push(((real - said) / real).abs());
            }
        }
    }
    // Without errors 0, and not the -0 of an empty sum.
    let mean = |errors: Vec<f64>| {
        let sum = errors.iter().fold(0.0, |sum, error| sum + error);
        sum / (errors.len() as f64).max(1.0)
    };
    let [local, between, total] = errors.map(mean);
    Ok(BandwidthError {
        local,
        between,
        total,
    })
}

/// Any number of cores of each node, one at least in all.
fn drawn(machine: &Machine, random: &mut Noise) -> Vec<u32> {
    let most = machine.spec.cores_per_socket;
    let mut count = || ((random.unit() * f64::from(most + 1)) as u32).min(most);
    loop {
        let cores: Vec<u32> = (0..machine.nodes()).map(|_| count()).collect();
        if cores.iter().any(|&count| count > 0) {
            return cores;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn error(change: impl FnOnce(&mut crate::AppModel), seed: u64) -> BandwidthError {
        let mut app = fixtures::app("sp-solve");
        change(&mut app);
        let machine = fixtures::machine("x7550");
        bandwidth_error(&machine, &Constants::default(), &app, seed).unwrap()
    }

    #[test]
    fn only_what_saturates_memory_is_predicted_with_an_error_and_private_data_have_none_between_nodes()
     {
        let found = error(|app| app.misses_per_kilo = [0.1; 2], 1);
        assert!(found.total < 0.01 && found.local < 0.01 && found.between < 0.01);
        let found = error(|app| app.local_share = 1.0, 1);
        assert!(found.total > 0.01, "{found:?}");
        assert_eq!(found.between, 0.0);
    }

    #[test]
    fn the_same_seed_draws_the_same_allocations() {
        assert_eq!(error(|_| {}, 3), error(|_| {}, 3));
        assert_ne!(error(|_| {}, 3), error(|_| {}, 4));
    }
}
