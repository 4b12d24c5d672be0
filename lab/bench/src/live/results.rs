//! The whole result: the shape of the JSON file, and what every report is made from.
//!
//! Fields are only ever added; a change of meaning gets another [`Results::schema`]. Nothing here comes
//! from the model: results of the two never share a file or a table.

use serde::Serialize;

use super::evaluate::{MeasuredMix, MixResult, mix_result};
use super::programs::{PROGRAMS, Program};
use super::settings::{DlbIs, Setting};
use super::summary::{Summary, summary};
use crate::corun::machine::Machine;
use crate::demo::timeline::DaemonFacts;

/// More foreign CPU time than this, in CPUs, moves the figures more than noise does.
const DISTURBED_CPUS: f64 = 0.05;

/// Fewer repetitions than this say little of how sure a figure is.
const FEW_REPETITIONS: usize = 5;

/// How the measuring was done.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Method {
    /// What repeats it.
    pub(super) command: String,
    pub(super) repetitions: usize,
    pub(super) qos: f64,
    pub(super) interval_s: f64,
    /// Time each program takes alone on half of the machine.
    pub(super) calibrated_s: f64,
    /// How mapper worked; nothing when it was not measured.
    pub(super) daemon: Option<DaemonFacts>,
    #[serde(skip)]
    pub(super) dlb: DlbIs,
    /// Runs that were left out after Ctrl-C.
    pub(super) left_out: usize,
    pub(super) elapsed_s: f64,
}

/// What else kept the machine busy.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Load {
    /// Load average before the first run.
    pub(super) average_before: f64,
    /// Threads that were runnable just before a run: the mean over all runs, and the most.
    pub(super) runnable_mean: f64,
    pub(super) runnable_most: u32,
    /// CPUs that other processes (and the daemons) kept busy during runs: the mean, and the most.
    pub(super) others_mean: f64,
    pub(super) others_most: f64,
    /// CPUs' worth of time that the hypervisor took, mean.
    pub(super) stolen_mean: f64,
}

/// A group of mixes and every setting over them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Group {
    pub(super) title: String,
    pub(super) mixes: usize,
    pub(super) settings: Vec<Summary>,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Results {
    /// Version of this shape.
    pub(super) schema: u32,
    /// Real programs on a real machine, as opposed to results of the model.
    pub(super) kind: &'static str,
    pub(super) machine: Machine,
    pub(super) method: Method,
    pub(super) load: Load,
    pub(super) settings: Vec<Setting>,
    /// All mixes, then those of each size.
    pub(super) groups: Vec<Group>,
    pub(super) mixes: Vec<MixResult>,
    pub(super) wrong_results: usize,
}

impl Results {
    /// Computes every figure. A mix that has not run under all settings is left out.
    pub(super) fn new(machine: Machine, method: Method, measured: &[MeasuredMix]) -> Self {
        let complete: Vec<&MeasuredMix> = measured
            .iter()
            .filter(|mix| mix.runs.iter().all(|of| !of.runs.is_empty()))
            .collect();
        let settings: Vec<Setting> = measured
            .first()
            .map(|mix| mix.runs.iter().map(|of| of.setting.clone()).collect())
            .unwrap_or_default();
        let mixes: Vec<MixResult> = complete
            .iter()
            .map(|mix| mix_result(mix, method.qos))
            .collect();
        let group = |title: String, size: Option<usize>| {
            let chosen = complete.iter().zip(&mixes);
            let (measured, results): (Vec<&MeasuredMix>, Vec<&MixResult>) = chosen
                .filter(|(mix, _)| size.is_none_or(|size| mix.mix.programs.len() == size))
                .map(|(mix, result)| (*mix, result))
                .unzip();
            Group {
                title,
                mixes: measured.len(),
                settings: settings
                    .iter()
                    .map(|setting| summary(setting, &measured, &results, method.qos))
                    .collect(),
            }
        };
        let mut sizes: Vec<usize> = complete.iter().map(|mix| mix.mix.programs.len()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut groups = Vec::new();
        if sizes.len() > 1 {
            groups.push(group("all mixes".to_owned(), None));
        }
        for size in sizes {
            groups.push(group(format!("mixes of {size} programs"), Some(size)));
        }
        // Also those of mixes that are left out.
        let wrong_results = measured
            .iter()
            .flat_map(|mix| &mix.runs)
            .flat_map(|of| &of.runs)
            .map(|run| run.wrong.len())
            .sum();
        Self {
            schema: 2,
            kind: "measured",
            load: Load::over(measured, machine.load_average_before),
            machine,
            method,
            settings,
            groups,
            mixes,
            wrong_results,
        }
    }

    /// Why the figures are to be taken with care, if they are.
    pub(super) fn caution(&self) -> Option<String> {
        let mut reasons = Vec::new();
        let foreign = self.load.others_mean + self.load.stolen_mean;
        if foreign > DISTURBED_CPUS {
            reasons.push(format!("other work used {foreign:.2} CPUs meanwhile"));
        }
        if self.method.repetitions < FEW_REPETITIONS {
            reasons.push(format!(
                "there were fewer than {FEW_REPETITIONS} repetitions, so the intervals say little"
            ));
        }
        if self.method.left_out > 0 {
            reasons.push(format!("{} runs were left out", self.method.left_out));
        }
        (!reasons.is_empty())
            .then(|| format!("Take these figures with care: {}.", reasons.join(", and ")))
    }

    /// The programs that took part.
    pub(super) fn programs(&self) -> impl Iterator<Item = &'static Program> + '_ {
        PROGRAMS.iter().filter(|program| {
            let mut names = self.mixes.iter().flat_map(|mix| &mix.programs);
            names.any(|other| other.name == program.name)
        })
    }

    /// What became of DLB, in a sentence.
    pub(super) fn dlb_note(&self) -> &'static str {
        match self.method.dlb {
            DlbIs::Missing => {
                "DLB is not installed (neither pkg-config nor the dynamic loader knows it) and was \
                 not compared."
            }
            DlbIs::Installed if self.settings.contains(&Setting::Dlb) => {
                "Under DLB, OpenMP programs run on libomp, which tells DLB when it waits, in place of \
                 libgomp; programs with threads of their own are only pinned."
            }
            DlbIs::Installed => "DLB is installed and was not asked for.",
        }
    }
}

impl Load {
    #[expect(clippy::cast_precision_loss, reason = "some hundred runs")]
    fn over(measured: &[MeasuredMix], average_before: f64) -> Self {
        let runs = || {
            let of = measured.iter().flat_map(|mix| &mix.runs);
            of.flat_map(|of| &of.runs)
        };
        let count = runs().count().max(1) as f64;
        let others = || runs().map(|run| run.during.other_processes_cpus);
        Self {
            average_before,
            runnable_mean: runs()
                .map(|run| f64::from(run.before.runnable))
                .sum::<f64>()
                / count,
            runnable_most: runs().map(|run| run.before.runnable).max().unwrap_or(0),
            others_mean: others().sum::<f64>() / count,
            others_most: others().fold(0.0, f64::max),
            stolen_mean: runs().map(|run| run.during.stolen_cpus).sum::<f64>() / count,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::evaluate::tests::example as measured;
    use super::*;

    pub(crate) fn results(measured: &[MeasuredMix], left_out: usize) -> Results {
        let method = Method {
            command: "cargo xtask eval --live".to_owned(),
            repetitions: 3,
            qos: 0.85,
            interval_s: 0.1,
            calibrated_s: 0.7,
            daemon: None,
            dlb: DlbIs::Missing,
            left_out,
            elapsed_s: 30.0,
        };
        Results::new(Machine::example(), method, measured)
    }

    /// Results with everything in them that a report can show.
    pub(crate) fn example() -> Results {
        let mut measured = measured();
        measured[0].runs[2].runs[1].reject("md <is> wrong".to_owned());
        results(&measured, 0)
    }

    #[test]
    fn mixes_of_one_size_are_one_group_and_of_several_are_also_taken_together() {
        let titles = |results: &Results| -> Vec<String> {
            results
                .groups
                .iter()
                .map(|group| group.title.clone())
                .collect()
        };
        assert_eq!(titles(&example()), ["mixes of 2 programs"]);
        let mut mixed = measured();
        let third = mixed[0].mix.programs[0];
        mixed[0].mix.programs.push(third);
        for of in &mut mixed[0].runs {
            for run in &mut of.runs {
                let again = run.programs[0];
                run.programs.push(again);
            }
        }
        let found = titles(&results(&mixed, 0));
        assert_eq!(
            found,
            ["all mixes", "mixes of 2 programs", "mixes of 3 programs"]
        );
    }

    #[test]
    fn what_was_finished_before_a_stop_is_kept_and_a_mix_without_a_setting_left_out() {
        let mut stopped = measured();
        stopped[0].runs[1].runs.truncate(2);
        stopped[1].runs[2].runs.clear();
        let results = results(&stopped, 4);
        let names: Vec<&str> = results.mixes.iter().map(|mix| &*mix.name).collect();
        assert_eq!(names, ["md+cg"]);
        assert_eq!(results.settings.len(), 3);
        assert!(results.caution().unwrap().contains("4 runs were left out"));
    }

    #[test]
    fn wrong_results_are_counted() {
        assert_eq!(example().wrong_results, 1);
        assert_eq!(results(&measured(), 0).wrong_results, 0);
    }
}
