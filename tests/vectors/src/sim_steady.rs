//! The file `sim_steady.json`: fixed points of the simulator's performance function.
//!
//! Applications and machines are the simulator's presets. Saturation is without loss there.

use super::case::{Answered, Group, inputs};
use super::compare::Tolerance;
use anyhow::{Context as _, bail};
use mapper_model::CpuSet;
use mapper_sim::{Constants, Machine, Occupancy, presets, solve};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(super) const GROUPS: &[Group] = &[Group {
    key: "cases",
    answer,
    tolerance: Tolerance {
        relative: 1e-3,
        absolute: 1e-12,
    },
}];

/// Who runs where.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Situation {
    /// Plain Linux with so many runnable threads of each application.
    Linux { runnable: BTreeMap<String, f64> },
    /// A thread on each of these contexts: socket, core, thread.
    Placement {
        contexts: BTreeMap<String, Vec<[u32; 3]>>,
    },
}

#[derive(Deserialize)]
struct Inputs {
    machine: String,
    #[serde(flatten)]
    situation: Situation,
}

fn answer(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let i: Inputs = inputs(case)?;
    let machine = presets::machine(&i.machine)?;
    let (names, occupancy): (Vec<&String>, _) = match &i.situation {
        Situation::Linux { runnable } => {
            let threads: Vec<f64> = runnable.values().copied().collect();
            (
                runnable.keys().collect(),
                Occupancy::pool(&machine, &threads),
            )
        }
        Situation::Placement { contexts } => {
            (contexts.keys().collect(), placed(&machine, contexts)?)
        }
    };
    let apps = names
        .iter()
        .map(|name| Ok(presets::app(name)?.behaviour()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    // Saturation without loss, and queues that stop growing at 50 service times.
    let constants = Constants {
        row_buffer_loss: 0.0,
        saturated_slope: 0.0,
        ..Constants::default()
    };
    let solution = solve(&machine, &constants, &apps, &occupancy);
    let mut got: Map<String, Value> = names
        .into_iter()
        .zip(&solution.apps)
        .map(|(name, speed)| {
            let giga = speed.instructions / 1e9;
            (
                name.clone(),
                json!({"ginstr_per_s": giga, "ipc": speed.ipc()}),
            )
        })
        .collect();
    got.insert("mem_util".into(), json!(solution.memory_utilisation));
    // Utilisations stand beside what is expected of the applications.
    let mut expected = case.get("expect").context("expect is missing")?.clone();
    if let (Some(expected), Some(utilisation)) = (expected.as_object_mut(), case.get("mem_util")) {
        expected.insert("mem_util".into(), utilisation.clone());
    }
    Ok(Answered {
        expected,
        got: Value::Object(got),
    })
}

fn placed(
    machine: &Machine,
    contexts: &BTreeMap<String, Vec<[u32; 3]>>,
) -> anyhow::Result<Occupancy> {
    let mut occupancy = Occupancy::idle(machine, contexts.len());
    for (app, (name, places)) in contexts.iter().enumerate() {
        let mut set = CpuSet::new();
        for place in places {
            match machine.context_at(*place) {
                Some(cpu) => set.insert(cpu),
                None => bail!("contexts.{name}: {} has no context {place:?}", machine.name),
            };
        }
        occupancy.spread(machine, app, f64::from(set.len()), &set);
    }
    occupancy.divide();
    Ok(occupancy)
}
