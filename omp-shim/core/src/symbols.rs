//! The functions of the OpenMP runtimes: one table of what each of them is, for the exported symbols,
//! [`crate::served`], shared thread-local storage and [`crate::looked_up`]. Tests compare it with the exports and with
//! the machine's libgomp.

use core::ffi::CStr;

/// What virtual teams make of a call of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InTeams {
    /// It is right for logical threads.
    Supported,
    /// A program that calls it keeps real teams.
    Unsupported,
}

/// Whether a function, when it returns, may leave something in thread-local storage that the program uses later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorageUse {
    /// It does not.
    KeepsNothing,
    /// It may.
    Touches,
}

bitflags::bitflags! {
    /// What a program can do by the address of a function, past the shim.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Uses: u32 {
        /// Nothing that concerns the shim.
        const NONE = 0;
        /// Set sizes of teams.
        const NUM_THREADS = 1 << 0;
        /// Set whether they are exact.
        const DYNAMIC = 1 << 1;
        /// Set something else that members have from the thread that begins their region.
        const SETTING = 1 << 2;
        /// Something that is different in a virtual team.
        const TEAM = 1 << 3;
        /// Two of these.
        const NUM_THREADS_AND_TEAM = Self::NUM_THREADS.bits() | Self::TEAM.bits();
    }
}

/// What is known of a function of an OpenMP runtime: a row of the table below.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its linker name.
    pub name: &'static str,
    /// In virtual teams.
    pub in_teams: InTeams,
    /// In thread-local storage.
    pub storage: StorageUse,
    /// Where it is looked up by a handle.
    pub by_handle: Uses,
}

impl Function {
    /// The row of that name.
    pub fn of(name: &str) -> Option<&'static Self> {
        FUNCTIONS.iter().find(|function| function.name == name)
    }
}

macro_rules! symbols {
    ($(exported $teams:ident $storage:ident $uses:ident { $($name:ident)* })*
     $(called $called_teams:ident $called_storage:ident $called_uses:ident { $($called:ident)* })*
     $(known $known_teams:ident $known_storage:ident $known_uses:ident { $($known:ident)* })*) => {
        /// A function of an OpenMP runtime, under its linker name.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        #[allow(non_camel_case_types, missing_docs, reason = "the names are those of the functions")]
        pub enum Symbol {
            $($($name,)*)*
            $($($called,)*)*
        }

        impl Symbol {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Symbol] = &[$($(Symbol::$name,)*)* $($(Symbol::$called,)*)*];
            /// Names of those that the shim exports itself.
            pub const INTERPOSED: &[&str] = &[$($(stringify!($name),)*)*];

            /// Its linker name.
            pub const fn name(self) -> &'static CStr {
                match self {
                    $($(Symbol::$name => c_name(concat!(stringify!($name), "\0")),)*)*
                    $($(Symbol::$called => c_name(concat!(stringify!($called), "\0")),)*)*
                }
            }
        }

        /// All functions that the shim knows.
        pub const FUNCTIONS: &[Function] = &[
            $($(row!($name $teams $storage $uses),)*)*
            $($(row!($called $called_teams $called_storage $called_uses),)*)*
            $($(row!($known $known_teams $known_storage $known_uses),)*)*
        ];
    };
}

macro_rules! row {
    ($name:ident $teams:ident $storage:ident $uses:ident) => {
        Function {
            name: stringify!($name),
            in_teams: InTeams::$teams,
            storage: StorageUse::$storage,
            by_handle: Uses::$uses,
        }
    };
}

/// The C string of a name with the NUL behind it; an empty one if there is none.
pub const fn c_name(terminated: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(terminated.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

symbols! {
    // Answered for logical threads; keeps nothing in thread-local storage.
    exported Supported KeepsNothing TEAM {
        GOMP_parallel
        GOMP_parallel_sections
        GOMP_parallel_loop_static
        GOMP_parallel_loop_dynamic
        GOMP_parallel_loop_guided
        GOMP_parallel_loop_runtime
        GOMP_parallel_loop_nonmonotonic_dynamic
        GOMP_parallel_loop_nonmonotonic_guided
        GOMP_parallel_loop_nonmonotonic_runtime
        GOMP_parallel_loop_maybe_nonmonotonic_runtime
        GOMP_loop_dynamic_start
        GOMP_loop_guided_start
        GOMP_loop_nonmonotonic_dynamic_start
        GOMP_loop_nonmonotonic_guided_start
        GOMP_loop_runtime_start
        GOMP_loop_nonmonotonic_runtime_start
        GOMP_loop_maybe_nonmonotonic_runtime_start
        GOMP_loop_dynamic_next
        GOMP_loop_guided_next
        GOMP_loop_nonmonotonic_dynamic_next
        GOMP_loop_nonmonotonic_guided_next
        GOMP_loop_runtime_next
        GOMP_loop_nonmonotonic_runtime_next
        GOMP_loop_maybe_nonmonotonic_runtime_next
        GOMP_loop_ull_dynamic_start
        GOMP_loop_ull_guided_start
        GOMP_loop_ull_nonmonotonic_dynamic_start
        GOMP_loop_ull_nonmonotonic_guided_start
        GOMP_loop_ull_runtime_start
        GOMP_loop_ull_nonmonotonic_runtime_start
        GOMP_loop_ull_maybe_nonmonotonic_runtime_start
        GOMP_loop_ull_dynamic_next
        GOMP_loop_ull_guided_next
        GOMP_loop_ull_nonmonotonic_dynamic_next
        GOMP_loop_ull_nonmonotonic_guided_next
        GOMP_loop_ull_runtime_next
        GOMP_loop_ull_nonmonotonic_runtime_next
        GOMP_loop_ull_maybe_nonmonotonic_runtime_next
        GOMP_loop_static_start
        GOMP_loop_static_next
        GOMP_loop_ull_static_start
        GOMP_loop_ull_static_next
        GOMP_loop_ordered_static_start
        GOMP_loop_ordered_dynamic_start
        GOMP_loop_ordered_guided_start
        GOMP_loop_ordered_runtime_start
        GOMP_loop_ordered_start
        GOMP_loop_ull_ordered_static_start
        GOMP_loop_ull_ordered_dynamic_start
        GOMP_loop_ull_ordered_guided_start
        GOMP_loop_ull_ordered_runtime_start
        GOMP_loop_ull_ordered_start
        GOMP_loop_ordered_static_next
        GOMP_loop_ordered_dynamic_next
        GOMP_loop_ordered_guided_next
        GOMP_loop_ordered_runtime_next
        GOMP_loop_ull_ordered_static_next
        GOMP_loop_ull_ordered_dynamic_next
        GOMP_loop_ull_ordered_guided_next
        GOMP_loop_ull_ordered_runtime_next
        GOMP_ordered_start
        GOMP_loop_end
        GOMP_loop_end_nowait
        GOMP_loop_start
        GOMP_loop_ull_start
        GOMP_sections2_start
        GOMP_sections_start
        GOMP_sections_next
        GOMP_sections_end
        GOMP_sections_end_nowait
        GOMP_single_start
        GOMP_single_copy_start
        GOMP_single_copy_end
        GOMP_barrier
        GOMP_critical_start
        GOMP_critical_end
        GOMP_critical_name_start
        GOMP_critical_name_end
        GOMP_atomic_start
        GOMP_atomic_end
        omp_get_thread_num
        omp_get_num_threads
        omp_in_parallel
        omp_get_level
        omp_get_active_level
        omp_get_ancestor_thread_num
        omp_get_team_size
        omp_set_lock
        omp_test_lock
    }
    // Answered for logical threads; may keep something in thread-local storage.
    exported Supported Touches TEAM {
        GOMP_task
        GOMP_taskloop
        GOMP_taskloop_ull
        GOMP_taskwait
        GOMP_taskwait_depend
        GOMP_taskyield
        GOMP_taskgroup_start
        GOMP_taskgroup_end
        omp_in_final
        omp_in_final_
        GOMP_parallel_start
        GOMP_parallel_sections_start
        GOMP_parallel_loop_static_start
        GOMP_parallel_loop_dynamic_start
        GOMP_parallel_loop_guided_start
        GOMP_parallel_loop_runtime_start
        GOMP_parallel_end
        omp_get_thread_num_
        omp_get_num_threads_
        omp_in_parallel_
        omp_get_level_
        omp_get_active_level_
        omp_get_ancestor_thread_num_
        omp_get_ancestor_thread_num_8_
        omp_get_team_size_
        omp_get_team_size_8_
        omp_set_lock_
        omp_test_lock_
        omp_set_nest_lock
        omp_set_nest_lock_
        omp_test_nest_lock
        omp_test_nest_lock_
    }
    // What a program sees of the machine.
    exported Supported KeepsNothing NONE {
        omp_get_num_procs
        omp_get_num_procs_
    }
    // Settings, which the runtime keeps for each thread.
    exported Supported Touches NUM_THREADS {
        omp_set_num_threads
        omp_set_num_threads_
        omp_set_num_threads_8_
    }
    exported Supported Touches DYNAMIC {
        omp_set_dynamic
        omp_set_dynamic_
        omp_set_dynamic_8_
    }
    exported Supported Touches SETTING {
        omp_set_schedule
        omp_set_schedule_
        omp_set_schedule_8_
        omp_set_nested
        omp_set_nested_
        omp_set_nested_8_
        omp_set_max_active_levels
        omp_set_max_active_levels_
        omp_set_max_active_levels_8_
    }
    // Constructs that virtual teams do not support.
    exported Unsupported Touches TEAM {
        GOMP_parallel_reductions
        GOMP_loop_doacross_static_start
        GOMP_loop_doacross_dynamic_start
        GOMP_loop_doacross_guided_start
        GOMP_loop_doacross_runtime_start
        GOMP_loop_doacross_start
        GOMP_loop_ull_doacross_static_start
        GOMP_loop_ull_doacross_dynamic_start
        GOMP_loop_ull_doacross_guided_start
        GOMP_loop_ull_doacross_runtime_start
        GOMP_loop_ull_doacross_start
        GOMP_scope_start
        GOMP_target
        GOMP_target_ext
        GOMP_barrier_cancel
        GOMP_loop_end_cancel
        GOMP_sections_end_cancel
    }
    // What clang emits.
    exported Unsupported Touches NUM_THREADS_AND_TEAM {
        __kmpc_push_num_threads
        __kmpc_push_num_threads_strict
        __kmpc_push_num_threads_list
        __kmpc_push_num_threads_list_strict
    }
    exported Unsupported Touches TEAM {
        __kmpc_fork_call
        __kmpc_barrier
        __kmpc_cancel_barrier
        __kmpc_reduce
        __kmpc_reduce_nowait
        __kmpc_end_reduce
        __kmpc_copyprivate
        __kmpc_omp_task_alloc
        __kmpc_omp_target_task_alloc
        __kmpc_for_static_init_4
        __kmpc_for_static_init_4u
        __kmpc_for_static_init_8
        __kmpc_for_static_init_8u
        __kmpc_doacross_init
        __kmpc_dispatch_init_4
        __kmpc_dispatch_init_4u
        __kmpc_dispatch_init_8
        __kmpc_dispatch_init_8u
        __kmpc_dispatch_next_4
        __kmpc_dispatch_next_4u
        __kmpc_dispatch_next_8
        __kmpc_dispatch_next_8u
    }
    // Not exported: the shim calls them itself.
    called Supported KeepsNothing NONE {
        omp_get_dynamic
        omp_get_max_active_levels
        omp_get_max_threads
        omp_get_schedule
        omp_get_thread_limit
    }
    called Unsupported Touches NONE {
        __kmpc_global_thread_num
    }
    // Neither exported nor called.
    known Supported KeepsNothing NONE {
        GOMP_ordered_end
        omp_get_wtime
        omp_get_wtick
        omp_get_nested
        omp_init_lock
        omp_init_lock_with_hint
        omp_destroy_lock
        omp_unset_lock
    }
    known Supported Touches NONE {
        GOMP_alloc
        GOMP_free
        GOMP_warning
        GOMP_error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_found_under_its_number() {
        for (number, symbol) in Symbol::ALL.iter().enumerate() {
            assert_eq!(*symbol as usize, number);
            assert!(!symbol.name().is_empty());
        }
        assert_eq!(
            Symbol::GOMP_loop_ull_guided_next.name(),
            c"GOMP_loop_ull_guided_next"
        );
    }
}
