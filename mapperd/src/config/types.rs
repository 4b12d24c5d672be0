//! Settings that are a choice among a few.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Who may connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Audience {
    /// Every user; who may do what is decided by credentials.
    Everybody,
    /// The user who runs the daemon.
    Owner,
}

/// Which enforcer to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum EnforcerChoice {
    /// Control groups where they are to be had, affinity otherwise.
    #[default]
    Auto,
    /// Control groups, or fail.
    Cgroup,
    /// Affinity.
    Affinity,
}

/// A name that is no enforcer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown enforcer {0:?}: give auto, cgroup or affinity")]
pub(crate) struct UnknownEnforcer(String);

impl FromStr for EnforcerChoice {
    type Err = UnknownEnforcer;

    fn from_str(name: &str) -> Result<Self, UnknownEnforcer> {
        match name {
            "auto" => Ok(Self::Auto),
            "cgroup" => Ok(Self::Cgroup),
            "affinity" => Ok(Self::Affinity),
            _ => Err(UnknownEnforcer(name.chars().take(40).collect())),
        }
    }
}

impl TryFrom<String> for EnforcerChoice {
    type Error = UnknownEnforcer;

    fn try_from(name: String) -> Result<Self, UnknownEnforcer> {
        name.parse()
    }
}

/// What the file is called, where no name was given.
const NAME: &str = "machine.toml";

/// Where the profile is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ProfilePlace {
    /// Named by the operator: it has to be there and right.
    Named(PathBuf),
    /// Where it is put when nothing is said.
    Usual(PathBuf),
    /// There is no such place.
    Nowhere,
}

impl ProfilePlace {
    /// The place that was `named`, else the one that the environment says.
    pub(crate) fn find(named: Option<PathBuf>, audience: Audience) -> Self {
        if let Some(path) = named {
            return Self::Named(path);
        }
        let from = |variable| std::env::var_os(variable).filter(|value| !value.is_empty());
        let folder = match audience {
            Audience::Owner => from("XDG_STATE_HOME")
                .map(PathBuf::from)
                .or_else(|| Some(Path::new(&from("HOME")?).join(".local/state")))
                .map(|folder| folder.join("mapper")),
            Audience::Everybody => {
                Some(from("STATE_DIRECTORY").map_or("/var/lib/mapper".into(), PathBuf::from))
            }
        };
        folder.map_or(Self::Nowhere, |folder| Self::Usual(folder.join(NAME)))
    }
}
