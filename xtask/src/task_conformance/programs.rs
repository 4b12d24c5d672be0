//! Which programs a folder has, and how they are compiled.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// A program and the compiler for it.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its path below the folder.
    pub(crate) name: String,
    /// The compiler's command.
    pub(crate) compiler: String,
    source: PathBuf,
    folder: PathBuf,
}

/// What came of compiling.
pub(crate) enum Compiled {
    /// The program.
    Program,
    /// What the compiler says is wrong.
    Refused(String),
}

/// All C files below `folder`, in the order of their names.
pub(crate) fn find(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        let entries =
            std::fs::read_dir(&inner).with_context(|| format!("read {}", inner.display()))?;
        for entry in entries {
            let path = entry
                .with_context(|| format!("read {}", inner.display()))?
                .path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "c") {
                found.push(path.strip_prefix(folder).unwrap_or(&path).to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

impl Program {
    /// The program at `source` below `folder`, to be compiled by `compiler`.
    pub(crate) fn new(folder: &Path, source: &Path, compiler: &str) -> Self {
        Self {
            name: source.to_string_lossy().into_owned(),
            compiler: compiler.to_owned(),
            source: folder.join(source),
            folder: folder.to_owned(),
        }
    }

    /// For progress lines.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.compiler, self.name)
    }

    /// Compiles it to `output`.
    pub(crate) fn compile(&self, output: &Path) -> anyhow::Result<Compiled> {
        let result = Command::new(&self.compiler)
            .args(["-fopenmp", "-O2", "-g", "-w", "-I"])
            .arg(&self.folder)
            .arg("-o")
            .arg(output)
            .arg(&self.source)
            .arg("-lm")
            .stdin(Stdio::null())
            .output();
        let result = match result {
            Ok(result) => result,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
                "compiler {}: not found; install it (`cargo xtask setup`) or name others with --cc",
                self.compiler
            ),
            Err(error) => return Err(error).with_context(|| format!("start {}", self.compiler)),
        };
        if result.status.success() {
            return Ok(Compiled::Program);
        }
        Ok(Compiled::Refused(reason(&String::from_utf8_lossy(
            &result.stderr,
        ))))
    }
}

/// The line of what a compiler or its linker says that tells most.
fn reason(said: &str) -> String {
    // At its end gcc says that the linker returned an error, which the linker has told before.
    let of_linker = said
        .lines()
        .find(|line| line.contains("undefined reference") || line.contains("multiple definition"));
    of_linker
        .or_else(|| said.lines().find(|line| line.contains("error")))
        .or_else(|| said.lines().next())
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_files_are_found_below_the_folder_in_order() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        for file in ["z.c", "a/y.c", "b.h", "c.cpp"] {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        assert_eq!(
            find(folder.path()).unwrap(),
            [Path::new("a/y.c"), Path::new("z.c")]
        );
    }

    #[test]
    fn a_compiler_that_is_not_there_is_an_error_and_a_wrong_program_is_not() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.c"), "#error \"no such luck\"\n").unwrap();
        let output = folder.path().join("p");
        let program = |compiler| Program::new(folder.path(), Path::new("p.c"), compiler);
        let Compiled::Refused(why) = program("gcc").compile(&output).unwrap() else {
            panic!("compiled");
        };
        assert!(why.contains("no such luck"), "{why}");
        std::fs::write(
            folder.path().join("p.c"),
            "int other(void); int main(void) { return other(); }\n",
        )
        .unwrap();
        let Compiled::Refused(why) = program("gcc").compile(&output).unwrap() else {
            panic!("linked");
        };
        assert!(why.contains("other"), "{why}");
        let error = program("no-such-cc").compile(&output).err().unwrap();
        assert!(error.to_string().contains("no-such-cc"), "{error}");
    }
}
