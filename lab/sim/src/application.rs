//! An application in the model: what its threads do, how they synchronise, and its phases.
//!
//! Parameters are per thread and per instruction, independent of the machine. A program is a cycle of a serial
//! and a parallel part; their lengths are shares of its running time alone on the whole machine under plain
//! Linux, which is the unit of progress. [`Behaviour`] holds the parameters of one part.

use serde::{Deserialize, Serialize};

/// The threads for which the stall cycles of sharing are given.
const SHARING_REFERENCE_THREADS: f64 = 20.0;

/// An application as read from a file. Short names are those of the vectors.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppModel {
    /// Instructions per cycle of a thread that has its core to itself and misses nothing.
    pub ipc0: f64,
    /// By how much a busy sibling slows the core part down.
    #[serde(rename = "th")]
    pub smt_slowdown: f64,
    /// Misses per 1000 instructions when everything fits into the cache, and when nothing does.
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
    #[serde(default, skip_serializing_if = "is_default")]
    pub elsewhere: Elsewhere,
    /// All misses go to this node, whatever the local share is.
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
    /// Time between barriers on the whole machine, if there are any.
    #[serde(rename = "tau", default, skip_serializing_if = "Option::is_none")]
    pub barrier_s: Option<f64>,
    /// Whether threads wait at barriers by spinning.
    #[serde(default)]
    pub spin: bool,
    /// Threads it starts; by default one for each context of the machine.
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
    /// Equal chunks of each parallel loop, whatever the team: where they do not divide evenly, the team waits for
    /// threads with one chunk more [MAPPER §3.5]. By default loops divide evenly.
    #[serde(rename = "chunks", default, skip_serializing_if = "Option::is_none")]
    pub loop_chunks: Option<u32>,
    /// Phases of the parallel part, in order; none if it is uniform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// Set for a program that serves requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// Whether it reports its latency to the daemon through the C interface. Programs of the papers do not.
    #[serde(rename = "reports", default, skip_serializing_if = "is_default")]
    pub reports_latency: bool,
}

/// Whether a value is that of a file that names none.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const fn one() -> f64 {
    1.0
}

const fn default_standalone() -> f64 {
    40.0
}

/// Where misses go that the own node does not serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Elsewhere {
    /// To all other nodes alike.
    #[default]
    Evenly,
    /// To the next node of a ring [NuCore §4.2].
    NextNode,
    /// To this node, or the last one of a smaller machine, which holds all shared data [NuCore §4.3.2].
    Node(u32),
}

impl Elsewhere {
    /// The share of a socket's other misses that a node serves, of at least two nodes.
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
    /// Factor of the stall cycles for sharing.
    #[serde(default = "one")]
    pub sharing: f64,
    /// Factor of the misses.
    #[serde(default = "one")]
    pub misses: f64,
    /// Instructions per cycle in place of the application's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipc0: Option<f64>,
}

/// How an application serves requests.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "metric", rename_all = "snake_case", deny_unknown_fields)]
pub enum Service {
    /// Requests arrive at random; the 99th percentile of their latency counts.
    Latency(Requests),
    /// Something outside limits it to what it does alone on the machine.
    Throughput,
}

/// The requests to a service.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// Requests per second.
    pub arrivals_per_s: f64,
    /// CPU time of a request alone on the machine.
    pub demand_s: f64,
    /// The 99th percentile of their latency alone on the machine.
    pub tail_s: f64,
}

/// An invalid description of an application.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("application {0:?}: {1} is {2}: give {3}")]
pub struct AppError(
    pub(crate) String,
    pub(crate) &'static str,
    pub(crate) f64,
    pub(crate) String,
);

/// The parameters of one part, as the performance function takes them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Behaviour {
    /// Cycles of an instruction on a core of its own without misses.
    pub core_cycles: f64,
    /// By how much a busy sibling slows that down.
    pub smt_slowdown: f64,
    /// Misses per instruction when everything fits into the cache, and when nothing does.
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
    /// Share of the misses on a socket that a node serves.
    pub(crate) fn share_of_misses(&self, nodes: usize, socket: usize, node: usize) -> f64 {
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
    pub(crate) fn sharing_stalls(&self, threads: f64) -> f64 {
        if threads > 1.0 && self.sharing_stalls > 0.0 {
            self.sharing_stalls * (threads / SHARING_REFERENCE_THREADS).powf(self.sharing_growth)
        } else {
            0.0
        }
    }
}

/// The largest number of an application; with larger ones a run would not end in a reasonable time.
const MOST: f64 = 1e6;
/// The least positive number.
const ABOVE_0: f64 = f64::from_bits(1);

impl AppModel {
    /// The requests to a service with a latency.
    pub(crate) const fn requests(&self) -> Option<Requests> {
        match self.service {
            Some(Service::Latency(requests)) => Some(requests),
            _ => None,
        }
    }

    /// The parameters of the parallel part without its phases.
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

    pub(crate) fn in_phase(&self, phase: &Phase) -> Behaviour {
        let mut behaviour = self.behaviour();
        behaviour.sharing_stalls *= phase.sharing;
        behaviour.misses = behaviour.misses.map(|misses| misses * phase.misses);
        if let Some(ipc0) = phase.ipc0 {
            behaviour.core_cycles = 1.0 / ipc0;
        }
        behaviour
    }

    /// Threads of a team of this size that compute, averaged over a parallel loop: the others wait for the slowest.
    pub(crate) fn computing(&self, team: f64) -> f64 {
        match self.loop_chunks.map(f64::from) {
            None => team,
            Some(chunks) => chunks / (chunks / team.max(1.0)).ceil(),
        }
    }

    /// Checks every number.
    ///
    /// # Errors
    /// [`AppError`] names the application, the number and what to give.
    pub fn check(&self, app: &str) -> Result<(), AppError> {
        const POSITIVE: &str = "a positive number, from 0.000001 to 1000000";
        const NOT_NEGATIVE: &str = "0 or more, up to 1000000";
        // The first number out of its range.
        let mut wrong = None;
        let mut number = |what, value: f64, least: f64, most: f64, fix| {
            if wrong.is_none() && !(least..=most).contains(&value) {
                wrong = Some((what, value, fix));
            }
        };
        let (any, barrier_s) = (f64::MAX, self.barrier_s.unwrap_or(1.0));
        number("ipc0", self.ipc0, 1e-6, MOST, POSITIVE);
        number("mlp", self.overlapping_misses, 1e-6, MOST, POSITIVE);
        number("spc", self.stalls_per_event, 1e-6, MOST, POSITIVE);
        number("tau", barrier_s, 1e-6, MOST, POSITIVE);
        number("duty", self.duty, 1e-6, MOST, POSITIVE);
        let fix = "seconds from 0.001 to 100000";
        number("standalone_s", self.standalone_s, 1e-3, 1e5, fix);
        number("th", self.smt_slowdown, 0.0, MOST, NOT_NEGATIVE);
        for misses in self.misses_per_kilo {
            number("mpki", misses, 0.0, MOST, NOT_NEGATIVE);
        }
        number("wsp", self.working_set_mb, 0.0, MOST, NOT_NEGATIVE);
        number("wss", self.shared_set_mb, 0.0, MOST, NOT_NEGATIVE);
        number("E", self.sharing_stalls, 0.0, MOST, NOT_NEGATIVE);
        number("chi", self.sharing_growth, 0.0, MOST, NOT_NEGATIVE);
        number("loc", self.local_share, 0.0, 1.0, "0 to 1");
        number("st", self.serial_share, 0.0, 1.0, "0 to 1");
        number("duty", self.duty, 0.0, 1.0, "0 to 1");
        let fix = "a positive number";
        if let Some(of) = self.requests() {
            let (rate, least_s) = (of.arrivals_per_s, of.demand_s);
            number("service.arrivals_per_s", rate, ABOVE_0, any, fix);
            number("service.demand_s", least_s, ABOVE_0, any, fix);
            number("service.tail_s", of.tail_s, ABOVE_0, any, fix);
            let fix =
                "at least service.demand_s: 99 of 100 requests take no longer, and each takes that";
            number("service.tail_s", of.tail_s, least_s, any, fix);
        } else if self.reports_latency {
            let fix = "a service of metric latency, or reports = false";
            number("reports", 1.0, 0.0, 0.0, fix);
        }
        for phase in &self.phases {
            number("sharing of a phase", phase.sharing, 0.0, any, "0 or more");
            number("misses of a phase", phase.misses, 0.0, any, "0 or more");
            let ipc0 = phase.ipc0.unwrap_or(1.0);
            number("ipc0 of a phase", ipc0, ABOVE_0, any, fix);
        }
        let threads = f64::from(self.threads.unwrap_or(1));
        let fix = "1 to 4096 threads, or leave it out";
        number("n", threads, 1.0, 4096.0, fix);
        let chunks = f64::from(self.loop_chunks.unwrap_or(1));
        let fix = "at least one chunk, or leave it out";
        number("chunks", chunks, 1.0, any, fix);
        let sum: f64 = self.phases.iter().map(|p| p.share).sum();
        let whole = (sum - 1.0).abs() <= 1e-6 && self.phases.iter().all(|p| p.share > 0.0);
        if !self.phases.is_empty() && !whole {
            let fix = "positive shares that make 1";
            wrong = wrong.or(Some(("sum of the phases' shares", sum, fix)));
        }
        wrong.map_or(Ok(()), |(what, value, fix)| {
            Err(AppError(app.to_owned(), what, value, fix.to_owned()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::app;

    #[test]
    fn sharing_grows_with_the_threads_and_needs_two() {
        let behaviour = app("SGD").behaviour();
        assert_eq!(behaviour.sharing_stalls(1.0), 0.0);
        let growth = behaviour.sharing_stalls(40.0) / behaviour.sharing_stalls(20.0);
        assert!((growth - 2.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_local_goes_to_all_others_to_the_next_or_to_the_one_that_is_shared() {
        let mut app = app("SGD");
        app.local_share = 0.7;
        for (elsewhere, socket, expected) in [
            (Elsewhere::Evenly, 1, [0.1, 0.7, 0.1, 0.1]),
            (Elsewhere::NextNode, 1, [0.0, 0.7, 0.3, 0.0]),
            (Elsewhere::NextNode, 3, [0.3, 0.0, 0.0, 0.7]),
            (Elsewhere::Node(0), 2, [0.3, 0.0, 0.7, 0.0]),
            (Elsewhere::Node(0), 0, [1.0, 0.0, 0.0, 0.0]),
            (Elsewhere::Node(9), 0, [0.7, 0.0, 0.0, 0.3]),
        ] {
            app.elsewhere = elsewhere;
            for (node, expected) in expected.into_iter().enumerate() {
                let found = app.behaviour().share_of_misses(4, socket, node);
                let near = (found - expected).abs() < 1e-12;
                assert!(near, "{elsewhere:?} from {socket} to {node}: {found}");
            }
        }
    }

    #[test]
    fn a_team_waits_for_threads_with_one_chunk_more() {
        let mut app = app("conjgrad");
        assert_eq!(app.computing(36.0), 36.0, "loops divide evenly");
        app.loop_chunks = Some(80);
        assert_eq!(app.computing(80.0), 80.0);
        assert_eq!(app.computing(40.0), 40.0);
        // Three rounds, in the last of which 8 of 36 have a chunk.
        assert!((app.computing(36.0) - 80.0 / 3.0).abs() < 1e-12);
        assert_eq!(app.computing(120.0), 80.0, "no chunk for the others");
    }

    #[test]
    fn numbers_that_an_application_cannot_have_are_refused_with_the_value() {
        // Application, JSON pointer of the number, value, part of the error.
        for case in [
            // With these a run would never end.
            "SGD /standalone_s 1e300 standalone_s is 10",
            "SGD /wss 1e300 wss is 10",
            "SGD /ipc0 1e-300 ipc0 is 0.00000",
            "ALS /ipc0 0.0 application \"mine\": ipc0 is 0:",
            "ALS /phases/0/share 0.9 the phases' shares is 1.5",
            "ALS /phases/0/ipc0 0.0 ipc0 of a phase is 0",
            "ALS /phases/0/sharing -1.0 sharing of a phase is -1",
            "ALS /reports true reports is 1: give a service of metric latency",
            "ALS /chunks 0 chunks is 0",
            "memcached /service/demand_s 0.0 service.demand_s is 0",
            // No request is done before its work is.
            "memcached /service/tail_s 0.0001 service.tail_s is 0.0001: give at least service.demand_s",
        ] {
            let words: Vec<&str> = case.splitn(4, ' ').collect();
            app(words[0]).check("mine").unwrap();
            let mut json = serde_json::to_value(app(words[0])).unwrap();
            let value = words[2].parse().unwrap();
            match json.pointer_mut(words[1]) {
                Some(place) => *place = value,
                None => json[&words[1][1..]] = value,
            }
            let changed: AppModel = serde_json::from_value(json).unwrap();
            let error = changed.check("mine").unwrap_err().to_string();
            assert!(error.contains(words[3]), "{case}: {error}");
        }
        let mut no_number = app("ALS");
        no_number.phases[0].misses = f64::NAN;
        let error = no_number.check("mine").unwrap_err().to_string();
        assert!(error.contains("misses of a phase is NaN"), "{error}");
    }
}
