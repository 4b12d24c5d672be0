//! The configuration file: what may stand in it, and what is wrong with one.
//!
//! One TOML file. Whatever is not given there has a default; `deploy/mapper.toml` lists every key
//! with its default and its meaning, and `deploy/mapper.schema.json` is the same as a JSON schema,
//! for editors. Both are held to this code by tests.
//!
//! A file is taken as a whole or not at all, so that a typing error in one line cannot leave a
//! daemon with half of what the operator meant. The error names the file, the line and the key.

use crate::config::access::{Access, AccessRule};
use crate::config::interval::Interval;
use crate::config::program_rules::{ProgramRule, ProgramRules};
use crate::config::ranges;
use crate::config::types::EnforcerChoice;
use anyhow::{Context, anyhow};
use mapper_allocate::AllocationConfig;
use mapper_characterise::MonitorConfig;
use mapper_host::counters::Choice as CounterChoice;
use mapper_model::{CpuSet, MachineProfile};
use mapper_pipeline::OverheadBudget;
use mapper_placement::MappingConfig;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The configuration of mapperd.
///
/// What the command line says comes before what stands here.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "mapper.toml")]
pub(crate) struct ConfigFile {
    /// Time between two decisions, from 20ms to 10s, such as "1s" or "250ms".
    #[schemars(with = "Option<String>")]
    pub(crate) interval: Option<Interval>,
    /// Share of the interval that observing, deciding and enforcing may take, from 0.001 to 0.5; beyond, the
    /// interval is stretched. 0: whatever it takes.
    #[schemars(with = "Option<f64>")]
    pub(crate) overhead_budget: Option<OverheadBudget>,
    /// Policy that decides how many CPUs each application gets; `mapperctl policies` lists them.
    #[schemars(with = "Option<String>")]
    pub(crate) allocation: Option<Parsed<AllocationName>>,
    /// Policy that decides which CPUs; `mapperctl policies` lists them.
    #[schemars(with = "Option<String>")]
    pub(crate) mapping: Option<Parsed<MappingName>>,
    /// How CPUs are confined: "auto", "cgroup" or "affinity".
    #[schemars(with = "Option<String>")]
    pub(crate) enforcer: Option<EnforcerChoice>,
    /// Make control groups in this directory.
    pub(crate) cgroup_root: Option<PathBuf>,
    /// What is measured: "auto", "hardware" or "software".
    #[schemars(with = "Option<String>")]
    pub(crate) counters: Option<Parsed<CounterChoice>>,
    /// The control socket.
    pub(crate) socket: Option<PathBuf>,
    /// CPUs that are never given out, such as "0-1".
    #[schemars(with = "Option<String>")]
    pub(crate) reserve: Option<CpuSet>,
    /// Write every observation and plan to this file, one JSON line each.
    pub(crate) record: Option<PathBuf>,
    /// Where is kept what outlives a restart of the daemon.
    pub(crate) state_dir: Option<PathBuf>,
    /// Who may do what: the first rule that fits a user decides.
    pub(crate) access: Vec<AccessRule>,
    /// What is settled for programs whose users leave it open: the first rule that fits decides.
    pub(crate) program: Vec<ProgramRule>,
    /// Where metrics are served.
    pub(crate) metrics: MetricsConfig,
    /// How readings are judged.
    pub(crate) monitor: MonitorConfig,
    /// Settings of the allocation policy.
    pub(crate) allocate: AllocationConfig,
    /// Settings of the mapping policy.
    pub(crate) map: MappingConfig,
    /// Thresholds of the machine.
    pub(crate) machine: MachineProfile,
}

/// Where metrics are served, in the format of Prometheus, at `/metrics` over HTTP.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MetricsConfig {
    /// A Unix socket that only the user of the daemon may connect to.
    pub(crate) socket: Option<PathBuf>,
    /// An address on the loopback device, such as "127.0.0.1:9455". Every user of the machine can
    /// read there.
    #[serde(deserialize_with = "loopback")]
    #[schemars(with = "Option<String>")]
    pub(crate) tcp: Option<SocketAddr>,
}

fn loopback<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(Some(address)),
        _ => Err(serde::de::Error::custom(format!(
            "metrics address {text:?}: give an address and port on the loopback device, such as \
             127.0.0.1:9455"
        ))),
    }
}

/// A value that is written in the file as on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Parsed<T>(pub(crate) T);

impl<'de, T> Deserialize<'de> for Parsed<T>
where
    T: std::str::FromStr<Err: fmt::Display>,
{
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// The name of an allocation policy that exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AllocationName(pub(crate) String);

impl std::str::FromStr for AllocationName {
    type Err = mapper_allocate::UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        mapper_allocate::find(name).map(|_| Self(name.to_owned()))
    }
}

/// The name of a mapping policy that exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MappingName(pub(crate) String);

impl std::str::FromStr for MappingName {
    type Err = mapper_placement::UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        mapper_placement::find(name).map(|_| Self(name.to_owned()))
    }
}

impl ConfigFile {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path)
            .with_context(|| format!("read configuration {}", path.display()))?;
        let text = utf8(&bytes).with_context(|| format!("configuration {}", path.display()))?;
        Self::parse(text).with_context(|| format!("configuration {}", path.display()))
    }

    /// Takes a text apart and looks at every value in it.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let file: Self = toml::from_str(text)?;
        match ranges::first_outside(&file) {
            None => {
                if let Some(bad) = ranges::first_bad_rule(&file.access) {
                    let line = place_of_rule(text, "access", bad.number);
                    return Err(anyhow!("{line}{bad}"));
                }
                if let Err(error) = Access::resolve(&file.access) {
                    let line = place_of_rule(text, "access", error.number());
                    return Err(anyhow!("{line}access {error}"));
                }
                if let Err(error) = ProgramRules::resolve("", &file.program) {
                    let line = place_of_rule(text, "program", error.number());
                    return Err(anyhow!("{line}{error}"));
                }
                Ok(file)
            }
            Some(bad) => Err(anyhow!("{}{bad}", place(text, bad.key))),
        }
    }

    /// The JSON schema of the file, as `deploy/mapper.schema.json` holds it.
    pub(crate) fn schema() -> anyhow::Result<String> {
        let mut schema = schemars::schema_for!(Self);
        // The defaults are told in one place, the commented file.
        without_default(&mut schema);
        Ok(serde_json::to_string_pretty(&schema).context("write the schema")? + "\n")
    }
}

fn without_default(schema: &mut schemars::Schema) {
    schema.remove("default");
    schemars::transform::transform_subschemas(&mut without_default, schema);
}

/// The text of a file, or the line in which it is none.
fn utf8(bytes: &[u8]) -> anyhow::Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let (before, after) = bytes.split_at(error.valid_up_to());
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let byte = after.first().copied().unwrap_or_default();
        anyhow!("line {line}: byte {byte:#04x} is not UTF-8; save the file as UTF-8")
    })
}

/// `line 3: `, where the file sets a key.
fn place(text: &str, key: &[&str]) -> String {
    let Ok(document) = DeTable::parse(text) else {
        return String::new();
    };
    let mut table = document.get_ref();
    let mut offset = None;
    for part in key {
        let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref() == part) else {
            break;
        };
        offset = Some(name.span().start);
        let DeValue::Table(below) = value.get_ref() else {
            break;
        };
        table = below;
    }
    line(text, offset)
}

/// `line 3: `, where rule `number`, counted from 1, of the list `key` begins.
fn place_of_rule(text: &str, key: &str, number: usize) -> String {
    let Ok(document) = DeTable::parse(text) else {
        return String::new();
    };
    let list = document
        .get_ref()
        .iter()
        .find(|(name, _)| name.get_ref() == key);
    let offset = list.and_then(|(_, value)| match value.get_ref() {
        DeValue::Array(rules) => Some(rules.get(number.checked_sub(1)?)?.span().start),
        _ => None,
    });
    line(text, offset)
}

fn line(text: &str, offset: Option<usize>) -> String {
    let before = offset.and_then(|offset| text.get(..offset));
    before.map_or_else(String::new, |before| {
        format!("line {}: ", before.matches('\n').count() + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::Settings;
    use clap::Parser;
    use mapper_pipeline::PipelineConfig;
    use std::collections::BTreeSet;

    fn deployed(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../deploy")
            .join(name)
    }

    /// The shipped file with every `#key = value` taken in.
    fn with_every_default() -> String {
        let text = std::fs::read_to_string(deployed("mapper.toml")).unwrap();
        let is_setting = |line: &str| {
            line.strip_prefix('#')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
        };
        text.lines()
            .map(|line| if is_setting(line) { &line[1..] } else { line })
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn a_file_that_is_not_utf8_is_named_with_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mapper.toml");
        std::fs::write(&path, b"# one\ninterval = \"1s\"\n# caf\xe9\n").unwrap();
        let error = format!("{:#}", ConfigFile::read(&path).unwrap_err());
        assert!(error.contains("mapper.toml: line 3: byte 0xe9"), "{error}");
    }

    #[test]
    fn the_shipped_file_changes_nothing() {
        let text = std::fs::read_to_string(deployed("mapper.toml")).unwrap();
        let parsed: toml::Table = toml::from_str(&text).unwrap();
        let set: Vec<_> = parsed.values().filter(|value| !value.is_table()).collect();
        assert!(set.is_empty(), "{set:?}");
        let args = crate::config::args::Args::parse_from(["mapperd"]);
        let shipped = Settings::merge(args, ConfigFile::parse(&text).unwrap(), "").unwrap();
        assert_eq!(shipped.pipeline, PipelineConfig::default());
    }

    #[test]
    fn the_shipped_file_tells_the_defaults() {
        let file = ConfigFile::parse(&with_every_default()).unwrap();
        let args = || crate::config::args::Args::parse_from(["mapperd"]);
        let told = Settings::merge(args(), file, "").unwrap();
        let default = Settings::merge(args(), ConfigFile::default(), "").unwrap();
        assert_eq!(told.pipeline, default.pipeline);
        assert_eq!(told.interval, default.interval);
        assert_eq!(told.overhead_budget, default.overhead_budget);
        assert_eq!(told.enforcer, default.enforcer);
        assert_eq!(told.counters, default.counters);
        assert_eq!(told.socket, default.socket);
        assert_eq!(told.reserve, default.reserve);
    }

    #[test]
    fn the_shipped_file_names_every_key() {
        fn keys(
            schema: &serde_json::Value,
            root: &serde_json::Value,
            found: &mut BTreeSet<String>,
        ) {
            if let Some(name) = schema["$ref"].as_str() {
                let place = name.trim_start_matches('#');
                return keys(root.pointer(place).unwrap(), root, found);
            }
            for (name, below) in schema["properties"].as_object().into_iter().flatten() {
                found.insert(name.clone());
                keys(below, root, found);
                keys(&below["items"], root, found);
            }
        }
        let schema: serde_json::Value =
            serde_json::from_str(&ConfigFile::schema().unwrap()).unwrap();
        let mut all = BTreeSet::new();
        keys(&schema, &schema, &mut all);
        assert!(all.len() > 30, "{all:?}");
        let text = std::fs::read_to_string(deployed("mapper.toml")).unwrap();
        let words: BTreeSet<&str> = text
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .collect();
        let missing: Vec<_> = all.iter().filter(|key| !words.contains(&***key)).collect();
        assert!(missing.is_empty(), "not in deploy/mapper.toml: {missing:?}");
    }

    #[test]
    fn the_published_schema_is_current() {
        let path = deployed("mapper.schema.json");
        let current = ConfigFile::schema().unwrap();
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(&path, &current).unwrap();
        }
        // Descriptions are the comments of several crates; only what is accepted has to be current.
        fn accepted(schema: &str) -> serde_json::Value {
            fn strip(value: &mut serde_json::Value) {
                if let Some(object) = value.as_object_mut() {
                    if object
                        .get("description")
                        .is_some_and(serde_json::Value::is_string)
                    {
                        object.remove("description");
                    }
                    object.values_mut().for_each(strip);
                } else if let Some(list) = value.as_array_mut() {
                    list.iter_mut().for_each(strip);
                }
            }
            let mut value = serde_json::from_str(schema).unwrap_or_default();
            strip(&mut value);
            value
        }
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            accepted(&published) == accepted(&current),
            "deploy/mapper.schema.json is not current: UPDATE_SCHEMA=1 cargo test -p mapperd schema"
        );
    }
}
