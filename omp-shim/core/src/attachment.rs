//! The page shared with the daemon, as this process sees it.
//!
//! *Life.* The first OpenMP call of any thread looks for the page; whoever maps it first wins, the
//! others drop theirs, so no lock is needed. From then on it stays mapped. A process that never
//! attaches (no variables, wrong token, wrong version) is *inert*: everything passes through.
//!
//! *Slots.* A thread claims a slot when it first counts and gives it back when it ends, the process
//! all of them when it exits. The child of a fork has its parent's page and must not write to its
//! parent's slots: a fork handler forgets the slot of the one thread that the child has.
//!
//! *Invariants.* Reading the team limit without a change of the allocation is one relaxed load from
//! the page and one from a static.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::io::Write as _;

use mapper_abi::layout::ReportBlock;
use mapper_abi::{
    ClientPage, ReportFlags, Runtimes, SlotClaim, SlotOwner, SlotSharing, TeamMode, TeamsOff, Token,
};

use crate::environment;
use crate::features::{TeamsWanted, features};
use crate::logical;
use crate::shield::shielded;
use crate::thread_state::{self, ThreadState};

/// A page and what goes with it.
struct Attachment {
    page: ClientPage,
    /// The mode chosen at launch. The page can only take liberties back, not give them.
    teams: TeamMode,
    /// Its destructor gives a thread's slot back.
    thread_end: libc::pthread_key_t,
}

/// Not looked for yet (null), not there ([`inert`]) or attached.
static ATTACHMENT: AtomicPtr<Attachment> = AtomicPtr::new(null_mut());
/// Process id; changes in the child of a fork.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The sequence number to compare with what is known: the page's under `follow`, else one that never
/// changes, so that both modes take the same path.
static WATCHED: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NEVER_PUBLISHED).cast_mut());
static NEVER_PUBLISHED: AtomicU32 = AtomicU32::new(high(NOTHING_KNOWN));
/// The number of CPUs: the page's once attached.
static CPU_COUNT: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NOTHING_DECIDED).cast_mut());
static NOTHING_DECIDED: AtomicU32 = AtomicU32::new(0);
/// What the user asked for is in force, for every thread that sees this.
static SETTLED: AtomicBool = AtomicBool::new(false);
/// See [`teams_follow`].
static TEAMS_FOLLOW: AtomicBool = AtomicBool::new(false);
/// The sequence number of the allocation last read (high half) and the team limit that follows from
/// it (low half).
static KNOWN_LIMIT: AtomicU64 = AtomicU64::new(NOTHING_KNOWN);
/// Sequence number and team size last reported.
static REPORTED: AtomicU64 = AtomicU64::new(u64::MAX);
/// The value of `KNOWN_LIMIT` before the first look: no limit, and an odd sequence number, which no
/// allocation read has.
const NOTHING_KNOWN: u64 = u64::MAX;

/// No limit to the size of teams.
pub const NO_LIMIT: u32 = u32::MAX;

/// The address that stands for "looked for and not there"; never dereferenced.
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

/// Whether the page was looked for and is not there.
#[inline(always)]
pub fn is_inert() -> bool {
    ATTACHMENT.load(Ordering::Relaxed) == inert()
}

/// The thread's slot, or nothing in an inert process.
#[inline(always)]
pub fn slot(thread: &ThreadState) -> Option<SlotClaim<'static>> {
    match thread.slot.get() {
        Some(slot) if !thread.slot_is_shared.get() => Some(SlotClaim {
            slot,
            sharing: SlotSharing::Own,
        }),
        Some(slot) => Some(SlotClaim {
            slot,
            sharing: SlotSharing::Shared,
        }),
        None => claim_slot(thread),
    }
}

/// Finds the page unless that has been tried, so that what the user asked for is known.
#[inline]
pub fn settle() {
    if !SETTLED.load(Ordering::Acquire) {
        let _ = shielded(|| {
            attach();
            // Another thread may have attached and not have come to this yet. Waiting for it could be for ever,
            // in the child of a fork; doing the same twice does no harm.
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
        // SAFETY: the key was made by `attach`. A value other than null has the destructor called.
        unsafe { libc::pthread_setspecific(attachment.thread_end, inert().cast()) };
        Some(claim)
    })
}

/// Whether a process has ended.
fn is_gone(process: u32) -> bool {
    let Ok(process) = libc::pid_t::try_from(process) else {
        return true;
    };
    // SAFETY: signal 0 only asks whether the process exists; 0 and negative numbers mean groups.
    let failed = process > 0 && unsafe { libc::kill(process, 0) } != 0;
    failed && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// The calling thread as owner of a slot.
fn owner() -> SlotOwner {
    SlotOwner {
        process: PROCESS.load(Ordering::Relaxed),
        thread: thread_number().unsigned_abs(),
    }
}

/// The kernel's number of the calling thread: without a system call, as far as the C library tells.
///
/// A thread claims its slot at its first construct, and by then the program may have given up all system calls but a
/// few (seccomp). What the C library makes of the number is the kernel's interface: the clock of a thread's CPU time is
/// `!number << 3 | 6` (`CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED`, `include/linux/posix-timers.h`).
fn thread_number() -> libc::pid_t {
    const KIND_BITS: u32 = 3;
    const OF_A_THREAD: libc::clockid_t = 6;
    // A member of a virtual team may run on another thread than the C library says.
    if crate::thread_state::current().member.get().is_none() {
        let mut clock = 0;
        // SAFETY: the thread is the calling one; the clock is written to a place of this function's own.
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
    // Before anybody of this program can have a slot: it may have become of another one by `exec`.
    let leftovers = match found == inert() {
        true => None,
        // SAFETY: made by `Box::into_raw` above and shown to nobody.
        false => Some(
            unsafe { &*found }
                .page
                .leftovers(std::process::id(), is_gone),
        ),
    };
    let won = ATTACHMENT
        .compare_exchange(null_mut(), found, Ordering::AcqRel, Ordering::Acquire)
        .is_ok();
    if won && found != inert() {
        if let (Some(attachment), Some(leftovers)) = (attachment(), leftovers) {
            attachment.page.discard(&leftovers);
        }
        watch();
        (features().attached)();
        // SAFETY: the handlers are functions of this library, which is never unloaded while the
        // program runs, being preloaded. A failure to register means lost counts at worst.
        unsafe {
            libc::pthread_atfork(None, None, Some(after_fork_in_child));
            libc::atexit(at_exit);
        }
    } else if !won && found != inert() {
        // SAFETY: made by `Box::into_raw` above and shown to nobody.
        drop(unsafe { Box::from_raw(found) });
    }
}

/// Has the page's number of CPUs looked at from now on and, unless teams are fixed, its sequence number
/// compared with what is known.
fn watch() {
    if let Some(attachment) = attachment() {
        let cpu_count: *const AtomicU32 = attachment.page.cpu_count_word();
        CPU_COUNT.store(cpu_count.cast_mut(), Ordering::Relaxed);
        TEAMS_FOLLOW.store(attachment.teams == TeamMode::Follow, Ordering::Relaxed);
        let teams = match attachment.teams {
            TeamMode::Virtual => TeamsWanted::Logical,
            _ => TeamsWanted::Real,
        };
        (features().mode_is_known)(teams);
    }
    if let Some(attachment) = attachment()
        && attachment.teams != TeamMode::Fixed
    {
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
    // SAFETY: `thread_end` is a place for the key; the destructor is a function of this library.
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
        let sharing = match thread.slot_is_shared.get() {
            true => SlotSharing::Shared,
            false => SlotSharing::Own,
        };
        attachment
            .page
            .release_slot(SlotClaim { slot, sharing }, owner());
    }
}

extern "C" fn at_exit() {
    if let Some(attachment) = attachment() {
        let process = PROCESS.load(Ordering::Relaxed);
        attachment.page.release_processes(|owner| owner == process);
    }
}

unsafe extern "C" fn after_fork_in_child() {
    // SAFETY: getpid has no preconditions.
    let process: c_int = unsafe { libc::getpid() };
    PROCESS.store(process.unsigned_abs(), Ordering::Relaxed);
    let thread = thread_state::current();
    thread.slot.set(None);
    thread.settled_runtime.set(None);
    (features().forked)(thread);
}

/// The sequence number of the allocation; a constant unless teams follow it.
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

/// How many CPUs the program has now; 0 when nothing has been decided.
#[inline(always)]
pub fn cpu_count() -> u32 {
    let count = CPU_COUNT.load(Ordering::Relaxed);
    // SAFETY: it points to a static or into the page, which stays mapped for ever.
    unsafe { &*count }.load(Ordering::Relaxed)
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

/// Iterations and regions that all threads that share the page have completed so far.
pub fn completions() -> u64 {
    attachment().map_or(0, |attachment| attachment.page.completions())
}

/// How many threads the allocation allows a team that follows it.
#[inline]
pub fn team_limit() -> u32 {
    if logical::is_wanted() {
        return NO_LIMIT;
    }
    limit()
}

/// Reads the allocation if it has changed, so that what is reported next is about it. Not under `fixed`.
#[inline]
pub fn note_allocation() {
    let _ = limit();
}

/// How many OS threads the allocation allows a virtual team.
#[inline]
pub fn carrier_limit() -> u32 {
    limit()
}

#[inline]
fn limit() -> u32 {
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
        // The daemon lost its CPU, or its life, while it wrote: what was known holds until it has gone on. Of an
        // even number this would say that the allocation under it had been read.
        if is_being_written(sequence) {
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

/// Whether this is the sequence number of an allocation that is not complete, or of none.
fn is_being_written(sequence: u32) -> bool {
    sequence % 2 == 1
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

/// How many threads of the application have come to a construct of OpenMP and not ended, in all processes
/// that share the page.
pub fn threads() -> u32 {
    attachment().map_or(0, |attachment| attachment.page.threads())
}

/// Reports a runtime that is in use.
pub fn report_runtime(runtimes: Runtimes) {
    if let Some(report) = report()
        && report.runtimes.load(Ordering::Relaxed) & runtimes.bits() == 0
    {
        report.runtimes.fetch_or(runtimes.bits(), Ordering::Relaxed);
        report
            .flags
            .fetch_or(ReportFlags::WAIT_MEASURED.bits(), Ordering::Relaxed);
        if environment::spinning_runtimes().intersects(runtimes) {
            report
                .flags
                .fetch_or(ReportFlags::WAITS_SPIN.bits(), Ordering::Relaxed);
        }
    }
}

/// Reports that a copy of libomp is heard by OMPT alone.
#[cold]
pub fn report_observed() {
    if let Some(report) = report() {
        let flag = ReportFlags::OBSERVED.bits();
        report.flags.fetch_or(flag, Ordering::Relaxed);
    }
}

/// Reports how many CPUs regions do not need.
pub fn report_spare(cpus: u32) {
    if let Some(report) = report() {
        report.spare_cpus.store(cpus, Ordering::Relaxed);
    }
}

/// Reports that threads are not parked any more.
#[cold]
pub fn report_parking_ended() {
    if let Some(report) = report() {
        let flag = ReportFlags::PARKING_ENDED.bits();
        report.flags.fetch_or(flag, Ordering::Relaxed);
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

/// Reports that a carrier was helped out.
#[cold]
pub fn report_preemption() {
    if let Some(report) = report() {
        report.preemptions.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reports the team that the program would use by itself; the largest that any of its threads says.
pub fn report_max_threads(max_threads: u32) {
    if let Some(report) = report() {
        report.max_threads.fetch_max(max_threads, Ordering::Relaxed);
    }
}

/// Reports why teams do not follow or are not virtual; the reason given last.
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
