//! How the terms of a launch came about.

use mapper_control::schema::{LinkedOpenMp, Program};
use mapper_model::{BuildKey, TeamMode};
use serde::{Deserialize, Serialize};
use std::hash::{DefaultHasher, Hash, Hasher};

/// For status and explain.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Provenance {
    /// Who decided the team mode.
    pub(crate) teams_by: String,
    /// The mode that was decided, where the program cannot have it.
    pub(crate) unserved: Option<TeamMode>,
    /// The file that was started, if the launcher could read it.
    pub(crate) program: Option<StartedFile>,
}

/// What is kept of a [`Program`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct StartedFile {
    /// The path, cut where it gets too long to be read.
    path: String,
    #[serde(default)]
    openmp: LinkedOpenMp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    build_id: Option<String>,
}

/// By what another launch of the same program is known.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(crate) struct Build {
    id: String,
    /// The command, where what counts is what the file runs (an interpreter).
    command: Option<String>,
}

impl Build {
    /// The same for one user and this command, for policies. A daemon that was built by another compiler may get another
    /// key, and learns anew.
    pub(crate) fn key(&self, uid: u32, command: &str) -> BuildKey {
        BuildKey {
            build: hash(&(uid, self)),
            command: hash(command),
        }
    }
}

fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What an earlier run of the same program has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EarlierRun {
    Nothing,
    /// Its threads wait for one another by spinning, so that virtual teams were given up.
    WaitedBySpinning,
}

/// Who decided the team mode, if [`EarlierRun::WaitedBySpinning`] did.
pub(crate) const WAITED_BY_SPINNING: &str =
    "its threads waited for one another by spinning in an earlier run";

/// Characters of a path that are kept of each application, since a thousand of them are saved often.
const PATH_KEPT: usize = 256;

impl From<&Program> for StartedFile {
    fn from(program: &Program) -> Self {
        let mut path: String = program.path.chars().take(PATH_KEPT).collect();
        if path.len() < program.path.len() {
            path.push('…');
        }
        Self {
            path,
            openmp: program.openmp,
            build_id: program.build_id.clone(),
        }
    }
}

impl StartedFile {
    /// Of a program that was started by this command, if its file has a build id.
    pub(crate) fn build(&self, command: &str) -> Option<Build> {
        let is_the_program = self.openmp == LinkedOpenMp::Libgomp;
        Some(Build {
            id: self.build_id.clone()?,
            command: (!is_the_program).then(|| command.to_owned()),
        })
    }
}

impl Provenance {
    /// Why teams are fixed although something else was decided.
    pub(crate) fn unserved_because(&self) -> Option<String> {
        let linked = self.program.as_ref()?.openmp;
        let teams = self.unserved?;
        let why = linked.serves(teams).err()?;
        Some(format!("teams are not {teams}: {why}"))
    }

    /// Why the shim cannot reach the program, if so.
    pub(crate) fn unreachable_because(&self) -> Option<String> {
        let program = self.program.as_ref()?;
        program.openmp.unreachable_because(&program.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_cut_and_an_interpreter_is_known_by_its_command() {
        let program = |path: &str| Program {
            path: path.to_owned(),
            ..Program::default()
        };
        let kept = StartedFile::from(&program(&"/\u{e4}".repeat(2000)));
        assert_eq!(kept.path.chars().count(), PATH_KEPT + 1);
        assert!(kept.path.ends_with('…'));
        let of = |openmp, command| {
            let program = Program {
                openmp,
                build_id: Some("00ff".to_owned()),
                ..program("/p")
            };
            StartedFile::from(&program).build(command)
        };
        assert_eq!(
            of(LinkedOpenMp::Libgomp, "p 1"),
            of(LinkedOpenMp::Libgomp, "p 2")
        );
        assert_ne!(
            of(LinkedOpenMp::NotAtStart, "p 1"),
            of(LinkedOpenMp::NotAtStart, "p 2")
        );
        assert_eq!(StartedFile::from(&program("/p")).build("p"), None);
        let saved_as_program = serde_json::to_value(program("/p")).unwrap();
        let read: StartedFile = serde_json::from_value(saved_as_program).unwrap();
        assert_eq!(read.path, "/p");
    }
}
