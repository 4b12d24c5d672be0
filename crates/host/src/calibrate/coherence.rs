//! Shared counters: the cost of two threads writing the same cache line in turn [SAM-MPH §3.1, Fig. 1].
//!
//! Two threads increment a counter alternately, with some work of their own in between: on one core, in one socket,
//! across sockets. Where the distances differ in speed, placement matters; where work hides the transfers, it does not.

use super::pin;
use crate::HostError;
use mapper_model::{CpuId, CpuSet, Topology};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

pub(super) const WORK: [u32; 8] = [0, 50, 150, 400, 1_000, 2_500, 6_000, 15_000];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    Core,
    Socket,
    Machine,
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Core => "within a core",
            Self::Socket => "within a socket",
            Self::Machine => "across sockets",
        })
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    pub distance: Distance,
    /// Steps of own work between two increments.
    pub work: u32,
    /// Increments of both threads per second; each moves the line once.
    pub increments_per_s: f64,
}

pub(super) fn pairs(topology: &Topology, usable: &CpuSet) -> Vec<(Distance, [CpuId; 2])> {
    let threads: Vec<_> = topology
        .threads()
        .iter()
        .filter(|thread| usable.contains(thread.cpu))
        .collect();
    let Some(first) = threads.first() else {
        return Vec::new();
    };
    let find = |fits: &dyn Fn(&mapper_model::topology::HardwareThread) -> bool| {
        let mut others = threads.iter().filter(|other| other.cpu != first.cpu);
        Some([first.cpu, others.find(|other| fits(other))?.cpu])
    };
    let socket = find(&|other| other.socket == first.socket && other.core != first.core);
    [
        (Distance::Core, find(&|other| other.core == first.core)),
        (Distance::Socket, socket),
        (
            Distance::Machine,
            find(&|other| other.socket != first.socket),
        ),
    ]
    .into_iter()
    .filter_map(|(distance, pair)| Some((distance, pair?)))
    .collect()
}

pub(super) fn measure(distance: Distance, pair: [CpuId; 2]) -> Result<Vec<Point>, HostError> {
    let point = |work| {
        Ok(Point {
            distance,
            work,
            increments_per_s: pin::best(|| increments_per_s(pair, work))?,
        })
    };
    WORK.into_iter().map(point).collect()
}

/// A counter on cache lines of its own, as adjacent lines may be fetched together.
#[repr(align(256))]
struct Alone<T>(T);

fn increments_per_s(pair: [CpuId; 2], work: u32) -> Result<f64, HostError> {
    let (counter, over) = (Alone(AtomicU64::new(0)), Alone(AtomicBool::new(false)));
    let seconds = pin::on_each(&pair, |place| {
        let start = Instant::now();
        take_turns(&counter.0, &over.0, place as u64, work, start);
        start.elapsed().as_secs_f64()
    })?;
    // The two begin and end within a moment of each other, and the longer time is that of both.
    let longest = seconds.into_iter().fold(f64::MIN_POSITIVE, f64::max);
    Ok(counter.0.load(Ordering::Relaxed) as f64 / longest)
}

/// Increments the counter each time it is this thread's turn, until the time is over for either.
fn take_turns(counter: &AtomicU64, over: &AtomicBool, place: u64, work: u32, start: Instant) {
    let mut own = place;
    let mut tries = 0u32;
    loop {
        let count = counter.load(Ordering::Acquire);
        if count % 2 == place {
            counter.store(count + 1, Ordering::Release);
            for step in 0..work {
                own = black_box(own.wrapping_add(u64::from(step)));
            }
        } else {
            spin_loop();
        }
        // The clock is read only now and then, and also while the other thread has lost its CPU.
        tries = tries.wrapping_add(1);
        if tries.is_multiple_of(64) {
            if start.elapsed() > pin::ROUND {
                over.store(true, Ordering::Relaxed);
            }
            if over.load(Ordering::Relaxed) {
                black_box(own);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::topology::Shape;

    fn two_sockets(threads_per_core: u32) -> Topology {
        Topology::regular(Shape {
            sockets: 2,
            cores_per_socket: 2,
            threads_per_core,
        })
    }

    #[test]
    fn pairs_are_as_far_apart_as_they_say() {
        let topology = two_sockets(2);
        let pairs = pairs(&topology, topology.cpus());
        assert_eq!(pairs.len(), 3);
        for (distance, pair) in pairs {
            let [one, other] = pair.map(|cpu| *topology.thread(cpu).unwrap());
            let found = match (one.core == other.core, one.socket == other.socket) {
                (true, _) => Distance::Core,
                (false, true) => Distance::Socket,
                (false, false) => Distance::Machine,
            };
            assert_eq!(found, distance);
        }
    }

    #[test]
    fn cpus_that_may_not_be_used_are_in_no_pair() {
        let topology = two_sockets(1);
        let found = pairs(&topology, &"0-1".parse().unwrap());
        assert_eq!(found, [(Distance::Socket, [CpuId(0), CpuId(1)])]);
        assert!(pairs(&topology, &CpuSet::new()).is_empty());
    }
}
