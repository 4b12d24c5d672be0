//! The results: the shape of the JSON file, and what every report is made from.
//!
//! Unit: wall-clock seconds from the start of a program to its end, and ratios of medians over the
//! repetitions; [`super::evaluate`] says how they are formed. Fields are only ever added; a change
//! of meaning gets another [`Results::schema`].

use std::collections::BTreeMap;

use serde::Serialize;

use super::measure::Work;
use super::pairs::Setting;
use super::timeline::{DaemonFacts, Timeline};
use crate::corun::machine::{Disturbance, Machine};

/// How the measuring was done.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Method {
    pub(crate) repetitions_wanted: usize,
    pub(crate) repetitions_done: usize,
    pub(crate) qos: f64,
    pub(crate) interval_ms: u64,
    /// Time each program takes alone on a fair share, before its share of work.
    pub(crate) calibrated_s: f64,
    pub(crate) time_limit_s: f64,
    /// CPUs of each program in the static fair share.
    pub(crate) fair_cpus: [usize; 2],
    /// How mapper worked; nothing when it was not measured.
    pub(crate) daemon: Option<DaemonFacts>,
}

/// The whole result, as the JSON file has it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Results {
    /// Version of this shape.
    pub(crate) schema: u32,
    pub(crate) machine: Machine,
    pub(crate) disturbance: Disturbance,
    pub(crate) method: Method,
    pub(crate) pairs: Vec<PairResult>,
    /// Over the pairs of each OpenMP runtime.
    pub(crate) by_runtime: BTreeMap<&'static str, BTreeMap<Setting, Summary>>,
    /// [`Self::by_runtime`] of libgomp, the runtime of the headline figures.
    pub(crate) by_setting: BTreeMap<Setting, Summary>,
    /// The setting of the following figures.
    pub(crate) headline_setting: Setting,
    pub(crate) geomean_vs_plain: Option<f64>,
    pub(crate) geomean_vs_passive: Option<f64>,
    pub(crate) qos_violations: Option<usize>,
    /// Over all settings and pairs.
    pub(crate) wrong_results: usize,
    pub(crate) timed_out: usize,
    pub(crate) targets: Vec<Target>,
    pub(crate) elapsed_s: f64,
}

/// More foreign CPU time than this, in CPUs, moves the figures more than noise does.
const DISTURBED_CPUS: f64 = 0.05;

impl Results {
    /// Why the figures are to be taken with care, if they are.
    pub(crate) fn caution(&self) -> Option<String> {
        let foreign = self.disturbance.other_processes_cpus + self.disturbance.stolen_cpus;
        let mut reasons = Vec::new();
        if foreign > DISTURBED_CPUS {
            reasons.push(format!("other work used {foreign:.2} CPUs meanwhile"));
        }
        if self.method.repetitions_done < 3 {
            reasons.push("there were fewer than three repetitions".to_owned());
        }
        (!reasons.is_empty())
            .then(|| format!("Take these figures with care: {}.", reasons.join(", and ")))
    }
}

/// What came of one pair.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PairResult {
    pub(crate) name: &'static str,
    pub(crate) story: &'static str,
    pub(crate) runtime: &'static str,
    pub(crate) programs: [ProgramResult; 2],
    pub(crate) settings: BTreeMap<Setting, SettingResult>,
}

/// One of the programs of a pair.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProgramResult {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    pub(crate) arrives_after_s: f64,
}

/// What came of a pair under one setting. Arrays hold the first and the second program.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SettingResult {
    /// Seconds in every repetition.
    pub(crate) times: Vec<[f64; 2]>,
    /// Which of `times` are the limit because the program was ended there.
    pub(crate) timed_out: Vec<[bool; 2]>,
    pub(crate) medians: [f64; 2],
    pub(crate) vs_plain: Option<[f64; 2]>,
    pub(crate) vs_passive: Option<[f64; 2]>,
    /// Speed relative to the static fair share.
    pub(crate) vs_static: Option<[f64; 2]>,
    pub(crate) geomean_vs_plain: Option<f64>,
    pub(crate) geomean_vs_passive: Option<f64>,
    /// Whether each program kept its promise.
    pub(crate) qos_kept: Option<[bool; 2]>,
    pub(crate) wrong: Vec<String>,
    pub(crate) timeline: Option<Timeline>,
}

impl SettingResult {
    /// Whether the median of a program is only a lower limit, because half of its runs or more
    /// were ended there.
    pub(crate) fn median_is_limit(&self, which: usize) -> bool {
        let ended = self.timed_out.iter().filter(|ended| ended[which]).count();
        ended > 0 && 2 * ended >= self.timed_out.len()
    }
}

/// A setting over several pairs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) geomean_vs_plain: Option<f64>,
    pub(crate) geomean_vs_passive: Option<f64>,
    /// The lowest of the pairs' geometric means over passive waiting.
    pub(crate) worst_pair_vs_passive: Option<f64>,
    /// The lowest speed of any program relative to its static fair share.
    pub(crate) worst_program_vs_static: Option<f64>,
    pub(crate) qos_violations: Option<usize>,
    pub(crate) violations: Vec<String>,
}

/// A figure and what it should be.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) wanted: String,
    pub(crate) found: String,
    pub(crate) met: bool,
}
