//! The machines and applications that an evaluation may name: the presets, and the user's own.

use anyhow::{Context as _, bail};
use mapper_report::table::texts;
use mapper_sim::presets::{
    APPS, Apps, MACHINES, Machines, NUCORE_APPS, PresetError, read_apps, read_machines,
};
use mapper_sim::{AppModel, Machine, MachineSpec};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Catalogue {
    pub(super) apps: Apps,
    pub(super) machines: Machines,
    /// Of the presets, whatever is added.
    digests: Digests,
}

impl Catalogue {
    pub(super) fn presets() -> anyhow::Result<Self> {
        let mut apps = read_apps(APPS)?;
        apps.extend(read_apps(NUCORE_APPS)?);
        Ok(Self {
            apps,
            machines: read_machines(MACHINES)?,
            digests: Digests::of_presets()?,
        })
    }

    pub(super) fn add_apps(&mut self, path: &Path) -> anyhow::Result<()> {
        let check = |name: &String, _: &AppModel| check_name(name);
        let own = own(path, "applications", "apps", read_apps, check)?;
        self.apps.extend(own);
        Ok(())
    }

    pub(super) fn add_machines(&mut self, path: &Path) -> anyhow::Result<()> {
        let check = |name: &String, spec: &MachineSpec| {
            Machine::new(name, spec.clone())?;
            Ok(())
        };
        let own = own(path, "machines", "machines", read_machines, check)?;
        self.machines.extend(own);
        Ok(())
    }

    pub(super) fn machine(&self, name: &str) -> anyhow::Result<&MachineSpec> {
        match self.machines.get(name) {
            Some(spec) => Ok(spec),
            None => {
                let known = texts(self.machines.keys()).join(", ");
                bail!("unknown machine {name:?}: give one of {known}")
            }
        }
    }

    pub(super) const fn digests(&self) -> &Digests {
        &self.digests
    }
}

/// Refuses a name that no mix and no `--set` could tell from something else.
fn check_name(name: &str) -> anyhow::Result<()> {
    let parts_mixes = |c: char| c == ',' || c == '@' || c == '.' || c.is_whitespace();
    let why = if name.is_empty() || name.contains(parts_mixes) {
        "named in a mix: give it a name without commas, dots, @ and spaces"
    } else if name.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        "distinguished from a number of threads: give it a name that begins with a letter"
    } else if ["app", "machine"].contains(&name) {
        "distinguished from what --set calls so: give it another name"
    } else {
        return Ok(());
    };
    bail!("application {name:?} cannot be {why}")
}

/// What a file of the user's has, which is written like a file of presets.
fn own<T>(
    path: &Path,
    what: &str,
    presets: &str,
    read: fn(&str) -> Result<BTreeMap<String, T>, PresetError>,
    check: impl Fn(&String, &T) -> anyhow::Result<()>,
) -> anyhow::Result<BTreeMap<String, T>> {
    let shown = path.display();
    let form = format!("which is to be written like lab/sim/presets/{presets}.toml");
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("--{presets}: read {shown}: give another file"))?;
    let found = read(&text).with_context(|| format!("read {what} from {shown}, {form}"))?;
    if found.is_empty() {
        bail!("read {what} from {shown}, {form}: there are none");
    }
    let mut entries = found.iter();
    let checked = entries.try_for_each(|(name, entry)| check(name, entry));
    checked.with_context(|| format!("read {what} from {shown}"))?;
    Ok(found)
}

/// Hashes of what the presets say, for the protocol.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Digests {
    pub(super) apps_sha256: String,
    pub(super) machines_sha256: String,
    /// Of the programs of NuCore's Table 1.
    pub(super) nucore_sha256: String,
}

impl Digests {
    fn of_presets() -> anyhow::Result<Self> {
        Ok(Self {
            apps_sha256: sha256(&serde_json::to_vec(&read_apps(APPS)?)?),
            machines_sha256: sha256(&serde_json::to_vec(&read_machines(MACHINES)?)?),
            nucore_sha256: sha256(&serde_json::to_vec(&read_apps(NUCORE_APPS)?)?),
        })
    }

    /// The first of these that others do not have, and what they have instead.
    pub(super) fn differs_from(&self, found: &Self) -> Option<String> {
        let keys = [
            ("apps_sha256", &self.apps_sha256, &found.apps_sha256),
            (
                "machines_sha256",
                &self.machines_sha256,
                &found.machines_sha256,
            ),
            ("nucore_sha256", &self.nucore_sha256, &found.nucore_sha256),
        ];
        let (key, _, found) = keys.into_iter().find(|(_, own, found)| own != found)?;
        Some(format!("{key} = {found:?}"))
    }
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hash_that_differs_is_named_with_the_one_to_write() {
        let digests = |apps: &str, nucore: &str| Digests {
            apps_sha256: apps.into(),
            machines_sha256: "m".into(),
            nucore_sha256: nucore.into(),
        };
        let found = digests("a", "n");
        assert_eq!(found.differs_from(&found), None);
        let fix = |of: &Digests| of.differs_from(&found).unwrap();
        assert_eq!(fix(&digests("b", "x")), "apps_sha256 = \"a\"");
        assert_eq!(fix(&digests("a", "x")), "nucore_sha256 = \"n\"");
    }

    type Add = fn(&mut Catalogue, &Path) -> anyhow::Result<()>;

    fn with(text: &str, add: Add) -> anyhow::Result<Catalogue> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let mut catalogue = Catalogue::presets().unwrap();
        add(&mut catalogue, file.path())?;
        Ok(catalogue)
    }

    #[test]
    fn an_error_in_a_file_is_reported_once_with_its_place_and_the_form() {
        let presets = include_str!("../../sim/presets/machines.toml");
        let none = presets.replacen("sockets = 4", "sockets = 0", 1);
        let (apps, machines): (Add, Add) = (Catalogue::add_apps, Catalogue::add_machines);
        let app: &[&str] = &["line 1", "missing field", "lab/sim/presets/apps.toml"];
        let cases = [
            ("[X]\nipc0 = 1.0\n", apps, app),
            (
                "[M]\nsockets = x\n",
                machines,
                &["line 2", "lab/sim/presets/machines.toml"],
            ),
            (&none, machines, &["\"hsw80\": sockets is 0"]),
            ("", apps, &["there are none"]),
            ("# later", machines, &["there are none"]),
        ];
        for (text, add, parts) in cases {
            let shown = format!("{:#}", with(text, add).unwrap_err());
            for part in parts {
                assert_eq!(shown.matches(part).count(), 1, "{part}: {shown}");
            }
        }
    }

    #[test]
    fn a_program_that_could_not_be_named_is_refused_and_no_preset_is_one() {
        let presets = include_str!("../../sim/presets/apps.toml");
        let entry = presets.split("\n[BSGD]").next().unwrap();
        for name in ["a b", "a,b", "a@1", "a.2", "2a", "-a", "app", "machine", ""] {
            let own = entry.replacen("[SGD]", &format!("[{name:?}]"), 1);
            let shown = format!("{:#}", with(&own, Catalogue::add_apps).unwrap_err());
            let refused = format!("application {name:?} cannot be");
            assert!(shown.contains(&refused), "{shown}");
        }
        for name in Catalogue::presets().unwrap().apps.keys() {
            check_name(name).unwrap();
        }
    }

    #[test]
    fn a_program_of_the_users_takes_the_place_of_a_preset_of_its_name_and_others_and_hashes_stay() {
        let presets = include_str!("../../sim/presets/apps.toml");
        let own = presets.replacen("ipc0 = 1.3", "ipc0 = 1.1", 1);
        let before = Catalogue::presets().unwrap();
        let after = with(&own, Catalogue::add_apps).unwrap();
        assert_ne!(after.apps["SGD"], before.apps["SGD"]);
        // The second is of another file.
        for other in ["ALS", "mg-resid"] {
            assert_eq!(after.apps[other], before.apps[other]);
        }
        assert_eq!(after.digests(), before.digests());
    }
}
