//! A private daemon and programs launched under it, for tests.
//!
//! The daemon gets a socket in a temporary directory and confines by affinity. A launched program
//! is a child of the test, started by a shell that waits for a line on its standard input: just as
//! mapper-launch makes its child wait until the daemon has answered.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub(crate) mod launcher;
pub(crate) mod scrape;

use mapper_abi::ClientPage;
use mapper_control::schema::{LaunchRequest, Status, Wishes};
use mapper_control::{Client, ClientError, Launched};
use mapper_model::{AppName, CpuSet, ThreadId};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One test at a time has a daemon. The launcher of all programs here is the test process: an only
/// child of it would be joined by those of the tests beside it, as orphans of the program are.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

thread_local! {
    /// Held from a test's first daemon to its end.
    static ALONE: MutexGuard<'static, ()> =
        ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
}

/// A daemon that is ended whatever happens to the test.
pub(crate) struct Daemon {
    pub(crate) child: Child,
    pub(crate) dir: tempfile::TempDir,
}

impl Daemon {
    /// Of this build, or of the one that `MAPPERD` names, to compare with.
    pub(crate) fn command() -> Command {
        let built = env!("CARGO_BIN_EXE_mapperd").into();
        let mut command = Command::new(std::env::var_os("MAPPERD").unwrap_or(built));
        for variable in [
            "NOTIFY_SOCKET",
            "WATCHDOG_USEC",
            "JOURNAL_STREAM",
            "MAPPER_LOG",
            "STATE_DIRECTORY",
        ] {
            command.env_remove(variable);
        }
        command
    }

    /// Starts one and waits until it answers.
    pub(crate) fn start() -> Self {
        Self::start_with(&["--interval", "50ms"])
    }

    pub(crate) fn start_with(flags: &[&str]) -> Self {
        Self::start_as(Self::command(), tempfile::tempdir().unwrap(), flags)
    }

    /// Starts one by a prepared [command](Self::command).
    pub(crate) fn start_as(command: Command, dir: tempfile::TempDir, flags: &[&str]) -> Self {
        ALONE.with(|_| ());
        let daemon = Self {
            child: Self::spawn(command, dir.path(), flags),
            dir,
        };
        // The kernel lets clients connect before the daemon has read what an earlier one left.
        eventually("the daemon answers", || {
            let client = daemon.try_client();
            client.is_ok_and(|mut client| client.status().is_ok())
        });
        daemon
    }

    /// Another one in the place of one that has ended.
    pub(crate) fn start_again(&mut self) {
        let ready = |log: String| log.matches(" ready socket=").count();
        let before = ready(self.log());
        self.child = Self::spawn(Self::command(), self.dir.path(), &["--interval", "50ms"]);
        eventually("the next daemon answers", || {
            self.try_client().is_ok_and(|mut client| {
                client
                    .status()
                    .is_ok_and(|status| status.daemon.pid == self.child.id())
            })
        });
        // It may answer before its log is written.
        eventually("its log says so", || ready(self.log()) > before);
    }

    /// Ends it without a chance to do anything, and starts another one.
    pub(crate) fn crash(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.start_again();
    }

    /// Starts one in a directory without waiting for it.
    pub(crate) fn spawn(mut command: Command, dir: &Path, flags: &[&str]) -> Child {
        let log = std::fs::File::options()
            .append(true)
            .create(true)
            .open(dir.join("log"))
            .unwrap();
        command
            .arg("--socket")
            .arg(dir.join("s"))
            .arg("--state-dir")
            .arg(dir.join("state"))
            .args(Self::enforcer())
            .args(["--counters", "software"])
            .args(flags)
            .args(Self::without_the_systems(flags))
            .args(Self::as_often_as_said(flags))
            .stderr(log)
            .spawn()
            .unwrap()
    }

    /// Below which group it makes those of applications: `MAPPER_TEST_GROUPS`; without, it confines by affinity.
    pub(crate) fn groups() -> Option<PathBuf> {
        std::env::var_os("MAPPER_TEST_GROUPS").map(PathBuf::from)
    }

    fn enforcer() -> Vec<std::ffi::OsString> {
        match Self::groups() {
            Some(groups) => vec![
                "--enforcer".into(),
                "cgroup".into(),
                "--cgroup-root".into(),
                groups.into(),
            ],
            None => vec!["--enforcer".into(), "affinity".into()],
        }
    }

    /// A configuration of the machine that the test runs on is none of its business.
    fn without_the_systems(flags: &[&str]) -> &'static [&'static str] {
        if flags.contains(&"--config") {
            &[]
        } else {
            &["--config", "/dev/null"]
        }
    }

    /// A daemon built for tests is slow, so that short intervals would be stretched.
    fn as_often_as_said(flags: &[&str]) -> &'static [&'static str] {
        let has = |flag| flags.contains(&flag);
        if has("--config") || has("--overhead-budget") {
            &[]
        } else {
            &["--overhead-budget", "0"]
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    pub(crate) fn try_client(&self) -> Result<Client, ClientError> {
        Client::connect(&self.socket(), PATIENCE)
    }

    pub(crate) fn client(&self) -> Client {
        self.try_client().unwrap()
    }

    pub(crate) fn status(&self) -> Status {
        self.client().status().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(pid(&self.child), signal).unwrap();
    }

    /// Stops it in order.
    pub(crate) fn stop(mut self) -> (ExitStatus, String) {
        self.signal(rustix::process::Signal::TERM);
        let status = self.child.wait().unwrap();
        (status, self.log())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("log of the daemon:\n{}", self.log());
        }
    }
}

/// A program that waits to be let go.
pub(crate) struct Program {
    pub(crate) child: Child,
}

impl Program {
    /// Starts a shell that waits for a line and then becomes `script`.
    pub(crate) fn waiting(script: &str) -> Self {
        let child = Command::new("sh")
            .args(["-c", &format!("read line; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child }
    }

    /// One that runs for long.
    pub(crate) fn sleeping() -> Self {
        Self::waiting("exec sleep 3600")
    }

    pub(crate) fn request(&self, name: &str) -> LaunchRequest {
        let wishes = Wishes::named(AppName::new(name).unwrap());
        LaunchRequest::new(self.child.id(), ["test"], wishes)
    }

    pub(crate) fn go(&mut self) {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
    }

    pub(crate) fn cpus(&self) -> CpuSet {
        cpus_of(self.child.id())
    }

    pub(crate) fn output(&mut self) -> String {
        let mut text = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A launched program with its lease.
pub(crate) struct Running {
    pub(crate) program: Program,
    pub(crate) client: Client,
    pub(crate) launched: Launched,
}

impl Running {
    /// The page as the program sees it.
    pub(crate) fn page(&self) -> ClientPage {
        let page = self.launched.page.as_ref().unwrap();
        let token = self.launched.reply.token.as_ref().unwrap();
        let path = format!("/proc/self/fd/{}", page.as_raw_fd());
        ClientPage::open(path.as_ref(), token.parse().unwrap()).unwrap()
    }
}

pub(crate) fn launch(daemon: &Daemon, name: &str) -> Running {
    launch_program(daemon, Program::sleeping(), name)
}

pub(crate) fn launch_program(daemon: &Daemon, mut program: Program, name: &str) -> Running {
    let mut client = daemon.client();
    let launched = client.launch(program.request(name)).unwrap();
    program.go();
    Running {
        program,
        client,
        launched,
    }
}

/// The CPUs a process may use.
pub(crate) fn cpus_of(pid: u32) -> CpuSet {
    mapper_host::enforce::masks::get(ThreadId(pid)).unwrap()
}

pub(crate) fn all_cpus() -> CpuSet {
    mapper_host::cpus::own_affinity().unwrap()
}

/// For tests that run the daemon under `strace`.
pub(crate) fn require_strace() {
    let found = Command::new("strace").arg("-V").output();
    assert!(
        found.is_ok(),
        "strace is missing; run this: cargo xtask setup tests"
    );
}

pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn pid(child: &Child) -> rustix::process::Pid {
    rustix::process::Pid::from_child(child)
}

pub(crate) fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
