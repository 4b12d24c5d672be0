//! Which programs may have virtual teams at all.
//!
//! *Problem.* Some constructs are not dispensed to logical threads: ordered and doacross loops, tasks,
//! cancellation, teams and target regions, reductions over tasks. And some programs do things to
//! threads that do not go with a change of the thread underneath: locks that the kernel hands to the
//! owner's OS thread, per-CPU data by restartable sequences, sanitizers, and what the kernel keeps for each thread
//! ([`kernel_state`]).
//!
//! *Approach.* What a module can call is in its relocations: it calls a function of the runtime only
//! if it imports it, or looks it up ([`crate::core::by_handle`]). All loaded modules are looked through before the first region, and again after
//! every `dlopen`. One that imports what is not served refuses virtual teams to the whole process,
//! for good: the page says why.
//!
//! *Other threads.* A load may go on while the pool's owner looks, and the library be there a moment
//! later. The owner's own loads, and those of members of its last region, are done when it looks.
//! Where anybody else has loaded libraries, the count of modules is compared before each region.
//!
//! *Invariants.* `is_granted` costs two loads unless a library was loaded since. What is not known to
//! be served is refused.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use mapper_abi::TeamsOff;

use super::storage::{self, Storage};
use super::{kernel, kernel_state, preserved, thread_pointer};
use crate::core::attachment;
use crate::core::by_handle;
use crate::core::elf;
use crate::core::environment;
use crate::core::runtime;
use crate::core::shield::shielded;
use crate::core::thread_state;
use crate::region;

/// What is known.
static VERDICT: AtomicU32 = AtomicU32::new(UNKNOWN);
const UNKNOWN: u32 = 0;
const GRANTED: u32 = 1;
const REFUSED: u32 = 2;

/// A library may have been loaded since the last look.
static MODULES_CHANGED: AtomicBool = AtomicBool::new(false);

/// Which thread loads libraries, members of virtual teams aside: the address of its state. Or one of
/// the constants.
static LOADER: AtomicUsize = AtomicUsize::new(NOBODY);
const NOBODY: usize = 0;
const SEVERAL: usize = 1;

/// How many modules had been loaded at the last look.
static MODULES_SEEN: AtomicU64 = AtomicU64::new(0);

/// Whether it is known that no region of this process may be virtual.
#[inline(always)]
pub(super) fn is_refused() -> bool {
    VERDICT.load(Ordering::Relaxed) == REFUSED
}

/// Whether regions of this process may be virtual. For the owner of the pool, between regions.
#[inline(always)]
pub(super) fn is_granted() -> bool {
    let settled = VERDICT.load(Ordering::Relaxed);
    if settled == GRANTED && !MODULES_CHANGED.load(Ordering::Relaxed) {
        return true;
    }
    settled != REFUSED && examine()
}

#[cold]
fn examine() -> bool {
    MODULES_CHANGED.swap(false, Ordering::SeqCst);
    // After that: whoever begins to load from here on says so again.
    let loader = LOADER.load(Ordering::SeqCst);
    if loader != NOBODY && loader != this_thread() {
        MODULES_CHANGED.store(true, Ordering::Relaxed);
    }
    // Before the look: what is added during it is looked at once more.
    let modules = elf::modules_added();
    let is_known = modules == MODULES_SEEN.load(Ordering::Relaxed) && !by_handle::concerns_teams();
    if is_known && VERDICT.load(Ordering::Relaxed) == GRANTED {
        return true;
    }
    MODULES_SEEN.store(modules, Ordering::Relaxed);
    let off = match shielded(|| Some(obstacle())) {
        Some(None) => {
            storage::examine();
            let before =
                VERDICT.compare_exchange(UNKNOWN, GRANTED, Ordering::AcqRel, Ordering::Acquire);
            return before != Err(REFUSED);
        }
        Some(Some(off)) => off,
        None => TeamsOff::Unserved,
    };
    VERDICT.store(REFUSED, Ordering::Relaxed);
    attachment::report_teams_off(off);
    attachment::report_storage(Storage::Own);
    // At once: this region may be the program's only one.
    region::report_real_team(thread_state::current());
    false
}

/// What speaks against virtual teams.
fn obstacle() -> Option<TeamsOff> {
    thread_pointer::prepare();
    if kernel::has_shadow_stack() || !kernel::register_memory_barrier() {
        return Some(TeamsOff::Platform);
    }
    if by_handle::concerns_teams() {
        return Some(TeamsOff::ByHandle);
    }
    let is_list = environment::text(c"OMP_NUM_THREADS").is_some_and(|text| text.contains(','));
    if is_list {
        return Some(TeamsOff::NestedSizes);
    }
    let binds = |name| {
        environment::text(name).is_some_and(|text| !text.trim().eq_ignore_ascii_case("false"))
    };
    if binds(c"OMP_PROC_BIND") || binds(c"OMP_PLACES") || binds(c"GOMP_CPU_AFFINITY") {
        return Some(TeamsOff::Binding);
    }
    // A module that brings its own area for restartable sequences, or the library that looks the C library's up by
    // name, does not import it.
    let own_rseq = [
        c"__rseq_abi",
        c"rseq_register_current_thread",
        c"rseq_offset",
    ];
    if elf::count_defining(&own_rseq) > 0 {
        return Some(TeamsOff::ThreadBound);
    }
    elf::find_importer(|module| {
        let mut found = None;
        let mut imports = kernel_state::Imports::default();
        module.each_import(|name| {
            preserved::note_import(name);
            imports.note(name);
            found = found.or_else(|| judge(name.to_bytes()));
        });
        let sets_state = imports.may_set_within_regions();
        found.or_else(|| sets_state.then_some(TeamsOff::KernelState))
    })
}

/// Functions of libgomp that are served for logical threads, as far as they are not loops.
const SERVED: [&str; 34] = [
    "GOMP_parallel",
    "GOMP_parallel_sections",
    "GOMP_parallel_loop_static",
    "GOMP_parallel_loop_dynamic",
    "GOMP_parallel_loop_guided",
    "GOMP_parallel_loop_runtime",
    "GOMP_parallel_loop_nonmonotonic_dynamic",
    "GOMP_parallel_loop_nonmonotonic_guided",
    "GOMP_parallel_loop_nonmonotonic_runtime",
    "GOMP_parallel_loop_maybe_nonmonotonic_runtime",
    // As gcc before 4.9 began and ended regions.
    "GOMP_parallel_start",
    "GOMP_parallel_sections_start",
    "GOMP_parallel_loop_static_start",
    "GOMP_parallel_loop_dynamic_start",
    "GOMP_parallel_loop_guided_start",
    "GOMP_parallel_loop_runtime_start",
    "GOMP_parallel_end",
    "GOMP_barrier",
    "GOMP_single_start",
    "GOMP_single_copy_start",
    "GOMP_single_copy_end",
    "GOMP_sections_start",
    "GOMP_sections2_start",
    "GOMP_sections_next",
    "GOMP_sections_end",
    "GOMP_sections_end_nowait",
    // With memory for `scan` and the like. Reductions over tasks need other functions besides.
    "GOMP_loop_start",
    "GOMP_loop_ull_start",
    "GOMP_loop_end",
    "GOMP_loop_end_nowait",
    // What concerns no team.
    "GOMP_alloc",
    "GOMP_free",
    "GOMP_warning",
    "GOMP_error",
];

/// Schedules whose loops are served.
const SCHEDULES: [&str; 8] = [
    "static",
    "dynamic",
    "guided",
    "runtime",
    "nonmonotonic_dynamic",
    "nonmonotonic_guided",
    "nonmonotonic_runtime",
    "maybe_nonmonotonic_runtime",
];

/// Whether the function of this name is one that virtual teams do not serve.
pub(crate) fn is_unserved(name: &str) -> bool {
    judge(name.as_bytes()).is_some()
}

/// A function has been looked up that virtual teams cannot come before; looked at before the next region.
pub(crate) fn note_lookup() {
    MODULES_CHANGED.store(true, Ordering::SeqCst);
}

/// What importing a function of this name says.
fn judge(name: &[u8]) -> Option<TeamsOff> {
    let name = core::str::from_utf8(name).ok()?;
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if begins(&["GOMP_", "GOACC_", "omp_fulfill_event"]) {
        return if is_served(name) {
            None
        } else {
            Some(construct(name))
        };
    }
    // It ends the runtime's threads, so that their threadprivate data start anew; members live on.
    // The default device is a setting that members are not given. What is told of affinity is the runtime's word
    // for its own threads and teams.
    if begins(&[
        "omp_pause_resource",
        "omp_set_default_device",
        "omp_capture_affinity",
        "omp_display_affinity",
    ]) {
        return Some(TeamsOff::Unserved);
    }
    // The last are hooks that the runtime of every sanitizer asks for: so it is known where it is linked
    // statically, too, and the program imports none of its functions.
    if begins(&[
        "__asan_",
        "__hwasan_",
        "__msan_",
        "__tsan_",
        "__sanitizer_symbolize_",
    ]) {
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
    if SERVED.contains(&name)
        || name.starts_with("GOMP_critical_")
        || name.starts_with("GOMP_atomic_")
    {
        return true;
    }
    let Some(rest) = name.strip_prefix("GOMP_loop_") else {
        return false;
    };
    let rest = rest.strip_prefix("ull_").unwrap_or(rest);
    ["_start", "_next"]
        .iter()
        .filter_map(|suffix| rest.strip_suffix(suffix))
        .any(|schedule| SCHEDULES.contains(&schedule))
}

/// The construct behind a function that is not served.
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

/// What stands for the calling thread.
fn this_thread() -> usize {
    core::ptr::from_ref(thread_state::current()) as usize
}

/// The real `dlopen`, once looked up.
static REAL_DLOPEN: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Notes that the calling thread is about to load a library.
fn note_load() {
    // A member's load has ended when the region has.
    if thread_state::current().member.get().is_none() {
        let this = this_thread();
        let before = LOADER.compare_exchange(NOBODY, this, Ordering::SeqCst, Ordering::Relaxed);
        if before.is_err_and(|loader| loader != this) {
            LOADER.store(SEVERAL, Ordering::SeqCst);
        }
    }
    MODULES_CHANGED.store(true, Ordering::SeqCst);
    runtime::library_comes();
}

/// Notes what `dlopen` with these arguments is about to do; returns the real function.
unsafe extern "C" fn before_dlopen(path: *const c_char, flags: c_int) -> *mut c_void {
    if !path.is_null() && flags & libc::RTLD_NOLOAD == 0 {
        note_load();
    }
    let real = REAL_DLOPEN.load(Ordering::Relaxed);
    if !real.is_null() {
        return real;
    }
    // SAFETY: the handle is a special one, the name a C string.
    let real = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    REAL_DLOPEN.store(real, Ordering::Relaxed);
    real
}

/// Notes that modules may be loaded, and jumps on to the real function, which looks at its return
/// address to know whose search path to use.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        before = sym before_dlopen,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Option<TeamsOff> {
        judge(name.as_bytes())
    }

    #[test]
    fn what_is_dispensed_to_logical_threads_is_admitted() {
        for name in [
            "GOMP_parallel",
            "GOMP_barrier",
            "GOMP_loop_dynamic_next",
            "GOMP_loop_ull_maybe_nonmonotonic_runtime_start",
            "GOMP_critical_name_start",
            "GOMP_sections_end_nowait",
            "GOMP_parallel_loop_runtime_start",
            "GOMP_parallel_end",
            "GOMP_loop_ull_start",
            "omp_get_thread_num",
            "malloc",
            // libomp has its own threads cancelled so.
            "pthread_setcanceltype",
            // Libraries offer this to whoever runs them under a sanitizer.
            "__sanitizer_start_switch_fiber",
        ] {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn the_rest_is_refused_by_what_it_is() {
        for (name, off) in [
            ("GOMP_task", TeamsOff::Tasks),
            ("GOMP_taskloop_ull", TeamsOff::Tasks),
            ("GOMP_ordered_start", TeamsOff::Ordered),
            ("GOMP_loop_ordered_static_next", TeamsOff::Ordered),
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
    fn of_every_function_of_the_installed_runtime_it_is_known_what_it_is_for() {
        let names = entry_points();
        assert!(names.len() > 100, "{names:?}");
        for name in names {
            assert_ne!(of(&name), Some(TeamsOff::Unserved), "{name}");
        }
    }

    #[test]
    fn what_is_admitted_and_concerns_teams_is_exported_by_the_shim() {
        let elsewhere = ["GOMP_alloc", "GOMP_free", "GOMP_warning", "GOMP_error"];
        for name in entry_points() {
            if of(&name).is_none() && !elsewhere.contains(&name.as_str()) {
                let own = crate::core::symbols::Symbol::INTERPOSED.contains(&name.as_str());
                assert!(own, "{name}");
            }
        }
    }
}
