//! OMPT's C interface, as far as the shim uses it: OpenMP 5.0, section 4 (`omp-tools.h`), kept by later versions and by
//! all libomps since clang 8. A runtime looks for `ompt_start_tool` at its start; the tool answers with two functions,
//! looks further ones up by name, and registers a callback for each kind of event.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::sync::atomic::AtomicU64;

/// `ompt_data_t`: a word of the tool's own beside a thread, a region or a task, zero at first.
pub(crate) type Data = AtomicU64;

/// A function that the runtime returns by name; null if it has none.
pub(crate) type AnyFunction = *mut c_void;

pub(crate) type Lookup = unsafe extern "C" fn(*const c_char) -> AnyFunction;
/// `ompt_initialize_t`: 0 to be left alone, anything else to receive events.
pub(crate) type Initialize = unsafe extern "C" fn(Lookup, c_int, *mut Data) -> c_int;
pub(crate) type Finalize = unsafe extern "C" fn(*mut Data);
pub(crate) type SetCallback = unsafe extern "C" fn(c_int, AnyFunction) -> c_int;
pub(crate) type GetThreadData = unsafe extern "C" fn() -> *mut Data;
/// `ompt_get_parallel_info_t`: whether there is a region so many levels out, its data and the size of its team.
pub(crate) type GetParallelInfo = unsafe extern "C" fn(c_int, *mut *mut Data, *mut c_int) -> c_int;

/// `ompt_get_task_info_t`: a task's flags, data, frame, region data and thread number, by its level.
pub(crate) type GetTaskInfo = unsafe extern "C" fn(
    c_int,
    *mut c_int,
    *mut *mut Data,
    *mut *mut c_void,
    *mut *mut Data,
    *mut c_int,
) -> c_int;

/// `ompt_start_tool_result_t`: what `ompt_start_tool` answers.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct StartResult {
    pub(crate) initialize: Initialize,
    pub(crate) finalize: Finalize,
    pub(crate) data: Data,
}

pub(crate) type StartTool = unsafe extern "C" fn(c_uint, *const c_char) -> *const StartResult;

/// Events, as `ompt_callbacks_t` numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum Event {
    ParallelBegin = 3,
    ParallelEnd = 4,
    ImplicitTask = 7,
    SyncRegionWait = 16,
    Work = 20,
}

/// Values of `ompt_set_result_t` up to this one mean that the event will never be reported.
pub(crate) const SET_IMPOSSIBLE: c_int = 2;

/// `ompt_scope_endpoint_t`.
pub(crate) const SCOPE_BEGIN: c_int = 1;
pub(crate) const SCOPE_END: c_int = 2;
/// Bit of `ompt_task_flag_t`: the task that stands for a thread outside all regions.
pub(crate) const TASK_INITIAL: c_int = 1;
/// Bit of `ompt_parallel_flag_t`: not a region's team, but a league of teams.
pub(crate) const PARALLEL_LEAGUE: c_int = 0x4000_0000;

/// Whether a thread waits at a barrier (`ompt_sync_region_t`). At the others, `taskwait` and `taskgroup`, it runs tasks.
pub(crate) const fn is_barrier(kind: c_int) -> bool {
    matches!(kind, 1..=4 | 8..=10)
}

/// Whether this kind of work (`ompt_work_t`) is a loop. Newer runtimes tell loops by their schedules.
pub(crate) const fn is_loop(kind: c_int) -> bool {
    matches!(kind, 1 | 10..=13)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the header that clang brings says a name stands for, by compiling a program that returns it.
    fn of_the_header(names: &[&str]) -> Vec<i32> {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("names.c"), dir.path().join("names"));
        let values = names.join(", ");
        let text = format!(
            "#include <omp-tools.h>\n#include <stdio.h>\n\
             int main(void) {{ int v[] = {{ {values} }};\n\
             for (int i = 0; i < sizeof v / sizeof *v; i++) printf(\"%d\\n\", v[i]); }}\n"
        );
        std::fs::write(&source, text).unwrap();
        let compiler = std::env::var("CC_CLANG").unwrap_or_else(|_| "clang".to_owned());
        let compiled = std::process::Command::new(compiler)
            .args(["-w", "-fopenmp", "-o"])
            .args([&program, &source])
            .status()
            .unwrap()
            .success();
        assert!(compiled);
        let output = std::process::Command::new(program).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    #[test]
    fn numbers_are_those_of_the_header() {
        let here = [
            ("ompt_callback_parallel_begin", Event::ParallelBegin as i32),
            ("ompt_callback_parallel_end", Event::ParallelEnd as i32),
            ("ompt_callback_implicit_task", Event::ImplicitTask as i32),
            (
                "ompt_callback_sync_region_wait",
                Event::SyncRegionWait as i32,
            ),
            ("ompt_callback_work", Event::Work as i32),
            ("ompt_set_impossible", SET_IMPOSSIBLE),
            ("ompt_scope_begin", SCOPE_BEGIN),
            ("ompt_scope_end", SCOPE_END),
            ("ompt_task_initial", TASK_INITIAL),
            ("ompt_parallel_league", PARALLEL_LEAGUE),
            (
                "sizeof(ompt_start_tool_result_t)",
                size_of::<StartResult>() as i32,
            ),
        ];
        let names = here.map(|(name, _)| name);
        assert_eq!(of_the_header(&names), here.map(|(_, number)| number));
    }

    #[test]
    fn barriers_and_loops_are_distinguished_from_other_constructs() {
        let kinds = of_the_header(&[
            "ompt_sync_region_barrier",
            "ompt_sync_region_barrier_implicit",
            "ompt_sync_region_barrier_explicit",
            "ompt_sync_region_taskwait",
            "ompt_sync_region_taskgroup",
        ]);
        let barriers: Vec<_> = kinds.into_iter().map(is_barrier).collect();
        assert_eq!(barriers, [true, true, true, false, false]);
        let kinds = of_the_header(&["ompt_work_loop", "ompt_work_sections", "ompt_work_taskloop"]);
        let loops: Vec<_> = kinds.into_iter().map(is_loop).collect();
        assert_eq!(loops, [true, false, false]);
    }
}
