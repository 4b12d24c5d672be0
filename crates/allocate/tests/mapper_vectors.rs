//! The worked numbers of MAPPER's allocation, `mapper_alloc.json`.

// Helpers of tests: clippy takes only functions marked as tests for tests.
#![allow(clippy::unwrap_used)]

use mapper_allocate::config::{HistoryVeto, SpareRule};
use mapper_allocate::mapper::exploration::{self, Direction, PlainTrial, Stride, Verdict};
use mapper_allocate::mapper::membership::{self, Member};
use mapper_allocate::mapper::metrics::{self, FairReference, Metrics, MetricsRules, PointValue};
use mapper_allocate::mapper::stealing::{self, Bidder, Passes};
use mapper_allocate::mapper::{Mapper, NAME};
use mapper_allocate::{AllocationConfig, AllocationPolicy, shares};
use mapper_model::PhaseChange;
use mapper_model::topology::Shape;
use mapper_model::{
    AppId, AppName, AppSpec, AppView, Bottleneck, CpuSet, MachineProfile, Performance,
    PerformanceCurve, PerformanceSource, Profile, Snapshot, Topology, Trigger,
};
use mapper_monitor::phase::{self, PhaseReading};
use serde_json::{Map, Value, json};

/// One case: its name, what was expected, and what came out where that differs.
#[derive(Debug)]
struct Outcome {
    case: String,
    difference: Option<String>,
}

/// What computes the answer of a case.
type Answer = fn(&Value) -> Value;

fn outcome(case: &str, expected: &Value, got: &Value) -> Outcome {
    let difference = (!same(expected, got)).then(|| format!("expected {expected}, got {got}"));
    Outcome {
        case: case.to_owned(),
        difference,
    }
}

/// Whether a result is the expected one: numbers to 1e-9, objects in every key that is expected.
fn same(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 1e-9 * a.abs().max(1.0)
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => a
            .iter()
            .all(|(key, value)| same(value, b.get(key).unwrap_or(&Value::Null))),
        _ => expected == got,
    }
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("a number, not {value}"))
}

fn count(value: &Value) -> u32 {
    number(value) as u32
}

fn cases<'v>(file: &'v Value, section: &str) -> impl Iterator<Item = &'v Value> {
    file[section].as_array().into_iter().flatten()
}

fn id(case: &Value, section: &str) -> String {
    case["id"].as_str().unwrap_or(section).to_owned()
}

fn curve(table: &Value) -> PerformanceCurve {
    let table = table.as_object().unwrap();
    PerformanceCurve::from_points(
        table
            .iter()
            .map(|(cpus, perf)| (cpus.parse().unwrap(), number(perf))),
    )
}

fn bottleneck(value: &Value) -> Bottleneck {
    match value.as_str().unwrap() {
        "coherence" | "sharing" => Bottleneck::Sharing,
        "memory" => Bottleneck::Memory,
        "compute" => Bottleneck::Compute,
        "none" => Bottleneck::None,
        other => panic!("bottleneck {other:?}"),
    }
}

fn direction(value: &Value) -> Direction {
    match value.as_i64().unwrap() {
        1 => Direction::More,
        -1 => Direction::Fewer,
        _ => Direction::Stay,
    }
}

fn fair(case: &Value) -> Value {
    let inputs = &case["inputs"];
    let weights: Vec<f64> = inputs["weights"]
        .as_array()
        .unwrap()
        .iter()
        .map(number)
        .collect();
    let fair = shares::fair_shares(
        count(&inputs["contexts"]),
        &weights,
        count(&inputs["min_contexts"]),
    );
    json!({ "fair": fair.shares, "free": fair.free })
}

fn metrics(case: &Value) -> Value {
    let inputs = &case["inputs"];
    let curve = curve(&inputs["perf"]);
    let veto = inputs["history_veto"].as_bool() == Some(true);
    let rules = MetricsRules {
        fair: count(&inputs["fair"]),
        qos: number(&inputs["qos"]),
        veto: if veto {
            HistoryVeto::Obeyed
        } else {
            HistoryVeto::Ignored
        },
        spare_rule: SpareRule::Linear,
        value: PointValue::LastTwo,
        fair_reference: FairReference::Measured,
        relative_sd: 0.0,
    };
    let metrics = Metrics::of(&curve, count(&inputs["cur"]), &rules);
    let mut eff = Map::new();
    let mut norm_eff = Map::new();
    for point in metrics::efficiencies(&curve, PointValue::LastTwo) {
        eff.insert(point.cpus.to_string(), json!(point.eff));
        norm_eff.insert(point.cpus.to_string(), json!(point.norm_eff));
    }
    json!({
        "eff": eff,
        "max_eff": metrics.max_eff,
        "norm_eff": norm_eff,
        "known_fair": metrics.max_fair_perf.is_some(),
        "max_fair_perf": metrics.max_fair_perf,
        "min_guaranteed": metrics.min_guaranteed,
        "extra_perf": metrics.extra_perf,
        "spare_float": metrics.spare_exact,
        "spare": metrics.spare,
    })
}

/// Counts and transfers by name.
fn round(round: &stealing::Round, names: &[String], free_pool: &str) -> Value {
    let counts: Map<String, Value> = names
        .iter()
        .zip(&round.counts)
        .map(|(name, count)| (name.clone(), json!(count)))
        .collect();
    let transfers: Vec<Value> = round
        .moves
        .iter()
        .map(|m| {
            let from = m.from.map_or(free_pool, |giver| &names[giver]);
            json!([from, names[m.to], m.cpus])
        })
        .collect();
    json!({ "alloc": counts, "transfers": transfers, "free": round.free })
}

/// What a file calls the free pool as a giver.
fn free_pool<'v>(expected: &'v Value, names: &[String]) -> &'v str {
    expected["transfers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|t| t[0].as_str())
        .find(|giver| !names.iter().any(|n| n == giver))
        .unwrap_or("free")
}

fn steal(case: &Value) -> Value {
    let inputs = &case["inputs"];
    let apps = inputs["apps"].as_array().unwrap();
    let names: Vec<String> = apps
        .iter()
        .map(|a| a["id"].as_str().unwrap().to_owned())
        .collect();
    let bidders: Vec<Bidder> = apps
        .iter()
        .map(|app| Bidder {
            cur: count(&app["cur"]),
            fair: count(&app["fair"]),
            want: count(&app["want"]),
            norm_eff: app["norm_eff"].as_f64(),
            margin: 0.0,
            spare: count(&app["spare"]),
        })
        .collect();
    let held: u32 = bidders.iter().map(|b| b.cur).sum();
    let free = count(&inputs["contexts"]).saturating_sub(held);
    let result = stealing::round(free, &bidders, Passes::All { budget: u32::MAX });
    round(&result, &names, free_pool(&case["expect"], &names))
}

fn explore(case: &Value) -> Value {
    let inputs = &case["inputs"];
    let table = curve(&inputs["table"]);
    let perf = number(&inputs["perf"]);
    let best = table.points().iter().map(|p| p.perf).fold(perf, f64::max);
    let (prev, cpus) = (count(&inputs["prev_k"]), count(&inputs["k"]));
    let judged = exploration::judge_plain(&PlainTrial {
        prev_cpus: prev,
        prev_perf: number(&inputs["prev_perf"]),
        cpus,
        perf,
        best,
        min_guaranteed: inputs["min_guaranteed"].as_f64(),
        threshold: number(&inputs["threshold"]),
    });
    let expected = case["expect"]["verdict"].as_str().unwrap();
    let (verdict, cores) = match judged.verdict {
        Verdict::Continue => ("continue", cpus),
        // The one name of a verdict that the example file does not show.
        Verdict::Keep if expected.starts_with("keep") => (expected, cpus),
        Verdict::Keep => ("keep_steady", cpus),
        Verdict::Revert => ("revert_steady", prev),
        Verdict::Undecided => ("undecided", cpus),
    };
    json!({ "verdict": verdict, "cores": cores })
}

fn qos(case: &Value) -> Value {
    let inputs = &case["inputs"];
    json!(metrics::promise_broken(
        number(&inputs["perf"]),
        number(&inputs["min_guaranteed"]),
        number(&inputs["tolerance"]),
    ))
}

fn phase_change(case: &Value) -> Value {
    let inputs = &case["inputs"];
    let before = PhaseReading {
        performance: number(&inputs["prev_perf"]),
        cpus: count(&inputs["prev_cores"]),
        bottleneck: bottleneck(&inputs["prev_bottleneck"]),
    };
    let now = PhaseReading {
        performance: number(&inputs["perf"]),
        cpus: count(&inputs["cores"]),
        bottleneck: bottleneck(&inputs["bottleneck"]),
    };
    let threshold = inputs["threshold"].as_f64().unwrap_or(0.05);
    json!(phase::plain(&before, &now, threshold) == PhaseChange::Changed)
}

fn member_change(case: &Value) -> Value {
    let inputs = &case["inputs"];
    let contexts = count(&inputs["contexts"]);
    let held = inputs["cur"].as_object().unwrap();
    let weight = |name: &str| inputs["weights"][name].as_f64().unwrap_or(1.0);
    let mut names: Vec<String> = held.keys().cloned().collect();
    let arrives = case["event"].as_str().unwrap().starts_with("arriv");
    if arrives {
        names.push(inputs["new"].as_str().unwrap().to_owned());
    } else {
        // Whoever leaves is the one application that is named outside the tables.
        let gone: Vec<&str> = inputs
            .as_object()
            .unwrap()
            .values()
            .filter_map(Value::as_str)
            .collect();
        names.retain(|n| !gone.contains(&n.as_str()));
    }
    let members: Vec<Member> = names
        .iter()
        .map(|name| Member {
            cpus: held.get(name).map_or(0, count),
            weight: weight(name),
        })
        .collect();
    let min = inputs["min_contexts"].as_u64().unwrap_or(1) as u32;
    let outcome = if arrives {
        membership::arrival(contexts, &members, min)
    } else {
        membership::departure(contexts, &members, min)
    };
    let fair: Map<String, Value> = names
        .iter()
        .zip(&outcome.fair.shares)
        .map(|(name, share)| (name.clone(), json!(share)))
        .collect();
    let mut result = round(&outcome.round, &names, free_pool(&case["expect"], &names));
    result["fair"] = Value::Object(fair);
    result
}

fn step(case: &Value) -> Value {
    let inputs = &case["inputs"];
    let granularity = count(&inputs["granularity"]);
    let stride = if inputs["coherence_heavy"].as_bool() == Some(true) {
        Stride::Sockets {
            cpus_per_socket: count(&inputs["contexts_per_socket"]),
            below: granularity,
        }
    } else {
        Stride::Cpus(granularity)
    };
    json!(exploration::step(
        count(&inputs["cur"]),
        direction(&inputs["direction"]),
        stride,
        count(&inputs["contexts"]),
    ))
}

fn towards(case: &Value) -> Value {
    let inputs = &case["inputs"];
    let direction = exploration::direction(
        bottleneck(&inputs["bottleneck"]),
        count(&inputs["cur"]),
        count(&inputs["contexts_per_socket"]),
    );
    json!(match direction {
        Direction::Fewer => -1,
        Direction::Stay => 0,
        Direction::More => 1,
    })
}

/// Runs one application alone under the printed rules and returns rows of interval, count,
/// performance, state and next count.
fn trace(case: &Value) -> Vec<(u32, f64, String, u32)> {
    let inputs = &case["inputs"];
    let known = curve(&inputs["curve"]);
    let (contexts, socket) = (count(&inputs["contexts"]), count(&inputs["socket"]));
    let topology = Topology::regular(Shape {
        sockets: (contexts / socket).max(1),
        cores_per_socket: socket,
        threads_per_core: 1,
    });
    let mut policy = Mapper::new(AllocationConfig {
        initial_intervals: 0,
        step: Some(count(&inputs["granularity"])),
        reexplore_every: inputs["reexplore_every"].as_u64().map(|n| n as u32),
        ..AllocationConfig::paper()
    });
    let spec = AppSpec::named(AppName::new("app").unwrap());
    let mut profile = Profile::unknown(AppId(1));
    profile.bottleneck = bottleneck(&inputs["bottleneck"]);
    let machine = MachineProfile::default();
    let usable = CpuSet::first(contexts);
    let mut held = CpuSet::new();
    let mut rows = Vec::new();
    for tick in 0..=case["expect"].as_array().unwrap().len() as u64 {
        let cpus = held.len();
        let performance = if cpus == 0 {
            0.0
        } else {
            metrics::interpolated(&known, cpus, PointValue::LastTwo)
                .unwrap_or_else(|| panic!("the curve tells nothing of {cpus} CPUs"))
        };
        if cpus > 0 {
            profile.curve.record(cpus, performance, tick, 1.0);
            profile.measured_cpus = cpus;
            profile.performance = Some(Performance {
                value: performance,
                source: PerformanceSource::Ipc,
            });
        }
        let apps = [AppView {
            app: AppId(1),
            spec: &spec,
            profile: &profile,
            held: &held,
        }];
        let allocation = policy.allocate(&Snapshot {
            tick,
            now_ns: tick,
            trigger: if cpus == 0 {
                Trigger::Membership
            } else {
                Trigger::Interval
            },
            topology: &topology,
            usable: &usable,
            machine: &machine,
            apps: &apps,
        });
        let share = &allocation.shares[0];
        if cpus > 0 {
            rows.push((cpus, performance, share.state.clone(), share.cpus));
        }
        held = CpuSet::first(share.cpus);
    }
    rows
}

fn traced(case: &Value) -> Outcome {
    let rows = trace(case);
    let last = case["expect"].as_array().unwrap().last().unwrap();
    outcome(&id(case, "trace"), &last[4], &json!(rows.last().unwrap().3))
}

fn sharing(case: &Value) -> Outcome {
    let example = &case["example"];
    let (contexts, apps) = (count(&example["C"]), count(&example["A"]));
    let slots: Vec<u32> = (0..apps)
        .map(|place| shares::slot(place, contexts))
        .collect();
    outcome(
        "more_apps_than_contexts",
        &example["app_to_context"],
        &json!(slots),
    )
}

fn history(case: &Value) -> Outcome {
    let mut curve = PerformanceCurve::new();
    let means: Vec<f64> = case["inputs"]["samples"]
        .as_array()
        .unwrap()
        .iter()
        .map(|sample| {
            curve.record(1, number(sample), 0, 1.0);
            curve.at(1).unwrap().perf
        })
        .collect();
    outcome("history", &case["expect"], &json!(means))
}

/// Runs every case of the file.
fn run(file: &Value) -> Vec<Outcome> {
    let sections: [(&str, Answer); 8] = [
        ("fair", fair),
        ("metrics", metrics),
        ("steal", steal),
        ("explore", explore),
        ("qos", qos),
        ("phase", phase_change),
        ("membership", member_change),
        ("step", step),
    ];
    let mut outcomes = Vec::new();
    for (section, compute) in sections {
        for case in cases(file, section) {
            outcomes.push(outcome(&id(case, section), &case["expect"], &compute(case)));
        }
    }
    for case in cases(file, "direction") {
        outcomes.push(outcome("direction", &case["expect"], &towards(case)));
    }
    outcomes.extend(cases(file, "trace").map(traced));
    outcomes.extend(file.get("more_apps_than_contexts").map(sharing));
    outcomes.extend(file.get("history").map(history));
    outcomes
}

fn file() -> Value {
    serde_json::from_str(include_str!("../../../tests/vectors/mapper_alloc.json")).unwrap()
}

#[test]
fn the_worked_numbers_are_reproduced() {
    let outcomes = run(&file());
    for outcome in &outcomes {
        assert_eq!(outcome.difference, None, "{}", outcome.case);
    }
    assert_eq!(
        outcomes.len(),
        3 + 5 + 4 + 3 + 2 + 2 + 1 + 4 + 2 + 1 + 1 + 1
    );
}

#[test]
fn the_printed_trace_is_reproduced_interval_by_interval() {
    assert_eq!(NAME, "mapper");
    let file = file();
    for case in cases(&file, "trace") {
        for ((cpus, perf, state, next), row) in
            trace(case).iter().zip(case["expect"].as_array().unwrap())
        {
            assert!(
                same(&json!([row[0], cpus, perf, state, next]), row),
                "{row}: {cpus} {perf} {state} {next}"
            );
        }
    }
}
