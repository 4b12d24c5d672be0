//! What the launcher's tests share: a stage with a daemon that grants whatever it is asked for, a
//! program that tells what reaches it, and a terminal with a shell on it.

#![allow(dead_code)] // each test binary uses a part
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

pub(crate) mod terminal;

use mapper_control::Request;
use mapper_control::fake::{Answer, FakeDaemon};
use mapper_model::CpuSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program under test.
pub(crate) const LAUNCHER: &str = env!("CARGO_BIN_EXE_mapper-launch");

/// How long anything may take that takes milliseconds on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A folder with a socket in it, and perhaps a daemon behind that.
pub(crate) struct Stage {
    pub(crate) folder: TempDir,
    pub(crate) daemon: Option<FakeDaemon>,
}

impl Stage {
    /// With a daemon that grants CPUs 0 and 1 of 4.
    pub(crate) fn new() -> Self {
        let mut stage = Self::without_daemon();
        let cpus = CpuSet::first(2);
        stage.daemon = Some(FakeDaemon::granting(&stage.socket(), cpus, 4).unwrap());
        stage
    }

    /// Without a daemon.
    pub(crate) fn without_daemon() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            folder,
            daemon: None,
        }
    }

    /// With a daemon that behaves so.
    pub(crate) fn with_daemon(behave: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let mut stage = Self::without_daemon();
        stage.daemon = Some(FakeDaemon::start(&stage.socket(), behave).unwrap());
        stage
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("mapper.sock")
    }

    pub(crate) fn daemon(&self) -> &FakeDaemon {
        self.daemon.as_ref().expect("a stage with a daemon")
    }

    /// `mapper-launch FLAGS -- COMMAND`.
    pub(crate) fn launch(&self, flags: &[&str], command: &[&str]) -> Command {
        let mut launch = self.bare(LAUNCHER);
        launch.args(flags).arg("--").args(command);
        launch
    }

    /// A program in an environment that has nothing of mapper's or OpenMP's but the socket and the
    /// stand-in for the shim. Signals that whoever runs the tests ignores (`nohup` does, and so does a shell
    /// for what it puts in the background) are as they are in a terminal.
    pub(crate) fn bare(&self, program: &str) -> Command {
        let mut command = Command::new("/usr/bin/env");
        command.args(["--default-signal=HUP,INT,QUIT", program]);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let meddles = ["OMP_", "GOMP_", "KMP_", "MAPPER_", "LD_", "ASAN_"];
            if meddles.iter().any(|start| text.starts_with(start)) {
                command.env_remove(&name);
            }
        }
        command
            .env("MAPPER_SOCKET", self.socket())
            .env("MAPPER_SHIM", shim());
        command
    }
}

/// What a finished command left.
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// Runs a command to its end without input.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Outcome {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A running command whose input and output the test holds.
pub(crate) struct Running {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The next line of output, without its end; empty at the end of the output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The probe's pid, from its line "ready PID".
    pub(crate) fn ready(&mut self) -> i32 {
        let line = self.line();
        let pid = line.strip_prefix("ready ");
        pid.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap()
    }

    /// All further lines, after the program was asked to end.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        drop(self.input.take());
        let mut lines = Vec::new();
        loop {
            match self.line() {
                line if line.is_empty() => return lines,
                line => lines.push(line),
            }
        }
    }

    /// The status, once it has ended because its input did.
    pub(crate) fn end(&mut self) -> ExitStatus {
        drop(self.input.take());
        self.wait()
    }

    /// The status, once it has ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that failed shall not leave anything behind. The program's input ends with this.
        drop(self.input.take());
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            kill(self.pid(), libc::SIGCONT);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Sends a signal to a process, or to a group if negative.
pub(crate) fn kill(pid: i32, signal: i32) {
    // SAFETY: plain numbers.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "kill {signal} {pid}");
}

/// Waits until something is true.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain waited for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The state letter of a process (`R`, `S`, `T`, `Z`), if it is there.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether a process has ended, reaped or not: an orphan is left to whoever reaps those of the machine.
pub(crate) fn has_ended(pid: i32) -> bool {
    matches!(state(pid), None | Some('Z' | 'X'))
}

/// The parent of a process.
pub(crate) fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.split(' ').nth(1).unwrap().parse().unwrap()
}

/// The launcher's witness, the one child that is not the program.
pub(crate) fn witness(launcher: i32, program: i32) -> Option<i32> {
    children(launcher).into_iter().find(|pid| *pid != program)
}

/// Waits until the launcher has a witness other than the one before. Until then it cannot tell a signal to the
/// group from others, nor a second one of the same number from the first.
pub(crate) fn wait_for_witness(launcher: i32, program: i32, before: Option<i32>) {
    eventually("a fresh witness is there", || {
        children(launcher).len() == 2 && witness(launcher, program) != before
    });
}

/// The children of a process.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

/// How a status looks: "exit 3" or "signal 15".
pub(crate) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => format!("{status:?}"),
    }
}

/// The program of `programs/probe.c`.
pub(crate) fn probe() -> &'static str {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| compiled("probe.c", "probe", &[]))
        .to_str()
        .unwrap()
}

/// The library of `programs/shim.c`.
pub(crate) fn shim() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| compiled("shim.c", "shim.so", &["-shared", "-fPIC"]))
}

/// The shim itself, which cargo puts beside the tests.
pub(crate) fn real_shim() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let shim = test.with_file_name("libmapper_omp.so");
    assert!(shim.exists(), "{} is missing", shim.display());
    shim
}

/// Compiles a program with the C compiler that rustc links with.
pub(crate) fn compiled(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    compiled_by("cc", source, name, flags)
}

/// Compiles a program with this compiler.
pub(crate) fn compiled_by(compiler: &str, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source);
    // Several tests and test processes may do this at once.
    let fresh = tempfile::tempdir_in(folder).unwrap();
    let made = fresh.path().join(name);
    let mut command = Command::new(compiler);
    command.args(["-O1", "-Wall", "-Werror", "-o"]);
    command.arg(&made).arg(&source).args(flags);
    let is_compiled = command.status().is_ok_and(|status| status.success());
    assert!(
        is_compiled,
        "{compiler} {} {flags:?} failed; `cargo xtask setup tests` installs what tests need",
        source.display()
    );
    let built = folder.join(name);
    std::fs::rename(made, &built).unwrap();
    built
}
