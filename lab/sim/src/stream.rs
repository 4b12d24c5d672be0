//! The bandwidth of a node and of a link as a user would measure it with a program that streams (NuPoCo and NuCore
//! run STREAM and bw_mem). Measured in the model, so that no policy is handed the model's own parameters.

use crate::application::Behaviour;
use crate::constants::Constants;
use crate::machine::{LINE_BYTES, Machine};
use crate::performance::solve_spread;
use crate::presets::{self, PresetError};
use mapper_model::CpuSet;

/// Measured bandwidths.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bandwidths {
    /// The most that threads on a node got from its memory.
    pub node_bytes_per_s: f64,
    /// The most that threads on one node got from the memory of another.
    pub link_bytes_per_s: f64,
}

/// Misses per 1000 instructions of STREAM's triad, a = b + s·c: eight elements are a line of each array; they take two
/// vector iterations of six instructions and three lines: b, c, and a before it is written.
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
    Ok(Bandwidths {
        node_bytes_per_s: best(machine, constants, &streaming, 0),
        link_bytes_per_s: match machine.nodes() {
            1 => machine.spec.link_bytes_per_s,
            _ => best(machine, constants, &streaming, 1),
        },
    })
}

fn best(machine: &Machine, constants: &Constants, app: &Behaviour, socket: usize) -> f64 {
    let Some(cpus) = machine.topology().sockets().get(socket) else {
        return 0.0;
    };
    let received = |count: usize| {
        let set: CpuSet = cpus.iter().take(count).collect();
        let speed = solve_spread(machine, constants, &[(*app, set)]).apps[0];
        speed.misses * LINE_BYTES
    };
    (1..=cpus.len() as usize).map(received).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn threads_that_stream_get_what_memory_and_link_give_and_no_more() {
        for name in presets::read_machines(presets::MACHINES).unwrap().keys() {
            let machine = fixtures::machine(name);
            // Where many streams lose nothing, a little more than all of it, as on a link.
            let lossless = Constants {
                row_buffer_loss: 0.0,
                ..Constants::default()
            };
            let whole = measure(&machine, &lossless).unwrap().node_bytes_per_s;
            let whole = whole / machine.spec.memory_bytes_per_s;
            assert!((0.97..1.03).contains(&whole), "{name}: {whole} of a node's");
            let found = measure(&machine, &Constants::default()).unwrap();
            let node = found.node_bytes_per_s / machine.spec.memory_bytes_per_s;
            assert!((0.75..1.0).contains(&node), "{name}: {node} of a node's");
            let link = machine.route(0, 1)[0];
            let bytes_per_s = LINE_BYTES / machine.link_service_s()[link];
            let narrower = bytes_per_s.min(found.node_bytes_per_s);
            let share = found.link_bytes_per_s / narrower;
            // The queue of a link grows along its tangent, so a little more than all of it is used; where memory
            // gives about as much as the link, lines wait at both.
            assert!((0.9..1.03).contains(&share), "{name}: {share}");
        }
    }
}
