//! Which machine a profile is of, as it is valid only for that one.

use crate::HostError;
use crate::observe::processor::Processor;
use crate::procfs::read_small;
use mapper_model::Topology;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What distinguishes a machine from one with other thresholds: its processor, and how its CPUs are connected.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// The processor as it names itself.
    pub processor: String,
    /// CPUs, cores, sockets and nodes.
    pub topology: String,
    /// A number for which CPU is in which core, cache, socket and node.
    pub layout: String,
    /// Its memory in MiB, 0 where the kernel does not report it. Other memory has another bandwidth.
    pub memory_mib: u64,
}

const KEPT_BY_KERNELS: f64 = 0.03;

impl Fingerprint {
    /// The machine that this process runs on, with its topology; an error if `/proc` cannot be read.
    pub fn of_this_machine(topology: &Topology) -> Result<Self, HostError> {
        let cpuinfo = read_small(Path::new("/proc/cpuinfo"))?;
        let meminfo = read_small(Path::new("/proc/meminfo"))?;
        Ok(Self::new(&cpuinfo, &meminfo, topology))
    }

    fn new(cpuinfo: &str, meminfo: &str, topology: &Topology) -> Self {
        let field = |name: &str| {
            cpuinfo.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim().to_owned())
            })
        };
        let numbers = Processor::parse(cpuinfo).map(|processor| processor.to_string());
        let names = [
            field("model name"),
            numbers,
            field("stepping").map(|s| format!("stepping {s}")),
        ];
        Self {
            processor: names.into_iter().flatten().collect::<Vec<_>>().join(", "),
            topology: format!(
                "CPUs {}, cores {}, sockets {}, nodes {}",
                topology.cpus(),
                topology.cores().len(),
                topology.sockets().len(),
                topology.nodes().len()
            ),
            layout: format!("{:016x}", layout(topology)),
            memory_mib: super::bandwidth::meminfo_kib(meminfo, "MemTotal:").unwrap_or(0) / 1024,
        }
    }

    /// What is different in `other`, in words; `None` if it is the same machine.
    #[must_use]
    pub fn differs_from(&self, other: &Self) -> Option<String> {
        if self.processor != other.processor {
            return Some(format!(
                "processor {}, not {}",
                other.processor, self.processor
            ));
        }
        if self.topology != other.topology {
            return Some(format!("{}, not {}", other.topology, self.topology));
        }
        let (own, others) = (self.memory_mib as f64, other.memory_mib as f64);
        if (own - others).abs() > KEPT_BY_KERNELS * own.max(others) {
            return Some(format!(
                "{:.1} GiB of memory, not {:.1}",
                others / 1024.0,
                own / 1024.0
            ));
        }
        (self.layout != other.layout)
            .then(|| "the same numbers of CPUs and cores, but arranged in another way".to_owned())
    }
}

/// FNV-1a over the places of all CPUs: the same on every machine and in every version.
fn layout(topology: &Topology) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for thread in topology.threads() {
        let place = [
            thread.cpu.0,
            thread.core.0,
            thread.socket.0,
            thread.node.0,
            thread.cache.0,
        ];
        for byte in place.iter().flat_map(|number| number.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::topology::Shape;

    const CPUINFO: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 63\n\
                           model name\t: Xeon E5\nstepping\t: 2\n";

    fn machine(
        cpuinfo: &str,
        memory_kib: &str,
        [sockets, cores_per_socket, threads_per_core]: [u32; 3],
    ) -> Fingerprint {
        let topology = Topology::regular(Shape {
            sockets,
            cores_per_socket,
            threads_per_core,
        });
        let meminfo = format!("MemTotal:       {memory_kib} kB\nMemFree: 1 kB\n");
        Fingerprint::new(cpuinfo, &meminfo, &topology)
    }

    fn of(cpuinfo: &str, shape: [u32; 3]) -> Fingerprint {
        machine(cpuinfo, "65536000", shape)
    }

    #[test]
    fn a_machine_with_other_memory_is_another_one() {
        let with = |kib: &str| machine(CPUINFO, kib, [1, 2, 1]);
        // Another kernel keeps some other part for itself, wherever the limit between two sizes may be.
        assert_eq!(with("131072000").differs_from(&with("131050000")), None);
        assert_eq!(with("12584960").differs_from(&with("12580864")), None);
        let message = with("131072000").differs_from(&with("65536000")).unwrap();
        let expected = "62.5 GiB of memory, not 125.0";
        assert!(message.contains(expected), "{message}");
        assert!(with("131072000").differs_from(&with("x")).is_some());
    }

    #[test]
    fn a_fingerprint_of_another_machine_names_what_differs() {
        let this = of(CPUINFO, [2, 2, 1]);
        assert_eq!(this.differs_from(&of(CPUINFO, [2, 2, 1])), None);
        let other = of(&CPUINFO.replace("Xeon E5", "Xeon E7"), [2, 2, 1]);
        let message = this.differs_from(&other).unwrap();
        for says in ["E7", "not Xeon E5"] {
            assert!(message.contains(says), "{message}");
        }
        let message = this.differs_from(&of(CPUINFO, [2, 4, 1])).unwrap();
        assert!(message.contains("CPUs 0-7"), "{message}");
        let mut moved = this.clone();
        moved.layout = of(CPUINFO, [1, 4, 1]).layout;
        assert!(this.differs_from(&moved).unwrap().contains("arranged"));
        let stepping = of(&CPUINFO.replace(": 2\n", ": 3\n"), [2, 2, 1]);
        assert!(this.differs_from(&stepping).is_some());
    }
}
