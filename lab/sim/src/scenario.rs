//! What is simulated: a machine, the programs that run on it, and for how long.

use crate::application::AppModel;
use crate::constants::Constants;
use crate::machine::Machine;
use mapper_model::{CpuRange, CpuSet, Qos};

/// A program to be run.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Its name, unique in the scenario.
    pub name: String,
    /// What it does.
    pub app: AppModel,
    /// Threads it starts; without it as many as the application says, else one for each context.
    pub threads: Option<u32>,
    /// What it is promised.
    pub qos: Qos,
    /// The CPU counts it may be given.
    pub cpus: CpuRange,
    /// When it starts, in seconds from the beginning; those that run in turn not before.
    pub arrives_s: f64,
}

impl Job {
    /// How many threads it starts on a machine.
    #[must_use]
    pub fn threads_on(&self, machine: &Machine) -> u32 {
        self.threads
            .or(self.app.threads)
            .unwrap_or_else(|| machine.contexts())
            .max(1)
    }
}

/// When programs start and when the run ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Method {
    /// Each starts when it arrives and starts anew when it ends, until the one that is longest alone
    /// has run so often [MAPPER §4.5]; of those that arrive later, the one that would be last to have done
    /// so alone.
    LongestTimes(u32),
    /// Each starts when it arrives and runs once [NuPoCo §7.3].
    EachOnce,
    /// One after the other as they arrive, of those that arrive together in their order, each once.
    InTurn,
    /// Each starts when it arrives and starts anew when it ends, for a time.
    For {
        /// How long.
        seconds: f64,
    },
}

/// Whether OpenMP programs can change the size of their teams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Teams {
    /// They keep the size they started with.
    Fixed,
    /// They take as many threads as they have CPUs, at the next parallel construct.
    Follow,
}

/// Whether CPUs that their owners leave idle are lent to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lending {
    /// They stay idle.
    #[default]
    Never,
    /// Threads of others that have no CPU run on them, and leave at once and without any cost when
    /// the owner wants them: the most that lending can bring. Only whole cores are lent, so that
    /// no owner meets a stranger in its own core, and nothing to a program that was put on one node.
    WholeCores,
    /// One way, down an order of who leaves most CPUs idle, at what it costs (`lending`): as control
    /// groups can do it. Nothing to a program that was put on one node.
    OneWay(Siblings),
}

/// Whether a CPU is lent while its owner runs on another context of the core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Siblings {
    /// It is: sets of CPUs do not tell on which of them the owner runs.
    Lent,
    /// It is not, as with core scheduling.
    Kept,
}

/// Whether memory traffic is told by node, as resource control tells it on server processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Traffic {
    /// Only misses are counted.
    #[default]
    Untold,
    /// What the CPUs of each node ask for, and how much of it their own node.
    ByNode,
}

/// What is simulated.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// On this machine.
    pub machine: Machine,
    /// Under these constants.
    pub constants: Constants,
    /// These programs.
    pub jobs: Vec<Job>,
    /// In this way.
    pub method: Method,
    /// With OpenMP programs that do or do not follow their allocation.
    pub teams: Teams,
    /// With or without lending of idle CPUs.
    pub lending: Lending,
    /// With memory traffic by node or without.
    pub traffic: Traffic,
    /// Seed of all randomness.
    pub seed: u64,
    /// The longest step; without it from event to event.
    pub longest_step_s: Option<f64>,
    /// Whether to record who held how many CPUs when.
    pub timeline: bool,
}

impl Scenario {
    /// When the last program arrives.
    #[must_use]
    pub fn last_arrival_s(&self) -> f64 {
        let arrivals = self.jobs.iter().map(|job| job.arrives_s);
        arrivals.fold(0.0, f64::max)
    }
}

/// What became of a program.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AppOutcome {
    /// Its name.
    pub name: String,
    /// Speed relative to the run alone on the whole machine under plain Linux; of a service with a
    /// latency, that latency alone relative to the one it had.
    pub speed: f64,
    /// Whole runs.
    pub runs: u32,
    /// When its first run ended.
    pub first_end_s: Option<f64>,
    /// When it first started; none if everything had ended before it arrived.
    pub begin_s: Option<f64>,
    /// The 99th percentile of its latency, averaged over time, for a service that has one.
    pub p99_s: Option<f64>,
    /// CPUs held, averaged over time; all of them under plain Linux.
    pub mean_cpus: f64,
    /// The last CPUs it was given; none under plain Linux.
    pub held: Option<CpuSet>,
    /// Coherence activity.
    pub sharing: SharingSeen,
}

/// Coherence activity of a program's threads [SAM-MPH Fig. 3].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SharingSeen {
    /// Lines that came from another core of the socket, per cycle.
    pub intra_socket_per_cycle: f64,
    /// Lines that came from another socket, per cycle.
    pub inter_socket_per_cycle: f64,
}

/// What became of a scenario.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// The programs in their order.
    pub apps: Vec<AppOutcome>,
    /// How long it took.
    pub elapsed_s: f64,
    /// CPU sets written, after those of the beginning.
    pub rewrites: u64,
    /// Contexts that changed hands by them.
    pub moved_contexts: u64,
    /// Decisions taken.
    pub decisions: u64,
    /// Why it was ended before it was done, if it was.
    pub given_up: Option<GivenUp>,
    /// The CPUs of each program from a moment on.
    pub timeline: Vec<Sample>,
}

/// A run that was ended before it was done, as too much happened in it.
#[derive(Clone, PartialEq, Debug)]
pub struct GivenUp {
    /// Steps taken.
    pub steps: u64,
    /// The program that was waited for: the one whose runs end the scenario, else the one furthest from its end.
    pub program: String,
    /// Its speed until then, relative to the run alone.
    pub speed: f64,
}

/// CPUs held from a moment on.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// The moment.
    pub at_s: f64,
    /// By each program; none before it starts and after it ended, all of them under plain Linux.
    pub sets: Vec<CpuSet>,
}
