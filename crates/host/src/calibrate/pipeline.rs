//! Two threads on one core: how much they slow each other, by how much parallelism their instructions have.
//!
//! A thread multiplies and adds in one to eight independent chains [SAM-MPH Fig. 1, "ILP"], alone on a core and
//! together with a second such thread on the other hardware thread. The code counts its instructions itself.

use super::pin;
use crate::HostError;
use mapper_model::CpuId;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::Instant;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    pub chains: u32,
    pub alone_per_s: f64,
    pub shared_per_s: f64,
}

pub(super) const INSTRUCTIONS_OF_A_STEP: f64 = 2.0;
const PIECE: u32 = 20_000;

pub(super) fn measure(pair: [CpuId; 2]) -> Result<Vec<Point>, HostError> {
    [
        measure_chains::<1>(pair),
        measure_chains::<2>(pair),
        measure_chains::<4>(pair),
        measure_chains::<8>(pair),
    ]
    .into_iter()
    .collect()
}

fn measure_chains<const CHAINS: usize>(pair: [CpuId; 2]) -> Result<Point, HostError> {
    let slower = |rates: Vec<f64>| rates.into_iter().fold(f64::INFINITY, f64::min);
    let rate = |cpus: &[CpuId]| pin::on_each(cpus, |_| steps_per_s::<CHAINS>()).map(slower);
    Ok(Point {
        chains: CHAINS as u32,
        alone_per_s: pin::best(|| rate(&pair[..1]))?,
        shared_per_s: pin::best(|| rate(&pair))?,
    })
}

fn steps_per_s<const CHAINS: usize>() -> f64 {
    let start = Instant::now();
    let mut chains: [u64; CHAINS] = std::array::from_fn(|chain| black_box(chain as u64 + 1));
    let mut pieces = 0u64;
    while start.elapsed() < pin::ROUND {
        for _ in 0..PIECE {
            for chain in &mut chains {
                // The upper half of a product, for which there is no vector instruction: as one vector, four chains take
                // as long as four after each other.
                let product = u128::from(*chain) * 6_364_136_223_846_793_005;
                *chain = ((product >> 64) as u64).wrapping_add(1_442_695_040_888_963_407);
            }
        }
        pieces += 1;
    }
    black_box(chains);
    (pieces * u64::from(PIECE) * CHAINS as u64) as f64 / start.elapsed().as_secs_f64()
}

/// The clock while one CPU computes, by a chain of instructions that take a cycle each. Only for x86, where rotating and
/// exclusive or take one cycle on every processor of the last twenty years.
pub(super) fn clock_hz(cpu: CpuId) -> Result<Option<f64>, HostError> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(None);
    }
    let best = pin::best(|| {
        pin::on_each(&[cpu], |_| cycles_per_s()).map(|rates| rates.first().copied().unwrap_or(0.0))
    })?;
    Ok((best > 0.0).then_some(best))
}

fn cycles_per_s() -> f64 {
    const CYCLES_OF_A_STEP: u64 = 2;
    let start = Instant::now();
    let (mut word, other) = (black_box(1u64), black_box(0x9e37_79b9_7f4a_7c15u64));
    let mut pieces = 0u64;
    while start.elapsed() < pin::ROUND {
        for _ in 0..PIECE {
            word = word.rotate_left(7) ^ other;
        }
        pieces += 1;
        word = black_box(word);
    }
    (pieces * u64::from(PIECE) * CYCLES_OF_A_STEP) as f64 / start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_chains_do_more_steps() {
        let ratio = (0..5)
            .map(|_| steps_per_s::<4>() / steps_per_s::<1>())
            .fold(0.0, f64::max);
        assert!(ratio > 1.5, "{ratio}");
    }
}
