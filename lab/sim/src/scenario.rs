//! What is simulated: a machine, the programs that run on it, and for how long.

use crate::application::AppModel;
use crate::constants::Constants;
use crate::machine::Machine;
use mapper_model::{CpuRange, CpuSet, Qos};
use serde::{Deserialize, Serialize};

/// A program to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Its name, unique in the scenario.
    pub name: String,
    /// What it does.
    pub app: AppModel,
    /// Threads it starts; by default the application's number, else one for each context.
    pub threads: Option<u32>,
    /// Its promise.
    pub qos: Qos,
    /// The CPU counts it may be given.
    pub cpus: CpuRange,
    /// When it starts, in seconds from the beginning; in turn, the earliest start.
    pub arrives_s: f64,
}

impl Job {
    pub(crate) fn threads_on(&self, machine: &Machine) -> u32 {
        let threads = self.threads.or(self.app.threads);
        threads.unwrap_or_else(|| machine.contexts()).max(1)
    }
}

/// When programs start and when the run ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Method {
    /// Each starts when it arrives and again when it ends, until the one with the latest end alone has run so
    /// often [MAPPER §4.5].
    LongestTimes(u32),
    /// Each starts when it arrives and runs once [NuPoCo §7.3].
    EachOnce,
    /// One after the other in order of arrival, each once.
    InTurn,
    /// Each starts when it arrives and again when it ends, for so many seconds.
    For(f64),
}

/// Whether OpenMP programs can change the size of their teams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Teams {
    /// They keep the size they started with.
    #[default]
    Fixed,
    /// They use one thread per CPU from the next parallel construct on.
    Follow,
}

/// Whether CPUs that their owners leave idle are lent to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lending {
    /// They stay idle.
    #[default]
    Never,
    /// Whole cores, at no cost, to threads without a CPU: an upper bound of what lending can bring. Nothing for a
    /// program that was put on one node.
    WholeCores,
    /// As the daemon decides, and at a cost. A CPU is lent even while its owner runs on another context of the
    /// core: CPU sets do not show where in them the owner runs.
    IdleTime,
}

/// What is simulated.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// The machine.
    pub machine: Machine,
    /// The constants of the model.
    pub constants: Constants,
    /// The programs.
    pub jobs: Vec<Job>,
    /// When they start and end.
    pub method: Method,
    /// Whether OpenMP teams follow their allocation.
    pub teams: Teams,
    /// Whether idle CPUs are lent.
    pub lending: Lending,
    /// Whether the memory traffic of each node's CPUs is reported, with the part to their own node, as resource
    /// control does on server processors; else only misses are counted.
    pub traffic_by_node: bool,
    /// Seed of all randomness.
    pub seed: u64,
    /// The longest step; by default a step lasts until the next event.
    pub longest_step_s: Option<f64>,
    /// Whether to record the CPUs of each program over time.
    pub timeline: bool,
}

/// The result of a program.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AppOutcome {
    /// Its name.
    pub name: String,
    /// Speed relative to the run alone on the whole machine under plain Linux; for a service with a latency, the
    /// latency alone relative to the one it had.
    pub speed: f64,
    /// Whole runs.
    pub runs: u32,
    /// When its first run ended.
    pub first_end_s: Option<f64>,
    /// When it first started; none if the run ended before it arrived.
    pub begin_s: Option<f64>,
    /// The 99th percentile of a service's latency over all its time.
    pub p99_s: Option<f64>,
    /// CPUs held, averaged over time; all of them under plain Linux.
    pub mean_cpus: f64,
    /// The last CPUs it was given; none under plain Linux.
    pub held: Option<CpuSet>,
    /// Lines from another core of the socket, per cycle [SAM-MPH Fig. 3].
    pub intra_socket_per_cycle: f64,
    /// Lines from another socket, per cycle.
    pub inter_socket_per_cycle: f64,
}

/// The result of a scenario.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// The programs in their order.
    pub apps: Vec<AppOutcome>,
    /// Its length.
    pub elapsed_s: f64,
    /// CPU sets written, after those of the beginning.
    pub rewrites: u64,
    /// Contexts that changed hands by them.
    pub moved_contexts: u64,
    /// Decisions taken.
    pub decisions: u64,
    /// Set when the run was stopped early.
    pub given_up: Option<GivenUp>,
    /// The CPUs of each program over time.
    pub timeline: Vec<Sample>,
}

/// A run that was stopped early after too many steps.
#[derive(Clone, PartialEq, Debug)]
pub struct GivenUp {
    /// Steps taken.
    pub steps: u64,
    /// The program whose runs end the scenario, else the one furthest from its end.
    pub program: String,
    /// Its speed until then, relative to the run alone.
    pub speed: f64,
}

/// CPUs held from a moment on.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// The moment.
    pub at_s: f64,
    /// By program: none before it starts and after it ended, all of them under plain Linux.
    pub sets: Vec<CpuSet>,
}
