//! What the user requests for a launch ([`Wishes`]), and what the launch gets ([`Terms`]).
//!
//! Options of the user take effect. For what the user left out the daemon applies the rules of the operator, which the
//! launcher does not know. The terms in the reply are complete.

use crate::schema::{MemoryPolicy, Partition, Schedule, Threads};
use mapper_model::{AppName, CpuRange, Lending, Qos, Resizing, TeamMode, Weight};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::Display;
use std::str::FromStr;

/// Whether the runtime interface is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeChoice {
    /// With a shared page, for the shim.
    #[default]
    On,
    /// Without (`--no-runtime`).
    Off,
}

/// What the user requests. `None`: the user said nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct Wishes {
    /// The name of the application.
    pub name: AppName,
    /// `--qos`.
    pub qos: Option<Qos>,
    /// `--weight`.
    pub weight: Weight,
    /// `--min-cpus`, `--max-cpus`.
    pub cpus: CpuRange,
    /// `--no-resize`.
    pub resizing: Resizing,
    /// `--no-lend` is `Some(Never)`.
    pub lending: Option<Lending>,
    /// `--teams`.
    pub teams: Option<TeamsWish>,
    /// `--threads`, or `OMP_NUM_THREADS` in the environment.
    pub threads: Wish<Threads>,
    /// `--schedule`, or `MAPPER_SCHEDULE` in the environment.
    pub schedule: Wish<Schedule>,
    /// `--no-runtime` is `Some(Off)`.
    pub runtime: Option<RuntimeChoice>,
    /// `--mem`.
    pub memory: MemoryPolicy,
    /// `--isolated` is `Some(Isolated)`.
    pub partition: Option<Partition>,
}

impl Wishes {
    /// A launch for which the user gave nothing but a name.
    pub fn named(name: AppName) -> Self {
        Self {
            name,
            qos: None,
            weight: Weight::default(),
            cpus: CpuRange::default(),
            resizing: Resizing::default(),
            lending: None,
            teams: None,
            threads: Wish::Open,
            schedule: Wish::Open,
            runtime: None,
            memory: MemoryPolicy::default(),
            partition: None,
        }
    }

    /// Whether the wishes need the runtime interface, so that no rule may turn it off.
    pub fn need_runtime(&self) -> bool {
        let named = matches!(self.teams, Some(TeamsWish::Named(mode)) if mode != TeamMode::Fixed);
        named || self.schedule == Wish::Asked(Schedule::Adaptive)
    }
}

/// The team mode that the user requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TeamsWish {
    /// `--teams` with this mode: nothing overrides it.
    Named(TeamMode),
    /// `--teams auto` or none, and `--check-teams` has found this mode for the program.
    Checked(TeamMode),
    /// `--teams auto`, the same as none: rules decide, then the shipped list, then what the program is.
    Auto,
}

impl TeamsWish {
    /// The mode, unless others decide it.
    pub const fn mode(self) -> Option<TeamMode> {
        match self {
            Self::Named(mode) | Self::Checked(mode) => Some(mode),
            Self::Auto => None,
        }
    }
}

/// A setting that the user can give by an option or by an environment variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wish<T> {
    /// The user said nothing: rules decide.
    #[default]
    Open,
    /// The environment sets it, and takes precedence over rules.
    Environment,
    /// The user gave the option.
    Asked(T),
}

impl<T> Wish<T> {
    /// The option's value, if it was given.
    pub fn of(option: Option<T>) -> Self {
        option.map_or(Self::Open, Self::Asked)
    }

    /// The same, or the environment's if its variable is set.
    #[must_use]
    pub fn or_environment<V>(self, variable: Option<V>) -> Self {
        match (self, variable) {
            (Self::Open, Some(_)) => Self::Environment,
            (said, _) => said,
        }
    }

    /// The option's value, or a rule's where the user said nothing.
    pub fn or_rule(self, rule: Option<T>) -> Option<T> {
        match self {
            Self::Asked(value) => Some(value),
            Self::Environment => None,
            Self::Open => rule,
        }
    }

    /// Whether the user said nothing.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }
}

/// The word for [`Wish::Environment`] on the wire.
const ENVIRONMENT: &str = "environment";

impl<T: Display> Serialize for Wish<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Open => serializer.serialize_none(),
            Self::Environment => serializer.serialize_str(ENVIRONMENT),
            Self::Asked(value) => serializer.collect_str(value),
        }
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Wish<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<String>::deserialize(deserializer)?.as_deref() {
            None => Ok(Self::Open),
            Some(ENVIRONMENT) => Ok(Self::Environment),
            Some(text) => {
                let value = text.parse().map_err(serde::de::Error::custom)?;
                Ok(Self::Asked(value))
            }
        }
    }
}

/// [`Terms::teams_by`] where the default decided.
pub const BY_DEFAULT: &str = "by default";

/// What a launch gets for its OpenMP runtime. Complete: the launcher only applies it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Terms {
    /// The mode of teams.
    pub teams: TeamMode,
    /// Who decided the mode, such as `rule 2 of /etc/mapper/mapper.toml`.
    pub teams_by: String,
    /// How many threads to start with; `None`: as the environment sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<Threads>,
    /// How dynamic loops are assigned; `None`: as the program and its environment set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// The most CPUs that the program may get, where the user or the operator limits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cpus: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_an_option_on_the_wire() {
        for (wish, text) in [
            (Wish::Open, "null"),
            (Wish::Environment, "\"environment\""),
            (Wish::Asked(Threads::All), "\"all\""),
        ] {
            assert_eq!(serde_json::to_string(&wish).unwrap(), text);
            assert_eq!(serde_json::from_str::<Wish<Threads>>(text).unwrap(), wish);
        }
        let error = serde_json::from_str::<Wish<Threads>>("\"many\"").unwrap_err();
        assert!(error.to_string().contains("alloc, all or a number"));
    }

    #[test]
    fn an_option_comes_before_the_environment() {
        let variable = Some("4");
        let asked = Wish::of(Some(Threads::All));
        assert_eq!(asked.or_environment(variable), Wish::Asked(Threads::All));
        let open = Wish::<Threads>::of(None);
        assert_eq!(open.or_environment(variable), Wish::Environment);
        assert_eq!(open.or_environment(None::<&str>), Wish::Open);
    }

    #[test]
    fn teams_that_are_asked_for_and_adaptive_loops_need_the_runtime_interface() {
        let wishes = || Wishes::named(AppName::new("a").unwrap());
        for (teams, needs) in [
            (None, false),
            (Some(TeamsWish::Auto), false),
            (Some(TeamsWish::Named(TeamMode::Fixed)), false),
            (Some(TeamsWish::Named(TeamMode::Follow)), true),
            // The user asked for nothing now.
            (Some(TeamsWish::Checked(TeamMode::Follow)), false),
        ] {
            let wishes = Wishes { teams, ..wishes() };
            assert_eq!(wishes.need_runtime(), needs, "{teams:?}");
        }
        let adaptive = Wishes {
            schedule: Wish::Asked(Schedule::Adaptive),
            ..wishes()
        };
        assert!(adaptive.need_runtime());
    }
}
