//! The protocol of an evaluation: a versioned file with everything that a result depends on besides
//! the code. It is frozen before the first run against published results that may only validate, and
//! its hash stands in every report.

use super::catalogue::{Catalogue, Digests, sha256};
use super::draw::Drawn;
use super::policies::Pace;
use anyhow::{Context as _, bail};
use mapper_pipeline::OverheadBudget;
use mapper_report::table::texts;
use mapper_report::workspace;
use mapper_sim::{Constants, Teams};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The protocol that is used unless another is given: the newest.
pub(super) fn newest() -> PathBuf {
    workspace::root().join("lab/eval/data/protocol-v7.toml")
}

/// Hashes of the versions as they were released, in the form of `sha256sum`.
const RELEASED: &str = include_str!("../data/protocols.sha256");

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Protocol {
    pub(super) version: u32,
    pub(super) seeds: Vec<u64>,
    /// What programs are promised.
    pub(super) qos: f64,
    /// Time between decisions of core allocation.
    pub(super) interval_s: f64,
    /// Of policies that place single threads.
    pub(super) placement_interval_s: f64,
    /// Of policies that follow parallel sections.
    pub(super) section_interval_s: f64,
    /// The share of the interval that a decision of the daemon's may cost; policies as published have
    /// none. Without it nobody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) overhead_budget: Option<OverheadBudget>,
    /// How often the longest program runs.
    pub(super) longest_times: u32,
    /// Length of runs that compare speeds only.
    pub(super) speed_run_s: f64,
    pub(super) presets: Digests,
    pub(super) constants: Constants,
    #[serde(rename = "suite")]
    pub(super) suites: Vec<Suite>,
    #[serde(skip)]
    pub(super) sha256: String,
}

/// An evaluation of a paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) machine: String,
    /// What runs together.
    #[serde(default)]
    pub(super) mixes: Vec<String>,
    /// What else runs together, drawn by a seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) drawn: Option<Drawn>,
    /// Under which policies, the first one compared with the others.
    pub(super) policies: Vec<String>,
    #[serde(default)]
    pub(super) method: MethodName,
    /// Whether OpenMP programs follow their allocation, other than under plain Linux.
    #[serde(default)]
    pub(super) teams: Teams,
    /// What speeds are related to.
    #[serde(default)]
    pub(super) relative: Relative,
    /// How the speeds of a mix become one number.
    #[serde(default)]
    pub(super) mean: Mean,
    /// Mixes that the text of the paper does not name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) assumed: Vec<String>,
    /// Programs whose data are all on one node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) home: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) qos: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) interval_s: Option<f64>,
    /// Another threshold of instructions per cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ipc_high: Option<f64>,
    /// Another threshold of coherence events per cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sharing_high: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MethodName {
    /// Until the longest has run several times; the others start anew.
    #[default]
    Longest,
    /// All start together and run once.
    Once,
    Time,
}

/// What speeds are related to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Relative {
    /// The run alone on the whole machine under plain Linux.
    #[default]
    Alone,
    Fair,
    BestStatic,
    OneCore,
}

/// How the speeds of a mix become one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mean {
    #[default]
    Geometric,
    Harmonic,
    Sum,
}

impl Protocol {
    /// Reads the protocol, with the presets that it was written for.
    pub(super) fn read(path: &Path) -> anyhow::Result<(Self, Catalogue)> {
        let file = format!("the protocol {}", path.display());
        let text = fs::read_to_string(path).with_context(|| format!("read {file}"))?;
        let mut protocol: Self =
            toml::from_str(&text).with_context(|| format!("understand {file}"))?;
        protocol.sha256 = sha256(text.as_bytes());
        let checked = protocol.constants.check();
        checked.with_context(|| format!("[constants] of {file}"))?;
        for suite in &mut protocol.suites {
            if let Some(drawn) = &suite.drawn {
                let mixes = drawn.mixes();
                let mixes = mixes.with_context(|| format!("suite {}", suite.name))?;
                suite.mixes.extend(mixes);
            }
        }
        let catalogue = Catalogue::presets()?;
        if let Some(found) = protocol.presets.differs_from(catalogue.digests()) {
            bail!(
                "the presets of lab/sim are not those of {}: make a new version of the protocol \
                 with {found}",
                path.display(),
            );
        }
        Ok((protocol, catalogue))
    }

    /// Time between decisions of policies of this pace, unless they decide once.
    pub(super) const fn interval_of_s(&self, pace: Pace) -> Option<f64> {
        match pace {
            Pace::Once => None,
            Pace::Placement => Some(self.placement_interval_s),
            Pace::Sections => Some(self.section_interval_s),
            Pace::Allocation => Some(self.interval_s),
        }
    }

    /// How the file departs from the version that it calls itself, if it is not what was released as that.
    pub(super) fn departs(&self) -> Option<String> {
        let name = format!("protocol-v{}.toml", self.version);
        let mut released = RELEASED.lines().filter_map(|line| line.split_once("  "));
        match released.find(|(_, of)| *of == name) {
            Some((sha256, _)) if sha256 == self.sha256 => None,
            Some(_) => Some(format!("changed from version {}", self.version)),
            None => Some(format!(
                "it calls itself version {}, which was not released",
                self.version
            )),
        }
    }

    /// What deciding may cost this project's own policies, if anything is said of it.
    pub(super) fn budget_shown(&self) -> Option<String> {
        let percent = 100.0 * self.overhead_budget?.share();
        Some(format!(
            "mapper and mapper-next decide less often where a decision costs more than {percent} % of the \
             interval"
        ))
    }

    pub(super) fn suites(&self, names: &[String]) -> anyhow::Result<Vec<&Suite>> {
        if names.iter().any(|name| name == "all") {
            return Ok(self.suites.iter().collect());
        }
        let mut found: Vec<&Suite> = Vec::new();
        for name in names {
            let begins = format!("{name}-");
            let meant = |s: &&Suite| s.name == *name || s.name.starts_with(&begins);
            if !self.suites.iter().any(|suite| meant(&suite)) {
                let known = texts(self.suites.iter().map(|suite| &suite.name)).join(", ");
                bail!(
                    "unknown suite {name:?}: give all, validity, how a name begins (mapper, sam, \
                     nupoco, cooperative, nucore, next), or one of {known}"
                );
            }
            // A suite that several names mean is run and counted once.
            for suite in self.suites.iter().filter(meant) {
                if !found.contains(&suite) {
                    found.push(suite);
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::protocol;
    use super::*;

    #[test]
    fn the_current_version_is_what_was_released_as_it_and_claims_no_mixes_to_be_unseen() {
        for suite in &protocol().suites {
            assert!(!suite.title.contains("nobody"), "{}", suite.title);
        }
        assert_eq!(
            protocol().departs(),
            None,
            "a version is not changed once it has been run; a new one is entered by `sha256sum protocol-v*.toml > \
             protocols.sha256` in lab/eval/data"
        );
    }

    /// What is read from the newest file after a change.
    fn changed(change: impl Fn(String) -> String) -> anyhow::Result<Protocol> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = fs::read_to_string(newest()).unwrap();
        fs::write(file.path(), change(text)).unwrap();
        Ok(Protocol::read(file.path())?.0)
    }

    #[test]
    fn a_file_that_differs_from_the_version_it_names_is_reported_and_other_presets_refused() {
        let departs = |change: &dyn Fn(String) -> String| changed(change).unwrap().departs();
        assert_eq!(departs(&|text| text), None, "a copy");
        let version = protocol().version;
        let changed_from = departs(&|text| text + "\n# by me\n").unwrap();
        assert_eq!(changed_from, format!("changed from version {version}"));
        let own = format!("version = {version}\n");
        let own = departs(&|text| text.replace(&own, "version = 99\n")).unwrap();
        assert!(own.contains("version 99, which was not released"), "{own}");
        // Presets that no version of ours has are refused with the hash to write.
        let hash = &protocol().presets.machines_sha256;
        let refused = changed(|text| text.replace(hash, "0123")).unwrap_err();
        let shown = refused.to_string();
        let fix = format!("machines_sha256 = \"{hash}\"");
        assert!(shown.contains(&fix), "{shown}");
        assert!(shown.contains("not those of /"), "{shown}");
    }

    fn meant(names: &[&str]) -> anyhow::Result<Vec<String>> {
        let suites = protocol().suites(&texts(names))?;
        Ok(suites.into_iter().map(|suite| suite.name.clone()).collect())
    }

    #[test]
    fn a_suite_is_meant_by_its_name_or_by_how_that_begins_and_counts_once() {
        assert_eq!(meant(&["sam-fig5"]).unwrap(), ["sam-fig5"]);
        let sam = meant(&["sam"]).unwrap();
        assert!(sam.len() > 4 && sam.iter().all(|name| name.starts_with("sam-")));
        let again = meant(&["sam-fig5", "sam", "sam-fig5"]).unwrap();
        assert_eq!(again.len(), sam.len());
        let all = meant(&["all", "sam"]).unwrap();
        assert_eq!(all.len(), protocol().suites.len());
        let half_a_word = meant(&["sa"]).unwrap_err().to_string();
        assert!(half_a_word.contains("\"sa\"") && half_a_word.contains("sam-fig5"));
    }
}
