//! What functions of a runtime the program has looked up by a handle, to call them past the shim.

use core::sync::atomic::{AtomicU32, Ordering};

use mapper_abi::TeamsOff;

use crate::served;
use crate::symbols::Symbol;

bitflags::bitflags! {
    /// What can be done by functions that were looked up.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Uses: u32 {
        /// Sizes of teams can be set.
        const NUM_THREADS = 1 << 0;
        /// So can be whether they are exact.
        const DYNAMIC = 1 << 1;
        /// So can be another setting that members have from the thread that begins their region.
        const SETTING = 1 << 2;
        /// Something that is different in a virtual team.
        const TEAM = 1 << 3;
    }
}

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

/// Why teams are exact by what was looked up, if they are. Whether it was called cannot be known: the
/// size that it sets may be the one that was there before.
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

impl Uses {
    /// Of the function of that name; empty for those that may be called past the shim.
    pub fn of(name: &str) -> Self {
        let base = name.strip_suffix('_').unwrap_or(name);
        let base = base.strip_suffix("_8").unwrap_or(base);
        match base {
            "omp_set_num_threads" => Self::NUM_THREADS,
            "omp_set_dynamic" => Self::DYNAMIC,
            "omp_set_schedule" | "omp_set_nested" | "omp_set_max_active_levels" => Self::SETTING,
            _ if base.starts_with("__kmpc_push_num_threads") => Self::NUM_THREADS | Self::TEAM,
            _ if Symbol::INTERPOSED.contains(&name) || served::is_unserved(name) => Self::TEAM,
            _ => Self::empty(),
        }
    }
}
