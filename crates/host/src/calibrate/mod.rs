//! A one-time characterisation of the machine by micro-benchmarks: when a rate is a bottleneck depends on it.
//!
//! As in the papers [MAPPER §3.4, SAM-MPH §3.1, Fig. 1], each resource is stressed by itself: [`coherence`],
//! [`bandwidth`] and [`pipeline`]. [`thresholds`] draws the thresholds from that, by pure functions of the measured
//! points. What a machine does not have cannot be measured (one socket has no other): then the default is kept and the
//! reason recorded. A [`Calibration`] is valid only for the machine of its [`Fingerprint`].
//!
//! Invariants: every measurement is bounded in time, also when other programs hold the CPUs; of several rounds the
//! best counts, as other programs can only slow a round down; the machine is not changed.

mod bandwidth;
mod coherence;
mod fingerprint;
mod nominal;
mod pin;
mod pipeline;
mod points;
mod thresholds;

use crate::HostError;
use crate::procfs::read_small;
use mapper_model::{CpuId, CpuSet, NodeId, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

pub use fingerprint::Fingerprint;
use points::Points;
pub use thresholds::Thresholds;

/// The version of the saved format.
pub const FORMAT: u32 = 1;

/// What was found out about a machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// [`FORMAT`].
    pub format: u32,
    /// Which machine.
    pub fingerprint: Fingerprint,
    /// The measured thresholds.
    pub machine: Thresholds,
    /// How each measured threshold was computed.
    #[serde(default)]
    pub how: BTreeMap<String, String>,
    /// Why the others are as they were.
    #[serde(default)]
    pub kept: BTreeMap<String, String>,
    /// Memory bandwidth from each node to each.
    #[serde(default)]
    pub bandwidth: Vec<bandwidth::Point>,
    /// Shared counters.
    #[serde(default)]
    pub coherence: Vec<coherence::Point>,
    /// Two threads on one core.
    #[serde(default)]
    pub pipeline: Vec<pipeline::Point>,
}

/// How far the work has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The step that begins now, from 1.
    pub step: usize,
    /// Of so many.
    pub of: usize,
    /// What it measures.
    pub what: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    Clock(CpuId),
    Coherence(coherence::Distance, [CpuId; 2]),
    Bandwidth {
        from: CpuSet,
        node: NodeId,
        memory: NodeId,
    },
    Pipeline([CpuId; 2]),
}

impl Step {
    fn what(&self) -> String {
        match self {
            Self::Clock(cpu) => format!("clock of CPU {cpu}"),
            Self::Coherence(distance, [one, other]) => {
                format!("shared counters {distance}, CPUs {one} and {other}")
            }
            Self::Bandwidth { node, memory, .. } if node == memory => {
                format!("memory bandwidth of node {node}")
            }
            Self::Bandwidth { node, memory, .. } => {
                format!("memory bandwidth from node {node} to memory of node {memory}")
            }
            Self::Pipeline([one, other]) => {
                format!("one core by two threads, CPUs {one} and {other}")
            }
        }
    }
}

/// The nodes that have memory of their own; `None` where the kernel does not report it, as without NUMA.
fn nodes_with_memory(nodes: &Path) -> Option<CpuSet> {
    let list = read_small(&nodes.join("has_memory")).ok()?;
    list.trim().parse().ok()
}

fn steps(topology: &Topology, usable: &CpuSet, with_memory: Option<&CpuSet>) -> Vec<Step> {
    let mut steps: Vec<Step> = usable.iter().next().map(Step::Clock).into_iter().collect();
    let pairs = coherence::pairs(topology, usable);
    let of_pair = |(distance, pair): &(coherence::Distance, _)| Step::Coherence(*distance, *pair);
    steps.extend(pairs.iter().map(of_pair));
    // One CPU a core: a second thread of a core adds no bandwidth.
    let node_cpus = |node: &CpuSet| -> CpuSet {
        let of_core = |core: &CpuSet| core.intersection(usable).intersection(node).iter().next();
        topology.cores().iter().filter_map(of_core).collect()
    };
    let nodes: Vec<(NodeId, CpuSet)> = topology
        .nodes()
        .iter()
        .map(|node| (node.id, node_cpus(&node.cpus)))
        .filter(|(_, cpus)| !cpus.is_empty())
        .collect();
    let has_memory = |node: NodeId| with_memory.is_none_or(|nodes| nodes.contains(CpuId(node.0)));
    for (node, from) in &nodes {
        for (memory, _) in nodes.iter().filter(|(node, _)| has_memory(*node)) {
            steps.push(Step::Bandwidth {
                from: from.clone(),
                node: *node,
                memory: *memory,
            });
        }
    }
    let siblings = pairs
        .iter()
        .find(|(distance, _)| *distance == coherence::Distance::Core);
    steps.extend(siblings.map(|(_, pair)| Step::Pipeline(*pair)));
    steps
}

/// Measures the machine on these CPUs, in seconds to a minute; other work makes it look slower than it is.
pub fn calibrate(
    topology: &Topology,
    usable: &CpuSet,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Calibration, HostError> {
    let fingerprint = Fingerprint::of_this_machine(topology)?;
    let with_memory = nodes_with_memory(Path::new(NODES));
    let steps = steps(topology, usable, with_memory.as_ref());
    let mut points = Points::default();
    for (place, step) in steps.iter().enumerate() {
        progress(&Progress {
            step: place + 1,
            of: steps.len(),
            what: step.what(),
        });
        match step {
            Step::Clock(cpu) => {
                points.nominal_hz = nominal::nominal_hz(Path::new(CPUS), *cpu);
                points.clock_hz = pipeline::clock_hz(*cpu)?;
            }
            Step::Coherence(distance, pair) => {
                let measured = coherence::measure(*distance, *pair)?;
                points.coherence.extend(measured);
            }
            Step::Bandwidth { from, node, memory } => {
                let near = topology.node_cpus(*memory).intersection(usable);
                let measured = bandwidth::measure(from, *node, *memory, &near)?;
                points.bandwidth.push(measured);
            }
            Step::Pipeline(pair) => points.pipeline.extend(pipeline::measure(*pair)?),
        }
    }
    let drawn = thresholds::draw(&points);
    Ok(Calibration {
        format: FORMAT,
        fingerprint,
        machine: drawn.machine,
        how: drawn.how,
        kept: drawn.kept,
        bandwidth: points.bandwidth,
        coherence: points.coherence,
        pipeline: points.pipeline,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::MachineProfile;
    use mapper_model::topology::Shape;

    fn machine(sockets: u32, cores_per_socket: u32, threads_per_core: u32) -> Topology {
        Topology::regular(Shape {
            sockets,
            cores_per_socket,
            threads_per_core,
        })
    }

    fn whats(topology: &Topology, with_memory: Option<&CpuSet>) -> Vec<String> {
        let steps = steps(topology, topology.cpus(), with_memory);
        steps.iter().map(Step::what).collect()
    }

    #[test]
    fn a_node_without_memory_has_no_bandwidth_of_its_own() {
        let nodes = tempfile::tempdir().unwrap();
        assert_eq!(nodes_with_memory(nodes.path()), None);
        std::fs::write(nodes.path().join("has_memory"), "1\n").unwrap();
        let with_memory = nodes_with_memory(nodes.path());
        let mut whats = whats(&machine(2, 2, 1), with_memory.as_ref());
        whats.retain(|what| what.starts_with("memory"));
        let from_other = "memory bandwidth from node 0 to memory of node 1";
        assert_eq!(whats, [from_other, "memory bandwidth of node 1"]);
    }

    #[test]
    fn a_large_machine_is_measured_at_every_distance_and_over_every_link() {
        let whats = whats(&machine(2, 2, 2), None);
        for (what, times) in [
            ("shared counters within a core", 1),
            ("shared counters within a socket", 1),
            ("shared counters across sockets", 1),
            ("memory bandwidth of node", 2),
            ("to memory of node", 2),
            ("one core by two threads", 1),
        ] {
            let found = whats.iter().filter(|step| step.contains(what)).count();
            assert_eq!(found, times, "{what}: {whats:?}");
        }
    }

    #[test]
    fn what_a_machine_does_not_have_is_not_measured() {
        let whats = whats(&machine(1, 2, 1), None);
        assert_eq!(whats.len(), 3, "{whats:?}");
        assert!(whats[1].contains("within a socket"), "{whats:?}");
    }

    #[test]
    fn this_machine_is_calibrated_with_plausible_figures_and_a_reason_for_every_threshold() {
        use crate::topology::{HwlocSource, TopologySource};
        let topology = HwlocSource::ThisMachine.read().unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let usable = crate::enforce::masks::get(mapper_model::ThreadId(own)).unwrap();
        let usable = usable.intersection(topology.cpus());
        let usable: CpuSet = usable.iter().take(2).collect();
        let mut message = Vec::new();
        let found = calibrate(&topology, &usable, &mut |progress| {
            message.push(progress.clone());
        })
        .unwrap();
        for progress in &message {
            assert_eq!(progress.of, message.len(), "{message:?}");
        }
        let reasons = found.how.len() + found.kept.len();
        assert_eq!(reasons, Thresholds::KEYS.len(), "{found:?}");
        for point in &found.bandwidth {
            assert!((1e8..1e13).contains(&point.bytes_per_s), "{found:?}");
        }
        let applied = found.machine.applied_to(&MachineProfile::default());
        let misses = applied.llc_misses_per_s;
        assert!((1e6..1e12).contains(&misses), "{applied:?}");
        let again = Fingerprint::of_this_machine(&topology).unwrap();
        assert_eq!(found.fingerprint.differs_from(&again), None);
    }
}
