//! What is to be run: mixes of programs, each in several settings.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// The programs and mixes that there are.
const MIXES: &str = include_str!("mixes.toml");

/// The programs and mixes that there are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalogue {
    programs: BTreeMap<String, Program>,
    mixes: Vec<Mix>,
}

/// A program of `tests/guest/programs`, and what it is given.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    pub(super) program: String,
    /// CPU time of what it counts, in milliseconds of the guest.
    pub(super) cpu_ms: f64,
    #[serde(default)]
    pub(super) options: Vec<String>,
}

/// Programs side by side.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mix {
    pub(super) name: String,
    pub(super) programs: Vec<Member>,
}

/// A program of a mix, and when it is there.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Member {
    pub(super) program: String,
    pub(super) from_s: u32,
    pub(super) until_s: Option<u32>,
}

/// How programs share the machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Setting {
    /// Each program starts as many threads as there are CPUs.
    Plain,
    /// Each program has its share of the CPUs from start to end, and a thread on each.
    Static,
    /// The installed daemon.
    Mapper { policy: String, teams: String },
}

/// What the guest gets to know.
#[derive(Deserialize, Serialize)]
pub(super) struct Plan {
    pub(super) seconds: u32,
    pub(super) programs: BTreeMap<String, Program>,
    pub(super) runs: Vec<PlannedRun>,
    /// Goes on when the machine does not pass its check.
    pub(super) unchecked: bool,
}

#[derive(Clone, Deserialize, Serialize)]
pub(super) struct PlannedRun {
    pub(super) mix: Mix,
    pub(super) setting: Setting,
}

impl Setting {
    pub(super) fn is_mapper(&self) -> bool {
        matches!(self, Self::Mapper { .. })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("plain Linux"),
            Self::Static => f.write_str("static fair share"),
            Self::Mapper { policy, teams } => write!(f, "{policy}, {teams} teams"),
        }
    }
}

impl Catalogue {
    pub(super) fn read() -> Result<Self> {
        let catalogue: Self = toml::from_str(MIXES).context("read mixes.toml")?;
        for mix in &catalogue.mixes {
            for member in &mix.programs {
                ensure!(
                    catalogue.programs.contains_key(&member.program),
                    "mixes.toml: mix {} has an unknown program \"{}\"",
                    mix.name,
                    member.program
                );
            }
        }
        Ok(catalogue)
    }

    /// The runs of the chosen mixes, or of all.
    pub(super) fn plan(
        self,
        chosen: &[String],
        settings: &[Setting],
        seconds: u32,
    ) -> Result<Plan> {
        let names: Vec<_> = self.mixes.iter().map(|mix| mix.name.as_str()).collect();
        for name in chosen {
            ensure!(
                names.contains(&name.as_str()),
                "--mix \"{name}\": there is no such mix; there are {}",
                names.join(", ")
            );
        }
        let is_chosen = |mix: &&Mix| chosen.is_empty() || chosen.contains(&mix.name);
        let runs = self.mixes.iter().filter(is_chosen).flat_map(|mix| {
            settings.iter().map(|setting| PlannedRun {
                mix: mix.clone(),
                setting: setting.clone(),
            })
        });
        let runs: Vec<_> = runs.collect();
        let latest = runs.iter().flat_map(|run| &run.mix.programs);
        let latest = latest.map(|member| member.from_s.max(member.until_s.unwrap_or(0)));
        let least = latest.max().unwrap_or(0) + 4;
        ensure!(
            seconds >= least,
            "--seconds {seconds}: these mixes take at least {least}"
        );
        Ok(Plan {
            seconds,
            programs: self.programs,
            runs,
            unchecked: false,
        })
    }
}

impl Mix {
    /// The programs under names of their own.
    pub(super) fn named(&self) -> Vec<String> {
        let name = |(at, member): (usize, &Member)| {
            let is_same = |other: &&Member| other.program == member.program;
            match self.programs[..at].iter().filter(is_same).count() {
                0 => member.program.clone(),
                before => format!("{}-{}", member.program, before + 1),
            }
        };
        self.programs.iter().enumerate().map(name).collect()
    }
}

impl FromStr for Member {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (program, times) = text.split_once('@').unwrap_or((text, "0"));
        let (from, until) = match times.split_once('-') {
            Some((from, until)) => (from, Some(until)),
            None => (times, None),
        };
        let number = |text: &str| text.parse::<u32>().ok();
        let wrong = || format!("\"{text}\" is not NAME, NAME@FROM or NAME@FROM-UNTIL");
        let from_s = number(from).ok_or_else(wrong)?;
        let until_s = until.map(|until| {
            number(until)
                .filter(|&until| until > from_s + 2)
                .ok_or_else(wrong)
        });
        Ok(Self {
            program: program.to_owned(),
            from_s,
            until_s: until_s.transpose()?,
        })
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        match (self.from_s, self.until_s) {
            (0, None) => Ok(()),
            (from, None) => write!(f, "@{from}"),
            (from, Some(until)) => write!(f, "@{from}-{until}"),
        }
    }
}

impl TryFrom<String> for Member {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Member> for String {
    fn from(member: Member) -> Self {
        member.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_a_mix_reads_as_it_is_written() {
        for text in ["a", "a@8", "a@0-12"] {
            assert_eq!(text.parse::<Member>().unwrap().to_string(), text);
        }
        for text in ["a@", "a@x", "a@8-", "a@8-8"] {
            let error = text.parse::<Member>().unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn the_mixes_fit_the_default_length_and_programs_of_a_mix_have_different_names() {
        let catalogue = Catalogue::read().unwrap();
        assert!(catalogue.mixes.len() >= 12);
        for mix in &catalogue.mixes {
            let mut names = mix.named();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), mix.programs.len(), "{}", mix.name);
        }
        let count = catalogue.mixes.len();
        let plan = catalogue
            .plan(&[], &[Setting::Plain, Setting::Static], 24)
            .unwrap();
        assert_eq!(plan.runs.len(), 2 * count);
        let unknown = Catalogue::read().unwrap().plan(&["x".to_owned()], &[], 24);
        assert!(unknown.err().unwrap().to_string().contains("three"));
    }
}
