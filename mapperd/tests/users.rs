//! Many users at a time, one of them with a range of subordinate uids: none keeps another, or root, from the daemon.
//!
//! The tests act as other users, which takes root; without it they say so and do nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use private_daemon::{Daemon, all_cpus, launch};
use rustix::thread::set_thread_res_uid;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// Users of the tests; who has the subordinate uids is the first.
const USERS: Range<u32> = 61_001..61_021;
const SUBORDINATES: Range<u32> = 400_000..465_536;

fn may_act_as_others() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: acting as other users takes root");
    }
    is_root
}

/// A daemon that every user may connect to, on a machine with [`SUBORDINATES`].
fn daemon(flags: &[&str]) -> Daemon {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let etc = dir.path().join("etc");
    std::fs::create_dir(&etc).unwrap();
    std::fs::write(
        etc.join("passwd"),
        format!("first:x:{}:1:::\n", USERS.start),
    )
    .unwrap();
    let range = format!("first:{}:{}\n", SUBORDINATES.start, SUBORDINATES.len());
    std::fs::write(etc.join("subuid"), range).unwrap();
    let prepared = Daemon::command();
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "sh",
        "-c",
        "mount --bind \"$0\" /etc && exec \"$@\"",
    ]);
    command.arg(etc).arg(prepared.get_program());
    for (name, value) in prepared.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Daemon::start_as(command, dir, flags)
}

/// Does something as another user. The kernel takes the credentials of the thread that connects.
fn acting_as<T: Send>(uid: u32, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let acting = scope.spawn(|| {
            let uid = Some(rustix::process::Uid::from_raw(uid));
            set_thread_res_uid(uid, uid, uid).unwrap();
            act()
        });
        acting.join().unwrap()
    })
}

fn connect(daemon: &Daemon, number: usize) -> Vec<UnixStream> {
    let connect = |_| UnixStream::connect(daemon.socket()).unwrap();
    (0..number).map(connect).collect()
}

/// The connections that were accepted, and the answers to those that were refused.
fn held(daemon: &Daemon, connections: Vec<UnixStream>) -> (Vec<UnixStream>, String) {
    // Connections are accepted in their order: those before this one are.
    daemon.status();
    let (mut held, mut said) = (Vec::new(), String::new());
    for mut connection in connections {
        let mut answer = [0; 1024];
        connection.set_nonblocking(true).unwrap();
        match connection.read(&mut answer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => held.push(connection),
            length => said = String::from_utf8_lossy(&answer[..length.unwrap()]).into_owned(),
        }
    }
    (held, said)
}

#[test]
fn users_who_take_every_connection_leave_others_some_and_root_an_answer() {
    if !may_act_as_others() {
        return;
    }
    let daemon = daemon(&[]);
    let (first, newcomer) = (USERS.start, USERS.end);
    let subordinate = |uid| acting_as(uid, || connect(&daemon, 1));
    let subordinates = SUBORDINATES.step_by(100).take(400).flat_map(subordinate);
    let (mut all, said) = held(&daemon, subordinates.collect());
    assert_eq!(all.len(), 256);
    assert!(
        said.contains(&format!("user {first} has too many connections")),
        "{said}"
    );
    for uid in USERS {
        let connections = acting_as(uid, || connect(&daemon, 300));
        let (held, said) = held(&daemon, connections);
        assert_eq!(held.is_empty(), uid == first, "{uid}: {said}");
        assert!(said.contains("org.mapper.Control.Unavailable"), "{said}");
        all.extend(held);
    }
    let started = Instant::now();
    daemon.status();
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    assert!(all.len() > 3000, "{}", all.len());
    acting_as(newcomer, || daemon.status());
}

#[test]
fn the_program_of_any_user_opens_the_page_of_roots_daemon() {
    if !may_act_as_others() {
        return;
    }
    let daemon = Daemon::start();
    let running = launch(&daemon, "of-another-user");
    let page = acting_as(USERS.start, || running.page());
    let allocation = page.allocation().unwrap();
    assert_eq!(allocation.fields.cpu_count, all_cpus().len());
}
