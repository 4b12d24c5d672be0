//! Loops dispensed in chunks that grow (`MAPPER_SCHEDULE=adaptive`), where nobody knows the right chunk size in
//! advance.
//!
//! *Approach* [Cooperative §3.2 Algorithm 1, NuPoCo Algorithm 3]. The shim hands out chunks itself. One thread of each
//! NUMA node, the delegate, doubles the node's chunk size while a chunk takes less than the period, up to half of an
//! even share of what remains. Every node has a queue; threads whose queue is empty take from the others. The runtime
//! gets a loop without iterations, so that its state stays consistent. Virtual teams use the same code
//! (`virtual_team::share`).
//!
//! *The last iteration* is handed out alone, when all queues are empty: compilers take the thread that got it for the
//! one with the final values of `lastprivate` variables, so it must not get another chunk.
//!
//! *Invariants.* Every iteration is handed out exactly once. A loop's place is used again only when all threads of the
//! team have left it. Off unless requested, and with `OMP_CANCELLATION`, by which threads may leave a loop unseen.
//! Ordered loops and nested regions are left alone.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::clock;
use crate::thread_state::ThreadState;

/// A chunk should take this long.
const PERIOD_NS: u64 = 1_000_000;
/// Regions at once that can have loops of this kind.
const MOST_REGIONS: usize = 8;
/// Loops that the threads of a team can be in at the same time, being without barriers in between.
pub(super) const LOOPS: usize = 8;
const NODES: usize = 8;

static ON: AtomicBool = AtomicBool::new(false);
static ALL_SHARED_LOOPS: [SharedLoops; MOST_REGIONS] = [const { SharedLoops::new() }; MOST_REGIONS];

/// Has loops dispensed so from now on.
pub fn turn_on() {
    find_getcpu();
    ON.store(true, Ordering::Release);
}

/// Whether loops are dispensed so.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Ordering::Acquire)
}

/// The loops of one region.
#[derive(Debug)]
pub struct SharedLoops {
    taken: AtomicBool,
    pub(super) loops: [SharedLoop; LOOPS],
}

impl SharedLoops {
    const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            loops: [const { SharedLoop::vacant() }; LOOPS],
        }
    }

    /// A set of shared loops for a region that starts, if loops are to be dispensed so and one is free.
    #[inline(always)]
    pub fn claim() -> Option<&'static Self> {
        if is_on() {
            return Self::claim_free();
        }
        None
    }

    #[cold]
    #[inline(never)]
    fn claim_free() -> Option<&'static Self> {
        ALL_SHARED_LOOPS
            .iter()
            .find(|loops_of_region| !loops_of_region.taken.swap(true, Ordering::Acquire))
    }

    /// The loop in which a region begins.
    pub fn first_loop(&self) -> Option<&SharedLoop> {
        self.loops.get(1)
    }

    /// Gives it back when the region has ended, and with it all threads have left.
    #[cold]
    #[inline(never)]
    pub fn release(&self) {
        for shared in &self.loops {
            shared.state.store(FREE, Ordering::Relaxed);
        }
        self.taken.store(false, Ordering::Release);
    }
}

/// The iterations of a loop, whatever the type of its variable: differences and sums come out right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Bits of the first value.
    pub from: i64,
    /// Bits of the bound, which is not run.
    pub to: i64,
    /// Bits of the increment.
    pub increment: i64,
    /// How many iterations.
    pub count: u64,
}

impl Span {
    /// The loop from `from` up, or down, to `to`, without that.
    pub fn until(from: i64, to: i64, increment: i64, runs: bool) -> Self {
        let (distance, step) = match increment >= 0 {
            true => (to.wrapping_sub(from) as u64, increment as u64),
            false => (from.wrapping_sub(to) as u64, increment.unsigned_abs()),
        };
        let count = match runs {
            true => distance.div_ceil(step.max(1)),
            false => 0,
        };
        Self {
            from,
            to,
            increment,
            count,
        }
    }

    fn value(self, iteration: u64) -> i64 {
        self.from
            .wrapping_add((iteration as i64).wrapping_mul(self.increment))
    }
}

/// A chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// Value of its first iteration.
    pub first: i64,
    /// Value of its last one.
    pub last: i64,
    /// Value of the one after it; the loop's bound after the loop's last one.
    pub end: i64,
    /// How many there are.
    pub count: u64,
    /// Whether the loop's last iteration is in it.
    pub ends_loop: bool,
}

/// Values of `state` that are no loop's number.
pub(super) const FREE: u64 = 0;
pub(super) const BEING_MADE: u64 = u64::MAX;

/// A loop that the threads of a team share.
#[derive(Debug)]
pub struct SharedLoop {
    /// The loop's number, or one of the above.
    pub(super) state: AtomicU64,
    pub(super) left: AtomicU32,
    from: AtomicU64,
    to: AtomicU64,
    increment: AtomicU64,
    count: AtomicU64,
    ended: AtomicBool,
    /// Cores, as far as the rule is concerned.
    cores: AtomicU64,
    /// The program's NUMA nodes, bit *n* for node *n*.
    nodes: AtomicU64,
    queues: [Queue; NODES],
}

#[derive(Debug)]
#[repr(align(128))]
struct Queue {
    next: AtomicU64,
    end: AtomicU64,
    size: AtomicU64,
    /// The delegate's number plus one, and when it took its last chunk.
    delegate: AtomicU32,
    taken_ns: AtomicU64,
}

impl Queue {
    const fn new() -> Self {
        Self {
            next: AtomicU64::new(0),
            end: AtomicU64::new(0),
            size: AtomicU64::new(1),
            delegate: AtomicU32::new(0),
            taken_ns: AtomicU64::new(0),
        }
    }

    fn fill(&self, from: u64, to: u64) {
        self.next.store(from, Ordering::Relaxed);
        self.end.store(to, Ordering::Relaxed);
        self.size.store(1, Ordering::Relaxed);
        self.delegate.store(0, Ordering::Relaxed);
        self.taken_ns.store(0, Ordering::Relaxed);
    }

    /// Takes a chunk for the thread with number `rank`: its first iteration and how many there are.
    fn take(&self, rank: u32, cores: u64) -> Option<(u64, u64)> {
        let end = self.end.load(Ordering::Relaxed);
        let mut remaining = end.saturating_sub(self.next.load(Ordering::Relaxed));
        if remaining == 0 {
            return None;
        }
        let me = rank.saturating_add(1);
        let delegate = self
            .delegate
            .compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed)
            .unwrap_or_else(|delegate| delegate);
        let mut size = ChunkSize(self.size.load(Ordering::Relaxed));
        if delegate == 0 || delegate == me {
            let now_ns = clock::now_ns();
            let taken_ns = self.taken_ns.swap(now_ns, Ordering::Relaxed);
            let elapsed_ns = (taken_ns != 0).then(|| now_ns.saturating_sub(taken_ns));
            size.next(cores, remaining, elapsed_ns);
            self.size.store(size.0, Ordering::Relaxed);
        }
        loop {
            let chunk = size.grant(cores, remaining);
            let next = end - remaining;
            let taken = self.next.compare_exchange(
                next,
                next + chunk,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => return Some((next, chunk)),
                Err(next) => remaining = end.saturating_sub(next),
            }
            if remaining == 0 {
                return None;
            }
        }
    }
}

/// The chunk size of a queue, by the rule of `mapper_predict::cooperative::chunks`, which a test compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ChunkSize(u64);

impl ChunkSize {
    fn next(&mut self, cores: u64, remaining: u64, elapsed_ns: Option<u64>) -> u64 {
        if elapsed_ns.is_some_and(|elapsed_ns| elapsed_ns < PERIOD_NS) {
            self.0 = self.0.saturating_mul(2);
        }
        self.0 = self.0.min(cap(cores, remaining));
        self.grant(cores, remaining)
    }

    fn grant(self, cores: u64, remaining: u64) -> u64 {
        self.0.min(cap(cores, remaining)).min(remaining)
    }
}

fn cap(cores: u64, remaining: u64) -> u64 {
    remaining.div_ceil(cores.saturating_mul(2).max(1)).max(1)
}

impl SharedLoop {
    /// A place for a loop.
    pub const fn vacant() -> Self {
        Self {
            state: AtomicU64::new(FREE),
            left: AtomicU32::new(0),
            from: AtomicU64::new(0),
            to: AtomicU64::new(0),
            increment: AtomicU64::new(0),
            count: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            cores: AtomicU64::new(1),
            nodes: AtomicU64::new(0),
            queues: [const { Queue::new() }; NODES],
        }
    }

    /// Deals the iterations out to these nodes.
    pub fn fill(&self, span: Span, cores: u64, node_mask: u64) {
        self.nodes.store(node_mask, Ordering::Relaxed);
        self.from.store(span.from as u64, Ordering::Relaxed);
        self.to.store(span.to as u64, Ordering::Relaxed);
        self.increment
            .store(span.increment as u64, Ordering::Relaxed);
        self.count.store(span.count, Ordering::Relaxed);
        self.cores.store(cores.max(1), Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
        self.ended.store(span.count == 0, Ordering::Relaxed);
        let dealt = span.count.saturating_sub(1);
        let nodes = u64::from(node_mask.count_ones()).clamp(1, NODES as u64);
        let mut from = 0;
        for (node, queue) in (0..).zip(&self.queues) {
            let part = match node < nodes {
                true => dealt / nodes + u64::from(node < dealt % nodes),
                false => 0,
            };
            queue.fill(from, from + part);
            from += part;
        }
    }

    /// The loop's increment.
    pub fn increment(&self) -> i64 {
        self.increment.load(Ordering::Relaxed) as i64
    }

    fn span(&self) -> Span {
        Span {
            from: self.from.load(Ordering::Relaxed) as i64,
            to: self.to.load(Ordering::Relaxed) as i64,
            increment: self.increment.load(Ordering::Relaxed) as i64,
            count: self.count.load(Ordering::Relaxed),
        }
    }

    /// A chunk for the calling thread, number `rank`, from the queue of its node first.
    pub fn take_here(&self, rank: u32) -> Option<Chunk> {
        self.take(rank, place_of_this_cpu(self.nodes.load(Ordering::Relaxed)))
    }

    /// A chunk for the thread with number `rank` on that node, from the node's own queue first.
    fn take(&self, rank: u32, node: usize) -> Option<Chunk> {
        let cores = self.cores.load(Ordering::Relaxed);
        let span = self.span();
        let (own, others) = self.queues.split_at(node.min(NODES - 1));
        let found = others
            .iter()
            .chain(own)
            .find_map(|queue| queue.take(rank, cores));
        let (iteration, count) = match found {
            Some(found) => found,
            None if self.ended.swap(true, Ordering::Relaxed) => return None,
            None => (span.count - 1, 1),
        };
        let ends_loop = iteration + count == span.count;
        Some(Chunk {
            first: span.value(iteration),
            last: span.value(iteration + count - 1),
            end: match ends_loop {
                true => span.to,
                false => span.value(iteration + count),
            },
            count,
            ends_loop,
        })
    }
}

impl ThreadState {
    /// The loop that it takes chunks of, where those grow.
    #[inline(always)]
    pub fn shared_loop(&self) -> Option<&'static SharedLoop> {
        let shared = self.shared_loop.get();
        // SAFETY: only `set_shared_loop` sets it, to one that is there for ever.
        shared.map(|shared| unsafe { shared.cast::<SharedLoop>().as_ref() })
    }

    /// Has it take chunks of that loop, or of none.
    #[inline(always)]
    pub fn set_shared_loop(&self, shared: Option<&'static SharedLoop>) {
        self.shared_loop
            .set(shared.map(|shared| NonNull::from(shared).cast()));
    }
}

/// Which of these nodes the calling thread runs on; the first if none.
fn place_of_this_cpu(node_mask: u64) -> usize {
    if node_mask.count_ones() <= 1 {
        return 0;
    }
    let node = node_of_this_cpu().unwrap_or(0);
    let bit = 1_u64.checked_shl(node).unwrap_or(0);
    (node_mask & bit.wrapping_sub(1)).count_ones() as usize % NODES
}

type GetCpu = unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> c_int;

/// The C library's `getcpu`, which asks the vDSO; null where there is none (glibc before 2.29).
static GETCPU: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

fn find_getcpu() {
    // SAFETY: the handle is a special one, the name a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"getcpu".as_ptr()) };
    GETCPU.store(found, Ordering::Relaxed);
}

/// The NUMA node that the calling thread runs on, where that can be known without a system call.
fn node_of_this_cpu() -> Option<u32> {
    let getcpu = GETCPU.load(Ordering::Relaxed);
    // SAFETY: the C library's function of that name has this type; null becomes `None`.
    let getcpu = unsafe { core::mem::transmute::<*mut c_void, Option<GetCpu>>(getcpu) }?;
    let (mut cpu, mut node) = (0, 0);
    // SAFETY: it fills in the two numbers.
    let failed = unsafe { getcpu(&raw mut cpu, &raw mut node) } != 0;
    (!failed).then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU64;
    use mapper_predict::cooperative::chunks;

    #[test]
    fn chunks_grow_by_the_rule_of_the_model() {
        for (cores, iterations, start, time_ns) in [
            (4, 1000, 1, 30_000),
            (1, 77, 5, 600_000),
            (7, 20_000, 1, 1),
            (3, 10, 100, 2_000_000),
        ] {
            let rule = chunks::ChunkRule {
                cores: NonZeroU64::new(cores).unwrap(),
                period: PERIOD_NS as f64,
            };
            let initial = chunks::ChunkSize::starting_at(start);
            let expected = chunks::delegate_alone(&rule, iterations, initial, time_ns as f64);
            let (mut size, mut remaining, mut elapsed_ns) = (ChunkSize(start), iterations, None);
            let mut drawn = Vec::new();
            while remaining > 0 {
                let chunk = size.next(cores, remaining, elapsed_ns);
                remaining -= chunk;
                elapsed_ns = Some(chunk * time_ns);
                drawn.push(chunk);
            }
            assert_eq!(drawn, expected);
        }
    }

    #[test]
    fn a_loop_has_the_iterations_that_its_bounds_say() {
        let count = |from, to, increment| Span::until(from, to, increment, true).count;
        assert_eq!(count(0, 10, 1), 10);
        assert_eq!(count(0, 10, 3), 4);
        assert_eq!(count(10, 0, -3), 4);
        assert_eq!(count(i64::MIN, i64::MAX, 1), u64::MAX);
        assert_eq!(Span::until(5, 0, 1, false).count, 0);
        assert_eq!(Span::until(10, 0, -3, true).value(3), 1);
    }

    #[test]
    fn every_iteration_is_handed_out_once_whatever_the_nodes() {
        for nodes in [1, 2, 3, 8] {
            for count in [0, 1, 2, 9, 1000] {
                let shared = SharedLoop::vacant();
                let span = Span::until(-5, -5 + 3 * count as i64, 3, true);
                shared.fill(span, 2, (1 << nodes) - 1);
                let done: Vec<AtomicU32> = (0..count).map(|_| AtomicU32::new(0)).collect();
                std::thread::scope(|scope| {
                    for rank in 0..4 {
                        let (shared, done) = (&shared, &done);
                        scope.spawn(move || {
                            let mut ended = false;
                            while let Some(chunk) = shared.take(rank, rank as usize % nodes) {
                                assert!(!ended, "a chunk after the last iteration");
                                ended = chunk.ends_loop;
                                let first = ((chunk.first + 5) / 3) as usize;
                                for slot in &done[first..first + chunk.count as usize] {
                                    slot.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                        });
                    }
                });
                assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "calls getcpu")]
    fn the_node_is_the_one_that_the_kernel_names() {
        find_getcpu();
        let by_call = || {
            let (mut cpu, mut node) = (0_u32, 0_u32);
            let nowhere = core::ptr::null::<u32>();
            // SAFETY: the call fills in the two numbers and takes a null pointer for the third.
            unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node, nowhere) };
            node
        };
        // The thread may move in between.
        assert!((0..100).any(|_| node_of_this_cpu() == Some(by_call())));
    }

    #[test]
    fn a_node_has_its_own_iterations_first() {
        let shared = SharedLoop::vacant();
        let span = Span::until(0, 101, 1, true);
        shared.fill(span, 1, 0b1010);
        assert_eq!(shared.take(0, 0).unwrap().first, 0);
        assert_eq!(shared.take(1, 1).unwrap().first, 50);
    }
}
