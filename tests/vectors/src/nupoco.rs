//! The files `nupoco_*.json`.

use super::case::{Answered, Group, against_expect, inputs};
use super::compare::Tolerance;
use anyhow::Context as _;
use mapper_predict::nupoco::colocation::{self, Reading, Share};
use mapper_predict::nupoco::dop::{self, Section};
use mapper_predict::nupoco::network::{Averaging, NumaModel};
use mapper_predict::nupoco::numa::{CoreMap, Locality, NumaMachine, NumaWorkload};
use mapper_predict::nupoco::smp::{self, SmpMachine};
use mapper_predict::nupoco::smp_policy::{self, Job, Outcome};
use mapper_predict::nupoco::swap::{self, NodePressure, Resident, SwapRule};
use mapper_predict::{Cycles, NodeIndex, RequestsPerCycle, WorkloadIndex};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) const SMP: &[Group] = &[cases(answer_smp)];
pub(super) const COLOCATION: &[Group] = &[cases(answer_colocation)];
pub(super) const POLICIES: &[Group] = &[cases(answer_policies)];
pub(super) const NETWORK: &[Group] = &[cases(answer_network)];
pub(super) const ALGORITHM_1: &[Group] = &[cases(answer_algorithm_1)];
pub(super) const ALGORITHM_2: &[Group] = &[cases(answer_algorithm_2)];

const fn cases(answer: super::case::Answer) -> Group {
    Group {
        key: "cases",
        answer,
        tolerance: Tolerance::MODEL,
    }
}

#[derive(Deserialize)]
struct SmpInputs {
    #[serde(rename = "N")]
    cores: u32,
    #[serde(rename = "M")]
    machine_cores: u32,
    #[serde(rename = "MRR")]
    rate: f64,
    inv_mu: f64,
}

fn answer_smp(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let i: SmpInputs = inputs(case)?;
    let machine = SmpMachine::new(i.machine_cores, Cycles::new(i.inv_mu)?)?;
    let p = smp::predict(&machine, i.cores, RequestsPerCycle::new(i.rate)?)?;
    against_expect(
        case,
        json!({
            "MCTUtil": p.memory,
            "MRT": p.response,
            "CPUUtil": p.cpu,
            "Speedup": p.speedup,
            "TotalTime_over_CPU1": p.total_time_over_cpu_time_of_one,
            "SystemUtil": p.system,
        }),
    )
}

/// The papers' letters for the readings of co-location.
#[derive(Clone, Copy, Deserialize)]
enum ReadingLetter {
    C,
    W,
    #[serde(alias = "exact")]
    Exact,
}

impl From<ReadingLetter> for Reading {
    fn from(letter: ReadingLetter) -> Self {
        match letter {
            ReadingLetter::C => Self::Requesting,
            ReadingLetter::W => Self::Assigned,
            ReadingLetter::Exact => Self::Exact,
        }
    }
}

#[derive(Deserialize)]
struct ColocationInputs {
    alloc: Vec<u32>,
    #[serde(rename = "MRR")]
    rates: Vec<f64>,
    inv_mu: f64,
    #[serde(rename = "M")]
    machine_cores: u32,
    reading: ReadingLetter,
}

fn answer_colocation(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let i: ColocationInputs = inputs(case)?;
    anyhow::ensure!(
        i.alloc.len() == i.rates.len(),
        "inputs: {} allocations for {} rates",
        i.alloc.len(),
        i.rates.len()
    );
    let machine = SmpMachine::new(i.machine_cores, Cycles::new(i.inv_mu)?)?;
    let shares = i
        .alloc
        .iter()
        .zip(&i.rates)
        .map(|(&cores, &rate)| {
            Ok(Share {
                cores,
                rate: RequestsPerCycle::new(rate)?,
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let p = colocation::predict(&machine, &shares, i.reading.into())?;
    let per: Vec<Value> = p
        .workloads
        .iter()
        .map(|w| json!({"cores": w.cores, "cpu_util": w.cpu, "speedup": w.speedup}))
        .collect();
    against_expect(
        case,
        json!({
            "n": p.customers,
            "mrr_avg": p.mean_rate,
            "MRT": p.response,
            "MCTUtil": p.memory,
            "per": per,
            "cpu_total": p.cpu,
            "system_util": p.system,
        }),
    )
}

#[derive(Deserialize)]
struct PolicyInputs {
    inv_mu: f64,
    #[serde(rename = "M")]
    machine_cores: u32,
    #[serde(rename = "MRR")]
    rates: [f64; 2],
    #[serde(rename = "W")]
    work: [f64; 2],
    reading: ReadingLetter,
}

fn answer_policies(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let i: PolicyInputs = inputs(case)?;
    let machine = SmpMachine::new(i.machine_cores, Cycles::new(i.inv_mu)?)?;
    let job = |k: usize| -> anyhow::Result<Job> {
        Ok(Job {
            rate: RequestsPerCycle::new(i.rates[k])?,
            time_on_one_core: i.work[k],
        })
    };
    let c = smp_policy::compare(&machine, &[job(0)?, job(1)?], i.reading.into())?;
    let shown = |o: Outcome| {
        json!({
            "split": o.split,
            "total": o.total,
            "turnaround": o.turnaround,
            "reduction_vs_batch": o.reduction_vs_batch,
        })
    };
    against_expect(
        case,
        json!({
            "batch": c.batch,
            "equal": shown(c.equal),
            "best_static": shown(c.best_static),
            "max_system_util": shown(c.max_system_util),
            "max_cpu_util": shown(c.max_cpu_util),
        }),
    )
}

#[derive(Deserialize)]
struct WorkloadInputs {
    #[serde(rename = "name", default)]
    _name: String,
    mrr: f64,
    llc: f64,
    local: Option<f64>,
    /// Whether it is in a serial section.
    #[serde(default)]
    serial: bool,
}

/// The papers' letters for the averages of the network.
#[derive(Clone, Copy, Default, Deserialize)]
enum AveragingLetter {
    #[default]
    U,
    A,
}

#[derive(Deserialize)]
struct NetworkInputs {
    /// For the network alone: the workload that owns each node.
    alloc: Option<Vec<Option<usize>>>,
    workloads: Vec<WorkloadInputs>,
    num_nodes: usize,
    cores_per_node: u32,
    inv_mu_mem: f64,
    inv_link: f64,
    #[serde(default)]
    reading: AveragingLetter,
}

impl NetworkInputs {
    fn machine(&self) -> anyhow::Result<NumaMachine> {
        let (memory, link) = (Cycles::new(self.inv_mu_mem)?, Cycles::new(self.inv_link)?);
        Ok(NumaMachine::uniform(
            self.num_nodes,
            self.cores_per_node,
            memory,
            link,
        )?)
    }

    fn workloads(&self) -> anyhow::Result<Vec<NumaWorkload>> {
        let workload = |w: &WorkloadInputs| {
            Ok(NumaWorkload {
                requests: RequestsPerCycle::new(w.mrr)?,
                stalling_reads: RequestsPerCycle::new(w.llc)?,
                locality: w.local.map_or(Locality::Interleaved, Locality::Local),
            })
        };
        self.workloads.iter().map(workload).collect()
    }

    fn averaging(&self) -> Averaging {
        match self.reading {
            AveragingLetter::U => Averaging::WithTraffic,
            AveragingLetter::A => Averaging::All,
        }
    }
}

fn answer_network(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let i: NetworkInputs = inputs(case)?;
    let alloc = i.alloc.as_ref().context("inputs.alloc is missing")?;
    anyhow::ensure!(
        alloc.len() == i.num_nodes,
        "inputs.alloc has {} entries for {} nodes",
        alloc.len(),
        i.num_nodes
    );
    let machine = i.machine()?;
    let model = NumaModel::new(&machine, &i.workloads()?, i.averaging())?;
    let mut map = CoreMap::empty(i.num_nodes, i.workloads.len());
    for (node, owner) in alloc.iter().enumerate() {
        if let Some(owner) = *owner {
            anyhow::ensure!(
                owner < i.workloads.len(),
                "inputs.alloc[{node}] is {owner}: there are {} workloads",
                i.workloads.len()
            );
            map.set(NodeIndex(node), WorkloadIndex(owner), i.cores_per_node);
        }
    }
    let p = model.predict(&map)?;
    against_expect(
        case,
        json!({
            "MCTUtil": p.memory,
            "MRT_m": p.memory_response,
            "MRT_im": p.response,
            "NuUtil": p.nu_util,
            "node_cpu_util": p.node_cpu,
            "system_util": p.node_system,
        }),
    )
}

fn answer_algorithm_1(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let i: NetworkInputs = inputs(case)?;
    anyhow::ensure!(
        i.alloc.is_none(),
        "inputs.alloc is what the algorithm finds: leave it out"
    );
    let machine = i.machine()?;
    let model = NumaModel::new(&machine, &i.workloads()?, i.averaging())?;
    let sections: Vec<Section> = i
        .workloads
        .iter()
        .map(|w| {
            if w.serial {
                Section::Serial
            } else {
                Section::Parallel
            }
        })
        .collect();
    let plan = dop::plan(&model, &sections)?;
    let owned = |w: usize| {
        plan.owner
            .iter()
            .filter(|owner| **owner == Some(WorkloadIndex(w)))
            .count()
    };
    let trace: Vec<Value> = plan
        .trace
        .iter()
        .map(|s| json!({"node": s.node, "NuUtil": s.nu_util, "choice": s.choice}))
        .collect();
    let cores: Vec<&[u32]> = (0..i.num_nodes)
        .map(|n| plan.cores.node(NodeIndex(n)))
        .collect();
    against_expect(
        case,
        json!({
            "alloc": plan.owner,
            "nodes_per_workload": (0..i.workloads.len()).map(owned).collect::<Vec<_>>(),
            "cores": cores,
            "trace": trace,
        }),
    )
}

#[derive(Deserialize)]
struct SwapInputs {
    nodes: Vec<SwapNode>,
    threshold: f64,
    swap: u32,
}

#[derive(Deserialize)]
struct SwapNode {
    id: u32,
    llc: f64,
    apps: BTreeMap<String, SwapApp>,
}

#[derive(Deserialize)]
struct SwapApp {
    cores: u32,
    miss_rate: f64,
    llc: f64,
}

fn answer_algorithm_2(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let i: SwapInputs = inputs(case)?;
    let nodes: Vec<NodePressure<u32, String>> = i
        .nodes
        .into_iter()
        .map(|node| NodePressure {
            node: node.id,
            llc_accesses: node.llc,
            residents: node
                .apps
                .into_iter()
                .map(|(workload, app)| Resident {
                    workload,
                    cores: app.cores,
                    miss_rate: app.miss_rate,
                    llc_accesses: app.llc,
                })
                .collect(),
        })
        .collect();
    let plan = swap::plan(
        &nodes,
        SwapRule {
            threshold: i.threshold,
            cores: i.swap,
        },
    );
    let swaps: Vec<Value> = plan
        .swaps
        .iter()
        .map(|s| {
            json!({
                "busy": s.busy,
                "idle": s.idle,
                "busy_wl": s.busy_workload,
                "idle_wl": s.idle_workload,
                "cores": s.cores,
            })
        })
        .collect();
    against_expect(case, json!({"order": plan.order, "swaps": swaps}))
}
