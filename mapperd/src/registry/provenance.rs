//! How the terms of a launch came about.

use mapper_control::schema::{LinkedOpenMp, Program};
use mapper_model::TeamMode;
use serde::{Deserialize, Serialize};

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
}

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
        }
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
    fn a_long_path_is_cut() {
        let program = |path: &str| Program {
            path: path.to_owned(),
            ..Program::default()
        };
        let kept = StartedFile::from(&program(&"/\u{e4}".repeat(2000)));
        assert_eq!(kept.path.chars().count(), PATH_KEPT + 1);
        assert!(kept.path.ends_with('…'));
        let saved_as_program = serde_json::to_value(program("/p")).unwrap();
        let read: StartedFile = serde_json::from_value(saved_as_program).unwrap();
        assert_eq!(read.path, "/p");
    }
}
