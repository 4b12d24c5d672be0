//! The team sizes of a copy of libomp that is observed through OMPT.
//!
//! *Approach.* The size of a region without a `num_threads` clause is a setting of the thread, which libomp reads after
//! it has called the tool. So a copy that is a library of its own has the setting lowered when a region begins and
//! restored afterwards. Where libomp is linked into the code that calls it, teams keep their size.
//!
//! *What the program wants.* Calls of `omp_set_num_threads` are not seen, but their effect is: the setting differs from
//! the environment's or from before. A program that sets what was set before gets what it would with
//! `OMP_DYNAMIC=true`, which `--teams follow` requires. `omp_set_dynamic`, by which a program refuses that, has no
//! visible effect; so a module that could call the copy's ends the sizing. Either counts as called when looked up by a
//! handle ([`mapper_shim_core::by_handle`]).
//!
//! *Invariants.* The program never sees the lowered setting: each thread of the region restores its own before the
//! program's code runs, and the thread that began the region does at its end. libomp runs a team of one without a
//! region of its own, where the setting cannot be reached; so no team is made smaller than [`LEAST`]. If libomp makes a
//! team of one nevertheless (a limit of the program's), the setting stays low and teams are left alone from then on.

use core::ffi::{CStr, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use mapper_abi::TeamsOff;
use mapper_shim_core::elf::{self, Module};
use mapper_shim_core::shield::shielded;
use mapper_shim_core::{attachment, environment, looked_up, scope};

use crate::ompt::abi::Data;
use crate::region::team_size::{self, Request, Verdict};

const LEAST: u32 = 2;

type Set = unsafe extern "C" fn(c_int);
type Get = unsafe extern "C" fn() -> c_int;

#[derive(Debug)]
pub(crate) struct Sizing {
    /// `omp_set_num_threads`; null where there is none.
    set: AtomicPtr<c_void>,
    get: AtomicPtr<c_void>,
    has_failed: AtomicBool,
    places: AtomicPtr<Places>,
    /// Modules that had been loaded when none called `omp_set_dynamic`; `u64::MAX` if one does.
    modules_seen: AtomicU64,
}

#[derive(Debug)]
struct Places {
    copy: Module,
    shim: Module,
}

/// Functions by which a program insists on the sizes that it asks for.
const INSISTING: [&CStr; 3] = [
    c"omp_set_dynamic",
    c"omp_set_dynamic_",
    c"omp_set_dynamic_8_",
];

impl Places {
    /// Whether a call of one of the copy's users goes to the copy, or may once the linker has bound it.
    fn is_reached_by(&self, name: &CStr) -> bool {
        elf::calls_of_others(&self.copy, name)
            .iter()
            .filter(|call| call.caller.start != self.shim.start)
            .any(|call| self.copy.contains(call.target) || call.caller.contains(call.target))
    }
}

/// A thread's teams without mapper, as of its first region; kept in the runtime's word beside the thread, 0 before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Usual {
    size: u32,
    chosen: bool,
}

impl Usual {
    const CHOSEN: u64 = 1 << 32;

    const fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => None,
            word => Some(Self {
                size: word as u32,
                chosen: word & Self::CHOSEN != 0,
            }),
        }
    }

    const fn to_word(self) -> u64 {
        self.size as u64 | if self.chosen { Self::CHOSEN } else { 0 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Beginning {
    /// The size that the runtime means to give it.
    requested: u32,
    /// What the setting says: something else where a clause says more.
    setting: u32,
    /// `None` for the first of the thread.
    usual: Option<Usual>,
    limit: u32,
}

impl Beginning {
    /// `insists` says whether the program may refuse smaller teams than it asked for.
    fn verdict(self, insists: impl Fn() -> bool) -> Verdict {
        let usual = self.usual;
        team_size::decide(Request {
            asked: match self.requested == self.setting {
                true => 0,
                false => self.requested,
            },
            exact: || {
                usual
                    .is_some_and(|usual| usual.chosen || usual.size != self.setting)
                    .then_some(TeamsOff::SetNumThreads)
                    .or_else(|| insists().then_some(TeamsOff::SetDynamic))
            },
            first: usual.is_none(),
            initial_max: self.setting,
            limit: self.limit,
        })
    }
}

impl Sizing {
    pub(crate) const fn new() -> Self {
        Self {
            set: AtomicPtr::new(null_mut()),
            get: AtomicPtr::new(null_mut()),
            has_failed: AtomicBool::new(false),
            places: AtomicPtr::new(null_mut()),
            modules_seen: AtomicU64::new(0),
        }
    }

    pub(crate) fn look_up(&self, copy: &Module, shim: &Module) {
        let places = Places {
            copy: copy.clone(),
            shim: shim.clone(),
        };
        if copy.path.is_empty() || !places.is_reached_by(c"__kmpc_fork_call") {
            return;
        }
        self.places
            .store(Box::into_raw(Box::new(places)), Ordering::Release);
        // With a list, sizes within regions are the list's, not what was set.
        let is_list = environment::text(c"OMP_NUM_THREADS").is_some_and(|text| text.contains(','));
        if !is_list {
            let set = scope::function_within(copy, c"omp_set_num_threads");
            self.set.store(set, Ordering::Relaxed);
        }
        let get = scope::function_within(copy, c"omp_get_max_threads");
        self.get.store(get, Ordering::Relaxed);
    }

    fn functions(&self) -> Option<(Get, Set)> {
        // SAFETY: functions of these names have these types; null becomes `None`.
        let (get, set) = unsafe {
            (
                core::mem::transmute::<*mut c_void, Option<Get>>(self.get.load(Ordering::Relaxed)),
                core::mem::transmute::<*mut c_void, Option<Set>>(self.set.load(Ordering::Relaxed)),
            )
        };
        Some((get?, set?))
    }

    pub(crate) fn put(&self, size: u32) {
        if let (Some((_, set)), Ok(size)) = (self.functions(), c_int::try_from(size)) {
            // SAFETY: any thread of the runtime's may set its own size.
            unsafe { set(size) };
        }
    }

    /// Lowers the calling thread's setting before an outermost region; returns what it was, to be restored.
    pub(crate) fn lower(&self, thread_data: &Data, requested: u32) -> Option<u32> {
        let usual = Usual::from_word(thread_data.load(Ordering::Relaxed));
        let setting = self.functions().map(|(get, _)| {
            // SAFETY: it takes nothing.
            u32::try_from(unsafe { get() }).unwrap_or(0)
        });
        if usual.is_none() {
            let size = setting.unwrap_or(requested).max(1);
            let shown = environment::default_team();
            let chosen = shown.is_some_and(|shown| shown != size);
            thread_data.store(Usual { size, chosen }.to_word(), Ordering::Relaxed);
            attachment::report_max_threads(size);
        }
        let limit = attachment::team_limit();
        if limit >= requested || !attachment::teams_follow() {
            return None;
        }
        if let Some(reason) = looked_up::exactness() {
            attachment::report_teams_off(reason);
            return None;
        }
        // A runtime that sizes teams itself may make one of one thread, after which nothing can be restored.
        let can_size =
            !self.has_failed.load(Ordering::Relaxed) && !environment::asks_for_dynamic_teams();
        let Some(setting) = setting.filter(|_| can_size) else {
            attachment::report_teams_off(TeamsOff::Observed);
            return None;
        };
        let beginning = Beginning {
            requested,
            setting,
            usual,
            limit,
        };
        match beginning.verdict(|| self.program_insists()) {
            Verdict::Lower(size) if size.max(LEAST) < setting => {
                self.put(size.max(LEAST));
                Some(setting)
            }
            Verdict::Untouched(Some(reason)) => {
                attachment::report_teams_off(reason);
                None
            }
            Verdict::Lower(_) | Verdict::Full | Verdict::Untouched(None) => None,
        }
    }

    fn program_insists(&self) -> bool {
        let seen = self.modules_seen.load(Ordering::Relaxed);
        if seen == u64::MAX {
            return true;
        }
        // Before the look: what is added during it is looked at once more.
        let modules = elf::modules_added();
        if seen == modules {
            return false;
        }
        let places = self.places.load(Ordering::Acquire);
        // SAFETY: only a leaked box is stored there.
        let places = unsafe { places.as_ref() };
        let insists = places.and_then(|places| {
            shielded(|| Some(INSISTING.iter().any(|name| places.is_reached_by(name))))
        });
        let insists = insists.unwrap_or(true);
        let seen = if insists { u64::MAX } else { modules };
        self.modules_seen.store(seen, Ordering::Relaxed);
        insists
    }

    pub(crate) fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
        attachment::report_teams_off(TeamsOff::Observed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Beginning = Beginning {
        requested: 8,
        setting: 8,
        usual: Some(Usual {
            size: 8,
            chosen: false,
        }),
        limit: 3,
    };

    #[test]
    fn what_is_known_of_a_thread_fits_into_its_word() {
        for chosen in [false, true] {
            let usual = Usual { size: 8, chosen };
            assert_eq!(Usual::from_word(usual.to_word()), Some(usual));
        }
        assert_eq!(Usual::from_word(0), None);
    }

    #[test]
    fn a_region_follows_unless_it_is_the_first_or_the_program_chose_its_size() {
        let first = Beginning {
            usual: None,
            ..SECOND
        };
        let clause = Beginning {
            requested: 5,
            ..SECOND
        };
        let changed = Beginning {
            requested: 6,
            setting: 6,
            ..SECOND
        };
        let chosen = Beginning {
            usual: Some(Usual {
                size: 8,
                chosen: true,
            }),
            ..SECOND
        };
        let exact = |reason| Verdict::Untouched(Some(reason));
        for (region, insists, verdict) in [
            (SECOND, false, Verdict::Lower(3)),
            (first, false, Verdict::Full),
            (SECOND, true, exact(TeamsOff::SetDynamic)),
            (clause, false, exact(TeamsOff::Clause)),
            (changed, false, exact(TeamsOff::SetNumThreads)),
            (chosen, false, exact(TeamsOff::SetNumThreads)),
        ] {
            assert_eq!(region.verdict(|| insists), verdict, "{region:?}");
        }
    }
}
