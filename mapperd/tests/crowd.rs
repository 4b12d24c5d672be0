//! What many applications, and one user with many threads, cost the others.
//!
//! Sizes are those of a quick run. `MAPPER_TEST_APPS=1,64,500,1000 cargo test --release -p mapperd --test crowd --
//! --nocapture` prints the table of the book; `MAPPER_TEST_THREADS=12000` makes the crowd of threads that large, and
//! `MAPPER_TEST_OTHERS=5000` the number of processes beside an adoption.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use mapper_control::schema::{AdoptRequest, AdoptTarget};
use mapper_host::enforce::masks;
use mapper_model::{AppName, CpuSet, Lending, ThreadId};
use private_daemon::{Daemon, Program, Running, all_cpus, eventually, launch_program};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Numbers of applications, ascending.
fn sizes() -> Vec<usize> {
    let text = std::env::var("MAPPER_TEST_APPS").unwrap_or_else(|_| "20,80".to_owned());
    text.split(',').map(|size| size.parse().unwrap()).collect()
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

/// CPU time of the thread that decides so far.
fn cpu_time(daemon: &Daemon) -> Duration {
    let pid = daemon.child.id();
    let path = format!("/proc/{pid}/task/{pid}/schedstat");
    let text = std::fs::read_to_string(path).unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn resident_kib(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// What one event costs the deciding thread, and how long a launch takes.
#[derive(Debug)]
struct Cost {
    applications: usize,
    launched: Duration,
    launch: Duration,
    end: Duration,
    pass: Duration,
    resident_kib: u64,
}

const EVENTS: u32 = 10;

fn cost(
    daemon: &Daemon,
    config: &std::path::Path,
    running: &mut Vec<Running>,
    size: usize,
) -> Cost {
    while running.len() < size {
        running.push(launch_program(
            daemon,
            Program::waiting("exec sleep 900"),
            "sleep",
        ));
    }
    let waiting: Vec<_> = (0..EVENTS).map(|_| Program::sleeping()).collect();
    let mut clients: Vec<_> = (0..EVENTS).map(|_| daemon.client()).collect();
    std::thread::sleep(Duration::from_millis(100));
    let mut before = cpu_time(daemon);
    let mut since = || {
        let now = cpu_time(daemon);
        let used = now - std::mem::replace(&mut before, now);
        used / EVENTS
    };
    let mut latencies = Vec::new();
    for (program, client) in waiting.iter().zip(&mut clients) {
        let started = Instant::now();
        client.launch(program.request("sleep")).unwrap();
        latencies.push(started.elapsed());
    }
    let launch = since();
    for mut program in waiting {
        program.kill();
        std::thread::sleep(Duration::from_millis(100));
    }
    let end = since();
    drop(clients);
    eventually("those have ended", || daemon.status().apps.len() == size);
    let set = |interval| {
        std::fs::write(
            config,
            format!("interval = \"{interval}\"\n[expert]\noverhead_budget = 0\n"),
        )
        .unwrap();
        daemon.signal(rustix::process::Signal::HUP);
        eventually("the interval is set", || {
            let found = daemon.status().daemon.interval_ns;
            (found < 1_000_000_000) == (interval == "50ms")
        });
    };
    set("50ms");
    let passes = daemon.status().daemon.decisions;
    let started = cpu_time(daemon);
    std::thread::sleep(Duration::from_secs(2));
    let used = cpu_time(daemon) - started;
    let passes = daemon.status().daemon.decisions - passes;
    set("10s");
    Cost {
        applications: size,
        launched: median(latencies),
        launch,
        end,
        pass: used / u32::try_from(passes).unwrap(),
        resident_kib: resident_kib(daemon),
    }
}

/// How long it took until all had ended, and meanwhile the longest time to an answer, and decisions.
#[derive(Debug)]
struct Ended {
    all: Duration,
    answer: Duration,
    decisions: u64,
}

fn end_at_once(daemon: &Daemon, mut running: Vec<Running>) -> Ended {
    let mut client = daemon.client();
    let before = client.status().unwrap().daemon.decisions;
    let started = Instant::now();
    for one in &mut running {
        one.program.child.kill().unwrap();
    }
    drop(running);
    let (mut answer, mut decisions) = (Duration::ZERO, 0);
    eventually("all have ended", || {
        let asked = Instant::now();
        let status = client.status().unwrap();
        answer = answer.max(asked.elapsed());
        decisions = status.daemon.decisions - before;
        status.apps.is_empty()
    });
    let all = started.elapsed();
    println!(
        "all ended within {all:.2?} and {decisions} decisions, an answer took {answer:.2?} at most"
    );
    Ended {
        all,
        answer,
        decisions,
    }
}

/// When each end had a look and a decision of its own, 500 took 17.5 s without an answer. Of 200 that alone takes about as long
/// as is allowed, so the decisions are counted, too.
#[test]
fn hundreds_of_applications_that_end_at_once_are_gone_and_status_is_answered_within_a_second() {
    // Each application takes several of this process.
    mapper_host::raise_file_limit();
    let daemon = Daemon::start_with(&["--interval", "10s"]);
    let start = || launch_program(&daemon, Program::waiting("exec sleep 900"), "sleep");
    let most = sizes().into_iter().fold(200, usize::max);
    let running: Vec<_> = (0..most).map(|_| start()).collect();
    let ended = end_at_once(&daemon, running);
    let second = Duration::from_secs(1);
    assert!(ended.all < second && ended.answer < second, "{ended:?}");
    assert!(ended.decisions < most as u64 / 4, "{ended:?}");
}

#[test]
fn a_launch_an_end_and_a_pass_cost_in_proportion_to_the_applications() {
    mapper_host::raise_file_limit();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("mapper.toml");
    std::fs::write(
        &config,
        "interval = \"10s\"\n[expert]\noverhead_budget = 0\n",
    )
    .unwrap();
    let daemon = Daemon::start_with(&["--config", config.to_str().unwrap()]);
    let empty_kib = resident_kib(&daemon);
    let mut running = Vec::new();
    println!(
        "applications, a launch until its answer, CPU time of a launch, of an end, of a pass, memory (empty {empty_kib} KiB)"
    );
    let mut costs: Vec<Cost> = Vec::new();
    for size in sizes() {
        let now = cost(&daemon, &config, &mut running, size);
        println!(
            "{:5} {:10.2?} {:10.2?} {:10.2?} {:10.2?} {:6} KiB",
            now.applications, now.launched, now.launch, now.end, now.pass, now.resident_kib
        );
        if let Some(before) = costs.last() {
            // Twice as much as in proportion: others use the machine, too. A quadratic step of any weight takes more.
            let times = u32::try_from(size / before.applications).unwrap();
            for (what, now, before) in [
                ("launch", now.launch, before.launch),
                ("end", now.end, before.end),
                ("pass", now.pass, before.pass),
            ] {
                assert!(
                    now <= 2 * times * before,
                    "{what}: {now:?}, {before:?} before"
                );
            }
        }
        costs.push(now);
    }
    end_at_once(&daemon, running);
    let most_kib = costs.iter().map(|cost| cost.resident_kib).max().unwrap();
    assert!(most_kib < 64 * 1024, "{most_kib} KiB");
    let (mut kib, deadline) = (u64::MAX, Instant::now() + private_daemon::PATIENCE);
    let limit_kib = empty_kib + 16 * 1024;
    while kib > limit_kib && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
        kib = resident_kib(&daemon);
    }
    println!("memory afterwards {kib} KiB");
    assert!(kib <= limit_kib, "{kib} KiB, {empty_kib} KiB before");
}

const CROWD: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *wait_for_ever(void *unused) { for (;;) pause(); return unused; }
int main(int count, char **words) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int left = count > 1 ? atoi(words[1]) : 0; left > 0; left--) {
        pthread_t thread;
        if (pthread_create(&thread, &small, wait_for_ever, NULL) != 0) return 1;
    }
    puts("ready");
    fflush(stdout);
    wait_for_ever(NULL);
}
"#;

fn threads() -> u32 {
    let threads = std::env::var("MAPPER_TEST_THREADS");
    threads.map_or(3000, |threads| threads.parse().unwrap())
}

/// That program, and the folder it lies in.
fn crowd() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("crowd.c"), folder.path().join("crowd"));
    std::fs::write(&source, CROWD).unwrap();
    let mut compiler = Command::new("gcc");
    compiler.arg("-pthread").arg(&source).arg("-o");
    assert!(compiler.arg(&program).status().unwrap().success());
    (folder, program)
}

fn until_ready(program: &mut Program) {
    let output = program.child.stdout.as_mut().unwrap();
    output.read_exact(&mut [0; 6]).unwrap();
}

/// How many threads of a process may use these CPUs.
fn threads_on(pid: u32, cpus: &CpuSet) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let threads = threads.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let masks = threads.map(|tid| masks::get(ThreadId(tid.parse().unwrap())));
    masks
        .filter(|mask| mask.as_ref().is_ok_and(|mask| mask == cpus))
        .count()
}

#[test]
fn thousands_of_threads_are_adopted_in_linear_time_and_released_in_pieces_also_by_the_next_daemon()
{
    let (_folder, program) = crowd();
    const INTERVAL: [&str; 2] = ["--interval", "500ms"];
    let mut daemon = Daemon::start_with(&INTERVAL);
    let other = Program::sleeping();
    let mut request = other.request("other");
    // The crowd is to get fewer CPUs than all.
    request.wishes.lending = Some(Lending::Never);
    let mut client = daemon.client();
    client.launch(request).unwrap();
    let most = threads();
    let mut costs = Vec::new();
    let mut last = None;
    for count in [most / 3, most / 3 * 2, most] {
        let mut crowd = Program::waiting(&format!("exec {} {count}", program.display()));
        crowd.go();
        until_ready(&mut crowd);
        let target = AdoptTarget::Pid(crowd.child.id());
        let name = AppName::new(&format!("crowd-{count}")).unwrap();
        let before = cpu_time(&daemon);
        daemon
            .client()
            .adopt(AdoptRequest {
                name: Some(name.clone()),
                ..AdoptRequest::of(target)
            })
            .unwrap();
        costs.push(cpu_time(&daemon) - before);
        let pid = crowd.child.id();
        eventually("all are confined", || threads_on(pid, &all_cpus()) == 0);
        let (before, started) = (cpu_time(&daemon), Instant::now());
        daemon.client().release(name.as_str()).unwrap();
        println!(
            "{count} threads: adopted in {:.1?} of CPU time; released in {:.1?}, {:.1?} until the answer",
            costs.last().unwrap(),
            cpu_time(&daemon) - before,
            started.elapsed()
        );
        if count > most / 3 && count < most {
            // A daemon that stops finishes what it began.
            daemon.signal(rustix::process::Signal::TERM);
            daemon.child.wait().unwrap();
            assert_eq!(threads_on(pid, &all_cpus()), count as usize + 1);
            daemon.child = Daemon::spawn(Daemon::command(), daemon.dir.path(), &INTERVAL);
            eventually("the next daemon answers", || daemon.try_client().is_ok());
        }
        last = Some(crowd);
    }
    assert!(costs[2] <= 2 * 3 * costs[0], "{costs:?}");
    let last = last.unwrap();
    let crowd = last.child.id();
    // The rest waits for the next interval.
    let freed = threads_on(crowd, &all_cpus());
    assert!(freed <= most as usize / 2, "{freed} at once");
    // Until it is saved, and before the next interval.
    std::thread::sleep(Duration::from_millis(150));
    daemon.crash();
    eventually("all threads have all CPUs", || {
        threads_on(crowd, &all_cpus()) == most as usize + 1
    });
}

/// Processes that nobody manages.
struct Others(Child);

impl Others {
    fn start(count: usize) -> Self {
        let script =
            format!("i=0; while [ $i -lt {count} ]; do sleep 900 & i=$((i+1)); done; echo; wait");
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", &script]).process_group(0);
        let mut shell = shell.stdout(Stdio::piped()).spawn().unwrap();
        let output = shell.stdout.as_mut().unwrap();
        output.read_exact(&mut [0]).unwrap();
        Self(shell)
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.0);
        let _ended = kill_process_group(group, Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn an_adoption_takes_as_long_beside_thousands_of_processes_of_others() {
    let others = std::env::var("MAPPER_TEST_OTHERS").map_or(2000, |count| count.parse().unwrap());
    let daemon = Daemon::start_with(&["--interval", "10s"]);
    let cost = || {
        let adopt = |_| {
            let program = Program::sleeping();
            let target = AdoptTarget::Pid(program.child.id());
            let before = cpu_time(&daemon);
            daemon.client().adopt(AdoptRequest::of(target)).unwrap();
            cpu_time(&daemon) - before
        };
        median((0..7).map(adopt).collect())
    };
    let alone = cost();
    let beside = {
        let _others = Others::start(others);
        // What has started since the last look is seen once.
        daemon.status();
        cost()
    };
    println!("deciding thread: {alone:.1?}, beside {others} others {beside:.1?} (medians of 7)");
    // It was 20 times as long, and more, when every process was read.
    assert!(
        beside < 2 * alone + Duration::from_millis(5),
        "{alone:?}, {beside:?}"
    );
}

#[test]
fn a_process_that_has_many_threads_already_is_not_launched_but_adopted() {
    let (_folder, program) = crowd();
    let daemon = Daemon::start();
    let mut crowd = Program::waiting(&format!("exec {} 100", program.display()));
    crowd.go();
    until_ready(&mut crowd);
    let launched = daemon.client().launch(crowd.request("crowd"));
    let error = launched.map(|_| ()).unwrap_err().to_string();
    for says in ["has 101 threads", "mapperctl adopt --pid"] {
        assert!(error.contains(says), "{error}");
    }
    assert!(daemon.status().apps.is_empty());
    let target = AdoptTarget::Pid(crowd.child.id());
    daemon.client().adopt(AdoptRequest::of(target)).unwrap();
    assert_eq!(daemon.status().apps.len(), 1);
}

/// Programs that launch all the time.
const LAUNCHERS: usize = 20;

#[test]
fn others_launch_at_once_while_one_user_has_thousands_of_threads_and_launches_all_the_time() {
    let (_folder, program) = crowd();
    let threads = threads();
    let daemon = Daemon::start_with(&["--interval", "100ms"]);
    let script = format!("exec {} {threads}", program.display());
    let mut crowd = launch_program(&daemon, Program::waiting(&script), "crowd");
    until_ready(&mut crowd.program);
    let stop = AtomicBool::new(false);
    let mut latencies = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..LAUNCHERS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let mut program = Program::sleeping();
                    let _ = daemon.client().launch(program.request("storm"));
                    program.kill();
                    // A user's rate of launches is limited; root's, who runs some of these tests, is not.
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        for _ in 0..15 {
            let mut program = Program::sleeping();
            let mut client = daemon.client();
            let started = Instant::now();
            client.launch(program.request("victim")).unwrap();
            latencies.push(started.elapsed());
            program.kill();
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("launches of others took {latencies:.1?}");
    let median = median(latencies);
    assert!(median < Duration::from_millis(100), "{median:?}");
}
