//! What an application reports about itself as a whole, as plain bounded values.

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
        /// Barriers may spin for long: the program should not get fewer CPUs than it has threads.
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

/// Why the teams of an application do not follow its allocation, or are not virtual, in a sentence for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug, strum::Display, strum::FromRepr)]
#[repr(u32)]
pub enum TeamsOff {
    /// The program called `omp_set_num_threads`.
    #[strum(to_string = "teams do not follow: it calls omp_set_num_threads")]
    SetNumThreads = layout::TEAMS_OFF_SET_NUM_THREADS,
    /// The program called `omp_set_dynamic(0)`.
    #[strum(to_string = "teams do not follow: it calls omp_set_dynamic(0)")]
    SetDynamic = layout::TEAMS_OFF_SET_DYNAMIC,
    /// The program gives its regions a `num_threads` clause.
    #[strum(to_string = "teams do not follow: it gives its regions a num_threads clause")]
    Clause = layout::TEAMS_OFF_CLAUSE,
    /// A module has doacross loops.
    #[strum(to_string = "teams are not virtual: it has doacross loops")]
    Ordered = layout::TEAMS_OFF_ORDERED,
    /// A module has tasks that end by an event.
    #[strum(to_string = "teams are not virtual: it has detached tasks or taskwait nowait")]
    Tasks = layout::TEAMS_OFF_TASKS,
    /// A module has reductions over tasks.
    #[strum(to_string = "teams are not virtual: it has reductions over tasks")]
    TaskReduction = layout::TEAMS_OFF_TASK_REDUCTION,
    /// A module cancels constructs.
    #[strum(to_string = "teams are not virtual: it cancels constructs")]
    Cancellation = layout::TEAMS_OFF_CANCELLATION,
    /// A module has teams or target regions.
    #[strum(to_string = "teams are not virtual: it has teams or target regions")]
    Offloading = layout::TEAMS_OFF_OFFLOADING,
    /// A module was compiled with a sanitizer.
    #[strum(to_string = "teams are not virtual: it was compiled with a sanitizer")]
    Sanitizer = layout::TEAMS_OFF_SANITIZER,
    /// A module binds state to the kernel's threads.
    #[strum(
        to_string = "teams are not virtual: it uses robust or priority-inheriting mutexes, or restartable \
                     sequences, which belong to the kernel's threads"
    )]
    ThreadBound = layout::TEAMS_OFF_THREAD_BOUND,
    /// The environment binds threads to places.
    #[strum(
        to_string = "teams are not virtual: OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY binds its threads"
    )]
    Binding = layout::TEAMS_OFF_BINDING,
    /// The environment gives sizes for nested teams.
    #[strum(to_string = "teams are not virtual: OMP_NUM_THREADS gives sizes for nested teams")]
    NestedSizes = layout::TEAMS_OFF_NESTED_SIZES,
    /// The kernel lacks something that virtual teams need.
    #[strum(
        to_string = "teams are not virtual: the kernel lacks membarrier, or the program has a shadow stack"
    )]
    Platform = layout::TEAMS_OFF_PLATFORM,
    /// A module uses an entry point of the runtime's that virtual teams do not support.
    #[strum(
        to_string = "teams are not virtual: it calls functions of libgomp that virtual teams do not support"
    )]
    Unserved = layout::TEAMS_OFF_UNSERVED,
    /// Threads waited for one another without OpenMP; virtual teams were given up.
    #[strum(
        to_string = "teams are not virtual any more: its threads wait for each other outside OpenMP, sleep, or have \
                     very unequal work between constructs"
    )]
    Stalled = layout::TEAMS_OFF_STALLED,
    /// The program lets the runtime choose the sizes of its teams.
    #[strum(
        to_string = "teams are not virtual: OMP_DYNAMIC or omp_set_dynamic lets the runtime choose their sizes; \
                     use --teams follow"
    )]
    Dynamic = layout::TEAMS_OFF_DYNAMIC,
    /// A team is larger than virtual teams, or the program's threads, can be.
    #[strum(
        to_string = "some teams are not virtual: they have more than 512 threads, or more than OMP_THREAD_LIMIT \
                     or the system allows"
    )]
    TooLarge = layout::TEAMS_OFF_TOO_LARGE,
    /// The shim only observes the teams, and cannot set their size.
    #[strum(
        to_string = "teams do not follow: its libomp is only observed, and offers no way to set team sizes"
    )]
    Observed = layout::TEAMS_OFF_OBSERVED,
    /// The shim's thread that monitors virtual teams failed; they were given up.
    #[strum(
        to_string = "teams are not virtual any more: mapper's watcher thread in the program failed; this is a bug in \
                     mapper: please report the program's standard error"
    )]
    Unwatched = layout::TEAMS_OFF_UNWATCHED,
    /// The program looks up functions of the runtime's by a handle of its library, past the shim.
    #[strum(
        to_string = "teams are not virtual: it looks up functions of the OpenMP runtime with dlsym or ctypes, which \
                     bypasses mapper"
    )]
    ByHandle = layout::TEAMS_OFF_BY_HANDLE,
    /// Its threads change what the kernel keeps for each of them, or a module with constructs of OpenMP may do so or signals
    /// single threads.
    #[strum(
        to_string = "teams are not virtual: its threads change kernel settings of their own, or signal each other \
                     (priority, prctl, memory policy, pthread_kill)"
    )]
    KernelState = layout::TEAMS_OFF_KERNEL_STATE,
    /// Threads waited for one another by spinning; virtual teams were given up.
    #[strum(
        to_string = "teams are not virtual any more: its threads wait for each other by spinning"
    )]
    Spun = layout::TEAMS_OFF_SPUN,
}

/// What an application reports about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuntimeReport {
    /// OpenMP runtimes in use; none before the first region or loop.
    pub runtimes: Runtimes,
    /// What the shim found out.
    pub flags: ReportFlags,
    /// Why teams do not follow the allocation; `None` when they do or need not.
    pub teams_off: Option<TeamsOff>,
    /// The allocation that the latest outermost region was started under.
    pub applied: Generation,
    /// The team size requested at that region; 0 before the first.
    pub team_size: u32,
    /// The program's own team size; 0 before its first region.
    pub max_threads: u32,
    /// CPUs of the present allocation that its regions do not need; 0 until it has applied that allocation.
    pub spare_cpus: u32,
    /// How often threads of a virtual team had to be run beside their carrier, since another one did not reach a
    /// construct of OpenMP in time.
    pub preemptions: u32,
}

impl RuntimeReport {
    /// Whether an OpenMP runtime has attached to the page.
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
        let reasons: Vec<TeamsOff> = (0..100).filter_map(TeamsOff::from_repr).collect();
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
