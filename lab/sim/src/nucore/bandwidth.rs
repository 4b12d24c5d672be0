//! The error of the bandwidth that NuCore predicts, relative to that of the model, for random allocations [NuCore §6.9,
//! §7.4, eq. 19].

use super::allocation::{AllocationError, CoresByNode};
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
    let [mut local, mut between, mut total] = [Mean::default(); 3];
    for _ in 0..ALLOCATIONS {
        let cores = drawn(machine, &mut random);
        let said = program
            .bandwidth(&NodeAllocation(vec![cores.0.clone()]))
            .map_err(refused)?;
        let said_local: f64 = said.local.iter().flatten().map(|of| of.get()).sum();
        let said_between: f64 = said.remote.iter().map(|flow| flow.bandwidth.get()).sum();
        let real = profile::traffic(machine, constants, &behaviour, &cores);
        let real_local: f64 = (0..real.len()).map(|node| real[node][node]).sum();
        let real_total: f64 = real.iter().flatten().sum();
        local.add(said_local, real_local);
        between.add(said_between, real_total - real_local);
        total.add(said_local + said_between, real_total);
    }
    Ok(BandwidthError {
        local: local.get(),
        between: between.get(),
        total: total.get(),
    })
}

/// Any number of cores of each node, one at least in all.
fn drawn(machine: &Machine, random: &mut Noise) -> CoresByNode {
    let most = machine.spec.cores_per_socket;
    let mut count = || ((random.unit() * f64::from(most + 1)) as u32).min(most);
    loop {
        let cores: Vec<u32> = (0..machine.nodes()).map(|_| count()).collect();
        if cores.iter().any(|&count| count > 0) {
            return CoresByNode(cores);
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, said: f64, real: f64) {
        if real > 1e-9 {
            self.sum += ((real - said) / real).abs();
            self.count += 1.0;
        }
    }

    fn get(self) -> f64 {
        self.sum / self.count.max(1.0)
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
