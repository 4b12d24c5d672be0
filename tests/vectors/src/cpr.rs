//! The file `cpr.json`: Cooperative's greedy allocation and chunk rule.

use super::case::{Answered, Group, against_expect, inputs};
use super::compare::Tolerance;
use mapper_predict::cooperative::chunks::{self, ChunkRule, ChunkSize};
use mapper_predict::cooperative::greedy::{self, ClusteredMachine};
use mapper_predict::{Cycles, RequestsPerCycle};
use serde::Deserialize;
use serde_json::{Value, json};
use std::num::NonZeroU64;

pub(super) const GROUPS: &[Group] = &[
    Group {
        key: "greedy",
        answer: answer_greedy,
        tolerance: Tolerance::MODEL,
    },
    Group {
        key: "chunks",
        answer: answer_chunks,
        tolerance: Tolerance::MODEL,
    },
];

#[derive(Deserialize)]
struct GreedyInputs {
    #[serde(rename = "MRR")]
    rates: Vec<f64>,
    inv_mu: f64,
    clusters: usize,
    cores_per_cluster: u32,
}

fn answer_greedy(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let i: GreedyInputs = inputs(case)?;
    let machine = ClusteredMachine {
        clusters: i.clusters,
        cores_per_cluster: i.cores_per_cluster,
        service: Cycles::new(i.inv_mu)?,
    };
    let rates = i
        .rates
        .iter()
        .map(|&rate| RequestsPerCycle::new(rate))
        .collect::<Result<Vec<_>, _>>()?;
    let plan = greedy::plan(&machine, &rates)?;
    against_expect(
        case,
        json!({
            "clusters": plan.clusters,
            "speedups": plan.speedups,
            "sum": plan.sum,
            "trace": plan.trace,
        }),
    )
}

#[derive(Deserialize)]
struct ChunkInputs {
    iterations: u64,
    #[serde(rename = "N")]
    cores: NonZeroU64,
    period: f64,
    initial_chunk: u64,
    time_per_iter: f64,
}

fn answer_chunks(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let i: ChunkInputs = inputs(case)?;
    let rule = ChunkRule {
        cores: i.cores,
        period: i.period,
    };
    let first = ChunkSize::starting_at(i.initial_chunk);
    let chunks = chunks::delegate_alone(&rule, i.iterations, first, i.time_per_iter);
    against_expect(case, json!({"chunks": chunks}))
}
