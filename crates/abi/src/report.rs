//! What an application says about itself as a whole, as plain bounded values.

use core::fmt;

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
        /// Barriers may spin for long: nothing in the environment limits that, so
        /// the program must not be given fewer CPUs than it has threads.
        const WAITS_SPIN = layout::FLAG_WAITS_SPIN;
        /// The time spent waiting at barriers is measured.
        const WAIT_MEASURED = layout::FLAG_WAIT_MEASURED;
        /// Some threads share the last slot.
        const SLOTS_EXHAUSTED = layout::FLAG_SLOTS_EXHAUSTED;
        /// Threads without a CPU are not parked any more: iterations of a loop waited for one another.
        const PARKING_ENDED = layout::FLAG_PARKING_ENDED;
        /// Threads of virtual teams that take turns share thread-local storage.
        const STORAGE_SHARED = layout::FLAG_STORAGE_SHARED;
        /// A copy of libomp is linked in that the shim only observes, through OMPT.
        const OBSERVED = layout::FLAG_OBSERVED;
    }
}

/// Why the teams of an application do not follow its allocation, or are not virtual ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum TeamsOff {
    /// The program called `omp_set_num_threads`.
    SetNumThreads = layout::TEAMS_OFF_SET_NUM_THREADS,
    /// The program called `omp_set_dynamic(0)`.
    SetDynamic = layout::TEAMS_OFF_SET_DYNAMIC,
    /// The program gives its regions a `num_threads` clause.
    Clause = layout::TEAMS_OFF_CLAUSE,
    /// A module has ordered or doacross loops.
    Ordered = layout::TEAMS_OFF_ORDERED,
    /// A module has tasks.
    Tasks = layout::TEAMS_OFF_TASKS,
    /// A module has reductions over tasks.
    TaskReduction = layout::TEAMS_OFF_TASK_REDUCTION,
    /// A module cancels constructs.
    Cancellation = layout::TEAMS_OFF_CANCELLATION,
    /// A module has teams or target regions.
    Offloading = layout::TEAMS_OFF_OFFLOADING,
    /// A module was compiled with a sanitizer.
    Sanitizer = layout::TEAMS_OFF_SANITIZER,
    /// A module binds state to the kernel's threads: priority-inheriting or robust mutexes, restartable
    /// sequences.
    ThreadBound = layout::TEAMS_OFF_THREAD_BOUND,
    /// The environment binds threads to places.
    Binding = layout::TEAMS_OFF_BINDING,
    /// The environment gives sizes for nested teams.
    NestedSizes = layout::TEAMS_OFF_NESTED_SIZES,
    /// The kernel lacks something that virtual teams need.
    Platform = layout::TEAMS_OFF_PLATFORM,
    /// A module uses an entry point of the runtime's that virtual teams do not serve.
    Unserved = layout::TEAMS_OFF_UNSERVED,
    /// Threads waited for one another without OpenMP; virtual teams were given up.
    Stalled = layout::TEAMS_OFF_STALLED,
    /// The program lets the runtime choose the sizes of its teams.
    Dynamic = layout::TEAMS_OFF_DYNAMIC,
    /// A team is larger than virtual teams, or the program's threads, can be.
    TooLarge = layout::TEAMS_OFF_TOO_LARGE,
    /// The shim only observes the teams, and finds no way to set their size.
    Observed = layout::TEAMS_OFF_OBSERVED,
    /// The shim's thread that watches over virtual teams failed; they were given up.
    Unwatched = layout::TEAMS_OFF_UNWATCHED,
    /// The program looks up functions of the runtime's by a handle of its library, past the shim.
    ByHandle = layout::TEAMS_OFF_BY_HANDLE,
    /// A module with constructs of OpenMP sets what the kernel keeps for each thread (priorities, CPU masks), or
    /// addresses single threads (signals).
    KernelState = layout::TEAMS_OFF_KERNEL_STATE,
}

impl TeamsOff {
    /// The reason that a number read from the page stands for.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            layout::TEAMS_OFF_SET_NUM_THREADS => Some(Self::SetNumThreads),
            layout::TEAMS_OFF_SET_DYNAMIC => Some(Self::SetDynamic),
            layout::TEAMS_OFF_CLAUSE => Some(Self::Clause),
            layout::TEAMS_OFF_ORDERED => Some(Self::Ordered),
            layout::TEAMS_OFF_TASKS => Some(Self::Tasks),
            layout::TEAMS_OFF_TASK_REDUCTION => Some(Self::TaskReduction),
            layout::TEAMS_OFF_CANCELLATION => Some(Self::Cancellation),
            layout::TEAMS_OFF_OFFLOADING => Some(Self::Offloading),
            layout::TEAMS_OFF_SANITIZER => Some(Self::Sanitizer),
            layout::TEAMS_OFF_THREAD_BOUND => Some(Self::ThreadBound),
            layout::TEAMS_OFF_BINDING => Some(Self::Binding),
            layout::TEAMS_OFF_NESTED_SIZES => Some(Self::NestedSizes),
            layout::TEAMS_OFF_PLATFORM => Some(Self::Platform),
            layout::TEAMS_OFF_UNSERVED => Some(Self::Unserved),
            layout::TEAMS_OFF_STALLED => Some(Self::Stalled),
            layout::TEAMS_OFF_DYNAMIC => Some(Self::Dynamic),
            layout::TEAMS_OFF_TOO_LARGE => Some(Self::TooLarge),
            layout::TEAMS_OFF_OBSERVED => Some(Self::Observed),
            layout::TEAMS_OFF_UNWATCHED => Some(Self::Unwatched),
            layout::TEAMS_OFF_BY_HANDLE => Some(Self::ByHandle),
            layout::TEAMS_OFF_KERNEL_STATE => Some(Self::KernelState),
            _ => None,
        }
    }
}

/// In a sentence for people.
impl fmt::Display for TeamsOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentence = match self {
            Self::SetNumThreads => "teams do not follow: it calls omp_set_num_threads",
            Self::SetDynamic => "teams do not follow: it calls omp_set_dynamic(0)",
            Self::Clause => "teams do not follow: it gives its regions a num_threads clause",
            Self::Observed => {
                "teams do not follow: its libomp is only observed, and offers no way to set team sizes"
            }
            Self::Ordered => "teams are not virtual: it has ordered or doacross loops",
            Self::Tasks => "teams are not virtual: it has tasks",
            Self::TaskReduction => "teams are not virtual: it has reductions over tasks",
            Self::Cancellation => "teams are not virtual: it cancels constructs",
            Self::Offloading => "teams are not virtual: it has teams or target regions",
            Self::Sanitizer => "teams are not virtual: it was compiled with a sanitizer",
            Self::ThreadBound => {
                "teams are not virtual: it uses robust or priority-inheriting mutexes, or restartable \
                 sequences, which belong to the kernel's threads"
            }
            Self::KernelState => {
                "teams are not virtual: code with OpenMP constructs changes kernel settings of single threads, or \
                 signals single threads (priority, CPU mask, prctl, pthread_kill)"
            }
            Self::Binding => {
                "teams are not virtual: OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY binds its threads"
            }
            Self::NestedSizes => {
                "teams are not virtual: OMP_NUM_THREADS gives sizes for nested teams"
            }
            Self::Platform => {
                "teams are not virtual: the kernel lacks membarrier, or the program has a shadow stack"
            }
            Self::Unserved => {
                "teams are not virtual: it calls functions of libgomp that virtual teams do not support"
            }
            Self::Dynamic => {
                "teams are not virtual: OMP_DYNAMIC or omp_set_dynamic lets the runtime choose their sizes; \
                 use --teams follow"
            }
            Self::TooLarge => {
                "some teams are not virtual: they have more than 512 threads, or more than OMP_THREAD_LIMIT \
                 or the system allows"
            }
            Self::Unwatched => {
                "teams are not virtual any more: mapper's watcher thread in the program failed; this is a bug in mapper: \
                 please report the program's standard error"
            }
            Self::ByHandle => {
                "teams are not virtual: it looks up functions of the OpenMP runtime with dlsym or ctypes, which \
                 bypasses mapper"
            }
            Self::Stalled => {
                "teams are not virtual any more: its threads wait for each other outside OpenMP, sleep, or have \
                 very unequal work between constructs"
            }
        };
        f.write_str(sentence)
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
    /// CPUs, of those it has now, that its regions do not need; 0 until it has applied the allocation
    /// that is in force.
    pub spare_cpus: u32,
    /// How often threads of a virtual team had to be run beside their carrier, for another one did not
    /// come to a construct of OpenMP in time.
    pub preemptions: u32,
}

impl RuntimeReport {
    /// Whether an OpenMP runtime has attached to the page.
    #[must_use]
    pub const fn attached(&self) -> bool {
        !self.runtimes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which program gets which is shown in `mapperd/tests/runtime_interface.rs`.
    #[test]
    fn every_reason_for_other_teams_than_asked_for_has_a_sentence_of_its_own() {
        let reasons: Vec<TeamsOff> = (0..100).filter_map(TeamsOff::from_raw).collect();
        assert!(reasons.contains(&TeamsOff::Platform), "{reasons:?}");
        let mut notes: Vec<String> = reasons.iter().map(TeamsOff::to_string).collect();
        for note in &notes {
            let (teams, why) = note.split_once(": ").unwrap();
            assert!(teams.contains("teams") && !why.is_empty(), "{note}");
        }
        let count = notes.len();
        notes.sort_unstable();
        notes.dedup();
        assert_eq!(notes.len(), count);
    }
}
