//! The file `nucore.json`: the bandwidth program.
//!
//! Of what a case expects, the totals and the allocation bind. How many allocations tie, how long
//! the author's solver took and what the paper printed is told for information.

use super::compare::Tolerance;
use super::registry::{Answered, Group, field};
use anyhow::Context as _;
use mapper_predict::nucore::{
    Demand, DramCharge, EffortLimit, Machine, MachineSpec, NodeAllocation, Program,
};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) const GROUPS: &[Group] = &[Group {
    key: "cases",
    answer: answer_case,
    // Stage 2 gives up as much as 1e-4, and expected numbers are rounded.
    tolerance: Tolerance {
        relative: 0.0,
        absolute: 1.01e-4,
    },
}];

#[derive(Deserialize)]
struct FixedAllocation {
    alloc: Vec<u32>,
    total_bw: f64,
}

/// Keys of a case, and of what it expects, that are not compared.
const INFORMATION: [&str; 3] = [
    "optimal_vectors_with_same_total",
    "solve_time_bw_s",
    "solve_time_two_stage_s",
];

fn answer_case(file: &Value, case: &Value) -> anyhow::Result<Answered> {
    let name: String = field(case, "machine")?;
    let spec: MachineSpec = field(
        file.get("machines").context("the file has no machines")?,
        &name,
    )?;
    let machine = Machine::new(spec)?;
    let demand: Demand = field(case, "app")?;
    let demands = [demand];
    let program = Program::new(&machine, &demands, DramCharge::AsPrinted)?;
    let solved = program.solve(EffortLimit::default())?;

    let mut expected = case.get("expect").context("expect is missing")?.clone();
    if let Some(expected) = expected.as_object_mut() {
        expected.retain(|key, _| !INFORMATION.contains(&key.as_str()));
    }
    let mut got = json!({
        "total_bw": solved.total_bandwidth,
        "total_cores": solved.total_cores,
        "alloc_lexmax": solved.allocation.0[0],
        "proven": solved.proven,
    });
    expected["proven"] = json!(true);

    if case.get("fixed_alloc_bw").is_some() {
        let fixed: Vec<FixedAllocation> = field(case, "fixed_alloc_bw")?;
        let predicted = fixed
            .iter()
            .map(|f| {
                Ok(program
                    .bandwidth(&NodeAllocation(vec![f.alloc.clone()]))?
                    .total)
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        got["fixed_alloc_bw"] = json!(predicted);
        expected["fixed_alloc_bw"] = json!(fixed.iter().map(|f| f.total_bw).collect::<Vec<_>>());
    }
    Ok(Answered { expected, got })
}
