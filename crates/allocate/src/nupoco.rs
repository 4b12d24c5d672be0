//! NuPoCo: whole nodes where they make the machine busiest, by a queueing model of its memory
//! [NuPoCo §4, §5.2 Algorithm 1].
//!
//! Utilisation counts cores and memory controllers alike, so an application that saturates memory gets nodes for its
//! controllers, one that computes for its cores. The model and the algorithm are [`mapper_predict::nupoco`]; here its
//! inputs are made from what was measured [readings N8, N9] and its answer is turned into counts per node.

use crate::model_driven::nodes::Division;
use crate::model_driven::profiled::Measured;
use crate::model_driven::{Candidate, Inputs, SERIAL};
use crate::section::Section;
use mapper_predict::nupoco::dop::{self, DopPlan, DopRule};
use mapper_predict::nupoco::network::{Averaging, NumaModel};
use mapper_predict::nupoco::numa::{Locality, NumaMachine, NumaNode, NumaWorkload};
use mapper_predict::nupoco::profile::{self, WorkRates};
use mapper_predict::{Cycles, ModelError, NodeIndex, RequestsPerCycle, WorkloadIndex};
use std::error::Error;

pub(crate) const NAME: &str = "nupoco";

/// See [`Planner`](crate::model_driven::Planner).
pub(crate) fn plan(inputs: &Inputs<'_>) -> Result<Division, Box<dyn Error>> {
    let memory = &inputs.memory;
    let service = Cycles::new(memory.service_cycles)?;
    let link = Cycles::new(memory.link_cycles)?;
    let nodes: Vec<NumaNode> = inputs
        .nodes
        .iter()
        .map(|node| NumaNode {
            cores: node.cpus,
            memory_service: service,
        })
        .collect();
    let machine = NumaMachine::new(&nodes, &vec![vec![link; nodes.len()]; nodes.len()])?;
    let locality = match memory.local_share {
        Some(share) if nodes.len() > 1 => Locality::Local(share),
        _ => Locality::Interleaved,
    };
    let rates: Vec<WorkRates> = inputs
        .candidates
        .iter()
        .map(|c| work_rates(&c.measured, service))
        .collect::<Result<_, _>>()?;
    let workloads: Vec<NumaWorkload> = rates
        .iter()
        .map(|rates| NumaWorkload {
            requests: rates.requests,
            stalling_reads: rates.stalling_reads,
            locality: locality.clone(),
        })
        .collect();
    let sections: Vec<dop::Section> = inputs.candidates.iter().map(section).collect();
    let model = NumaModel::new(&machine, &workloads, Averaging::default())?;
    let plan = dop::plan(&model, &sections)?;
    Ok(division(inputs, &plan, &rates))
}

const fn section(candidate: &Candidate) -> dop::Section {
    match candidate.section {
        Section::Parallel => dop::Section::Parallel,
        Section::Serial => dop::Section::Serial,
    }
}

/// Requests per cycle of work from misses per unhalted cycle [readings N8], all of which stall
/// [readings N9]. A measurement beyond what the model can serve counts as nearly that.
pub(crate) fn work_rates(measured: &Measured, service: Cycles) -> Result<WorkRates, ModelError> {
    let convert = |rate: f64| {
        let rate = RequestsPerCycle::new(rate)?;
        let measured_rates = profile::Measured {
            requests: rate,
            stalling_reads: rate,
        };
        profile::on_one_controller(measured_rates, measured.cpus_on_node, service)
    };
    match convert(measured.misses_per_cycle) {
        Err(ModelError::Saturated { limit, .. }) => convert(NEARLY * limit),
        result => result,
    }
}

/// Part of the model's limit that a saturated measurement counts as.
const NEARLY: f64 = 0.95;

fn division(inputs: &Inputs<'_>, plan: &DopPlan, rates: &[WorkRates]) -> Division {
    let nodes = inputs.nodes.len();
    let by_node: Vec<Vec<u32>> = (0..inputs.candidates.len())
        .map(|app| {
            (0..nodes)
                .map(|node| plan.cores.get(NodeIndex(node), WorkloadIndex(app)))
                .collect()
        })
        .collect();
    let rules = inputs
        .candidates
        .iter()
        .zip(&by_node)
        .zip(rates)
        .map(|((candidate, cores), rates)| {
            let held = cores.iter().filter(|c| **c > 0).count();
            match (candidate.section, plan.rule) {
                (Section::Serial, _) => SERIAL.to_owned(),
                (_, DopRule::RoundRobinCores) => {
                    "more applications than nodes, cores dealt round robin".to_owned()
                }
                (_, DopRule::WholeNodes) => format!(
                    "planned on {held} of {nodes} nodes for the highest system utilisation; \
                     it makes {:.1} memory requests in 1000 cycles of work",
                    1000.0 * rates.requests.get()
                ),
            }
        })
        .collect();
    Division {
        counts: by_node.iter().map(|cores| cores.iter().sum()).collect(),
        by_node: Some(by_node),
        rules,
        surplus: inputs.candidates.iter().map(Candidate::surplus).collect(),
    }
}
