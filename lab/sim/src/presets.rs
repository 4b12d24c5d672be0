//! The machines and applications of the papers, by name.

use crate::application::{AppError, AppModel};
use crate::machine::{Machine, MachineError, MachineSpec};
use std::collections::BTreeMap;

/// The applications of MAPPER, SAM-MPH, NuPoCo and Cooperative.
pub const APPS: &str = include_str!("../presets/apps.toml");
/// The eleven programs and phases of NuCore's Table 1: a file of their own, as earlier protocols quote the hash
/// of the other.
pub const NUCORE_APPS: &str = include_str!("../presets/nucore.toml");
/// All machines.
pub const MACHINES: &str = include_str!("../presets/machines.toml");

/// An unusable preset or file of presets.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// No application or machine has this name, of those that exist.
    #[error("unknown {0} {1:?}: give one of {2}")]
    Unknown(&'static str, String, String),
    /// The file does not have the form of the presets.
    #[error(transparent)]
    Syntax(#[from] toml::de::Error),
    /// An invalid application.
    #[error(transparent)]
    App(#[from] AppError),
    /// An invalid machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// Applications by name.
pub type Apps = Named<AppModel>;
/// Descriptions of machines by name.
pub type Machines = Named<MachineSpec>;

/// Reads applications written like the presets.
///
/// # Errors
/// When the text is not of that form, or an application is invalid.
pub fn read_apps(text: &str) -> Result<Apps, PresetError> {
    let apps: Apps = toml::from_str(text)?;
    apps.iter().try_for_each(|(name, app)| app.check(name))?;
    Ok(apps)
}

/// Reads machines written like the presets.
///
/// # Errors
/// When the text is not of that form.
pub fn read_machines(text: &str) -> Result<Machines, PresetError> {
    Ok(toml::from_str(text)?)
}

/// One application.
///
/// # Errors
/// When none has this name; the error lists those that exist.
pub fn app(name: &str) -> Result<AppModel, PresetError> {
    let mut apps = read_apps(APPS)?;
    apps.extend(read_apps(NUCORE_APPS)?);
    named("application", name, apps)
}

/// One machine.
///
/// # Errors
/// When none has this name; the error lists those that exist.
pub fn machine(name: &str) -> Result<Machine, PresetError> {
    Ok(Machine::new(
        name,
        named("machine", name, read_machines(MACHINES)?)?,
    )?)
}

type Named<T> = BTreeMap<String, T>;

fn named<T>(what: &'static str, name: &str, mut all: Named<T>) -> Result<T, PresetError> {
    all.remove(name).ok_or_else(|| {
        let known: Vec<String> = all.into_keys().collect();
        PresetError::Unknown(what, name.to_owned(), known.join(", "))
    })
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
        let ours = read_apps(APPS).unwrap();
        assert!(given.keys().eq(ours.keys()));
        for (name, given) in given {
            let ours = AppModel {
                standalone_s: given.standalone_s,
                openmp: false,
                phases: Vec::new(),
                service: None,
                ..ours[&name].clone()
            };
            assert_eq!(ours, given, "{name}");
        }
    }

    #[test]
    fn the_programs_of_nucores_table_1_are_eleven_and_hide_no_other() {
        let [apps, nucore] = [APPS, NUCORE_APPS].map(|text| read_apps(text).unwrap());
        assert_eq!(nucore.len(), 11);
        for (name, program) in nucore {
            assert!(!apps.contains_key(&name), "{name}");
            // One thread for each allocated core [NuCore §1, footnote].
            assert!(program.openmp, "{name}");
        }
    }

    #[test]
    fn the_machines_are_those_of_the_vectors() {
        let given = vectors("sim_machines.json")["machines"].clone();
        let given: Machines = serde_json::from_value(given).unwrap();
        let ours = read_machines(MACHINES).unwrap();
        for (name, given) in given {
            let mut ours = ours[&name].clone();
            // The vectors have no key for it.
            let modules = ours.module_slowdown.take();
            assert_eq!(modules, (name == "amd64").then_some(0.2), "{name}");
            assert_eq!(ours, given, "{name}");
        }
        for name in ours.keys() {
            machine(name).unwrap();
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones_and_a_mistyped_key_its_line() {
        let error = app("SDG").unwrap_err().to_string();
        assert!(error.contains("unknown application \"SDG\"") && error.contains("SGD"));
        let error = machine("hsw").unwrap_err().to_string();
        assert!(error.contains("hsw80, ivb40"), "{error}");
        let error = read_apps("[a]\nipc0 = 1\nthh = 3\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 3") && error.contains("thh"), "{error}");
    }
}
