//! The layout of the page: version 1.
//!
//! The page has five parts: a header that is constant after creation, the allocation (written by the daemon under a
//! seqlock), the report (written by the application's runtime, read by the daemon), the report of the application's own
//! code, and one slot for each thread of the application. Parts with different writers, and slots, are on different
//! 128-byte lines, because current x86 CPUs prefetch cache lines in pairs. Numbers are in the host's byte order.
//!
//! *Versions.* A change of any offset or meaning below needs a new [`PAGE_VERSION`]. Fields may be added in reserved bytes,
//! and values to an enumeration, without one: zero must mean "not reported", and unknown values count as the safe one. So
//! an older client under a newer daemon reports nothing there, and a newer client's report is ignored by an older daemon
//! (tests/compatibility.rs).
//!
//! *Invariants.* Every field is an atomic; reserved bytes are zero. The C header is generated from this file.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// First word of the page: the bytes `MAPPERPG` on a little-endian machine.
pub const PAGE_MAGIC: u64 = 0x4750_5245_5050_414d;
/// Version of the layout in this file.
pub const PAGE_VERSION: u32 = 1;
/// Length of the page, the memfd and the mapping.
pub const PAGE_BYTES: usize = 65536;
/// CPUs that the mask can name.
pub const MAX_CPUS: usize = 4096;
/// 64-bit words of the CPU mask.
pub const MASK_WORDS: usize = 64;
/// Thread slots in the page; the last one is shared by all threads that found no other.
pub const SLOT_COUNT: usize = 480;

/// Bit of `runtimes`: GCC's libgomp.
pub const RUNTIME_LIBGOMP: u32 = 1;
/// Bit of `runtimes`: LLVM's (or Intel's) libomp.
pub const RUNTIME_LIBOMP: u32 = 2;

/// Bit of `flags`: barriers may spin for long, so that the program suffers from fewer CPUs than threads.
pub const FLAG_WAITS_SPIN: u32 = 1;
/// Bit of `flags`: `wait_ns` in the slots is measured.
pub const FLAG_WAIT_MEASURED: u32 = 2;
/// Bit of `flags`: some threads share the last slot.
pub const FLAG_SLOTS_EXHAUSTED: u32 = 4;
/// Bit of `flags`: threads without a CPU are not parked any more, for iterations of a loop waited for one another.
pub const FLAG_PARKING_ENDED: u32 = 8;
/// Bit of `flags`: threads of virtual teams that alternate on a kernel thread share thread-local storage.
pub const FLAG_STORAGE_SHARED: u32 = 16;
/// Bit of `flags`: the shim only observes a linked copy of libomp, by OMPT, and cannot intercept it.
pub const FLAG_OBSERVED: u32 = 32;

/// Value of `teams_off`: the program called `omp_set_num_threads`.
pub const TEAMS_OFF_SET_NUM_THREADS: u32 = 1;
/// Value of `teams_off`: the program called `omp_set_dynamic(0)`.
pub const TEAMS_OFF_SET_DYNAMIC: u32 = 2;
/// Value of `teams_off`: the program gives its regions a `num_threads` clause.
pub const TEAMS_OFF_CLAUSE: u32 = 3;
/// Value of `teams_off`: no virtual teams, for a module has doacross loops.
pub const TEAMS_OFF_ORDERED: u32 = 4;
/// Value of `teams_off`: no virtual teams, for a module has detached tasks or `taskwait nowait`.
pub const TEAMS_OFF_TASKS: u32 = 5;
/// Value of `teams_off`: no virtual teams, for a module has reductions over tasks.
pub const TEAMS_OFF_TASK_REDUCTION: u32 = 6;
/// Value of `teams_off`: no virtual teams, for a module cancels constructs.
pub const TEAMS_OFF_CANCELLATION: u32 = 7;
/// Value of `teams_off`: no virtual teams, for a module has teams or target regions.
pub const TEAMS_OFF_OFFLOADING: u32 = 8;
/// Value of `teams_off`: no virtual teams, for a module was compiled with a sanitizer.
pub const TEAMS_OFF_SANITIZER: u32 = 9;
/// Value of `teams_off`: no virtual teams, for a module binds state to the kernel's threads.
pub const TEAMS_OFF_THREAD_BOUND: u32 = 10;
/// Value of `teams_off`: no virtual teams, for the environment binds threads to places.
pub const TEAMS_OFF_BINDING: u32 = 11;
/// Value of `teams_off`: no virtual teams, for the environment gives sizes for nested teams.
pub const TEAMS_OFF_NESTED_SIZES: u32 = 12;
/// Value of `teams_off`: no virtual teams, for the kernel lacks something they need.
pub const TEAMS_OFF_PLATFORM: u32 = 13;
/// Value of `teams_off`: no virtual teams, for a module uses an entry point that is not served.
pub const TEAMS_OFF_UNSERVED: u32 = 14;
/// Value of `teams_off`: virtual teams were given up, for threads waited for one another without OpenMP.
pub const TEAMS_OFF_STALLED: u32 = 15;
/// Value of `teams_off`: teams are not virtual while the program lets the runtime choose their sizes.
pub const TEAMS_OFF_DYNAMIC: u32 = 16;
/// Value of `teams_off`: some teams are not virtual, being larger than virtual teams can be.
pub const TEAMS_OFF_TOO_LARGE: u32 = 17;
/// Value of `teams_off`: teams do not follow, for the shim only observes them and cannot set their size.
pub const TEAMS_OFF_OBSERVED: u32 = 18;
/// Value of `teams_off`: virtual teams were given up, for the thread that monitors them failed.
pub const TEAMS_OFF_UNWATCHED: u32 = 19;
/// Value of `teams_off`: teams are not virtual, for the program looks up functions of the runtime by a handle.
pub const TEAMS_OFF_BY_HANDLE: u32 = 20;
/// Value of `teams_off`: no virtual teams, for its threads change kernel settings of their own, or a module may.
pub const TEAMS_OFF_KERNEL_STATE: u32 = 21;
/// Value of `teams_off`: virtual teams were given up, for threads waited for one another by spinning.
pub const TEAMS_OFF_SPUN: u32 = 22;

/// Value of `progress_kind`: the application reports work done.
pub const PROGRESS_WORK: u32 = 1;
/// Value of `progress_kind`: the application reports a latency.
pub const PROGRESS_LATENCY: u32 = 2;

/// Value of `team_mode`: teams keep the size they had at launch.
pub const TEAM_MODE_FIXED: u32 = 0;
/// Value of `team_mode`: the team of an outermost region has as many threads as there are CPUs.
pub const TEAM_MODE_FOLLOW: u32 = 1;
/// Value of `team_mode`: teams have the size the program expects, on as many OS threads as there are CPUs.
pub const TEAM_MODE_VIRTUAL: u32 = 2;

/// Written once, before any other process has the page.
#[repr(C, align(128))]
pub struct Header {
    /// `PAGE_MAGIC`.
    pub magic: AtomicU64,
    /// `PAGE_VERSION`.
    pub version: AtomicU32,
    /// `PAGE_BYTES`.
    pub size: AtomicU32,
    /// The random number that the launcher also puts into the environment.
    pub token: AtomicU64,
}

/// What the application may use. Written by the daemon alone.
#[repr(C, align(128))]
pub struct AllocationBlock {
    /// Odd while the daemon writes; half of it is the generation. Also a futex word.
    pub sequence: AtomicU32,
    /// How many CPUs the application has; 0 before the first decision.
    pub cpu_count: AtomicU32,
    /// What the shim may do with teams: one of `TEAM_MODE_*`.
    pub team_mode: AtomicU32,
    /// Largest useful team for this application; 0 for no limit.
    pub max_team: AtomicU32,
    /// NUMA nodes of the CPUs, bit *n* for node *n*.
    pub node_mask: AtomicU64,
    /// The CPUs, bit *c* mod 64 of word *c* / 64 for CPU *c*.
    pub cpu_mask: [AtomicU64; MASK_WORDS],
}

/// What the application reports about itself as a whole. Written by the application alone.
#[repr(C, align(128))]
pub struct ReportBlock {
    /// Sum of `RUNTIME_*`: the runtimes that have started a region or a loop.
    pub runtimes: AtomicU32,
    /// Sum of `FLAG_*`.
    pub flags: AtomicU32,
    /// Why teams do not follow the allocation: one of `TEAMS_OFF_*`, 0 when they do.
    pub teams_off: AtomicU32,
    /// Sequence number of the allocation that the latest outermost region was started under.
    pub applied_sequence: AtomicU32,
    /// Team size requested at that region.
    pub team_size: AtomicU32,
    /// `omp_get_max_threads()` before the first region.
    pub max_threads: AtomicU32,
    /// Slots handed out so far; the slots below it may be in use.
    pub slots_claimed: AtomicU32,
    /// Slots below `slots_claimed` that their threads released.
    pub slots_released: AtomicU32,
    /// Futex word that parked threads wait on: incremented by the daemon after each new allocation, and by the
    /// application's own threads when a loop is exhausted.
    pub doorbell: AtomicU32,
    /// CPUs of the allocation `applied_sequence` that the application's regions do not need. Set to 0 before another
    /// allocation is applied.
    pub spare_cpus: AtomicU32,
    /// How often threads of a virtual team had to be run beside their carrier, since another one did not reach a
    /// construct of OpenMP in time.
    pub preemptions: AtomicU32,
}

/// What the application's own code reports, through the C interface. Written by any of its threads.
#[cfg_attr(test, derive(Default))]
#[repr(C, align(128))]
pub struct OwnReportBlock {
    /// How progress was reported last: one of `PROGRESS_*`, 0 for not at all.
    pub progress_kind: AtomicU32,
    /// How many serial phases are open: parts in which the application uses one CPU only.
    pub serial_phases: AtomicU32,
    /// Work done so far in the application's own unit: the bits of a double, never decreasing.
    pub work_done: AtomicU64,
    /// `CLOCK_MONOTONIC` of the latest report of work.
    pub work_at_ns: AtomicU64,
    /// Recent latency: the bits of a double, in nanoseconds.
    pub latency_ns: AtomicU64,
    /// `CLOCK_MONOTONIC` of the latest report of a latency.
    pub latency_at_ns: AtomicU64,
    /// The CPUs it can use: the fewest in the low half, the most in the high half; 0 for not reported.
    pub cpu_range: AtomicU64,
}

/// What one thread has done. Written by its owner, or with atomic additions by several if it is the last slot.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct ThreadSlot {
    /// Process id (high half) and thread id (low half) of the owner; 0 when free.
    pub owner: AtomicU64,
    /// Parallel regions completed, counted by the thread that started them.
    pub regions: AtomicU64,
    /// Iterations completed of loops that the runtime dispenses in chunks.
    pub iterations: AtomicU64,
    /// Time spent waiting at barriers; stays 0 unless `FLAG_WAIT_MEASURED` is set.
    pub wait_ns: AtomicU64,
    /// `CLOCK_MONOTONIC` (coarse) at the last region or loop that was completed.
    pub last_progress_ns: AtomicU64,
    /// Identity of the region this thread started last: a hash of its function's place in the program, the same in every
    /// run, or the function's address; 0 before the first.
    pub region: AtomicU64,
    /// Time in parallel regions that this thread started, nested ones once more, estimated by samples; stays 0 where it is
    /// not measured.
    pub parallel_ns: AtomicU64,
    /// `CLOCK_MONOTONIC` when the region began that this thread is in, if that region will count in `parallel_ns`; else 0.
    pub parallel_since_ns: AtomicU64,
}

/// The whole page.
#[repr(C, align(128))]
pub struct Page {
    /// Written by the daemon.
    pub header: Header,
    /// Daemon to application.
    pub allocation: AllocationBlock,
    /// Application to daemon.
    pub report: ReportBlock,
    /// The application's own code to the daemon.
    pub own: OwnReportBlock,
    /// Room for later parts.
    pub reserved: [AtomicU64; RESERVED_WORDS],
    /// Application to daemon, one for each thread.
    pub slots: [ThreadSlot; SLOT_COUNT],
}

/// Zero words between the report and the slots, which start at 4096.
pub const RESERVED_WORDS: usize = 384;

const _: () = {
    assert!(size_of::<Page>() == PAGE_BYTES);
    assert!(PAGE_MAGIC == u64::from_le_bytes(*b"MAPPERPG"));
    assert!(MASK_WORDS * 64 == MAX_CPUS);
    assert!(offset_of!(Page, allocation) == 128);
    assert!(offset_of!(Page, report) == 768);
    assert!(offset_of!(Page, own) == 896);
    assert!(offset_of!(Page, slots) == 4096);
};
