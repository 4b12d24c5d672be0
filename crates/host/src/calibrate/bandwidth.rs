//! How many bytes a second the cores of a node read from memory of a node, its own or another's.
//!
//! A thread on each core streams through memory that no other thread touches [SAM-MPH §5, MemBench]. Pages are
//! allocated on the node of the thread that first writes them. The buffers are larger than the caches.

use super::pin;
use crate::HostError;
use crate::error::Missing;
use crate::procfs::read_small;
use mapper_model::{CpuId, CpuSet, NodeId};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

/// Memory of one thread, where there is enough: more than its part of the largest caches.
const BUFFER_BYTES: u64 = 64 << 20;
const LEAST_BYTES: u64 = 16 << 20;
const PART_OF_FREE: u64 = 4;
const PIECE: usize = 1 << 18;

/// Bandwidth between the cores of one node and the memory of one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    pub node: NodeId,
    pub memory: NodeId,
    pub threads: u32,
    pub bytes_per_s: f64,
}

/// Reads from the CPUs `from` of `node` memory of the node `memory`, whose own CPUs are `near`.
pub(super) fn measure(
    from: &CpuSet,
    node: NodeId,
    memory: NodeId,
    near: &CpuSet,
) -> Result<Point, HostError> {
    let readers: Vec<CpuId> = from.iter().collect();
    let writers: Vec<CpuId> = near.iter().cycle().take(readers.len()).collect();
    let bytes = buffer_bytes(readers.len() as u64, free_bytes());
    if bytes < LEAST_BYTES {
        return Err(HostError::Missing(Missing::new(
            "free memory",
            format!(
                "{} MiB for each of {} threads would be read from the caches",
                bytes >> 20,
                readers.len()
            ),
            "calibrate while more memory is free",
        )));
    }
    let words = bytes as usize / size_of::<u64>();
    let buffers = pin::on_each(&writers, |place| vec![place as u64 | 1; words])?;
    let bytes_per_s = pin::best(|| {
        let rates = pin::on_each(&readers, |place| read_rate(&buffers[place]))?;
        Ok::<f64, HostError>(rates.iter().sum())
    })?;
    Ok(Point {
        node,
        memory,
        threads: readers.len() as u32,
        bytes_per_s,
    })
}

fn read_rate(words: &[u64]) -> f64 {
    let start = Instant::now();
    let (mut sum, mut read) = (0u64, 0usize);
    while start.elapsed() < pin::ROUND {
        for piece in words.chunks(PIECE) {
            sum = piece.iter().fold(sum, |sum, word| sum.wrapping_add(*word));
            read += piece.len();
            if start.elapsed() >= pin::ROUND {
                break;
            }
        }
    }
    black_box(sum);
    (read * size_of::<u64>()) as f64 / start.elapsed().as_secs_f64()
}

fn buffer_bytes(threads: u64, free_bytes: u64) -> u64 {
    let most = free_bytes / PART_OF_FREE / threads.max(1);
    BUFFER_BYTES.min(most).max(1 << 20)
}

/// Memory that is free or can be freed without loss; assumed small where the kernel does not report it.
fn free_bytes() -> u64 {
    let text = read_small(Path::new("/proc/meminfo")).unwrap_or_default();
    let free = meminfo_kib(&text, "MemAvailable:").and_then(|kib| kib.checked_mul(1024));
    free.unwrap_or(256 << 20)
}

pub(super) fn meminfo_kib(meminfo: &str, field: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let value = lines.find_map(|line| line.strip_prefix(field))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_take_a_part_of_what_is_free_and_no_more_than_they_need() {
        assert_eq!(buffer_bytes(4, 64 << 30), BUFFER_BYTES);
        assert_eq!(buffer_bytes(128, 8 << 30), (8 << 30) / 4 / 128);
        assert_eq!(buffer_bytes(1000, 1 << 20), 1 << 20);
        assert!(free_bytes() > 1 << 20);
    }
}
