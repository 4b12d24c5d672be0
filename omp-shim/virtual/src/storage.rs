//! Thread-local storage: whether members have each their own, or share that of a donor.
//!
//! *Approach.* Changing the thread pointer takes more than half of the time of a change of members. Where no module
//! keeps anything in thread-local storage across a construct (`storage_use`), the members of a block run under one
//! thread pointer: that of a *donor*, a thread that does nothing else. A member that has to run beside its carrier does
//! so under its own, and can change at any of its stops. The value of `errno` changes with the members. The one claim
//! that a module may make, on the place of `errno`, ends the sharing in this region and all that follow.
//!
//! *Invariants.* Decided for each region at its start. What needs storage of its own once does so for ever. A donor's
//! OS thread sleeps until the pool ends and runs no signal handlers.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use mapper_shim_core::runtime::Runtime;
use mapper_shim_core::shield::shielded;
use mapper_shim_core::{attachment, caller, elf, environment, thread_state};

use super::member::Member;
use super::pool::MOST_MEMBERS;
use super::thread_pointer::{self, ThreadPointer};
use super::{attendants, kernel, quiet_thread, storage_use};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Storage {
    Own,
    Shared,
}

static VERDICT: AtomicU32 = AtomicU32::new(UNKNOWN);
const UNKNOWN: u32 = 0;
const MAY_SHARE: u32 = 1;
const OWN: u32 = 2;

/// The thread pointers of the donors, one for each block, of which the first so many exist.
static DONORS: [AtomicUsize; MOST_MEMBERS as usize] =
    [const { AtomicUsize::new(0) }; MOST_MEMBERS as usize];
static DONORS_STARTED: AtomicU32 = AtomicU32::new(0);
/// Goes up when the donors are to end.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Looks at the modules that are loaded. For the pool's owner, when others may have come.
pub(super) fn examine() {
    if VERDICT.load(Ordering::Relaxed) == OWN {
        return;
    }
    let wants_own = environment::text(c"MAPPER_THREAD_STORAGE") == Some("own");
    let sees =
        || elf::find_trace(|file, trace| storage_use::touches_storage(file, trace).then_some(()));
    // A look that fails has seen nothing.
    let may_share = !wants_own
        && thread_pointer::knows_errno()
        && shielded(|| Some(sees().is_none())) == Some(true);
    VERDICT.store(if may_share { MAY_SHARE } else { OWN }, Ordering::Relaxed);
    attachment::report_storage(may_share);
}

/// What the members of a region's team use, if that has so many blocks. For the pool's owner.
#[inline]
pub(super) fn of_region(runtime: &'static Runtime, size: u32, blocks: u32) -> Storage {
    let may_share = VERDICT.load(Ordering::Relaxed) == MAY_SHARE
        && blocks < size
        // Threads are distinguished by one runtime alone, and that one is libgomp.
        && caller::is_sole()
        && !runtime.is_complete()
        && has_donors(blocks);
    match may_share {
        true => Storage::Shared,
        false => Storage::Own,
    }
}

#[inline]
pub(super) fn donor(block: u32) -> Option<ThreadPointer> {
    let pointer = DONORS.get(block as usize)?.load(Ordering::Relaxed);
    (pointer != 0).then_some(ThreadPointer(pointer))
}

pub(super) fn donors() -> u32 {
    DONORS_STARTED.load(Ordering::Relaxed)
}

#[inline]
fn has_donors(blocks: u32) -> bool {
    DONORS_STARTED.load(Ordering::Relaxed) >= blocks || start_donors(blocks)
}

#[cold]
fn start_donors(blocks: u32) -> bool {
    let started = DONORS_STARTED.load(Ordering::Relaxed);
    let places = DONORS.get(started as usize..blocks as usize);
    let are_there = places.is_some_and(|places| places.iter().all(start_donor));
    if are_there {
        DONORS_STARTED.store(blocks, Ordering::Relaxed);
    } else {
        VERDICT.store(OWN, Ordering::Relaxed);
    }
    are_there
}

/// What a place says while its donor starts, and where it cannot lend.
const STARTING: usize = 0;
const UNFIT: usize = 1;

fn start_donor(place: &'static AtomicUsize) -> bool {
    extern "C" fn lend(place: *mut c_void) -> *mut c_void {
        // SAFETY: `start_donor` passes one of `DONORS`.
        let place = unsafe { &*place.cast::<AtomicUsize>() };
        // While it is itself, so that the slot of its borrowers bears its number.
        let _ = attachment::slot(thread_state::current());
        let pointer = match thread_pointer::knows_errno() {
            true => thread_pointer::current().0,
            false => UNFIT,
        };
        let generation = GENERATION.load(Ordering::Relaxed);
        place.store(pointer, Ordering::Release);
        while GENERATION.load(Ordering::Acquire) == generation {
            kernel::futex_wait(&GENERATION, generation);
        }
        attendants::goes();
        null_mut()
    }
    place.store(STARTING, Ordering::Relaxed);
    let argument = core::ptr::from_ref(place).cast_mut().cast();
    attendants::comes();
    // SAFETY: the place is a static one.
    if !unsafe { quiet_thread::start(lend, argument) } {
        attendants::goes();
        return false;
    }
    while place.load(Ordering::Acquire) == STARTING {
        std::thread::yield_now();
    }
    place.load(Ordering::Relaxed) != UNFIT
}

/// Whether a call for the place of `errno`, which returns to `caller`, is one of the program's, which may keep it.
pub(super) fn is_claim(member: &'static Member, caller: usize) -> bool {
    let is_own = thread_pointer::current() == member.thread_pointer();
    if is_own && !member.lead().carrier.is_shared() {
        return false;
    }
    let module = shielded(|| elf::module_containing(caller));
    module.is_none_or(|module| !storage_use::is_known(&module.path) && !module.is_this())
}

#[cold]
pub(super) fn note_claim() {
    VERDICT.store(OWN, Ordering::Relaxed);
    attachment::report_storage(false);
}

/// Tells the donors to end.
pub(super) fn end_donors() {
    GENERATION.fetch_add(1, Ordering::Release);
    kernel::futex_wake(&GENERATION, u32::MAX >> 1);
    DONORS_STARTED.store(0, Ordering::Relaxed);
}

pub(super) fn after_fork_in_child() {
    DONORS_STARTED.store(0, Ordering::Relaxed);
}
