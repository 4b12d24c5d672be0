//! What the kernel keeps for each of its threads, and a member of a virtual team does not take with it when it changes
//! its OS thread: priority, CPU mask, timer slack, signals sent there.
//!
//! *Approach.* A module with OpenMP constructs that imports a function that sets such a thing, or sends something to a
//! single thread, refuses virtual teams. One without constructs does not: Python's interpreter and OpenBLAS import such
//! functions and do not use them within regions. Functions that only tell are admitted, and so are those that other
//! parts of the shim correct: signal masks and alternate stacks, users and groups, names, and those for which a member's
//! own OS thread makes the call ([`super::kernel_settings`]).
//!
//! *Bounds.* `clock_gettime`, `getrusage`, `timer_create` and `syscall`, which mostly do no harm, are admitted. What a
//! library without constructs does when it is called within a region is not noticed.

use core::ffi::CStr;

/// Prefixes of the runtime's functions, which only modules with constructs or code called within them import.
const OPENMP: [&[u8]; 2] = [b"GOMP_", b"omp_"];

/// But for this one, by which libraries with threads of their own (OpenBLAS) test whether they are in a region.
const ASKED_BY_OTHERS: &[u8] = b"omp_in_parallel";

/// Functions that set what is a thread's own, or address a single thread.
const FUNCTIONS: [&[u8]; 4] = [
    // Signals, and cancellation at any instruction.
    b"pthread_kill pthread_sigqueue tgkill pthread_setcanceltype",
    // Scheduling.
    b"sched_setattr",
    // Places.
    b"set_mempolicy numa_bind numa_run_on_node numa_run_on_node_mask numa_run_on_node_mask_all numa_sched_setaffinity \
      hwloc_set_cpubind hwloc_set_thread_cpubind",
    // Clocks, rights and namespaces.
    b"pthread_getcpuclockid setfsuid setfsgid capset cap_set_proc unshare setns",
];

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Imports {
    has_constructs: bool,
    sets_state: bool,
}

impl Imports {
    pub(super) fn note(&mut self, name: &CStr) {
        let name = name.to_bytes();
        self.has_constructs |=
            OPENMP.iter().any(|prefix| name.starts_with(prefix)) && name != ASKED_BY_OTHERS;
        let is_listed = |list: &&[u8]| list.split(|byte| *byte == b' ').any(|word| word == name);
        self.sets_state |= FUNCTIONS.iter().any(is_listed)
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

    fn may_set(names: &str) -> bool {
        let mut imports = Imports::default();
        for name in names.split_ascii_whitespace() {
            imports.note(&std::ffi::CString::new(name).unwrap());
        }
        imports.may_set_within_regions()
    }

    #[test]
    fn a_module_with_constructs_that_changes_kernel_state_is_recognised() {
        let setters =
            "sched_setattr pthread_kill numa_set_preferred unshare hwloc_set_membind_nodeset";
        for setter in setters.split_ascii_whitespace() {
            for constructs in [
                "GOMP_parallel malloc",
                "GOMP_loop_dynamic_next",
                "omp_get_thread_num_",
            ] {
                assert!(may_set(&format!("{constructs} {setter}")), "{setter}");
                assert!(may_set(&format!("{setter} {constructs}")), "{setter}");
            }
        }
    }

    #[test]
    fn a_module_without_constructs_may_set_what_it_likes() {
        // As Python's interpreter, and OpenBLAS with threads of its own.
        assert!(!may_set("set_mempolicy pthread_kill sched_setattr unshare"));
        assert!(!may_set("pthread_kill syscall"));
        assert!(!may_set("pthread_kill omp_in_parallel"));
    }

    #[test]
    fn what_tells_or_is_corrected_elsewhere_is_admitted() {
        assert!(!may_set(
            "GOMP_parallel sched_getaffinity pthread_getaffinity_np pthread_getschedparam getpriority \
            sched_yield sched_getcpu pthread_setname_np pthread_sigmask sigaltstack setuid raise \
            prctl nice setpriority sched_setscheduler sched_setaffinity pthread_setaffinity_np \
            pthread_cancel clock_gettime numa_available niceness"
        ));
    }
}
