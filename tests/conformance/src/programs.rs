//! Which programs a folder has, and how they are compiled.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// A program and the compiler for it.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its path below the folder.
    pub(crate) name: String,
    /// The compiler for C.
    pub(crate) compiler: String,
    /// The compiler for the program's language.
    command: String,
    source: PathBuf,
    folder: PathBuf,
}

/// The compiler for a program's language, known by its file's extension, in the family of `compiler`, if that is known to
/// have one: `g++-12` for `gcc-12`.
fn relative(compiler: &str, source: &Path) -> Option<String> {
    let (folder, name) = compiler.split_at(compiler.rfind('/').map_or(0, |at| at + 1));
    let of_family = |family, relative| {
        let version = name.strip_prefix(family)?;
        let is_one = version.is_empty() || version.starts_with('-');
        is_one.then(|| format!("{folder}{relative}{version}"))
    };
    match source.extension()?.to_str()? {
        "c" => Some(compiler.to_owned()),
        "cc" | "cpp" => of_family("gcc", "g++").or_else(|| of_family("clang", "clang++")),
        "f90" => of_family("gcc", "gfortran"),
        _ => None,
    }
}

/// All programs below `folder`, sorted by name.
pub(crate) fn find(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        let read = || format!("read {}", inner.display());
        for entry in std::fs::read_dir(&inner).with_context(read)? {
            let path = entry.with_context(read)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if relative("gcc", &path).is_some() {
                found.push(path.strip_prefix(folder).unwrap_or(&path).to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

impl Program {
    /// The program at `source` below `folder`, for `compiler` or its relative for the program's language, if any.
    pub(crate) fn new(folder: &Path, source: &Path, compiler: &str) -> Option<Self> {
        Some(Self {
            name: source.to_string_lossy().into_owned(),
            compiler: compiler.to_owned(),
            command: relative(compiler, source)?,
            source: folder.join(source),
            folder: folder.to_owned(),
        })
    }

    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.compiler, self.name)
    }

    /// Compiles it to `output` with these flags, if the compiler does not refuse it for a reason.
    pub(crate) fn compile(
        &self,
        output: &Path,
        flags: &[String],
    ) -> anyhow::Result<Result<(), String>> {
        let result = Command::new(&self.command)
            .args(["-fopenmp", "-O2", "-g", "-w"])
            .args(flags)
            .arg("-I")
            .arg(&self.folder)
            .arg("-o")
            .arg(output)
            .arg(&self.source)
            .arg("-lm")
            .stdin(Stdio::null())
            .output();
        let result = match result {
            Ok(result) => result,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let missing = format!("compiler {}: not found; install it", self.command);
                // Without one for another language, programs in C can be run all the same.
                if self.command != self.compiler {
                    return Ok(Err(missing));
                }
                bail!("{missing} (`cargo xtask setup`) or name others with --cc");
            }
            Err(error) => return Err(error).with_context(|| format!("start {}", self.command)),
        };
        let said = String::from_utf8_lossy(&result.stderr);
        let refused = || reason(&said);
        Ok(result.status.success().then_some(()).ok_or_else(refused))
    }
}

/// The most informative line of a compiler or its linker.
fn reason(said: &str) -> String {
    let with = |part: &str| said.lines().find(|line| line.contains(part));
    // gcc's last line only repeats that the linker failed.
    let of_linker = with("undefined reference").or_else(|| with("multiple definition"));
    let line = of_linker.or_else(|| with("error")).or(said.lines().next());
    line.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_below_the_folder_in_order() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        for file in ["z.c", "a/y.c", "b.h", "c.cpp", "d.f90", "e"] {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        assert_eq!(
            find(folder.path()).unwrap(),
            ["a/y.c", "c.cpp", "d.f90", "z.c"].map(Path::new)
        );
    }

    #[test]
    fn a_program_is_compiled_by_the_relative_for_its_language_if_there_is_one() {
        let command = |source: &str, compiler| {
            Some(Program::new(Path::new("x"), Path::new(source), compiler)?.command)
        };
        let cases = [
            ("a.c", "icx", Some("icx")),
            ("a.cpp", "gcc", Some("g++")),
            ("a.cc", "clang-19", Some("clang++-19")),
            ("a.cpp", "/opt/bin/clang", Some("/opt/bin/clang++")),
            ("a.f90", "gcc-12", Some("gfortran-12")),
            ("a.f90", "clang", None),
            ("a.cpp", "gccgo", None),
        ];
        for (source, compiler, expected) in cases {
            let expected = expected.map(str::to_owned);
            assert_eq!(command(source, compiler), expected, "{source} {compiler}");
        }
    }

    #[test]
    fn a_compiler_that_is_not_there_is_an_error_and_a_wrong_program_is_not() {
        const UNDEFINED: &str = "int other(void); int main(void) { return other(); }\n";
        let folder = tempfile::tempdir().unwrap();
        let compile = |compiler, name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
            let program = Program::new(folder.path(), Path::new(name), compiler).unwrap();
            program.compile(&folder.path().join("p"), &[])
        };
        for (compiler, name, text, expected) in [
            ("gcc", "p.c", "#error \"no such luck\"\n", "no such luck"),
            ("gcc", "p.c", UNDEFINED, "other"),
            // Without the compiler for another language, its programs are left out.
            ("gcc-0", "p.cpp", "", "g++-0: not found"),
        ] {
            let why = compile(compiler, name, text).unwrap().unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
        let error = compile("no-such-cc", "p.c", "").err().unwrap();
        assert!(error.to_string().contains("no-such-cc"), "{error}");
    }
}
