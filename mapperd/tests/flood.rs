//! One sentence: whatever users do, root's `status` answers within a second, other users' launches take 100 ms at the
//! median and a second at most, every interval is decided, and memory stays small.
//!
//! Each of several users floods with connections, calls, launches, ends, threads, pages, leases, long command lines and
//! refused calls; one of them by a range of subordinate uids. Nobody reads the log. Another user's program waits for a file
//! system that does not answer (FUSE); in the guest its own tests see to that.
//!
//! `MAPPER_FLOOD_USERS` and `MAPPER_FLOOD_SECONDS` set the size, `MAPPER_FLOOD_ONLY` chooses floods by name, and
//! `--nocapture` shows the figures. It takes root.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use mapper_control::schema::{LaunchRequest, Status, Wishes};
use mapper_control::{Client, ClientError, Launched};
use mapper_model::AppName;
use private_daemon::launcher::Made;
use private_daemon::scrape::{GET, scrape, value};
use private_daemon::{Daemon, PATIENCE, Program, eventually};
use rustix::thread::set_thread_res_uid;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const FIRST_USER: u32 = 61_101;
const SUBORDINATES: u32 = 400_000;
const INTERVAL: Duration = Duration::from_millis(200);
const MIB: u64 = 1024;

type Act = fn(&Path);

/// What one user does. Each runs for ever, on a thread of its own.
const FLOODS: [(&str, Act); 9] = [
    ("connections", connections),
    ("half-sent", half_sent),
    ("calls", calls),
    ("unread", unread),
    ("launches", launches),
    ("leases", leases),
    ("pages", pages),
    ("threads", threads),
    ("refused", refused),
];

const STATUS: &[u8] = b"{\"method\":\"org.mapper.Control.Status\"}\0";

fn connections(socket: &Path) {
    drop(UnixStream::connect(socket));
}

fn half_sent(socket: &Path) {
    let half = [b'x'; 60_000];
    let begin = |_| {
        let mut stream = UnixStream::connect(socket).ok()?;
        stream.set_nonblocking(true).ok()?;
        let _ = stream.write(&half);
        Some(stream)
    };
    let _held: Vec<_> = (0..300).map_while(begin).collect();
    thread::sleep(Duration::from_secs(1));
}

fn calls(socket: &Path) {
    let Ok(mut stream) = UnixStream::connect(socket) else {
        return;
    };
    let mut reply = BufReader::new(stream.try_clone().unwrap());
    while stream.write_all(STATUS).is_ok() && reply.skip_until(0).is_ok_and(|read| read > 0) {}
}

fn unread(socket: &Path) {
    let call = |_| {
        let mut stream = UnixStream::connect(socket).ok()?;
        stream.set_nonblocking(true).ok()?;
        let _ = stream.write(&STATUS.repeat(500));
        Some(stream)
    };
    let _deaf: Vec<_> = (0..50).map_while(call).collect();
    thread::sleep(Duration::from_secs(2));
}

fn try_launch(
    socket: &Path,
    program: &Program,
    words: &[&str],
) -> Result<(Client, Launched), ClientError> {
    let started = Instant::now();
    let mut client = Client::connect(socket, PATIENCE)?;
    println!("connect: {}", started.elapsed().as_micros());
    let wishes = Wishes::named(AppName::new("flood").unwrap());
    let request = LaunchRequest::new(program.child.id(), words.iter().copied(), wishes);
    let launched = client.launch(request)?;
    Ok((client, launched))
}

fn launched(socket: &Path, program: &Program, words: &[&str]) -> Option<(Client, Launched)> {
    try_launch(socket, program, words).ok()
}

fn launches(socket: &Path) {
    let long = "x".repeat(60_000);
    launched(socket, &Program::waiting("true"), &[&long]);
}

fn leases(socket: &Path) {
    let launch = |_| {
        let program = Program::waiting("true");
        let lease = launched(socket, &program, &["lease"]);
        (program, lease)
    };
    let _held: Vec<_> = (0..20).map(launch).collect();
    thread::sleep(Duration::from_secs(1));
}

fn pages(socket: &Path) {
    let program = Program::waiting("true");
    let Some((_client, launched)) = launched(socket, &program, &["pages"]) else {
        return;
    };
    let Some(page) = launched.page.map(std::fs::File::from) else {
        return;
    };
    for round in 0..1000u64 {
        for word in 0..512 {
            let value = (round * word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let _ = page.write_all_at(&value.to_ne_bytes(), word * 8);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn threads(socket: &Path) {
    let child = itself("many-threads", socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut program = Program { child };
    wait_until_it_says("ready", &mut program.child);
    let _lease = launched(socket, &program, &["threads"]);
    program.go();
    thread::sleep(Duration::from_secs(5));
}

fn refused(socket: &Path) {
    let Ok(mut stream) = UnixStream::connect(socket) else {
        return;
    };
    let launch = b"{\"method\":\"org.mapper.Control.Launch\",\"parameters\":{\"protocol\":2,\"pid\":1,\"name\":\"a\"}}\0";
    let garbage = b"{\"method\":7,\"parameters\":[[[[]]]]}\0";
    for call in [&launch[..], garbage].iter().cycle().take(100) {
        if stream.write_all(call).is_err() {
            return;
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Launches as an ordinary user does, and prints how long each took in microseconds, and why one failed. Before each it
/// starts and ends a program that has nothing to do with mapper, and works alone, and prints how long these took.
fn honest(socket: &Path) {
    loop {
        let started = Instant::now();
        let ended = Command::new("true").status();
        println!("plain: {}", started.elapsed().as_micros());
        ended.unwrap();
        let started = Instant::now();
        let sum: u64 = (0..100_000).fold(0, |sum, i| std::hint::black_box(sum + i));
        std::hint::black_box(sum);
        println!("work: {}", started.elapsed().as_micros());
        let program = Program::waiting("true");
        let started = Instant::now();
        match try_launch(socket, &program, &["honest"]) {
            Ok(_lease) => println!("launch: {}", started.elapsed().as_micros()),
            Err(error) => println!("failed: {error}"),
        }
        drop(program);
        // As much less often as the machine is slower: the share of time that a user's launches take is limited.
        thread::sleep(slower() * Duration::from_millis(50));
    }
}

/// Launches a program that goes on, and then waits for the file system that it is on, once it reads a line.
fn hung(socket: &Path) {
    let folder = PathBuf::from(std::env::var_os("FOLDER").unwrap());
    let mut command = Command::new(folder.join("program"));
    command.arg(folder.join("data")).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    let mut program = Program { child };
    wait_until_it_says("ready", &mut program.child);
    let _lease = try_launch(socket, &program, &["hung"]).unwrap();
    println!("ready");
    wait_until_it_says("goes on", &mut program.child);
    println!("goes on");
    program.child.wait().unwrap();
}

/// What the test harness says stands before it.
fn wait_until_it_says(what: &str, child: &mut Child) {
    let output = child.stdout.as_mut().unwrap();
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    assert!(
        lines.any(|line| line.ends_with(what)),
        "it never says: {what}"
    );
}

/// Times that this machine is slower than one on which the goals hold.
fn slower() -> u32 {
    u32::try_from(number("MAPPER_FLOOD_SLOWER", 1)).unwrap()
}

/// This test program, doing something else.
fn itself(what: &str, socket: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["another_process", "--exact", "--nocapture"]);
    command.env("MAPPER_FLOOD", what).env("SOCKET", socket);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Weighs as much as the daemon does: what is measured is the daemon, not the CPU time that is left for who asks.
fn weigh_as_the_daemon() {
    rustix::process::nice(-20).unwrap();
    // Not where the kernel does not group threads by sessions.
    let _ = std::fs::write("/proc/self/autogroup", "-20");
}

/// The one that floods, on the CPUs that are left to it.
fn flooding(socket: &Path) -> Command {
    let plain = itself("all", socket);
    let Some(cpus) = std::env::var_os("MAPPER_FLOOD_CPUS") else {
        return plain;
    };
    let mut command = Command::new("taskset");
    command.arg("-c").arg(cpus).arg(plain.get_program());
    command.args(plain.get_args());
    let envs = plain.get_envs();
    command.envs(envs.filter_map(|(name, value)| Some((name, value?))));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// What the other test starts as another process; nothing otherwise.
#[test]
fn another_process() {
    let Ok(what) = std::env::var("MAPPER_FLOOD") else {
        return;
    };
    let socket = PathBuf::from(std::env::var_os("SOCKET").unwrap());
    // Ends with the test that started it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    match &what[..] {
        "honest" => honest(&socket),
        "hung" => return hung(&socket),
        // Becomes the server, which so ends with the test, too.
        "file-system" => {
            let named = |name| std::env::var_os(name).unwrap();
            let [server, folder, hung] = ["HANGS", "FOLDER", "HUNG"].map(named);
            panic!("{}", Command::new(server).args([folder, hung]).exec());
        }
        "many-threads" => {
            let idle = |_| {
                thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn(thread::park)
            };
            // As many as a program may be launched with, and more afterwards.
            let _first: Vec<_> = (0..60).map(idle).collect();
            println!("ready");
            std::io::stdin().read_exact(&mut [0]).unwrap();
            let _others: Vec<_> = (0..440).map(idle).collect();
            thread::park();
        }
        // As users have.
        _ => drop(rustix::process::setsid().unwrap()),
    }
    let chosen = std::env::var("MAPPER_FLOOD_ONLY").unwrap_or_default();
    for (name, flood) in FLOODS {
        if !name.contains(&chosen) {
            continue;
        }
        let socket = socket.clone();
        // With rights, as a process in a user namespace has them, each round is another subordinate uid's.
        let changes = rustix::process::geteuid().is_root();
        thread::spawn(move || {
            for uid in (SUBORDINATES..SUBORDINATES + 65_536).cycle() {
                if changes {
                    let uid = Some(rustix::process::Uid::from_raw(uid));
                    set_thread_res_uid(uid, uid, Some(rustix::process::Uid::ROOT)).unwrap();
                }
                flood(&socket);
            }
        });
    }
    thread::park();
}

/// A daemon on whose log nobody reads, with a session of its own and the niceness that the unit gives it.
fn daemon() -> Daemon {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let etc = dir.path().join("etc");
    std::fs::create_dir(&etc).unwrap();
    std::fs::write(
        etc.join("subuid"),
        format!("{FIRST_USER}:{SUBORDINATES}:65536\n"),
    )
    .unwrap();
    let prepared = Daemon::command();
    let mut command = Command::new("unshare");
    let script = "mkfifo \"$0/../stalled\" && exec 3<>\"$0/../stalled\" && mount --bind \"$0\" /etc && exec \"$@\" 2>&3";
    let script = match std::env::var("MAPPER_FLOOD_LOG").as_deref() {
        Ok("read") => "mount --bind \"$0\" /etc && exec \"$@\"",
        _ => script,
    };
    command.args(["--mount", "sh", "-c", script]).arg(etc);
    command
        .args(["setsid", "nice", "-n", "-20"])
        .arg(prepared.get_program());
    command.env_remove("NOTIFY_SOCKET");
    let config = dir.path().join("config");
    let metrics = dir.path().join("metrics");
    let interval = INTERVAL.as_millis();
    let text = format!("interval = \"{interval}ms\"\n[metrics]\nsocket = {metrics:?}\n");
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap().to_owned();
    Daemon::start_as(
        command,
        dir,
        &["--config", &config, "--overhead-budget", "0"],
    )
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap())
}

/// The daemon that is flooded: a private one, or in the guest the installed one, whose sockets `MAPPER_FLOOD_SOCKET` and
/// `MAPPER_FLOOD_METRICS` name.
struct Flooded {
    socket: PathBuf,
    metrics: PathBuf,
    pid: u32,
    /// Ended before the daemon, which then waits for no file of it.
    hanging: Option<Hanging>,
    private: Option<Daemon>,
}

impl Flooded {
    fn start() -> Self {
        let named = |variable| std::env::var_os(variable).map(PathBuf::from);
        let [socket, metrics] = ["MAPPER_FLOOD_SOCKET", "MAPPER_FLOOD_METRICS"].map(named);
        let hanging = match socket {
            None => Hanging::mount(),
            Some(_) => None,
        };
        let private = socket.is_none().then(daemon);
        let here = |name| private.as_ref().unwrap().dir.path().join(name);
        let mut flooded = Self {
            socket: socket.unwrap_or_else(|| here("s")),
            metrics: metrics.unwrap_or_else(|| here("metrics")),
            pid: 0,
            hanging,
            private,
        };
        flooded.pid = flooded.status().daemon.pid;
        flooded
    }

    /// How many intervals have ended with a decision, and how long one is at present.
    fn intervals(&self) -> Intervals {
        let text = scrape(&self.metrics, GET);
        let ended = value(&text, "mapper_intervals_total").unwrap();
        let each = value(&text, "mapper_interval_seconds").unwrap();
        Intervals {
            ended: ended as u64,
            each: Duration::from_secs_f64(each),
        }
    }

    fn status(&self) -> Status {
        let client = Client::connect(&self.socket, PATIENCE);
        client.unwrap().status().unwrap()
    }
}

#[derive(Clone, Copy)]
struct Intervals {
    ended: u64,
    each: Duration,
}

/// A file system in the mounts of this thread and of what it starts, and a program on it. Both end with this, and with
/// this process, whatever ends that.
struct Hanging {
    server: Child,
    program: Option<Child>,
    folder: tempfile::TempDir,
    _made: [Made; 2],
}

impl Hanging {
    /// Nothing on a machine that has no FUSE.
    fn mount() -> Option<Self> {
        let fuse = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse");
        if let Err(error) = fuse {
            eprintln!("left out: a file system that does not answer: /dev/fuse: {error}");
            return None;
        }
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
        let private = Command::new("mount")
            .args(["--make-rprivate", "/"])
            .status();
        assert!(private.unwrap().success(), "mount --make-rprivate /");
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/guest/programs");
        let made = ["hangs.c", "hung.c"].map(|source| {
            let mut compiler = Command::new("gcc");
            Made::of(compiler.arg("-pthread"), &programs.join(source))
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let mut server = itself("file-system", Path::new(""));
        server.env("HANGS", made[0].program());
        server.env("HUNG", made[1].program());
        server.env("FOLDER", folder.path()).stdout(Stdio::piped());
        let mut hanging = Self {
            server: server.spawn().unwrap(),
            program: None,
            folder,
            _made: made,
        };
        wait_until_it_says("ready", &mut hanging.server);
        Some(hanging)
    }

    /// Launches the program as a user, and lets it wait for ever.
    fn hang(&mut self, socket: &Path, uid: u32) {
        let mut program = itself("hung", socket);
        program.env("FOLDER", self.folder.path()).uid(uid).gid(uid);
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let program = self.program.insert(program.spawn().unwrap());
        wait_until_it_says("ready", program);
        let stop = rustix::process::Signal::STOP;
        rustix::process::kill_process(private_daemon::pid(&self.server), stop).unwrap();
        let mut input = program.stdin.take().unwrap();
        input.write_all(b"go\n").unwrap();
        wait_until_it_says("goes on", program);
    }

    fn assert_hangs(&mut self) {
        let ended = self.program.as_mut().unwrap().try_wait().unwrap();
        assert_eq!(ended, None, "the program does not hang");
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // The file system ends with its server, and processes that wait for it continue.
        let _ = self.server.kill();
        let _ = self.server.wait();
        if let Some(program) = &mut self.program {
            drop(program.stdin.take());
            let _ = program.wait();
        }
        let folder = self.folder.path();
        let _ = Command::new("umount").arg("--lazy").arg(folder).status();
    }
}

/// How long its thread that decides has waited for a CPU.
fn waited_for_cpu(daemon: &Flooded) -> Duration {
    let pid = daemon.pid;
    let times = private_daemon::text(Path::new(&format!("/proc/{pid}/task/{pid}/schedstat")));
    Duration::from_nanos(times.split(' ').nth(1).unwrap().parse().unwrap())
}

fn memory_kib(daemon: &Flooded) -> u64 {
    let status = private_daemon::text(Path::new(&format!("/proc/{}/status", daemon.pid)));
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

/// Another user, who launches.
struct Another(Flood, thread::JoinHandle<Vec<String>>);

impl Another {
    fn start(socket: &Path, uid: u32) -> Self {
        let mut other = itself("honest", socket);
        other.uid(uid).stdout(Stdio::piped());
        let mut other = Flood(vec![other.spawn().unwrap()]);
        let said = other.0[0].stdout.take().unwrap();
        let reading = thread::spawn(move || {
            let lines = BufReader::new(said).lines().map_while(Result::ok);
            lines.collect()
        });
        Self(other, reading)
    }

    fn end(self) -> Beside {
        drop(self.0);
        let said = self.1.join().unwrap();
        let of = |what| Times::of(&said, what);
        Beside {
            launch: of("launch: "),
            connect: of("connect: "),
            plain: of("plain: "),
            work: of("work: "),
            failed: said
                .iter()
                .filter(|line| line.starts_with("failed"))
                .cloned()
                .collect(),
        }
    }
}

/// What the other user saw.
struct Beside {
    launch: Times,
    /// Of a launch.
    connect: Times,
    /// Starts of a program without mapper.
    plain: Times,
    /// A fixed number of steps.
    work: Times,
    failed: Vec<String>,
}

impl std::fmt::Display for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (launch, connect, failed) = (&self.launch, &self.connect, self.failed.len());
        let (plain, work) = (&self.plain, &self.work);
        write!(
            f,
            "launches {launch}, {failed} failed; connecting {connect}; plain starts {plain}; work {work}"
        )
    }
}

/// In milliseconds.
struct Times {
    count: usize,
    median: f64,
    most: f64,
}

impl Times {
    fn of(said: &[String], what: &str) -> Self {
        let times = said.iter().filter_map(|line| line.strip_prefix(what));
        let mut times: Vec<f64> = times
            .map(|us| us.parse::<f64>().unwrap() / 1000.0)
            .collect();
        times.sort_unstable_by(f64::total_cmp);
        Self {
            count: times.len(),
            median: times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY),
            most: times.last().copied().unwrap_or(f64::INFINITY),
        }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            count,
            median,
            most,
        } = self;
        write!(
            f,
            "{count} of {median:.1} ms at the median, {most:.1} at most"
        )
    }
}

struct Flood(Vec<Child>);

impl Drop for Flood {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn whatever_users_do_root_is_answered_others_launch_and_every_interval_is_decided() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: acting as other users takes root");
        return;
    }
    let users = u32::try_from(number("MAPPER_FLOOD_USERS", 2)).unwrap();
    let duration = Duration::from_secs(number("MAPPER_FLOOD_SECONDS", 3));
    // On a slow machine; whose CPUs those who flood have there is `MAPPER_FLOOD_CPUS`.
    let slower = slower();
    let mut daemon = Flooded::start();
    let socket = daemon.socket.clone();
    if let Some(hanging) = &mut daemon.hanging {
        hanging.hang(&socket, FIRST_USER + users + 1);
    }
    let there = daemon.status().apps.len();
    let session = std::fs::read_to_string(format!("/proc/{}/autogroup", daemon.pid));
    let weighed = session.is_ok_and(|session| session.trim_end().ends_with("nice -20"));
    assert!(daemon.private.is_none() || weighed || !Path::new("/proc/self/autogroup").exists());
    let another = Another::start(&socket, FIRST_USER + users);
    thread::sleep(slower * Duration::from_millis(500));
    eprintln!("without a flood: {}", another.end());
    let before = memory_kib(&daemon);
    let mut flood = Flood(Vec::new());
    for user in FIRST_USER..FIRST_USER + users {
        let mut flooding = flooding(&socket);
        if user > FIRST_USER {
            flooding.uid(user).gid(user);
        }
        flood.0.push(flooding.spawn().unwrap());
    }
    weigh_as_the_daemon();
    let another = Another::start(&socket, FIRST_USER + users);

    let started = Instant::now();
    let (mut longest, mut most, mut apps) = (Duration::ZERO, 0, 0);
    // Between two answers with the same number of intervals none has ended. Time in which others had the CPU does not
    // count, and neither does that until an answer comes. An interval is as long as the cost of a pass lets it be.
    let (mut gap, mut late, mut before_these) =
        (Duration::ZERO, Duration::ZERO, daemon.intervals());
    let (mut since, mut waited) = (Instant::now(), waited_for_cpu(&daemon));
    while started.elapsed() < duration {
        let asked = Instant::now();
        let status = daemon.status();
        longest = longest.max(asked.elapsed());
        apps = apps.max(status.apps.len());
        let (asked, waited_by_then) = (Instant::now(), waited_for_cpu(&daemon));
        let intervals = daemon.intervals();
        // Without applications there are no intervals.
        if intervals.ended == before_these.ended && !status.apps.is_empty() {
            let passed = (asked - since).saturating_sub(waited_by_then - waited);
            gap = gap.max(passed);
            late = late.max(passed.saturating_sub(2 * intervals.each.max(before_these.each)));
        } else {
            before_these = intervals;
            (since, waited) = (Instant::now(), waited_for_cpu(&daemon));
        }
        most = most.max(memory_kib(&daemon));
        thread::sleep(Duration::from_millis(20));
    }
    drop(flood);
    let beside = another.end();
    if let Some(hanging) = &mut daemon.hanging {
        hanging.assert_hangs();
    }
    eprintln!(
        "{users} users, {duration:?}: status {longest:.1?} at most; {beside}; {} intervals, {gap:.1?} apart and {late:.1?} late at most, of \
         {:.1?}; {apps} applications at most; memory {} MiB before, {} at most",
        before_these.ended,
        before_these.each,
        before / MIB,
        most / MIB
    );
    eventually("all is let go", || daemon.status().apps.len() <= there);
    let returned = before + 16 * MIB;
    eventually("memory returns", || memory_kib(&daemon) < returned);
    thread::sleep(Duration::from_secs(number("MAPPER_FLOOD_REST", 0)));
    eprintln!("memory {} MiB after", memory_kib(&daemon) / MIB);
    assert!(
        longest < slower * Duration::from_secs(1),
        "status took {longest:?}"
    );
    let (launch, failed) = (beside.launch, beside.failed);
    assert!(failed.is_empty(), "{failed:?}");
    let times = f64::from(slower);
    assert!(
        launch.median < 100.0 * times && launch.most < 1000.0 * times,
        "{launch}"
    );
    assert!(
        late < slower * Duration::from_millis(200),
        "no decision of an interval until {late:?} after it was due"
    );
    assert!(most < 64 * MIB, "{} MiB", most / MIB);
}
