//! What the launcher knows of a program's file, and the settings of its OpenMP runtime.

use crate::schema::out_of_range;
use mapper_model::TeamMode;
use mapper_model::bounds::OutOfRange;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// What the launcher found in the file that it starts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Program {
    /// The file, links followed.
    pub path: String,
    /// The build id from the linker, in lower-case hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// Its OpenMP runtime.
    #[serde(default)]
    pub openmp: LinkedOpenMp,
}

/// The longest path that the kernel accepts.
const LONGEST_PATH: usize = 4096;
/// Twice the digits of the longest build id in use, SHA-256.
const LONGEST_BUILD_ID: usize = 128;

impl Program {
    /// Whether path and build id are valid.
    pub(super) fn check(&self) -> Result<(), OutOfRange> {
        let shown = |text: &str| format!("{:?}", text.chars().take(80).collect::<String>());
        if self.path.len() > LONGEST_PATH {
            let hint = "give a path of at most 4096 bytes";
            return Err(out_of_range("program path", shown(&self.path), hint));
        }
        let id = self.build_id.as_deref().unwrap_or_default();
        if id.len() > LONGEST_BUILD_ID || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let hint = "give at most 128 hexadecimal digits";
            return Err(out_of_range("build id", shown(id), hint));
        }
        Ok(())
    }
}

/// The OpenMP runtime that a program is linked with, according to its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkedOpenMp {
    /// None that the file names: it may load one later, as Python does.
    #[default]
    NotAtStart,
    /// libgomp, or both.
    Libgomp,
    /// clang's or Intel's, and not libgomp.
    Libomp,
    /// libgomp is part of the program itself and cannot be intercepted.
    StaticLibgomp,
    /// clang's runtime is part of the program itself. OMPT may report what it does.
    StaticLibomp,
    /// None is found, and the program is linked statically, so that nothing can be preloaded.
    StaticProgram,
    /// Whatever it is linked with is loaded by another loader than that of 64-bit glibc, which the shim needs.
    OtherLoader,
    /// One that only a newer launcher knows: nothing is concluded from it.
    #[serde(other)]
    Unknown,
}

impl LinkedOpenMp {
    /// Why the runtime interface cannot reach the program at `path`, if so, as far as the file shows.
    pub fn unreachable_because(self, path: &str) -> Option<String> {
        match self {
            Self::NotAtStart | Self::Libgomp | Self::Libomp | Self::Unknown => None,
            Self::StaticLibgomp => Some(format!(
                "libgomp is linked statically into {path}; mapper moves CPUs only"
            )),
            Self::StaticLibomp => Some(format!(
                "libomp is linked statically into {path}, and has not been seen through OMPT; mapper moves CPUs only"
            )),
            Self::OtherLoader => Some(format!(
                "{path} is not loaded by 64-bit glibc; mapper moves CPUs only, but for programs that it starts"
            )),
            Self::StaticProgram => Some(format!(
                "{path} is linked statically; mapper moves CPUs only, but for programs that it starts"
            )),
        }
    }

    /// Whether teams can have this mode; if not, why, in words that follow "teams are fixed: ".
    pub const fn serves(self, teams: TeamMode) -> Result<(), &'static str> {
        match (self, teams) {
            (_, TeamMode::Fixed)
            // A static program may be the loader, a shell or a packed program, and start others that the environment
            // reaches.
            | (Self::NotAtStart | Self::Libgomp | Self::StaticProgram | Self::OtherLoader | Self::Unknown, _)
            | (Self::Libomp, TeamMode::Follow) => Ok(()),
            (Self::Libomp, TeamMode::Virtual) => {
                Err("its OpenMP runtime is libomp, whose teams cannot be virtual")
            }
            (Self::StaticLibgomp, _) => {
                Err("its OpenMP runtime is linked statically, so that nothing can come between")
            }
            (Self::StaticLibomp, _) => {
                Err("its OpenMP runtime is linked statically, and can be observed only")
            }
        }
    }
}

/// How many threads OpenMP teams start with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Threads {
    /// As many as the program has CPUs at launch.
    Allocated,
    /// As many as it may ever get.
    All,
    /// This many.
    Count(NonZeroU32),
}

impl Threads {
    /// The default: under `follow` and `virtual` the shim limits each region, so that teams start with the most.
    pub const fn by_default(teams: TeamMode) -> Self {
        match teams {
            TeamMode::Fixed => Self::Allocated,
            TeamMode::Follow | TeamMode::Virtual => Self::All,
        }
    }
}

/// Not a number of threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("give alloc, all or a number from 1")]
pub struct NotThreads;

impl FromStr for Threads {
    type Err = NotThreads;

    fn from_str(text: &str) -> Result<Self, NotThreads> {
        match text {
            "alloc" => Ok(Self::Allocated),
            "all" => Ok(Self::All),
            number => number.parse().map(Self::Count).map_err(|_| NotThreads),
        }
    }
}

impl TryFrom<String> for Threads {
    type Error = NotThreads;

    fn try_from(text: String) -> Result<Self, NotThreads> {
        text.parse()
    }
}

impl From<Threads> for String {
    fn from(threads: Threads) -> Self {
        threads.to_string()
    }
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allocated => f.pad("alloc"),
            Self::All => f.pad("all"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

/// How the iterations of dynamic loops are assigned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// As the program says.
    AsWritten,
    /// In chunks that grow [Cooperative Algorithm 1], whatever the program says.
    Adaptive,
}

impl Schedule {
    /// The name on the command line and in `MAPPER_SCHEDULE`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AsWritten => "as-written",
            Self::Adaptive => "adaptive",
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Not a way to assign iterations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("give as-written or adaptive")]
pub struct NotASchedule;

impl FromStr for Schedule {
    type Err = NotASchedule;

    fn from_str(text: &str) -> Result<Self, NotASchedule> {
        [Self::AsWritten, Self::Adaptive]
            .into_iter()
            .find(|schedule| schedule.as_str() == text)
            .ok_or(NotASchedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_schedules_are_written_as_on_the_command_line() {
        for text in ["alloc", "all", "3"] {
            let threads: Threads = text.parse().unwrap();
            assert_eq!(serde_json::to_value(threads).unwrap(), text);
            let read: Threads = serde_json::from_value(text.into()).unwrap();
            assert_eq!(read, threads);
        }
        assert!("0".parse::<Threads>().is_err());
        for schedule in [Schedule::AsWritten, Schedule::Adaptive] {
            assert_eq!(serde_json::to_value(schedule).unwrap(), schedule.as_str());
            assert_eq!(schedule.as_str().parse(), Ok(schedule));
        }
    }

    #[test]
    fn no_path_is_longer_than_the_kernel_accepts() {
        let check = |length| {
            let path = "/".repeat(length);
            Program {
                path,
                ..Program::default()
            }
            .check()
        };
        assert!(check(LONGEST_PATH).is_ok());
        let error = check(LONGEST_PATH + 1).unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
        assert!(error.contains("program path"), "{error}");
    }

    #[test]
    fn what_cannot_be_reached_says_so_and_keeps_fixed_teams() {
        for (linked, says) in [
            (
                LinkedOpenMp::StaticLibgomp,
                "libgomp is linked statically into /p; mapper moves CPUs only",
            ),
            (
                LinkedOpenMp::StaticLibomp,
                "libomp is linked statically into /p, and has not been seen through OMPT; mapper moves CPUs only",
            ),
        ] {
            assert_eq!(linked.unreachable_because("/p").as_deref(), Some(says));
            assert!(linked.serves(TeamMode::Follow).is_err());
            assert!(linked.serves(TeamMode::Fixed).is_ok());
        }
        let why = LinkedOpenMp::StaticLibomp.serves(TeamMode::Follow);
        assert!(why.is_err_and(|why| why.contains("observed")));
        assert!(LinkedOpenMp::Libomp.serves(TeamMode::Virtual).is_err());
        assert!(LinkedOpenMp::Libomp.serves(TeamMode::Follow).is_ok());
        assert!(LinkedOpenMp::NotAtStart.serves(TeamMode::Virtual).is_ok());
    }

    #[test]
    fn a_program_that_loads_no_shim_keeps_no_program_it_starts_from_any_mode() {
        for linked in [LinkedOpenMp::StaticProgram, LinkedOpenMp::OtherLoader] {
            for teams in [TeamMode::Fixed, TeamMode::Follow, TeamMode::Virtual] {
                assert_eq!(linked.serves(teams), Ok(()));
            }
            let note = linked.unreachable_because("/lib64/ld.so").unwrap();
            assert!(note.contains("but for programs that it starts"), "{note}");
        }
    }
}
