//! The frame of the policies that decide by a model: profile, plan, keep the plan.
//!
//! NuPoCo, Cooperative and NuCore measure an application once and divide the CPUs as a model
//! ([`Planner`]) says is best, instead of trying. What is the same is here:
//!
//! ```text
//! arrival ──► profiling, with fair shares ──► plan ──► kept until an application comes or leaves,
//!                      ▲                                a phase or section changes, or CPUs do
//!                      └────────────────────────────────────────┘
//! ```
//!
//! Deviations from NuPoCo: a newcomer is profiled on its fair share and not on the whole machine; the
//! rates come from last-level misses alone, so stalling requests are not distinguished [readings N9].
//! Without counters every application has its fair share.

pub(crate) mod locality;
pub(crate) mod nodes;
pub(crate) mod profiled;

use crate::accounting::{self, CpuAccounting, Note};
use crate::config::{AllocationConfig, MemoryModel, ProfiledOn};
use crate::entitlement::{self, Entitlement};
use crate::fair;
use crate::policy::{AllocationPolicy, PolicyState, RestoreError};
use crate::section::Section;
use crate::table::AppTable;
use mapper_model::{
    Allocation, CpuSet, MachineProfile, NodeShare, Reason, Snapshot, Topology, Trigger,
};
use nodes::{Division, Limits, NodeCapacity, Surplus};
use profiled::{Knowledge, Measured, News, Profiled, Sampling};
use serde::{Deserialize, Serialize};
use std::error::Error;

/// The reason of a serial section.
pub(crate) const SERIAL: &str = "a serial section gets one core";
/// Bytes of a cache line.
const LINE_BYTES: f64 = 64.0;
/// Part of a node's memory bandwidth at which the machine profile's limit of misses lies.
const LIMIT_PART: f64 = 0.6;
/// How much longer a link takes for a request than a memory controller by default: 10 against 45 GB/s.
const LINK_FACTOR: f64 = 4.5;

/// An application that takes part in a plan.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Candidate {
    pub(crate) measured: Measured,
    pub(crate) section: Section,
    pub(crate) fair: u32,
    pub(crate) weight: f64,
    /// Its limits, which a model may ignore: they are applied afterwards.
    pub(crate) limits: Limits,
}

impl Candidate {
    /// Parallel sections can use CPUs beyond those a model gives them.
    pub(crate) const fn surplus(&self) -> Surplus {
        match self.section {
            Section::Parallel => Surplus::Taken,
            Section::Serial => Surplus::Declined,
        }
    }
}

/// The memory system, complete; see [`MemoryModel`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Memory {
    pub(crate) clock_hz: f64,
    pub(crate) service_cycles: f64,
    pub(crate) link_cycles: f64,
    pub(crate) local_share: Option<f64>,
    pub(crate) node_gb_per_s: f64,
    pub(crate) local_reserve: f64,
}

impl Memory {
    /// The given values, and the others from the machine profile.
    pub(crate) fn of(model: &MemoryModel, machine: &MachineProfile) -> Self {
        let requests_per_s = machine.llc_misses_per_s / LIMIT_PART;
        let positive = |value: Option<f64>, otherwise: f64| {
            value
                .filter(|v| v.is_finite() && *v > 0.0)
                .unwrap_or(otherwise)
        };
        let service_cycles = positive(
            model.service_cycles,
            positive(Some(machine.clock_hz / requests_per_s), 1.0),
        );
        Self {
            clock_hz: machine.clock_hz,
            service_cycles,
            link_cycles: positive(model.link_cycles, LINK_FACTOR * service_cycles),
            local_share: model.local_share.map(|share| share.clamp(0.0, 1.0)),
            node_gb_per_s: positive(model.node_gb_per_s, requests_per_s * LINE_BYTES * 1e-9),
            local_reserve: model.local_reserve.clamp(0.0, 1.0),
        }
    }

    /// The bandwidth of a link, one way.
    pub(crate) fn link_gb_per_s(&self) -> f64 {
        self.clock_hz / self.link_cycles * LINE_BYTES * 1e-9
    }

    /// The bandwidth that one busy CPU needs.
    pub(crate) fn gb_per_s(&self, measured: &Measured) -> f64 {
        measured.misses_per_cycle * self.clock_hz * LINE_BYTES * 1e-9
    }
}

/// The input of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) candidates: &'a [Candidate],
    pub(crate) nodes: &'a [NodeCapacity],
    /// CPUs of each last-level cache that may be given.
    pub(crate) caches: &'a [u32],
    pub(crate) memory: Memory,
}

impl Inputs<'_> {
    pub(crate) fn cpus(&self) -> u32 {
        self.nodes.iter().map(|n| n.cpus).sum()
    }
}

/// A model that divides CPUs among the applications, at least one each. With an error every
/// application has its fair share.
pub(crate) type Planner = fn(&Inputs<'_>) -> Result<Division, Box<dyn Error>>;

/// A policy that decides by a model.
#[derive(Debug)]
pub(crate) struct ModelDriven {
    name: &'static str,
    planner: Planner,
    config: AllocationConfig,
    state: State,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct State {
    apps: AppTable<Profiled>,
    usable: CpuSet,
    entitled: Vec<Entitlement>,
    decided: Option<Decided>,
}

/// A plan in force.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Decided {
    counts: Vec<u32>,
    by_node: Vec<Option<Vec<NodeShare>>>,
    rules: Vec<String>,
    state: Phase,
}

/// The basis of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    /// An application is still being measured: fair shares.
    Profiling,
    /// The model cannot be asked: fair shares.
    Fallback,
    /// The model decided.
    Planned,
}

impl ModelDriven {
    pub(crate) fn new(name: &'static str, planner: Planner, config: AllocationConfig) -> Self {
        Self {
            name,
            planner,
            config,
            state: State::default(),
        }
    }

    fn wanted(&self) -> u32 {
        self.config.initial_intervals.max(1)
    }

    /// The use of the interval that has passed.
    fn sampling(&self) -> Sampling {
        let decided = self.state.decided.as_ref().map(|decided| decided.state);
        match (self.config.memory.profiled_on, decided) {
            (ProfiledOn::FairShare, _) => Sampling::Anywhere,
            (ProfiledOn::OneCpuOfEachNode, Some(Phase::Profiling)) => Sampling::Apart,
            (ProfiledOn::OneCpuOfEachNode, _) => Sampling::NotNow,
        }
    }

    fn decide(&self, snapshot: &Snapshot<'_>, entitled: &[Entitlement]) -> Decided {
        let places: Vec<usize> = (0..entitled.len())
            .filter(|&i| !entitled[i].fixed)
            .collect();
        let knowledge: Vec<Knowledge> = places
            .iter()
            .map(|&i| self.state.apps.at(i).knowledge(self.wanted()))
            .collect();
        if knowledge.contains(&Knowledge::Blind) {
            let rule = "no last-level cache misses are counted, so there is no model: fair shares";
            return Self::fair_shares(snapshot, entitled, Phase::Fallback, rule);
        }
        let candidates: Vec<Candidate> = places
            .iter()
            .zip(&knowledge)
            .filter_map(|(&place, knowledge)| match knowledge {
                Knowledge::Known(measured) => Some(Candidate {
                    measured: measured.clone(),
                    section: self.state.apps.at(place).section(),
                    fair: entitled[place].fair,
                    weight: entitled[place].weight,
                    limits: Limits {
                        min: entitled[place].min,
                        max: entitled[place].max,
                    },
                }),
                Knowledge::Measuring | Knowledge::Blind => None,
            })
            .collect();
        if candidates.len() < places.len() {
            return self.profiling(snapshot, entitled, &places);
        }
        self.ask(snapshot, entitled, &places, &candidates)
            .unwrap_or_else(|why| {
                let rule = format!("{why}: fair shares");
                Self::fair_shares(snapshot, entitled, Phase::Fallback, &rule)
            })
    }

    fn ask(
        &self,
        snapshot: &Snapshot<'_>,
        entitled: &[Entitlement],
        places: &[usize],
        candidates: &[Candidate],
    ) -> Result<Decided, String> {
        let fixed = fixed_cpus(snapshot, entitled);
        let nodes = nodes::capacities(snapshot, &fixed);
        let open = snapshot.usable.difference(&fixed);
        let inputs = Inputs {
            candidates,
            nodes: &nodes,
            caches: &cache_capacities(snapshot.topology, &open),
            memory: Memory::of(&self.config.memory, snapshot.machine),
        };
        if inputs.cpus() < candidates.len() as u32 || open.len() != inputs.cpus() {
            return Err("too few CPUs beside those that must not be resized".to_owned());
        }
        let mut division = (self.planner)(&inputs).map_err(|error| error.to_string())?;
        if division.counts.len() != candidates.len()
            || division.counts.iter().sum::<u32>() > inputs.cpus()
        {
            return Err("the model divided more than there is".to_owned());
        }
        let limits: Vec<Limits> = candidates.iter().map(|c| c.limits).collect();
        let planned = division.counts.clone();
        division.limit(&limits, &nodes);
        let mut decided = Decided {
            counts: entitled.iter().map(|owed| owed.fair).collect(),
            by_node: vec![None; entitled.len()],
            rules: vec![String::new(); entitled.len()],
            state: Phase::Planned,
        };
        for (order, &place) in places.iter().enumerate() {
            decided.counts[place] = division.counts[order];
            decided.by_node[place] = division.node_shares(order, &nodes);
            if let Some(rule) = division.rules.get_mut(order) {
                decided.rules[place] = std::mem::take(rule);
                if division.counts[order] != planned[order] {
                    decided.rules[place]
                        .push_str("; changed to keep the limits of all applications");
                }
            }
        }
        Ok(decided)
    }

    /// The counts while an application is measured.
    fn profiling(
        &self,
        snapshot: &Snapshot<'_>,
        entitled: &[Entitlement],
        places: &[usize],
    ) -> Decided {
        let fair = |rule| Self::fair_shares(snapshot, entitled, Phase::Profiling, rule);
        let nodes = nodes::capacities(snapshot, &fixed_cpus(snapshot, entitled));
        let one_each = nodes.len() as u32;
        let fits = |&place: &usize| (entitled[place].min..=entitled[place].max).contains(&one_each);
        match self.config.memory.profiled_on {
            ProfiledOn::FairShare => fair("profiling on fair shares"),
            ProfiledOn::OneCpuOfEachNode
                if !places.iter().all(fits)
                    || nodes.iter().any(|node| (node.cpus as usize) < places.len()) =>
            {
                fair(
                    "profiling on fair shares, as not every application can have one CPU of each node",
                )
            }
            ProfiledOn::OneCpuOfEachNode => {
                let mut decided = fair("profiling on one CPU of each node");
                let shares = nodes.iter().map(|node| NodeShare {
                    node: node.id,
                    cpus: 1,
                });
                let shares: Vec<NodeShare> = shares.collect();
                for &place in places {
                    decided.counts[place] = one_each;
                    decided.by_node[place] = Some(shares.clone());
                }
                decided
            }
        }
    }

    fn fair_shares(
        snapshot: &Snapshot<'_>,
        entitled: &[Entitlement],
        state: Phase,
        rule: &str,
    ) -> Decided {
        Decided {
            counts: fair::full_shares(snapshot.usable.len(), entitled),
            by_node: vec![None; entitled.len()],
            rules: vec![rule.to_owned(); entitled.len()],
            state,
        }
    }
}

/// The CPUs of those that must not be resized.
fn fixed_cpus(snapshot: &Snapshot<'_>, entitled: &[Entitlement]) -> CpuSet {
    let mut fixed = CpuSet::new();
    for (app, _) in (snapshot.apps.iter().zip(entitled)).filter(|(_, owed)| owed.fixed) {
        fixed.insert_all(app.held);
    }
    fixed
}

/// CPUs that each last-level cache can give, without those that have none.
fn cache_capacities(topology: &Topology, open: &CpuSet) -> Vec<u32> {
    topology
        .caches()
        .iter()
        .map(|cache| cache.overlap(open))
        .filter(|cpus| *cpus > 0)
        .collect()
}

impl AllocationPolicy for ModelDriven {
    fn name(&self) -> &'static str {
        self.name
    }

    fn allocate(&mut self, snapshot: &Snapshot<'_>) -> Allocation {
        if !accounting::fits(snapshot) {
            self.state = State::default();
            return accounting::pool(snapshot);
        }
        let wanted = self.wanted();
        let changes = self
            .state
            .apps
            .sync(snapshot.apps.iter().map(|a| a.app), Profiled::default);
        let mut news = changes.changed();
        if snapshot.trigger == Trigger::Interval {
            let sampling = self.sampling();
            for (profiled, app) in self.state.apps.iter_mut().zip(snapshot.apps) {
                let here = |node: &&mapper_model::topology::Node| !node.cpus.is_disjoint(app.held);
                let nodes = snapshot.topology.nodes().iter().filter(here).count() as u32;
                news |= profiled.observe(app, nodes, wanted, sampling) == News::Something;
            }
        }
        let entitled = entitlement::entitlements(snapshot, self.config.min_cpus);
        let mut accounts = CpuAccounting::open(snapshot);
        let elsewhere =
            self.state.decided.as_ref().is_none_or(|decided| {
                decided.counts.iter().enumerate().any(|(place, count)| {
                    place >= entitled.len() || *count != accounts.count(place)
                })
            });
        if news
            || elsewhere
            || entitled != self.state.entitled
            || *snapshot.usable != self.state.usable
        {
            self.state.decided = Some(self.decide(snapshot, &entitled));
            self.state.usable = snapshot.usable.clone();
        }
        self.state.entitled = entitled;
        let Some(decided) = &self.state.decided else {
            return accounts.close(Vec::new());
        };
        accounts.settle(&decided.counts);
        let mut notes: Vec<Note> = self
            .state
            .entitled
            .iter()
            .enumerate()
            .map(|(place, owed)| {
                let usable = snapshot.usable.len();
                let begin = accounting::begin(&snapshot.apps[place], owed.fair, usable);
                let mut reasons: Vec<Reason> = begin.into_iter().collect();
                let profiled = self.state.apps.at(place);
                if owed.fixed {
                    reasons.push(Reason::NeverResized);
                } else if decided.state == Phase::Profiling
                    && profiled.knowledge(wanted) == Knowledge::Measuring
                {
                    reasons.push(Reason::Measuring {
                        done: profiled.samples(),
                        wanted,
                    });
                } else {
                    let rule = decided.rules[place].clone();
                    reasons.push(Reason::Model { rule });
                }
                Note {
                    fair: owed.fair,
                    state: match (decided.state, profiled.section()) {
                        (Phase::Profiling, _) => "profiling",
                        (Phase::Fallback, _) => "fair share",
                        (Phase::Planned, Section::Serial) => "serial",
                        (Phase::Planned, Section::Parallel) => "planned",
                    },
                    by_node: decided.by_node[place].clone(),
                    reasons,
                    ..Note::default()
                }
            })
            .collect();
        accounts.explain_transfers(&mut notes);
        accounts.close(notes)
    }

    fn save(&self) -> PolicyState {
        PolicyState::of(self.name, &self.state)
    }

    fn restore(&mut self, state: &PolicyState) -> Result<(), RestoreError> {
        self.state = state.read(self.name)?;
        Ok(())
    }
}
