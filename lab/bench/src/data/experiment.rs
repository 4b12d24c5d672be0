//! Experiments in which programs run side by side, from `experiments/*.toml`.
//!
//! An experiment is a list of mixes (programs that run at the same time), the settings that each mix runs
//! under, how it is measured, and what is expected of the figures.

use std::num::NonZero;
use std::ops::RangeInclusive;

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Deserializer, Serialize};

use super::figures::Bound;
use super::program::{Program, Threads};
use super::reader::{self, in_range, once_each, text_of, unknown};
use super::setting::Setting;

/// The most programs in a mix: beyond this a run says little about any of them.
const MOST_PROGRAMS: usize = 10;

/// Stands for the setting, of those that others are compared with, under which a mix is fastest.
pub(crate) const BEST: &str = "best";

/// What a program may be given to do alone, in seconds.
pub(crate) const WORK_S: RangeInclusive<f64> = 0.05..=60.0;
pub(crate) const WORK_S_WANTED: &str = "give seconds from 0.05 to 60";

/// What may be promised.
pub(crate) const PROMISE: RangeInclusive<f64> = f64::MIN_POSITIVE..=1.0;
pub(crate) const PROMISE_WANTED: &str = "give a share above 0 and at most 1";

/// The OpenMP runtime that programs are linked with.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Runtime {
    #[default]
    Libgomp,
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
#[serde(rename_all = "snake_case")]
pub(crate) enum Time {
    /// From its start, under mapper that of `mapper-launch`, to its end.
    WholeRun,
    /// What it reports of itself: from its first parallel work to its end.
    OwnWork,
}

/// How the speed of one setting over another is formed from their runs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SpeedBy {
    /// The median there by the median here, with a bootstrap interval.
    RatioOfMedians,
    /// The median of the ratios of runs of the same moment, with their range.
    MedianOfRatios,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Method {
    pub(crate) repetitions: NonZero<usize>,
    /// How often each setting runs in a repetition, but for those with `few_runs`.
    #[serde(default = "one")]
    pub(crate) rounds: NonZero<usize>,
    /// No further repetition starts that would end later than this.
    pub(crate) budget_s: Option<f64>,
    /// How long each program works alone on the fair share of one of two programs.
    pub(crate) work_s: f64,
    pub(crate) quick_work_s: Option<f64>,
    /// A run may take this many times as long as on a fair share of the machine.
    pub(crate) patience: f64,
    /// Between two decisions of the daemon.
    pub(crate) interval_ms: NonZero<u64>,
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

const fn one() -> NonZero<usize> {
    NonZero::<usize>::MIN
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) program: Program,
    /// Its share of the calibrated work.
    pub(crate) work: f64,
    /// The share of the calibrated time after which it is started.
    pub(crate) starts_after: f64,
}

/// Programs that run at the same time.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mix {
    /// By default the names of its programs.
    #[serde(default)]
    pub(crate) name: String,
    /// Mixes of a group are summed up together.
    pub(crate) group: Option<String>,
    /// What to look at, in a sentence.
    pub(crate) story: Option<String>,
    #[serde(default)]
    pub(crate) runtime: Runtime,
    /// Also run where a few mixes are to show that everything works.
    #[serde(default)]
    pub(crate) quick: bool,
    #[serde(rename = "programs", deserialize_with = "by_names")]
    pub(crate) members: Vec<Member>,
    /// Shares of the calibrated work and of the calibrated time, by default all and none.
    #[serde(default)]
    work: Vec<f64>,
    #[serde(default)]
    starts_after: Vec<f64>,
    /// By default those of the experiment.
    #[serde(default, deserialize_with = "by_keys")]
    pub(crate) settings: Vec<Setting>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Over {
    /// The mean speed of each mix by itself.
    EachMix,
    Mean,
    SlowestMix,
    SlowestProgram,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expectation {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) settings: Vec<String>,
    pub(crate) figure: Over,
    /// The key of the setting that they are compared with.
    pub(crate) over: String,
    pub(crate) wanted: Bound,
}

/// What becomes of an expectation that is not met.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Missed {
    Shown,
    Fails,
}

/// The setting whose figures stand for mapper.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Headline {
    pub(crate) setting: String,
    /// The first group, if none is named.
    pub(crate) group: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    pub(crate) title: String,
    pub(crate) about: String,
    /// Every setting of the mixes once; in the file, those of mixes that name none.
    #[serde(deserialize_with = "by_keys")]
    pub(crate) settings: Vec<Setting>,
    /// Keys of the settings that others are compared with, and [`BEST`].
    #[serde(default)]
    pub(crate) baselines: Vec<String>,
    /// The setting that a promise is measured against.
    pub(crate) promised_against: Option<String>,
    pub(crate) headline: Option<Headline>,
    pub(crate) missed: Missed,
    pub(crate) method: Method,
    #[serde(rename = "mix")]
    pub(crate) mixes: Vec<Mix>,
    #[serde(default, rename = "expect")]
    pub(crate) expectations: Vec<Expectation>,
}

fn by_names<'de, D: Deserializer<'de>>(names: D) -> Result<Vec<Member>, D::Error> {
    let names = Vec::<String>::deserialize(names)?;
    let members: anyhow::Result<_> = names.iter().map(|name| Member::of(name)).collect();
    members.map_err(serde::de::Error::custom)
}

fn by_keys<'de, D: Deserializer<'de>>(keys: D) -> Result<Vec<Setting>, D::Error> {
    let keys = Vec::<String>::deserialize(keys)?;
    Setting::find_all(&keys).map_err(serde::de::Error::custom)
}

impl Method {
    fn check(&self) -> anyhow::Result<()> {
        in_range("work_s =", self.work_s, WORK_S, WORK_S_WANTED)?;
        let quick_work_s = self.quick_work_s.unwrap_or(1.0);
        in_range("quick_work_s =", quick_work_s, WORK_S, WORK_S_WANTED)?;
        let least = "a run takes as long as on a fair share at least";
        in_range("patience =", self.patience, 1.0..=f64::MAX, least)?;
        let promise = self.promise.unwrap_or(1.0);
        in_range("promise =", promise, PROMISE, PROMISE_WANTED)
    }
}

impl Member {
    fn of(name: &str) -> anyhow::Result<Self> {
        Ok(Self {
            program: Program::find(name)?,
            work: 1.0,
            starts_after: 0.0,
        })
    }
}

impl Mix {
    /// The mix of a text such as `md+cg`.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let names = text.split(['+', ',']);
        let members = names.map(|name| Member::of(name.trim()).context("programs"));
        let members: anyhow::Result<Vec<Member>> = members.collect();
        let members = members.with_context(|| format!("mix {text:?}"))?;
        let count = members.len();
        ensure!(
            (2..=MOST_PROGRAMS).contains(&count),
            "mix {text:?}: {count} of 2 to {MOST_PROGRAMS} programs; write them like md+cg"
        );
        let mut mix = Self {
            members,
            ..Self::default()
        };
        mix.complete()?;
        Ok(mix)
    }

    /// Tells its programs how much they do and when, and names it after them if it has no name.
    fn complete(&mut self) -> anyhow::Result<()> {
        for (member, &work) in self.members.iter_mut().zip(&self.work) {
            let name = format!("work of {} =", member.program.name);
            let wanted = "give a share above 0 and at most 10";
            in_range(&name, work, f64::MIN_POSITIVE..=10.0, wanted)?;
            let is_whole = work == 1.0 || member.program.recipe.is_none();
            ensure!(
                is_whole,
                "{name} {work}: a real program does all of its work"
            );
            member.work = work;
        }
        for (member, &after) in self.members.iter_mut().zip(&self.starts_after) {
            let name = format!("starts_after of {} =", member.program.name);
            in_range(&name, after, 0.0..=10.0, "give a share from 0 to 10")?;
            member.starts_after = after;
        }
        if self.name.is_empty() {
            let names = self.members.iter().map(|of| of.program.name.as_str());
            self.name = names.collect::<Vec<_>>().join("+");
        }
        Ok(())
    }

    /// Whether any of its programs has such threads.
    fn has_threads(&self, threads: Threads) -> bool {
        self.members.iter().any(|of| of.program.threads == threads)
    }
}

fn has(settings: &[Setting], key: &str) -> bool {
    settings.iter().any(|setting| setting.key == key)
}

fn of_group<'a>(mixes: &'a [Mix], name: &'a str) -> impl Iterator<Item = &'a Mix> {
    let is_in_it = move |mix: &&Mix| mix.group.as_deref() == Some(name);
    mixes.iter().filter(is_in_it)
}

impl Experiment {
    /// That of this package with this name.
    pub(crate) fn find(name: &str) -> anyhow::Result<Self> {
        Self::parse(&format!("{name}.toml"), text_of(name)?)
    }

    /// Reads an experiment from the file called `name`.
    fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let mut read: Self = reader::read(name, text)?;
        for (place, mix) in read.mixes.iter_mut().enumerate() {
            let complete = mix.complete();
            complete.with_context(|| format!("{name}: mix[{place}]"))?;
            if mix.settings.is_empty() {
                mix.settings.clone_from(&read.settings);
            }
        }
        read.settings = read.settings_of_mixes();
        read.check().with_context(|| name.to_owned())?;
        Ok(read)
    }

    /// Every setting of the mixes once, in the order in which they stand there.
    fn settings_of_mixes(&self) -> Vec<Setting> {
        let settings = once_each(self.mixes.iter().flat_map(|mix| &mix.settings));
        settings.into_iter().cloned().collect()
    }

    fn check(&self) -> anyhow::Result<()> {
        self.method.check().context("method")?;
        ensure!(!self.mixes.is_empty(), "mix: there is nothing to run");
        for (place, mix) in self.mixes.iter().enumerate() {
            let (name, count) = (&mix.name, mix.members.len());
            let is_same = |other: &Mix| other.name == *name && other.group == mix.group;
            let is_new = !self.mixes[..place].iter().any(is_same);
            ensure!(is_new, "mix[{place}].name: there are two mixes {name:?}");
            ensure!(
                (1..=MOST_PROGRAMS).contains(&count),
                "mix[{place}].programs: {count} of 1 to {MOST_PROGRAMS} programs"
            );
        }
        let headline = self.headline.as_ref().map(|of| &of.setting);
        let baselines = self.baselines.iter().map(|key| ("baselines", key));
        let against = self.promised_against.as_ref();
        let against = against.map(|key| ("promised_against", key));
        let headline = headline.map(|key| ("headline", key));
        for (name, key) in baselines.chain(against).chain(headline) {
            let is_run = has(&self.settings, key) || (name == "baselines" && key == BEST);
            ensure!(is_run, "{name}: no mix runs under the setting {key:?}");
        }
        for (place, of) in self.expectations.iter().enumerate() {
            let checked = self.check_expectation(of);
            checked.with_context(|| format!("expect[{place}]"))?;
        }
        Ok(())
    }

    fn check_expectation(&self, of: &Expectation) -> anyhow::Result<()> {
        let Expectation { group, over, .. } = of;
        let mixes: Vec<&Mix> = of_group(&self.mixes, group).collect();
        ensure!(!mixes.is_empty(), "group: no mix belongs to {group:?}");
        let base = Some(over).filter(|key| *key != BEST);
        for key in of.settings.iter().chain(base) {
            ensure!(
                mixes.iter().all(|mix| has(&mix.settings, key)),
                "settings: not every mix of the group runs under {key:?}"
            );
        }
        let is_other = !of.settings.contains(over);
        ensure!(is_other, "over: {over:?} is compared with itself");
        Ok(())
    }

    /// Keys of all settings that others are compared with, each once.
    pub(crate) fn compared_with(&self) -> Vec<&String> {
        let expected = self.expectations.iter().map(|of| &of.over);
        let named = self.baselines.iter().chain(&self.promised_against);
        once_each(named.chain(expected))
    }

    /// Keeps the mixes of which `of`, a `what`, is among these names; all for no names.
    pub(crate) fn choose(
        &mut self,
        names: &[String],
        what: &str,
        of: impl Fn(&Mix) -> Option<&String>,
    ) -> anyhow::Result<()> {
        let valid = once_each(self.mixes.iter().filter_map(&of));
        if let Some(name) = names.iter().find(|name| !valid.contains(name)) {
            bail!(unknown(what, name, valid));
        }
        if !names.is_empty() {
            let is_chosen = |mix: &Mix| of(mix).is_some_and(|name| names.contains(name));
            self.mixes.retain(is_chosen);
            self.forget_what_is_gone();
        }
        Ok(())
    }

    /// Runs these mixes, each once, instead of its own, under the settings that all its own have.
    pub(crate) fn replace_mixes(&mut self, mixes: Vec<Mix>) {
        self.mixes = once_each(mixes);
        let settings = self.settings.clone();
        self.replace_settings(settings);
    }

    /// Runs every mix under these settings, each once.
    pub(crate) fn replace_settings(&mut self, settings: Vec<Setting>) {
        let settings = once_each(settings);
        for mix in &mut self.mixes {
            mix.settings.clone_from(&settings);
        }
        self.forget_what_is_gone();
    }

    /// Leaves out the mixes that do not count for a quick run, if any do.
    pub(crate) fn keep_quick(&mut self) {
        if self.mixes.iter().any(|mix| mix.quick) {
            self.mixes.retain(|mix| mix.quick);
            self.forget_what_is_gone();
        }
    }

    /// Leaves out the mixes with a program that cannot be had; gives their names.
    pub(crate) fn without(&mut self, is_missing: impl Fn(&Program) -> bool) -> Vec<String> {
        let programs = |mix: &Mix| mix.members.iter().any(|of| is_missing(&of.program));
        let is_gone = |mix: &mut Mix| programs(mix);
        let gone = self.mixes.extract_if(.., is_gone);
        let names = gone.map(|mix| mix.name).collect();
        self.forget_what_is_gone();
        names
    }

    /// Whether any mix has a program with such threads.
    pub(crate) fn has_threads(&self, threads: Threads) -> bool {
        self.mixes.iter().any(|mix| mix.has_threads(threads))
    }

    fn forget_what_is_gone(&mut self) {
        self.settings = self.settings_of_mixes();
        let (settings, mixes) = (&self.settings, &self.mixes);
        let has = |key: &String| has(settings, key) || key == BEST;
        self.baselines.retain(has);
        self.promised_against = self.promised_against.take().filter(has);
        self.headline = self.headline.take().filter(|of| has(&of.setting));
        self.expectations.retain_mut(|of| {
            of.settings.retain(has);
            let is_left = !of.settings.is_empty() && has(&of.over);
            is_left && of_group(mixes, &of.group).next().is_some()
        });
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn experiment(name: &str) -> Experiment {
        Experiment::find(name).unwrap()
    }

    /// The experiment of `eval --live` with these mixes and settings.
    pub(crate) fn live(mixes: &[&str], settings: &[&str]) -> Experiment {
        let mut live = experiment("live");
        live.replace_mixes(mixes.iter().map(|text| Mix::parse(text).unwrap()).collect());
        live.replace_settings(Setting::find_all(settings).unwrap());
        live
    }

    #[test]
    fn the_experiments_of_this_package_are_valid_and_have_the_mixes_that_they_need() {
        let mixes = ["demo", "teams", "live", "real"].map(|name| experiment(name).mixes);
        assert!(mixes.iter().all(|mixes| !mixes.is_empty()));
        // In the demo one program arrives late and one leaves early.
        let members = || mixes[0].iter().flat_map(|mix| &mix.members);
        assert!(members().any(|of| of.starts_after > 0.0));
        assert!(members().any(|of| of.work < 0.5));
        // Those of `eval --live` are of two, three and four programs.
        for count in 2..=4 {
            let of = mixes[2].iter().filter(|mix| mix.members.len() == count);
            assert!(of.count() >= 2, "{count}");
        }
        let method = experiment("live").method;
        assert_eq!(method.repetitions.get(), 10);
        assert_eq!(method.promise, Some(0.85));
    }

    #[test]
    fn a_bad_experiment_is_refused_with_its_file_entry_and_key() {
        let good = text_of("demo").unwrap();
        for (from, to, named) in [
            ("title =", "titel =", "titel"),
            ("repetitions = 3", "repetitions = 0", "method.repetitions"),
            ("work_s = 1.5", "work_s = 0", "method: work_s"),
            ("promise = 0.85", "promise = 2", "method: promise"),
            ("patience = 6", "patient = 6", "method"),
            (
                "\"md\", \"cg\"",
                "\"md\", \"nobody\"",
                "mix[1].programs: there is no program \"nobody\"",
            ),
            ("work = [1.2", "work = [0", "mix[4]: work of cg = 0"),
            (
                "\"follow\"]",
                "\"ghost\"]",
                "settings: there is no setting \"ghost\"",
            ),
            ("over = \"plain\"", "over = \"hand\"", "expect[0]: settings"),
            ("at_least = 1.5", "", "expect[0].wanted"),
            ("= 1.5 }", "= 1.5, below = 2 }", "expect[0].wanted"),
            (
                "against = \"static\"",
                "against = \"hand\"",
                "promised_against",
            ),
        ] {
            assert!(good.contains(from), "{from}");
            let bad = good.replacen(from, to, 1);
            let error = format!("{:#}", Experiment::parse("my.toml", &bad).unwrap_err());
            let is_named = error.starts_with("my.toml") && error.contains(named);
            assert!(is_named, "{named}: {error}");
        }
    }

    #[test]
    fn every_team_mode_is_compared_with_plain_linux_by_a_program_alone() {
        let mut teams = experiment("teams");
        let alone = ["alone".to_owned()];
        let chosen = teams.choose(&alone, "group", |mix| mix.group.as_ref());
        chosen.unwrap();
        assert!(teams.mixes.iter().all(|mix| mix.members.len() == 1));
        let expected = teams.expectations.iter().flat_map(|of| &of.settings);
        let expected: Vec<&String> = expected.collect();
        assert_eq!(expected, ["fixed", "follow", "virtual-n"]);
        assert!(teams.expectations.iter().all(|of| of.over == "plain-n"));
    }

    #[test]
    fn an_unknown_mix_is_refused_with_the_valid_names_and_a_mix_named_twice_runs_once() {
        let mut demo = experiment("demo");
        let mut choose = |names: &[String]| demo.choose(names, "pair", |mix| Some(&mix.name));
        let error = choose(&["md+nothing".to_owned()]).unwrap_err().to_string();
        let has = |part| error.contains(part);
        assert!(has("md+nothing") && has("triad+mandelbrot"), "{error}");
        choose(&["md+cg".to_owned(), "md+cg".to_owned()]).unwrap();
        assert_eq!(demo.mixes.len(), 1);
    }

    #[test]
    fn a_mix_on_the_command_line_may_have_a_plus_or_a_comma_between_programs() {
        let live = live(&["md+cg", "md, cg"], &["plain"]);
        assert_eq!(live.mixes.len(), 1);
        assert_eq!(live.mixes[0].name, "md+cg");
        for (text, named) in [
            ("md+nobody", "nobody"),
            ("20 SGD, 20 BSGD", "choose from"),
            ("md", "1 of 2 to 10 programs"),
            ("md+", "there is no program \"\""),
        ] {
            let error = format!("{:#}", Mix::parse(text).unwrap_err());
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn every_real_program_runs_alone_and_a_quick_run_is_of_a_few_mixes() {
        let mut real = experiment("real");
        let alone = |name: &str| {
            let is_it = |mix: &Mix| mix.members.len() == 1 && mix.name == name;
            real.mixes.iter().any(is_it)
        };
        let names = programs_of(&real);
        assert!(names.iter().all(|name| alone(name)), "{names:?}");
        assert!(real.expectations.iter().any(|of| of.over == BEST));
        real.keep_quick();
        assert!((2..8).contains(&real.mixes.len()));
        let gone = real.without(|of| of.name == "samtools");
        assert_eq!(gone, ["samtools+bwa"]);
        assert!(!programs_of(&real).contains(&"bwa".to_owned()));
    }

    fn programs_of(experiment: &Experiment) -> Vec<String> {
        let members = experiment.mixes.iter().flat_map(|mix| &mix.members);
        once_each(members.map(|of| of.program.name.clone()))
    }

    #[test]
    fn what_is_not_run_is_not_expected() {
        let mut demo = experiment("demo");
        let mut settings = demo.settings.clone();
        settings.retain(|of| of.key != "mapper");
        demo.replace_settings(settings);
        assert!(demo.headline.is_none());
        let expects = |key: &str| {
            let mut settings = demo.expectations.iter().flat_map(|of| &of.settings);
            settings.any(|of| of == key)
        };
        assert!(!expects("mapper") && expects("follow"));
    }
}
