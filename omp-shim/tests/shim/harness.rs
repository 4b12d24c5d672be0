//! Compiles a test program and runs it with the shim and a page.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use mapper_abi::{
    Allocation, CpuMask, Generation, PageReader, PageWriter, Progress, RuntimeReport, TeamMode,
};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

// The benchmark of costs takes this file along, from another folder.
#[path = "turn.rs"]
pub(crate) mod turn;

/// A program that takes longer hangs: the longest takes seconds on a machine that has nothing else to do.
const LONGEST_RUN: Duration = Duration::from_secs(120);

/// A compiler, and with it a runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compiler {
    Gcc,
    Clang,
}

pub(crate) const COMPILERS: [Compiler; 2] = [Compiler::Gcc, Compiler::Clang];

impl Compiler {
    fn command(self, source: &Path) -> String {
        let language = source.extension().and_then(OsStr::to_str);
        let (variable, default) = match (self, language) {
            (Self::Gcc, Some("cpp")) => ("CXX_GCC", "g++"),
            (Self::Gcc, Some("f90")) => ("FC_GCC", "gfortran"),
            (Self::Gcc, _) => ("CC_GCC", "gcc"),
            (Self::Clang, Some("cpp")) => ("CXX_CLANG", "clang++"),
            (Self::Clang, _) => ("CC_CLANG", "clang"),
        };
        std::env::var(variable).unwrap_or_else(|_| default.to_owned())
    }

    /// The command that compiles `source` with OpenMP, and does not link it.
    pub(crate) fn to_object(self, source: &Path, output: &Path) -> Command {
        let mut command = Command::new(self.command(source));
        command.args(["-O1", "-w", "-fopenmp", "-c", "-o"]);
        command.arg(output).arg(source);
        command
    }

    /// Compiles a program of `tests/programs`.
    pub(crate) fn compile(self, source: &str, output: &Path, flags: &[&str]) -> PathBuf {
        turn::beside_others();
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/programs")
            .join(source);
        let command = self.command(&source);
        let result = Command::new(&command)
            .args(["-O1", "-g", "-Wall", "-o"])
            .arg(output)
            .arg(&source)
            .args(flags)
            .output()
            .unwrap_or_else(|error| {
                panic!("run {command}: {error}; install gcc, g++, gfortran, clang, libomp-dev")
            });
        let message = String::from_utf8_lossy(&result.stderr);
        assert!(
            result.status.success(),
            "{command} {}: {message}",
            source.display()
        );
        output.to_owned()
    }
}

/// A compiled program in a directory that goes with it.
pub(crate) struct Program {
    pub(crate) dir: TempDir,
    pub(crate) path: PathBuf,
}

impl Program {
    /// Compiles `source` with OpenMP.
    pub(crate) fn new(compiler: Compiler, source: &str) -> Self {
        Self::with_flags(compiler, source, &["-fopenmp"])
    }

    pub(crate) fn with_flags(compiler: Compiler, source: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = compiler.compile(source, &dir.path().join("program"), flags);
        Self { dir, path }
    }

    /// Runs it without the shim.
    pub(crate) fn run_plainly(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
        let mut command = self.plain_command();
        command.args(arguments).envs(environment.iter().copied());
        Outcome::of(&mut command)
    }

    /// The command that runs it without the shim.
    pub(crate) fn plain_command(&self) -> Command {
        clean_command(&self.path)
    }

    /// A way to run it with the shim.
    pub(crate) fn managed(&self) -> Managed {
        Managed::new(&self.path)
    }
}

/// What a program left behind.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: ExitStatus,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            status: output.status,
        }
    }
}

impl Outcome {
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::from(command.stdin(Stdio::null()).output().unwrap())
    }

    /// What it printed, if it succeeded without a complaint.
    pub(crate) fn output(&self) -> &str {
        assert!(self.status.success() && self.stderr.is_empty(), "{self:?}");
        &self.stdout
    }
}

/// A command without the settings of whoever runs the tests.
fn clean_command(path: &Path) -> Command {
    turn::beside_others();
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if ["OMP_", "GOMP_", "KMP_", "MAPPER_"]
            .iter()
            .any(|prefix| name_text.starts_with(prefix))
        {
            command.env_remove(&name);
        }
    }
    // Teams are larger than the machine here; long spinning would only make the tests slow.
    command
        .env("GOMP_SPINCOUNT", "100")
        .env("KMP_BLOCKTIME", "0");
    command
}

/// Does some work on one CPU of the machine; programs that it starts stay there, whatever their allocation
/// says.
pub(crate) fn on_one_cpu<T>(work: impl FnOnce() -> T) -> T {
    on_cpus(1, work)
}

/// The same with so many CPUs.
pub(crate) fn on_cpus<T>(count: usize, work: impl FnOnce() -> T) -> T {
    // A child has the CPUs of the thread that starts it.
    let before = sched_getaffinity(None).unwrap();
    let mut some = CpuSet::new();
    let all = (0..CpuSet::MAX_CPU).filter(|&cpu| before.is_set(cpu));
    all.take(count).for_each(|cpu| some.set(cpu));
    sched_setaffinity(None, &some).unwrap();
    let result = work();
    sched_setaffinity(None, &before).unwrap();
    result
}

/// The shim that cargo has built for this test.
pub(crate) fn shim() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let shim = test.parent().unwrap().join("libmapper_omp.so");
    assert!(
        shim.exists(),
        "{} is missing: run `cargo build -p mapper-omp-shim`",
        shim.display()
    );
    shim
}

/// A program that is to run with the shim and a page.
pub(crate) struct Managed {
    pub(crate) command: Command,
    pub(crate) page: Page,
}

/// The daemon's side of the page.
pub(crate) struct Page {
    pub(crate) writer: PageWriter,
    pub(crate) reader: PageReader,
}

impl Page {
    fn new() -> Self {
        let writer = PageWriter::create().unwrap();
        let reader = writer.reader().unwrap();
        Self { writer, reader }
    }

    /// The path under which others find it.
    pub(crate) fn path(&self) -> String {
        format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.writer.as_fd().as_raw_fd()
        )
    }

    /// Gives the program so many CPUs.
    pub(crate) fn allocate(&mut self, cpu_count: u32) {
        self.publish(cpu_count, TeamMode::Follow);
    }

    pub(crate) fn publish(&mut self, cpu_count: u32, team_mode: TeamMode) -> Generation {
        // Without a most.
        self.publish_of(0, cpu_count, team_mode)
    }

    /// Gives the program some CPUs of so many that it may get.
    pub(crate) fn publish_of(
        &mut self,
        most: u32,
        cpu_count: u32,
        team_mode: TeamMode,
    ) -> Generation {
        let cpus = CpuMask::from_cpus(0..cpu_count).unwrap();
        let allocation = Allocation {
            cpu_count,
            team_mode,
            cpus,
            node_mask: 1,
            max_team: most,
        };
        self.writer.publish(&allocation)
    }

    pub(crate) fn progress(&self) -> Progress {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        self.reader.progress(now_ns)
    }

    pub(crate) fn report(&self) -> RuntimeReport {
        self.reader.report()
    }
}

impl Managed {
    pub(crate) fn new(path: &Path) -> Self {
        let page = Page::new();
        let mut command = clean_command(path);
        command
            .env("LD_PRELOAD", shim())
            .env("OMP_TOOL_LIBRARIES", shim())
            .env("MAPPER_PAGE", page.path())
            .env("MAPPER_TOKEN", page.writer.token().to_string())
            .env("MAPPER_DEBUG", "1");
        Self { command, page }
    }

    /// Under `--teams follow`, starting with so many CPUs.
    pub(crate) fn following(mut self, cpu_count: u32) -> Self {
        self.command.env("MAPPER_TEAMS", "follow");
        self.page.allocate(cpu_count);
        self
    }

    /// Under `--teams virtual`, starting with so many CPUs.
    pub(crate) fn virtually(mut self, cpu_count: u32) -> Self {
        self.command.env("MAPPER_TEAMS", "virtual");
        self.page.publish(cpu_count, TeamMode::Virtual);
        self
    }

    /// With this many threads by default.
    pub(crate) fn threads(self, count: u32) -> Self {
        self.env("OMP_NUM_THREADS", &count.to_string())
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn args(mut self, arguments: &[&str]) -> Self {
        self.command.args(arguments);
        self
    }

    /// Runs it to its end.
    pub(crate) fn run(&mut self) -> Outcome {
        Outcome::of(&mut self.command)
    }

    /// Runs it to its end, with `meanwhile` done over and over until then.
    pub(crate) fn run_while(&mut self, mut meanwhile: impl FnMut(&mut Page)) -> Outcome {
        let command = self.command.stdin(Stdio::null());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + LONGEST_RUN;
        while child.try_wait().unwrap().is_none() {
            meanwhile(&mut self.page);
            std::thread::sleep(Duration::from_micros(300));
            if Instant::now() > deadline {
                child.kill().unwrap();
                let output = child.wait_with_output().unwrap();
                panic!("{:?} hangs: {output:?}", self.command);
            }
        }
        Outcome::from(child.wait_with_output().unwrap())
    }

    /// Starts it, to be talked with line by line.
    pub(crate) fn start(mut self) -> Dialogue {
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Dialogue {
            child,
            stdin: Some(stdin),
            stdout,
            page: self.page,
        }
    }
}

/// A running program that answers each line with one.
pub(crate) struct Dialogue {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub(crate) page: Page,
}

impl Dialogue {
    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }

    /// When thread `thread` of `parking.c` ran again, for which there has been a CPU since `since_ns`; waits until it
    /// does.
    pub(crate) fn resumed_ns(&mut self, thread: u32, since_ns: u64) -> u64 {
        let deadline = Instant::now() + LONGEST_RUN;
        loop {
            let resumed_ns = self.ask(&format!("resumed {thread}")).parse().unwrap();
            if resumed_ns >= since_ns {
                return resumed_ns;
            }
            assert!(Instant::now() < deadline, "thread {thread} stays parked");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The size of the team of the region that `line` asks for.
    pub(crate) fn team(&mut self, line: &str) -> u32 {
        let answer = self.ask(line);
        answer
            .parse()
            .unwrap_or_else(|_| panic!("{line:?} was answered by {answer:?}"))
    }

    /// Lets its threads run wherever the test may.
    pub(crate) fn move_to_cpus_of_the_test(&self) {
        let everywhere = sched_getaffinity(None).unwrap();
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        for task in tasks {
            let name = task.unwrap().file_name();
            let thread = Pid::from_raw(name.to_str().unwrap().parse().unwrap());
            sched_setaffinity(thread, &everywhere).unwrap();
        }
    }

    /// Lets it come to its end.
    pub(crate) fn finish(mut self) -> Page {
        drop(self.stdin.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        self.page
    }
}

/// The clock that programs read, too.
pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
