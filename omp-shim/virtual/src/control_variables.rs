//! The settings that OpenMP keeps for each thread: team size, schedule, nesting. Members of a virtual team are no team
//! for the runtime, so each has the settings of the environment.
//!
//! *Approach.* The pool's owner notes its settings when they may have changed; a member with older ones takes them over
//! before it begins a region. What a member sets within a region is forgotten at its end, as OpenMP wants. Once the
//! program has looked up the runtime's own functions ([`mapper_shim_core::by_handle`]), the owner before and after each
//! region, and every member when it begins, compare what was noted with what the runtime says.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};

use mapper_shim_core::runtime::{RunSchedule, Runtime};
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::thread_state::ThreadState;
use mapper_shim_core::{environment, logical, looked_up};

use super::member::{Member, OfMember};

/// Goes up when a thread outside regions changes a setting; never 0.
static VERSION: AtomicU32 = AtomicU32::new(1);
static DIRTY: AtomicBool = AtomicBool::new(false);

static NOTED_VERSION: AtomicU32 = AtomicU32::new(0);
static NOTED_RUNTIME: AtomicUsize = AtomicUsize::new(0);
static TEAM_SIZE: AtomicI32 = AtomicI32::new(0);
static LIMIT: AtomicI32 = AtomicI32::new(0);
static DYNAMIC: AtomicI32 = AtomicI32::new(0);
static ACTIVE_LEVELS: AtomicI32 = AtomicI32::new(0);
static SCHEDULE: AtomicI32 = AtomicI32::new(0);
static CHUNK: AtomicI32 = AtomicI32::new(0);

fn set(runtime: &Runtime, symbol: Symbol, value: c_int) {
    type Setter = unsafe extern "C-unwind" fn(c_int);
    // SAFETY: callers name functions of this type; null becomes `None`.
    let setter =
        unsafe { core::mem::transmute::<*mut c_void, Option<Setter>>(runtime.function(symbol)) };
    if let Some(setter) = setter {
        // SAFETY: likewise.
        unsafe { setter(value) };
    }
}

fn set_run_schedule(runtime: &Runtime, schedule: RunSchedule) {
    type Setter = unsafe extern "C-unwind" fn(c_int, c_int);
    let function = runtime.function(Symbol::omp_set_schedule);
    // SAFETY: the function of that name has this type; null becomes `None`.
    let setter = unsafe { core::mem::transmute::<*mut c_void, Option<Setter>>(function) };
    if let Some(setter) = setter {
        // SAFETY: the values come from `omp_get_schedule`.
        unsafe { setter(schedule.kind, schedule.chunk) };
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    pub(super) usual: u32,
    pub(super) limit: u32,
    pub(super) are_dynamic: bool,
}

/// Those in force for the calling thread, the pool's owner, outside regions.
#[inline]
pub(super) fn sizes(runtime: &'static Runtime) -> Sizes {
    if looked_up::may_set() && differs_from_noted(runtime) {
        forget();
    }
    let noted = NOTED_VERSION.load(Ordering::Relaxed) == VERSION.load(Ordering::Relaxed)
        && NOTED_RUNTIME.load(Ordering::Relaxed) == core::ptr::from_ref(runtime) as usize;
    if !noted {
        note(runtime);
    }
    Sizes {
        usual: TEAM_SIZE.load(Ordering::Relaxed).unsigned_abs(),
        limit: LIMIT.load(Ordering::Relaxed).unsigned_abs(),
        are_dynamic: DYNAMIC.load(Ordering::Relaxed) != 0,
    }
}

#[cold]
fn note(runtime: &'static Runtime) {
    let version = VERSION.load(Ordering::Relaxed);
    TEAM_SIZE.store(runtime.ask(Symbol::omp_get_max_threads), Ordering::Relaxed);
    let levels = runtime.ask(Symbol::omp_get_max_active_levels);
    // No active level at all: every region has one thread.
    let limit = match levels {
        0 => 1,
        _ => runtime.ask(Symbol::omp_get_thread_limit),
    };
    LIMIT.store(limit, Ordering::Relaxed);
    DYNAMIC.store(runtime.ask(Symbol::omp_get_dynamic), Ordering::Relaxed);
    ACTIVE_LEVELS.store(levels, Ordering::Relaxed);
    let schedule = runtime.run_schedule();
    SCHEDULE.store(schedule.kind, Ordering::Relaxed);
    CHUNK.store(schedule.chunk, Ordering::Relaxed);
    NOTED_RUNTIME.store(core::ptr::from_ref(runtime) as usize, Ordering::Relaxed);
    NOTED_VERSION.store(version, Ordering::Relaxed);
}

#[cold]
fn differs_from_noted(runtime: &Runtime) -> bool {
    let schedule = runtime.run_schedule();
    let differs = |now: c_int, noted: &AtomicI32| now != noted.load(Ordering::Relaxed);
    differs(runtime.ask(Symbol::omp_get_max_threads), &TEAM_SIZE)
        || differs(runtime.ask(Symbol::omp_get_dynamic), &DYNAMIC)
        || differs(
            runtime.ask(Symbol::omp_get_max_active_levels),
            &ACTIVE_LEVELS,
        )
        || differs(schedule.kind, &SCHEDULE)
        || differs(schedule.chunk, &CHUNK)
}

/// Whether the calling thread, in a virtual region, may have other settings than the thread that began it.
#[inline]
fn has_strayed() -> bool {
    looked_up::may_set() && logical::runtime().is_some_and(differs_from_noted)
}

pub(crate) fn note_change(thread: &ThreadState) {
    match thread.member() {
        Some(member) => {
            member.settings_seen.store(0, Ordering::Relaxed);
            if member.id == 0 {
                DIRTY.store(true, Ordering::Relaxed);
            }
        }
        None if thread.outer.get().is_some() => {}
        None => forget(),
    }
}

/// What was noted does not hold any more: settings have changed, or the pool has another owner.
pub(super) fn forget() {
    // Zero means "none seen".
    if VERSION.fetch_add(1, Ordering::Relaxed) == u32::MAX {
        VERSION.store(1, Ordering::Relaxed);
    }
}

/// Gives `member`, which is the calling thread, the settings of the thread that began the region.
#[inline]
pub(super) fn adopt(member: &Member) {
    let version = NOTED_VERSION.load(Ordering::Relaxed);
    let runtime = NOTED_RUNTIME.load(Ordering::Relaxed);
    let seen = member.id == 0
        || (member.settings_seen.load(Ordering::Relaxed) == version
            && member.settings_runtime.load(Ordering::Relaxed) == runtime);
    if !seen || (member.id != 0 && has_strayed()) {
        restore(member);
    }
}

/// Member 0, which is the calling thread, has changed a setting within the region that ends.
#[inline]
pub(super) fn take_dirty() -> bool {
    (DIRTY.load(Ordering::Relaxed) && DIRTY.swap(false, Ordering::Relaxed)) || has_strayed()
}

#[cold]
pub(super) fn restore(member: &Member) {
    let Some(runtime) = logical::runtime() else {
        return;
    };
    let noted = |cell: &AtomicI32| cell.load(Ordering::Relaxed);
    set(runtime, Symbol::omp_set_num_threads, noted(&TEAM_SIZE));
    set(runtime, Symbol::omp_set_dynamic, noted(&DYNAMIC));
    let levels = noted(&ACTIVE_LEVELS);
    if runtime.ask(Symbol::omp_get_max_active_levels) != levels {
        set(runtime, Symbol::omp_set_max_active_levels, levels);
    }
    let (kind, chunk) = (noted(&SCHEDULE), noted(&CHUNK));
    set_run_schedule(runtime, RunSchedule { kind, chunk });
    member
        .settings_seen
        .store(NOTED_VERSION.load(Ordering::Relaxed), Ordering::Relaxed);
    member
        .settings_runtime
        .store(NOTED_RUNTIME.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// The stack that the environment asks for; 0 if it does not.
pub(super) fn stack_bytes() -> usize {
    [c"OMP_STACKSIZE", c"GOMP_STACKSIZE"]
        .into_iter()
        .find_map(|name| parse_size(environment::text(name)?))
        .map_or(0, |bytes| bytes.max(64 << 10))
}

/// A size as `OMP_STACKSIZE` gives it: a number of KiB, or of the unit that follows it.
fn parse_size(text: &str) -> Option<usize> {
    let text = text.trim().to_ascii_uppercase();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "B" => 0,
        "" | "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(1 << shift)
}

/// How long threads spin before they sleep, by the variables that libgomp reads.
pub(super) fn spin_count() -> u32 {
    const USUAL: u32 = 3_000;
    if let Some(text) = environment::text(c"GOMP_SPINCOUNT") {
        return text.trim().parse().unwrap_or(USUAL);
    }
    match environment::text(c"OMP_WAIT_POLICY") {
        Some(policy) if policy.trim().eq_ignore_ascii_case("passive") => 0,
        Some(policy) if policy.trim().eq_ignore_ascii_case("active") => u32::MAX,
        _ => USUAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_sizes_are_read_as_openmp_defines_them() {
        for (text, bytes) in [
            ("512", Some(512 << 10)),
            (" 2 M ", Some(2 << 20)),
            ("65536b", Some(65536)),
            ("1g", Some(1 << 30)),
            ("much", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
    }
}
