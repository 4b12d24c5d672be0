//! A machine with applications of known scaling, governed by a [`Controller`] in a closed loop:
//! every plan is checked, carried out action by action, and recorded.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses a part of it"
)]
#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

use mapper_model::random::SplitMix64;
use mapper_model::{
    Action, AppId, AppName, AppObservation, AppSpec, CpuSet, Loan, Observation, Plan, Reading,
    ReportedProgress, RuntimeProgress, Sharing, Topology, Trigger,
};
use mapper_pipeline::{Controller, Header, PipelineConfig, Severity, check, record};
use std::collections::BTreeMap;

pub const SECOND_NS: u64 = 1_000_000_000;

/// Performance at a CPU count, per second.
pub type Curve = Box<dyn Fn(u32) -> f64>;

/// An application that reports its progress.
pub struct App {
    pub id: AppId,
    pub spec: AppSpec,
    pub effective: CpuSet,
    pub curve: Curve,
    pub done: f64,
    /// CPU time used so far, if that is read.
    pub cpu_time_ns: Option<u64>,
    pub asleep: bool,
    /// The part of its CPUs that it keeps busy.
    pub busy: f64,
    /// How much of what it does on CPUs of others counts.
    pub gains: f64,
}

pub struct World {
    pub controller: Controller,
    pub usable: CpuSet,
    pub apps: Vec<App>,
    /// Relative standard deviation of what is measured.
    pub noise: f64,
    pub numbers: SplitMix64,
    /// The region that applications are seen in at a decision; 0 is not known.
    pub region: Box<dyn Fn(u64) -> u64>,
    pub tick: u64,
    pub now_ns: u64,
    /// Lines of the recording.
    pub recording: Vec<String>,
    pub last: Plan,
    next: u64,
}

pub fn config(allocation: &str, mapping: &str) -> PipelineConfig {
    PipelineConfig {
        allocation: allocation.into(),
        mapping: mapping.into(),
        ..PipelineConfig::default()
    }
}

pub fn linear() -> Curve {
    Box::new(f64::from)
}

pub fn flat(level: f64) -> Curve {
    Box::new(move |_| level)
}

pub fn amdahl(serial: f64) -> Curve {
    Box::new(move |cpus| 100.0 / (serial + (1.0 - serial) / f64::from(cpus)))
}

/// Grows to a peak and falls behind it.
pub fn peak(best: u32) -> Curve {
    Box::new(move |cpus| {
        let (k, b) = (f64::from(cpus), f64::from(best));
        if k <= b { k } else { b * (b / k).sqrt() }
    })
}

impl World {
    pub fn new(config: PipelineConfig, topology: Topology) -> Self {
        let usable = topology.cpus().clone();
        let controller = Controller::new(config, topology).unwrap();
        Self {
            recording: vec![Header::of(&controller).line().unwrap()],
            controller,
            usable,
            apps: Vec::new(),
            noise: 0.0,
            numbers: SplitMix64::new(1),
            region: Box::new(|_| 0),
            tick: 0,
            now_ns: 100 * SECOND_NS,
            last: Plan::default(),
            next: 1,
        }
    }

    pub fn arrive(&mut self, curve: Curve) -> AppId {
        self.arrive_as(curve, |_| {})
    }

    pub fn arrive_as(&mut self, curve: Curve, adjust: impl FnOnce(&mut AppSpec)) -> AppId {
        let id = AppId(self.next);
        self.next += 1;
        let mut spec = AppSpec::named(AppName::new(&format!("app{}", id.0)).unwrap());
        adjust(&mut spec);
        self.apps.push(App {
            id,
            spec,
            effective: CpuSet::new(),
            curve,
            done: 0.0,
            cpu_time_ns: None,
            asleep: false,
            busy: 1.0,
            gains: 1.0,
        });
        id
    }

    /// Several arrive together.
    pub fn start(&mut self, curves: impl IntoIterator<Item = Curve>) {
        for curve in curves {
            self.arrive(curve);
        }
        self.decide(Trigger::Membership);
    }

    pub fn leave(&mut self, id: AppId) {
        self.apps.retain(|a| a.id != id);
        self.decide(Trigger::Membership);
    }

    pub fn interval(&mut self) {
        self.now_ns += SECOND_NS;
        for app in &mut self.apps {
            let cpus = app.effective.len();
            if cpus > 0 && !app.asleep {
                let planned = self.last.apps.iter().find(|planned| planned.app == app.id);
                let more = planned.map_or(0.0, |planned| f64::from(planned.idle_time.count));
                let used = f64::from(cpus) * app.busy + 0.6 * more;
                let used_ns = (used * SECOND_NS as f64) as u64;
                app.cpu_time_ns = app.cpu_time_ns.map(|so_far| so_far + used_ns);
                let gained = 0.6 * more / f64::from(cpus) * (app.curve)(cpus);
                app.done += app.gains * gained;
                let normal = (0..12).map(|_| self.numbers.unit()).sum::<f64>() - 6.0;
                app.done += (app.busy * (app.curve)(cpus) * (1.0 + self.noise * normal)).max(0.0);
            }
        }
        self.decide(Trigger::Interval);
    }

    /// Lets intervals pass; returns in how many of them any CPU set changed.
    pub fn intervals(&mut self, count: u32) -> u32 {
        (0..count)
            .filter(|_| {
                self.interval();
                !self.last.actions.is_empty()
            })
            .count() as u32
    }

    pub fn observation(&self, trigger: Trigger) -> Observation {
        let apps = self.apps.iter().map(|app| AppObservation {
            app: app.id,
            spec: app.spec.clone(),
            effective: app.effective.clone(),
            allowed: None,
            fixed: None,
            reading: Reading {
                reported: Some(ReportedProgress::Work {
                    done: app.done,
                    at_ns: self.now_ns,
                }),
                runtime: Some((self.region)(self.tick))
                    .filter(|region| *region != 0)
                    .map(|region| RuntimeProgress {
                        region,
                        ..RuntimeProgress::default()
                    }),
                cpu_time_ns: app.cpu_time_ns,
                runnable_threads: app.cpu_time_ns.map(|_| u32::from(!app.asleep)),
                ..Reading::default()
            },
        });
        Observation {
            tick: self.tick,
            now_ns: self.now_ns,
            trigger,
            usable: self.usable.clone(),
            apps: apps.collect(),
        }
    }

    pub fn decide(&mut self, trigger: Trigger) {
        self.tick += 1;
        let observation = self.observation(trigger);
        self.decide_on(&observation);
    }

    /// Takes a decision on any observation and carries it out.
    pub fn decide_on(&mut self, observation: &Observation) {
        let plan = self.controller.step(observation);
        self.recording
            .push(record::line(observation, &plan).unwrap());
        let usable = self.controller.usable(observation);
        let findings = check(&plan, observation, &usable);
        assert!(
            findings.iter().all(|f| f.severity < Severity::Error),
            "{findings:#?}\n{plan:#?}"
        );
        for action in &plan.actions {
            if let Some(app) = self.apps.iter_mut().find(|a| a.id == action.app()) {
                app.effective.clone_from(action.to());
            }
        }
        self.last = plan;
    }

    pub fn counts(&self) -> Vec<u32> {
        self.apps.iter().map(|a| a.effective.len()).collect()
    }

    pub fn sentences(&self) -> Vec<&str> {
        self.last.apps.iter().map(|a| a.sentence.as_str()).collect()
    }
}

/// Carries out the actions of a plan one by one; panics when a CPU is promised twice on the way
/// though nobody has to jump.
pub fn assert_no_cpu_is_promised_twice(observation: &Observation, plan: &Plan) {
    let lends = plan.apps.iter().filter(|app| app.loan == Loan::Lends);
    let lends: Vec<AppId> = lends.map(|app| app.app).collect();
    let mut now: BTreeMap<AppId, CpuSet> = observation
        .apps
        .iter()
        .filter(|a| a.fixed.is_none() && !lends.contains(&a.app))
        .map(|a| (a.app, a.effective.clone()))
        .collect();
    let twice = |now: &BTreeMap<AppId, CpuSet>| {
        let mut all = CpuSet::new();
        now.values().any(|set| {
            let twice = !set.is_disjoint(&all);
            all.insert_all(set);
            twice
        })
    };
    let slots = plan
        .apps
        .iter()
        .any(|a| a.share.sharing != Sharing::Exclusive);
    let jumps = plan.actions.iter().any(|a| match a {
        Action::Set { from, to, .. } => !from.is_empty() && from.is_disjoint(to),
        Action::Shrink { .. } => false,
    });
    if twice(&now) || slots || jumps {
        return;
    }
    for action in &plan.actions {
        now.insert(action.app(), action.to().clone());
        assert!(!twice(&now), "after {action:?} of {plan:#?}");
    }
}
