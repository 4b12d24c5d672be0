//! What decides in a run: the governor of each policy that has one.

use super::configuration::config;
use super::policies::{Kind, Pace, Policy};
use super::run_spec::RunSpec;
use mapper_allocate::ProfiledOn;
use mapper_allocate::mapper_next::rules::Rules;
use mapper_allocate::mapper_next::{self, MapperNext};
use mapper_allocate::scalability::Scalability;
use mapper_model::MachineProfile;
use mapper_pipeline::Controller;
use mapper_sim::sam_per_task::SamPerTask;
use mapper_sim::shipped::Shipped;
use mapper_sim::{Controlled, Governor, Machine, Overhead};

/// What deciding costs, as published: MAPPER 5 ms for 80 threads [MAPPER §4.5.7]; SAM-MPH 8.89 µs
/// per ms on every CPU and 14 to 230 µs per decision [SAM-MPH §5.5]; NuPoCo 3.3 ms, in parallel with
/// the programs [NuPoCo §7.5].
fn overhead(policy: &Policy, spec: &RunSpec) -> Overhead {
    match policy.pace {
        Pace::Once | Pace::Sections => Overhead::default(),
        Pace::Allocation => Overhead {
            decision_s: spec.constants.decision_s,
            everywhere: 0.0,
        },
        Pace::Placement => Overhead {
            decision_s: 0.12e-3,
            everywhere: 8.89e-3,
        },
    }
}

pub(super) fn governor(
    policy: &Policy,
    spec: &RunSpec,
    machine: &Machine,
) -> anyhow::Result<Option<Box<dyn Governor>>> {
    let interval_s = match policy.pace {
        Pace::Once => f64::INFINITY,
        _ => spec.interval_s,
    };
    let overhead = overhead(policy, spec);
    let topology = || machine.topology().clone();
    let decides: Box<dyn Governor> = match &policy.kind {
        Kind::Core {
            allocation,
            mapping,
        } => {
            let config = config(spec, machine, allocation, mapping)?;
            Box::new(Controller::new(config, topology())?)
        }
        Kind::Next { parts, .. } => {
            let config = config(spec, machine, mapper_next::NAME, "sam_mph")?;
            let own = MapperNext::with(config.allocate.clone(), Rules::of(*parts));
            Box::new(Controller::new(config, topology())?.with_allocation(Box::new(own)))
        }
        Kind::NucoreByNode => {
            let mut config = config(spec, machine, "nucore", "linear")?;
            config.allocate.memory.profiled_on = ProfiledOn::OneCpuOfEachNode;
            Box::new(Controller::new(config, topology())?)
        }
        Kind::PlainScalability => {
            let config = config(spec, machine, "scalability", "linear")?;
            let plain = Scalability::without_memory(config.allocate.clone());
            Box::new(Controller::new(config, topology())?.with_allocation(Box::new(plain)))
        }
        Kind::Shipped => Box::new(Shipped::new(machine, spec.seed)),
        Kind::SamPerTask => {
            let sharing = MachineProfile::default().sharing_high_per_cycle;
            Box::new(SamPerTask::new(
                machine,
                spec.sharing_high.unwrap_or(sharing),
            ))
        }
        _ => return Ok(None),
    };
    let controlled = Controlled::new(decides, interval_s, overhead);
    Ok(Some(Box::new(match spec.overhead_budget {
        Some(budget) => controlled.within(budget),
        None => controlled,
    })))
}
