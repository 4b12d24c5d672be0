//! Metrics as a scraper sees them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use private_daemon::{Daemon, eventually, launch};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

fn scrape(socket: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: mapper\r\n\r\n";

/// The value on the line that begins so.
fn value(text: &str, start: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(start))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn every_application_is_in_the_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let (config, socket) = (dir.path().join("c.toml"), dir.path().join("m"));
    std::fs::write(
        &config,
        format!("interval = \"50ms\"\n[metrics]\nsocket = {socket:?}\n"),
    )
    .unwrap();
    let daemon = Daemon::start_with(&["--config", config.to_str().unwrap()]);
    let running = launch(&daemon, "counted");
    eventually("some decisions", || daemon.status().daemon.decisions > 5);
    let text = scrape(&socket, GET);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let cpus = f64::from(running.launched.reply.cpu_count);
    assert_eq!(
        value(&text, "mapper_app_cpus{app=\"1\",name=\"counted\""),
        Some(cpus),
        "{text}"
    );
    assert_eq!(value(&text, "mapper_applications"), Some(1.0));
    assert!(value(&text, "mapper_app_given_cpu_seconds_total{").unwrap() > 0.0);
    assert!(value(&text, "mapper_decisions_total").unwrap() > 5.0);
    assert!(value(&text, "mapper_decision_seconds_count").unwrap() > 5.0);
    assert_eq!(value(&text, "mapper_launches_total"), Some(1.0));
    assert!(value(&text, "mapper_daemon_resident_memory_bytes").unwrap() > 1e6);
    assert!(value(&text, "mapper_daemon_open_descriptors").unwrap() > 3.0);
    drop(running);
    eventually("it is gone", || daemon.status().apps.is_empty());
    let text = scrape(&socket, GET);
    assert_eq!(value(&text, "mapper_applications"), Some(0.0));
    assert!(!text.contains("counted"), "{text}");
}

#[test]
fn other_requests_are_answered_in_http() {
    let dir = tempfile::tempdir().unwrap();
    let (config, socket) = (dir.path().join("c.toml"), dir.path().join("m"));
    std::fs::write(
        &config,
        format!("[metrics]\nsocket = {socket:?}\ntcp = \"127.0.0.1:0\"\n"),
    )
    .unwrap();
    let daemon = Daemon::start_with(&["--config", config.to_str().unwrap()]);
    daemon.status();
    assert!(scrape(&socket, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(scrape(&socket, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    let posted = scrape(&socket, "POST /metrics HTTP/1.1\r\n\r\n");
    assert!(
        posted.starts_with("HTTP/1.1 405") && posted.contains("\r\nAllow: GET\r\n"),
        "{posted}"
    );
    let mode = std::os::unix::fs::MetadataExt::mode(&socket.metadata().unwrap());
    assert_eq!(mode & 0o777, 0o600);
    daemon.stop();
    assert!(!socket.exists(), "left behind");
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("c.toml");
    std::fs::write(&config, "[metrics]\ntcp = \"0.0.0.0:9455\"\n").unwrap();
    let output = Daemon::command()
        .args(["--check-config", "--config", config.to_str().unwrap()])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("line 2") && text.contains("loopback"),
        "{text}"
    );
}

#[test]
fn an_application_can_be_asked_for_its_report_and_shortly_after_its_end_too() {
    let daemon = Daemon::start();
    let mut running = launch(&daemon, "reported");
    let app = running.launched.reply.app;
    eventually("some decisions", || daemon.status().daemon.decisions > 3);
    let report = daemon.client().report(app).unwrap();
    assert_eq!(report.name.as_str(), "reported");
    assert!(report.account.managed_ns > 0);
    assert_eq!(report.account.most_cpus, running.launched.reply.cpu_count);
    running.program.kill();
    eventually("it is gone", || daemon.status().apps.is_empty());
    let last = daemon.client().report(app).unwrap();
    assert!(last.account.given_cpu_ns >= report.account.given_cpu_ns);
    let nobody = daemon.client().report(mapper_model::AppId(99)).unwrap_err();
    assert!(nobody.to_string().contains("99"), "{nobody}");
}
