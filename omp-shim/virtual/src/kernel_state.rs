//! What the kernel keeps for each of its threads, and a member of a virtual team does not take with it.
//!
//! *Problem.* A member may run on one OS thread before a barrier and on another one behind it. A priority, a CPU mask or a
//! timer slack that it has set stays with the first, and a signal that is sent to it interrupts whoever runs
//! there. To exchange all that with every change of members would take many system calls; some of it cannot be
//! set back (a higher priority, capabilities).
//!
//! *Approach.* A module that has constructs of OpenMP and imports a function that sets such a thing, or sends
//! something to a single thread, refuses virtual teams. One without constructs does not: Python's interpreter imports
//! many of these functions, OpenBLAS those for CPU masks, and neither uses them within regions.
//!
//! *What only tells* (`pthread_getschedparam`, `sched_getaffinity`, `getpriority`) is admitted: where nobody sets,
//! all threads have the same. So are the functions that other parts of the shim make right: signal masks and alternate
//! stacks, users and groups, names.
//!
//! *Bounds.* A function says by a number what it asks of the kernel in `clock_gettime`, `getrusage`, `timer_create` and
//! `syscall`, which programs import for much that is harmless: they are admitted. Nor is noticed what a library without
//! constructs does when it is called within a region.

use core::ffi::CStr;

/// What begins the names of functions of the runtime: only modules with constructs, or code made to be called
/// within them, import these.
const OPENMP: [&[u8]; 2] = [b"GOMP_", b"omp_"];

/// Save for this one, by which libraries with threads of their own (OpenBLAS, as Python's packages bring it) ask
/// whether they are called within a region.
const ASKED_BY_OTHERS: &[u8] = b"omp_in_parallel";

/// Functions that set what is a thread's own, or address a single thread.
const FUNCTIONS: [&[u8]; 29] = [
    // Signals and cancellation that come at any instruction.
    b"pthread_kill",
    b"pthread_sigqueue",
    b"tgkill",
    b"pthread_setcanceltype",
    // Scheduling.
    b"pthread_setschedparam",
    b"pthread_setschedprio",
    b"sched_setscheduler",
    b"sched_setparam",
    b"sched_setattr",
    b"setpriority",
    b"nice",
    // Places.
    b"pthread_setaffinity_np",
    b"sched_setaffinity",
    b"set_mempolicy",
    b"numa_bind",
    b"numa_run_on_node",
    b"numa_run_on_node_mask",
    b"numa_run_on_node_mask_all",
    b"numa_sched_setaffinity",
    b"hwloc_set_cpubind",
    b"hwloc_set_thread_cpubind",
    // Clocks.
    b"pthread_getcpuclockid",
    // Rights and namespaces.
    b"setfsuid",
    b"setfsgid",
    b"capset",
    b"cap_set_proc",
    b"unshare",
    b"setns",
    // Timer slack, secure bits, names by another way than `pthread_setname_np`, …
    b"prctl",
];

/// What the imports of one module say.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Imports {
    has_constructs: bool,
    sets_state: bool,
}

impl Imports {
    /// The module imports this.
    pub(super) fn note(&mut self, name: &CStr) {
        let name = name.to_bytes();
        self.has_constructs |=
            OPENMP.iter().any(|prefix| name.starts_with(prefix)) && name != ASKED_BY_OTHERS;
        self.sets_state |= FUNCTIONS.contains(&name)
            || name.starts_with(b"numa_set_")
            || name.starts_with(b"hwloc_set_membind");
    }

    /// Whether members that run the module's code may set what does not stay theirs.
    pub(super) fn may_set_within_regions(self) -> bool {
        self.has_constructs && self.sets_state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_set(names: &[&CStr]) -> bool {
        let mut imports = Imports::default();
        names.iter().for_each(|name| imports.note(name));
        imports.may_set_within_regions()
    }

    #[test]
    fn a_module_with_constructs_that_changes_kernel_state_is_recognised() {
        for setter in [
            c"prctl",
            c"nice",
            c"pthread_kill",
            c"pthread_setaffinity_np",
            c"numa_set_preferred",
            c"hwloc_set_membind_nodeset",
        ] {
            assert!(
                may_set(&[c"GOMP_parallel", c"malloc", setter]),
                "{setter:?}"
            );
            assert!(may_set(&[setter, c"GOMP_loop_dynamic_next"]), "{setter:?}");
            assert!(may_set(&[setter, c"omp_get_thread_num_"]), "{setter:?}");
        }
    }

    #[test]
    fn a_module_without_constructs_may_set_what_it_likes() {
        // As Python's interpreter, and OpenBLAS with threads of its own.
        let interpreter = [c"prctl", c"pthread_kill", c"sched_setaffinity", c"nice"];
        assert!(!may_set(&interpreter));
        assert!(!may_set(&[c"pthread_setaffinity_np", c"syscall"]));
        assert!(!may_set(&[c"pthread_setaffinity_np", c"omp_in_parallel"]));
    }

    #[test]
    fn what_tells_or_is_made_right_elsewhere_is_admitted() {
        for name in [
            c"sched_getaffinity",
            c"pthread_getaffinity_np",
            c"pthread_getschedparam",
            c"getpriority",
            c"sched_yield",
            c"sched_getcpu",
            c"pthread_setname_np",
            c"pthread_sigmask",
            c"sigaltstack",
            c"setuid",
            c"raise",
            c"pthread_cancel",
            c"clock_gettime",
            c"numa_available",
            c"niceness",
        ] {
            assert!(!may_set(&[c"GOMP_parallel", name]), "{name:?}");
        }
    }
}
