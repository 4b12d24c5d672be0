//! The functions of the OpenMP runtimes that the shim stands in for or calls.

use core::ffi::CStr;

macro_rules! symbols {
    (interposed { $($name:ident)* } called { $($called:ident)* }) => {
        /// A function of an OpenMP runtime, under its linker name.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        #[allow(non_camel_case_types, missing_docs, reason = "the names are those of the functions")]
        pub enum Symbol {
            $($name,)*
            $($called,)*
        }

        impl Symbol {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Symbol] = &[$(Symbol::$name,)* $(Symbol::$called,)*];
            /// Names of those that the shim exports itself.
            pub const INTERPOSED: &[&str] = &[$(stringify!($name),)*];

            /// Its linker name.
            pub const fn name(self) -> &'static CStr {
                match self {
                    $(Symbol::$name => c_name(concat!(stringify!($name), "\0")),)*
                    $(Symbol::$called => c_name(concat!(stringify!($called), "\0")),)*
                }
            }
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
    interposed {
        GOMP_parallel
        GOMP_parallel_reductions
        GOMP_parallel_sections
        GOMP_parallel_loop_static
        GOMP_parallel_loop_dynamic
        GOMP_parallel_loop_guided
        GOMP_parallel_loop_runtime
        GOMP_parallel_loop_nonmonotonic_dynamic
        GOMP_parallel_loop_nonmonotonic_guided
        GOMP_parallel_loop_nonmonotonic_runtime
        GOMP_parallel_loop_maybe_nonmonotonic_runtime
        GOMP_parallel_start
        GOMP_parallel_sections_start
        GOMP_parallel_loop_static_start
        GOMP_parallel_loop_dynamic_start
        GOMP_parallel_loop_guided_start
        GOMP_parallel_loop_runtime_start
        GOMP_parallel_end

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

        __kmpc_fork_call
        __kmpc_push_num_threads
        __kmpc_push_num_threads_strict
        __kmpc_push_num_threads_list
        __kmpc_push_num_threads_list_strict
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

        GOMP_loop_static_start
        GOMP_loop_static_next
        GOMP_loop_ull_static_start
        GOMP_loop_ull_static_next
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
        GOMP_task
        GOMP_taskloop
        GOMP_taskloop_ull

        omp_get_thread_num
        omp_get_thread_num_
        omp_get_num_threads
        omp_get_num_threads_
        omp_in_parallel
        omp_in_parallel_
        omp_get_level
        omp_get_level_
        omp_get_active_level
        omp_get_active_level_
        omp_get_ancestor_thread_num
        omp_get_ancestor_thread_num_
        omp_get_ancestor_thread_num_8_
        omp_get_team_size
        omp_get_team_size_
        omp_get_team_size_8_
        omp_set_lock
        omp_set_lock_
        omp_test_lock
        omp_test_lock_
        omp_set_nest_lock
        omp_set_nest_lock_
        omp_test_nest_lock
        omp_test_nest_lock_

        omp_set_num_threads
        omp_set_num_threads_
        omp_set_num_threads_8_
        omp_set_dynamic
        omp_set_dynamic_
        omp_set_dynamic_8_
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
    called {
        __kmpc_global_thread_num
        omp_get_dynamic
        omp_get_max_active_levels
        omp_get_max_threads
        omp_get_schedule
        omp_get_thread_limit
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
