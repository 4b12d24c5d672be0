//! The thresholds of a machine, drawn from what was measured.
//!
//! | threshold | rule | source |
//! |---|---|---|
//! | `clock_hz` | the nominal clock; where it is unknown, the clock while one CPU computes | MAPPER Table 1: rates per nominal cycle |
//! | `llc_misses_per_s` | 60 % of the least bandwidth of a node with its own memory, in lines of 64 bytes | MAPPER §3.4: a microbenchmark saturates the resource; the share as in the default |
//! | `sharing_medium_per_cycle` | the activity from which two threads are 5 % slower across sockets than in one | SAM-MPH Fig. 1: speedup over separate sockets |
//! | `sharing_high_per_cycle` | the activity from which two threads are no slower on one core than on two | SAM-MPH §3.2: "benefits of colocating exceed the cost of contention" |
//! | `ipc_high` | instructions per cycle of a thread alone on its core from which it loses a fifth to a second one | SAM-MPH §3.2: contention for the pipeline |
//! | `spc_same_core` | kept: stalled cycles can be counted on few processors only | SAM-MPH §3.2 |
//!
//! *Activity* is transfers of the shared line per cycle of one thread, when the two are farthest apart: half of all
//! increments, over the clock. Between two measured points the rule is met where the straight line between them, in
//! the logarithm of the activity, meets it.

use super::coherence::{self, Distance};
use super::pipeline::INSTRUCTIONS_OF_A_STEP;
use super::points::Points;
use mapper_model::MachineProfile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const LINE_BYTES: f64 = 64.0;
const BUSY_SHARE: f64 = 0.6;
const MATTERS: f64 = 1.05;
const KEPT_ON_A_SHARED_CORE: f64 = 0.8;

/// Measured thresholds, by the names that they have in the configuration; `None` where the default is kept.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// See [`MachineProfile::clock_hz`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_hz: Option<f64>,
    /// See [`MachineProfile::sharing_high_per_cycle`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing_high_per_cycle: Option<f64>,
    /// See [`MachineProfile::sharing_medium_per_cycle`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing_medium_per_cycle: Option<f64>,
    /// See [`MachineProfile::ipc_high`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipc_high: Option<f64>,
    /// See [`MachineProfile::spc_same_core`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spc_same_core: Option<f64>,
    /// See [`MachineProfile::llc_misses_per_s`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llc_misses_per_s: Option<f64>,
}

impl Thresholds {
    /// Their names.
    pub const KEYS: [&str; 6] = [
        "clock_hz",
        "sharing_high_per_cycle",
        "sharing_medium_per_cycle",
        "ipc_high",
        "spc_same_core",
        "llc_misses_per_s",
    ];

    /// In the order of [`Self::KEYS`].
    #[must_use]
    pub const fn values(&self) -> [Option<f64>; 6] {
        [
            self.clock_hz,
            self.sharing_high_per_cycle,
            self.sharing_medium_per_cycle,
            self.ipc_high,
            self.spc_same_core,
            self.llc_misses_per_s,
        ]
    }

    /// The name and value of the first that is no finite number above 0.
    #[must_use]
    pub fn first_wrong(&self) -> Option<(&'static str, f64)> {
        let set = |(key, value): (_, Option<f64>)| Some((key, value?));
        let mut set = Self::KEYS.into_iter().zip(self.values()).filter_map(set);
        set.find(|(_, value)| !value.is_finite() || *value <= 0.0)
    }

    /// The thresholds to use: the measured ones wherever `configured` has the default, else the operator's.
    #[must_use]
    pub fn applied_to(&self, configured: &MachineProfile) -> MachineProfile {
        let (mut machine, mut default) = (configured.clone(), MachineProfile::default());
        let places = places(&mut machine).into_iter().zip(places(&mut default));
        for ((place, default), measured) in places.zip(self.values()) {
            if let Some(measured) = measured.filter(|_| *place == *default) {
                *place = measured;
            }
        }
        machine
    }
}

const fn places(machine: &mut MachineProfile) -> [&mut f64; 6] {
    [
        &mut machine.clock_hz,
        &mut machine.sharing_high_per_cycle,
        &mut machine.sharing_medium_per_cycle,
        &mut machine.ipc_high,
        &mut machine.spc_same_core,
        &mut machine.llc_misses_per_s,
    ]
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Drawn {
    pub(super) machine: Thresholds,
    pub(super) how: BTreeMap<String, String>,
    pub(super) kept: BTreeMap<String, String>,
}

impl Drawn {
    fn keep(&mut self, key: &str, why: &str) {
        self.how.remove(key);
        self.kept.insert(key.to_owned(), why.to_owned());
    }
}

type Verdict = Result<(f64, String), String>;

pub(super) fn draw(points: &Points) -> Drawn {
    let mut drawn = Drawn::default();
    let mut take = |key: &str, verdict: Verdict| match verdict {
        Ok((value, how)) => {
            drawn.how.insert(key.to_owned(), how);
            Some(value)
        }
        Err(why) => {
            drawn.kept.insert(key.to_owned(), why);
            None
        }
    };
    let clock = points.nominal_hz.or(points.clock_hz).ok_or_else(|| {
        "no instruction is known that takes one cycle on every processor of this kind".to_owned()
    });
    let sharing = |rule: fn(&[coherence::Point], f64) -> Verdict| {
        clock.clone().and_then(|hz| rule(&points.coherence, hz))
    };
    let (high, medium) = (sharing(sharing_high), sharing(sharing_medium));
    let clock_hz = clock.clone().map(|hz| {
        let how = match points.nominal_hz {
            Some(_) => "nominal clock, as the kernel tells it",
            None => "chain of instructions of one cycle on one CPU; the nominal clock is not known",
        };
        (hz, how.to_owned())
    });
    let stalls = "stalled cycles for each transfer need a counter that few processors have";
    let mut machine = Thresholds {
        clock_hz: take("clock_hz", clock_hz),
        sharing_high_per_cycle: take("sharing_high_per_cycle", high),
        sharing_medium_per_cycle: take("sharing_medium_per_cycle", medium),
        ipc_high: take("ipc_high", clock.and_then(|hz| ipc_high(points, hz))),
        spc_same_core: take("spc_same_core", Err(stalls.to_owned())),
        llc_misses_per_s: take("llc_misses_per_s", llc_misses(points)),
    };
    // The two divide one scale: medium above high would leave no room for medium.
    let default = MachineProfile::default();
    let high = machine.sharing_high_per_cycle;
    let limit = high.unwrap_or(default.sharing_high_per_cycle);
    let medium = machine.sharing_medium_per_cycle;
    if medium.is_some_and(|medium| medium >= limit) {
        machine.sharing_medium_per_cycle = None;
        let why = "sockets differ only at activities that count as high";
        drawn.keep("sharing_medium_per_cycle", why);
        if high.is_some_and(|high| high <= default.sharing_medium_per_cycle) {
            machine.sharing_high_per_cycle = None;
            let why = "measured below the default of medium, which is kept";
            drawn.keep("sharing_high_per_cycle", why);
        }
    }
    drawn.machine = machine;
    drawn
}

fn llc_misses(points: &Points) -> Verdict {
    let own = points.bandwidth.iter().filter(|p| p.node == p.memory);
    let Some(least) = own.map(|point| point.bytes_per_s).reduce(f64::min) else {
        return Err("no node has both CPUs and memory".to_owned());
    };
    Ok((
        BUSY_SHARE * least / LINE_BYTES,
        format!(
            "60 % of {:.1} GB/s, which all cores of a node stream from its memory, in lines of 64 bytes",
            least / 1e9
        ),
    ))
}

/// Speeds by activity: that of `near` over that of `far` where both were measured with the same work.
fn ratios(
    points: &[coherence::Point],
    near: Distance,
    far: Distance,
    clock_hz: f64,
) -> Vec<[f64; 2]> {
    let rate = |distance, work| {
        let point = points
            .iter()
            .find(|p| p.distance == distance && p.work == work)?;
        Some(point.increments_per_s).filter(|rate| *rate > 0.0)
    };
    // Half of the increments are each thread's.
    let mut found: Vec<[f64; 2]> = coherence::WORK
        .into_iter()
        .filter_map(|work| {
            let (near, far) = (rate(near, work)?, rate(far, work)?);
            Some([far / 2.0 / clock_hz, near / far])
        })
        .collect();
    found.sort_by(|a, b| a[0].total_cmp(&b[0]));
    found
}

/// The least activity from which on the ratio stays at or above `wanted`.
fn crossing(ratios: &[[f64; 2]], wanted: f64) -> Option<f64> {
    let below = ratios.iter().rposition(|[_, ratio]| *ratio < wanted);
    let Some(below) = below else {
        return ratios.first().map(|[activity, _]| *activity);
    };
    let ([low, under], [high, over]) = (ratios[below], *ratios.get(below + 1)?);
    let share = (wanted - under) / (over - under);
    Some((low.ln() + share * (high.ln() - low.ln())).exp())
}

fn sharing_medium(points: &[coherence::Point], clock_hz: f64) -> Verdict {
    let ratios = ratios(points, Distance::Socket, Distance::Machine, clock_hz);
    if ratios.is_empty() {
        return Err("one socket, or one core in it: there is nothing to compare".to_owned());
    }
    let how =
        "transfers per cycle from which shared counters are 5 % slower across sockets than in one";
    crossing(&ratios, MATTERS)
        .map(|activity| (activity, how.to_owned()))
        .ok_or_else(|| "shared counters are not 5 % slower across sockets than in one".to_owned())
}

fn sharing_high(points: &[coherence::Point], clock_hz: f64) -> Verdict {
    // The activity is that across sockets, as that is what is counted before threads are brought together; in a
    // machine of one socket, across its cores.
    let on_core = |far| ratios(points, Distance::Core, far, clock_hz);
    let (near, far) = (on_core(Distance::Socket), on_core(Distance::Machine));
    if near.is_empty() {
        let why = "one hardware thread a core, or one core: there is nothing to compare";
        return Err(why.to_owned());
    }
    let Some(of_cores) = crossing(&near, 1.0) else {
        let why = "shared counters are slower on one core than on two at any activity";
        return Err(why.to_owned());
    };
    // From the scale of cores to that of sockets, by the same work. Without sockets there is only the first.
    let place = near.iter().position(|[activity, _]| *activity >= of_cores);
    let activity = place
        .and_then(|place| far.get(place))
        .map_or(of_cores, |[activity, _]| *activity);
    let how = "transfers per cycle from which shared counters are as fast on one core as on two";
    Ok((activity, how.to_owned()))
}

fn ipc_high(points: &Points, clock_hz: f64) -> Verdict {
    if points.pipeline.is_empty() {
        return Err("one hardware thread a core: nobody shares a pipeline".to_owned());
    }
    // By instructions per cycle: the inverse of what is left, which has to reach 1 / 0.8.
    let lost = points.pipeline.iter().filter(|p| p.shared_per_s > 0.0);
    let lost: Vec<[f64; 2]> = lost
        .map(|point| {
            let ipc = point.alone_per_s * INSTRUCTIONS_OF_A_STEP / clock_hz;
            [ipc, point.alone_per_s / point.shared_per_s]
        })
        .collect();
    let how =
        "instructions per cycle from which a thread loses a fifth to a second one on its core";
    crossing(&lost, 1.0 / KEPT_ON_A_SHARED_CORE)
        .map(|ipc| (ipc, how.to_owned()))
        .ok_or_else(|| "no thread lost a fifth of its speed to a second one on its core".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{bandwidth, pipeline};
    use super::*;
    use mapper_model::NodeId;

    const CLOCK: f64 = 2e9;

    fn shared(distance: Distance, work: usize, increments_per_s: f64) -> coherence::Point {
        coherence::Point {
            distance,
            work: coherence::WORK[work],
            increments_per_s,
        }
    }

    fn two_sockets() -> Vec<coherence::Point> {
        [
            // work, socket, machine: ratios 4, 2, 1.1, 1.0
            (0, 4e7, 1e7),
            (2, 1e7, 5e6),
            (4, 1.1e6, 1e6),
            (6, 2e5, 2e5),
        ]
        .into_iter()
        .flat_map(|(work, socket, machine)| {
            [
                shared(Distance::Socket, work, socket),
                shared(Distance::Machine, work, machine),
            ]
        })
        .collect()
    }

    #[test]
    fn sharing_is_medium_from_where_the_distance_matters() {
        // Between 2e5 and 1e6 increments/s, at the ratio half-way between 1.0 and 1.1.
        let (activity, how) = sharing_medium(&two_sockets(), CLOCK).unwrap();
        let expected = (2e5f64 * 1e6).sqrt() / 2.0 / CLOCK;
        let error = (activity / expected - 1.0).abs();
        assert!(error < 1e-9, "{activity} {expected}");
        assert!(how.contains("across sockets"));
    }

    #[test]
    fn a_rule_that_is_met_again_only_above_counts_from_there() {
        // A disturbed point: above the wanted ratio at little activity, then below, then above for good.
        let ratios = [[1e-6, 1.2], [1e-5, 1.0], [1e-4, 1.1]];
        let at = crossing(&ratios, 1.05).unwrap();
        assert!((1e-5..1e-4).contains(&at), "{at}");
        assert_eq!(crossing(&[[1e-6, 1.2], [1e-5, 1.3]], 1.05), Some(1e-6));
        assert_eq!(crossing(&[[1e-6, 1.2], [1e-5, 1.0]], 1.05), None);
        assert_eq!(crossing(&[], 1.05), None);
    }

    #[test]
    fn the_least_node_decides_about_memory() {
        let point = |node, memory, bytes_per_s| bandwidth::Point {
            node: NodeId(node),
            memory: NodeId(memory),
            threads: 4,
            bytes_per_s,
        };
        let points = Points {
            bandwidth: vec![point(0, 0, 64e9), point(0, 1, 8e9), point(1, 1, 32e9)],
            ..Points::default()
        };
        let (rate, _) = llc_misses(&points).unwrap();
        assert!((rate - 3e8).abs() < 1.0, "{rate}");
    }

    #[test]
    fn the_busy_threshold_is_what_a_second_thread_takes() {
        let point = |chains, alone_per_s, shared_per_s| pipeline::Point {
            chains,
            alone_per_s,
            shared_per_s,
        };
        let points = Points {
            // 0.5, 1.0 and 2.0 instructions a cycle; nothing, a third and half lost.
            pipeline: vec![
                point(1, 0.5e9, 0.5e9),
                point(2, 1e9, 1e9 / 1.5),
                point(4, 2e9, 1e9),
            ],
            ..Points::default()
        };
        // 1.25 is half-way between 1.0 and 1.5: the geometric mean of 0.5 and 1.0.
        let (ipc, _) = ipc_high(&points, CLOCK).unwrap();
        assert!((ipc - 0.5f64.sqrt()).abs() < 1e-9, "{ipc}");
    }

    #[test]
    fn rates_are_per_nominal_cycle_where_the_nominal_clock_is_known() {
        let drawn = draw(&Points {
            clock_hz: Some(4.1e9),
            nominal_hz: Some(2.3e9),
            ..Points::default()
        });
        assert_eq!(drawn.machine.clock_hz, Some(2.3e9));
        assert!(drawn.how["clock_hz"].contains("nominal"));
    }

    #[test]
    fn what_the_machine_has_not_keeps_its_default_with_the_reason() {
        let drawn = draw(&Points {
            clock_hz: Some(CLOCK),
            coherence: vec![shared(Distance::Socket, 0, 1e7)],
            ..Points::default()
        });
        assert_eq!(drawn.machine.clock_hz, Some(CLOCK));
        assert_eq!(drawn.how.len() + drawn.kept.len(), Thresholds::KEYS.len());
        assert!(drawn.kept["sharing_medium_per_cycle"].contains("one socket"));
        assert!(drawn.kept["ipc_high"].contains("one hardware thread"));
        let machine = drawn.machine.applied_to(&MachineProfile::default());
        assert_eq!(machine.ipc_high, MachineProfile::default().ipc_high);
        assert_eq!(machine.clock_hz, CLOCK);
    }

    #[test]
    fn what_an_operator_has_set_comes_before_what_was_measured() {
        let measured = Thresholds {
            clock_hz: Some(3e9),
            ipc_high: Some(1.5),
            ..Thresholds::default()
        };
        let configured = MachineProfile {
            clock_hz: 2.5e9,
            ..MachineProfile::default()
        };
        let used = measured.applied_to(&configured);
        assert_eq!((used.clock_hz, used.ipc_high), (2.5e9, 1.5));
    }

    #[test]
    fn medium_stays_below_high() {
        for factor in [1.0, 1e3, 1e5] {
            let mut coherence = two_sockets();
            for point in &mut coherence {
                point.increments_per_s *= factor;
            }
            let drawn = draw(&Points {
                clock_hz: Some(CLOCK),
                coherence,
                ..Points::default()
            });
            let machine = drawn.machine.applied_to(&MachineProfile::default());
            let (medium, high) = (
                machine.sharing_medium_per_cycle,
                machine.sharing_high_per_cycle,
            );
            assert!(medium < high, "{machine:?}");
        }
    }

    #[test]
    fn a_value_that_is_no_threshold_is_named() {
        let wrong = Thresholds {
            ipc_high: Some(f64::NAN),
            ..Thresholds::default()
        };
        assert_eq!(wrong.first_wrong().unwrap().0, "ipc_high");
        let zero = Thresholds {
            clock_hz: Some(0.0),
            ..Thresholds::default()
        };
        assert_eq!(zero.first_wrong(), Some(("clock_hz", 0.0)));
        assert_eq!(Thresholds::default().first_wrong(), None);
    }
}
