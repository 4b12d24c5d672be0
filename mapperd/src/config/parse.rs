//! Reading and checking the configuration file.
//!
//! A file is accepted as a whole or not at all, so that an error cannot leave half of what the operator meant in
//! force. The error names the file, the line and the key.

use crate::config::access::Access;
use crate::config::adopt_rules::AdoptRules;
use crate::config::file::ConfigFile;
use crate::config::program_rules::ProgramRules;
use crate::config::{former_places, hints, ranges};
use anyhow::{Context, anyhow, bail};
use std::path::Path;
use toml::de::{DeTable, DeValue};

impl ConfigFile {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let named = || format!("configuration {}", path.display());
        let bytes = std::fs::read(path).with_context(|| format!("read {}", named()))?;
        let text = utf8(&bytes).with_context(named)?;
        Self::parse(text).with_context(named)
    }

    /// Parses a text and checks every value in it.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut file: Self =
            toml::from_str(text).map_err(|error| match hints::hint(text, &error) {
                Some(hint) => anyhow!("{error}hint: {hint}"),
                None => anyhow!("{}", error.to_string().trim_end()),
            })?;
        former_places::resolve(&mut file)?;
        if let Some(bad) = ranges::first_outside(&file) {
            let bad = bad.with_given_key(&file.moved);
            bail!("{}{bad}", place(text, &bad.key));
        }
        let rules = ranges::check_grants(&file.access)
            .and_then(|()| Access::resolve(&file.access))
            .and_then(|_| ProgramRules::resolve("", &file.program))
            .and_then(|_| AdoptRules::resolve(&file.adopt));
        if let Err(bad) = rules {
            bail!("{}{bad}", place_of_rule(text, bad.list, bad.number));
        }
        Ok(file)
    }

    /// The JSON schema of the file, as `deploy/mapper.schema.json` holds it.
    pub(crate) fn schema() -> anyhow::Result<String> {
        let mut schema = schemars::schema_for!(Self);
        // Defaults are documented in the commented file alone.
        without_default(&mut schema);
        Ok(serde_json::to_string_pretty(&schema).context("write the schema")? + "\n")
    }
}

fn without_default(schema: &mut schemars::Schema) {
    schema.remove("default");
    schemars::transform::transform_subschemas(&mut without_default, schema);
}

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
    let mut keys = document.get_ref().iter();
    let list = keys.find(|(name, _)| name.get_ref() == key);
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
    use crate::config::args::Args;
    use crate::config::settings::Settings;
    use crate::fake::assert_says;
    use clap::Parser;
    use mapper_pipeline::PipelineConfig;
    use serde_json::Value;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    fn deployed(name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
        folder.join(name)
    }

    fn shipped() -> String {
        std::fs::read_to_string(deployed("mapper.toml")).unwrap()
    }

    fn settings(file: ConfigFile) -> Settings {
        Settings::merge(Args::parse_from(["mapperd"]), file, "").unwrap()
    }

    fn schema() -> Value {
        serde_json::from_str(&ConfigFile::schema().unwrap()).unwrap()
    }

    /// The shipped file with every `#key = value` in force.
    fn with_every_default() -> String {
        let in_force = |line: &str| match line.strip_prefix('#') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => rest.to_owned(),
            _ => line.to_owned(),
        };
        shipped()
            .lines()
            .map(|line| in_force(line) + "\n")
            .collect()
    }

    #[test]
    fn a_file_that_is_not_utf8_is_named_with_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mapper.toml");
        std::fs::write(&path, b"# one\ninterval = \"1s\"\n# caf\xe9\n").unwrap();
        let error = ConfigFile::read(&path).unwrap_err();
        assert_says(&error, &["mapper.toml: line 3: byte 0xe9"]);
    }

    #[test]
    fn the_shipped_file_changes_nothing() {
        let parsed: toml::Table = toml::from_str(&shipped()).unwrap();
        let set: Vec<_> = parsed.values().filter(|value| !value.is_table()).collect();
        assert!(set.is_empty(), "{set:?}");
        let shipped = settings(ConfigFile::parse(&shipped()).unwrap());
        assert_eq!(shipped.pipeline, PipelineConfig::default());
    }

    #[test]
    fn the_shipped_file_documents_the_defaults() {
        let file = settings(ConfigFile::parse(&with_every_default()).unwrap());
        let default = settings(ConfigFile::default());
        assert_eq!(file.pipeline, default.pipeline);
        assert_eq!(file.interval, default.interval);
        assert_eq!(file.overhead_budget, default.overhead_budget);
        assert_eq!(file.enforcer, default.enforcer);
        assert_eq!(file.counters, default.counters);
        assert_eq!(file.socket, default.socket);
        assert_eq!(file.reserve, default.reserve);
    }

    #[test]
    fn the_shipped_file_names_every_key() {
        fn keys(schema: &Value, root: &Value, found: &mut BTreeSet<String>) {
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
        let schema = schema();
        let mut all = BTreeSet::new();
        keys(&schema, &schema, &mut all);
        let text = shipped();
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let words: BTreeSet<&str> = words.collect();
        let missing: Vec<_> = all.iter().filter(|key| !words.contains(&***key)).collect();
        assert!(missing.is_empty(), "not in deploy/mapper.toml: {missing:?}");
    }

    #[test]
    fn an_operator_who_adopts_nothing_sees_at_most_thirty_keys() {
        let schema = schema();
        let below = |value: &Value| {
            let name = value["$ref"].as_str().or(value["items"]["$ref"].as_str());
            let table = name.and_then(|name| schema.pointer(name.trim_start_matches('#')));
            let keys = table.and_then(|table| table["properties"].as_object());
            keys.map_or(0, serde_json::Map::len)
        };
        let keys = schema["properties"].as_object().unwrap().iter();
        let keys = keys.filter(|(name, _)| !["expert", "adopt"].contains(&name.as_str()));
        let shown: usize = keys.map(|(_, value)| below(value).max(1)).sum();
        assert!((20..=30).contains(&shown), "{shown} keys");
    }

    #[test]
    fn a_key_at_its_former_place_works_and_the_new_place_is_named() {
        let file = ConfigFile::parse("mapping = \"linear\"\n[allocate]\nstep = 3\n").unwrap();
        assert_eq!(file.expert.allocate.step, Some(3));
        assert!(file.expert.mapping.is_some());
        let moved: Vec<String> = file.moved.iter().map(ToString::to_string).collect();
        assert!(moved[0].starts_with("mapping is now expert.mapping;"));
        assert!(moved[1].starts_with("allocate is now expert.allocate;"));
        let both = "[map]\nswap_cores = 3\n[expert.placement]\nswap_cores = 4\n";
        let error = ConfigFile::parse(both).unwrap_err();
        assert_says(&error, &["map and expert.placement are both given"]);
    }

    #[test]
    fn the_published_schema_is_current() {
        let path = deployed("mapper.schema.json");
        let current = ConfigFile::schema().unwrap();
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(&path, &current).unwrap();
        }
        // Descriptions are the comments of several crates; only what is accepted has to be current.
        fn strip(value: &mut Value) {
            if let Some(object) = value.as_object_mut() {
                object.retain(|key, value| key != "description" || !value.is_string());
                object.values_mut().for_each(strip);
            } else if let Some(list) = value.as_array_mut() {
                list.iter_mut().for_each(strip);
            }
        }
        let accepted = |schema: &str| {
            let mut value: Value = serde_json::from_str(schema).unwrap_or_default();
            strip(&mut value);
            value
        };
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            accepted(&published) == accepted(&current),
            "deploy/mapper.schema.json is not current: UPDATE_SCHEMA=1 cargo test -p mapperd schema"
        );
    }
}
