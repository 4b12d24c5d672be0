//! What a user asks for when a program is launched.

use crate::bounds::OutOfRange;
use crate::checked_f64;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

checked_f64! {
    /// The share of its fair-share performance that an application is promised [MAPPER eq. 3].
    Qos, "qos", |v| v > 0.0 && v <= 1.0, "give a number above 0 and up to 1, such as 0.85, or 85%", share
}
checked_f64! {
    /// How much an application counts when fair shares are computed; 1 is ordinary.
    Weight, "weight", |v| (0.01..=100.0).contains(&v), "give a number from 0.01 to 100; 1 is ordinary"
}

/// A share as a number, or as a percentage.
fn share(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        None => text.parse().ok(),
        Some(percent) => Some(percent.trim_end().parse::<f64>().ok()? / 100.0),
    }
}

impl Default for Qos {
    /// The paper's 85 % [MAPPER §3.3].
    fn default() -> Self {
        Self(0.85)
    }
}

impl Weight {
    /// The largest.
    pub const MOST: Self = Self(100.0);
}

impl Default for Weight {
    fn default() -> Self {
        Self(1.0)
    }
}

/// The CPU counts an application can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "RawRange")]
pub struct CpuRange {
    min: u32,
    max: Option<u32>,
}

#[derive(Deserialize)]
struct RawRange {
    min: u32,
    max: Option<u32>,
}

impl TryFrom<RawRange> for CpuRange {
    type Error = OutOfRange;
    fn try_from(raw: RawRange) -> Result<Self, OutOfRange> {
        Self::new(raw.min, raw.max)
    }
}

impl CpuRange {
    /// At least `min` CPUs (from 1), at most `max` where given.
    ///
    /// # Errors
    /// [`OutOfRange`] when `min` is 0 or `max` is below `min`.
    pub fn new(min: u32, max: Option<u32>) -> Result<Self, OutOfRange> {
        if min == 0 {
            return Err(OutOfRange {
                what: "min-cpus",
                value: "0".into(),
                hint: "give 1 or more",
            });
        }
        match max {
            Some(max) if max < min => Err(OutOfRange {
                what: "max-cpus",
                value: format!("{max} (min-cpus {min})"),
                hint: "give at least min-cpus",
            }),
            _ => Ok(Self { min, max }),
        }
    }

    /// The fewest CPUs it needs.
    pub const fn min(self) -> u32 {
        self.min
    }

    /// The most CPUs it can use, where known.
    pub const fn max(self) -> Option<u32> {
        self.max
    }

    /// `cpus` brought into the range.
    #[must_use]
    pub fn clamp(self, cpus: u32) -> u32 {
        cpus.max(self.min).min(self.max.unwrap_or(u32::MAX))
    }
}

impl Default for CpuRange {
    fn default() -> Self {
        Self { min: 1, max: None }
    }
}

/// Whether the allocation may change while the application runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resizing {
    /// Its CPU count may change at any interval.
    #[default]
    Allowed,
    /// It keeps the count it started with (`--no-resize`), for programs that cannot take a change.
    Never,
}

/// Whether others may use the CPUs of an application while it is idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lending {
    /// They may until it has something to do again.
    #[default]
    WhenIdle,
    /// Its CPUs stay its own (`--no-lend`).
    Never,
}

/// Whether an application may use the time that others leave idle on their CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleTimeUse {
    /// It may not, nor may others use its: the kernel cannot hold the one back for the other.
    #[default]
    Never,
    /// It may, and others its: the kernel runs each there only while no thread of the owner wants to run.
    WhileLeft,
}

/// What the OpenMP shim may do with the teams of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TeamMode {
    /// Teams have the size set at launch. Always safe.
    #[default]
    Fixed,
    /// Teams follow the allocation at every parallel region (`OMP_DYNAMIC=true`).
    Follow,
    /// Teams have the size the program expects; their threads share as many OS threads as it has
    /// CPUs. For programs of gcc that the shim finds suitable.
    Virtual,
}

impl TeamMode {
    /// The name used on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Follow => "follow",
            Self::Virtual => "virtual",
        }
    }
}

impl fmt::Display for TeamMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for TeamMode {
    type Err = OutOfRange;
    fn from_str(text: &str) -> Result<Self, OutOfRange> {
        match text {
            "fixed" => Ok(Self::Fixed),
            "follow" => Ok(Self::Follow),
            "virtual" => Ok(Self::Virtual),
            _ => Err(OutOfRange {
                what: "teams",
                value: format!("{text:?}"),
                hint: "give fixed, follow or virtual",
            }),
        }
    }
}

/// The name of an application: 1 to 64 characters out of `A–Z a–z 0–9 . _ + -`, not starting with a
/// dot or a dash, so that it can be part of a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AppName(String);

impl AppName {
    fn allows(c: char) -> bool {
        c.is_ascii_alphanumeric() || "._+-".contains(c)
    }

    /// Checks the name.
    ///
    /// # Errors
    /// [`OutOfRange`] when it is empty, too long or holds other characters.
    pub fn new(name: &str) -> Result<Self, OutOfRange> {
        let whole = (1..=64).contains(&name.len()) && name.chars().all(Self::allows);
        if !whole || name.starts_with(['.', '-']) {
            return Err(OutOfRange {
                what: "name",
                value: format!("{:?}", name.chars().take(80).collect::<String>()),
                hint: "give 1 to 64 letters, digits, dots, dashes, plus signs or underscores, starting with a letter or digit",
            });
        }
        Ok(Self(name.to_owned()))
    }

    /// A valid name made from any text: other characters become `_`.
    pub fn from_lossy(text: &str) -> Self {
        let replace = |c| if Self::allows(c) { c } else { '_' };
        let mut name: String = text.chars().take(64).map(replace).collect();
        if name.is_empty() || name.starts_with(['.', '-']) {
            name.insert(0, '_');
            name.truncate(64);
        }
        Self(name)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AppName {
    type Error = OutOfRange;
    fn try_from(name: String) -> Result<Self, OutOfRange> {
        Self::new(&name)
    }
}

impl From<AppName> for String {
    fn from(name: AppName) -> String {
        name.0
    }
}

impl FromStr for AppName {
    type Err = OutOfRange;
    fn from_str(name: &str) -> Result<Self, OutOfRange> {
        Self::new(name)
    }
}

impl fmt::Display for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A build of a program, and how it was started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct BuildKey {
    /// A hash of a user and a build; of an interpreter the command counts, too.
    pub build: u64,
    /// A hash of the command: the same build may scale otherwise with other arguments.
    pub command: u64,
}

/// By what another run of the same program is known.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProgramKey {
    /// Its build.
    Build(BuildKey),
    /// The name of the application, where no build is known.
    Name(AppName),
}

impl ProgramKey {
    /// The same, started by whatever command.
    #[must_use]
    pub fn of_any_command(mut self) -> Self {
        if let Self::Build(key) = &mut self {
            key.command = 0;
        }
        self
    }

    /// Whether it is the same program, started by whatever command.
    pub fn is_same_program(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Build(one), Self::Build(another)) => one.build == another.build,
            _ => self == other,
        }
    }
}

/// The wishes and the promise of one application.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AppSpec {
    /// Its name, unique among the applications that run.
    pub name: AppName,
    /// Its build, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildKey>,
    /// The promise.
    #[serde(default)]
    pub qos: Qos,
    /// Its weight in the fair share.
    #[serde(default)]
    pub weight: Weight,
    /// The CPU counts it can use.
    #[serde(default)]
    pub cpus: CpuRange,
    /// Whether its allocation may change.
    #[serde(default)]
    pub resizing: Resizing,
    /// Whether others may use its CPUs while it is idle.
    #[serde(default)]
    pub lending: Lending,
    /// Whether it may use the idle time of others.
    #[serde(default)]
    pub idle_time: IdleTimeUse,
    /// What the shim may do with its teams.
    #[serde(default)]
    pub teams: TeamMode,
}

impl AppSpec {
    /// An application with every default.
    pub fn named(name: AppName) -> Self {
        Self {
            name,
            build: None,
            qos: Qos::default(),
            weight: Weight::default(),
            cpus: CpuRange::default(),
            resizing: Resizing::default(),
            lending: Lending::default(),
            idle_time: IdleTimeUse::default(),
            teams: TeamMode::default(),
        }
    }

    /// By what another run of its program is known.
    pub fn program(&self) -> ProgramKey {
        match self.build {
            Some(build) => ProgramKey::Build(build),
            None => ProgramKey::Name(self.name.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_outside_zero_to_one_is_refused_with_the_value() {
        for bad in [
            "0", "1.5", "-0.2", "nan", "abc", "", "0%", "101%", "%", "85", "8%5",
        ] {
            let error = bad.parse::<Qos>().unwrap_err().to_string();
            assert!(error.starts_with("qos ") && error.contains("0.85"), "{bad}");
        }
        for (text, share) in [("0.9", 0.9), ("85%", 0.85), (" 100 %", 1.0)] {
            assert_eq!(text.parse::<Qos>().unwrap().get(), share);
        }
        // A weight is no share.
        assert!("85%".parse::<Weight>().is_err());
    }

    #[test]
    fn a_name_can_always_be_part_of_a_path() {
        for bad in ["", ".", "..", "a/b", "-x", "a b", &"x".repeat(65)] {
            assert!(AppName::new(bad).is_err(), "{bad:?}");
            let changed = AppName::from_lossy(bad);
            assert!(AppName::new(changed.as_str()).is_ok(), "{bad:?}");
        }
    }

    #[test]
    fn a_range_needs_one_cpu_and_runs_upwards() {
        assert!(CpuRange::new(0, None).is_err());
        assert!(CpuRange::new(3, Some(2)).is_err());
        assert_eq!(CpuRange::new(2, Some(4)).unwrap().clamp(9), 4);
    }
}
