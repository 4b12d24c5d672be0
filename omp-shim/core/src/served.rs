//! What functions that a module imports say about teams of logical threads.

use mapper_abi::TeamsOff;

use crate::symbols::{Function, InTeams};

/// What importing a function of this name says.
pub fn obstacle(name: &[u8]) -> Option<TeamsOff> {
    let name = core::str::from_utf8(name).ok()?;
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if begins(&["GOMP_", "GOACC_", "omp_fulfill_event"]) {
        return (!is_served(name)).then(|| construct(name));
    }
    // Pausing ends the runtime's threads, whose threadprivate data start anew, but members live on. Members do not get
    // the default device. What the affinity functions report is about the runtime's own threads and teams.
    if begins(&[
        "omp_pause_resource",
        "omp_set_default_device",
        "omp_capture_affinity",
        "omp_display_affinity",
    ]) {
        return Some(TeamsOff::Unserved);
    }
    // Hooks that the runtime of every sanitizer looks up: they show one that is linked statically too. Where the shim alone
    // is checked, only its own runtime is there.
    let hooks = [
        "__asan_",
        "__hwasan_",
        "__msan_",
        "__tsan_",
        "__sanitizer_symbolize_",
    ];
    if !cfg!(mapper_beside_sanitizer) && begins(&hooks) {
        return Some(TeamsOff::Sanitizer);
    }
    let thread_bound = [
        "pthread_mutexattr_setprotocol",
        "pthread_mutexattr_setrobust",
        "__rseq_abi",
        "__rseq_offset",
        "rseq_register_current_thread",
        "rseq_offset",
    ];
    thread_bound
        .contains(&name)
        .then_some(TeamsOff::ThreadBound)
}

fn is_served(name: &str) -> bool {
    Function::of(name).is_some_and(|function| function.in_teams == InTeams::Supported)
}

fn construct(name: &str) -> TeamsOff {
    let has = |part: &str| name.contains(part);
    if has("doacross") || has("ordered") {
        TeamsOff::Ordered
    } else if has("reduction") || has("scope") {
        TeamsOff::TaskReduction
    } else if has("task") || has("fulfill") {
        TeamsOff::Tasks
    } else if has("cancel") {
        TeamsOff::Cancellation
    } else if ["teams", "target", "GOACC", "GOMP_PLUGIN", "GOMP_offload"]
        .into_iter()
        .any(has)
    {
        TeamsOff::Offloading
    } else {
        TeamsOff::Unserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Option<TeamsOff> {
        obstacle(name.as_bytes())
    }

    #[test]
    fn what_is_dispensed_to_logical_threads_is_admitted() {
        for name in "GOMP_parallel GOMP_barrier GOMP_loop_dynamic_next GOMP_critical_name_start \
            GOMP_loop_ull_maybe_nonmonotonic_runtime_start GOMP_sections_end_nowait \
            GOMP_parallel_loop_runtime_start GOMP_parallel_end GOMP_loop_ull_start \
            GOMP_loop_ordered_static_next GOMP_ordered_start GOMP_ordered_end \
            GOMP_task GOMP_taskloop_ull GOMP_taskwait_depend GOMP_taskgroup_end \
            omp_get_thread_num malloc"
            .split_whitespace()
            // libomp cancels its own threads by the first; libraries offer the other for sanitizers.
            .chain(["pthread_setcanceltype", "__sanitizer_start_switch_fiber"])
        {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn the_rest_is_refused_by_what_it_is() {
        for (name, off) in [
            ("GOMP_taskwait_depend_nowait", TeamsOff::Tasks),
            ("omp_fulfill_event", TeamsOff::Tasks),
            ("GOMP_doacross_wait", TeamsOff::Ordered),
            ("GOMP_loop_ull_doacross_runtime_start", TeamsOff::Ordered),
            ("GOMP_barrier_cancel", TeamsOff::Cancellation),
            ("GOMP_teams4", TeamsOff::Offloading),
            ("GOMP_target_ext", TeamsOff::Offloading),
            ("GOMP_parallel_reductions", TeamsOff::TaskReduction),
            ("GOMP_taskgroup_reduction_register", TeamsOff::TaskReduction),
            ("GOMP_something_new", TeamsOff::Unserved),
            ("omp_pause_resource_all_", TeamsOff::Unserved),
            ("omp_set_default_device", TeamsOff::Unserved),
            ("omp_capture_affinity_", TeamsOff::Unserved),
            ("__tsan_init", TeamsOff::Sanitizer),
            ("__sanitizer_symbolize_code", TeamsOff::Sanitizer),
            ("pthread_mutexattr_setprotocol", TeamsOff::ThreadBound),
        ] {
            assert_eq!(of(name), Some(off), "{name}");
        }
    }

    /// The functions for gcc's code that the libgomp of this machine has.
    fn entry_points() -> Vec<String> {
        let run = |command: &mut std::process::Command| {
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let mut gcc = std::process::Command::new("gcc");
        let path = run(gcc.arg("-print-file-name=libgomp.so.1"));
        let mut readelf = std::process::Command::new("readelf");
        let symbols = run(readelf.args(["--dyn-syms", "--wide", path.trim()]));
        let names = symbols.lines().filter_map(|line| {
            let columns: Vec<_> = line.split_whitespace().collect();
            let name = columns.get(7)?.split('@').next()?;
            let is_function = columns.get(3) == Some(&"FUNC") && columns.get(6) != Some(&"UND");
            (is_function && name.starts_with("GOMP_")).then(|| name.to_owned())
        });
        names.collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "starts a program")]
    fn of_every_function_of_the_installed_runtime_it_is_known_what_it_is_for() {
        let names = entry_points();
        assert!(names.len() > 100, "{names:?}");
        for name in names {
            assert_ne!(of(&name), Some(TeamsOff::Unserved), "{name}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "starts a program")]
    fn what_is_admitted_and_concerns_teams_is_exported_by_the_shim() {
        // The last does nothing in libgomp: the turn is passed on with the next chunk.
        let elsewhere = [
            "GOMP_alloc",
            "GOMP_free",
            "GOMP_warning",
            "GOMP_error",
            "GOMP_ordered_end",
        ];
        for name in entry_points() {
            if of(&name).is_none() && !elsewhere.contains(&name.as_str()) {
                let own = crate::symbols::Symbol::INTERPOSED.contains(&name.as_str());
                assert!(own, "{name}");
            }
        }
    }
}
