//! A world for closed-loop tests: applications with known scaling curves on a machine, watched by
//! the real characteriser and governed by the policy under test. What an application reports is its curve
//! at the count it holds, with a reproducible scatter.

// Each test file uses a part of it.
#![allow(dead_code, unreachable_pub)]
// Helpers of tests: clippy takes only functions marked as tests for tests.
#![allow(clippy::unwrap_used)]

use mapper_allocate::{AllocationConfig, AllocationPolicy, find};
use mapper_characterise::{Characteriser, CharacteriserConfig};
use mapper_model::random::SplitMix64;
use mapper_model::topology::Shape;
use mapper_model::{
    Allocation, AppId, AppName, AppObservation, AppSpec, AppView, CounterValue, Counters, CpuId,
    CpuSet, Event, MachineProfile, MemoryTraffic, NodeTraffic, Observation, Profile, Reading,
    ReportedProgress, RuntimeProgress, SerialPhase, Sharing, Snapshot, ThreadId, ThreadReading,
    Topology, Trigger,
};

pub const SECOND: u64 = 1_000_000_000;

/// Performance by CPU count and interval.
pub type Curve = Box<dyn Fn(u32, u64) -> f64>;

pub struct App {
    pub id: AppId,
    pub spec: AppSpec,
    pub held: CpuSet,
    pub curve: Curve,
    /// What its counters show, if it is counted.
    pub counted: Option<Counted>,
    /// CPUs it says it can spare.
    pub spare: Option<u32>,
    /// Whether it says that it is serial; then it can spare all CPUs but one.
    pub serial: SerialPhase,
    /// The node where all its data are, if traffic is known by node.
    pub home: Option<u32>,
    /// Reports no progress: CPU time is all that is known of it.
    pub is_silent: bool,
    /// CPUs it keeps busy, by what it holds, if its CPU time is known.
    pub busy: Option<Curve>,
    /// Share of the time in parallel regions, if its runtime tells.
    pub parallel: Option<Curve>,
    done: f64,
    used_ns: f64,
    parallel_ns: f64,
}

/// What an application's counters show.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Last-level misses per unhalted cycle.
    pub misses_per_cycle: f64,
    /// Modified lines found in another socket per unhalted cycle.
    pub coherence_per_cycle: f64,
    /// Threads that run.
    pub threads: u32,
}

pub struct World {
    pub topology: Topology,
    pub usable: CpuSet,
    pub machine: MachineProfile,
    pub policy: Box<dyn AllocationPolicy>,
    pub characteriser: Characteriser,
    pub apps: Vec<App>,
    /// Relative standard deviation of what is measured.
    pub noise: f64,
    pub tick: u64,
    pub last: Allocation,
    now_ns: u64,
    next: u64,
    random: SplitMix64,
}

/// Roughly normal, mean 0, standard deviation 1.
pub fn normal(random: &mut SplitMix64) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

pub fn machine(sockets: u32, cores: u32, smt: u32) -> Topology {
    Topology::regular(Shape {
        sockets,
        cores_per_socket: cores,
        threads_per_core: smt,
    })
}

/// Performance proportional to CPUs.
pub fn linear() -> Curve {
    Box::new(|cpus, _| f64::from(cpus))
}

/// The same performance at every count.
pub fn flat(level: f64) -> Curve {
    Box::new(move |_, _| level)
}

/// Amdahl's law with this serial part.
pub fn amdahl(serial: f64) -> Curve {
    Box::new(move |cpus, _| 1.0 / (serial + (1.0 - serial) / f64::from(cpus)))
}

/// Readings of threads that have run since the begin of time at a billion cycles a second.
fn threads(counted: Option<Counted>, now_ns: u64) -> Vec<ThreadReading> {
    let Some(counted) = counted else {
        return Vec::new();
    };
    (1..=counted.threads)
        .map(|tid| {
            let mut counters = Counters::default();
            let misses = (now_ns as f64 * counted.misses_per_cycle) as u64;
            let coherence = (now_ns as f64 * counted.coherence_per_cycle) as u64;
            for (event, value) in [
                (Event::Cycles, now_ns),
                (Event::LlcMisses, misses),
                (Event::RemoteHitModified, coherence),
            ] {
                counters.set(
                    event,
                    CounterValue {
                        value,
                        enabled_ns: now_ns,
                        running_ns: now_ns,
                    },
                );
            }
            ThreadReading {
                tid: ThreadId(tid),
                started: 1,
                counters,
            }
        })
        .collect()
}

/// The CPUs of every node ask one node for everything, and those of other nodes for a third less.
fn traffic(topology: &Topology, home: Option<u32>, now_ns: u64) -> Vec<NodeTraffic> {
    let Some(home) = home else {
        return Vec::new();
    };
    let of = |node: &mapper_model::topology::Node| NodeTraffic {
        node: node.id,
        traffic: MemoryTraffic {
            total_bytes: Some(if node.id.0 == home { 3 } else { 2 } * now_ns),
            local_bytes: Some(if node.id.0 == home { 3 * now_ns } else { 0 }),
        },
    };
    topology.nodes().iter().map(of).collect()
}

impl World {
    pub fn new(policy: &str, topology: Topology) -> Self {
        Self::with(policy, topology, &AllocationConfig::default())
    }

    pub fn with(policy: &str, topology: Topology, config: &AllocationConfig) -> Self {
        Self {
            usable: topology.cpus().clone(),
            topology,
            machine: MachineProfile::default(),
            policy: (find(policy).unwrap().build)(config),
            characteriser: Characteriser::new(CharacteriserConfig::default()),
            apps: Vec::new(),
            noise: 0.0,
            tick: 0,
            last: Allocation::default(),
            now_ns: 100 * SECOND,
            next: 1,
            random: SplitMix64::new(1),
        }
    }

    pub fn noisy(mut self, noise: f64, seed: u64) -> Self {
        self.noise = noise;
        self.random = SplitMix64::new(seed);
        self
    }

    /// Adds an application and lets the policy decide at once.
    pub fn arrive(&mut self, curve: Curve) -> AppId {
        self.arrive_as(curve, |_| {})
    }

    /// Adds an application that is counted.
    pub fn arrive_counted(&mut self, misses_per_cycle: f64, threads: u32) -> AppId {
        let id = self.arrive(linear());
        if let Some(app) = self.apps.last_mut() {
            app.counted = Some(Counted {
                misses_per_cycle,
                coherence_per_cycle: 0.0,
                threads,
            });
        }
        id
    }

    pub fn arrive_as(&mut self, curve: Curve, adjust: impl FnOnce(&mut AppSpec)) -> AppId {
        self.arrive_with(curve, |app| adjust(&mut app.spec))
    }

    pub fn arrive_with(&mut self, curve: Curve, adjust: impl FnOnce(&mut App)) -> AppId {
        let id = AppId(self.next);
        self.next += 1;
        let mut app = App {
            id,
            spec: AppSpec::named(AppName::new(&format!("a{}", id.0)).unwrap()),
            held: CpuSet::new(),
            curve,
            counted: None,
            spare: None,
            serial: SerialPhase::None,
            home: None,
            busy: None,
            is_silent: false,
            parallel: None,
            done: 0.0,
            used_ns: 0.0,
            parallel_ns: 0.0,
        };
        adjust(&mut app);
        self.apps.push(app);
        self.decide(Trigger::Membership);
        id
    }

    /// Takes an application away and lets the policy decide at once.
    pub fn leave(&mut self, id: AppId) {
        self.apps.retain(|a| a.id != id);
        self.decide(Trigger::Membership);
    }

    /// Lets an interval pass, and the policy decide.
    pub fn interval(&mut self) {
        self.now_ns += SECOND;
        for app in &mut self.apps {
            let cpus = app.held.len();
            if cpus > 0 {
                let scatter = 1.0 + self.noise * normal(&mut self.random);
                let used = match app.serial {
                    SerialPhase::None => cpus,
                    SerialPhase::Open => 1,
                };
                app.done += ((app.curve)(used, self.tick) * scatter).max(0.0);
                if let Some(busy) = &app.busy {
                    app.used_ns += busy(cpus, self.tick) * SECOND as f64;
                }
                if let Some(parallel) = &app.parallel {
                    app.parallel_ns += parallel(cpus, self.tick) * SECOND as f64;
                }
            }
        }
        self.decide(Trigger::Interval);
    }

    /// Lets intervals pass and returns how often a count changed.
    pub fn intervals(&mut self, count: u32) -> u32 {
        let mut moves = 0;
        for _ in 0..count {
            let before = self.counts();
            self.interval();
            moves += u32::from(before != self.counts());
        }
        moves
    }

    pub fn decide(&mut self, trigger: Trigger) {
        self.tick += 1;
        let observation = Observation {
            tick: self.tick,
            now_ns: self.now_ns,
            trigger,
            usable: self.usable.clone(),
            apps: self
                .apps
                .iter()
                .map(|app| AppObservation {
                    app: app.id,
                    spec: app.spec.clone(),
                    effective: app.held.clone(),
                    allowed: None,
                    fixed: None,
                    reading: Reading {
                        threads: threads(app.counted, self.now_ns),
                        reported: (!app.is_silent).then_some(ReportedProgress::Work {
                            done: app.done,
                            at_ns: self.now_ns,
                        }),
                        runtime: app.parallel.as_ref().map(|_| RuntimeProgress {
                            parallel_ns: Some(app.parallel_ns as u64),
                            ..RuntimeProgress::default()
                        }),
                        cpu_time_ns: app.busy.as_ref().map(|_| app.used_ns as u64),
                        spare_cpus: match app.serial {
                            SerialPhase::None => app.spare,
                            SerialPhase::Open => Some(u32::MAX),
                        },
                        serial_phase: app.serial,
                        memory_by_node: traffic(&self.topology, app.home, self.now_ns),
                        ..Reading::default()
                    },
                })
                .collect(),
        };
        self.characteriser
            .observe(&observation, &self.topology, &self.machine, |_| {
                mapper_characterise::Basis::OwnCpus
            });
        let profiles: Vec<&Profile> = self.characteriser.profiles().collect();
        let views: Vec<AppView<'_>> = self
            .apps
            .iter()
            .zip(profiles)
            .map(|(app, profile)| AppView {
                app: app.id,
                spec: &app.spec,
                profile,
                held: &app.held,
                allowed: None,
            })
            .collect();
        let snapshot = Snapshot {
            tick: self.tick,
            now_ns: self.now_ns,
            trigger,
            topology: &self.topology,
            usable: &self.usable,
            machine: &self.machine,
            apps: &views,
        };
        self.last = self.policy.allocate(&snapshot);
        self.check();
        self.enforce();
    }

    /// The invariants that hold for every decision of every policy.
    fn check(&self) {
        let allocation = &self.last;
        let ids: Vec<AppId> = allocation.shares.iter().map(|s| s.app).collect();
        let expected: Vec<AppId> = self.apps.iter().map(|a| a.id).collect();
        assert_eq!(ids, expected, "one share each, in order of arrival");
        let usable = self.usable.len();
        if self.apps.len() as u32 > usable {
            for (share, place) in allocation.shares.iter().zip(0u32..) {
                assert_eq!(share.sharing, Sharing::Slot(place % usable.max(1)));
                assert_eq!(share.cpus, 1);
            }
            return;
        }
        let mut total = allocation.free;
        for share in &allocation.shares {
            assert!(share.cpus >= 1, "{share:?}");
            assert_eq!(share.sharing, Sharing::Exclusive);
            assert!(!share.explanation.reasons.is_empty(), "{share:?}");
            total += share.cpus;
            if let Some(nodes) = &share.by_node {
                assert_eq!(nodes.iter().map(|n| n.cpus).sum::<u32>(), share.cpus);
            }
        }
        assert_eq!(total, usable, "{allocation:#?}");
        for share in &allocation.shares {
            let sum = |pick: &dyn Fn(&mapper_model::Transfer) -> bool| -> i64 {
                allocation
                    .transfers
                    .iter()
                    .filter(|t| pick(t))
                    .map(|t| i64::from(t.cpus))
                    .sum()
            };
            let got = sum(&|t| t.to == Some(share.app));
            let gave = sum(&|t| t.from == Some(share.app));
            assert_eq!(
                i64::from(share.explanation.before) + got - gave,
                i64::from(share.explanation.after),
                "transfers explain every change: {allocation:#?}"
            );
        }
    }

    /// Hands out CPUs in ascending order: which ones does not matter here.
    fn enforce(&mut self) {
        let usable: Vec<CpuId> = self.usable.iter().collect();
        let mut next = 0;
        for (app, share) in self.apps.iter_mut().zip(&self.last.shares) {
            app.held = match share.sharing {
                Sharing::Slot(slot) => usable.get(slot as usize).copied().into_iter().collect(),
                Sharing::Exclusive => {
                    let end = next + share.cpus as usize;
                    let cpus = usable[next..end].iter().copied().collect();
                    next = end;
                    cpus
                }
            };
        }
    }

    pub fn counts(&self) -> Vec<u32> {
        self.apps.iter().map(|a| a.held.len()).collect()
    }

    pub fn states(&self) -> Vec<&str> {
        self.last.shares.iter().map(|s| s.state.as_str()).collect()
    }

    /// What was decided, for reading when a test fails.
    pub fn sentences(&self) -> Vec<String> {
        let name = |id: AppId| self.apps.iter().find(|a| a.id == id).map(|a| &a.spec.name);
        self.last
            .shares
            .iter()
            .map(|s| s.explanation.sentence(&name))
            .collect()
    }
}
