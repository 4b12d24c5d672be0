//! Reading the configuration file: its text becomes values that were checked.
//!
//! A file is accepted as a whole or not at all, so that an error in one line cannot leave a daemon with half
//! of what the operator meant. The error names the file, the line and the key.

use crate::config::access::Access;
use crate::config::file::ConfigFile;
use crate::config::program_rules::ProgramRules;
use crate::config::{former_places, ranges};
use anyhow::{Context, anyhow};
use std::path::Path;
use toml::de::{DeTable, DeValue};

impl ConfigFile {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path)
            .with_context(|| format!("read configuration {}", path.display()))?;
        let text = utf8(&bytes).with_context(|| format!("configuration {}", path.display()))?;
        Self::parse(text).with_context(|| format!("configuration {}", path.display()))
    }

    /// Parses a text and checks every value in it.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut file: Self = toml::from_str(text)?;
        former_places::resolve(&mut file)?;
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
            Some(bad) => {
                let bad = bad.with_given_key(&file.moved);
                Err(anyhow!("{}{bad}", place(text, &bad.key)))
            }
        }
    }

    /// The JSON schema of the file, as `deploy/mapper.schema.json` holds it.
    pub(crate) fn schema() -> anyhow::Result<String> {
        let mut schema = schemars::schema_for!(Self);
        // The defaults are documented in one place, the commented file.
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
    use std::path::PathBuf;

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
        let text = std::fs::read_to_string(deployed("mapper.toml")).unwrap();
        let words: BTreeSet<&str> = text
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .collect();
        let missing: Vec<_> = all.iter().filter(|key| !words.contains(&***key)).collect();
        assert!(missing.is_empty(), "not in deploy/mapper.toml: {missing:?}");
    }

    #[test]
    fn an_operator_sees_at_most_thirty_keys() {
        let schema: serde_json::Value =
            serde_json::from_str(&ConfigFile::schema().unwrap()).unwrap();
        let below = |value: &serde_json::Value| {
            let name = value["$ref"].as_str().or(value["items"]["$ref"].as_str());
            let table = name.and_then(|name| schema.pointer(name.trim_start_matches('#')));
            table.map_or(0, |table| {
                table["properties"]
                    .as_object()
                    .map_or(0, serde_json::Map::len)
            })
        };
        let shown: usize = schema["properties"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| *name != "expert")
            .map(|(_, value)| below(value).max(1))
            .sum();
        assert!((20..=30).contains(&shown), "{shown} keys");
    }

    #[test]
    fn a_key_at_its_former_place_works_and_the_new_place_is_named() {
        let file = ConfigFile::parse("mapping = \"linear\"\n[allocate]\nstep = 3\n").unwrap();
        assert_eq!(file.expert.allocate.step, Some(3));
        assert!(file.expert.mapping.is_some());
        let moved: Vec<String> = file.moved.iter().map(ToString::to_string).collect();
        assert!(
            moved[0].starts_with("mapping is now expert.mapping;"),
            "{moved:?}"
        );
        assert!(
            moved[1].starts_with("allocate is now expert.allocate;"),
            "{moved:?}"
        );
        let error =
            ConfigFile::parse("[map]\nswap_cores = 3\n[expert.placement]\nswap_cores = 4\n");
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("map and expert.placement are both given"),
            "{error}"
        );
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
