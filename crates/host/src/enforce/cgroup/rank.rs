//! Which of the groups that have a CPU run there: by their weights, or one only while no other wants to.

use super::asked::or_later;
use super::files::{ORDINARY_WEIGHT, WEIGHT};
use super::group_dir::GroupDir;
use crate::enforce::{Former, IdleTimeChange};
use crate::{HostError, chain};
use mapper_model::{CpuSet, IdleTimeUse, Weight};
use rustix::io::Errno;

/// Whether the kernel runs a group only while no other beside it wants to. While it does, the group has no weight.
const IDLE: &str = "cpu.idle";

/// How a group stands among those beside it.
#[derive(Debug, Default)]
pub(super) struct Rank {
    /// What was last asked of `cpu.weight`.
    weight: Option<u32>,
    /// CPUs of others that it has besides its own.
    idle_time: CpuSet,
    /// Those that it has to leave, until it has left them.
    leaves: CpuSet,
    order: Order,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Order {
    #[default]
    ByWeight,
    /// The kernel takes no other.
    ByWeightAlways,
    Last,
}

impl Rank {
    /// Of a group that the kernel has just made.
    pub(super) fn new() -> Self {
        Self {
            weight: Some(ORDINARY_WEIGHT),
            ..Self::default()
        }
    }

    /// CPUs in force that are not its own.
    pub(super) fn of_others(&self) -> CpuSet {
        self.idle_time.union(&self.leaves)
    }
}

/// The kernel takes whole numbers from 1 to 10,000.
fn cpu_weight(weight: Weight) -> u32 {
    (f64::from(ORDINARY_WEIGHT) * weight.get())
        .round()
        .clamp(1.0, 10_000.0) as u32
}

/// Too little to be worth a write, for which the kernel visits all CPUs.
const fn is_about(weight: u32, before: u32) -> bool {
    20 * weight.abs_diff(before) <= before
}

impl Rank {
    pub(super) fn weigh(&mut self, dir: &GroupDir, weight: Weight) -> Result<(), HostError> {
        let weight = cpu_weight(weight);
        if self.weight.is_some_and(|before| is_about(weight, before)) {
            return Ok(());
        }
        // Also after an error, which so is logged once.
        self.weight = Some(weight);
        match self.order {
            Order::Last => Ok(()),
            Order::ByWeight | Order::ByWeightAlways => write_weight(dir, weight),
        }
    }

    pub(super) fn idle_time_use(&self) -> IdleTimeUse {
        match self.order {
            Order::ByWeightAlways => IdleTimeUse::Never,
            Order::ByWeight | Order::Last => IdleTimeUse::WhileLeft,
        }
    }

    /// From the next set on it has these CPUs, too.
    pub(super) fn use_idle_time(
        &mut self,
        dir: &GroupDir,
        cpus: &CpuSet,
    ) -> Result<IdleTimeChange, HostError> {
        if *cpus == self.idle_time {
            return self.in_force(dir);
        }
        let left = std::mem::take(&mut self.idle_time).difference(cpus);
        self.leaves.insert_all(&left);
        if !cpus.is_empty() && self.order != Order::Last {
            if let Err(error) = dir.write(IDLE, "1") {
                // Where that one is only late, this one comes after it.
                let _ = dir.write(IDLE, "0");
                if !matches!(error, HostError::HeldUp(..)) {
                    self.order = Order::ByWeightAlways;
                }
                return Err(error);
            }
            self.order = Order::Last;
        }
        self.idle_time = cpus.clone();
        Ok(IdleTimeChange::Made)
    }

    /// Whether its set is to be written again, as it was not, or not yet.
    fn in_force(&mut self, dir: &GroupDir) -> Result<IdleTimeChange, HostError> {
        if self.order != Order::Last {
            return Ok(IdleTimeChange::None);
        }
        let in_force = dir.read_cpus("cpuset.cpus")?;
        self.leaves = self.leaves.intersection(&in_force);
        match self.leaves.is_empty() && self.idle_time.is_subset(&in_force) {
            true => Ok(IdleTimeChange::None),
            false => Ok(IdleTimeChange::Made),
        }
    }

    /// The set that it has to have for these CPUs of its own.
    pub(super) fn with_idle_time(&mut self, own: &CpuSet) -> CpuSet {
        self.leaves.remove_all(own);
        own.union(&self.idle_time)
    }

    /// Once it has left the CPUs of others its weight counts again.
    pub(super) fn rank_by_weight(&mut self, dir: &GroupDir) -> Result<(), HostError> {
        if self.order != Order::Last || !self.idle_time.is_empty() {
            return Ok(());
        }
        let in_force = dir.read_cpus("cpuset.cpus")?;
        if !self.leaves.is_disjoint(&in_force) {
            return Ok(());
        }
        self.leaves = CpuSet::new();
        match dir.write(IDLE, "0") {
            Ok(()) => {
                self.order = Order::ByWeight;
                // The kernel has given it the ordinary one.
                self.weight
                    .map_or(Ok(()), |weight| write_weight(dir, weight))
            }
            Err(HostError::HeldUp(..)) => {
                // Until then the kernel takes none.
                self.order = Order::ByWeight;
                self.weight = Some(ORDINARY_WEIGHT);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The same for one that could not leave at once.
    pub(super) fn leave_idle_time(&mut self, dir: &GroupDir) {
        match self.rank_by_weight(dir) {
            Err(error) if !error.is_gone() => tracing::debug!("{}", chain(&error)),
            _ => {}
        }
    }

    /// Another program has set its CPUs, which are no idle time of others then.
    pub(super) fn end_idle_time(&mut self, dir: &GroupDir) {
        self.idle_time = CpuSet::new();
        self.leaves = CpuSet::new();
        self.leave_idle_time(dir);
    }

    /// Leaves it among the others as a group of the kernel's.
    pub(super) fn give_back(&self, dir: &GroupDir) {
        // The ordinary weight comes with it.
        let written = match self.order {
            Order::Last => dir.write(IDLE, "0"),
            _ if self.weight.is_some() => dir.write(WEIGHT, &ORDINARY_WEIGHT.to_string()),
            _ => Ok(()),
        };
        if let Err(error) = written {
            tracing::debug!("{}", chain(&error));
        }
    }

    /// As an earlier daemon has left it, with the CPUs that stand in its file.
    pub(super) fn found(dir: &GroupDir, written: &CpuSet, former: &Former) -> Self {
        let mut rank = Self::default();
        let is_last = dir.read(IDLE).is_ok_and(|text| text.trim_end() == "1");
        if is_last {
            rank.order = Order::Last;
            rank.idle_time = written.difference(&former.cpus);
        }
        if former.set_by_others.is_some() {
            rank.end_idle_time(dir);
        }
        rank
    }
}

fn write_weight(dir: &GroupDir, weight: u32) -> Result<(), HostError> {
    match or_later(dir.write(WEIGHT, &weight.to_string())) {
        // The controller was not handed down.
        Err(error) if error.errno() == Some(Errno::NOENT) => Ok(()),
        written => written,
    }
}
