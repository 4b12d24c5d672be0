//! What an application says about itself as a whole, as plain bounded values.

use bitflags::bitflags;

use crate::allocation::Generation;
use crate::layout;

bitflags! {
    /// OpenMP runtimes seen in the application.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Runtimes: u32 {
        /// GCC's libgomp.
        const LIBGOMP = layout::RUNTIME_LIBGOMP;
        /// LLVM's (or Intel's) libomp.
        const LIBOMP = layout::RUNTIME_LIBOMP;
    }
}

bitflags! {
    /// What the application's shim found out.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct ReportFlags: u32 {
        /// Barriers may spin for long: nothing in the environment told the runtime otherwise, so
        /// the program must not be given fewer CPUs than it has threads.
        const WAITS_SPIN = layout::FLAG_WAITS_SPIN;
        /// The time spent waiting at barriers is measured.
        const WAIT_MEASURED = layout::FLAG_WAIT_MEASURED;
        /// Some threads share the last slot.
        const SLOTS_EXHAUSTED = layout::FLAG_SLOTS_EXHAUSTED;
    }
}

/// Why the teams of an application do not follow its allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum TeamsOff {
    /// The program called `omp_set_num_threads`.
    SetNumThreads = layout::TEAMS_OFF_SET_NUM_THREADS,
    /// The program called `omp_set_dynamic(0)`.
    SetDynamic = layout::TEAMS_OFF_SET_DYNAMIC,
    /// The program gives its regions a `num_threads` clause.
    Clause = layout::TEAMS_OFF_CLAUSE,
}

impl TeamsOff {
    /// The reason that a number read from the page stands for.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            layout::TEAMS_OFF_SET_NUM_THREADS => Some(Self::SetNumThreads),
            layout::TEAMS_OFF_SET_DYNAMIC => Some(Self::SetDynamic),
            layout::TEAMS_OFF_CLAUSE => Some(Self::Clause),
            _ => None,
        }
    }
}

/// What an application says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuntimeReport {
    /// OpenMP runtimes in use; none before the first region or loop.
    pub runtimes: Runtimes,
    /// What the shim found out.
    pub flags: ReportFlags,
    /// Why teams do not follow the allocation; `None` when they do or were not asked to.
    pub teams_off: Option<TeamsOff>,
    /// The allocation that the latest outermost region was started under.
    pub applied: Generation,
    /// The team size asked for at that region; 0 before the first.
    pub team_size: u32,
    /// The team the program would use by itself; 0 before its first region.
    pub max_threads: u32,
    /// CPUs, of those it has, that its regions do not need.
    pub spare_cpus: u32,
}

impl RuntimeReport {
    /// Whether an OpenMP runtime has attached to the page.
    #[must_use]
    pub const fn attached(&self) -> bool {
        !self.runtimes.is_empty()
    }
}
