//! How far the bandwidth that NuCore predicts is from that of the model, for allocations at random
//! [NuCore §6.9, §7.4, eq. 19].

use super::allocation::{AllocationError, CoresByNode};
use super::{bw_mem, profile};
use crate::constants::Constants;
use crate::machine::Machine;
use crate::noise::Noise;
use mapper_predict::nucore::{DramCharge, NodeAllocation, Program};
use serde::{Deserialize, Serialize};

/// Allocations that are tried [NuCore §7.1].
const ALLOCATIONS: u32 = 10;

/// Mean absolute errors, of what is there; 0 where nothing is.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct BandwidthError {
    /// Of what cores get of their own node.
    pub local: f64,
    /// Of what goes between nodes.
    pub between: f64,
    /// Of both together.
    pub total: f64,
}

/// The error for one program on ten allocations, drawn by a seed: any number of cores of each node.
///
/// # Errors
/// As [`predicted`](super::predicted).
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
    loop {
        let cores = (0..machine.nodes())
            .map(|_| ((random.unit() * f64::from(most + 1)) as u32).min(most))
            .collect();
        let cores = CoresByNode(cores);
        if cores.0.iter().any(|&count| count > 0) {
            return cores;
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
    use crate::presets;

    fn error(change: impl FnOnce(&mut crate::AppModel), seed: u64) -> BandwidthError {
        let machine = presets::machine("x7550").unwrap();
        let mut app = presets::app("sp-solve").unwrap();
        change(&mut app);
        bandwidth_error(&machine, &Constants::default(), &app, seed).unwrap()
    }

    #[test]
    fn what_saturates_nothing_is_predicted_almost_exactly() {
        let found = error(|app| app.misses_per_kilo = [0.1; 2], 1);
        assert!(found.total < 0.01 && found.local < 0.01 && found.between < 0.01);
    }

    #[test]
    fn what_saturates_memory_is_predicted_with_an_error_and_private_data_with_none_between_nodes() {
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
