//! One sentence: whatever users do, root's `status` answers within a second, other users' launches take 100 ms at the
//! median and a second at most, every interval is decided, and memory stays small.
//!
//! Each of several users floods with connections, calls, launches, ends, threads, pages, leases, long command lines and
//! refused calls; one of them by a range of subordinate uids. Nobody reads the log.
//!
//! `MAPPER_FLOOD_USERS` and `MAPPER_FLOOD_SECONDS` set the size, `MAPPER_FLOOD_ONLY` chooses floods by name, and
//! `--nocapture` shows the figures. It takes root.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use mapper_control::schema::{LaunchRequest, Status, Wishes};
use mapper_control::{Client, ClientError, Launched};
use mapper_model::AppName;
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
    let mut client = Client::connect(socket, PATIENCE)?;
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
        .spawn()
        .unwrap();
    let program = Program { child };
    let _lease = launched(socket, &program, &["threads"]);
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
/// starts and ends a program that has nothing to do with mapper, and prints how long that took.
fn honest(socket: &Path) {
    loop {
        let started = Instant::now();
        let ended = Command::new("true").status();
        println!("plain: {}", started.elapsed().as_micros());
        ended.unwrap();
        let program = Program::waiting("true");
        let started = Instant::now();
        match try_launch(socket, &program, &["honest"]) {
            Ok(_lease) => println!("launch: {}", started.elapsed().as_micros()),
            Err(error) => println!("failed: {error}"),
        }
        drop(program);
        thread::sleep(Duration::from_millis(50));
    }
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
        "many-threads" => {
            let idle = |_| {
                thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn(thread::park)
            };
            let _all: Vec<_> = (0..500).map(idle).collect();
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
    let interval = format!("{}ms", INTERVAL.as_millis());
    Daemon::start_as(command, dir, &["--interval", &interval])
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap())
}

/// The daemon that is flooded: a private one, or in the guest the installed one, whose socket `MAPPER_FLOOD_SOCKET` names.
struct Flooded {
    socket: PathBuf,
    pid: u32,
    private: Option<Daemon>,
}

impl Flooded {
    fn start() -> Self {
        let named = std::env::var_os("MAPPER_FLOOD_SOCKET").map(PathBuf::from);
        let private = named.is_none().then(daemon);
        let mut flooded = Self {
            socket: named.unwrap_or_else(|| private.as_ref().unwrap().socket()),
            pid: 0,
            private,
        };
        flooded.pid = flooded.status().daemon.pid;
        flooded
    }

    fn status(&self) -> Status {
        let client = Client::connect(&self.socket, PATIENCE);
        client.unwrap().status().unwrap()
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
    // Times that the goals hold on a slow machine; whose CPUs those who flood have there is `MAPPER_FLOOD_CPUS`.
    let slower = u32::try_from(number("MAPPER_FLOOD_SLOWER", 1)).unwrap();
    let daemon = Flooded::start();
    let socket = daemon.socket.clone();
    let there = daemon.status().apps.len();
    let session = std::fs::read_to_string(format!("/proc/{}/autogroup", daemon.pid));
    let weighed = session.is_ok_and(|session| session.trim_end().ends_with("nice -20"));
    assert!(daemon.private.is_none() || weighed || !Path::new("/proc/self/autogroup").exists());
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
    let mut other = itself("honest", &socket);
    other.uid(FIRST_USER + users).stdout(Stdio::piped());
    flood.0.push(other.spawn().unwrap());
    let said = flood.0.last_mut().unwrap().stdout.take().unwrap();
    let reading = thread::spawn(move || {
        let lines = BufReader::new(said).lines().map_while(Result::ok);
        lines.collect::<Vec<_>>()
    });

    let started = Instant::now();
    let (mut longest, mut most, mut apps) = (Duration::ZERO, 0, 0);
    // Between two answers with the same number of decisions there was none. Time in which others had the CPU does not
    // count, and neither does that until an answer comes.
    let (mut gap, mut decisions) = (Duration::ZERO, 0);
    let (mut since, mut waited) = (Instant::now(), waited_for_cpu(&daemon));
    while started.elapsed() < duration {
        let (asked, waited_by_then) = (Instant::now(), waited_for_cpu(&daemon));
        let status = daemon.status();
        longest = longest.max(asked.elapsed());
        apps = apps.max(status.apps.len());
        if status.daemon.decisions == decisions {
            gap = gap.max((asked - since).saturating_sub(waited_by_then - waited));
        } else {
            decisions = status.daemon.decisions;
            (since, waited) = (Instant::now(), waited_for_cpu(&daemon));
        }
        most = most.max(memory_kib(&daemon));
        thread::sleep(Duration::from_millis(20));
    }
    drop(flood);
    let said = reading.join().unwrap();
    let sorted_ms = |what: &str| {
        let times = said.iter().filter_map(|line| line.strip_prefix(what));
        let mut times: Vec<f64> = times
            .map(|us| us.parse::<f64>().unwrap() / 1000.0)
            .collect();
        times.sort_unstable_by(f64::total_cmp);
        times
    };
    let (times, plain) = (sorted_ms("launch: "), sorted_ms("plain: "));
    let failed: Vec<_> = said
        .iter()
        .filter(|line| line.starts_with("failed"))
        .collect();
    let of = |times: &[f64]| {
        let median = times.get(times.len() / 2).copied();
        let most = times.last().copied();
        (
            median.unwrap_or(f64::INFINITY),
            most.unwrap_or(f64::INFINITY),
        )
    };
    let ((median, slowest), (plain_median, plain_slowest)) = (of(&times), of(&plain));
    eprintln!(
        "{users} users, {duration:?}: status {longest:.1?} at most; {} launches, {} failed, {median:.1} ms at \
         the median, {slowest:.1} ms at most (a plain start {plain_median:.1}, {plain_slowest:.1}); decisions {decisions}, {gap:.1?} apart at most; {apps} applications at \
         most; memory {} MiB before, {} at most",
        times.len(),
        failed.len(),
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
    assert!(failed.is_empty(), "{failed:?}");
    let times = f64::from(slower);
    assert!(
        median < 100.0 * times && slowest < 1000.0 * times,
        "{median} {slowest}"
    );
    let bound = slower * (2 * INTERVAL + Duration::from_millis(200));
    assert!(gap < bound, "no decision for {gap:?}");
    assert!(most < 64 * MIB, "{} MiB", most / MIB);
}
