//! What was seen in the guest: written there, read on the host, and the JSON that is kept.

use serde::{Deserialize, Serialize};

use super::plan::{Member, Setting};

/// What the guest says before its check, and before and after a run, followed by the number of the run.
pub(super) const CHECK: &str = "# check";
pub(super) const RUN_BEGINS: &str = "# run ";
pub(super) const RUN_ENDS: &str = "# end ";

/// Everything that was seen.
#[derive(Deserialize, Serialize)]
pub(super) struct Records {
    pub(super) check: Check,
    pub(super) runs: Vec<Run>,
}

/// What the machine did with programs of which it is known what they do on a real one.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Check {
    /// Steps a second of each of several programs that run at the same time, one on each CPU.
    pub(super) independent: Vec<f64>,
    /// How many times as fast one program was with so many threads as with one.
    pub(super) scaling: Vec<Scaling>,
}

#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Scaling {
    pub(super) threads: u32,
    pub(super) speedup: f64,
}

/// One mix in one setting.
#[derive(Deserialize, Serialize)]
pub(super) struct Run {
    pub(super) mix: String,
    pub(super) setting: Setting,
    pub(super) programs: Vec<ProgramRun>,
    /// How far the share that a processor of the guest had of the host is from their mean; filled in on the host.
    #[serde(default)]
    pub(super) uneven: Option<f64>,
}

#[derive(Deserialize, Serialize)]
pub(super) struct ProgramRun {
    pub(super) name: String,
    pub(super) member: Member,
    /// About one a second.
    pub(super) samples: Vec<Sample>,
    /// Whether the promise was kept, as the daemon counts.
    pub(super) promise: Option<Promise>,
}

#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Promise {
    pub(super) judged: u64,
    pub(super) below: u64,
    /// Median share of the fair speed.
    pub(super) achieved: Option<f64>,
}

#[derive(Clone, Default, Deserialize, Serialize)]
pub(super) struct Sample {
    /// Seconds since the run began.
    pub(super) at_s: f64,
    /// Iterations, items or requests so far.
    pub(super) done: u64,
    /// When the last of them was done, by the guest's monotonic clock.
    pub(super) done_at_ns: u64,
    /// Latencies so far by class, four for each doubling from a microsecond on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) latency: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) decision: Option<Decision>,
}

/// What mapper said at that time.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Decision {
    pub(super) cpus: u32,
    pub(super) state: String,
    pub(super) sentence: String,
    pub(super) performance: Option<f64>,
    pub(super) floor: Option<f64>,
    pub(super) spare_cpus: u32,
    pub(super) curve: Vec<CurvePoint>,
}

#[derive(Clone, Deserialize, Serialize)]
pub(super) struct CurvePoint {
    pub(super) cpus: u32,
    pub(super) level: f64,
    pub(super) samples: f64,
}

impl Sample {
    /// What was done in a second from here to there, to the moment of the last that was done.
    pub(super) fn speed_until(&self, last: &Self) -> Option<f64> {
        let elapsed_ns = last.done_at_ns.checked_sub(self.done_at_ns);
        let elapsed_ns = elapsed_ns.filter(|&elapsed| elapsed > 0 && self.done_at_ns > 0)?;
        Some((last.done - self.done) as f64 / elapsed_ns as f64 * 1e9)
    }
}

impl Check {
    /// How far the programs' speeds are apart at most, of their mean.
    pub(super) fn unequal(&self) -> f64 {
        let mean = self.steps_per_s();
        let apart = self
            .independent
            .iter()
            .map(|speed| (speed / mean - 1.0).abs());
        apart.fold(0.0, f64::max)
    }

    /// How far one program is from as many times the speed of one thread as it has threads.
    pub(super) fn loss(&self) -> f64 {
        let apart = self.scaling.iter();
        let apart = apart.map(|at| (at.speedup / f64::from(at.threads) - 1.0).abs());
        apart.fold(0.0, f64::max)
    }

    /// Of one CPU while all compute.
    pub(super) fn steps_per_s(&self) -> f64 {
        self.independent.iter().sum::<f64>() / self.independent.len() as f64
    }
}
