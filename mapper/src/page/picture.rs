//! What a page shows, whether a daemon or a recording is its source.

use super::timeline::{Held, Timeline};
use mapper_control::schema::TopologyStatus;
use mapper_model::{AppId, CpuSet, Qos};

/// Everything on a page.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) source: Source,
    /// `None` before a daemon has answered.
    pub(super) machine: Option<TopologyStatus>,
    /// In order of arrival.
    pub(super) programs: Vec<Program>,
    /// Programs that are left out, as there are too many.
    pub(super) more_programs: usize,
    pub(super) timeline: Timeline,
    /// The latest first.
    pub(super) ended: Vec<Ended>,
}

/// Where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// A daemon that answers, described in a few words.
    Daemon(String),
    /// No daemon answers, for this reason; the rest of the picture is old.
    NoDaemon(String),
    /// The recording of this name.
    Recording(String),
}

/// One program.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) id: AppId,
    pub(super) name: String,
    pub(super) command: String,
    /// Those that it holds; of a recording those that it held last.
    pub(super) cpus: CpuSet,
    /// Those of them that belong to idle programs.
    pub(super) borrowed: CpuSet,
    pub(super) state: String,
    pub(super) fair_cpus: u32,
    pub(super) qos: Qos,
    /// What its speed is measured by, such as `runtime progress`.
    pub(super) measured_by: Option<String>,
    /// Why it has these CPUs.
    pub(super) sentence: String,
    /// The latest first.
    pub(super) decisions: Vec<Decision>,
}

impl Program {
    pub(super) fn held(&self) -> Held<'_> {
        Held {
            id: self.id,
            cpus: &self.cpus,
            borrowed: &self.borrowed,
        }
    }
}

/// One decision about a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Decision {
    /// When, such as `12 s ago`.
    pub(super) when: String,
    pub(super) cpus: CpuSet,
    pub(super) sentence: String,
}

/// A program that has ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) id: AppId,
    pub(super) name: String,
    pub(super) command: String,
    /// When it ended, such as `12 s ago`.
    pub(super) when: String,
    /// For how long it ran, on how many CPUs.
    pub(super) ran: String,
    /// Over what was promised, where it was judged.
    pub(super) speed: Option<f64>,
    pub(super) exit_status: Option<u8>,
}
