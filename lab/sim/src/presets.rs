//! The machines and applications of the papers, by name.

use crate::application::{AppError, AppModel};
use crate::machine::{Machine, MachineError, MachineSpec};
use std::collections::BTreeMap;

const APPS: &str = include_str!("../presets/apps.toml");
const NUCORE: &str = include_str!("../presets/nucore.toml");
const MACHINES: &str = include_str!("../presets/machines.toml");

/// A preset, or a file of them, that is of no use.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// No application of this name.
    #[error("unknown application {name:?}: give one of {}", .known.join(", "))]
    UnknownApp {
        /// The name.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// No machine of this name.
    #[error("unknown machine {name:?}: give one of {}", .known.join(", "))]
    UnknownMachine {
        /// The name.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// The file is not of the form of the presets.
    #[error(transparent)]
    Syntax(#[from] toml::de::Error),
    /// An application that cannot be.
    #[error(transparent)]
    App(#[from] AppError),
    /// A machine that cannot be.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// Applications by name.
pub type Apps = BTreeMap<String, AppModel>;
/// Descriptions of machines by name.
pub type Machines = BTreeMap<String, MachineSpec>;

/// Reads applications written like the presets.
///
/// # Errors
/// When the text is not of that form, or an application cannot be.
pub fn read_apps(text: &str) -> Result<Apps, PresetError> {
    let apps: Apps = toml::from_str(text)?;
    for (name, app) in &apps {
        app.check(name)?;
    }
    Ok(apps)
}

/// Reads machines written like the presets.
///
/// # Errors
/// When the text is not of that form.
pub fn read_machines(text: &str) -> Result<Machines, PresetError> {
    Ok(toml::from_str(text)?)
}

/// The applications of MAPPER, SAM-MPH, NuPoCo and Cooperative.
///
/// # Errors
/// Never with the presets of this crate, which a test reads.
pub fn apps() -> Result<Apps, PresetError> {
    read_apps(APPS)
}

/// The eleven programs and phases of programs of NuCore's Table 1. They are a file of their own, as the
/// versions of the protocol before them quote the hash of the others.
///
/// # Errors
/// Never with the presets of this crate, which a test reads.
pub fn nucore_apps() -> Result<Apps, PresetError> {
    read_apps(NUCORE)
}

/// All machines.
///
/// # Errors
/// Never with the presets of this crate, which a test reads.
pub fn machines() -> Result<Machines, PresetError> {
    read_machines(MACHINES)
}

/// One application.
///
/// # Errors
/// When there is none of this name; the error lists those there are.
pub fn app(name: &str) -> Result<AppModel, PresetError> {
    let mut apps = apps()?;
    apps.extend(nucore_apps()?);
    apps.remove(name).ok_or_else(|| PresetError::UnknownApp {
        name: name.to_owned(),
        known: apps.into_keys().collect(),
    })
}

/// One machine.
///
/// # Errors
/// When there is none of this name; the error lists those there are.
pub fn machine(name: &str) -> Result<Machine, PresetError> {
    let mut machines = machines()?;
    match machines.remove(name) {
        Some(spec) => Ok(Machine::new(name, spec)?),
        None => Err(PresetError::UnknownMachine {
            name: name.to_owned(),
            known: machines.into_keys().collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn vectors(name: &str) -> Value {
        let path = format!("{}/../../tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
        #[expect(clippy::disallowed_methods, reason = "a test reads its data")]
        let text = std::fs::read_to_string(path).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_applications_are_those_of_the_vectors() {
        let given: Apps = serde_json::from_value(vectors("sim_apps.json")["apps"].clone()).unwrap();
        let ours = apps().unwrap();
        assert_eq!(
            given.keys().collect::<Vec<_>>(),
            ours.keys().collect::<Vec<_>>()
        );
        for (name, given) in given {
            let mut ours = ours[&name].clone();
            ours.standalone_s = given.standalone_s;
            ours.openmp = false;
            ours.phases.clear();
            ours.service = None;
            assert_eq!(ours, given, "{name}");
        }
    }

    #[test]
    fn the_programs_of_nucores_table_1_are_eleven_and_hide_no_other() {
        let (apps, nucore) = (apps().unwrap(), nucore_apps().unwrap());
        assert_eq!(nucore.len(), 11);
        for (name, program) in nucore {
            assert!(!apps.contains_key(&name), "{name}");
            // One thread for each core that is allocated [NuCore §1, footnote].
            assert!(program.openmp, "{name}");
        }
    }

    #[test]
    fn the_machines_are_those_of_the_vectors() {
        let given = vectors("sim_machines.json")["machines"].clone();
        let given: Machines = serde_json::from_value(given).unwrap();
        let ours = machines().unwrap();
        for (name, given) in given {
            let mut ours = ours[&name].clone();
            // They have no key for it.
            let modules = ours.module_slowdown.take();
            assert_eq!(modules, (name == "amd64").then_some(0.2), "{name}");
            assert_eq!(ours, given, "{name}");
        }
        for name in ours.keys() {
            machine(name).unwrap();
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let told = app("SDG").unwrap_err().to_string();
        assert!(told.contains("\"SDG\"") && told.contains("SGD"), "{told}");
        let told = machine("hsw").unwrap_err().to_string();
        assert!(told.contains("hsw80, ivb40"), "{told}");
    }

    #[test]
    fn a_mistyped_key_is_reported_with_its_line() {
        let told = read_apps("[a]\nipc0 = 1\nthh = 3\n")
            .unwrap_err()
            .to_string();
        assert!(told.contains("line 3") && told.contains("thh"), "{told}");
    }
}
