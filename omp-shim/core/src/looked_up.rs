//! What functions of a runtime the program has looked up by a handle, to call them past the shim.

use core::sync::atomic::{AtomicU32, Ordering};

use mapper_abi::TeamsOff;

use crate::served;
use crate::symbols::{Function, Uses};

/// [`Uses`] of all that was found so far.
static FOUND: AtomicU32 = AtomicU32::new(0);

fn found() -> Uses {
    Uses::from_bits_retain(FOUND.load(Ordering::Relaxed))
}

/// Functions with these uses have been looked up.
pub fn note(uses: Uses) {
    FOUND.fetch_or(uses.bits(), Ordering::SeqCst);
}

/// Whether settings may change without a call that the shim sees.
#[inline(always)]
pub fn may_set() -> bool {
    found().intersects(Uses::NUM_THREADS.union(Uses::DYNAMIC).union(Uses::SETTING))
}

/// Whether members of virtual teams may call what tells them wrong.
pub fn concerns_teams() -> bool {
    found().contains(Uses::TEAM)
}

/// Why teams are exact by what was looked up, if they are: the functions count as called.
pub fn exactness() -> Option<TeamsOff> {
    let found = found();
    if found.contains(Uses::NUM_THREADS) {
        Some(TeamsOff::SetNumThreads)
    } else if found.contains(Uses::DYNAMIC) {
        Some(TeamsOff::SetDynamic)
    } else {
        None
    }
}

/// What a program can do by the function of that name; nothing by those that may be called past the shim.
pub fn uses(name: &str) -> Uses {
    let known = Function::of(name).map_or(Uses::NONE, |function| function.by_handle);
    match known.is_empty() && served::obstacle(name.as_bytes()).is_some() {
        true => Uses::TEAM,
        false => known,
    }
}
