//! The file `sam_mapping.json`: SAM-MPH's history and placement, MAPPER's order and residency.
//!
//! Placements are checked by what must hold of them, not by CPU numbers: each expected statement is
//! compared with the statement that is true of the placement made.

use super::case::{Answered, Group, against_expect, field, inputs};
use super::compare::Tolerance;
use anyhow::{Context as _, bail, ensure};
use mapper_characterise::history::{HistoryRules, SharingHistory, SharingSample, Strictness};
use mapper_characterise::{Contender, mapping_order};
use mapper_model::topology::Shape;
use mapper_model::{
    Allocation, AppId, AppName, AppSpec, AppView, Bottleneck, CpuSet, Explanation, MachineProfile,
    Placement, Profile, Share, Sharing, SharingClass, Snapshot, Topology, Trigger,
};
use mapper_placement::order::{Traits, priority};
use mapper_placement::{PlacementConfig, residency};
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) const GROUPS: &[Group] = &[
    group("placement", answer_placement),
    group("history", answer_history),
    group("order", answer_order),
    group("mapper_residency", answer_residency),
    group("mapper_sort", answer_sort),
];

const fn group(key: &'static str, answer: super::case::Answer) -> Group {
    Group {
        key,
        answer,
        tolerance: Tolerance::MODEL,
    }
}

/// An application as the file describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct App {
    name: String,
    #[serde(rename = "n")]
    cpus: u32,
    cls: SharingClass,
    spc: Option<f64>,
    ipc: Option<f64>,
    /// Bound by memory bandwidth.
    #[serde(default)]
    mem: bool,
    /// Its bandwidth.
    #[serde(default)]
    bw: f64,
}

impl App {
    fn profile(&self, id: AppId, machine: &MachineProfile) -> Profile {
        let ipc_high = self.ipc.is_some_and(|ipc| ipc > machine.ipc_high);
        let (bottleneck, severity) = match self.cls {
            SharingClass::High => (Bottleneck::Sharing, 1.0),
            SharingClass::Medium if !ipc_high => (Bottleneck::Sharing, 1.0),
            _ if self.mem => (Bottleneck::Memory, self.bw),
            _ if ipc_high => (Bottleneck::Compute, self.ipc.unwrap_or(0.0)),
            _ => (Bottleneck::None, 0.0),
        };
        Profile {
            class: self.cls,
            spc: self.spc,
            ipc: self.ipc,
            ipc_high,
            bottleneck,
            severity,
            ..Profile::unknown(id)
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlacementInputs {
    sockets: u32,
    cores_per_socket: u32,
    threads_per_core: u32,
    apps: Vec<App>,
    #[serde(default)]
    residency: Map<String, Value>,
}

/// A statement about a placement.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Invariant {
    /// Everybody has as many contexts as it wants and none is given twice.
    Valid,
    /// In how many sockets an application is.
    SocketsUsed { app: String, eq: u64 },
    /// No two of the applications use the same socket.
    DistinctSockets { apps: Vec<String> },
    /// No core has more than one thread.
    NoSharingAtAll,
    /// No core has more than one thread of the application.
    NoSelfSharing { app: String },
    /// Its contexts by socket, most first.
    Counts { app: String, sorted_desc: Vec<u32> },
}

fn answer_placement(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let i: PlacementInputs = inputs(case)?;
    let topology = Topology::regular(Shape {
        sockets: i.sockets,
        cores_per_socket: i.cores_per_socket,
        threads_per_core: i.threads_per_core,
    });
    let placed = Placed {
        placement: place(&topology, &i)?,
        apps: &i.apps,
        topology: &topology,
    };
    let statements: Vec<Value> = field(case, "invariants")?;
    let mut expected = Map::new();
    let mut got = Map::new();
    for statement in statements {
        let name = statement.to_string();
        let invariant: Invariant = serde_json::from_value(statement)
            .with_context(|| format!("no check for the invariant {name}"))?;
        let (wanted, found) = placed.look(&invariant)?;
        expected.insert(name.clone(), wanted);
        got.insert(name, found);
    }
    Ok(Answered {
        expected: Value::Object(expected),
        got: Value::Object(got),
    })
}

fn place(topology: &Topology, i: &PlacementInputs) -> anyhow::Result<Placement> {
    let machine = MachineProfile::default();
    let spec = AppSpec::named(AppName::new("app")?);
    let ids = (1..).map(AppId);
    let profiles: Vec<Profile> = ids
        .zip(&i.apps)
        .map(|(id, app)| app.profile(id, &machine))
        .collect();
    let mut taken = CpuSet::new();
    let held = i
        .apps
        .iter()
        .map(|app| match i.residency.get(&app.name) {
            Some(places) => resident(topology, places, &mut taken)
                .with_context(|| format!("residency of {}", app.name)),
            None => Ok(CpuSet::new()),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let views: Vec<AppView<'_>> = profiles
        .iter()
        .zip(&held)
        .map(|(profile, held)| AppView {
            app: profile.app,
            spec: &spec,
            profile,
            held,
            allowed: None,
        })
        .collect();
    let shares = profiles.iter().zip(&i.apps).map(|(profile, app)| Share {
        app: profile.app,
        cpus: app.cpus,
        sharing: Sharing::Exclusive,
        by_node: None,
        fair: app.cpus,
        floor: None,
        spare: 0,
        norm_eff: None,
        state: String::new(),
        explanation: Explanation::default(),
    });
    let allocation = Allocation {
        shares: shares.collect(),
        ..Allocation::default()
    };
    let snapshot = Snapshot {
        tick: 1,
        now_ns: 0,
        trigger: Trigger::Interval,
        topology,
        usable: topology.cpus(),
        machine: &machine,
        apps: &views,
    };
    let policy = (mapper_placement::find("sam_mph")?.build)(&PlacementConfig::default());
    Ok(policy.place(&snapshot, &allocation))
}

/// The CPUs held: contexts on each socket, or a list of `[socket, core, thread]`.
fn resident(topology: &Topology, places: &Value, taken: &mut CpuSet) -> anyhow::Result<CpuSet> {
    let mut held = CpuSet::new();
    if let Ok(contexts) = Vec::<[u32; 3]>::deserialize(places) {
        for [socket, core, thread] in contexts {
            let on_socket = |cpu: &&CpuSet| {
                let socket_cpus = topology.sockets().get(socket as usize);
                socket_cpus.is_some_and(|s| !s.is_disjoint(cpu))
            };
            let cpus = topology.cores().iter().filter(on_socket).nth(core as usize);
            let cpu = cpus.and_then(|cpus| cpus.iter().nth(thread as usize));
            held.insert(cpu.with_context(|| format!("no context [{socket}, {core}, {thread}]"))?);
        }
    } else {
        let counts = Vec::<u32>::deserialize(places)
            .context("neither contexts on each socket nor a list of [socket, core, thread]")?;
        ensure!(
            counts.len() == topology.sockets().len(),
            "{} numbers for {} sockets",
            counts.len(),
            topology.sockets().len()
        );
        for (socket, count) in topology.sockets().iter().zip(counts) {
            held.extend(socket.difference(taken).iter().take(count as usize));
        }
    }
    taken.insert_all(&held);
    Ok(held)
}

struct Placed<'a> {
    placement: Placement,
    apps: &'a [App],
    topology: &'a Topology,
}

impl Placed<'_> {
    /// What a statement expects, and what is true.
    fn look(&self, invariant: &Invariant) -> anyhow::Result<(Value, Value)> {
        Ok(match invariant {
            Invariant::Valid => (json!(true), json!(self.valid())),
            Invariant::SocketsUsed { app, eq } => (json!(eq), json!(self.sockets(app)?.len())),
            Invariant::DistinctSockets { apps } => {
                let used = apps
                    .iter()
                    .map(|app| self.sockets(app))
                    .collect::<Result<Vec<_>, _>>()?;
                let all: usize = used.iter().map(Vec::len).sum();
                let mut distinct = used.concat();
                distinct.sort_unstable();
                distinct.dedup();
                (json!(all), json!(distinct.len()))
            }
            Invariant::NoSharingAtAll => {
                let used = |core: &&CpuSet| {
                    let apps = self.placement.apps.iter();
                    apps.map(|a| a.cpus.overlap(core)).sum::<u32>() > 1
                };
                (
                    json!(0),
                    json!(self.topology.cores().iter().filter(used).count()),
                )
            }
            Invariant::NoSelfSharing { app } => {
                let cpus = self.cpus(app)?;
                let doubled = |core: &&CpuSet| core.overlap(cpus) > 1;
                (
                    json!(0),
                    json!(self.topology.cores().iter().filter(doubled).count()),
                )
            }
            Invariant::Counts { app, sorted_desc } => {
                let cpus = self.cpus(app)?;
                let mut counts: Vec<u32> = self
                    .topology
                    .sockets()
                    .iter()
                    .map(|s| s.overlap(cpus))
                    .collect();
                counts.sort_unstable_by(|a, b| b.cmp(a));
                // Sockets without any of its contexts may be left out.
                while counts.len() > sorted_desc.len() && counts.last() == Some(&0) {
                    counts.pop();
                }
                (json!(sorted_desc), json!(counts))
            }
        })
    }

    fn valid(&self) -> bool {
        let mut taken = CpuSet::new();
        self.placement
            .apps
            .iter()
            .zip(self.apps)
            .all(|(placed, app)| {
                let own = placed.cpus.len() == app.cpus && placed.cpus.is_disjoint(&taken);
                taken.insert_all(&placed.cpus);
                own
            })
            && taken.is_subset(self.topology.cpus())
    }

    fn cpus(&self, name: &str) -> anyhow::Result<&CpuSet> {
        let place = self.apps.iter().position(|app| app.name == name);
        let Some(placed) = place.and_then(|at| self.placement.apps.get(at)) else {
            bail!("an invariant names {name}, which is not among the applications");
        };
        Ok(&placed.cpus)
    }

    fn sockets(&self, name: &str) -> anyhow::Result<Vec<usize>> {
        let cpus = self.cpus(name)?;
        let sockets = self.topology.sockets().iter().enumerate();
        Ok(sockets
            .filter(|(_, socket)| !socket.is_disjoint(cpus))
            .map(|(at, _)| at)
            .collect())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryInputs {
    intervals: Vec<Vec<f64>>,
    n: u32,
    threshold: u32,
    strict: bool,
    columns: Vec<String>,
}

fn answer_history(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let i: HistoryInputs = inputs(case)?;
    let machine = MachineProfile {
        history_intervals: i.n,
        history_threshold: i.threshold,
        ..MachineProfile::default()
    };
    let strictness = if i.strict {
        Strictness::Exceeds
    } else {
        Strictness::Reaches
    };
    let rules = HistoryRules::of(&machine, strictness);
    let column = |name: &str| {
        let at = i.columns.iter().position(|column| column == name);
        at.with_context(|| format!("inputs.columns names no {name}"))
    };
    let columns = [
        "inter_per_cycle",
        "intra_per_cycle",
        "ipc",
        "stalls",
        "inter_events",
        "instructions",
        "cycles",
    ];
    let places = columns
        .map(column)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let mut history = SharingHistory::default();
    let mut rows = Vec::new();
    for interval in &i.intervals {
        let values = places
            .iter()
            .map(|&at| {
                interval
                    .get(at)
                    .copied()
                    .context("an interval is too short")
            })
            .collect::<Result<Vec<f64>, _>>()?;
        let sample = SharingSample {
            inter_per_cycle: values[0],
            intra_per_cycle: values[1],
            ipc: values[2],
            stalls: Some(values[3]),
            inter_events: values[4],
            instructions: values[5],
            cycles: values[6],
        };
        let verdict = history.observe(&sample, &rules);
        rows.push(json!([
            verdict.class,
            verdict.ipc_high,
            verdict.spc,
            verdict.ipc
        ]));
    }
    against_expect(
        case,
        json!({"columns": ["class", "ipc_high", "spc", "ipc_cumulative"], "rows": rows}),
    )
}

fn answer_order(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let apps: Vec<App> = inputs(case)?;
    let machine = MachineProfile::default();
    let traits: Vec<Traits> = apps
        .iter()
        .map(|app| Traits::of(&app.profile(AppId(1), &machine)))
        .collect();
    let names: Vec<&str> = priority(&traits)
        .into_iter()
        .map(|at| apps[at].name.as_str())
        .collect();
    against_expect(case, json!(names))
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Strategy {
    Colocate,
    Spread,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResidencyInputs {
    strategy: Strategy,
    sockets: usize,
    contexts_per_socket: u32,
    residency: Vec<u32>,
    free: Vec<u32>,
    target: u32,
}

fn answer_residency(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let i: ResidencyInputs = inputs(case)?;
    ensure!(
        i.residency.len() == i.sockets && i.free.len() == i.sockets,
        "inputs.residency and inputs.free need {} numbers each",
        i.sockets
    );
    let mut sockets = i.residency.iter().zip(&i.free);
    ensure!(
        sockets.all(|(held, free)| held + free <= i.contexts_per_socket),
        "more contexts held and free than inputs.contexts_per_socket"
    );
    let choose = match i.strategy {
        Strategy::Colocate => residency::colocate,
        Strategy::Spread => residency::spread,
    };
    let per_socket = choose(&i.residency, &i.free, i.target);
    // The reason that the file gives is for the reader.
    let why = case["expect"]["why"].clone();
    against_expect(case, json!({"per_socket": per_socket, "why": why}))
}

#[derive(Deserialize)]
struct SortInput {
    name: String,
    bottleneck: Bottleneck,
    severity: f64,
}

fn answer_sort(_: &Value, case: &Value) -> anyhow::Result<Answered> {
    let apps: Vec<SortInput> = inputs(case)?;
    let contenders: Vec<Contender> = apps
        .iter()
        .map(|app| Contender {
            bottleneck: app.bottleneck,
            severity: app.severity,
        })
        .collect();
    let names: Vec<&str> = mapping_order(&contenders)
        .into_iter()
        .map(|at| apps[at].name.as_str())
        .collect();
    against_expect(case, json!(names))
}
