//! Tests of the package mapperd that are run here, too: with control groups, a journal that nobody reads, a file system that
//! hangs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::application::{Application, Runtime, launch};
use crate::daemon::{UNIT, main_pid, output_of, property, status, status_of, systemctl};
use crate::drop_in::DropIn;
use crate::kernel::{group_of, groups_below, is_running, online_cpus, wait_for, wait_long_for};
use crate::users::User;

/// The test in `mapperd/tests/flood.rs`.
const FLOOD: &str =
    "whatever_users_do_root_is_answered_others_launch_and_every_interval_is_decided";

const FOLDER: &str = "/tmp/hangs";

/// The first of those users and its range, as the other test has them.
const RANGE: &str = "61101:400000:65536\n";

const CONFIGURATION: &str = "/etc/mapper/mapper.toml";

/// The socket of the metrics that the configuration names, commented out.
const METRICS: &str = "/run/mapper/metrics.sock";

/// What the flood takes from the environment, unless that says otherwise. Who floods has two of the emulated CPUs, since
/// all of them share the few of the host. A plain start of a program takes thirty times as long on them as on a machine
/// (see the book's page on security); the goals are to hold at ten times. In ten seconds a slow host sees five launches,
/// whose median scatters.
const SIZE: [(&str, &str); 6] = [
    ("MAPPER_FLOOD_SOCKET", "/run/mapper/mapper.sock"),
    ("MAPPER_FLOOD_METRICS", METRICS),
    ("MAPPER_FLOOD_USERS", "4"),
    ("MAPPER_FLOOD_SECONDS", "30"),
    ("MAPPER_FLOOD_CPUS", "14,15"),
    ("MAPPER_FLOOD_SLOWER", "10"),
];

/// A process that does not run until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(pid: u32) -> Result<Self> {
        let pid = Pid::from_raw(pid.cast_signed());
        kill(pid, Signal::SIGSTOP).with_context(|| format!("stop {pid}"))?;
        Ok(Self(pid))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGCONT);
    }
}

/// A file system, and a program on it that waits for it in vain. Both end with this.
struct Hanging {
    server: Child,
    /// The program, or its launcher.
    program: Option<Child>,
}

impl Hanging {
    fn start(user: User, options: &[&str], locked: Option<&str>) -> Result<Self> {
        Self::start_by(locked, |program| {
            launch(user, &[&["--name", "hung"], options].concat(), program)
        })
    }

    /// In a group that is not mapper's, with its address space locked.
    fn start_in(group: &str) -> Result<Self> {
        Self::start_by(Some("locked"), |program| {
            let mut command = Command::new("sh");
            command.args(["-c", "echo $$ >\"$0\"/cgroup.procs && exec \"$@\"", group]);
            command.args(program);
            Ok(command)
        })
    }

    fn start_by(
        locked: Option<&str>,
        launch: impl FnOnce(&[&str]) -> Result<Command>,
    ) -> Result<Self> {
        fs::create_dir_all(FOLDER).with_context(|| format!("create {FOLDER}"))?;
        output_of(Command::new("modprobe").arg("fuse"))?;
        let mut server = Command::new("/usr/lib/mapper-tests/hangs");
        let server = server.args([FOLDER, "/usr/lib/mapper-tests/hung"]);
        let mut hanging = Self {
            server: started(server)?,
            program: None,
        };
        let (program, data) = (format!("{FOLDER}/program"), format!("{FOLDER}/data"));
        let program: Vec<&str> = [&program[..], &data].into_iter().chain(locked).collect();
        let mut program = launch(&program)?;
        let program = hanging
            .program
            .insert(started(program.stdin(Stdio::piped()))?);
        let server = Pid::from_raw(hanging.server.id().cast_signed());
        kill(server, Signal::SIGSTOP).context("stop the file system")?;
        let input = program.stdin.as_mut();
        let input = input.context("the program has no input")?;
        input.write_all(b"go\n").context("let the program go on")?;
        Ok(hanging)
    }

    fn program_hangs(&mut self) -> Result<()> {
        let program = self.program.as_mut().context("no program")?;
        let ended = program.try_wait().context("look at the program")?;
        ensure!(ended.is_none(), "the program does not hang: {ended:?}");
        Ok(())
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // The file system ends with its server, and processes that wait for it continue.
        let _ = self.server.kill();
        let _ = self.server.wait();
        if let Some(program) = &mut self.program {
            let _ = program.wait();
        }
        let _ = Command::new("umount").args(["--lazy", FOLDER]).status();
    }
}

/// A command that has said that it is ready.
fn started(command: &mut Command) -> Result<Child> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    let output = child.stdout.as_mut().context("it has no output")?;
    BufReader::new(output).read_line(&mut line)?;
    ensure!(line == "ready\n", "{name} said {line:?}");
    Ok(child)
}

pub(crate) fn whatever_users_do_root_is_answered_others_launch_and_every_interval_is_decided()
-> Result<()> {
    let ranges = fs::read_to_string("/etc/subuid").unwrap_or_default();
    fs::write("/etc/subuid", format!("{ranges}{RANGE}")).context("write /etc/subuid")?;
    let configuration = fs::read_to_string(CONFIGURATION).context("read the configuration")?;
    let with_metrics =
        configuration.replace("# socket = \"/run/mapper/m", "socket = \"/run/mapper/m");
    ensure!(
        with_metrics != configuration,
        "{CONFIGURATION} names no socket for metrics"
    );
    fs::write(CONFIGURATION, with_metrics).context("write the configuration")?;
    // For these, and to begin with no other test's memory.
    systemctl(&["restart", UNIT])?;
    let mut hanging = Hanging::start(User::Alice, &[], None)?;
    let journal: u32 = property("systemd-journald.service", "MainPID")?.parse()?;
    let stalled = Stopped::new(journal)?;
    let flooded = run("flood", FLOOD, &SIZE);
    drop(stalled);
    fs::write("/etc/subuid", ranges).context("write /etc/subuid")?;
    fs::write(CONFIGURATION, configuration).context("write the configuration")?;
    flooded?;
    hanging.program_hangs()
}

/// Its memory follows its CPUs, and the kernel cannot move it, as its address space is locked. Before Linux 6.18, changes
/// of other groups wait for that.
pub(crate) fn a_program_whose_memory_cannot_be_moved_holds_up_no_answer_and_no_decision()
-> Result<()> {
    let daemon = main_pid()?;
    let options = ["--mem", "local", "--no-lend"];
    let hanging = Hanging::start(User::Root, &options, Some("locked"))?;
    // Until its second thread waits for the lock.
    std::thread::sleep(Duration::from_secs(3));
    let first = Application::start("first", User::Alice, Runtime::Libgomp, &[])?;
    let mut more = Vec::new();
    let mut held = held_up(&first);
    // Each takes CPUs from it, until those that are left belong to fewer memory nodes.
    for name in ["third", "fourth", "fifth"] {
        if held.is_ok() {
            break;
        }
        let next = Application::start(name, User::Alice, Runtime::Libgomp, &[])?;
        held = held_up(&next);
        more.push(next);
    }
    println!("# held up: {}", held?);
    let began = Instant::now();
    let mut launch = launch(User::Alice, &["--name", "second"], &["true"])?;
    let output = launch.output().context("start mapper-launch")?;
    let error = String::from_utf8_lossy(&output.stderr);
    let answered = began.elapsed();
    println!("# a launch was answered after {answered:?}: {error}");
    ensure!(
        output.status.success() || error.contains("the kernel has held up"),
        "a launch ended with {}: {error}",
        output.status
    );
    ensure!(answered < Duration::from_secs(20), "it took {answered:?}");
    let decisions = || {
        let reply = status()?;
        let decisions = reply["daemon"]["decisions"].as_u64();
        ensure!(reply["daemon"]["held_up"].is_object(), "it has ended");
        decisions.context("status tells no decisions")
    };
    let before = decisions()?;
    wait_for("decisions to go on", || {
        let now = decisions()?;
        ensure!(now >= before + 3, "{now} after {before}");
        Ok(())
    })?;
    let explained = Command::new("mapperctl")
        .args(["explain", "first"])
        .output();
    ensure!(explained?.status.success(), "explain was not answered");
    let all = online_cpus()?;
    drop((hanging, more));
    wait_for("the other to have all CPUs", || {
        let cpus = first.cpus()?;
        ensure!(cpus == all, "it has {cpus}");
        ensure!(status()?["daemon"]["held_up"].is_null(), "held up");
        Ok(())
    })?;
    output_of(&mut launch)?;
    ensure!(main_pid()? == daemon, "the daemon was started again");
    Ok(())
}

/// A group that is not mapper's, and goes with this.
struct Others;

impl Others {
    const PATH: &str = "/sys/fs/cgroup/others";

    /// With a value in one of its files.
    fn with(file: &str, value: &str) -> Result<Self> {
        fs::create_dir(Self::PATH).with_context(|| format!("create {}", Self::PATH))?;
        let others = Self;
        let file = format!("{}/{file}", Self::PATH);
        fs::write(&file, value).with_context(|| format!("write {file}"))?;
        Ok(others)
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        let _ = wait_for("the other group to be empty", || {
            Ok(fs::remove_dir(Self::PATH)?)
        });
    }
}

/// The kernel waits for the lock of the address space with all cpusets locked: no CPUs are set meanwhile, by nobody.
pub(crate) fn memory_that_others_bind_and_that_cannot_be_moved_holds_up_no_decision() -> Result<()>
{
    // What mapper has bound makes it careful.
    systemctl(&["restart", UNIT])?;
    let daemon = main_pid()?;
    let _others = Others::with("cpuset.mems", "0")?;
    let stays = Application::start("stays", User::Alice, Runtime::Libgomp, &[])?;
    let ends = Application::start("ends", User::Alice, Runtime::Libgomp, &[])?;
    let hanging = Hanging::start_in(Others::PATH)?;
    // Until its second thread waits for the lock.
    std::thread::sleep(Duration::from_secs(3));
    let binds = std::thread::spawn(|| fs::write(format!("{}/cpuset.mems", Others::PATH), "1"));
    std::thread::sleep(Duration::from_secs(1));
    ensure!(!binds.is_finished(), "the memory was moved");
    let decisions = || {
        let decisions = status()?["daemon"]["decisions"].as_u64();
        decisions.context("status tells no decisions")
    };
    let (before, began) = (decisions()?, Instant::now());
    // Its threads end at once, and its CPUs become the other's.
    ends.end(Signal::SIGKILL)?;
    let held = wait_for("a change to be held up", || {
        let held = status()?["daemon"]["held_up"]["change"].clone();
        held.as_str().map(str::to_owned).context("none is")
    });
    println!("# after {:?} held up: {}", began.elapsed(), held?);
    wait_for("decisions to go on", || {
        let now = decisions()?;
        ensure!(now >= before + 5, "{now} after {before}");
        Ok(())
    })?;
    ensure!(!binds.is_finished(), "the memory was moved meanwhile");
    drop(hanging);
    let bound = binds.join();
    let bound = bound.map_err(|_| anyhow!("the thread that binds memory panicked"))?;
    bound.context("bind memory")?;
    let all = online_cpus()?;
    wait_for("the other to have all CPUs", || {
        let cpus = stays.cpus()?;
        ensure!(cpus == all, "it has {cpus}");
        ensure!(status()?["daemon"]["held_up"].is_null(), "held up");
        Ok(())
    })?;
    ensure!(main_pid()? == daemon, "the daemon was started again");
    Ok(())
}

/// A thread that starts programs: where no thread can be started any more, it cannot be started either.
struct Starts {
    ask: mpsc::Sender<()>,
    started: mpsc::Receiver<bool>,
}

impl Starts {
    fn new() -> Self {
        let (ask, asked) = mpsc::channel();
        let (answer, started) = mpsc::channel();
        std::thread::spawn(move || {
            for () in asked {
                let status = Command::new("true").status();
                let _ = answer.send(status.is_ok_and(|status| status.success()));
            }
        });
        Self { ask, started }
    }

    /// Whether programs start and end, after what was done. If not, file systems of users are ended, so that this test can
    /// end.
    fn check(&self, done: &str) -> Result<()> {
        let began = Instant::now();
        self.ask.send(()).context("ask for a program")?;
        let started = self.started.recv_timeout(Duration::from_secs(5));
        if started.is_err() {
            for connection in groups_below(Path::new("/sys/fs/fuse/connections"))? {
                fs::write(connection.join("abort"), "1").context("end a file system")?;
            }
        }
        let after = began.elapsed();
        ensure!(started == Ok(true), "{done}, {started:?} after {after:?}");
        println!("# {done}, a program was started and had ended after {after:?}");
        Ok(())
    }
}

/// To move it between groups of other CPUs, the kernel waits for its address space with the lock of all groups held, without
/// which no process of the machine starts or ends.
pub(crate) fn a_process_whose_address_space_is_locked_is_moved_without_stopping_the_machine()
-> Result<()> {
    let _allowed = DropIn::for_adopting()?;
    let others = Others::with("cpuset.cpus", "0-3")?;
    let _rival = Application::start("rival", User::Alice, Runtime::Libgomp, &[])?;
    let starts = Starts::new();
    let hanging = Hanging::start_in(Others::PATH)?;
    // Until its second thread waits for the lock.
    std::thread::sleep(Duration::from_secs(3));
    starts.check("it hangs")?;
    let program = hanging.program.as_ref().context("no program")?;
    let number = program.id().to_string();
    let mapperctl = |arguments: &[&str]| {
        let mut command = Command::new("mapperctl");
        command.args(arguments).spawn().context("start mapperctl")
    };
    let mut adopt = mapperctl(&["adopt", "--pid", &number, "--name", "locked"])?;
    std::thread::sleep(Duration::from_secs(2));
    starts.check("it was adopted")?;
    ensure!(adopt.wait()?.success(), "it was not adopted");
    wait_for("it to have CPUs of its own", || {
        let cpus = status_of("locked")?["cpus"].clone();
        ensure!(
            cpus != "0-3" && cpus != online_cpus()?.to_string(),
            "{cpus}"
        );
        Ok(())
    })?;
    let mut release = mapperctl(&["release", "locked"])?;
    std::thread::sleep(Duration::from_secs(2));
    starts.check("it was released")?;
    ensure!(release.wait()?.success(), "it was not released");
    let group = group_of(program.id())?;
    ensure!(
        group == Path::new(Others::PATH),
        "it is in {}",
        group.display()
    );
    drop(hanging);
    drop(others);
    Ok(())
}

/// Starts a program, and once there is a file has it managed as an application of its own.
const LAUNCHES: &str = r#"
go=$1 tests=$2
shift 2
exec 3<&0
"$@" <&3 &
until [ -e "$go" ]; do sleep 0.1; done
call="{\"protocol\":2,\"pid\":$!,\"name\":\"inner\",\"runtime\":\"off\"}"
exec "$tests" call org.mapper.Control.Launch "$call""#;

/// It is moved from the group of the application that launches it to one of its own.
pub(crate) fn a_process_whose_address_space_is_locked_is_launched_within_an_application_without_stopping_the_machine()
-> Result<()> {
    let _rival = Application::start("rival", User::Bob, Runtime::Libgomp, &[])?;
    let folder = tempfile::tempdir().context("create a folder")?;
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), open).context("open the folder")?;
    let go = folder.path().join("go");
    let tests = std::env::current_exe().context("find this program")?;
    let starts = Starts::new();
    let hanging = Hanging::start_by(Some("locked"), |program| {
        let (go, tests) = (go.to_string_lossy(), tests.to_string_lossy());
        let shell = ["sh", "-c", LAUNCHES, "sh", &go, &tests];
        let options = ["--name", "outer", "--no-lend"];
        launch(User::Alice, &options, &[&shell, program].concat())
    })?;
    wait_for("the outer application to have fewer CPUs than all", || {
        let cpus = status_of("outer")?["cpus"].clone();
        ensure!(cpus != online_cpus()?.to_string(), "{cpus}");
        Ok(())
    })?;
    // Until its second thread waits for the lock.
    std::thread::sleep(Duration::from_secs(3));
    starts.check("it hangs")?;
    fs::write(&go, "").context("let it be launched")?;
    std::thread::sleep(Duration::from_secs(2));
    starts.check("it was launched")?;
    let inner = wait_for("it to be managed", || status_of("inner"))?;
    let pid = inner["pid"].as_u64().context("it has no process")?;
    let pid = u32::try_from(pid)?;
    let command = fs::read_to_string(format!("/proc/{pid}/comm"))?;
    ensure!(command == "program\n", "{command:?} was launched");
    let (group, own) = (group_of(pid)?, format!("app-{}", inner["id"]));
    ensure!(group.ends_with(&own), "it is in {}", group.display());
    ensure!(is_running(pid), "it does not hang");
    drop(hanging);
    wait_for("it to end", || {
        ensure!(!is_running(pid), "process {pid}");
        Ok(())
    })
}

/// The move of memory that the kernel holds up, within some decisions after an application's arrival.
fn held_up(after: &Application) -> Result<String> {
    let held = wait_long_for(
        Duration::from_secs(15),
        "the kernel to hold up a move",
        || {
            let held = status()?["daemon"]["held_up"].clone();
            let change = held["change"].as_str().context("nothing is held up")?;
            ensure!(change.contains("cpuset.mems"), "held up is {change}");
            Ok(change.to_owned())
        },
    );
    held.with_context(|| format!("{} has arrived", after.name()))
}

/// Runs one of the daemon's own tests, with variables unless the environment has them.
pub(crate) fn run(program: &str, test: &str, variables: &[(&str, &str)]) -> Result<()> {
    let mut command = Command::new(format!("/usr/lib/mapper-tests/{program}"));
    command.args([test, "--exact", "--nocapture"]);
    for (name, value) in variables {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    let output = command.output().with_context(|| format!("run {program}"))?;
    let mut is_left_out = false;
    for text in [&output.stdout, &output.stderr] {
        for line in String::from_utf8_lossy(text).lines() {
            is_left_out |= line.starts_with(LEFT_OUT);
            println!("# {line}");
        }
    }
    ensure!(output.status.success(), "{program} {test} failed");
    ensure!(!is_left_out, "{program} {test} was left out");
    Ok(())
}

/// What a test says that cannot be made here; in the guest each can.
const LEFT_OUT: &str = "left out: ";

pub(crate) fn a_process_that_has_the_number_of_an_earlier_one_is_not_taken_for_it() -> Result<()> {
    let variables = [("MAPPERD", "/usr/bin/mapperd")];
    for test in [
        "a_launch_takes_no_process_that_has_the_number_of_the_one_that_was_launched",
        "the_next_daemon_takes_over_no_process_that_has_the_number_of_one_that_has_ended",
    ] {
        run("reused_number", test, &variables)?;
    }
    Ok(())
}

/// Tests in `mapperd/tests/many_crashes.rs` and `crowd.rs`.
const FAULTS: &str = "whichever_operation_fails_or_ends_the_daemon_the_next_one_takes_over";

/// The group below which its daemon makes those of applications.
const GROUPS: &str = "/sys/fs/cgroup/mapper-faults";

const KILLS: &str = "after_kills_at_random_moments_every_program_is_taken_over_and_confined";

const COSTS: &str = "a_launch_an_end_and_a_pass_cost_in_proportion_to_the_applications";

const FILES: &str = "the_deciding_thread_opens_no_file_that_a_program_can_make_it_wait_for";

pub(crate) fn whichever_operation_on_a_group_fails_the_next_daemon_takes_over() -> Result<()> {
    with_groups("many_crashes", FAULTS)
}

pub(crate) fn programs_in_groups_are_taken_over_after_kills_at_random_moments() -> Result<()> {
    with_groups("many_crashes", KILLS)
}

pub(crate) fn launches_ends_and_passes_cost_in_proportion_to_the_groups() -> Result<()> {
    with_groups("crowd", COSTS)
}

pub(crate) fn the_deciding_thread_opens_no_file_that_a_program_can_make_it_wait_for() -> Result<()>
{
    with_groups("many_crashes", FILES)
}

/// Runs a test of `mapperd/tests/` with a daemon that confines by control groups.
fn with_groups(program: &str, test: &str) -> Result<()> {
    let variables = [
        ("MAPPERD", "/usr/bin/mapperd"),
        ("MAPPER_TEST_GROUPS", GROUPS),
        // Where each takes ten times as long.
        ("MAPPER_TEST_APPS", "8,64"),
    ];
    let outcome = run(program, test, &variables);
    wait_for("the groups to be empty", || {
        let groups = groups_below(Path::new(GROUPS))?;
        for group in groups
            .iter()
            .map(PathBuf::as_path)
            .chain([Path::new(GROUPS)])
        {
            fs::remove_dir(group).with_context(|| format!("remove {}", group.display()))?;
        }
        Ok(())
    })?;
    outcome
}
