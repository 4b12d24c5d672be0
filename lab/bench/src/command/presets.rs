//! `cargo xtask demo`, `eval --live` and `teams`: an experiment each, and what the user may change about it.
//!
//! Everything is checked before anything takes time.

use std::num::NonZero;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use mapper_report::{output::check_writable, workspace};

use super::corun::Prepared;
use crate::build::dlb;
use crate::data::{
    Experiment, Manager, Mix, PROMISE, PROMISE_WANTED, Setting, WORK_S, WORK_S_WANTED, in_range,
};
use crate::show::publish::{JSON, MARKDOWN, Outputs, PAGE};

/// Runs pairs of OpenMP programs under plain Linux and under mapper, and compares
#[derive(clap::Args)]
pub(crate) struct Demo {
    /// Also write the results as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report to this file [default: mapper-demo.html in the target folder]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Repetitions of every run [default: 3, or as many as fit into five minutes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    reps: Option<u16>,
    /// The pairs to run, separated by commas [default: all]
    #[arg(long, value_name = "PAIR", value_delimiter = ',')]
    pairs: Vec<String>,
    /// The settings to compare, separated by commas [default: plain, passive, static, mapper, fixed, follow]
    #[arg(long, value_name = "SETTING", value_delimiter = ',')]
    settings: Vec<String>,
    /// One repetition of short runs: shows that everything works, but measures badly
    #[arg(long)]
    quick: bool,
    /// Run programs from Debian and PyPI instead, which are installed first: some 25 minutes
    #[arg(long)]
    real: bool,
}

impl Demo {
    /// The experiment as it is asked for.
    pub(crate) fn prepare(&self) -> anyhow::Result<Prepared> {
        let name = if self.real { "real" } else { "demo" };
        let mut experiment = Experiment::find(name)?;
        experiment.choose(&self.pairs, "pair", |mix| Some(&mix.name))?;
        if !self.settings.is_empty() {
            experiment.replace_settings(Setting::find_all(&self.settings)?);
        }
        if self.quick && self.pairs.is_empty() {
            experiment.keep_quick();
        }
        let method = &mut experiment.method;
        if self.quick {
            method.repetitions = NonZero::<usize>::MIN;
            method.work_s = method.quick_work_s.unwrap_or(method.work_s);
        }
        if let Some(reps) = self.reps {
            method.repetitions = NonZero::new(usize::from(reps)).context("--reps")?;
            method.budget_s = None;
        }
        let page = match &self.html {
            Some(page) => page.clone(),
            None => {
                let folder = workspace::target_dir();
                fs_err::create_dir_all(&folder)?;
                folder.join(format!("mapper-{name}.html"))
            }
        };
        let outputs = Outputs::claim([(JSON, self.json.clone()), (PAGE, Some(page))])?;
        Ok(Prepared {
            experiment,
            outputs,
        })
    }
}

/// Runs real programs on this machine
///
/// Runs mixes of the programs of benches/workloads under plain Linux, on a static fair share, with
/// mapper moving CPUs only and with mapper, interleaved. About ten minutes on an otherwise idle
/// machine: 10 repetitions of 8 mixes under 5 settings, each some 1 to 2 seconds; --seconds,
/// --reps, --mix and --setting make it shorter. Ctrl-C keeps what is finished.
#[derive(clap::Args)]
#[command(
    bin_name = "cargo xtask eval --live",
    display_name = "cargo xtask eval --live"
)]
pub(crate) struct Live {
    /// Programs that run together, such as md+cg; repeatable
    #[arg(long, value_name = "PROGRAMS")]
    mix: Vec<String>,
    /// Policies to compare beside mapper's own; repeatable or separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<String>,
    /// The promise: the share of its speed on a static fair share that every program is to have
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    qos: Option<f64>,
    /// Time between decisions in seconds
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    interval: Option<f64>,
    /// Also write everything to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder for the report
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Repetitions of every run [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    reps: Option<u16>,
    /// Settings to compare, separated by commas [default: plain, static, cpus, mapper,
    /// virtual, and dlb where it is installed]
    #[arg(long, value_name = "SETTING", value_delimiter = ',')]
    setting: Vec<String>,
    /// How long each program works alone on half of the machine [default: 0.7]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Also write the tables to this file, as Markdown; a file with other text is refused
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl Live {
    /// The experiment as it is asked for.
    pub(crate) fn prepare(&self) -> anyhow::Result<Prepared> {
        let mut experiment = Experiment::find("live")?;
        if !self.mix.is_empty() {
            let mixes: anyhow::Result<_> = self.mix.iter().map(|text| Mix::parse(text)).collect();
            experiment.replace_mixes(mixes.context("--mix")?);
        }
        self.choose_settings(&mut experiment, dlb::library().is_some())?;
        let method = &mut experiment.method;
        if let Some(reps) = self.reps {
            method.repetitions = NonZero::new(usize::from(reps)).context("--reps")?;
        }
        if let Some(seconds) = self.seconds {
            in_range("--seconds", seconds, WORK_S, WORK_S_WANTED)?;
            method.work_s = seconds;
        }
        if let Some(promise) = self.qos {
            in_range("--qos", promise, PROMISE, PROMISE_WANTED)?;
            method.promise = Some(promise);
        }
        if let Some(interval_s) = self.interval {
            let wanted = "with --live give seconds from 0.02 to 10";
            in_range("--interval", interval_s, 0.02..=10.0, wanted)?;
            let interval_ms = NonZero::new((interval_s * 1e3).round() as u64);
            method.interval_ms = interval_ms.context("--interval")?;
        }
        self.out.as_deref().map_or(Ok(()), check_writable)?;
        let in_folder = |name| self.out.as_ref().map(|folder| folder.join(name));
        let outputs = Outputs::claim([
            (JSON, self.json.clone()),
            (MARKDOWN, self.markdown.clone()),
            (JSON, in_folder("live.json")),
            (PAGE, in_folder("live.html")),
        ])?;
        Ok(Prepared {
            experiment,
            outputs,
        })
    }

    /// The settings that are asked for, or else those of the experiment that can be had, and mapper by each policy.
    fn choose_settings(&self, experiment: &mut Experiment, has_dlb: bool) -> anyhow::Result<()> {
        let is_dlb = |of: &Setting| of.manager == Manager::Dlb;
        let mut settings = Setting::find_all(&self.setting).context("--setting")?;
        if settings.is_empty() {
            settings.clone_from(&experiment.settings);
            settings.retain(|of| has_dlb || !is_dlb(of));
        }
        ensure!(
            has_dlb || !settings.iter().any(is_dlb),
            "--setting dlb: neither pkg-config nor the dynamic loader knows the DLB library; \
             install it from https://pm.bsc.es/dlb, or leave the setting out"
        );
        for policy in &self.policy {
            mapper_allocate::find(policy).context("--policy with --live")?;
            settings.push(Setting::find("mapper")?.with_policy(policy));
        }
        experiment.replace_settings(settings);
        Ok(())
    }
}

/// Measures what team modes bring beside the best tuning by hand, and what they cost
#[derive(clap::Args)]
pub(crate) struct Teams {
    /// What to measure: fine, fit, dynamic, coarse, alone; everything when nothing is named
    groups: Vec<String>,
    /// Repetitions of every run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    reps: u16,
    /// Also write the results as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write a report to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Teams {
    /// The experiment as it is asked for.
    pub(crate) fn prepare(&self) -> anyhow::Result<Prepared> {
        let mut experiment = Experiment::find("teams")?;
        experiment.choose(&self.groups, "group", |mix| mix.group.as_ref())?;
        experiment.method.repetitions = NonZero::new(usize::from(self.reps)).context("--reps")?;
        let outputs = Outputs::claim([(JSON, self.json.clone()), (PAGE, self.html.clone())])?;
        Ok(Prepared {
            experiment,
            outputs,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::data::Missed;
    use crate::evaluate::results::tests::example;
    use crate::run::schedule::Ended;
    use crate::show::publish::publish;

    #[derive(Parser)]
    enum Preset {
        Demo(Demo),
        Live(Live),
    }

    fn prepared(arguments: &[&str]) -> anyhow::Result<Prepared> {
        match Preset::try_parse_from(["xtask"].iter().chain(arguments))? {
            Preset::Demo(demo) => demo.prepare(),
            Preset::Live(live) => live.prepare(),
        }
    }

    #[test]
    fn bad_arguments_are_refused_by_name_before_anything_runs() {
        let nowhere = "/nonexistent/folder/file";
        for (arguments, named) in [
            (["demo", "--reps", "0"], "--reps"),
            (["demo", "--reps", "101"], "101"),
            (["demo", "--reps", "many"], "many"),
            (["demo", "--pairs", "md+cg,nobody"], "triad+mandelbrot"),
            (["demo", "--settings", "elastic"], "passive"),
            (["demo", "--json", nowhere], nowhere),
            (["demo", "--html", nowhere], nowhere),
            (["live", "--mix", "md+nobody"], "nobody"),
            (["live", "--reps", "0"], "--reps"),
            (["live", "--setting", "elastic"], "elastic"),
            (["live", "--policy", "genius"], "hill_climb"),
            (["live", "--seconds", "0"], "--seconds 0"),
            (["live", "--seconds", "many"], "many"),
            (["live", "--interval", "11"], "--interval 11"),
            (["live", "--qos", "1.5"], "--qos"),
            (["live", "--json", nowhere], nowhere),
            (["live", "--markdown", nowhere], nowhere),
            (["live", "--out", "/proc/nonexistent"], "/proc/nonexistent"),
        ] {
            let Err(error) = prepared(&arguments) else {
                panic!("{arguments:?} was accepted")
            };
            let error = format!("{error:#}");
            assert!(error.contains(named), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn a_folder_gets_the_data_and_the_page() {
        let folder = tempfile::tempdir().unwrap();
        let out = format!("--out={}", folder.path().display());
        let Prepared { outputs, .. } = prepared(&["live", &out]).unwrap();
        let mut results = example();
        results.wrong_results = 0;
        publish(
            outputs,
            &results,
            Ended::Done,
            Missed::Shown,
            &mut Vec::new(),
        )
        .unwrap();
        for (name, begins) in [("live.json", "{"), ("live.html", "<!DOCTYPE html>")] {
            let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(text.starts_with(begins), "{name}");
        }
    }

    #[test]
    fn repetitions_that_are_asked_for_have_no_budget_and_quick_runs_are_short() {
        let folder = tempfile::tempdir().unwrap();
        let html = format!("--html={}", folder.path().join("report.html").display());
        let method = |arguments: &[&str]| {
            let all = [&["demo", &html], arguments].concat();
            prepared(&all).unwrap().experiment.method
        };
        let usual = method(&[]);
        assert_eq!((usual.repetitions.get(), usual.work_s), (3, 1.5));
        assert!(usual.budget_s.is_some() && method(&["--reps=2"]).budget_s.is_none());
        let quick = method(&["--quick"]);
        assert_eq!((quick.repetitions.get(), quick.work_s), (1, 0.7));
    }

    #[test]
    fn dlb_is_compared_where_it_is_installed_and_policies_beside_the_settings_each_once() {
        let keys = |arguments: &[&str], has_dlb| {
            let arguments = ["xtask", "live"].iter().chain(arguments);
            let Preset::Live(args) = Preset::try_parse_from(arguments)? else {
                panic!("another preset")
            };
            let mut live = crate::data::experiment::tests::experiment("live");
            args.choose_settings(&mut live, has_dlb)?;
            let keys = live.settings.into_iter().map(|of| of.key);
            anyhow::Ok(keys.collect::<Vec<_>>())
        };
        let usual = ["plain", "static", "cpus", "mapper", "fixed"];
        assert_eq!(keys(&[], false).unwrap(), usual);
        assert_eq!(keys(&[], true).unwrap().last().unwrap(), "dlb");
        let error = keys(&["--setting=dlb"], false).unwrap_err();
        assert!(error.to_string().contains("--setting dlb"), "{error}");
        let policies = "--policy=hill_climb,hill_climb";
        let found = keys(&["--setting=plain,mapper,plain", policies], false);
        assert_eq!(found.unwrap(), ["plain", "mapper", "mapper:hill_climb"]);
    }
}
