//! Which programs may have virtual teams at all.
//!
//! *Problem.* Some constructs are not dispensed to logical threads: doacross loops, cancellation, detached tasks,
//! teams and target regions, reductions over tasks. Some programs use what belongs to an OS thread: locks that the
//! kernel hands to a thread, restartable sequences, sanitizers, per-thread kernel state ([`kernel_state`]).
//!
//! *Approach.* A module calls a function of the runtime only if its relocations import it, or if it looks it up
//! ([`mapper_shim_core::by_handle`]). All modules are examined before the first region, and after every `dlopen`. One
//! that imports what is not supported, or not known, refuses virtual teams to the process for good. Loads by the owner
//! and by members of its last region are complete then; where another thread loads, the count of modules is compared
//! before each region.
//!
//! *Invariants.* `is_granted` costs two loads unless a library was loaded since.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use mapper_abi::TeamsOff;
use mapper_shim_core::shield::shielded;
use mapper_shim_core::{
    attachment, caller, elf, environment, exactness, logical, looked_up, served, thread_state,
};

use super::c_library::CFunction;
use super::{kernel, kernel_state, preserved, queries, storage, tasks, thread_pointer};

static VERDICT: AtomicU32 = AtomicU32::new(UNKNOWN);
const UNKNOWN: u32 = 0;
const GRANTED: u32 = 1;
const REFUSED: u32 = 2;

/// A library may have been loaded since the last look.
static MODULES_CHANGED: AtomicBool = AtomicBool::new(false);

/// Which thread loads libraries, apart from members: the address of its state, or a constant.
static LOADER: AtomicUsize = AtomicUsize::new(NOBODY);
const NOBODY: usize = 0;
const SEVERAL: usize = 1;

static MODULES_SEEN: AtomicU64 = AtomicU64::new(0);

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
    let is_known = modules == MODULES_SEEN.load(Ordering::Relaxed) && !looked_up::concerns_teams();
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
    logical::refuse();
    attachment::report_teams_off(off);
    attachment::report_storage(false);
    // At once: this region may be the program's only one.
    exactness::report_real_team(thread_state::current());
    false
}

fn obstacle() -> Option<TeamsOff> {
    thread_pointer::prepare();
    if kernel::has_shadow_stack() || !kernel::register_memory_barrier() {
        return Some(TeamsOff::Platform);
    }
    if looked_up::concerns_teams() {
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
    // Such modules do not import what they bring themselves or look up by name.
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
            queries::note_import(name);
            tasks::note_import(name);
            imports.note(name);
            found = found.or_else(|| served::obstacle(name.to_bytes()));
        });
        let sets_state = imports.may_set_within_regions();
        found.or_else(|| sets_state.then_some(TeamsOff::KernelState))
    })
}

/// A function has been looked up that virtual teams cannot come before; looked at before the next region.
pub fn note_lookup() {
    MODULES_CHANGED.store(true, Ordering::SeqCst);
}

fn this_thread() -> usize {
    core::ptr::from_ref(thread_state::current()) as usize
}

static REAL_DLOPEN: CFunction = CFunction::new(c"dlopen");

pub(super) fn look_up() {
    REAL_DLOPEN.get();
}

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
    caller::library_comes();
}

/// Notes what `dlopen` with these arguments is about to do; returns the real function.
unsafe extern "C" fn before_dlopen(path: *const c_char, flags: c_int) -> *mut c_void {
    if !path.is_null() && flags & libc::RTLD_NOLOAD == 0 {
        note_load();
    }
    REAL_DLOPEN.get()
}

/// Notes that modules may be loaded and jumps on to the real function. Safety: as for the C library's.
#[cfg_attr(not(miri), unsafe(no_mangle))]
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
