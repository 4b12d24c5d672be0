//! The static policies of Figures 5 and 6 for two workloads on one memory controller.
//!
//! Two workloads start together on a fixed split of the M cores; when one ends, the other takes all M [readings N15].
//! Work is counted in time alone on one core. Policies [NuPoCo §3.4]: *batch* runs one after the other on all cores;
//! *equal* halves the machine (the first workload gets the smaller half); *best static* has the shortest total; *max
//! system utilisation* and *max CPU utilisation* choose by eq. 6 or its CPU part, without knowing the amount of work.
//!
//! Invariants: every split gives each workload a core and hands out all cores; no static split is
//! better than *best static*; of equals the one with the fewest cores for the first workload wins.

use crate::error::{ModelError, check_workloads};
use crate::nupoco::colocation::{self, Colocation, Reading, Share};
use crate::nupoco::smp::{self, SmpMachine};
use crate::units::RequestsPerCycle;
use serde::Serialize;

/// A workload with an amount of work.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Job {
    /// Requests per cycle of work and core.
    pub rate: RequestsPerCycle,
    /// Time that it takes alone on one core, in any unit.
    pub time_on_one_core: f64,
}

/// Cores of the first and of the second workload.
pub type Split = [u32; 2];

/// The result of a split.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// The split.
    pub split: Split,
    /// When both have ended.
    pub total: f64,
    /// When each has ended.
    pub turnaround: [f64; 2],
    /// Share of the batch time that is saved.
    pub reduction_vs_batch: f64,
}

/// All policies on the same two jobs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// Time of one after the other.
    pub batch: f64,
    /// Half of the cores each.
    pub equal: Outcome,
    /// The split of the shortest total.
    pub best_static: Outcome,
    /// The split of the highest system utilisation (NuPoCo's policy).
    pub max_system_util: Outcome,
    /// The split of the highest CPU utilisation.
    pub max_cpu_util: Outcome,
}

/// Two values this close, relatively, are equal: the later one does not win.
const TIE: f64 = 1e-12;

/// Runs every policy on `jobs`.
///
/// # Errors
/// On one core, and those of [`colocation::predict`].
pub fn compare(
    machine: &SmpMachine,
    jobs: &[Job; 2],
    reading: Reading,
) -> Result<Comparison, ModelError> {
    let cores = machine.cores();
    check_workloads(2, cores.into(), "cores")?;
    let alone = [run_alone(machine, &jobs[0])?, run_alone(machine, &jobs[1])?];
    let batch = alone[0] + alone[1];

    let candidates = (1..cores)
        .map(|first| {
            let split = [first, cores - first];
            let shares = [0, 1].map(|i| Share {
                cores: split[i],
                rate: jobs[i].rate,
            });
            let model = colocation::predict(machine, &shares, reading)?;
            let (turnaround, total) = finish(jobs, alone, &model);
            let reduction_vs_batch = 1.0 - total / batch;
            Ok((
                model,
                Outcome {
                    split,
                    total,
                    turnaround,
                    reduction_vs_batch,
                },
            ))
        })
        .collect::<Result<Vec<_>, ModelError>>()?;

    Ok(Comparison {
        batch,
        equal: candidates[cores as usize / 2 - 1].1,
        best_static: highest(&candidates, |_, outcome| -outcome.total),
        max_system_util: highest(&candidates, |model, _| model.system.get()),
        max_cpu_util: highest(&candidates, |model, _| model.cpu.get()),
    })
}

/// Time of a job alone on all cores.
fn run_alone(machine: &SmpMachine, job: &Job) -> Result<f64, ModelError> {
    let all = smp::predict(machine, machine.cores(), job.rate)?;
    Ok(job.time_on_one_core / all.speedup.get())
}

/// Turnarounds and total: side by side until one ends, then the other alone on all cores.
fn finish(jobs: &[Job; 2], alone: [f64; 2], model: &Colocation) -> ([f64; 2], f64) {
    let side_by_side = [0, 1].map(|i| jobs[i].time_on_one_core / model.workloads[i].speedup.get());
    let (first, last) = if side_by_side[0] <= side_by_side[1] {
        (0, 1)
    } else {
        (1, 0)
    };
    let left = 1.0 - side_by_side[first] / side_by_side[last];
    let mut turnaround = side_by_side;
    if left > 0.0 {
        turnaround[last] = side_by_side[first] + left * alone[last];
    }
    (turnaround, turnaround[last])
}

fn highest(
    candidates: &[(Colocation, Outcome)],
    score: impl Fn(&Colocation, &Outcome) -> f64,
) -> Outcome {
    let mut best = &candidates[0];
    let mut best_score = score(&best.0, &best.1);
    for candidate in &candidates[1..] {
        let this = score(&candidate.0, &candidate.1);
        if this > best_score + TIE * best_score.abs() {
            (best, best_score) = (candidate, this);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Cycles;
    use proptest::prelude::*;

    fn job(rate: f64, time_on_one_core: f64) -> Job {
        Job {
            rate: RequestsPerCycle::new(rate).unwrap(),
            time_on_one_core,
        }
    }

    fn run(cores: u32, service: f64, jobs: [Job; 2]) -> Result<Comparison, ModelError> {
        let machine = SmpMachine::new(cores, Cycles::new(service).unwrap()).unwrap();
        compare(&machine, &jobs, Reading::Requesting)
    }

    #[test]
    fn figures_5_and_6_have_their_published_optima() {
        for (work, best) in [(200.0, [6, 10]), (400.0, [11, 5]), (800.0, [14, 2])] {
            let c = run(16, 50.0, [job(0.0, work), job(0.01, 100.0)]).unwrap();
            assert_eq!(c.best_static.split, best);
            // The utilisation policies ignore the amount of work.
            assert_eq!(c.max_system_util.split, [11, 5]);
            assert_eq!(c.max_cpu_util.split, [15, 1]);
        }
    }

    #[test]
    fn one_core_cannot_be_split() {
        assert!(run(1, 50.0, [job(0.0, 1.0); 2]).is_err());
    }

    proptest! {
        #[test]
        fn best_static_is_best(
            cores in 2u32..40, ra in 0.0..0.1f64, rb in 0.0..0.1f64,
            wa in 0.1..1e3f64, wb in 0.1..1e3f64,
        ) {
            let c = run(cores, 20.0, [job(ra, wa), job(rb, wb)]).unwrap();
            for other in [c.equal, c.max_system_util, c.max_cpu_util] {
                prop_assert!(c.best_static.total <= other.total * (1.0 + 1e-9));
                prop_assert_eq!(other.split[0] + other.split[1], cores);
                prop_assert!(other.split[0] >= 1 && other.split[1] >= 1);
                prop_assert!(other.turnaround[0].max(other.turnaround[1]) <= other.total * (1.0 + 1e-12));
            }
        }
    }
}
