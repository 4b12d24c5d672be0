//! A C program that `mapper-launch` starts under a private daemon, by the programs that cargo builds.
//! It does something for each line it is sent, and answers with one.

use super::{Daemon, eventually};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;

/// The folder of the daemon's binary, with launcher, control program, preloaded library and the library
/// for programs in it.
/// Cargo makes only this package's own programs by itself. The whole product is built, here and elsewhere in tests: other
/// choices of packages would have others' features, and so dependencies built anew.
pub(crate) fn built() -> &'static Path {
    static BUILT: OnceLock<&'static Path> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_mapperd")).parent().unwrap();
        let profile = match folder.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        let status = Command::new(env!("CARGO"))
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
            .args(["build", "--quiet", "--locked", "--profile", profile])
            .status()
            .unwrap();
        assert!(status.success(), "cargo build: {status}");
        folder
    })
}

/// A command without the OpenMP settings of the user who runs the tests.
fn clean(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let meddles = ["OMP_", "GOMP_", "KMP_", "MAPPER_", "LD_"];
        if meddles.iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
    command
}

/// A program in a folder that goes with it.
pub(crate) struct Made {
    program: PathBuf,
    _folder: tempfile::TempDir,
}

impl Made {
    /// Compiles a program of `tests/programs`.
    pub(crate) fn by(compiler: &mut Command, source: &str) -> Self {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        Self::of(compiler, &sources.join(source))
    }

    /// Compiles a program.
    pub(crate) fn of(compiler: &mut Command, source: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        compiler.args(["-O1", "-Wall", "-Werror"]).arg("-o");
        compiler.arg(&program).arg(source);
        let made = compiler
            .status()
            .unwrap_or_else(|error| panic!("{compiler:?}: {error}; is it installed?"));
        assert!(made.success(), "{compiler:?}");
        Self {
            program,
            _folder: folder,
        }
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }
}

/// A program that was launched and waits for a line.
pub(crate) struct Launched<'a> {
    daemon: &'a Daemon,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    _made: Made,
}

impl<'a> Launched<'a> {
    /// Launches it by the name "program".
    pub(crate) fn new(
        daemon: &'a Daemon,
        made: Made,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let mut child = clean(built().join("mapper-launch"))
            .arg("--socket")
            .arg(daemon.socket())
            .arg("--shim")
            .arg(built().join("libmapper_omp.so"))
            .args(flags)
            .arg("--")
            .arg(&made.program)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            daemon,
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            _made: made,
        }
    }

    /// Its next line.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Sends it a line.
    pub(crate) fn say(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Sends it a line and returns its answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.line()
    }

    /// What `mapperctl explain` prints, on one line.
    pub(crate) fn explained(&self) -> String {
        let output = clean(built().join("mapperctl"))
            .args(["explain", "program", "--socket"])
            .arg(self.daemon.socket())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Lets it come to its end, and waits until the daemon has noticed.
    pub(crate) fn finish(mut self) -> ExitStatus {
        drop(self.input.take());
        let status = self.child.wait().unwrap();
        let daemon = self.daemon;
        eventually("the program is gone", || daemon.status().apps.is_empty());
        status
    }
}

impl Drop for Launched<'_> {
    fn drop(&mut self) {
        // The program's input ends with this, and it with that.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
