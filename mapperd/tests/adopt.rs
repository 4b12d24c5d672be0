//! Programs that run already are adopted, managed like launched ones, and released as they were.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use mapper_control::ClientErrorKind;
use mapper_control::schema::{AdoptRequest, AdoptTarget, ExitedRequest, MemoryPolicy};
use mapper_host::enforce::masks;
use mapper_model::{AppName, CpuRange, CpuSet, Qos, ThreadId};
use private_daemon::{Daemon, Program, all_cpus, cpus_of, eventually, launch};

/// A program that runs without mapper, with a child, on a mask of its own choice.
struct Stranger {
    program: Program,
    child: u32,
}

impl Stranger {
    fn start() -> Self {
        let mut program = Program::waiting("sleep 60 & echo $!; exec sleep 60");
        program.go();
        let mut line = String::new();
        let stdout = program.child.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        let child = line.trim().parse().unwrap();
        Self { program, child }
    }

    fn pid(&self) -> u32 {
        self.program.child.id()
    }

    fn request(&self) -> AdoptRequest {
        AdoptRequest::of(AdoptTarget::Pid(self.pid()))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        if let Some(child) = rustix::process::Pid::from_raw(self.child.cast_signed()) {
            let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
        }
    }
}

fn first_cpu() -> CpuSet {
    all_cpus().first_cpu().into_iter().collect()
}

fn refusal(daemon: &Daemon, request: AdoptRequest) -> String {
    let error = daemon.client().adopt(request).unwrap_err();
    let ClientErrorKind::Daemon(reply) = &error.kind else {
        panic!("{error}");
    };
    reply.to_string()
}

#[test]
fn an_adopted_program_shares_with_launched_ones_and_is_released_as_it_was() {
    let daemon = Daemon::start();
    let stranger = Stranger::start();
    // The operator has confined its child.
    masks::set(ThreadId(stranger.child), &first_cpu()).unwrap();
    let reply = daemon
        .client()
        .adopt(AdoptRequest {
            name: Some(AppName::new("stranger").unwrap()),
            qos: Some(Qos::new(0.6).unwrap()),
            ..stranger.request()
        })
        .unwrap();
    assert_eq!(reply.processes, 2);
    assert_eq!(reply.cpus, all_cpus());
    let running = launch(&daemon, "launched");
    let status = daemon.status();
    let listed = &status.apps[0];
    assert_eq!(listed.adopted, Some(AdoptTarget::Pid(stranger.pid())));
    assert_eq!((listed.name.as_str(), listed.qos.get()), ("stranger", 0.6));
    assert_eq!(status.apps[1].adopted, None);
    if all_cpus().len() >= 2 {
        for pid in [stranger.pid(), stranger.child] {
            assert!(cpus_of(pid).is_disjoint(&running.program.cpus()), "{pid}");
        }
    }
    let released = daemon.client().release("stranger").unwrap();
    assert_eq!(released.trouble, None);
    assert_eq!(cpus_of(stranger.pid()), all_cpus());
    assert_eq!(cpus_of(stranger.child), first_cpu());
    assert_eq!(running.program.cpus(), all_cpus());
    assert_eq!(daemon.status().apps.len(), 1);
}

#[test]
fn a_child_of_a_managed_program_is_already_managed() {
    let daemon = Daemon::start_with(&["--interval", "10s"]);
    let mut parent = Program::waiting("sleep 60 & echo $!; exec sleep 60");
    let request = AdoptRequest::of(AdoptTarget::Pid(parent.child.id()));
    daemon.client().adopt(request).unwrap();
    parent.go();
    let mut line = String::new();
    let stdout = parent.child.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    let child: u32 = line.trim().parse().unwrap();
    let says = refusal(&daemon, AdoptRequest::of(AdoptTarget::Pid(child)));
    let process = rustix::process::Pid::from_raw(child.cast_signed()).unwrap();
    let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    assert!(says.contains("is already managed"), "{says}");
}

#[test]
fn the_next_daemon_manages_it_further_and_still_knows_what_it_had() {
    let mut daemon = Daemon::start();
    let stranger = Stranger::start();
    masks::set(ThreadId(stranger.child), &first_cpu()).unwrap();
    let adopted = daemon.client().adopt(stranger.request()).unwrap();
    let other = launch(&daemon, "other");
    let shared = cpus_of(stranger.pid());
    daemon.crash();
    let listed = daemon.status().apps[0].clone();
    assert_eq!(listed.id, adopted.app);
    assert_eq!(listed.adopted, Some(AdoptTarget::Pid(stranger.pid())));
    assert_eq!(cpus_of(stranger.pid()), shared);
    daemon.client().release(&adopted.app.to_string()).unwrap();
    assert_eq!(cpus_of(stranger.pid()), all_cpus());
    assert_eq!(cpus_of(stranger.child), first_cpu());
    drop(other);
}

#[test]
fn a_crash_right_after_the_answer_loses_nothing_of_what_it_had() {
    let mut daemon = Daemon::start();
    let stranger = Stranger::start();
    masks::set(ThreadId(stranger.child), &first_cpu()).unwrap();
    let adopted = daemon.client().adopt(stranger.request()).unwrap();
    daemon.crash();
    let listed = daemon.status().apps[0].clone();
    assert_eq!(listed.id, adopted.app);
    assert_eq!(listed.adopted, Some(AdoptTarget::Pid(stranger.pid())));
    daemon.client().release(&adopted.app.to_string()).unwrap();
    assert_eq!(cpus_of(stranger.pid()), all_cpus());
    assert_eq!(cpus_of(stranger.child), first_cpu());
}

#[test]
fn its_end_is_seen_without_a_launcher() {
    let daemon = Daemon::start();
    let mut stranger = Stranger::start();
    daemon.client().adopt(stranger.request()).unwrap();
    stranger.program.kill();
    // Its child continues, and belongs to it.
    assert_eq!(daemon.status().apps.len(), 1);
    drop(stranger);
    eventually("the end is seen", || daemon.status().apps.is_empty());
}

#[test]
fn a_refused_adoption_or_release_names_the_fix() {
    let daemon = Daemon::start();
    let stranger = Stranger::start();
    let of = |target| AdoptRequest::of(target);
    for (target, says) in [
        (AdoptTarget::Pid(1), "process 1 is a system process"),
        (AdoptTarget::Pid(daemon.child.id()), "the daemon itself"),
        (
            AdoptTarget::Pid(i32::MAX.cast_unsigned()),
            "no such process",
        ),
        (AdoptTarget::Cgroup("/a".into()), "--enforcer cgroup"),
        (AdoptTarget::Unit("a.service".into()), "--enforcer cgroup"),
    ] {
        let text = refusal(&daemon, of(target));
        assert!(text.contains(says), "{text}");
    }
    let running = launch(&daemon, "launched");
    for pid in [running.program.child.id(), stranger.pid()] {
        let request = of(AdoptTarget::Pid(pid));
        if pid == stranger.pid() {
            daemon.client().adopt(request.clone()).unwrap();
        }
        let text = refusal(&daemon, request);
        assert!(text.contains("already managed"), "{text}");
    }
    // A child of it is already managed, but not itself.
    let text = refusal(&daemon, of(AdoptTarget::Pid(stranger.child)));
    assert!(text.contains("already managed"), "{text}");
    let unknown = daemon.client().release("nobody").unwrap_err();
    assert!(
        unknown.to_string().contains("no application \"nobody\""),
        "{unknown}"
    );
    assert_eq!(daemon.status().apps.len(), 2);
}

#[test]
fn root_releases_what_was_launched_and_it_runs_on_with_all_cpus() {
    let daemon = Daemon::start();
    let (mut released, other) = (launch(&daemon, "released"), launch(&daemon, "other"));
    assert_ne!(released.program.cpus(), all_cpus());
    // The test's user is the daemon's, who counts as root here.
    let reply = daemon.client().release("released").unwrap();
    assert_eq!(reply.adopted, AdoptTarget::Pid(released.program.child.id()));
    assert_eq!(released.program.cpus(), all_cpus());
    let page = released.page();
    let allocation = page.allocation().unwrap();
    assert_eq!(allocation.fields.cpu_count, all_cpus().len());
    // Its end is nobody's any more.
    let request = ExitedRequest {
        app: reply.app,
        status: 0,
    };
    released.client.exited(request).unwrap();
    released.program.kill();
    drop(released);
    let apps = daemon.status().apps;
    assert_eq!(apps.len(), 1, "{apps:?}");
    assert_eq!(apps[0].pid, other.program.child.id());
}

#[test]
fn bounds_on_cpus_hold_for_adopted_programs() {
    let daemon = Daemon::start();
    let stranger = Stranger::start();
    let reply = daemon
        .client()
        .adopt(AdoptRequest {
            cpus: CpuRange::new(1, Some(1)).unwrap(),
            ..stranger.request()
        })
        .unwrap();
    assert_eq!(reply.cpu_count, 1);
    assert_eq!(cpus_of(stranger.child), reply.cpus);
}

#[test]
fn an_adoption_needs_the_current_state_saved() {
    let daemon = Daemon::start();
    let stranger = Stranger::start();
    masks::set(ThreadId(stranger.child), &first_cpu()).unwrap();
    // Nothing takes the place of a directory that holds something.
    let file = daemon.dir.path().join("state/state.json");
    let _ = std::fs::remove_file(&file);
    std::fs::create_dir_all(file.join("held")).unwrap();
    let text = refusal(&daemon, stranger.request());
    assert!(text.contains("not adopted: the current CPUs of"), "{text}");
    assert_eq!(daemon.status().apps, []);
    assert_eq!(cpus_of(stranger.child), first_cpu());
    std::fs::remove_dir_all(&file).unwrap();
    daemon.client().adopt(stranger.request()).unwrap();
}

#[test]
fn memory_can_follow_only_where_it_can_be_bound_and_a_running_program_keeps_its_policy() {
    let daemon = Daemon::start();
    let stranger = Stranger::start();
    for (memory, says) in [
        (MemoryPolicy::Local, "--enforcer cgroup"),
        (MemoryPolicy::Unknown, "give local"),
    ] {
        let text = refusal(
            &daemon,
            AdoptRequest {
                memory,
                ..stranger.request()
            },
        );
        assert!(text.contains(says), "{text}");
    }
    assert!(daemon.status().apps.is_empty());
}
