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
}

impl Catalogue {
    /// The presets alone.
    pub(super) fn presets() -> anyhow::Result<Self> {
        Ok(Self {
            apps: presets::apps()?,
            machines: presets::machines()?,
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

    /// Hashes of what the presets say, for the protocol: of applications and of machines.
    pub(super) fn digests(&self) -> anyhow::Result<Digests> {
        Ok(Digests {
            apps_sha256: sha256(serde_json::to_string(&self.apps)?.as_bytes()),
            machines_sha256: sha256(serde_json::to_string(&self.machines)?.as_bytes()),
        })
    }
}

/// Hashes of a catalogue.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Digests {
    pub(super) apps_sha256: String,
    pub(super) machines_sha256: String,
}

/// A hash in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
