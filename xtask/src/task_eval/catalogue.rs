//! The machines and applications that an evaluation may name: the presets, and the user's own.

use anyhow::{Context as _, bail};
use mapper_sim::presets::{self, Apps, Machines};
use mapper_sim::{Machine, MachineSpec};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::Path;

/// Machines and applications by name.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Catalogue {
    pub(super) apps: Apps,
    pub(super) machines: Machines,
    /// Of the presets, whatever is added.
    digests: Digests,
}

impl Catalogue {
    /// The presets alone.
    pub(super) fn presets() -> anyhow::Result<Self> {
        let mut apps = presets::apps()?;
        apps.extend(presets::nucore_apps()?);
        Ok(Self {
            apps,
            machines: presets::machines()?,
            digests: Digests::of_presets()?,
        })
    }

    /// Adds the applications of a file, which is written like the presets.
    pub(super) fn add_apps(&mut self, path: &Path) -> anyhow::Result<()> {
        let place = || format!("read applications from {}", path.display());
        let text = fs::read_to_string(path).with_context(place)?;
        self.apps
            .extend(presets::read_apps(&text).with_context(place)?);
        Ok(())
    }

    /// Adds the machines of a file, which is written like the presets.
    pub(super) fn add_machines(&mut self, path: &Path) -> anyhow::Result<()> {
        let place = || format!("read machines from {}", path.display());
        let text = fs::read_to_string(path).with_context(place)?;
        for (name, spec) in presets::read_machines(&text).with_context(place)? {
            Machine::new(&name, spec.clone()).with_context(place)?;
            self.machines.insert(name, spec);
        }
        Ok(())
    }

    /// The description of a machine.
    pub(super) fn machine(&self, name: &str) -> anyhow::Result<&MachineSpec> {
        match self.machines.get(name) {
            Some(spec) => Ok(spec),
            None => {
                let known: Vec<&str> = self.machines.keys().map(String::as_str).collect();
                bail!("unknown machine {name:?}: give one of {}", known.join(", "))
            }
        }
    }

    /// Hashes of what the presets say.
    pub(super) const fn digests(&self) -> &Digests {
        &self.digests
    }
}

/// Hashes of what the presets say, for the protocol.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Digests {
    pub(super) apps_sha256: String,
    pub(super) machines_sha256: String,
    /// Of the programs of NuCore's Table 1; protocols before the fifth do without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) nucore_sha256: Option<String>,
}

impl Digests {
    /// Of the presets that were compiled in.
    fn of_presets() -> anyhow::Result<Self> {
        Ok(Self {
            apps_sha256: sha256(serde_json::to_string(&presets::apps()?)?.as_bytes()),
            machines_sha256: sha256(serde_json::to_string(&presets::machines()?)?.as_bytes()),
            nucore_sha256: Some(sha256(
                serde_json::to_string(&presets::nucore_apps()?)?.as_bytes(),
            )),
        })
    }

    /// The first of these that others do not have, and what they have instead. What these do not tell
    /// of may be anything.
    pub(super) fn differs_from(&self, found: &Self) -> Option<String> {
        let pairs = [
            (
                "apps_sha256",
                Some(&self.apps_sha256),
                Some(&found.apps_sha256),
            ),
            (
                "machines_sha256",
                Some(&self.machines_sha256),
                Some(&found.machines_sha256),
            ),
            (
                "nucore_sha256",
                self.nucore_sha256.as_ref(),
                found.nucore_sha256.as_ref(),
            ),
        ];
        pairs
            .into_iter()
            .find(|(_, told, found)| told.is_some() && told != found)
            .and_then(|(key, _, found)| Some(format!("{key} = {:?}", found?)))
    }
}

/// A hash in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(apps: &str, nucore: Option<&str>) -> Digests {
        Digests {
            apps_sha256: apps.into(),
            machines_sha256: "m".into(),
            nucore_sha256: nucore.map(Into::into),
        }
    }

    #[test]
    fn what_a_protocol_tells_of_has_to_be_there_and_the_first_that_is_not_is_told() {
        let found = told("a", Some("n"));
        assert_eq!(told("a", Some("n")).differs_from(&found), None);
        assert_eq!(told("a", None).differs_from(&found), None);
        let mend = |of: &Digests| of.differs_from(&found).unwrap();
        assert_eq!(mend(&told("b", Some("x"))), "apps_sha256 = \"a\"");
        assert_eq!(mend(&told("a", Some("x"))), "nucore_sha256 = \"n\"");
    }

    #[test]
    fn what_a_user_adds_changes_no_hash_of_the_presets() {
        let mut catalogue = Catalogue::presets().unwrap();
        let before = catalogue.digests().clone();
        let own = catalogue.apps["SGD"].clone();
        catalogue.apps.insert("mine".into(), own);
        assert_eq!(*catalogue.digests(), before);
    }
}
