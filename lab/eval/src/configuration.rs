//! What a policy of the decision core is configured with before a run: its settings, and of the machine what a user would
//! have measured.
//!
//! Bandwidths are those that threads get which stream in the model (`mapper_sim::stream`), so that no policy is
//! handed the model's own parameters [specification, protocol point 5].

use super::run_spec::RunSpec;
use mapper_allocate::{AllocationConfig, AtRandom, Probability, hill_climb, mapper_paper};
use mapper_model::MachineProfile;
use mapper_pipeline::PipelineConfig;
use mapper_sim::machine::LINE_BYTES;
use mapper_sim::{Machine, stream};

/// Share of a node's measured bandwidth from which on memory counts as a bottleneck.
const MEMORY_LIMIT: f64 = 0.6;

/// The settings of a policy: of the daemon, or as published for the rules as printed.
pub(super) fn config(
    spec: &RunSpec,
    machine: &Machine,
    allocation: &str,
    mapping: &str,
) -> anyhow::Result<PipelineConfig> {
    let mut allocate = AllocationConfig::default();
    if [mapper_paper::NAME, hill_climb::PAPER_NAME].contains(&allocation) {
        allocate.min_cpus = 4;
        allocate.reexplore_at_random = Some(AtRandom {
            probability: Probability::OF_MAPPER,
            seed: spec.seed,
        });
    }
    // What a user would measure before setting these up.
    let found = stream::measure(machine, &spec.constants)?;
    let cycles = |bytes_per_s: f64| LINE_BYTES / bytes_per_s * machine.spec.clock_hz;
    allocate.memory.service_cycles = Some(cycles(found.node_bytes_per_s));
    allocate.memory.link_cycles = Some(cycles(found.link_bytes_per_s));
    allocate.memory.node_gb_per_s = Some(found.node_bytes_per_s / 1e9);
    let defaults = MachineProfile::default();
    Ok(PipelineConfig {
        allocation: allocation.into(),
        mapping: mapping.into(),
        allocate,
        machine: MachineProfile {
            clock_hz: machine.spec.clock_hz,
            // As `mapperd calibrate` takes it from what it measures.
            llc_misses_per_s: MEMORY_LIMIT * found.node_bytes_per_s / LINE_BYTES,
            ipc_high: spec.ipc_high.unwrap_or(defaults.ipc_high),
            sharing_high_per_cycle: spec.sharing_high.unwrap_or(defaults.sharing_high_per_cycle),
            ..defaults
        },
        ..PipelineConfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::examples;
    use super::*;
    use mapper_sim::presets;

    /// A run on a machine, without programs.
    fn spec(machine: &str, seed: u64) -> (RunSpec, Machine) {
        let mut spec = examples::run(machine, "SGD", "mapper");
        spec.members.clear();
        spec.seed = seed;
        (spec, presets::machine(machine).unwrap())
    }

    #[test]
    fn the_printed_rules_explore_at_random_by_the_seed_of_the_run_and_the_daemons_defaults_do_not()
    {
        let chance = |seed: u64, allocation: &str| {
            let (spec, machine) = spec("hsw80", seed);
            let config = config(&spec, &machine, allocation, "sam_mph").unwrap();
            assert_eq!(config.allocate.reexplore_every, None);
            config.allocate.reexplore_at_random
        };
        assert_eq!(chance(3, "mapper"), None);
        for seed in [3, 4] {
            let text = chance(seed, mapper_paper::NAME).unwrap();
            assert_eq!(text.probability, Probability::OF_MAPPER);
            assert_eq!(text.seed, seed);
        }
    }

    #[test]
    fn policies_get_what_streaming_threads_measure_and_not_what_the_machine_has() {
        for name in ["hsw80", "ivb40", "amd64"] {
            let (spec, machine) = spec(name, 1);
            let text = config(&spec, &machine, "nupoco", "nupoco_swap").unwrap();
            let measured = stream::measure(&machine, &spec.constants).unwrap();
            let lines_per_s = measured.node_bytes_per_s / 64.0;
            let limit = text.machine.llc_misses_per_s / lines_per_s;
            assert!((limit - 0.6).abs() < 1e-9, "{name}");
            let service = text.allocate.memory.service_cycles.unwrap();
            let cycles = machine.spec.clock_hz / lines_per_s;
            assert!((service / cycles - 1.0).abs() < 1e-9, "{name}");
            let has = machine.spec.memory_bytes_per_s / 64.0;
            assert!(lines_per_s < 0.95 * has, "{name}: {lines_per_s} of {has}");
        }
    }
}
