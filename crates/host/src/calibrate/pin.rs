//! Threads of a measurement, each on its CPU.

use crate::HostError;
use crate::enforce::masks;
use mapper_model::{CpuId, CpuSet, ThreadId};
use std::time::Duration;

pub(super) const ROUND: Duration = Duration::from_millis(60);
pub(super) const ROUNDS: usize = 3;

pub(super) fn to(cpu: CpuId) -> Result<(), HostError> {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let thread = ThreadId(thread.cast_unsigned());
    masks::set(thread, &CpuSet::from_iter([cpu]))
}

/// Runs `work` on these CPUs at the same time. If a thread cannot be put on its CPU, the whole fails after the others.
pub(super) fn on_each<T: Send>(
    cpus: &[CpuId],
    work: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, HostError> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .enumerate()
            .map(|(place, cpu)| {
                scope.spawn(move || {
                    to(*cpu)?;
                    Ok(work(place))
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}

pub(super) fn best<E>(mut round: impl FnMut() -> Result<f64, E>) -> Result<f64, E> {
    let mut best = 0.0f64;
    for _ in 0..ROUNDS {
        best = best.max(round()?);
    }
    Ok(best)
}
