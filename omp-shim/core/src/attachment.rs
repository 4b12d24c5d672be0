//! The page shared with the daemon, as this process sees it.
//!
//! The first OpenMP call of any thread maps the page, without a lock; it stays mapped. A process without a page (no
//! variables, wrong token or version) is *inert*: every call passes through. A thread claims a slot when it first
//! counts and releases it when it ends; the process releases all at exit. The child of a fork must not write to its
//! parent's slots, so a fork handler forgets the slot.
//!
//! *Invariants.* The team limit costs two relaxed loads while the allocation does not change.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::io::Write as _;

use mapper_abi::layout::ReportBlock;
use mapper_abi::{
    ClientPage, ReportFlags, Runtimes, SlotClaim, SlotOwner, SlotSharing, TeamMode, TeamsOff, Token,
};

use crate::features::{TeamsWanted, features};
use crate::shield::shielded;
use crate::thread_state::{self, ThreadState};
use crate::{environment, loaded, logical};

struct Attachment {
    page: ClientPage,
    /// The mode chosen at launch; the page can only restrict it.
    teams: TeamMode,
    thread_end: libc::pthread_key_t,
}

/// Not looked for yet (null), not there ([`inert`]) or attached.
static ATTACHMENT: AtomicPtr<Attachment> = AtomicPtr::new(null_mut());
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The sequence number to compare: the page's unless teams are fixed, else one that never changes.
static WATCHED: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NEVER_PUBLISHED).cast_mut());
static NEVER_PUBLISHED: AtomicU32 = AtomicU32::new(high(NOTHING_KNOWN));
/// The number of CPUs: the page's once attached.
static CPU_COUNT: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NOTHING_DECIDED).cast_mut());
static NOTHING_DECIDED: AtomicU32 = AtomicU32::new(0);
static SETTLED: AtomicBool = AtomicBool::new(false);
static TEAMS_FOLLOW: AtomicBool = AtomicBool::new(false);
/// The sequence number of the allocation last read (high half) and its team limit (low half).
static KNOWN_LIMIT: AtomicU64 = AtomicU64::new(NOTHING_KNOWN);
/// Sequence number and team size last reported.
static REPORTED: AtomicU64 = AtomicU64::new(u64::MAX);
/// Before the first read: no limit, and an odd sequence number, which no allocation read has.
const NOTHING_KNOWN: u64 = u64::MAX;

/// No limit to the size of teams.
pub const NO_LIMIT: u32 = u32::MAX;

/// The address that stands for "searched and not there"; never dereferenced.
fn inert() -> *mut Attachment {
    static MARK: u8 = 0;
    (&raw const MARK).cast_mut().cast()
}

fn attachment() -> Option<&'static Attachment> {
    let attachment = ATTACHMENT.load(Ordering::Acquire);
    if attachment.is_null() || attachment == inert() {
        return None;
    }
    // SAFETY: any other value was made by `Box::into_raw` in `attach` and is never freed.
    Some(unsafe { &*attachment })
}

/// Whether the page was searched and is not there.
#[inline(always)]
pub fn is_inert() -> bool {
    ATTACHMENT.load(Ordering::Relaxed) == inert()
}

/// The thread's slot, or nothing in an inert process.
#[inline(always)]
pub fn slot(thread: &ThreadState) -> Option<SlotClaim<'static>> {
    match thread.slot.get() {
        Some(slot) => Some(SlotClaim {
            slot,
            sharing: sharing(thread),
        }),
        None => claim_slot(thread),
    }
}

#[inline(always)]
fn sharing(thread: &ThreadState) -> SlotSharing {
    match thread.slot_is_shared.get() {
        true => SlotSharing::Shared,
        false => SlotSharing::Own,
    }
}

/// Maps the page unless that has been tried, so that the settings are known.
#[inline]
pub fn settle() {
    if !SETTLED.load(Ordering::Acquire) {
        let _ = shielded(|| {
            attach();
            // Another thread may have attached and not be here yet. Waiting for it could last for ever in the
            // child of a fork; doing it twice does no harm.
            watch();
            SETTLED.store(true, Ordering::Release);
            Some(())
        });
    }
}

#[cold]
fn claim_slot(thread: &ThreadState) -> Option<SlotClaim<'static>> {
    if ATTACHMENT.load(Ordering::Acquire) == inert() {
        return None;
    }
    shielded(|| {
        attach();
        let attachment = attachment()?;
        let claim = attachment.page.claim_slot(owner(), is_gone);
        thread.slot.set(Some(claim.slot));
        thread
            .slot_is_shared
            .set(claim.sharing == SlotSharing::Shared);
        // SAFETY: the key was made by `attach`; any value but null has the destructor called.
        unsafe { libc::pthread_setspecific(attachment.thread_end, inert().cast()) };
        Some(claim)
    })
}

fn is_gone(process: u32) -> bool {
    let Ok(process) = libc::pid_t::try_from(process) else {
        return true;
    };
    // SAFETY: signal 0 only tests the process; 0 and negative numbers would name groups.
    let failed = process > 0 && unsafe { libc::kill(process, 0) } != 0;
    failed && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

fn owner() -> SlotOwner {
    SlotOwner {
        process: PROCESS.load(Ordering::Relaxed),
        thread: thread_number().unsigned_abs(),
    }
}

/// The kernel's number of the calling thread, by the C library where possible: a seccomp filter may forbid `gettid`.
/// The clock of a thread's CPU time is `!number << 3 | 6` (`include/linux/posix-timers.h`), the kernel's interface.
fn thread_number() -> libc::pid_t {
    const KIND_BITS: u32 = 3;
    const OF_A_THREAD: libc::clockid_t = 6;
    // A member of a virtual team may run on another OS thread than the C library says.
    if crate::thread_state::current().member.get().is_none() {
        let mut clock = 0;
        // SAFETY: the thread is the calling one; `clock` is a local variable.
        let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        if failed == 0 && clock & ((1 << KIND_BITS) - 1) == OF_A_THREAD {
            return !(clock >> KIND_BITS);
        }
    }
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() }
}

fn attach() {
    if !ATTACHMENT.load(Ordering::Acquire).is_null() {
        return;
    }
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    let found = match find() {
        Ok(attachment) => Box::into_raw(Box::new(attachment)),
        Err(reason) => {
            if environment::text(c"MAPPER_DEBUG") == Some("1") {
                let _ = writeln!(std::io::stderr(), "libmapper_omp: inert: {reason}");
            }
            inert()
        }
    };
    // Before this program can have a slot: it may have replaced another one by `exec`.
    let leftovers = (found != inert()).then(|| {
        // SAFETY: made by `Box::into_raw` above and not published yet.
        let page = unsafe { &(*found).page };
        page.leftovers(std::process::id(), is_gone)
    });
    let won = ATTACHMENT
        .compare_exchange(null_mut(), found, Ordering::AcqRel, Ordering::Acquire)
        .is_ok();
    if won && let (Some(attachment), Some(leftovers)) = (attachment(), &leftovers) {
        attachment.page.discard(leftovers);
        watch();
    } else if !won && leftovers.is_some() {
        // SAFETY: made by `Box::into_raw` above and never published.
        drop(unsafe { Box::from_raw(found) });
    }
}

fn watch() {
    let Some(attachment) = attachment() else {
        return;
    };
    let cpu_count: *const AtomicU32 = attachment.page.cpu_count_word();
    CPU_COUNT.store(cpu_count.cast_mut(), Ordering::Relaxed);
    TEAMS_FOLLOW.store(attachment.teams == TeamMode::Follow, Ordering::Relaxed);
    (features().mode_is_known)(match attachment.teams {
        TeamMode::Virtual => TeamsWanted::Logical,
        _ => TeamsWanted::Real,
    });
    if attachment.teams != TeamMode::Fixed {
        let sequence: *const AtomicU32 = attachment.page.sequence_word();
        WATCHED.store(sequence.cast_mut(), Ordering::Relaxed);
    }
}

fn find() -> Result<Attachment, String> {
    let path = environment::path(c"MAPPER_PAGE").ok_or("MAPPER_PAGE is not set")?;
    let token = environment::text(c"MAPPER_TOKEN").ok_or("MAPPER_TOKEN is not set")?;
    let token = token.parse::<Token>().map_err(|error| error.to_string())?;
    let teams = match environment::text(c"MAPPER_TEAMS") {
        None => TeamMode::Fixed,
        Some(name) => TeamMode::from_name(name).ok_or_else(|| {
            format!("MAPPER_TEAMS is {name:?}, expected fixed, follow or virtual")
        })?,
    };
    let page = ClientPage::open(path, token).map_err(|error| error.to_string())?;
    let mut thread_end = 0;
    // SAFETY: `thread_end` is a local variable; the destructor is a function of this library.
    let failed = unsafe { libc::pthread_key_create(&raw mut thread_end, Some(at_thread_end)) };
    if failed != 0 {
        return Err("the process has no thread-specific key left".to_owned());
    }
    Ok(Attachment {
        page,
        teams,
        thread_end,
    })
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // SAFETY: the key was made by `find` and no thread has used it.
        unsafe { libc::pthread_key_delete(self.thread_end) };
    }
}

unsafe extern "C" fn at_thread_end(_: *mut c_void) {
    let thread = thread_state::current();
    (features().thread_ends)(thread);
    if let (Some(slot), Some(attachment)) = (thread.slot.take(), attachment()) {
        let sharing = sharing(thread);
        let claim = SlotClaim { slot, sharing };
        attachment.page.release_slot(claim, owner());
    }
}

extern "C" fn at_exit() {
    let process = PROCESS.load(Ordering::Relaxed);
    // A child made by a bare system call has its parent's number there, and none of its slots.
    if let Some(attachment) = attachment().filter(|_| loaded::is_noted()) {
        attachment.page.release_processes(|owner| owner == process);
    }
}

/// The library is being loaded. Later, in the child of a fork, a thread that is not there may hold the locks of the lists
/// of handlers.
pub fn register_handlers() {
    // SAFETY: the handlers are functions of this library, which is preloaded, hence never unloaded. Failing to register
    // means lost counts at worst.
    unsafe {
        libc::pthread_atfork(None, None, Some(after_fork_in_child));
        libc::atexit(at_exit);
    }
}

unsafe extern "C" fn after_fork_in_child() {
    loaded::note_fork();
    if attachment().is_none() {
        return;
    }
    // SAFETY: getpid has no preconditions.
    let process: c_int = unsafe { libc::getpid() };
    PROCESS.store(process.unsigned_abs(), Ordering::Relaxed);
    let thread = thread_state::current();
    thread.slot.set(None);
    thread.settled_runtime.set(None);
    (features().forked)(thread);
}

/// The sequence number of the allocation; a constant while teams are fixed.
#[inline(always)]
pub fn sequence() -> u32 {
    let watched = WATCHED.load(Ordering::Relaxed);
    // SAFETY: it points to a static or into the page, which stays mapped for ever.
    unsafe { &*watched }.load(Ordering::Relaxed)
}

/// Whether the sizes of teams follow the allocation.
#[inline(always)]
pub fn teams_follow() -> bool {
    TEAMS_FOLLOW.load(Ordering::Relaxed)
}

/// The CPUs that the program has now; 0 before the first decision.
#[inline(always)]
pub fn cpu_count() -> u32 {
    let count = CPU_COUNT.load(Ordering::Relaxed);
    // SAFETY: it points to a static or into the page, which stays mapped for ever.
    unsafe { &*count }.load(Ordering::Relaxed)
}

/// The most CPUs that the program may ever get, where its teams are to be virtual, so that it may have a thread for each;
/// else 0.
pub fn most_cpus() -> u32 {
    // Programs ask before their first region.
    settle();
    attachment()
        .filter(|attachment| attachment.teams == TeamMode::Virtual)
        .and_then(|attachment| attachment.page.allocation())
        .map_or(0, |read| read.fields.max_team)
}

/// The NUMA nodes of the program's CPUs, bit *n* for node *n*.
pub fn node_mask() -> u64 {
    attachment()
        .and_then(|attachment| attachment.page.allocation())
        .map_or(0, |read| read.fields.node_mask)
}

/// The bell that rings when the allocation changes.
pub fn bell() -> Option<&'static AtomicU32> {
    report().map(|report| &report.doorbell)
}

/// Whether the program's CPUs are also those of another process that runs OpenMP.
pub fn shares_cpus() -> bool {
    let process = PROCESS.load(Ordering::Relaxed);
    attachment().is_some_and(|attachment| attachment.page.has_other_processes(process))
}

/// Iterations and regions completed so far by all threads that share the page.
pub fn completions() -> u64 {
    attachment().map_or(0, |attachment| attachment.page.completions())
}

/// The largest team that the allocation allows, of real threads.
#[inline]
pub fn team_limit() -> u32 {
    if logical::is_wanted() {
        return NO_LIMIT;
    }
    carrier_limit()
}

/// Reads the allocation if it has changed, so that the next report is about it. Not under `fixed`.
#[inline]
pub fn note_allocation() {
    let _ = carrier_limit();
}

/// The most OS threads that the allocation allows a team.
#[inline]
pub fn carrier_limit() -> u32 {
    let known = KNOWN_LIMIT.load(Ordering::Relaxed);
    if high(known) == sequence() {
        low(known)
    } else {
        read_limit()
    }
}

#[cold]
fn read_limit() -> u32 {
    let known = KNOWN_LIMIT.load(Ordering::Relaxed);
    let sequence = sequence();
    let read = attachment().and_then(|attachment| attachment.page.allocation());
    let Some(read) = read else {
        // The daemon was interrupted while it wrote: the known limit holds until it continues. Of an even number
        // this would say that the allocation under it had been read.
        if sequence % 2 == 1 {
            KNOWN_LIMIT.store(pack(sequence, low(known)), Ordering::Relaxed);
        }
        return low(known);
    };
    let allocation = read.fields;
    let agreed = attachment().is_some_and(|attachment| {
        attachment.teams == allocation.team_mode && attachment.teams != TeamMode::Fixed
    });
    let limit = match (allocation.cpu_count, allocation.max_team) {
        _ if !agreed => NO_LIMIT,
        (0, _) => NO_LIMIT,
        (cpus, 0) => cpus,
        (cpus, max_team) => cpus.min(max_team),
    };
    KNOWN_LIMIT.store(pack(read.sequence, limit), Ordering::Relaxed);
    limit
}

/// Whether a team of this size, under the allocation last read, has not been reported yet.
#[inline]
pub fn is_news(team_size: u32) -> bool {
    pack(high(KNOWN_LIMIT.load(Ordering::Relaxed)), team_size) != REPORTED.load(Ordering::Relaxed)
}

/// Reports the size of an outermost team.
#[cold]
pub fn report_team(team_size: u32) {
    let known = KNOWN_LIMIT.load(Ordering::Relaxed);
    REPORTED.store(pack(high(known), team_size), Ordering::Relaxed);
    if let Some(report) = report() {
        report.team_size.store(team_size, Ordering::Relaxed);
        if known != NOTHING_KNOWN && report.applied_sequence.load(Ordering::Relaxed) != high(known)
        {
            (features().allocation_applied)();
            report
                .applied_sequence
                .store(high(known), Ordering::Release);
        }
    }
}

/// The size of the outermost team reported last, 0 before the first.
pub fn reported_team() -> u32 {
    match REPORTED.load(Ordering::Relaxed) {
        u64::MAX => 0,
        reported => low(reported),
    }
}

/// Threads of the application, in all processes of the page, that came to an OpenMP construct and have not ended.
pub fn threads() -> u32 {
    attachment().map_or(0, |attachment| attachment.page.threads())
}

/// Reports a runtime in use.
pub fn report_runtime(runtimes: Runtimes) {
    if let Some(report) = report()
        && report.runtimes.load(Ordering::Relaxed) & runtimes.bits() == 0
    {
        report.runtimes.fetch_or(runtimes.bits(), Ordering::Relaxed);
        report_flag(ReportFlags::WAIT_MEASURED);
        if environment::spinning_runtimes().intersects(runtimes) {
            report_flag(ReportFlags::WAITS_SPIN);
        }
    }
}

/// Sets a flag of the report.
#[cold]
pub fn report_flag(flag: ReportFlags) {
    if let Some(report) = report() {
        report.flags.fetch_or(flag.bits(), Ordering::Relaxed);
    }
}

/// Reports the CPUs that regions do not need.
pub fn report_spare(cpus: u32) {
    if let Some(report) = report() {
        report.spare_cpus.store(cpus, Ordering::Relaxed);
    }
}

/// Reports whether logical threads share thread-local storage from now on.
#[cold]
pub fn report_storage(is_shared: bool) {
    if let Some(report) = report() {
        let flag = ReportFlags::STORAGE_SHARED.bits();
        match is_shared {
            true => report.flags.fetch_or(flag, Ordering::Relaxed),
            false => report.flags.fetch_and(!flag, Ordering::Relaxed),
        };
    }
}

/// Reports that suspended members were run beside their carrier.
#[cold]
pub fn report_preemption() {
    if let Some(report) = report() {
        report.preemptions.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reports the team that the program would use by itself: the largest of its threads.
pub fn report_max_threads(max_threads: u32) {
    if let Some(report) = report() {
        report.max_threads.fetch_max(max_threads, Ordering::Relaxed);
    }
}

/// Reports why teams do not follow or are not virtual; the last reason stays.
#[cold]
pub fn report_teams_off(reason: TeamsOff) {
    if let Some(attachment) = attachment()
        && attachment.teams != TeamMode::Fixed
    {
        let cell = &attachment.page.report().teams_off;
        if cell.load(Ordering::Relaxed) != reason as u32 {
            cell.store(reason as u32, Ordering::Relaxed);
        }
    }
}

fn report() -> Option<&'static ReportBlock> {
    attachment().map(|attachment| attachment.page.report())
}

const fn pack(sequence: u32, value: u32) -> u64 {
    (sequence as u64) << 32 | value as u64
}

const fn high(packed: u64) -> u32 {
    (packed >> 32) as u32
}

const fn low(packed: u64) -> u32 {
    packed as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_number_and_a_value_share_a_word() {
        let packed = pack(7, u32::MAX);
        assert_eq!((high(packed), low(packed)), (7, u32::MAX));
    }
}
