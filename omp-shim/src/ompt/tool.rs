//! The shim as an OMPT tool, for the copies of libomp that it cannot come before ([`crate::ompt::reach`]): libomp looks
//! for `ompt_start_tool` where its scope leads, then in `OMP_TOOL_LIBRARIES`, where the launcher puts the shim. Other
//! copies and programs without a page run as without a tool. There is one tool for each copy, and the user's goes
//! first.
//!
//! *Invariants.* Callbacks do not say which copy they come from; so each copy has its own, for up to [`ROOM`] copies.
//! No panic leaves the exported function.

use core::ffi::{CStr, c_char, c_int, c_uint};
use core::ptr::null;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mapper_shim_core::elf::{self, Module};
use mapper_shim_core::scope::Scope;
use mapper_shim_core::shield::shielded;
use mapper_shim_core::{attachment, environment};

use crate::ompt::abi::{
    AnyFunction, Data, Event, Lookup, SET_IMPOSSIBLE, SetCallback, StartResult, StartTool,
};
use crate::ompt::copies::{self, ROOM, copy};
use crate::ompt::events;
use crate::ompt::reach::{self, Reach};

static TAKEN: AtomicUsize = AtomicUsize::new(0);
static RESULTS: [StartResult; ROOM] = [result::<0>(), result::<1>(), result::<2>(), result::<3>()];

const fn result<const N: usize>() -> StartResult {
    StartResult {
        initialize: initialize::<N>,
        finalize,
        data: Data::new(0),
    }
}

/// Answers whether the shim is a tool for the caller. Safety: as libomp calls it.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn ompt_start_tool(
    version: c_uint,
    runtime: *const c_char,
) -> *const StartResult {
    core::arch::naked_asm!(
        "mov rdx, qword ptr [rsp]",
        "jmp {answer}",
        answer = sym answer,
    )
}

unsafe extern "C" fn answer(
    version: c_uint,
    runtime: *const c_char,
    caller: usize,
) -> *const StartResult {
    shielded(|| {
        // SAFETY: the handle is a special one, the name a C string.
        let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"ompt_start_tool".as_ptr()) };
        // SAFETY: a function of that name has this type; null becomes `None`.
        let next = unsafe { core::mem::transmute::<AnyFunction, Option<StartTool>>(next) };
        if let Some(next) = next {
            // SAFETY: the arguments are the caller's.
            let users = unsafe { next(version, runtime) };
            if !users.is_null() {
                return Some(users);
            }
        }
        take(caller).map(core::ptr::from_ref)
    })
    .unwrap_or(null())
}

/// Takes the copy of libomp that has code at `caller`, if the shim can hear it in no other way.
fn take(caller: usize) -> Option<&'static StartResult> {
    let shim = elf::module_containing(take as *const () as usize)?;
    let copy = elf::module_containing(caller)?;
    if reach::of(&copy, &shim) == Reach::Interposed || names_others(&shim) {
        return None;
    }
    attachment::settle();
    if attachment::is_inert() {
        return None;
    }
    let number = TAKEN
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            (taken < ROOM).then_some(taken + 1)
        })
        .ok()?;
    // It may be here as a tool only; what it registers with the C library must not vanish with the copy.
    let _ = Scope::of_library(&shim);
    let _ = events::SHIM.set(shim.clone());
    copies::COPIES.get(number)?.sizing.look_up(&copy, &shim);
    RESULTS.get(number)
}

fn names_others(shim: &Module) -> bool {
    let Some(list) = environment::variable(c"OMP_TOOL_LIBRARIES") else {
        return false;
    };
    let file_name = |path: &[u8]| {
        Path::new(std::ffi::OsStr::from_bytes(path))
            .file_name()
            .map(ToOwned::to_owned)
    };
    let own = file_name(shim.path.to_bytes());
    list.as_bytes()
        .split(|byte| *byte == b':')
        .any(|entry| !entry.is_empty() && file_name(entry) != own)
}

unsafe extern "C" fn initialize<const N: usize>(
    lookup: Lookup,
    _device: c_int,
    _data: *mut Data,
) -> c_int {
    let function = |name: &CStr| {
        // SAFETY: the runtime gave the function for such names.
        unsafe { lookup(name.as_ptr()) }
    };
    let set_callback = function(c"ompt_set_callback");
    // SAFETY: a function of that name has this type; null becomes `None`.
    let set_callback =
        unsafe { core::mem::transmute::<AnyFunction, Option<SetCallback>>(set_callback) };
    let Some(set_callback) = set_callback else {
        return 0;
    };
    let copy = copy::<N>();
    copy.get_thread_data
        .store(function(c"ompt_get_thread_data"), Ordering::Relaxed);
    copy.get_parallel_info
        .store(function(c"ompt_get_parallel_info"), Ordering::Relaxed);
    copy.get_task_info
        .store(function(c"ompt_get_task_info"), Ordering::Relaxed);
    let text = |(event, callback): (Event, AnyFunction)| {
        // SAFETY: the callback is the one for this event.
        unsafe { set_callback(event as c_int, callback) > SET_IMPOSSIBLE }
    };
    let callbacks = events::callbacks::<N>();
    // Regions must be reported, the rest where the runtime can.
    let regions = callbacks
        .regions
        .into_iter()
        .filter(|each| text(*each))
        .count();
    for each in callbacks.others {
        text(each);
    }
    c_int::from(regions == callbacks.regions.len())
}

unsafe extern "C" fn finalize(_data: *mut Data) {}
