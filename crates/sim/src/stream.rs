//! What a user would measure of a machine before setting up a model-driven policy: the bandwidth of
//! a node and of a link, by a program that streams (NuPoCo and NuCore run STREAM and bw_mem). It is
//! measured in the simulator, so that such a policy is not handed the simulator's own parameters.

use crate::application::Behaviour;
use crate::constants::Constants;
use crate::machine::{LINE_BYTES, Machine};
use crate::occupancy::Occupancy;
use crate::performance::solve;
use crate::presets::{self, PresetError};
use mapper_model::CpuSet;

/// What was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bandwidths {
    /// The most that threads on a node got from its memory.
    pub node_bytes_per_s: f64,
    /// The most that threads on one node got from the memory of another.
    pub link_bytes_per_s: f64,
}

/// Measures with one to all threads of a node and takes the best.
///
/// # Errors
/// Never with the presets of this crate.
pub fn measure(machine: &Machine, constants: &Constants) -> Result<Bandwidths, PresetError> {
    let mut streaming = presets::app("MemBench")?.behaviour();
    streaming.home_node = Some(0);
    let node_bytes_per_s = best(machine, constants, &streaming, 0);
    let link_bytes_per_s = if machine.nodes() > 1 {
        best(machine, constants, &streaming, 1)
    } else {
        machine.spec.link_bytes_per_s
    };
    Ok(Bandwidths {
        node_bytes_per_s,
        link_bytes_per_s,
    })
}

fn best(machine: &Machine, constants: &Constants, app: &Behaviour, socket: usize) -> f64 {
    let Some(cpus) = machine.topology().sockets().get(socket) else {
        return 0.0;
    };
    let cpus: Vec<_> = cpus.iter().collect();
    (1..=cpus.len())
        .map(|count| {
            let set: CpuSet = cpus.iter().copied().take(count).collect();
            let mut occupancy = Occupancy::idle(machine, 1);
            occupancy.spread(0, count as f64, &set);
            let solution = solve(machine, constants, &[*app], &occupancy);
            solution
                .apps
                .first()
                .map_or(0.0, |speed| speed.misses_per_s * LINE_BYTES)
        })
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_a_good_part_of_what_is_there() {
        for name in presets::machines().unwrap().keys() {
            let machine = presets::machine(name).unwrap();
            let found = measure(&machine, &Constants::default()).unwrap();
            let node = found.node_bytes_per_s / machine.spec.memory_bytes_per_s;
            let slowest = machine.link_service_s().iter().copied().fold(0.0, f64::max);
            let link = found.link_bytes_per_s * slowest / LINE_BYTES;
            assert!((0.3..1.0).contains(&node), "{name}: {node} of a node's");
            assert!(
                (0.1..2.0).contains(&link),
                "{name}: {link} of the slowest link's"
            );
        }
    }
}
