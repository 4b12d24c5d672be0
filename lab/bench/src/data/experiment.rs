//! Experiments in which programs run side by side, from `experiments/*.toml`.
//!
//! An experiment is a list of mixes (programs that run at the same time), the settings that each mix runs
//! under, how it is measured, and what is expected of the figures.

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

use super::bound::{Bound, WrittenBound};
use super::program::{Program, Programs, Threads};
use super::reader;
use super::setting::{Setting, Settings};

/// The most programs in a mix: beyond this a run says little about any of them.
const MOST_PROGRAMS: usize = 8;

/// The OpenMP runtime that programs are linked with.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Runtime {
    /// gcc's.
    #[default]
    Libgomp,
    /// clang's.
    Libomp,
}

impl Runtime {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Libgomp => "libgomp",
            Self::Libomp => "libomp",
        }
    }

    pub(crate) fn compiler(self) -> &'static str {
        match self {
            Self::Libgomp => "gcc",
            Self::Libomp => "clang",
        }
    }
}

/// Which time of a program counts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Time {
    /// From its start, under mapper that of `mapper-launch`, to its end.
    #[serde(rename = "whole run")]
    WholeRun,
    /// What it reports of itself: from its first parallel work to its end.
    #[serde(rename = "own work")]
    OwnWork,
}

/// How the speed of one setting over another is formed from their runs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum SpeedBy {
    /// The median there by the median here, with a bootstrap interval.
    #[serde(rename = "ratio of medians")]
    RatioOfMedians,
    /// The median of the ratios of runs of the same moment, with their range.
    #[serde(rename = "median of ratios")]
    MedianOfRatios,
}

/// How an experiment is measured.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Method {
    pub(crate) repetitions: usize,
    /// How often each setting runs in a repetition, but for those with `few_runs`.
    #[serde(default = "one")]
    pub(crate) rounds: usize,
    /// No further repetition starts that would end later than this.
    pub(crate) budget_s: Option<f64>,
    /// How long each program works alone on the fair share of one of two programs.
    pub(crate) work_s: f64,
    pub(crate) quick_work_s: Option<f64>,
    /// A run may take this many times as long as on a fair share of the machine.
    pub(crate) patience: f64,
    /// Between two decisions of the daemon.
    pub(crate) interval_ms: u64,
    /// The share of the fair-share performance that mapper promises every program.
    pub(crate) promise: Option<f64>,
    pub(crate) time: Time,
    pub(crate) speed: SpeedBy,
    /// Whether CPUs over time are recorded in the first repetition.
    #[serde(default)]
    pub(crate) timelines: bool,
    /// Whether what the daemon notes of programs' teams is recorded in the first repetition.
    #[serde(default)]
    pub(crate) notes: bool,
}

const fn one() -> usize {
    1
}

/// A program of a mix.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) program: Program,
    /// Its share of the calibrated work.
    pub(crate) work: f64,
    /// The share of the calibrated time after which it is started.
    pub(crate) starts_after: f64,
}

/// Programs that run at the same time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mix {
    pub(crate) name: String,
    /// Mixes of a group are summed up together.
    pub(crate) group: Option<String>,
    /// What to look at, in a sentence.
    pub(crate) story: Option<String>,
    pub(crate) runtime: Runtime,
    pub(crate) members: Vec<Member>,
    pub(crate) settings: Vec<Setting>,
}

/// A figure over mixes that can be expected.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
pub(crate) enum Over {
    /// The mean speed of each mix by itself.
    #[serde(rename = "each mix")]
    EachMix,
    /// The geometric mean of the mixes.
    #[serde(rename = "mean")]
    Mean,
    #[serde(rename = "slowest mix")]
    SlowestMix,
    #[serde(rename = "slowest program")]
    SlowestProgram,
}

/// What is expected of the speed of a setting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expectation {
    pub(crate) name: String,
    pub(crate) group: Option<String>,
    pub(crate) setting: String,
    pub(crate) figure: Over,
    /// The key of the setting that it is compared with.
    pub(crate) over: String,
    pub(crate) bound: Bound,
}

/// What becomes of an expectation that is not met.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Missed {
    /// It is shown.
    Shown,
    /// The task fails.
    Fails,
}

/// The setting whose figures stand for mapper.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Headline {
    pub(crate) setting: String,
    /// The first group, if none is named.
    pub(crate) group: Option<String>,
}

/// An experiment, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Experiment {
    pub(crate) title: String,
    pub(crate) about: String,
    /// All that its mixes run under.
    pub(crate) settings: Vec<Setting>,
    /// Those of `settings` that are left out where they cannot be had.
    pub(crate) optional_settings: Vec<String>,
    /// Keys of the settings that others are compared with.
    pub(crate) baselines: Vec<String>,
    /// The setting that a promise is measured against.
    pub(crate) promised_against: Option<String>,
    pub(crate) headline: Option<Headline>,
    pub(crate) missed: Missed,
    pub(crate) method: Method,
    pub(crate) mixes: Vec<Mix>,
    pub(crate) expectations: Vec<Expectation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    title: String,
    about: String,
    settings: Vec<String>,
    #[serde(default)]
    optional_settings: Vec<String>,
    #[serde(default)]
    baselines: Vec<String>,
    promised_against: Option<String>,
    headline: Option<Headline>,
    missed: Missed,
    method: Method,
    mix: Vec<WrittenMix>,
    #[serde(default)]
    expect: Vec<WrittenExpectation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenMix {
    name: Option<String>,
    group: Option<String>,
    story: Option<String>,
    #[serde(default)]
    runtime: Runtime,
    programs: Vec<WrittenMember>,
    settings: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenMember {
    Whole(String),
    Part(WrittenPart),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPart {
    program: String,
    #[serde(default = "whole")]
    work: f64,
    #[serde(default)]
    starts_after: f64,
}

const fn whole() -> f64 {
    1.0
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenExpectation {
    name: String,
    group: Option<String>,
    settings: Vec<String>,
    figure: Over,
    over: String,
    at_least: Option<f64>,
    below: Option<f64>,
}

/// The tables that an experiment refers to.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) programs: Programs,
    pub(crate) settings: Settings,
}

impl Tables {
    /// Those of this package.
    pub(crate) fn read() -> anyhow::Result<Self> {
        Ok(Self {
            programs: Programs::read()?,
            settings: Settings::read()?,
        })
    }

    /// The settings of these keys.
    pub(crate) fn settings(&self, keys: &[String]) -> anyhow::Result<Vec<Setting>> {
        keys.iter()
            .map(|key| self.settings.find(key).cloned())
            .collect()
    }

    /// The mix of a text such as `md+cg`.
    pub(crate) fn mix(&self, text: &str) -> anyhow::Result<Mix> {
        let programs = text
            .split(['+', ','])
            .map(|name| WrittenMember::Whole(name.trim().to_owned()))
            .collect();
        let written = WrittenMix {
            name: None,
            group: None,
            story: None,
            runtime: Runtime::default(),
            programs,
            settings: None,
        };
        let mix = self
            .checked_mix(written)
            .with_context(|| format!("mix {text:?}"))?;
        ensure!(
            mix.members.len() > 1,
            "mix {text:?}: 1 of 2 to {MOST_PROGRAMS} programs; write them like md+cg"
        );
        Ok(mix)
    }

    fn checked_mix(&self, written: WrittenMix) -> anyhow::Result<Mix> {
        let mut members = Vec::new();
        for member in written.programs {
            let part = match member {
                WrittenMember::Part(part) => part,
                WrittenMember::Whole(program) => WrittenPart {
                    program,
                    work: 1.0,
                    starts_after: 0.0,
                },
            };
            let program = self
                .programs
                .find(&part.program)
                .context("programs")?
                .clone();
            ensure!(
                part.work > 0.0 && part.work <= 10.0,
                "programs: work = {} of {}: give a share above 0 and at most 10",
                part.work,
                program.name
            );
            ensure!(
                (0.0..=10.0).contains(&part.starts_after),
                "programs: starts_after = {} of {}: give a share from 0 to 10",
                part.starts_after,
                program.name
            );
            members.push(Member {
                program,
                work: part.work,
                starts_after: part.starts_after,
            });
        }
        ensure!(
            (1..=MOST_PROGRAMS).contains(&members.len()),
            "programs: {} of 1 to {MOST_PROGRAMS} programs",
            members.len()
        );
        let names: Vec<&str> = members.iter().map(|of| of.program.name.as_str()).collect();
        Ok(Mix {
            name: written.name.unwrap_or_else(|| names.join("+")),
            group: written.group,
            story: written.story,
            runtime: written.runtime,
            members,
            settings: self
                .settings(&written.settings.unwrap_or_default())
                .context("settings")?,
        })
    }
}

impl Experiment {
    /// Reads an experiment from the file called `name`.
    ///
    /// # Errors
    /// Names the file, the entry and the key.
    pub(crate) fn parse(name: &str, text: &str, tables: &Tables) -> anyhow::Result<Self> {
        let written: Written = reader::read(name, text)?;
        Self::checked(written, tables).with_context(|| name.to_owned())
    }

    fn checked(written: Written, tables: &Tables) -> anyhow::Result<Self> {
        let common = tables.settings(&written.settings).context("settings")?;
        let mut mixes: Vec<Mix> = Vec::new();
        for (place, of) in written.mix.into_iter().enumerate() {
            let mut mix = tables
                .checked_mix(of)
                .with_context(|| format!("mix {}", place + 1))?;
            if mix.settings.is_empty() {
                mix.settings.clone_from(&common);
            }
            ensure!(
                mixes
                    .iter()
                    .all(|other| other.name != mix.name || other.group != mix.group),
                "mix {}: name: there are two mixes {:?}",
                place + 1,
                mix.name
            );
            mixes.push(mix);
        }
        ensure!(!mixes.is_empty(), "mix: there is nothing to run");
        let mut experiment = Self {
            title: written.title,
            about: written.about,
            settings: Vec::new(),
            optional_settings: written.optional_settings,
            baselines: written.baselines,
            promised_against: written.promised_against,
            headline: written.headline,
            missed: written.missed,
            method: written.method,
            mixes,
            expectations: Vec::new(),
        };
        experiment.settings = experiment.settings_of_mixes();
        experiment.check_method().context("method")?;
        experiment.check_keys()?;
        for (place, of) in written.expect.into_iter().enumerate() {
            let expected = experiment
                .checked_expectation(&of)
                .with_context(|| format!("expect {}", place + 1))?;
            experiment.expectations.extend(expected);
        }
        Ok(experiment)
    }

    /// Every setting of the mixes once, in the order in which they stand there.
    fn settings_of_mixes(&self) -> Vec<Setting> {
        let mut settings: Vec<Setting> = Vec::new();
        for setting in self.mixes.iter().flat_map(|mix| &mix.settings) {
            if !settings.contains(setting) {
                settings.push(setting.clone());
            }
        }
        settings
    }

    fn check_method(&self) -> anyhow::Result<()> {
        let method = &self.method;
        ensure!(method.repetitions > 0, "repetitions: 0 measure nothing");
        ensure!(method.rounds > 0, "rounds: 0 measure nothing");
        ensure!(method.interval_ms > 0, "interval_ms: give 1 or more");
        for (key, seconds) in [
            ("work_s", Some(method.work_s)),
            ("quick_work_s", method.quick_work_s),
        ] {
            if let Some(seconds) = seconds {
                ensure!(
                    (0.05..=60.0).contains(&seconds),
                    "{key} = {seconds}: give seconds from 0.05 to 60"
                );
            }
        }
        ensure!(
            method.patience >= 1.0,
            "patience = {}: a run takes as long as on a fair share at least",
            method.patience
        );
        if let Some(promise) = method.promise {
            ensure!(
                promise > 0.0 && promise <= 1.0,
                "promise = {promise}: give a share above 0 and at most 1"
            );
        }
        Ok(())
    }

    fn check_keys(&self) -> anyhow::Result<()> {
        let has = |key: &str| self.settings.iter().any(|setting| setting.key == *key);
        for (name, keys) in [
            ("optional_settings", self.optional_settings.iter().collect()),
            ("baselines", self.baselines.iter().collect()),
            ("promised_against", self.promised_against.iter().collect()),
            (
                "headline",
                self.headline
                    .iter()
                    .map(|of| &of.setting)
                    .collect::<Vec<_>>(),
            ),
        ] {
            for key in keys {
                ensure!(has(key), "{name}: no mix runs under the setting {key:?}");
            }
        }
        Ok(())
    }

    fn checked_expectation(
        &self,
        written: &WrittenExpectation,
    ) -> anyhow::Result<Vec<Expectation>> {
        let bound = WrittenBound {
            at_least: written.at_least,
            below: written.below,
        };
        let bound = bound.checked()?.context("at_least: give a bound")?;
        let in_group: Vec<&Mix> = self
            .mixes
            .iter()
            .filter(|mix| written.group.is_none() || mix.group == written.group)
            .collect();
        ensure!(
            !in_group.is_empty(),
            "group: no mix belongs to {:?}",
            written.group
        );
        for key in written.settings.iter().chain([&written.over]) {
            let runs = |mix: &&Mix| mix.settings.iter().any(|setting| setting.key == *key);
            ensure!(
                in_group.iter().all(runs),
                "settings: not every mix of the group runs under {key:?}"
            );
        }
        ensure!(
            !written.settings.contains(&written.over),
            "over: {:?} is compared with itself",
            written.over
        );
        let expect = |setting: &String| Expectation {
            name: written.name.clone(),
            group: written.group.clone(),
            setting: setting.clone(),
            figure: written.figure,
            over: written.over.clone(),
            bound,
        };
        Ok(written.settings.iter().map(expect).collect())
    }

    /// Keeps the mixes of these names; all for no names.
    ///
    /// # Errors
    /// A name that no mix has.
    pub(crate) fn choose_mixes(&mut self, names: &[String]) -> anyhow::Result<()> {
        self.choose(names, "pair", |mix| Some(&mix.name))
    }

    /// Keeps the mixes of these groups; all for no names.
    ///
    /// # Errors
    /// A name that no group has.
    pub(crate) fn choose_groups(&mut self, names: &[String]) -> anyhow::Result<()> {
        self.choose(names, "group", |mix| mix.group.as_ref())
    }

    fn choose(
        &mut self,
        names: &[String],
        what: &str,
        of: impl Fn(&Mix) -> Option<&String>,
    ) -> anyhow::Result<()> {
        let mut valid: Vec<&String> = self.mixes.iter().filter_map(&of).collect();
        valid.dedup();
        for name in names {
            if !valid.contains(&name) {
                let valid: Vec<&str> = valid.iter().map(|name| name.as_str()).collect();
                bail!(
                    "there is no {what} {name:?}; choose from {}",
                    valid.join(", ")
                );
            }
        }
        if !names.is_empty() {
            self.mixes
                .retain(|mix| of(mix).is_some_and(|name| names.contains(name)));
            self.forget_what_is_gone();
        }
        Ok(())
    }

    /// Runs these mixes instead of its own, under the settings that all its own have.
    pub(crate) fn replace_mixes(&mut self, mixes: Vec<Mix>) {
        let settings = self.settings.clone();
        self.mixes.clear();
        for mix in mixes {
            if !self.mixes.iter().any(|other| other.name == mix.name) {
                let settings = settings.clone();
                self.mixes.push(Mix { settings, ..mix });
            }
        }
        self.forget_what_is_gone();
    }

    /// Runs every mix under these settings.
    pub(crate) fn replace_settings(&mut self, settings: &[Setting]) {
        for mix in &mut self.mixes {
            mix.settings.clear();
            for setting in settings {
                if !mix.settings.contains(setting) {
                    mix.settings.push(setting.clone());
                }
            }
        }
        self.forget_what_is_gone();
    }

    /// Leaves out the mixes in which a program is for Python.
    pub(crate) fn without_python(&mut self) -> Vec<Mix> {
        let is_python = |mix: &Mix| {
            let mut programs = mix.members.iter().map(|of| &of.program);
            programs.any(|program| program.threads == Threads::Python)
        };
        let (gone, kept) = self.mixes.drain(..).partition(is_python);
        self.mixes = kept;
        self.forget_what_is_gone();
        gone
    }

    /// Whether any mix has a program with such threads.
    pub(crate) fn has_threads(&self, threads: Threads) -> bool {
        let mut members = self.mixes.iter().flat_map(|mix| &mix.members);
        members.any(|of| of.program.threads == threads)
    }

    fn forget_what_is_gone(&mut self) {
        self.settings = self.settings_of_mixes();
        let (settings, mixes) = (&self.settings, &self.mixes);
        let has = |key: &String| settings.iter().any(|setting| setting.key == *key);
        self.baselines.retain(has);
        self.optional_settings.retain(has);
        self.promised_against = self.promised_against.take().filter(has);
        self.headline = self.headline.take().filter(|of| has(&of.setting));
        self.expectations.retain(|of| {
            let in_group = |mix: &Mix| of.group.is_none() || mix.group == of.group;
            has(&of.setting) && has(&of.over) && mixes.iter().any(in_group)
        });
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const FILES: [(&str, &str); 3] = [
        ("demo.toml", include_str!("../../experiments/demo.toml")),
        ("teams.toml", include_str!("../../experiments/teams.toml")),
        ("live.toml", include_str!("../../experiments/live.toml")),
    ];

    /// An experiment of this package.
    pub(crate) fn experiment(name: &str) -> Experiment {
        let (name, text) = FILES.into_iter().find(|(file, _)| *file == name).unwrap();
        Experiment::parse(name, text, &Tables::read().unwrap()).unwrap()
    }

    #[test]
    fn the_experiments_of_this_package_are_valid() {
        for (name, _) in FILES {
            assert!(!experiment(name).mixes.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_bad_experiment_is_refused_with_its_file_entry_and_key() {
        let (_, good) = FILES[0];
        for (from, to, named) in [
            ("title =", "titel =", "titel"),
            ("repetitions = 3", "repetitions = 0", "method: repetitions"),
            ("work_s = 1.5", "work_s = 0", "method: work_s"),
            ("promise = 0.85", "promise = 2", "method: promise"),
            ("patience = 6", "patient = 6", "method"),
            (
                "[\"md\", \"cg\"]",
                "[\"md\", \"nobody\"]",
                "mix 2: programs: there is no program \"nobody\"",
            ),
            ("work = 1.2", "work = 0", "mix 5: programs: work = 0"),
            (
                "\"virtual\"]",
                "\"elastic\"]",
                "settings: there is no setting \"elastic\"",
            ),
            ("over = \"plain\"", "over = \"hand\"", "expect 1: settings"),
            ("at_least = 1.5", "", "expect 1: at_least"),
            (
                "at_least = 1.5",
                "at_least = 1.5\nbelow = 2",
                "expect 1: give at_least or below",
            ),
            (
                "promised_against = \"static\"",
                "promised_against = \"hand\"",
                "promised_against",
            ),
        ] {
            assert!(good.contains(from), "{from}");
            let bad = good.replacen(from, to, 1);
            let error = Experiment::parse("my.toml", &bad, &Tables::read().unwrap());
            let error = format!("{:#}", error.unwrap_err());
            assert!(
                error.starts_with("my.toml") && error.contains(named),
                "{named}: {error}"
            );
        }
    }

    #[test]
    fn one_program_arrives_late_and_one_leaves_early_in_the_demo() {
        let demo = experiment("demo.toml");
        let members = || demo.mixes.iter().flat_map(|mix| &mix.members);
        assert!(members().any(|of| of.starts_after > 0.0));
        assert!(members().any(|of| of.work < 0.5));
    }

    #[test]
    fn every_team_mode_is_compared_with_plain_linux_by_a_program_alone() {
        let mut teams = experiment("teams.toml");
        teams.choose_groups(&["alone".to_owned()]).unwrap();
        assert!(teams.mixes.iter().all(|mix| mix.members.len() == 1));
        let expected = teams.expectations.iter().map(|of| of.setting.as_str());
        assert_eq!(
            expected.collect::<Vec<_>>(),
            ["fixed", "follow", "virtual-n"]
        );
        assert!(teams.expectations.iter().all(|of| of.over == "plain-n"));
    }

    #[test]
    fn the_default_mixes_of_eval_live_are_of_two_three_and_four_programs() {
        let live = experiment("live.toml");
        for count in 2..=4 {
            let of = live.mixes.iter().filter(|mix| mix.members.len() == count);
            assert!(of.count() >= 2, "{count}");
        }
        assert_eq!(live.method.repetitions, 10);
        assert_eq!(live.method.promise, Some(0.85));
    }

    #[test]
    fn an_unknown_mix_is_refused_with_the_valid_names_and_a_mix_named_twice_runs_once() {
        let mut demo = experiment("demo.toml");
        let error = demo
            .choose_mixes(&["md+nothing".into()])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("md+nothing") && error.contains("triad+mandelbrot"),
            "{error}"
        );
        demo.choose_mixes(&["md+cg".into(), "md+cg".into()])
            .unwrap();
        assert_eq!(demo.mixes.len(), 1);
    }

    #[test]
    fn a_mix_on_the_command_line_may_have_a_plus_or_a_comma_between_programs() {
        let tables = Tables::read().unwrap();
        let mixes = ["md+cg", "md, cg"].map(|text| tables.mix(text).unwrap());
        let mut live = experiment("live.toml");
        live.replace_mixes(mixes.to_vec());
        assert_eq!(live.mixes.len(), 1);
        assert_eq!(live.mixes[0].name, "md+cg");
        for (text, named) in [
            ("md+nobody", "nobody"),
            ("20 SGD, 20 BSGD", "choose from"),
            ("md", "1 of 2 to 8 programs"),
            ("md+", "there is no program \"\""),
        ] {
            let error = format!("{:#}", tables.mix(text).unwrap_err());
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_not_run_is_not_expected() {
        let mut demo = experiment("demo.toml");
        let settings: Vec<Setting> = demo
            .settings
            .iter()
            .filter(|of| of.key != "follow")
            .cloned()
            .collect();
        demo.replace_settings(&settings);
        assert!(demo.headline.is_none());
        assert!(demo.expectations.iter().all(|of| of.setting != "follow"));
        assert!(demo.expectations.iter().any(|of| of.setting == "virtual"));
    }
}
