//! What the daemon publishes to an application: plain values, and how they are stored in the page.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::error::PageError;
use crate::layout::{self, AllocationBlock, MASK_WORDS, MAX_CPUS};
use crate::seqlock::{self, Stamped};

/// How often an allocation was published; 0 before the first time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Generation(u32);

impl Generation {
    /// The generation of an even sequence number.
    pub const fn from_sequence(sequence: u32) -> Self {
        Self(sequence / 2)
    }

    /// The generation with this number.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the shim may do with the teams of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, strum::FromRepr)]
#[repr(u32)]
pub enum TeamMode {
    /// Teams keep the size they had at launch.
    #[default]
    Fixed = layout::TEAM_MODE_FIXED,
    /// The team of an outermost region has as many threads as the program has CPUs.
    Follow = layout::TEAM_MODE_FOLLOW,
    /// Teams have the size the program expects, carried by as many OS threads as it has CPUs.
    Virtual = layout::TEAM_MODE_VIRTUAL,
}

impl TeamMode {
    /// The mode of a number in the page; the safe one for unknown numbers.
    pub fn from_raw(raw: u32) -> Self {
        Self::from_repr(raw).unwrap_or_default()
    }

    /// The name used in the environment.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Follow => "follow",
            Self::Virtual => "virtual",
        }
    }

    /// The mode with this name in the environment.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Fixed, Self::Follow, Self::Virtual];
        all.into_iter().find(|mode| mode.as_str() == name)
    }
}

/// A set of CPUs as the page holds it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CpuMask([u64; MASK_WORDS]);

impl Default for CpuMask {
    fn default() -> Self {
        Self([0; MASK_WORDS])
    }
}

impl CpuMask {
    /// The set of these CPUs.
    pub fn from_cpus(cpus: impl IntoIterator<Item = u32>) -> Result<Self, PageError> {
        let mut mask = Self::default();
        for cpu in cpus {
            let word = mask.0.get_mut(cpu as usize / 64);
            let word = word.ok_or(PageError::CpuOutOfRange(cpu))?;
            *word |= 1 << (cpu % 64);
        }
        Ok(mask)
    }

    /// Its CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..MAX_CPUS as u32).filter(|cpu| self.contains(*cpu))
    }

    /// Whether `cpu` is in it.
    pub fn contains(&self, cpu: u32) -> bool {
        let word = self.0.get(cpu as usize / 64);
        word.is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// How many CPUs it has.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

impl fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// What an application may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allocation {
    /// How many CPUs it has; 0 before the first decision. Usually the size of `cpus`, but smaller for an application
    /// that shares its CPUs with others.
    pub cpu_count: u32,
    /// What the shim may do with teams.
    pub team_mode: TeamMode,
    /// The largest useful team; 0 for no limit.
    pub max_team: u32,
    /// The CPUs.
    pub cpus: CpuMask,
    /// Their NUMA nodes, bit *n* for node *n*.
    pub node_mask: u64,
}

/// Attempts before a reader gives up on a writer that never finishes. A write takes well under a microsecond, so that
/// this many attempts outlast any write that is not interrupted.
const READ_ATTEMPTS: u32 = 1000;

impl AllocationBlock {
    /// Publishes `allocation` after sequence number `current`; for the one writer.
    pub(crate) fn publish(&self, current: u32, allocation: &Allocation) -> u32 {
        seqlock::publish(&self.sequence, current, || {
            let relaxed = Ordering::Relaxed;
            self.cpu_count.store(allocation.cpu_count, relaxed);
            self.team_mode.store(allocation.team_mode as u32, relaxed);
            self.max_team.store(allocation.max_team, relaxed);
            self.node_mask.store(allocation.node_mask, relaxed);
            for (shared, word) in self.cpu_mask.iter().zip(allocation.cpus.0) {
                shared.store(word, Ordering::Relaxed);
            }
        })
    }

    /// The current allocation; `None` when the writer died while it wrote.
    pub fn read(&self) -> Option<Stamped<Allocation>> {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        seqlock::read(&self.sequence, READ_ATTEMPTS, || Allocation {
            cpu_count: self.cpu_count.load(Ordering::Relaxed),
            team_mode: TeamMode::from_raw(self.team_mode.load(Ordering::Relaxed)),
            max_team: self.max_team.load(Ordering::Relaxed),
            cpus: CpuMask(self.cpu_mask.each_ref().map(word)),
            node_mask: self.node_mask.load(Ordering::Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_holds_what_was_put_into_it() {
        let mask = CpuMask::from_cpus([0, 63, 64, 4095]).unwrap();
        assert_eq!(mask.iter().collect::<Vec<_>>(), [0, 63, 64, 4095]);
        assert_eq!(mask.count(), 4);
        assert!(!mask.contains(1) && !mask.contains(5000));
    }

    #[test]
    fn a_cpu_beyond_the_mask_is_an_error_that_names_it() {
        let error = CpuMask::from_cpus([1, 4096]).unwrap_err().to_string();
        assert!(error.contains("cpu 4096"), "{error}");
    }

    #[test]
    fn an_unknown_team_mode_is_read_as_the_safe_one() {
        assert_eq!(TeamMode::from_raw(7), TeamMode::Fixed);
        for mode in [TeamMode::Fixed, TeamMode::Follow, TeamMode::Virtual] {
            assert_eq!(TeamMode::from_raw(mode as u32), mode);
            assert_eq!(TeamMode::from_name(mode.as_str()), Some(mode));
        }
    }
}
