//! Starts the programs of the laboratory: `cargo xtask eval`, `demo`, `conformance` and so on build what they need
//! in release and hand everything on to it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::Context as _;

use crate::task_setup::{self, Consent, Purpose};
use crate::workspace;

/// What stands behind the name of a task, as it was given.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Words {
    /// For the program that is started; `--help` shows what it takes
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    words: Vec<OsString>,
}

impl Words {
    /// Whether only pairs are named that gcc compiles.
    fn only_gcc(&self) -> bool {
        let any = |is: fn(&str) -> bool| self.words.iter().any(|word| is(&word.to_string_lossy()));
        any(|word| word.starts_with("--pairs")) && !any(|word| word.contains("libomp"))
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|given| given == word)
    }
}

/// A program of the laboratory, and what its name is followed by.
#[derive(Clone, Copy)]
pub(crate) enum Program {
    Corun(&'static str),
    Conformance,
    Eval(&'static str),
    Vectors,
    Vm,
}

impl Program {
    /// Its name, and its first argument.
    const fn words(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Corun(task) => ("mapper-corun", Some(task)),
            Self::Conformance => ("mapper-conformance", None),
            Self::Eval(task) => ("mapper-eval", Some(task)),
            Self::Vectors => ("mapper-vectors", None),
            Self::Vm => ("mapper-vm", None),
        }
    }

    fn purposes(self, words: &Words) -> &'static [Purpose] {
        match self {
            Self::Corun("demo") if words.has("--real") || words.only_gcc() => &[Purpose::Build],
            Self::Corun("demo" | "live") => &[Purpose::Build, Purpose::Clang],
            Self::Corun("teams") => &[Purpose::Build],
            Self::Vm => Purpose::GUEST,
            _ => &[],
        }
    }

    /// Builds it, with the features that the whole workspace has: nothing is then built for it alone. It runs in the
    /// folder of the user.
    pub(crate) fn built(self) -> anyhow::Result<Command> {
        let (name, task) = self.words();
        let mut cargo = workspace::cargo();
        cargo.args(["build", "--quiet", "--locked", "--release", "--workspace"]);
        workspace::run(cargo.args(["--bin", name]))?;
        let built = workspace::root().join(workspace::target_dir());
        let mut command = Command::new(built.join("release").join(name));
        command.args(task);
        Ok(command)
    }
}

/// Becomes the program.
pub(crate) fn start(program: Program, words: &Words, consent: Consent) -> anyhow::Result<()> {
    let asks = words.has("--help") || words.has("-h");
    if !asks {
        task_setup::require(program.purposes(words), consent)?;
        // What cannot be had without these is left out, which the report says.
        let wanted: &[Purpose] = match program {
            Program::Corun("teams") => &[Purpose::Python],
            Program::Corun("demo") if words.has("--real") => &[Purpose::Python, Purpose::Real],
            _ => &[],
        };
        if let Err(error) = task_setup::require(wanted, consent) {
            eprintln!("note: {error:#}");
        }
    }
    let mut command = program.built()?;
    let error = command.args(&words.words).exec();
    Err(error).with_context(|| format!("start {}", command.get_program().display()))
}

/// `cargo xtask eval`: the model, or with `--live` real programs.
pub(crate) fn evaluate(mut words: Words, consent: Consent) -> anyhow::Result<()> {
    let is_live = words.has("--live");
    words.words.retain(|word| word != "--live");
    let program = match is_live {
        true => Program::Corun("live"),
        false => Program::Eval("eval"),
    };
    start(program, &words, consent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clang_is_installed_for_libomp_pairs_only() {
        let needs = |words: &[&str]| {
            let words = Words {
                words: words.iter().map(OsString::from).collect(),
            };
            Program::Corun("demo").purposes(&words)
        };
        assert_eq!(needs(&["--pairs", "md+cg"]), [Purpose::Build]);
        let both = [Purpose::Build, Purpose::Clang];
        assert_eq!(needs(&["--pairs", "cg+montecarlo-libomp"]), both);
        assert_eq!(needs(&[]), both);
        assert_eq!(needs(&["--real"]), [Purpose::Build]);
    }
}
