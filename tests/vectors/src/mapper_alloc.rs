//! The file `mapper_alloc.json`: MAPPER's fair shares, metrics, stealing, exploration and promises.
//!
//! In a closed-loop trace the final count binds; when it is reached illustrates.

use super::case::{Answered, Group, against_expect, field, inputs};
use super::compare::Tolerance;
use anyhow::{Context as _, bail};
use mapper_allocate::efficiency::exploration::{self, Direction, PlainTrial, Stride, Verdict};
use mapper_allocate::efficiency::membership::{self, Member};
use mapper_allocate::efficiency::metrics::{self, HistoryVeto, Metrics, MetricsRules, PointValue};
use mapper_allocate::efficiency::stealing::{self, Bidder, Passes};
use mapper_allocate::mapper_paper::MapperPaper;
use mapper_allocate::{AllocationConfig, AllocationPolicy as _, shares};
use mapper_characterise::phase::{self, PhaseReading};
use mapper_model::topology::Shape;
use mapper_model::{
    AppId, AppName, AppSpec, AppView, Bottleneck, CpuSet, MachineProfile, Noise, Performance,
    PerformanceCurve, PerformanceSource, PhaseChange, Profile, Snapshot, Topology, Trigger,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(super) const GROUPS: &[Group] = &[
    group("fair", answer_fair),
    group("metrics", answer_metrics),
    group("steal", answer_steal),
    group("explore", answer_explore),
    group("qos", answer_qos),
    group("phase", answer_phase),
    group("membership", answer_membership),
    group("trace", answer_trace),
    group("more_apps_than_contexts", answer_sharing),
    group("step", answer_step),
    group("direction", answer_direction),
    group("history", answer_history),
];

const fn group(key: &'static str, answer: super::case::Answer) -> Group {
    Group {
        key,
        answer,
        tolerance: Tolerance {
            relative: 1e-9,
            absolute: 1e-9,
        },
    }
}

/// A bottleneck by the names that the file uses.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Named {
    #[serde(alias = "sharing")]
    Coherence,
    Memory,
    Compute,
    None,
}

impl From<Named> for Bottleneck {
    fn from(named: Named) -> Self {
        match named {
            Named::Coherence => Self::Sharing,
            Named::Memory => Self::Memory,
            Named::Compute => Self::Compute,
            Named::None => Self::None,
        }
    }
}

/// Performance by CPU count; keys of JSON objects are text.
fn curve(table: &BTreeMap<String, f64>) -> anyhow::Result<PerformanceCurve> {
    let points = table
        .iter()
        .map(|(cpus, perf)| {
            let cpus = cpus
                .parse::<u32>()
                .with_context(|| format!("cpu count {cpus:?}"))?;
            Ok((cpus, *perf))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(PerformanceCurve::from_points(points))
}

fn answer_fair(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    #[derive(Deserialize)]
    struct Inputs {
        contexts: u32,
        weights: Vec<f64>,
        min_contexts: u32,
    }
    let inputs: Inputs = inputs(case)?;
    let fair = shares::fair_shares(inputs.contexts, &inputs.weights, inputs.min_contexts);
    against_expect(case, json!({ "fair": fair.shares, "free": fair.free }))
}

fn answer_metrics(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    #[derive(Deserialize)]
    struct Inputs {
        perf: BTreeMap<String, f64>,
        cur: u32,
        fair: u32,
        qos: f64,
        #[serde(default)]
        history_veto: bool,
    }
    let inputs: Inputs = inputs(case)?;
    let curve = curve(&inputs.perf)?;
    let rules = MetricsRules {
        fair: inputs.fair,
        qos: inputs.qos,
        veto: if inputs.history_veto {
            HistoryVeto::Obeyed
        } else {
            HistoryVeto::Ignored
        },
        value: PointValue::LastTwo,
        noise: Noise::default(),
    };
    let metrics = Metrics::of(&curve, inputs.cur, &rules);
    let (mut eff, mut norm_eff) = (Map::new(), Map::new());
    for point in metrics::efficiencies(&curve, PointValue::LastTwo) {
        eff.insert(point.cpus.to_string(), json!(point.eff));
        norm_eff.insert(point.cpus.to_string(), json!(point.norm_eff));
    }
    // A metric that is not known may be written down as nothing or as zero.
    let written = |key: &str, value: Option<f64>| match value {
        None if case["expect"][key].as_f64() == Some(0.0) => json!(0.0),
        value => json!(value),
    };
    against_expect(
        case,
        json!({
            "eff": eff,
            "max_eff": written("max_eff", metrics.max_eff),
            "norm_eff": norm_eff,
            "known_fair": metrics.max_fair_perf.is_some(),
            "max_fair_perf": written("max_fair_perf", metrics.max_fair_perf),
            "min_guaranteed": written("min_guaranteed", metrics.min_guaranteed),
            "extra_perf": written("extra_perf", metrics.extra_perf),
            "spare_float": written("spare_float", metrics.spare_exact),
            "spare": metrics.spare,
        }),
    )
}

/// Counts and transfers of a round by name.
fn named(round: &stealing::Round, names: &[String], case: &Value) -> Value {
    let counts: Map<String, Value> = names
        .iter()
        .zip(&round.counts)
        .map(|(name, count)| (name.clone(), json!(count)))
        .collect();
    let free = free_pool(case, names);
    let transfers: Vec<Value> = round
        .moves
        .iter()
        .map(|step| {
            let from = step
                .from
                .map_or_else(|| free.clone(), |giver| json!(names[giver]));
            json!([from, names[step.to], step.cpus])
        })
        .collect();
    json!({ "alloc": counts, "transfers": transfers, "free": round.free })
}

/// What the file calls the free pool as a giver: whatever is no application's name.
fn free_pool(case: &Value, names: &[String]) -> Value {
    case["expect"]["transfers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|transfer| &transfer[0])
        .find(|giver| !names.iter().any(|name| *giver == name))
        .cloned()
        .unwrap_or_else(|| json!("free"))
}

fn answer_steal(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    #[derive(Deserialize)]
    struct Inputs {
        contexts: u32,
        apps: Vec<App>,
    }
    #[derive(Deserialize)]
    struct App {
        id: String,
        cur: u32,
        fair: u32,
        want: u32,
        norm_eff: Option<f64>,
        spare: u32,
    }
    let inputs: Inputs = inputs(case)?;
    let bidders: Vec<Bidder> = inputs
        .apps
        .iter()
        .map(|app| Bidder {
            cur: app.cur,
            fair: app.fair,
            want: app.want,
            norm_eff: app.norm_eff,
            margin: 0.0,
            scaling: None,
            spare: app.spare,
        })
        .collect();
    let held: u32 = bidders.iter().map(|b| b.cur).sum();
    let free = inputs.contexts.saturating_sub(held);
    let round = stealing::round(free, &bidders, Passes::All { budget: u32::MAX });
    let names: Vec<String> = inputs.apps.into_iter().map(|app| app.id).collect();
    against_expect(case, named(&round, &names, case))
}

fn answer_explore(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    #[derive(Deserialize)]
    struct Inputs {
        prev_k: u32,
        prev_perf: f64,
        k: u32,
        perf: f64,
        table: BTreeMap<String, f64>,
        min_guaranteed: Option<f64>,
        threshold: f64,
    }
    let inputs: Inputs = inputs(case)?;
    let judged = exploration::judge_plain(&PlainTrial {
        prev_cpus: inputs.prev_k,
        prev_perf: inputs.prev_perf,
        cpus: inputs.k,
        perf: inputs.perf,
        best: inputs.table.values().copied().fold(inputs.perf, f64::max),
        min_guaranteed: inputs.min_guaranteed,
        threshold: inputs.threshold,
    });
    let expected = case["expect"]["verdict"].as_str().unwrap_or_default();
    let (verdict, cores) = match judged.verdict {
        Verdict::Continue => ("continue", inputs.k),
        // How the kept file would name it is not shown by a case of its own.
        Verdict::Keep if expected.starts_with("keep") => (expected, inputs.k),
        Verdict::Keep => ("keep_steady", inputs.k),
        Verdict::Revert => ("revert_steady", inputs.prev_k),
        Verdict::Undecided => ("undecided", inputs.k),
    };
    against_expect(case, json!({ "verdict": verdict, "cores": cores }))
}

fn answer_qos(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    #[derive(Deserialize)]
    struct Inputs {
        perf: f64,
        min_guaranteed: f64,
        tolerance: f64,
    }
    let inputs: Inputs = inputs(case)?;
    let broken = metrics::promise_broken(inputs.perf, inputs.min_guaranteed, inputs.tolerance);
    against_expect(case, json!(broken))
}

fn answer_phase(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    #[derive(Deserialize)]
    struct Inputs {
        prev_perf: f64,
        prev_cores: u32,
        perf: f64,
        cores: u32,
        prev_bottleneck: Named,
        bottleneck: Named,
        #[serde(default = "five_per_cent")]
        threshold: f64,
    }
    fn five_per_cent() -> f64 {
        0.05
    }
    let inputs: Inputs = inputs(case)?;
    let before = PhaseReading {
        performance: inputs.prev_perf,
        cpus: inputs.prev_cores,
        bottleneck: inputs.prev_bottleneck.into(),
    };
    let now = PhaseReading {
        performance: inputs.perf,
        cpus: inputs.cores,
        bottleneck: inputs.bottleneck.into(),
    };
    let changed = phase::plain(&before, &now, inputs.threshold) == PhaseChange::Changed;
    against_expect(case, json!(changed))
}

fn answer_membership(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    #[derive(Deserialize)]
    struct Inputs {
        contexts: u32,
        cur: BTreeMap<String, u32>,
        #[serde(default)]
        weights: BTreeMap<String, f64>,
        #[serde(default = "one")]
        min_contexts: u32,
        /// Everything else; whoever comes or goes is named here.
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
    }
    fn one() -> u32 {
        1
    }
    let inputs: Inputs = inputs(case)?;
    let event: String = field(case, "event")?;
    let mut names: Vec<String> = inputs.cur.keys().cloned().collect();
    let subjects: Vec<&str> = inputs.rest.values().filter_map(Value::as_str).collect();
    let arrives = event.starts_with("arriv");
    for subject in subjects {
        if arrives && !names.iter().any(|n| n == subject) {
            names.push(subject.to_owned());
        } else if !arrives {
            names.retain(|n| n != subject);
        }
    }
    let members: Vec<Member> = names
        .iter()
        .map(|name| Member {
            cpus: inputs.cur.get(name).copied().unwrap_or(0),
            weight: inputs.weights.get(name).copied().unwrap_or(1.0),
        })
        .collect();
    let outcome = if arrives {
        membership::arrival(inputs.contexts, &members, inputs.min_contexts)
    } else {
        membership::departure(inputs.contexts, &members, inputs.min_contexts)
    };
    let mut got = named(&outcome.round, &names, case);
    let fair: Map<String, Value> = names
        .iter()
        .zip(&outcome.fair.shares)
        .map(|(name, share)| (name.clone(), json!(share)))
        .collect();
    got["fair"] = Value::Object(fair);
    against_expect(case, got)
}

/// A closed loop of one application alone.
#[derive(Deserialize)]
struct Loop {
    curve: BTreeMap<String, f64>,
    contexts: u32,
    socket: u32,
    granularity: u32,
    bottleneck: Named,
    reexplore_every: u32,
}

/// One interval of a closed loop.
#[derive(Debug, PartialEq)]
struct Row {
    cpus: u32,
    performance: f64,
    state: String,
    next: u32,
}

impl Loop {
    /// Runs it under the printed rules.
    fn run(&self, intervals: usize) -> anyhow::Result<Vec<Row>> {
        let known = curve(&self.curve)?;
        let topology = Topology::regular(Shape {
            sockets: (self.contexts / self.socket.max(1)).max(1),
            cores_per_socket: self.socket,
            threads_per_core: 1,
        });
        let mut policy = MapperPaper::new(AllocationConfig {
            initial_intervals: 0,
            step: Some(self.granularity),
            // The vectors have a period [readings R3.12].
            reexplore_every: Some(self.reexplore_every),
            ..AllocationConfig::default()
        });
        let spec = AppSpec::named(AppName::from_lossy("app"));
        let machine = MachineProfile::default();
        let usable = CpuSet::first(self.contexts);
        let mut profile = Profile::unknown(AppId(1));
        profile.bottleneck = self.bottleneck.into();
        let mut held = CpuSet::new();
        let mut rows = Vec::new();
        // The first decision is the arrival; no interval has passed.
        for tick in 0..=intervals as u64 {
            let cpus = held.len();
            let mut performance = 0.0;
            if cpus > 0 {
                performance = metrics::interpolated(&known, cpus, PointValue::LastTwo)
                    .with_context(|| format!("the curve tells nothing of {cpus} cpus"))?;
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
                allowed: None,
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
            let Some(share) = allocation.shares.first() else {
                bail!("nothing was decided");
            };
            if cpus > 0 {
                rows.push(Row {
                    cpus,
                    performance,
                    state: share.state.clone(),
                    next: share.cpus,
                });
            }
            held = CpuSet::first(share.cpus);
        }
        Ok(rows)
    }
}

fn answer_trace(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let trace: Loop = inputs(case)?;
    let rows: Vec<Value> = field(case, "expect")?;
    let last = rows.last().context("expect is empty")?;
    let got = trace.run(rows.len())?.pop().map(|row| row.next);
    Ok(Answered {
        expected: last[4].clone(),
        got: json!(got),
    })
}

fn answer_sharing(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    #[derive(Deserialize)]
    #[serde(rename_all = "UPPERCASE")]
    struct Example {
        c: u32,
        a: u32,
    }
    let example: Example = field(case, "example")?;
    let slots: Vec<u32> = (0..example.a)
        .map(|place| shares::slot(place, example.c))
        .collect();
    Ok(Answered {
        expected: case["example"]["app_to_context"].clone(),
        got: json!(slots),
    })
}

fn answer_step(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    #[derive(Deserialize)]
    struct Inputs {
        cur: u32,
        direction: i32,
        coherence_heavy: bool,
        contexts_per_socket: u32,
        granularity: u32,
        contexts: u32,
    }
    let inputs: Inputs = inputs(case)?;
    let direction = match inputs.direction.signum() {
        1 => Direction::More,
        -1 => Direction::Fewer,
        _ => Direction::Stay,
    };
    let stride = if inputs.coherence_heavy {
        Stride::Sockets {
            cpus_per_socket: inputs.contexts_per_socket,
            below: inputs.granularity,
        }
    } else {
        Stride::Cpus(inputs.granularity)
    };
    let next = exploration::step(inputs.cur, direction, stride, inputs.contexts);
    against_expect(case, json!(next))
}

fn answer_direction(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    #[derive(Deserialize)]
    struct Inputs {
        bottleneck: Named,
        cur: u32,
        contexts_per_socket: u32,
    }
    let inputs: Inputs = inputs(case)?;
    let direction = exploration::direction(
        inputs.bottleneck.into(),
        inputs.cur,
        inputs.contexts_per_socket,
    );
    let got = match direction {
        Direction::Fewer => -1,
        Direction::Stay => 0,
        Direction::More => 1,
    };
    against_expect(case, json!(got))
}

fn answer_history(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    #[derive(Deserialize)]
    struct Inputs {
        samples: Vec<f64>,
        length: u32,
    }
    let inputs: Inputs = inputs(case)?;
    if inputs.length != 2 {
        bail!(
            "inputs.length: a point keeps the mean of 2 samples, not {}",
            inputs.length
        );
    }
    let mut curve = PerformanceCurve::new();
    let means: Vec<Option<f64>> = inputs
        .samples
        .iter()
        .map(|sample| {
            curve.record(1, *sample, 0, 1.0);
            curve.at(1).map(|point| point.perf)
        })
        .collect();
    against_expect(case, json!(means))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_trace_is_reproduced_interval_by_interval() {
        let file = include_str!("../mapper_alloc.json");
        let file: Value = serde_json::from_str(file).unwrap();
        for case in file["trace"].as_array().unwrap() {
            let trace: Loop = inputs(case).unwrap();
            let rows = case["expect"].as_array().unwrap();
            for (time, (row, got)) in rows.iter().zip(trace.run(rows.len()).unwrap()).enumerate() {
                assert_eq!(
                    *row,
                    json!([time, got.cpus, got.performance, got.state, got.next])
                );
            }
        }
    }
}
