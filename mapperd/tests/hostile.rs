//! Clients that mean harm, or are out of their mind.
//!
//! Whatever they send, the daemon must continue deciding, must answer others, must not grow, and must not
//! touch an application that is not theirs. Messages are random bytes, damaged calls, and calls with
//! random values in every field; pages are random bytes and random words at the places that count.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use private_daemon::{Daemon, Running, all_cpus, eventually, launch};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rustix::thread::set_thread_res_uid;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Messages sent in one run, and by how many users: `MAPPER_HOSTILE_MESSAGES`, `MAPPER_HOSTILE_USERS` (takes root).
const MESSAGES: usize = 100_000;
const USERS: usize = 1;
/// Messages sent on one connection at most: the rest use others.
const ON_ONE_CONNECTION: usize = 500;
/// Pages written in one run: `MAPPER_HOSTILE_PAGES`.
const PAGES: usize = 2_000;

fn size(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap())
}

/// Connects as another user, the one of that number; as the one who runs the test if that is 0.
fn connect_as(daemon: &Daemon, user: usize) -> UnixStream {
    std::thread::scope(|scope| {
        let connecting = scope.spawn(|| {
            if user > 0 {
                let uid = rustix::process::Uid::from_raw(62_000 + u32::try_from(user).unwrap());
                set_thread_res_uid(Some(uid), Some(uid), Some(uid)).unwrap();
            }
            UnixStream::connect(daemon.socket()).unwrap()
        });
        connecting.join().unwrap()
    })
}

fn runner() -> TestRunner {
    // The same messages in every run, so that a failure can be looked into.
    TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    )
}

/// A value of JSON, of any kind, now and then of one that a field expects.
fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        (0u32..5).prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| if n.is_finite() {
            format!("{n:e}")
        } else {
            "1e999".into()
        }),
        "[a-zA-Z0-9_.%-]{0,80}".prop_map(|text| format!("{text:?}")),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just("[[[[[[[[]]]]]]]]".to_owned()),
        Just("{\"a\":{\"b\":{}}}".to_owned()),
        Just("\"fixed\"".to_owned()),
        Just("\"on\"".to_owned()),
    ]
}

/// A call to adopt, of everything but processes: what is running on the machine of the test is to be left
/// alone.
fn adoption() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        Just("cgroup"),
        Just("unit"),
        Just("name"),
        Just("qos"),
        Just("weight"),
        Just("min_cpus"),
        Just("max_cpus"),
    ];
    let fields = prop::collection::vec((field, any_value()), 0..6);
    fields.prop_map(|fields| {
        let mut text =
            "{\"method\":\"org.mapper.Control.Adopt\",\"parameters\":{\"protocol\":2".to_owned();
        for (name, value) in fields {
            text.push_str(&format!(",{name:?}:{value}"));
        }
        text.push_str("}}");
        text.into_bytes()
    })
}

/// A call that has the form of one.
fn structured() -> impl Strategy<Value = Vec<u8>> {
    let method = prop_oneof![
        Just("org.mapper.Control.Launch".to_owned()),
        Just("org.mapper.Control.Exited".to_owned()),
        Just("org.mapper.Control.Status".to_owned()),
        Just("org.mapper.Control.Explain".to_owned()),
        Just("org.mapper.Control.Policies".to_owned()),
        Just("org.mapper.Control.Report".to_owned()),
        Just("org.mapper.Control.Release".to_owned()),
        Just("org.varlink.service.GetInfo".to_owned()),
        Just("org.varlink.service.GetInterfaceDescription".to_owned()),
        "[a-zA-Z.]{0,40}",
    ];
    let field = prop_oneof![
        Just("protocol"),
        Just("pid"),
        Just("name"),
        Just("command"),
        Just("qos"),
        Just("weight"),
        Just("min_cpus"),
        Just("max_cpus"),
        Just("resizing"),
        Just("teams"),
        Just("runtime"),
        Just("app"),
        Just("status"),
        Just("interface"),
        Just("else"),
    ];
    let fields = prop::collection::vec((field, any_value()), 0..12);
    let version = prop_oneof![3 => Just(None), 1 => any::<u32>().prop_map(Some)];
    (method, fields, version, any::<bool>()).prop_map(|(method, fields, version, oneway)| {
        let version = version.unwrap_or(1);
        let mut text = format!(
            "{{\"method\":{method:?},\"oneway\":{oneway},\"parameters\":{{\"protocol\":{version}"
        );
        for (name, value) in fields {
            text.push_str(&format!(",{name:?}:{value}"));
        }
        text.push_str("}}");
        text.into_bytes()
    })
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => structured(),
        1 => adoption(),
        2 => (structured(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut m, at, byte)| {
            let at = at.index(m.len());
            m[at] = byte;
            m
        }),
        1 => prop::collection::vec(any::<u8>(), 0..200),
        1 => (structured(), any::<prop::sample::Index>()).prop_map(|(mut m, at)| {
            m.truncate(at.index(m.len()));
            m
        }),
    ]
}

struct Usage {
    resident_kib: u64,
    descriptors: usize,
}

fn usage(daemon: &Daemon) -> Usage {
    let pid = daemon.child.id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    Usage {
        resident_kib: line.trim().trim_end_matches(" kB").parse().unwrap(),
        descriptors: std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .count(),
    }
}

/// The daemon is as it was: it lives, decides, has let go of everything, and the victim is untouched.
fn ensure_unharmed(daemon: &Daemon, victim: &Running, before: &Usage) {
    let decisions = daemon.status().daemon.decisions;
    eventually("decisions go on", || {
        daemon.status().daemon.decisions > decisions
    });
    eventually("descriptors are given back", || {
        usage(daemon).descriptors <= before.descriptors + 2
    });
    let status = daemon.status();
    assert_eq!(status.apps.len(), 1, "{status:?}");
    assert_eq!(victim.program.cpus(), all_cpus());
    let grown = usage(daemon)
        .resident_kib
        .saturating_sub(before.resident_kib);
    assert!(grown < 8 * 1024, "grown by {grown} KiB");
    let log = daemon.log();
    assert!(!log.contains("panicked"), "{log}");
}

fn send(stream: &mut UnixStream, bytes: &[u8]) -> bool {
    let mut sink = [0u8; 65_536];
    let sent = stream
        .write_all(bytes)
        .and_then(|()| stream.write_all(b"\0"))
        .is_ok();
    stream.set_nonblocking(true).unwrap();
    while matches!(stream.read(&mut sink), Ok(length) if length > 0) {}
    stream.set_nonblocking(false).unwrap();
    sent
}

#[test]
fn a_hundred_thousand_messages_do_no_harm() {
    let daemon = Daemon::start_with(&["--interval", "100ms"]);
    let victim = launch(&daemon, "victim");
    let mut runner = runner();
    let strategy = message();
    let (messages, users) = (
        size("MAPPER_HOSTILE_MESSAGES", MESSAGES),
        size("MAPPER_HOSTILE_USERS", USERS),
    );
    let connect = |sent: usize| {
        let stream = connect_as(&daemon, if users > 1 { 1 + sent % users } else { 0 });
        stream
            .set_write_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        stream
    };
    let (mut stream, mut on_this) = (connect(0), 0);
    let mut before = None;
    let mut slowest = Duration::ZERO;
    for sent in 0..messages {
        // What a first round makes it use, buffers and the like, is no growth.
        if sent % 1000 == 0 {
            let asked = Instant::now();
            daemon.status();
            slowest = slowest.max(asked.elapsed());
        }
        if sent == messages / 10 {
            before = Some(usage(&daemon));
        }
        let message = strategy.new_tree(&mut runner).unwrap().current();
        on_this += 1;
        if !send(&mut stream, &message) || on_this == ON_ONE_CONNECTION {
            (stream, on_this) = (connect(sent), 0);
        }
    }
    drop(stream);
    eprintln!("{messages} messages of {users} users: status answered within {slowest:?}");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    ensure_unharmed(&daemon, &victim, &before.unwrap());
}

#[test]
fn a_page_may_hold_anything_at_any_time() {
    let daemon = Daemon::start_with(&["--interval", "20ms"]);
    let victim = launch(&daemon, "victim");
    let liar = launch(&daemon, "liar");
    let page = std::fs::File::from(liar.launched.page.as_ref().unwrap().try_clone().unwrap());
    let mut runner = runner();
    let bytes = mapper_abi::PAGE_BYTES as u64;
    let words = prop::collection::vec((0..bytes / 8, any::<u64>()), 1..64);
    let edges = prop::sample::select(vec![0u64, 1, u64::MAX, u64::MAX / 2, 1 << 63, 0xff]);
    let edge_words = prop::collection::vec((0..64u64, edges), 1..64);
    let strategy = prop_oneof![words, edge_words];
    for round in 0..size("MAPPER_HOSTILE_PAGES", PAGES) {
        let written = strategy.new_tree(&mut runner).unwrap().current();
        for (place, value) in written {
            page.write_all_at(&value.to_ne_bytes(), place * 8).unwrap();
        }
        if round % 100 == 0 {
            std::thread::sleep(Duration::from_millis(20));
            let status = daemon.status();
            assert_eq!(status.apps.len(), 2);
            for app in &status.apps {
                assert!(
                    !app.cpus.is_empty() && app.cpus.is_subset(&all_cpus()),
                    "{app:?}"
                );
                assert!(
                    app.performance.as_ref().is_none_or(|p| p.value.is_finite()),
                    "{app:?}"
                );
            }
        }
    }
    let before = usage(&daemon);
    drop(liar);
    eventually("the liar is gone", || daemon.status().apps.len() == 1);
    ensure_unharmed(&daemon, &victim, &before);
}

#[test]
fn half_open_connections_and_endless_messages_are_bounded() {
    let daemon = Daemon::start_with(&["--interval", "100ms"]);
    let victim = launch(&daemon, "victim");
    daemon.status();
    let before = usage(&daemon);
    let mut half: Vec<UnixStream> = (0..500)
        .map(|_| {
            let mut stream = UnixStream::connect(daemon.socket()).unwrap();
            stream.write_all(b"{\"method\":\"org.").unwrap();
            stream
        })
        .collect();
    // Others are served meanwhile.
    assert_eq!(daemon.status().apps.len(), 1);
    // A message without an end is given up, long before it fills memory.
    let endless = &mut half[0];
    endless
        .set_write_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut sent = 0usize;
    while endless.write_all(&[b'x'; 65_536]).is_ok() {
        sent += 65_536;
        assert!(sent < 64 << 20, "it takes everything");
    }
    drop(half);
    ensure_unharmed(&daemon, &victim, &before);
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody() {
    let daemon = Daemon::start_with(&["--interval", "100ms"]);
    let victim = launch(&daemon, "victim");
    daemon.status();
    let before = usage(&daemon);
    let call = b"{\"method\":\"org.mapper.Control.Status\"}\0".repeat(2_000);
    let deaf: Vec<UnixStream> = (0..20)
        .map(|_| {
            let mut stream = UnixStream::connect(daemon.socket()).unwrap();
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(&call);
            stream
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(daemon.status().apps.len(), 1);
    }
    drop(deaf);
    ensure_unharmed(&daemon, &victim, &before);
}
