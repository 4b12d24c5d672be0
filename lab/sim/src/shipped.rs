//! MAPPER as its authors' public code decides, for comparison with the rules in the paper.
//!
//! An approximation from reading: its differences from the paper are kept, its placement is simplified to growing where
//! an application already is. Differences: the performance of an interval is divided by the time since the start, so
//! it decays; the promise is 0.75; victims are taken in order of instructions per context, whether or not they are less
//! efficient than the taker; exploration goes in a random direction, for programs that share four times in five down
//! and in steps to whole sockets; the minimum is four contexts; two applications may take from each other in one
//! interval.

use crate::counters::Counted;
use crate::governor::{Decision, Governor};
use crate::machine::Machine;
use crate::noise::Noise;
use mapper_model::{AppId, CpuId, CpuSet, Observation, Trigger};
use std::collections::BTreeMap;

const STEP: u32 = 4;
const MINIMUM: u32 = 4;
const PROMISE: f64 = 0.75;
const EXPLORES: f64 = 0.3;
/// How often exploration goes down: of programs that do not share, and of those that do.
const DOWNWARDS: [f64; 2] = [0.5, 0.8];
/// Coherence events of one kind per cycle from which a program shares: 450,000 a second at 1.9 GHz
/// [readings, SAM-MPH "Classification": the public code's threshold].
const SHARES_PER_CYCLE: f64 = 450e3 / 1.9e9;
const GAIN: f64 = 0.05;
const INITIAL: u32 = 4;

/// The policy. See the [module](self).
#[derive(Debug)]
pub struct Shipped {
    machine: Machine,
    noise: Noise,
    apps: BTreeMap<AppId, State>,
}

#[derive(Debug, Default)]
struct State {
    set: CpuSet,
    /// When it came.
    begin_ns: Option<u64>,
    last: Counted,
    shares: bool,
    intervals: u32,
    performance: f64,
    history: BTreeMap<u32, f64>,
    /// The count before the last step and the performance there.
    trying: Option<(u32, f64)>,
}

/// Whether sharing between its threads holds a program up.
fn shares(now: &Counted, last: &Counted) -> bool {
    let between = now.between_sockets - last.between_sockets;
    let events = between.max(now.within_socket - last.within_socket);
    events > SHARES_PER_CYCLE * (now.cycles - last.cycles)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// The step of a program on `held` contexts: four, or to the next whole number of sockets for one that
/// shares on more than one; below one socket it goes up to it, and down by four.
fn step(shares: bool, way: Way, held: u32, per_socket: u32) -> u32 {
    let beyond = held % per_socket;
    match way {
        _ if !shares => STEP,
        Way::Up => per_socket - beyond,
        Way::Down if held <= per_socket => STEP,
        Way::Down if beyond > 0 => beyond,
        Way::Down => per_socket,
    }
}

impl Shipped {
    /// The policy for a machine.
    pub fn new(machine: &Machine, seed: u64) -> Self {
        Self {
            machine: machine.clone(),
            noise: Noise::new(seed, 0x5111_99ED),
            apps: BTreeMap::new(),
        }
    }

    fn fair(&self) -> u32 {
        (self.machine.contexts() / self.apps.len().max(1) as u32).max(MINIMUM)
    }

    fn held(&self, id: AppId) -> u32 {
        self.apps.get(&id).map_or(0, |app| app.set.len())
    }

    /// Brings every application to the fair share, socket by socket.
    fn start_over(&mut self, ids: &[AppId], now_ns: u64) {
        self.apps.retain(|id, _| ids.contains(id));
        for id in ids {
            let app = self.apps.entry(*id);
            app.or_default().begin_ns.get_or_insert(now_ns);
        }
        let fair = self.fair();
        for id in ids {
            self.release(*id, self.held(*id).saturating_sub(fair));
        }
        for id in ids {
            let held = self.held(*id);
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
        let mut sockets = self.machine.topology().sockets().to_vec();
        if let Some(app) = self.apps.get(&id) {
            sockets.sort_by_key(|socket| std::cmp::Reverse(socket.overlap(&app.set)));
        }
        sockets
    }

    fn take_free(&mut self, id: AppId, count: u32) -> u32 {
        let free = self.free();
        let mut left = count;
        let mut taken: Vec<CpuId> = Vec::new();
        let mut sockets = self.by_residency(id);
        if self.held(id) == 0 {
            sockets.sort_by_key(|socket| std::cmp::Reverse(socket.overlap(&free)));
        }
        for socket in sockets {
            let here = socket.intersection(&free);
            let before = taken.len();
            taken.extend(here.iter().take(left as usize));
            left -= (taken.len() - before) as u32;
        }
        if let Some(app) = self.apps.get_mut(&id) {
            app.set.extend(taken);
        }
        count - left
    }

    fn release(&mut self, id: AppId, count: u32) {
        let mut left = count;
        let sockets = self.by_residency(id).into_iter().rev();
        let Some(app) = self.apps.get_mut(&id) else {
            return;
        };
        for socket in sockets {
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
        let others = self.apps.iter().filter(|(other, _)| **other != id);
        let per_context = |app: &State| app.performance / f64::from(app.set.len().max(1));
        let victims = others.map(|(other, app)| (per_context(app), *other));
        let mut victims: Vec<(f64, AppId)> = victims.collect();
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
        let (direction, tries) = (self.noise.unit(), self.noise.unit() < EXPLORES);
        let per_socket = self.machine.contexts() / self.machine.spec.sockets;
        let Some(app) = self.apps.get_mut(&id) else {
            return;
        };
        let way = match direction < DOWNWARDS[usize::from(app.shares)] {
            true => Way::Down,
            false => Way::Up,
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
        let step = step(app.shares, way, held, per_socket);
        if way == Way::Down {
            return self.release(id, step.min(held.saturating_sub(MINIMUM)));
        }
        if self.grow(id, step) == 0
            && let Some(app) = self.apps.get_mut(&id)
        {
            app.trying = None;
        }
    }
}

impl Governor for Shipped {
    fn decide(&mut self, observation: &Observation) -> Decision {
        let ids: Vec<AppId> = observation.apps.iter().map(|app| app.app).collect();
        if observation.trigger == Trigger::Membership {
            self.start_over(&ids, observation.now_ns);
        }
        for observed in &observation.apps {
            let counted = Counted::of(&observed.reading);
            if let Some(app) = self.apps.get_mut(&observed.app) {
                if observation.trigger == Trigger::Interval {
                    let since_s = (observation.now_ns - app.begin_ns.unwrap_or(0)) as f64 * 1e-9;
                    let done = counted.instructions - app.last.instructions;
                    app.performance = done / since_s.max(1e-9);
                    app.shares = shares(&counted, &app.last);
                    app.history.insert(app.set.len(), app.performance);
                    app.intervals += 1;
                }
                app.last = counted;
            }
        }
        if observation.trigger == Trigger::Interval {
            ids.iter().for_each(|id| self.explore(*id));
        }
        let sets = self.apps.iter().filter(|(_, app)| !app.set.is_empty());
        sets.map(|(id, app)| (*id, app.set.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{hsw80, set};

    fn policy(ids: &[AppId]) -> Shipped {
        let mut policy = Shipped::new(&hsw80(), 7);
        policy.start_over(ids, 0);
        policy
    }

    #[test]
    fn no_context_is_held_twice_and_no_program_has_fewer_than_four() {
        let ids = [AppId(1), AppId(2), AppId(3)];
        let mut policy = policy(&ids);
        for round in 0..200 {
            for (at, id) in ids.iter().enumerate() {
                let app = policy.apps.get_mut(id).unwrap();
                app.intervals = 10;
                app.performance = f64::from(app.set.len()).powf(0.3 * at as f64);
                app.history.insert(app.set.len(), app.performance);
                policy.explore(*id);
            }
            let held: u32 = policy.apps.values().map(|app| app.set.len()).sum();
            assert_eq!(held + policy.free().len(), 80, "round {round}");
            assert!(policy.apps.values().all(|app| app.set.len() >= MINIMUM));
        }
    }

    #[test]
    fn sharing_programs_step_to_whole_sockets_and_all_others_by_four() {
        for held in [4, 20, 27, 40] {
            assert_eq!(step(false, Way::Up, held, 20), 4);
            assert_eq!(step(false, Way::Down, held, 20), 4);
        }
        for (way, held, expected) in [
            (Way::Up, 12, 8),
            (Way::Up, 40, 20),
            (Way::Down, 27, 7),
            (Way::Down, 40, 20),
            (Way::Down, 20, 4),
        ] {
            assert_eq!(step(true, way, held, 20), expected);
        }
    }

    #[test]
    fn a_program_that_shares_explores_downwards_four_times_in_five() {
        for (shares, expected) in [(true, 0.8), (false, 0.5)] {
            let mut policy = policy(&[AppId(1)]);
            let (mut up, mut down) = (0, 0);
            for _ in 0..20_000 {
                let app = policy.apps.get_mut(&AppId(1)).unwrap();
                app.set = set("0-39");
                app.intervals = INITIAL + 1;
                app.trying = None;
                app.shares = shares;
                policy.explore(AppId(1));
                match policy.held(AppId(1)) {
                    40 => {}
                    held if held < 40 => down += 1,
                    _ => up += 1,
                }
            }
            let tried = f64::from(up + down);
            // 20,000 draws with probability 0.3, and 6000 of the direction: three standard errors.
            assert!((tried / 20_000.0 - 0.3).abs() < 0.01, "{tried}");
            let share = f64::from(down) / tried;
            assert!((share - expected).abs() < 0.02, "{shares}: {share}");
        }
    }

    #[test]
    fn either_kind_of_coherence_makes_a_program_share_from_the_threshold_on() {
        let counted = |cycles, [between_sockets, within_socket]: [f64; 2]| Counted {
            instructions: 0.0,
            cycles,
            between_sockets,
            within_socket,
        };
        let last = counted(1e9, [0.0; 2]);
        let cases = [[449e3, 449e3], [451e3, 0.0], [0.0, 451e3]];
        let found = cases.map(|events| shares(&counted(2.9e9, events), &last));
        assert_eq!(found, [false, true, true]);
    }
}
