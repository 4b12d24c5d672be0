//! What counting costs each time a CPU switches from one thread to another.
//!
//! The kernel saves and sets counters at every context switch. On a bare machine that takes about a microsecond; in a
//! virtual machine each register may be a call of the hypervisor. Two threads on one CPU hand a word to and fro, in
//! short batches that are counted and not in turn; the fastest batch of each kind counts, since others were disturbed.
//! Reasons: `docs/book/src/adr/0017-what-counting-costs.md`.

use mapper_model::ThreadId;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

const HANDOVERS: u32 = 100;
const BATCHES: u32 = 5;

/// By how much a context switch takes longer while both threads are counted: until what `count` returns is dropped.
pub(super) fn measured<C>(mut count: impl FnMut(ThreadId) -> Option<C>) -> Option<Duration> {
    let cpu = one_own_cpu()?;
    let (to_other, from_here) = sync_channel(1);
    let (to_here, from_other) = sync_channel(1);
    let (tell, message) = channel();
    std::thread::scope(|scope| {
        let echo = tell.clone();
        scope.spawn(move || {
            let on_one_cpu = sched_setaffinity(None, &cpu).is_ok();
            let is_ready = on_one_cpu && echo.send(own_id()).is_ok();
            // So that no thread waits for the word of one that has none to give.
            drop(echo);
            if is_ready {
                while from_here.recv().is_ok_and(|()| to_here.send(()).is_ok()) {}
            }
        });
        let (ask, asked) = channel::<SyncSender<Duration>>();
        scope.spawn(move || {
            let on_one_cpu = sched_setaffinity(None, &cpu).is_ok();
            let is_ready = on_one_cpu && tell.send(own_id()).is_ok();
            drop(tell);
            if is_ready {
                hand_over(&to_other, &from_other, &asked);
            }
        });
        let threads = [message.recv().ok()?, message.recv().ok()?];
        let batch = || {
            let (reply, took) = sync_channel(1);
            ask.send(reply).ok()?;
            took.recv().ok()
        };
        compared(batch, || Some([count(threads[0])?, count(threads[1])?]))
    })
}

/// By the fastest batches with and without counting. `batch` does one and returns how long it took.
fn compared<C>(
    mut batch: impl FnMut() -> Option<Duration>,
    mut count: impl FnMut() -> Option<C>,
) -> Option<Duration> {
    let (mut plain, mut counted) = (Duration::MAX, Duration::MAX);
    for _ in 0..BATCHES {
        plain = plain.min(batch()?);
        let counters = count()?;
        counted = counted.min(batch()?);
        drop(counters);
    }
    Some(counted.saturating_sub(plain) / (2 * HANDOVERS))
}

fn hand_over(
    to_other: &SyncSender<()>,
    from_other: &Receiver<()>,
    asked: &Receiver<SyncSender<Duration>>,
) {
    while let Ok(reply) = asked.recv() {
        let begun = Instant::now();
        for _ in 0..HANDOVERS {
            if to_other.send(()).is_err() || from_other.recv().is_err() {
                return;
            }
        }
        // No receiver is left when something failed: the next request then ends the loop.
        let _ = reply.send(begun.elapsed());
    }
}

pub(super) fn own_id() -> ThreadId {
    ThreadId(gettid().as_raw_nonzero().get().unsigned_abs())
}

fn one_own_cpu() -> Option<CpuSet> {
    let allowed = sched_getaffinity(None).ok()?;
    let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu))?;
    let mut one = CpuSet::new();
    one.set(first);
    Some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost_of(plain_us: [u64; BATCHES as usize], counted_us: [u64; BATCHES as usize]) -> Duration {
        let by_turns = plain_us.into_iter().zip(counted_us);
        let mut times = by_turns.flat_map(|(plain, counted)| [plain, counted]);
        compared(|| times.next().map(Duration::from_micros), || Some(())).unwrap()
    }

    #[test]
    fn the_difference_of_the_fastest_batches_is_the_cost_of_their_changes_of_threads() {
        // 200 changes of threads in each batch.
        let cost = cost_of([900, 500, 510, 520, 9000], [8000, 6600, 6500, 70_000, 6800]);
        assert_eq!(cost, Duration::from_micros(30));
    }

    #[test]
    fn counting_that_costs_nothing_is_found_to_cost_nothing() {
        let zero = Duration::ZERO;
        assert_eq!(cost_of([500; 5], [500; 5]), zero);
        let rising = [500, 600, 700, 800, 900];
        assert_eq!(cost_of(rising, [9000, 400, 450, 500, 500]), zero);
        assert_eq!(compared(|| None, || Some(())), None);
    }

    #[test]
    fn threads_that_cannot_be_counted_have_no_cost() {
        assert_eq!(measured(|_| None::<()>), None);
    }

    #[test]
    fn both_threads_are_counted_in_every_second_batch() {
        let mut counted = Vec::new();
        measured(|thread| {
            counted.push(thread);
            Some(())
        })
        .unwrap();
        assert_eq!(counted.len(), 2 * BATCHES as usize);
        assert_ne!(counted[0], counted[1]);
    }
}
