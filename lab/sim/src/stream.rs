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

/// Misses per 1000 instructions of STREAM's triad, a = b + s·c: for eight elements, which are a line of
/// each array, two vector iterations of six instructions, and three lines: b, c, and a before it is written.
const MISSES_PER_KILO: f64 = 3.0 / 12.0 * 1000.0;
/// Lines that a core has under way: its fill buffers.
const LINES_UNDER_WAY: f64 = 10.0;

/// STREAM with all arrays on node 0: more than any cache holds, read once.
pub(crate) fn streaming() -> Result<Behaviour, PresetError> {
    let mut app = presets::app("MemBench")?;
    app.misses_per_kilo = [MISSES_PER_KILO; 2];
    app.overlapping_misses = LINES_UNDER_WAY;
    app.home_node = Some(0);
    Ok(app.behaviour())
}

/// Measures with one to all threads of a node and takes the best.
///
/// # Errors
/// Never with the presets of this crate.
pub fn measure(machine: &Machine, constants: &Constants) -> Result<Bandwidths, PresetError> {
    let streaming = streaming()?;
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
            occupancy.spread(machine, 0, count as f64, &set);
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
    fn threads_that_stream_get_what_a_saturated_memory_gives_and_no_more() {
        let constants = Constants::default();
        for name in presets::machines().unwrap().keys() {
            let machine = presets::machine(name).unwrap();
            let found = measure(&machine, &constants).unwrap();
            let node = found.node_bytes_per_s / machine.spec.memory_bytes_per_s;
            assert!((0.75..1.0).contains(&node), "{name}: {node} of a node's");
        }
    }

    #[test]
    fn threads_that_stream_from_another_node_get_what_the_narrower_of_link_and_memory_gives() {
        let constants = Constants::default();
        for name in presets::machines().unwrap().keys() {
            let machine = presets::machine(name).unwrap();
            let found = measure(&machine, &constants).unwrap();
            let link = machine.route(0, 1).links().next().unwrap();
            let bytes_per_s = LINE_BYTES / machine.link_service_s()[link];
            let narrower = bytes_per_s.min(found.node_bytes_per_s);
            let share = found.link_bytes_per_s / narrower;
            // The queue of a link grows along its tangent, so that a little more than all of it is used;
            // where memory gives about as much as the link, lines wait at both.
            assert!((0.9..1.03).contains(&share), "{name}: {share}");
        }
    }

    #[test]
    fn a_memory_that_loses_nothing_to_many_streams_gives_its_whole_bandwidth() {
        let machine = presets::machine("hsw80").unwrap();
        let constants = Constants {
            row_buffer_loss: 0.0,
            ..Constants::default()
        };
        let found = measure(&machine, &constants).unwrap();
        let share = found.node_bytes_per_s / machine.spec.memory_bytes_per_s;
        // As on a link, a little more than all of it.
        assert!((0.97..1.03).contains(&share), "{share}");
    }
}
