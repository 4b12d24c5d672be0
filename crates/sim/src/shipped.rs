//! MAPPER as its authors' public code decides, for comparison with the rules in the paper.
//!
//! An approximation from reading: what it does differently from the paper is kept (the mistakes are
//! the point), how it places threads is simplified to growing where an application already is.
//! Differences: the performance of an interval is divided by the time since the start, so that it
//! decays; the promise is 0.75; victims are taken in order of instructions per context, whether or
//! not they are less efficient than the taker; the direction of exploration is random; the minimum is
//! four contexts; nothing prevents two applications from robbing each other in one interval.

use crate::governor::{Decision, Governor, Overhead};
use crate::machine::Machine;
use crate::noise::Noise;
use mapper_model::{AppId, CpuId, CpuSet, Event, Observation, Trigger};
use std::collections::BTreeMap;

const STEP: u32 = 4;
const MINIMUM: u32 = 4;
const PROMISE: f64 = 0.75;
const EXPLORES: f64 = 0.3;
const GAIN: f64 = 0.05;
/// Intervals before an application explores.
const INITIAL: u32 = 4;

/// The policy. See the [module](self).
#[derive(Debug)]
pub struct Shipped {
    machine: Machine,
    interval_s: f64,
    overhead: Overhead,
    noise: Noise,
    apps: BTreeMap<AppId, State>,
}

#[derive(Debug)]
struct State {
    set: CpuSet,
    begin_ns: u64,
    last: f64,
    intervals: u32,
    performance: f64,
    history: BTreeMap<u32, f64>,
    /// The count before the last step and the performance there.
    trying: Option<(u32, f64)>,
}

impl Shipped {
    /// The policy for a machine.
    #[must_use]
    pub fn new(machine: &Machine, interval_s: f64, overhead: Overhead, seed: u64) -> Self {
        Self {
            machine: machine.clone(),
            interval_s,
            overhead,
            noise: Noise::new(seed, 0x5111_99ED),
            apps: BTreeMap::new(),
        }
    }

    fn fair(&self) -> u32 {
        (self.machine.contexts() / self.apps.len().max(1) as u32).max(MINIMUM)
    }

    /// Everybody at the fair share, socket by socket.
    fn start_over(&mut self, ids: &[AppId], now_ns: u64) {
        self.apps.retain(|id, _| ids.contains(id));
        for id in ids {
            self.apps.entry(*id).or_insert_with(|| State {
                set: CpuSet::new(),
                begin_ns: now_ns,
                last: 0.0,
                intervals: 0,
                performance: 0.0,
                history: BTreeMap::new(),
                trying: None,
            });
        }
        let fair = self.fair();
        for id in ids {
            let held = self.apps.get(id).map_or(0, |app| app.set.len());
            if held > fair {
                self.release(*id, held - fair);
            }
        }
        for id in ids {
            let held = self.apps.get(id).map_or(0, |app| app.set.len());
            if held < MINIMUM.min(fair) {
                self.take_free(*id, fair - held);
            }
        }
    }

    fn free(&self) -> CpuSet {
        let mut free = self.machine.topology().cpus().clone();
        for app in self.apps.values() {
            free.remove_all(&app.set);
        }
        free
    }

    /// Sockets in order of how many of their contexts an application holds.
    fn by_residency(&self, id: AppId) -> Vec<CpuSet> {
        let held = self
            .apps
            .get(&id)
            .map(|app| app.set.clone())
            .unwrap_or_default();
        let mut sockets = self.machine.topology().sockets().to_vec();
        sockets.sort_by_key(|socket| std::cmp::Reverse(socket.overlap(&held)));
        sockets
    }

    fn take_free(&mut self, id: AppId, count: u32) -> u32 {
        let free = self.free();
        let mut left = count;
        let mut taken: Vec<CpuId> = Vec::new();
        let empty = self.apps.get(&id).is_none_or(|app| app.set.is_empty());
        let mut sockets = self.by_residency(id);
        if empty {
            sockets.sort_by_key(|socket| std::cmp::Reverse(socket.overlap(&free)));
        }
        for socket in sockets {
            let here: Vec<CpuId> = socket
                .intersection(&free)
                .iter()
                .take(left as usize)
                .collect();
            left -= here.len() as u32;
            taken.extend(here);
        }
        if let Some(app) = self.apps.get_mut(&id) {
            for cpu in taken {
                app.set.insert(cpu);
            }
        }
        count - left
    }

    fn release(&mut self, id: AppId, count: u32) {
        let mut left = count;
        for socket in self.by_residency(id).into_iter().rev() {
            let Some(app) = self.apps.get_mut(&id) else {
                return;
            };
            let here: Vec<CpuId> = app.set.intersection(&socket).iter().collect();
            for cpu in here.into_iter().rev().take(left as usize) {
                app.set.remove(cpu);
                left -= 1;
            }
        }
    }

    /// Takes contexts from others until it has so many more; returns how many it got.
    fn grow(&mut self, id: AppId, count: u32) -> u32 {
        let mut got = self.take_free(id, count);
        let fair = self.fair();
        let mut victims: Vec<(f64, AppId)> = self
            .apps
            .iter()
            .filter(|(other, _)| **other != id)
            .map(|(other, app)| (app.performance / f64::from(app.set.len().max(1)), *other))
            .collect();
        victims.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, victim) in victims {
            if got >= count {
                break;
            }
            let Some(app) = self.apps.get(&victim) else {
                continue;
            };
            let held = app.set.len();
            let floor = PROMISE * app.history.get(&fair).copied().unwrap_or(0.0);
            let spare = (app.performance - floor) * f64::from(held) / app.performance.max(1e-9);
            let most = held.saturating_sub(MINIMUM).min(count - got);
            let give = (spare.max(0.0) as u32).min(most);
            if give > 0 {
                self.release(victim, give);
                got += self.take_free(id, give);
            }
        }
        got
    }

    fn explore(&mut self, id: AppId) {
        let (up, tries) = (self.noise.unit() < 0.5, self.noise.unit() < EXPLORES);
        let Some(app) = self.apps.get_mut(&id) else {
            return;
        };
        let (held, performance) = (app.set.len(), app.performance);
        if let Some((before, then)) = app.trying.take() {
            if performance < then * (1.0 + GAIN) {
                // Back to where it was.
                if held > before {
                    self.release(id, held - before);
                } else {
                    self.grow(id, before - held);
                }
            }
            return;
        }
        if app.intervals <= INITIAL || !tries {
            return;
        }
        app.trying = Some((held, performance));
        if up {
            if self.grow(id, STEP) == 0
                && let Some(app) = self.apps.get_mut(&id)
            {
                app.trying = None;
            }
        } else if held > MINIMUM {
            self.release(id, STEP.min(held - MINIMUM));
        }
    }
}

impl Governor for Shipped {
    fn interval_s(&self) -> f64 {
        self.interval_s
    }

    fn overhead(&self) -> Overhead {
        self.overhead
    }

    fn decide(&mut self, observation: &Observation) -> Decision {
        let ids: Vec<AppId> = observation.apps.iter().map(|app| app.app).collect();
        if observation.trigger == Trigger::Membership {
            self.start_over(&ids, observation.now_ns);
        }
        for observed in &observation.apps {
            let threads = observed.reading.threads.iter();
            let instructions: f64 = threads
                .filter_map(|thread| thread.counters.get(Event::Instructions))
                .map(|counter| counter.value as f64)
                .sum();
            if let Some(app) = self.apps.get_mut(&observed.app) {
                if observation.trigger == Trigger::Interval {
                    let since_s = (observation.now_ns - app.begin_ns) as f64 * 1e-9;
                    app.performance = (instructions - app.last) / since_s.max(1e-9);
                    app.history.insert(app.set.len(), app.performance);
                    app.intervals += 1;
                }
                app.last = instructions;
            }
        }
        if observation.trigger == Trigger::Interval {
            for id in &ids {
                self.explore(*id);
            }
        }
        let sets = self.apps.iter().filter(|(_, app)| !app.set.is_empty());
        Decision {
            sets: sets.map(|(id, app)| (*id, app.set.clone())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn nobody_shares_a_context_and_nobody_has_fewer_than_four() {
        let machine = presets::machine("hsw80").unwrap();
        let mut policy = Shipped::new(&machine, 1.0, Overhead::default(), 7);
        let ids = [AppId(1), AppId(2), AppId(3)];
        policy.start_over(&ids, 0);
        for round in 0..200 {
            for (at, id) in ids.iter().enumerate() {
                if let Some(app) = policy.apps.get_mut(id) {
                    app.intervals = 10;
                    app.performance = f64::from(app.set.len()).powf(0.3 * at as f64);
                    app.history.insert(app.set.len(), app.performance);
                }
                policy.explore(*id);
            }
            let held: u32 = policy.apps.values().map(|app| app.set.len()).sum();
            assert_eq!(held + policy.free().len(), 80, "round {round}");
            assert!(policy.apps.values().all(|app| app.set.len() >= MINIMUM));
        }
    }
}
