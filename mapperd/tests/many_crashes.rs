//! Kills, damaged files and failing operations. How many: `MAPPER_KILLS`, `MAPPER_PROGRAMS`, `MAPPER_DAMAGED`,
//! `MAPPER_INJECTED`. With `MAPPER_TEST_GROUPS` (in the guest) the daemon confines by control groups below that one, and
//! every operation on those fails in turn, too. And what could hold the daemon up: which files its deciding thread opens.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use mapper_control::schema::{
    AdoptRequest, AdoptTarget, LaunchRequest, MemoryPolicy, Partition, Wishes,
};
use mapper_model::AppName;
use private_daemon::{
    Daemon, Program, Running, all_cpus, eventually, launch, launch_program, require_strace,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

fn size(variable: &str, few: u64) -> u64 {
    std::env::var(variable).map_or(few, |text| text.parse().unwrap())
}

/// A number that looks random, another for each.
fn scattered(number: u64) -> usize {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33).unwrap()
}

/// How soon after a kill the next daemon answers, also on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Every program is managed, and has the CPUs that the daemon reports and no other.
fn assert_whole(daemon: &Daemon, running: &[Running], what: &str) {
    eventually(
        &format!("all are taken over and confined after {what}"),
        || {
            let apps = daemon.status().apps;
            let confined = |running: &Running| {
                let app = running.launched.reply.app;
                let found = apps.iter().find(|found| found.id == app);
                found.is_some_and(|found| found.cpus == running.program.cpus())
            };
            apps.len() == running.len() && running.iter().all(confined)
        },
    );
}

#[test]
fn after_kills_at_random_moments_every_program_is_taken_over_and_confined() {
    let (kills, programs) = (size("MAPPER_KILLS", 10), size("MAPPER_PROGRAMS", 5));
    let mut daemon = Daemon::start();
    let launch = |number| launch(&daemon, &format!("program-{number}"));
    let running: Vec<_> = (0..programs).map(launch).collect();
    assert_whole(&daemon, &running, "the launches");
    let mut answered = Vec::new();
    for kill in 0..kills {
        let moment = scattered(kill);
        if kill % 2 == 0 {
            std::thread::sleep(Duration::from_millis(moment as u64 % 120));
            let killed = Instant::now();
            daemon.crash();
            answered.push(killed.elapsed());
            assert_whole(&daemon, &running, &format!("kill {kill}"));
        } else {
            // While it starts or takes over.
            daemon.child.kill().unwrap();
            daemon.child.wait().unwrap();
            let command = Daemon::command();
            daemon.child = Daemon::spawn(command, daemon.dir.path(), &["--interval", "50ms"]);
            std::thread::sleep(Duration::from_micros(moment as u64 % 60_000));
        }
    }
    let killed = Instant::now();
    daemon.crash();
    answered.push(killed.elapsed());
    assert_whole(&daemon, &running, "the last kill");
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
    answered.sort_unstable();
    let (median, most) = (answered[answered.len() / 2], answered[answered.len() - 1]);
    println!(
        "{kills} kills under {programs} programs: all taken over each time; {} times from a kill to the next daemon's first \
         answer: {median:.1?} at the median, {most:.1?} at most",
        answered.len()
    );
    assert!(most < ANSWERED_WITHIN, "no answer for {most:?}");
}

#[test]
fn no_damaged_state_ends_a_start_or_loses_a_program() {
    let damaged = size("MAPPER_DAMAGED", 10);
    let mut daemon = Daemon::start();
    let running = [launch(&daemon, "kept")];
    let state = daemon.dir.path().join("state");
    let (file, previous) = (state.join("state.json"), state.join("state.json.previous"));
    eventually("two states are saved", || previous.exists());
    daemon.crash();
    for number in 0..damaged {
        let (place, what) = (scattered(number), scattered(number + damaged));
        daemon.child.kill().unwrap();
        daemon.child.wait().unwrap();
        let mut bytes = std::fs::read(&file).unwrap();
        // The two may be one file with two names.
        let _ = std::fs::remove_file(&previous);
        std::fs::rename(&file, &previous).unwrap();
        let place = place % bytes.len();
        match what % 4 {
            0 => bytes.truncate(place),
            1 => bytes[place] = (what >> 8) as u8,
            2 => drop(bytes.splice(place..place, *b"1")),
            _ => drop(bytes.remove(place)),
        }
        std::fs::write(&file, bytes).unwrap();
        daemon.start_again();
        assert_whole(&daemon, &running, &format!("damage {number}"));
        let left = running[0].program.cpus();
        assert!(left.difference(&all_cpus()).is_empty(), "{left}");
    }
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
    println!("{damaged} damaged files: taken over each time");
}

/// Every call of the kernel by which the daemon changes anything: files of the state, sockets, threads, masks, memory.
/// Those with a `?` are not on every architecture.
const OPERATIONS: [&str; 17] = [
    "?open",
    "openat",
    "write",
    "renameat",
    "linkat",
    "unlinkat",
    "?mkdir",
    "?chmod",
    "?unlink",
    "flock",
    "bind",
    "listen",
    "clone3",
    "sched_setaffinity",
    "memfd_create",
    "ftruncate",
    "sendmsg",
];

/// The state is written here, and then takes the place of the one before.
const NEW_STATE: &str = "state/state.json.new";

/// Its standard error.
const LOG: &str = "log";

/// Everything that is done to control groups: the call, and the file of a group; of its directory, if there is none.
const GROUP_OPERATIONS: [(&str, &str); 17] = [
    ("mkdirat", ""),
    ("unlinkat", ""),
    ("openat2", ""),
    ("openat2", "cgroup.procs"),
    ("openat2", SUBTREE),
    ("openat2", "cpu.weight"),
    ("openat2", "cpuset.cpus"),
    ("openat2", "cpuset.mems"),
    ("openat2", "cpuset.cpus.exclusive"),
    ("openat2", "cpuset.cpus.partition"),
    ("write", "cgroup.procs"),
    ("write", SUBTREE),
    ("write", "cpu.weight"),
    ("write", "cpuset.cpus"),
    ("write", "cpuset.mems"),
    ("write", "cpuset.cpus.exclusive"),
    ("write", "cpuset.cpus.partition"),
];

/// The group of a process that is adopted, beside the one for groups.
const HOME: &str = "mapper-visitor";

/// What is done to that group when the process is released.
const HOME_OPERATIONS: [(&str, &str); 2] = [("openat2", ""), ("write", "cgroup.procs")];

/// What `strace` writes.
const TRACE: &str = "trace";

/// How long to wait for the first such call, on a busy machine, too.
const FIRST_CALL: Duration = Duration::from_secs(5);

const SUBTREE: &str = "cgroup.subtree_control";

const EFFECTS: [&str; 2] = ["signal=KILL", "error=EIO"];
const EFFECTS_ON_GROUPS: [&str; 5] = [
    "signal=KILL",
    "error=EIO",
    "error=EBUSY",
    "error=EACCES",
    "error=ENOSPC",
];

/// Which files it is done to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum File {
    Any,
    /// This one of the daemon's directory.
    Own(&'static str),
    /// This one of every control group.
    OfGroups(&'static str),
    /// This one of the group that a process is adopted from.
    OfHome(&'static str),
}

/// Where and how something fails.
#[derive(Debug)]
struct Point {
    call: &'static str,
    file: File,
    effect: &'static str,
    /// The how manyth such call of a thread.
    when: u64,
}

/// On control groups, without `MAPPER_INJECTED`, two effects on those alone: each point takes seconds in the guest.
fn points() -> Vec<Point> {
    let most = size("MAPPER_INJECTED", 1);
    let few = Daemon::groups().is_some() && std::env::var_os("MAPPER_INJECTED").is_none();
    let calls = OPERATIONS.iter().flat_map(|call| {
        let effects = EFFECTS.iter();
        effects.map(|effect| (*call, File::Any, *effect))
    });
    // The event loop wakes itself by writing to its own eventfd, which never fails, and panics if it does. So writes fail
    // at files only.
    let calls = calls.filter(|(call, _, effect)| (*call, *effect) != ("write", "error=EIO"));
    let of_files =
        [NEW_STATE, LOG].map(|file| EFFECTS.map(|effect| ("write", File::Own(file), effect)));
    let calls = calls.chain(of_files.into_iter().flatten()).filter(|_| !few);
    let of_groups = GROUP_OPERATIONS.map(|(call, file)| (call, File::OfGroups(file)));
    let of_home = HOME_OPERATIONS.map(|(call, file)| (call, File::OfHome(file)));
    let on_groups = of_groups.into_iter().chain(of_home);
    let on_groups = on_groups.flat_map(|(call, file)| {
        let effects = EFFECTS_ON_GROUPS.iter();
        let effects = effects.take(if few { EFFECTS.len() } else { usize::MAX });
        effects.map(move |effect| (call, file, *effect))
    });
    let on_groups = on_groups.filter(|_| Daemon::groups().is_some());
    let each = on_groups.chain(calls).flat_map(|(call, file, effect)| {
        (1..=most).map(move |when| Point {
            call,
            file,
            effect,
            when,
        })
    });
    each.collect()
}

impl Point {
    /// The daemon of this directory under `strace`, which makes this call fail or ends the daemon there. `next` is the
    /// application that is launched next.
    fn command(&self, dir: &Path, next: u64) -> Command {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o"]).arg(dir.join(TRACE));
        command.args(["-e", &format!("trace={}", self.call)]);
        let Self {
            call, effect, when, ..
        } = self;
        command.args(["-e", &format!("inject={call}:{effect}:when={when}")]);
        for path in self.paths(dir, next) {
            command.arg("-P").arg(path);
        }
        command.arg(Daemon::command().get_program());
        command
    }

    /// The files to which its call fails, as `strace` compares them; none: all.
    fn paths(&self, dir: &Path, next: u64) -> Vec<PathBuf> {
        match (self.file, Daemon::groups()) {
            (File::Own(file), _) => vec![dir.join(file)],
            // It compares the words that a call is given: here the name below a group that is open.
            (File::OfGroups(file), Some(_)) if self.call == "openat2" && !file.is_empty() => {
                vec![file.into()]
            }
            (File::OfGroups(file), Some(groups)) => {
                let of_apps = (1..next + 4).map(|app| groups.join(format!("app-{app}")));
                let all = of_apps.chain([groups.clone()]);
                // Without the slash at the end.
                all.map(|group| group.join(file).components().collect())
                    .collect()
            }
            (File::OfHome(_), Some(_)) if self.call == "openat2" => vec![HOME.into()],
            (File::OfHome(file), Some(_)) => vec![Visitor::home().join(file)],
            (File::Any, _) | (File::OfGroups(_) | File::OfHome(_), None) => Vec::new(),
        }
    }
}

/// What the program that is launched then asks for, so that every file is written.
fn wishes(name: &str) -> Wishes {
    let mut wishes = Wishes::named(AppName::new(name).unwrap());
    if Daemon::groups().is_some() {
        wishes.memory = MemoryPolicy::Local;
        wishes.partition = Some(Partition::Isolated);
    }
    wishes
}

fn try_launch(daemon: &Daemon, name: &str) -> Option<Running> {
    let mut program = Program::sleeping();
    let request = LaunchRequest::new(program.child.id(), ["test"], wishes(name));
    let mut client = daemon.try_client().ok()?;
    let launched = client.launch(request).ok()?;
    program.go();
    Some(Running {
        program,
        client,
        launched,
    })
}

/// A process in a group that is not mapper's. Both end with this.
struct Visitor {
    program: Program,
}

impl Visitor {
    const NAME: &str = "visitor";

    fn home() -> PathBuf {
        Daemon::groups().unwrap().with_file_name(HOME)
    }

    fn new() -> Self {
        let (home, program) = (Self::home(), Program::sleeping());
        std::fs::create_dir_all(&home).unwrap();
        let number = program.child.id().to_string();
        std::fs::write(home.join("cgroup.procs"), number).unwrap();
        Self { program }
    }

    fn is_home(&self) -> bool {
        let file = format!("/proc/{}/cgroup", self.program.child.id());
        let group = private_daemon::text(Path::new(&file));
        let group = group.trim_end().strip_prefix("0::/").unwrap();
        Path::new("/sys/fs/cgroup").join(group) == Self::home()
    }

    /// Has it adopted and released again.
    fn comes_and_goes(&self, daemon: &Daemon, answers: impl Fn(&Daemon) -> bool) {
        let adopt = AdoptRequest {
            name: Some(AppName::new(Self::NAME).unwrap()),
            ..AdoptRequest::of(AdoptTarget::Pid(self.program.child.id()))
        };
        eventually("it is adopted", || {
            let client = daemon.try_client();
            client.is_ok_and(|mut client| client.adopt(adopt.clone()).is_ok()) || !answers(daemon)
        });
        if let Ok(mut client) = daemon.try_client() {
            let _may_fail = client.release(Self::NAME);
        }
    }

    /// The next daemon manages it until it is released here, or leaves it alone, with all CPUs. Only a release that failed leaves
    /// it in a group of mapper's.
    fn is_taken_over(&self, daemon: &Daemon, point: &Point) {
        let managed = || {
            let apps = daemon.status().apps.into_iter();
            { apps }.find(|app| app.name.as_str() == Self::NAME)
        };
        eventually(&format!("it has its CPUs after {point:?}"), || {
            let cpus = managed().map_or_else(all_cpus, |app| app.cpus);
            self.program.cpus() == cpus
        });
        if managed().is_some() {
            let released = daemon.client().release(Self::NAME).unwrap();
            assert_eq!(released.trouble, None, "{point:?}");
        }
        let may_stay = point.effect != EFFECTS[0];
        let is_free = managed().is_none() && self.program.cpus() == all_cpus();
        assert!(is_free && (may_stay || self.is_home()), "{point:?}");
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let _ = self.program.child.kill();
        let _ = self.program.child.wait();
        let _ = std::fs::remove_dir(Self::home());
    }
}

/// Groups of applications that are there.
fn groups_there() -> usize {
    let Some(groups) = Daemon::groups() else {
        return 0;
    };
    let names = std::fs::read_dir(groups).unwrap().flatten();
    names
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("app-"))
        .count()
}

/// By `strace`, which makes the n-th call of a thread fail or the daemon end there; `MAPPER_INJECTED` is the greatest n.
#[test]
fn whichever_operation_fails_or_ends_the_daemon_the_next_one_takes_over() {
    require_strace();
    let mut daemon = Daemon::start();
    let mut running = vec![launch(&daemon, "first")];
    let mut newest = running[0].launched.reply.app.0;
    let (mut ended, mut refused, mut unused) = (0, 0, Vec::new());
    let points = points();
    for point in &points {
        daemon.child.kill().unwrap();
        daemon.child.wait().unwrap();
        if point.file == File::OfGroups(SUBTREE) {
            // The daemon writes the file only where the controller is off.
            let file = Daemon::groups().unwrap().join(SUBTREE);
            std::fs::write(file, "-cpuset").unwrap();
        }
        let command = point.command(daemon.dir.path(), newest + 1);
        daemon.child = Daemon::spawn(command, daemon.dir.path(), &["--interval", "50ms"]);
        let answers = |daemon: &Daemon| {
            let client = daemon.try_client();
            client.is_ok_and(|mut client| client.status().is_ok())
        };
        eventually("it answers or has ended", || {
            answers(&daemon) || daemon.child.try_wait().unwrap().is_some()
        });
        let visitor = matches!(point.file, File::OfHome(_)).then(Visitor::new);
        if let Some(visitor) = &visitor {
            newest += 1;
            visitor.comes_and_goes(&daemon, answers);
        }
        let short = try_launch(&daemon, "short");
        let second = try_launch(&daemon, "second");
        refused += usize::from(second.is_none());
        for launched in short.iter().chain(&second) {
            newest = newest.max(launched.launched.reply.app.0);
        }
        running.extend(second);
        drop(short);
        std::thread::sleep(Duration::from_millis(60));
        // Of a call that failed it says so.
        let failed = |daemon: &Daemon| {
            let trace = private_daemon::text(&daemon.dir.path().join(TRACE));
            trace.contains("INJECTED")
        };
        // Later calls may never come.
        let until = Instant::now()
            + if point.when == 1 {
                FIRST_CALL
            } else {
                Duration::ZERO
            };
        while answers(&daemon) && !failed(&daemon) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        let alive = answers(&daemon);
        ended += usize::from(!alive);
        let strace = daemon.child.id();
        let children = format!("/proc/{strace}/task/{strace}/children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        for child in children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
        {
            let child = rustix::process::Pid::from_raw(child).unwrap();
            let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
        }
        daemon.child.wait().unwrap();
        if alive && !failed(&daemon) {
            unused.push(point);
        }
        daemon.start_again();
        if let Some(visitor) = visitor {
            visitor.is_taken_over(&daemon, point);
        }
        assert_whole(&daemon, &running, &format!("{point:?}"));
        if Daemon::groups().is_some() {
            let left = || groups_there() == running.len();
            eventually(&format!("no group is left over after {point:?}"), left);
        }
        running.truncate(1);
    }
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
    let (all, late) = (points.len(), unused.len());
    unused.retain(|point| point.when == 1);
    println!(
        "{all} points: {ended} ended the daemon, {refused} launches refused; taken over after each; {late} were not \
         reached, of first calls {unused:?}"
    );
    // Other processors have other calls for some.
    assert!(
        unused.is_empty() || !cfg!(target_arch = "x86_64"),
        "the daemon never makes: {unused:?}"
    );
}

/// Files of a process for which the kernel waits for no lock that the process can keep while it lives, nor for its file systems.
const READ_AT_ONCE: [&str; 9] = [
    "N",
    "N/cgroup",
    "N/comm",
    // The kernel takes the lock of the signals for it, as for `stat`.
    "N/limits",
    "N/stat",
    "N/status",
    "N/task",
    "N/task/N/children",
    "N/task/N/stat",
];

/// Those that read or lock its memory, and those that lead to its files, wherever the path begins.
const WAITED_FOR: [&str; 11] = [
    "auxv",
    "cmdline",
    "cwd",
    "environ",
    "fd",
    "maps",
    "mem",
    "numa_maps",
    "root",
    "smaps",
    "smaps_rollup",
];

/// A file of a group whose directory the daemon has open itself.
fn is_in_own_group(name: &str) -> bool {
    let file = name.strip_prefix("self/fd/N/");
    file.and_then(|file| file.split_once('.'))
        .is_some_and(|(controller, _)| ["cgroup", "cpu", "cpuset"].contains(&controller))
}

/// The file system calls of a thread from here on in what `strace` wrote: the call, and the first path that it was given.
fn calls_with_files(trace: &str, thread: u32) -> Vec<(String, String)> {
    let lines = trace.lines().filter_map(|line| {
        let (number, call) = line.split_once(' ')?;
        let call = (number.parse() == Ok(thread)).then(|| call.trim_start())?;
        let (name, words) = call.split_once('(')?;
        let path = words.split('"').nth(1)?;
        Some((name.to_owned(), path.to_owned()))
    });
    lines.collect()
}

/// With each number in it replaced by N.
fn without_numbers(path: &str) -> String {
    let mut parts = path.split('/').map(|part| match part.parse::<u64>() {
        Ok(_) => "N",
        Err(_) => part,
    });
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + "/" + part)
}

#[test]
fn the_deciding_thread_opens_no_file_that_a_program_can_make_it_wait_for() {
    require_strace();
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join(TRACE);
    let mut command = Command::new("strace");
    // As a process of its own: the daemon is the child.
    command.args(["-D", "-f", "-qq", "-s", "4096", "-e", "trace=%file", "-o"]);
    command.arg(&trace).arg(Daemon::command().get_program());
    let daemon = Daemon::start_as(command, dir, &["--interval", "50ms"]);
    let before = private_daemon::text(&trace).len();
    // Children, several programs, one that is adopted, and all that can be asked.
    let family = launch_program(&daemon, Program::waiting("sleep 2 & sleep 2"), "family");
    let other = launch(&daemon, "other");
    let stranger = Program::sleeping();
    let adopt = AdoptRequest::of(AdoptTarget::Pid(stranger.child.id()));
    // Under `strace` the state may take longer to be saved than an adoption waits.
    eventually("it is adopted", || {
        daemon.client().adopt(adopt.clone()).is_ok()
    });
    daemon.client().explain("other").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    drop((family, other));
    eventually("two have ended", || daemon.status().apps.len() == 1);
    let text = private_daemon::text(&trace);
    let calls = calls_with_files(&text[before..], daemon.child.id());
    let mut of_processes = 0;
    for (call, path) in &calls {
        let relative = path.strip_prefix("/proc/").unwrap_or(path);
        let is_of_process = relative.starts_with(|first: char| first.is_ascii_digit());
        of_processes += usize::from(is_of_process);
        let name = without_numbers(relative);
        let is_waited_for =
            !is_in_own_group(&name) && name.split('/').any(|part| WAITED_FOR.contains(&part));
        let is_fine = match is_of_process {
            // The name of the program, without its file.
            true if name == "N/exe" => call == "readlinkat",
            true => READ_AT_ONCE.contains(&name.as_str()),
            // Files of groups, of `/proc` itself and of the hardware.
            false => !path.starts_with('/') || path.starts_with("/sys/") || relative != path,
        };
        assert!(is_fine && !is_waited_for, "{call} {path}");
    }
    assert!(of_processes > 20, "{calls:?}");
}
