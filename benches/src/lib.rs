//! Benchmarks of the decision core: the situations that they are taken in.
//!
//! A [`World`] is a machine with applications whose threads have hardware counters, governed by a
//! [`Controller`] in a closed loop. The applications scale and behave differently from each other,
//! so that every part of a decision has work to do. Nothing is random but a reproducible scatter of
//! two per cent.

use mapper_model::topology::Shape;
use mapper_model::{
    Allocation, AppId, AppName, AppObservation, AppSpec, AppView, CounterValue, Counters, CpuSet,
    Event, Observation, Placing, Plan, Profile, Reading, Snapshot, ThreadId, ThreadReading,
    Topology, Trigger,
};
use mapper_pipeline::{Controller, PipelineConfig};
use std::hint::black_box;
use std::time::{Duration, Instant};

const SECOND_NS: u64 = 1_000_000_000;
const CLOCK_HZ: f64 = 1.9e9;

/// How an application behaves, per thread at full speed.
struct Behaviour {
    /// Parts of the work that cannot be done in parallel.
    serial: f64,
    ipc: f64,
    coherence_per_cycle: f64,
    llc_misses_per_cycle: f64,
    stalls_per_coherence: f64,
}

const BEHAVIOURS: [Behaviour; 4] = [
    // Scales, computes.
    Behaviour {
        serial: 0.0,
        ipc: 1.4,
        coherence_per_cycle: 0.0,
        llc_misses_per_cycle: 1e-4,
        stalls_per_coherence: 0.0,
    },
    // Shares much.
    Behaviour {
        serial: 0.05,
        ipc: 0.6,
        coherence_per_cycle: 1.2e-3,
        llc_misses_per_cycle: 1e-3,
        stalls_per_coherence: 420.0,
    },
    // Streams.
    Behaviour {
        serial: 0.1,
        ipc: 0.4,
        coherence_per_cycle: 0.0,
        llc_misses_per_cycle: 0.03,
        stalls_per_coherence: 0.0,
    },
    // Shares some, and is busy.
    Behaviour {
        serial: 0.02,
        ipc: 1.1,
        coherence_per_cycle: 4e-4,
        llc_misses_per_cycle: 1e-4,
        stalls_per_coherence: 300.0,
    },
];

/// A machine with applications. See the [crate].
#[derive(Debug)]
pub struct World {
    controller: Controller,
    observation: Observation,
    plan: Plan,
    noise: u64,
}

impl World {
    /// `apps` applications of `threads` threads each on a machine of `cpus` CPUs in up to eight
    /// sockets, with two threads per core.
    ///
    /// # Panics
    /// When a policy does not exist.
    #[must_use]
    pub fn new(allocation: &str, mapping: &str, cpus: u32, apps: u32, threads: u32) -> Self {
        let sockets = (cpus / 16).clamp(1, 8).next_power_of_two().min(8);
        let sockets = if cpus == 80 { 4 } else { sockets };
        let topology = Topology::regular(Shape {
            sockets,
            cores_per_socket: cpus / sockets / 2,
            threads_per_core: 2,
        });
        let config = PipelineConfig {
            allocation: allocation.into(),
            mapping: mapping.into(),
            ..PipelineConfig::default()
        };
        let usable = topology.cpus().clone();
        let controller = match Controller::new(config, topology) {
            Ok(controller) => controller,
            Err(error) => panic!("{error}"),
        };
        let apps = (0..apps).map(|app| AppObservation {
            app: AppId(u64::from(app) + 1),
            spec: AppSpec::named(AppName::from_lossy(&format!("app{app}"))),
            effective: CpuSet::new(),
            allowed: None,
            fixed: None,
            reading: Reading {
                threads: (0..threads)
                    .map(|thread| ThreadReading {
                        tid: ThreadId(app * threads + thread + 1000),
                        started: 1,
                        counters: Counters::default(),
                    })
                    .collect(),
                cpu_time_ns: Some(0),
                ..Reading::default()
            },
        });
        let observation = Observation {
            tick: 0,
            now_ns: 10 * SECOND_NS,
            trigger: Trigger::Membership,
            usable,
            apps: apps.collect(),
        };
        let mut world = Self {
            controller,
            observation,
            plan: Plan::default(),
            noise: 1,
        };
        world.step();
        world
    }

    /// Lets an interval pass and takes a decision; returns how long the decision took.
    pub fn step(&mut self) -> Duration {
        self.observation.tick += 1;
        if self.observation.tick > 1 {
            self.observation.trigger = Trigger::Interval;
            self.observation.now_ns += SECOND_NS;
            self.run();
        }
        let begin = Instant::now();
        let plan = black_box(self.controller.step(black_box(&self.observation)));
        let taken = begin.elapsed();
        for action in &plan.actions {
            let apps = &mut self.observation.apps;
            if let Some(app) = apps.iter_mut().find(|a| a.app == action.app()) {
                app.effective.clone_from(action.to());
            }
        }
        self.plan = plan;
        taken
    }

    /// The counters of one interval.
    fn run(&mut self) {
        for (number, app) in self.observation.apps.iter_mut().enumerate() {
            let b = &BEHAVIOURS[number % BEHAVIOURS.len()];
            let cpus = f64::from(app.effective.len().max(1));
            let threads = app.reading.threads.len() as f64;
            let running = (cpus / threads).min(1.0);
            let speed = 1.0 / (b.serial * cpus + (1.0 - b.serial));
            let used_ns = (SECOND_NS as f64 * running * threads) as u64;
            app.reading.cpu_time_ns = app.reading.cpu_time_ns.map(|before| before + used_ns);
            for thread in &mut app.reading.threads {
                self.noise = self.noise.wrapping_mul(6_364_136_223_846_793_005) + 1;
                let scatter = 0.98 + 0.04 * ((self.noise >> 11) as f64 / (1u64 << 53) as f64);
                let cycles = CLOCK_HZ * running;
                let coherence = cycles * b.coherence_per_cycle;
                for (event, count) in [
                    (Event::Cycles, cycles),
                    (Event::Instructions, cycles * b.ipc * speed * scatter),
                    (Event::LlcMisses, cycles * b.llc_misses_per_cycle * scatter),
                    (Event::SnoopHit, coherence * 0.2),
                    (Event::SnoopHitModified, coherence * 0.2),
                    (Event::RemoteHitModified, coherence * 0.6),
                    (Event::L2PendingStalls, coherence * b.stalls_per_coherence),
                ] {
                    let before = thread.counters.get(event).unwrap_or_default();
                    let enabled = (SECOND_NS as f64 * running) as u64;
                    thread.counters.set(
                        event,
                        CounterValue {
                            value: before.value + (count / 2.0) as u64,
                            enabled_ns: before.enabled_ns + enabled,
                            running_ns: before.running_ns + enabled / 2,
                        },
                    );
                }
            }
        }
    }

    /// Shows the present situation to a placement policy: the last plan's shares, placed again.
    pub fn with_snapshot(&self, look: impl FnOnce(&Snapshot<'_>, &Allocation)) {
        let unknown: Vec<Profile> = self
            .observation
            .apps
            .iter()
            .map(|a| Profile::unknown(a.app))
            .collect();
        let views: Vec<AppView<'_>> = self
            .observation
            .apps
            .iter()
            .zip(&unknown)
            .map(|(app, unknown)| AppView {
                app: app.app,
                spec: &app.spec,
                profile: self.controller.profile(app.app).unwrap_or(unknown),
                held: &app.effective,
                allowed: None,
            })
            .collect();
        let config = self.controller.config();
        let snapshot = Snapshot {
            tick: self.observation.tick,
            now_ns: self.observation.now_ns,
            trigger: Trigger::Interval,
            topology: self.controller.topology(),
            usable: &self.observation.usable,
            machine: &config.machine,
            apps: &views,
        };
        let allocation = Allocation {
            shares: self.plan.apps.iter().map(|a| a.share.clone()).collect(),
            transfers: Vec::new(),
            free: self.plan.free.len(),
            placing: Placing::default(),
        };
        look(&snapshot, &allocation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_situations_that_are_timed_are_alive() {
        let mut world = World::new("mapper", "sam_mph", 80, 4, 20);
        let mut moves = 0;
        for _ in 0..40 {
            world.step();
            moves += world.plan.actions.len();
        }
        assert!(moves > 4, "nothing was decided");
        let text = (1..=4).filter_map(|app| world.controller.explain(AppId(app)));
        assert!(text.clone().all(|t| t.performance.is_some()));
        assert!(
            text.clone()
                .any(|t| t.class == mapper_model::SharingClass::High)
        );
    }
}
