//! The ways in which programs are made to share the machine, from `settings.toml`.

use std::collections::BTreeMap;
use std::num::NonZero;

use anyhow::ensure;
use mapper_model::TeamMode;
use serde::Deserialize;

use super::reader;

const FILE: &str = "settings.toml";
const TEXT: &str = include_str!("../../settings.toml");

/// The CPUs that a program is confined to.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cpus {
    /// All that the experiment has.
    #[default]
    All,
    /// CPUs of its own, an equal share of all, with a thread for each.
    Share,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Manager {
    #[default]
    Linux,
    Mapper,
    Dlb,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setting {
    /// Its name in files and on the command line.
    #[serde(skip)]
    pub(crate) key: String,
    title: String,
    pub(crate) meaning: String,
    #[serde(default)]
    pub(crate) cpus: Cpus,
    /// So many times the CPUs of the machine; else it, its runtime, or mapper decides.
    pub(crate) threads: Option<NonZero<usize>>,
    /// Waiting threads sleep immediately.
    #[serde(default)]
    pub(crate) passive: bool,
    #[serde(default)]
    pub(crate) manager: Manager,
    pub(crate) teams: Option<TeamMode>,
    /// Neither the program nor its runtime hears of its CPUs.
    #[serde(default)]
    pub(crate) no_runtime: bool,
    #[serde(default)]
    pub(crate) few_runs: bool,
    pub(crate) colour: usize,
    /// The allocation policy of the daemon, if it is not the default one.
    #[serde(skip)]
    pub(crate) policy: Option<String>,
}

impl Setting {
    pub(crate) fn find(key: &str) -> anyhow::Result<Self> {
        reader::entry(table(FILE, TEXT)?, "setting", key)
    }

    pub(crate) fn find_all(keys: &[impl AsRef<str>]) -> anyhow::Result<Vec<Self>> {
        keys.iter().map(|key| Self::find(key.as_ref())).collect()
    }

    /// Name for people, on a machine with so many CPUs.
    pub(crate) fn title(&self, cpus: usize) -> String {
        match (self.threads, &self.policy) {
            (Some(times), _) => format!("{}, n = {}", self.title, times.get() * cpus),
            (_, Some(policy)) => format!("{}, {policy}", self.title),
            _ => self.title.clone(),
        }
    }

    pub(crate) fn is_managed(&self) -> bool {
        self.manager == Manager::Mapper
    }

    /// This setting under a daemon with another allocation policy.
    pub(crate) fn with_policy(&self, policy: &str) -> Self {
        Self {
            key: format!("{}:{policy}", self.key),
            meaning: format!("{}; CPUs are divided by the policy {policy}", self.meaning),
            policy: Some(policy.to_owned()),
            colour: 8,
            ..self.clone()
        }
    }
}

fn table(file: &str, text: &str) -> anyhow::Result<BTreeMap<String, Setting>> {
    let mut settings: BTreeMap<String, Setting> = reader::read(file, text)?;
    for (key, setting) in &mut settings {
        setting.key.clone_from(key);
        let only_mapper = setting.teams.is_some() || setting.no_runtime;
        ensure!(
            !only_mapper || setting.manager == Manager::Mapper,
            "{file}: {key}: teams and no_runtime need manager = \"mapper\""
        );
        ensure!(
            setting.manager != Manager::Dlb || setting.cpus == Cpus::Share,
            "{file}: {key}.cpus: DLB lends CPUs of a share, so give \"share\""
        );
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_entry_is_refused_with_its_file_name_and_key() {
        let good = "[a]\ntitle = \"A\"\nmeaning = \"\"\ncolour = 1\n";
        table("s.toml", good).unwrap();
        for (bad, named) in [
            ("teams = \"virtual\"", "a: teams"),
            ("manager = \"dlb\"", "a.cpus"),
            ("manager = \"fate\"", "a.manager"),
            ("threads = 0", "a.threads"),
            ("threads = \"many\"", "a.threads"),
            ("speed = 3", "a.speed"),
        ] {
            let error = table("s.toml", &format!("{good}{bad}\n")).unwrap_err();
            let error = format!("{error:#}");
            let is_named = error.starts_with("s.toml") && error.contains(named);
            assert!(is_named, "{named}: {error}");
        }
    }

    #[test]
    fn a_number_of_threads_is_shown_in_the_title() {
        let title = |key: &str| Setting::find(key).unwrap().title(2);
        assert_eq!(title("plain-4n"), "plain Linux, n = 8");
        assert_eq!(title("plain"), "plain Linux");
        let by_policy = Setting::find("mapper").unwrap().with_policy("equal");
        assert_eq!(by_policy.key, "mapper:equal");
        assert_eq!(by_policy.title(2), "mapper, equal");
    }
}
