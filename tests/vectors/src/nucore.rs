//! The file `nucore.json`: the bandwidth program.
//!
//! Of what a case expects, the totals and the allocation bind. How many allocations tie, how long
//! the author's solver took and what the paper printed is shown for information.

use super::case::{Answered, Group, field};
use super::compare::Tolerance;
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

/// The kept file, as it is compiled in.
const KEPT: &str = include_str!("../nucore.json");

/// The cores by node that give a program of NuCore's Table 1 its greatest bandwidth.
pub struct Optimum {
    /// As the paper prints them.
    pub printed: Vec<u32>,
    /// As the code finds them.
    pub solved: Vec<u32>,
}

/// Solves a case of the kept file.
///
/// # Errors
/// When the file has no such case.
pub fn optimum(id: &str) -> anyhow::Result<Optimum> {
    let file: Value = serde_json::from_str(KEPT).context("understand nucore.json")?;
    let mut cases = file["cases"].as_array().into_iter().flatten();
    let case = cases
        .find(|case| case["id"] == id)
        .with_context(|| format!("nucore.json has no case {id}"))?;
    let machine = machine(&file, case)?;
    let demands: [Demand; 1] = [field(case, "app")?];
    let program = Program::new(&machine, &demands, DramCharge::AsPrinted)?;
    let mut solved = program.solve(EffortLimit::default())?;
    Ok(Optimum {
        printed: field(case, "paper_allocation")?,
        solved: solved.allocation.0.swap_remove(0),
    })
}

fn machine(file: &Value, case: &Value) -> anyhow::Result<Machine> {
    let name: String = field(case, "machine")?;
    let spec: MachineSpec = field(
        file.get("machines").context("the file has no machines")?,
        &name,
    )?;
    Ok(Machine::new(spec)?)
}

fn answer_case(file: &Value, case: &Value) -> anyhow::Result<Answered> {
    let machine = machine(file, case)?;
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
