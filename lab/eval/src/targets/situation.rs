//! Published numbers that are states of the model rather than runs: two threads that share data, and six cores beside
//! their data or away from them.
//!
//! Each is what [`solve`] says of one situation, on the machine and with the constants and programs that the
//! evaluation has, what `--set` changes with them.

use super::super::catalogue::Catalogue;
use super::super::mix;
use super::super::run_spec::RunSpec;
use super::super::setting::Setting;
use mapper_model::CpuSet;
use mapper_sim::{AppModel, Constants, Events, Machine, Occupancy, solve};

/// The machine of the pair: SAM-MPH's with two sockets.
const PAIR_MACHINE: &str = "ivb40";
/// The program of the pair: SAM-MPH's benchmark whose threads share data and miss no cache. How much it shares is that
/// of the figure.
const PAIR: &str = "HuBench";
/// Coherence events per cycle of the pair on two sockets [SAM-MPH Fig. 1].
const EVENTS_PER_CYCLE: f64 = 1.2e-3;
/// Stalls per event at which these events would take all cycles.
const MOST_STALLS: f64 = 1.0 / EVENTS_PER_CYCLE;
/// Halvings of an interval in which a number is looked for.
const HALVINGS: u32 = 50;

/// The model that an evaluation is made in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model<'a> {
    pub(crate) constants: Constants,
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) settings: &'a [Setting],
}

/// A program on a machine, as set.
struct Situation {
    machine: Machine,
    constants: Constants,
    app: AppModel,
}

impl Situation {
    /// How fast one thread on each of these places runs: socket, core, thread. None where the machine has no such place.
    fn speed(&self, places: &[[u32; 3]]) -> Option<Events> {
        let places = places.iter().map(|place| self.machine.context_at(*place));
        let set = places.collect::<Option<CpuSet>>()?;
        let mut occupancy = Occupancy::idle(&self.machine, 1);
        occupancy.confine(&self.machine, 0, f64::from(set.len()), &set);
        let solution = solve(
            &self.machine,
            &self.constants,
            &[self.app.behaviour()],
            &occupancy,
        );
        solution.apps.first().copied()
    }
}

const TWO_SOCKETS: [[u32; 3]; 2] = [[0, 0, 0], [1, 0, 0]];
const ONE_SOCKET: [[u32; 3]; 2] = [[0, 0, 0], [0, 1, 0]];
const ONE_CORE: [[u32; 3]; 2] = [[0, 0, 0], [0, 0, 1]];

impl Model<'_> {
    /// None where the changed numbers make no machine or program of this name.
    fn situation(&self, machine: &str, app: &str) -> Option<Situation> {
        let spec = self.catalogue.machine(machine).ok()?.clone();
        let members = mix::parse(app, self.catalogue).ok()?;
        let mut spec = RunSpec::plain(machine, spec, members, self.constants);
        for setting in self.settings {
            setting.apply(&mut spec).ok()?;
        }
        Some(Situation {
            machine: Machine::new(machine, spec.machine).ok()?,
            constants: spec.constants,
            app: spec.members.pop()?.app,
        })
    }

    /// Two threads with so many stalls per event, which share as much as the figure has it: with
    /// [`EVENTS_PER_CYCLE`] on two sockets.
    fn pair(&self, stalls_per_event: f64) -> Option<Situation> {
        let mut pair = self.situation(PAIR_MACHINE, PAIR)?;
        pair.app.stalls_per_event = stalls_per_event;
        // Stalls for each instruction that is not stalled are without bound near MOST_STALLS.
        let (mut low, mut high) = (0.0, 1e6);
        for _ in 0..HALVINGS {
            pair.app.sharing_stalls = (low + high) / 2.0;
            let speed = pair.speed(&TWO_SOCKETS)?;
            if speed.inter_socket < EVENTS_PER_CYCLE * speed.cycles {
                low = pair.app.sharing_stalls;
            } else {
                high = pair.app.sharing_stalls;
            }
        }
        Some(pair)
    }

    /// Gain of a pair that shares data, from two sockets to one [SAM-MPH Fig. 1].
    pub(super) fn pair_gain(&self, stalls_per_event: f64) -> Option<f64> {
        let pair = self.pair(stalls_per_event)?;
        let of = |places| Some(pair.speed(places)?.instructions);
        Some(of(&ONE_SOCKET)? / of(&TWO_SOCKETS)?)
    }

    /// Stall cycles per event from which a pair does better on one core than on two of one socket; the most that there
    /// can be, [`MOST_STALLS`], where it never does.
    pub(super) fn same_core_from(&self) -> Option<f64> {
        let better = |stalls: f64| {
            let pair = self.pair(stalls)?;
            let of = |places| Some(pair.speed(places)?.instructions);
            Some(of(&ONE_CORE)? > of(&ONE_SOCKET)?)
        };
        let (mut low, mut high) = (1.0, 0.999 * MOST_STALLS);
        if !better(high)? {
            return Some(MOST_STALLS);
        }
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if better(middle)? {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }

    /// Streamcluster with all data on node 0: six cores there against one on each of six nodes [NuCore Fig. 2].
    pub(super) fn near_against_far(&self) -> Option<f64> {
        let situation = self.situation("opt48", "streamcluster-roi")?;
        let near = [0, 1, 2, 3, 4, 5].map(|core| [0, core, 0]);
        let far = [0, 1, 2, 3, 4, 5].map(|socket| [socket, 0, 0]);
        let of = |places: &[[u32; 3]]| Some(situation.speed(places)?.instructions);
        Some(of(&near)? / of(&far)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::examples;
    use super::*;

    /// What comes of a model with these changes.
    fn with<T>(changes: &[&str], of: impl Fn(&Model<'_>) -> T) -> T {
        let settings = changes.iter().map(|change| change.parse().unwrap());
        let settings: Vec<Setting> = settings.collect();
        of(&Model {
            settings: &settings,
            ..examples::model()
        })
    }

    fn same_core_from(model: &Model<'_>) -> Option<f64> {
        model.same_core_from()
    }

    fn pair_gain(stalls: f64, changes: &[&str]) -> f64 {
        with(changes, |model| model.pair_gain(stalls)).unwrap()
    }

    #[test]
    fn a_pair_gains_by_one_socket_what_its_share_of_stalls_says() {
        // A share of 1.2e-3·436 of all cycles is stalled, and as a line takes 64 B / 24 GB/s over the link, with
        // 250 cycles for an event, 2.3 % more on two sockets. Within one 0.32 of the share remains.
        let stalled = 1.2e-3 * 436.0;
        let way = 64.0 / 24e9 * 2.2e9 / 250.0;
        let expected = 1.0 / (1.0 - stalled * (1.0 + way) + 0.32 * stalled);
        let found = pair_gain(436.0, &[]);
        let off = (found / expected - 1.0).abs();
        assert!(off < 2e-3, "{found}, not {expected}");
        assert!(pair_gain(677.0, &[]) > found);
    }

    #[test]
    fn what_is_set_changes_what_no_run_is_needed_for() {
        // Nothing but the way over the link.
        let far = pair_gain(436.0, &["intra_socket=1"]);
        assert!((1.0..1.03).contains(&far), "{far}");
        let from = |changes: &[&str]| with(changes, same_core_from);
        let usual = from(&[]).unwrap();
        assert!((1.0..830.0).contains(&usual), "{usual}");
        assert!(from(&["within_core*=2"]).unwrap() > usual);
        assert!(from(&["app.th*=0.5"]).unwrap() < usual);
        // One core is never better.
        assert_eq!(from(&["intra_socket=0"]), Some(MOST_STALLS));
        let near =
            |changes: &[&str]| with(changes, |model| Model::near_against_far(model).unwrap());
        let usual = near(&[]);
        assert!(
            usual > 1.0,
            "cores beside the data beat cores away from them"
        );
        assert!(near(&["machine.remote_latency_s*=2"]) > usual);
    }

    #[test]
    fn a_machine_without_the_places_of_a_situation_has_no_number_for_it() {
        let changes = ["machine.threads_per_core=1"];
        assert_eq!(with(&changes, same_core_from), None);
        assert!(with(&changes, |model| model.pair_gain(436.0)).is_some());
    }
}
