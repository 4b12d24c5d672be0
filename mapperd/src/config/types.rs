//! Settings that are a choice among a few, and what they are read with.

use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Reads a value that the file gives as the command line does.
pub(crate) fn parsed<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AllocationName(pub(crate) String);

impl FromStr for AllocationName {
    type Err = mapper_allocate::UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        mapper_allocate::find(name).map(|_| Self(name.to_owned()))
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MappingName(pub(crate) String);

impl FromStr for MappingName {
    type Err = mapper_placement::UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        mapper_placement::find(name).map(|_| Self(name.to_owned()))
    }
}

/// Who may connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Audience {
    /// Every user; who may do what is decided by credentials.
    Everybody,
    /// The user who runs the daemon.
    Owner,
}

/// Which enforcer to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum EnforcerChoice {
    /// Control groups where they are available, affinity otherwise.
    #[default]
    Auto,
    /// Control groups, or fail.
    Cgroup,
    Affinity,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown enforcer {0:?}: give auto, cgroup or affinity")]
pub(crate) struct UnknownEnforcer(String);

impl EnforcerChoice {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cgroup => "cgroup",
            Self::Affinity => "affinity",
        }
    }
}

impl FromStr for EnforcerChoice {
    type Err = UnknownEnforcer;

    fn from_str(name: &str) -> Result<Self, UnknownEnforcer> {
        let all = [Self::Auto, Self::Cgroup, Self::Affinity];
        let found = all.into_iter().find(|choice| choice.name() == name);
        found.ok_or_else(|| UnknownEnforcer(name.chars().take(40).collect()))
    }
}

/// A variable of the environment; an empty one counts as unset.
pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// A base directory of the user, by the XDG specification.
pub(crate) fn base_directory(name: &str, below_home: &str) -> Option<PathBuf> {
    variable(name).or_else(|| Some(variable("HOME")?.join(below_home)))
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ProfilePlace {
    /// Named by the operator: it has to exist and be valid.
    Named(PathBuf),
    /// The default place.
    Usual(PathBuf),
    Nowhere,
}

impl ProfilePlace {
    /// The place that was `named`, else the one that the environment gives.
    pub(crate) fn find(named: Option<PathBuf>, audience: Audience) -> Self {
        if let Some(path) = named {
            return Self::Named(path);
        }
        let folder = match audience {
            Audience::Owner => {
                base_directory("XDG_STATE_HOME", ".local/state").map(|home| home.join("mapper"))
            }
            Audience::Everybody => {
                let folder = variable("STATE_DIRECTORY");
                Some(folder.unwrap_or_else(|| "/var/lib/mapper".into()))
            }
        };
        folder.map_or(Self::Nowhere, |folder| {
            Self::Usual(folder.join("machine.toml"))
        })
    }
}
