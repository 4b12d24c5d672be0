//! An application as the model knows it: what its threads do, how they synchronise, and its phases.
//!
//! The parameters are per thread and per instruction, independent of the machine. A program is a
//! cycle of a serial part and a parallel one; the lengths are shares of its running time alone on
//! the whole machine under plain Linux, which is the unit of progress: a program that has done
//! `standalone_s` seconds of that has done its work once. [`Behaviour`] is what the performance
//! function takes: the parameters of one part.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The threads for which the stall cycles of sharing are given.
const SHARING_REFERENCE_THREADS: f64 = 20.0;

/// What describes an application, as read from a file. Short names are those of the vectors.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppModel {
    /// Instructions per cycle of a thread that has its core to itself and misses nothing.
    pub ipc0: f64,
    /// By how much a busy sibling slows the core part down.
    #[serde(rename = "th")]
    pub smt_slowdown: f64,
    /// Misses per 1000 instructions when the cache has room for all, and when it has none.
    #[serde(rename = "mpki")]
    pub misses_per_kilo: [f64; 2],
    /// Working set of each thread.
    #[serde(rename = "wsp")]
    pub working_set_mb: f64,
    /// Working set that all threads share.
    #[serde(rename = "wss")]
    pub shared_set_mb: f64,
    /// Misses of a thread that overlap.
    #[serde(rename = "mlp")]
    pub overlapping_misses: f64,
    /// Share of the misses that the own node serves.
    #[serde(rename = "loc")]
    pub local_share: f64,
    /// Where the other misses go.
    #[serde(default, skip_serializing_if = "Elsewhere::is_evenly")]
    pub elsewhere: Elsewhere,
    /// All misses go to this node, whatever the local share says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_node: Option<u32>,
    /// Stall cycles per instruction for sharing, with 20 threads that are all on other sockets.
    #[serde(rename = "E")]
    pub sharing_stalls: f64,
    /// Stall cycles of one coherence event between sockets.
    #[serde(rename = "spc")]
    pub stalls_per_event: f64,
    /// How sharing grows with the number of threads: an exponent.
    #[serde(rename = "chi")]
    pub sharing_growth: f64,
    /// Serial share of the running time alone on the whole machine.
    #[serde(rename = "st")]
    pub serial_share: f64,
    /// Time between barriers on the whole machine; without it there are none.
    #[serde(rename = "tau", default, skip_serializing_if = "Option::is_none")]
    pub barrier_s: Option<f64>,
    /// Whether threads wait at barriers by spinning.
    #[serde(default)]
    pub spin: bool,
    /// Threads it starts; without it one for each context of the machine.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Share of the time a thread can run.
    #[serde(default = "one")]
    pub duty: f64,
    /// Stages joined by queues: threads wait for work, not for each other.
    #[serde(rename = "pipe", default)]
    pub pipeline: bool,
    /// Running time alone on the whole machine under plain Linux.
    #[serde(default = "default_standalone")]
    pub standalone_s: f64,
    /// Whether it is an OpenMP program, whose runtime can follow an allocation.
    #[serde(default)]
    pub openmp: bool,
    /// Equal chunks that each parallel loop is cut into, whatever the team: a team of which the
    /// count is no divisor waits for those with one chunk more [MAPPER §3.5: granularity and load
    /// balance stay as they are]. Without it loops divide evenly.
    #[serde(rename = "chunks", default, skip_serializing_if = "Option::is_none")]
    pub loop_chunks: Option<u32>,
    /// Phases of the parallel part, in order; none: it is all alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// It serves requests rather than work off a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// It reports its latency to the daemon, as a program can through the C interface. Programs of the papers do not.
    #[serde(
        rename = "reports",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub reports_latency: bool,
}

const fn one() -> f64 {
    1.0
}

const fn default_standalone() -> f64 {
    40.0
}

/// Where misses go that are not for data of a thread's own node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Elsewhere {
    /// To all other nodes alike.
    #[default]
    Evenly,
    /// To the next node, from the last one to the first: threads that hand on to their neighbours, in a
    /// ring [NuCore §4.2].
    NextNode,
    /// To this node, which holds all that is shared [NuCore §4.3.2]; its own threads find everything at
    /// home. On a machine with fewer nodes, to the last.
    Node(u32),
}

impl Elsewhere {
    const fn is_evenly(&self) -> bool {
        matches!(self, Self::Evenly)
    }

    /// The share of what is not of a socket's own node that a node serves, of so many nodes, at least two.
    fn share(self, nodes: usize, socket: usize, node: usize) -> f64 {
        let only = |chosen: usize| f64::from(u8::from(chosen == node));
        match self {
            Self::Evenly if node == socket => 0.0,
            Self::Evenly => 1.0 / (nodes - 1) as f64,
            Self::NextNode => only((socket + 1) % nodes),
            Self::Node(chosen) => only((chosen as usize).min(nodes - 1)),
        }
    }
}

/// A phase of the parallel part.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Share of the parallel part's time.
    pub share: f64,
    /// Times the stall cycles for sharing.
    #[serde(default = "one")]
    pub sharing: f64,
    /// Times the misses.
    #[serde(default = "one")]
    pub misses: f64,
    /// Instructions per cycle instead of the application's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipc0: Option<f64>,
}

/// How an application serves requests.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "metric", rename_all = "snake_case", deny_unknown_fields)]
pub enum Service {
    /// Requests arrive at random; the time that 99 of 100 do not exceed counts.
    Latency {
        /// Requests per second.
        arrivals_per_s: f64,
        /// CPU time of a request alone on the machine.
        demand_s: f64,
        /// The 99th percentile alone on the machine.
        tail_s: f64,
    },
    /// Something outside limits it to what it does alone on the machine.
    Throughput,
}

/// A description of an application that cannot be.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("application {app:?}: {what} is {value}: give {fix}")]
pub struct AppError {
    pub(crate) app: String,
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) fix: Cow<'static, str>,
}

/// The parameters of one part, as the performance function takes them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Behaviour {
    /// Cycles of an instruction on a core of its own without misses.
    pub core_cycles: f64,
    /// By how much a busy sibling slows that down.
    pub smt_slowdown: f64,
    /// Misses per instruction when the cache has room for all, and when it has none.
    pub misses: [f64; 2],
    /// Working set of each thread.
    pub working_set_mb: f64,
    /// Working set that all threads share.
    pub shared_set_mb: f64,
    /// Misses of a thread that overlap.
    pub overlapping_misses: f64,
    /// Share of the misses that the own node serves.
    pub local_share: f64,
    /// Where the other misses go.
    pub elsewhere: Elsewhere,
    /// All misses go to this node instead.
    pub home_node: Option<usize>,
    sharing_stalls: f64,
    /// Stall cycles of one coherence event between sockets.
    pub stalls_per_event: f64,
    sharing_growth: f64,
}

impl Behaviour {
    /// Share of the misses on a socket that a node serves, of so many nodes.
    #[must_use]
    pub fn share_of_misses(&self, nodes: usize, socket: usize, node: usize) -> f64 {
        match self.home_node {
            _ if nodes == 1 => 1.0,
            Some(home) => f64::from(u8::from(home.min(nodes - 1) == node)),
            None => {
                let own = if node == socket {
                    self.local_share
                } else {
                    0.0
                };
                own + (1.0 - self.local_share) * self.elsewhere.share(nodes, socket, node)
            }
        }
    }

    /// Stall cycles per instruction when this many threads share and all others are remote.
    #[must_use]
    pub fn sharing_stalls(&self, threads: f64) -> f64 {
        if threads > 1.0 && self.sharing_stalls > 0.0 {
            self.sharing_stalls * (threads / SHARING_REFERENCE_THREADS).powf(self.sharing_growth)
        } else {
            0.0
        }
    }
}

/// No number of an application is larger: with ones that no program has a run would take for ever to come to its end.
const MOST: f64 = 1e6;

impl AppModel {
    /// What holds throughout the parallel part, its phases apart.
    #[must_use]
    pub fn behaviour(&self) -> Behaviour {
        Behaviour {
            core_cycles: 1.0 / self.ipc0,
            smt_slowdown: self.smt_slowdown,
            misses: self.misses_per_kilo.map(|misses| misses / 1000.0),
            working_set_mb: self.working_set_mb,
            shared_set_mb: self.shared_set_mb,
            overlapping_misses: self.overlapping_misses,
            local_share: self.local_share,
            elsewhere: self.elsewhere,
            home_node: self.home_node.map(|node| node as usize),
            sharing_stalls: self.sharing_stalls,
            stalls_per_event: self.stalls_per_event,
            sharing_growth: self.sharing_growth,
        }
    }

    /// What holds in a phase.
    #[must_use]
    pub fn in_phase(&self, phase: &Phase) -> Behaviour {
        let mut behaviour = self.behaviour();
        behaviour.sharing_stalls *= phase.sharing;
        behaviour.misses = behaviour.misses.map(|misses| misses * phase.misses);
        if let Some(ipc0) = phase.ipc0 {
            behaviour.core_cycles = 1.0 / ipc0;
        }
        behaviour
    }

    /// Threads of a team of this size that compute, averaged over a parallel loop: the others wait
    /// for the slowest.
    #[must_use]
    pub fn computing(&self, team: f64) -> f64 {
        let Some(chunks) = self.loop_chunks.map(f64::from) else {
            return team;
        };
        chunks / (chunks / team.max(1.0)).ceil()
    }

    /// Checks every number.
    ///
    /// # Errors
    /// [`AppError`] names the application, the number and what would do.
    pub fn check(&self, app: &str) -> Result<(), AppError> {
        let fail = |what, value, fix| {
            Err(AppError {
                app: app.to_owned(),
                what,
                value,
                fix: Cow::Borrowed(fix),
            })
        };
        for (what, value) in [
            ("ipc0", self.ipc0),
            ("mlp", self.overlapping_misses),
            ("spc", self.stalls_per_event),
            ("tau", self.barrier_s.unwrap_or(1.0)),
            ("duty", self.duty),
        ] {
            if !(1e-6..=MOST).contains(&value) {
                return fail(what, value, "a positive number, from 0.000001 to 1000000");
            }
        }
        if !(1e-3..=1e5).contains(&self.standalone_s) {
            return fail(
                "standalone_s",
                self.standalone_s,
                "seconds from 0.001 to 100000",
            );
        }
        for (what, value) in [
            ("th", self.smt_slowdown),
            ("mpki", self.misses_per_kilo[0]),
            ("mpki", self.misses_per_kilo[1]),
            ("wsp", self.working_set_mb),
            ("wss", self.shared_set_mb),
            ("E", self.sharing_stalls),
            ("chi", self.sharing_growth),
        ] {
            if !(0.0..=MOST).contains(&value) {
                return fail(what, value, "0 or more, up to 1000000");
            }
        }
        for (what, value) in [
            ("loc", self.local_share),
            ("st", self.serial_share),
            ("duty", self.duty),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return fail(what, value, "0 to 1");
            }
        }
        if let Some(Service::Latency {
            arrivals_per_s,
            demand_s,
            tail_s,
        }) = self.service
        {
            for (what, value) in [
                ("service.arrivals_per_s", arrivals_per_s),
                ("service.demand_s", demand_s),
                ("service.tail_s", tail_s),
            ] {
                if !(value > 0.0 && value.is_finite()) {
                    return fail(what, value, "a positive number");
                }
            }
            if tail_s < demand_s {
                return fail(
                    "service.tail_s",
                    tail_s,
                    "at least service.demand_s: 99 of 100 requests take no longer, and each takes that",
                );
            }
        }
        if self.reports_latency && !matches!(self.service, Some(Service::Latency { .. })) {
            return fail(
                "reports",
                1.0,
                "a service of metric latency, or reports = false",
            );
        }
        for phase in &self.phases {
            for (what, value) in [
                ("sharing of a phase", phase.sharing),
                ("misses of a phase", phase.misses),
            ] {
                if !(value >= 0.0 && value.is_finite()) {
                    return fail(what, value, "0 or more");
                }
            }
            if let Some(ipc0) = phase.ipc0.filter(|ipc0| !(*ipc0 > 0.0 && ipc0.is_finite())) {
                return fail("ipc0 of a phase", ipc0, "a positive number");
            }
        }
        if self.threads.is_some_and(|n| n == 0 || n > 4096) {
            let value = f64::from(self.threads.unwrap_or(0));
            return fail("n", value, "1 to 4096 threads, or leave it out");
        }
        if self.loop_chunks == Some(0) {
            return fail("chunks", 0.0, "at least one chunk, or leave it out");
        }
        if !self.phases.is_empty() {
            let sum: f64 = self.phases.iter().map(|p| p.share).sum();
            if (sum - 1.0).abs() > 1e-6 || self.phases.iter().any(|p| p.share <= 0.0) {
                return fail(
                    "sum of the phases' shares",
                    sum,
                    "positive shares that make 1",
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn sharing_grows_with_the_threads_and_needs_two() {
        let behaviour = presets::app("SGD").unwrap().behaviour();
        assert_eq!(behaviour.sharing_stalls(1.0), 0.0);
        let at = |threads| behaviour.sharing_stalls(threads);
        assert!((at(40.0) / at(20.0) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_at_home_goes_to_all_others_to_the_next_or_to_the_one_that_is_shared() {
        let mut app = presets::app("SGD").unwrap();
        app.local_share = 0.7;
        let mut shares = |elsewhere, socket| {
            app.elsewhere = elsewhere;
            let behaviour = app.behaviour();
            [0, 1, 2, 3].map(|node| behaviour.share_of_misses(4, socket, node))
        };
        for (elsewhere, socket, expected) in [
            (Elsewhere::Evenly, 1, [0.1, 0.7, 0.1, 0.1]),
            (Elsewhere::NextNode, 1, [0.0, 0.7, 0.3, 0.0]),
            (Elsewhere::NextNode, 3, [0.3, 0.0, 0.0, 0.7]),
            (Elsewhere::Node(0), 2, [0.3, 0.0, 0.7, 0.0]),
            (Elsewhere::Node(0), 0, [1.0, 0.0, 0.0, 0.0]),
            (Elsewhere::Node(9), 0, [0.7, 0.0, 0.0, 0.3]),
        ] {
            let found = shares(elsewhere, socket);
            let near = found
                .iter()
                .zip(expected)
                .all(|(f, e)| (f - e).abs() < 1e-12);
            assert!(near, "{elsewhere:?} from {socket}: {found:?}");
        }
    }

    #[test]
    fn who_is_left_without_a_last_chunk_waits() {
        let mut app = presets::app("conjgrad").unwrap();
        assert_eq!(app.computing(36.0), 36.0, "loops divide evenly");
        app.loop_chunks = Some(80);
        assert_eq!(app.computing(80.0), 80.0);
        assert_eq!(app.computing(40.0), 40.0);
        // Three rounds, in the last of which 8 of 36 have a chunk.
        assert!((app.computing(36.0) - 80.0 / 3.0).abs() < 1e-12);
        assert_eq!(app.computing(120.0), 80.0, "no chunk for the others");
        app.loop_chunks = Some(0);
        let told = app.check("mine").unwrap_err().to_string();
        assert!(told.contains("chunks is 0"), "{told}");
    }

    #[test]
    fn numbers_with_which_a_run_would_never_end_are_refused() {
        let told = |change: &dyn Fn(&mut AppModel)| {
            let mut app = presets::app("SGD").unwrap();
            change(&mut app);
            app.check("mine").unwrap_err().to_string()
        };
        let told = [
            (told(&|app| app.standalone_s = 1e300), "standalone_s"),
            (told(&|app| app.shared_set_mb = 1e300), "wss"),
            (told(&|app| app.ipc0 = 1e-300), "ipc0"),
        ];
        for (error, names) in told {
            assert!(error.contains(names) && error.contains("00000"), "{error}");
        }
    }

    #[test]
    fn an_application_that_cannot_be_is_refused_with_the_value() {
        let mut app = presets::app("ALS").unwrap();
        app.phases[0].share = 0.9;
        let told = app.check("mine").unwrap_err().to_string();
        assert!(told.contains("\"mine\"") && told.contains("1.5"), "{told}");
        app.ipc0 = 0.0;
        let told = app.check("mine").unwrap_err().to_string();
        assert!(told.contains("ipc0 is 0"), "{told}");
    }

    #[test]
    fn phases_and_services_that_cannot_be_are_refused_with_the_value() {
        let told = |change: &dyn Fn(&mut AppModel), app: &str| {
            let mut app = presets::app(app).unwrap();
            app.check("mine").unwrap();
            change(&mut app);
            app.check("mine").unwrap_err().to_string()
        };
        for (told, part) in [
            (
                told(&|app| app.phases[0].ipc0 = Some(0.0), "ALS"),
                "ipc0 of a phase is 0",
            ),
            (
                told(&|app| app.phases[0].sharing = -1.0, "ALS"),
                "sharing of a phase is -1",
            ),
            (
                told(&|app| app.phases[0].misses = f64::NAN, "ALS"),
                "misses of a phase is NaN",
            ),
        ] {
            assert!(told.contains(part), "{told}");
        }
        let told = told(
            &|app| {
                if let Some(Service::Latency { demand_s, .. }) = &mut app.service {
                    *demand_s = 0.0;
                }
            },
            "memcached",
        );
        assert!(told.contains("service.demand_s is 0"), "{told}");
        let mut silent = presets::app("ALS").unwrap();
        silent.reports_latency = true;
        let told = silent.check("mine").unwrap_err().to_string();
        assert!(
            told.contains("reports is 1") && told.contains("metric latency"),
            "{told}"
        );
    }
}
