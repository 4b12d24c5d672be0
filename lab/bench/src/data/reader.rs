//! Reads a TOML file into a type; an error names the file and the key.

use anyhow::anyhow;
use serde::de::DeserializeOwned;

/// The contents of the file called `name`.
pub(crate) fn read<T: DeserializeOwned>(name: &str, text: &str) -> anyhow::Result<T> {
    let deserializer =
        toml::Deserializer::parse(text).map_err(|error| anyhow!("{name}: {error}"))?;
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let (path, reason) = (error.path().to_string(), error.inner().message().to_owned());
        anyhow!("{name}: {path}: {reason}")
    })
}
