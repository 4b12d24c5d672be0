//! A program of the comparison, the settings it runs in, and a run of it.

use mapper_model::AppName;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::time::Duration;

/// One of the programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Program {
    /// No other has the same.
    pub(crate) name: AppName,
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
}

impl Program {
    /// The programs of a command line, which `::` separates.
    pub(crate) fn several(words: &[OsString]) -> Vec<Self> {
        let mut taken = BTreeSet::new();
        let mut program = |command: &[OsString]| {
            let first = mapper_launch::name_of(command);
            let further = (2..).map(|n: u32| AppName::from_lossy(&format!("{first}-{n}")));
            let mut names = std::iter::once(first.clone()).chain(further);
            let name = names.find(|name| taken.insert(name.clone()));
            Self {
                name: name.unwrap_or(first),
                command: command.to_vec(),
            }
        };
        words.split(|word| word == "::").map(&mut program).collect()
    }
}

/// How the programs run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Setting {
    /// As the user would.
    Plain,
    /// With `OMP_WAIT_POLICY=passive`.
    Passive,
    /// Under mapper.
    Mapper,
}

impl Setting {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Passive, Self::Mapper];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain Linux",
            Self::Passive => "passive waiting",
            Self::Mapper => "mapper",
        }
    }

    pub(crate) const fn with_preposition(self) -> &'static str {
        match self {
            Self::Plain => "under plain Linux",
            Self::Passive => "with passive waiting",
            Self::Mapper => "under mapper",
        }
    }
}

/// A program that has ended well.
#[derive(Debug)]
pub(crate) struct Ended {
    /// From the start of the first program.
    pub(crate) after: Duration,
    /// What it wrote to standard output.
    pub(crate) output: File,
    pub(crate) promise: Promise,
}

/// In how many intervals the promise of a program was judged, and broken; in none where nothing is known of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub(crate) struct Promise {
    pub(crate) judged_intervals: u64,
    pub(crate) below: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_separated_by_colons_and_each_has_a_name_of_its_own() {
        let words = ["./fit", "a", "::", "./fit", "::", "python", "b.py"];
        let programs = Program::several(&words.map(OsString::from));
        let names: Vec<_> = programs
            .iter()
            .map(|program| program.name.as_str())
            .collect();
        assert_eq!(names, ["fit", "fit-2", "b"]);
        assert_eq!(programs[0].command, ["./fit", "a"]);
        assert_eq!(programs[2].command, ["python", "b.py"]);
    }
}
