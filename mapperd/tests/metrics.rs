//! Metrics as a scraper sees them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use private_daemon::scrape::{GET, scrape, value};
use private_daemon::{Daemon, PATIENCE, eventually, launch};
use rustix::fs::{FileType, OFlags};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;
use std::time::{Duration, Instant};

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
    let text = scrape(&socket, GET);
    // An alarm can only watch what is there before the first error.
    for kind in ["enforce", "memory", "plan", "processes", "release"] {
        let name = format!("mapper_errors_total{{kind=\"{kind}\"}}");
        assert_eq!(value(&text, &name), Some(0.0), "{text}");
    }
    for name in [
        "mapper_interval_stretched",
        "mapper_launches_total",
        "mapper_launches_refused_total",
        "mapper_adoptions_total",
        "mapper_log_lines_dropped_total",
    ] {
        assert_eq!(value(&text, name), Some(0.0), "{name}: {text}");
    }
    let build = format!(
        "mapper_build_info{{version={:?}}}",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(value(&text, &build), Some(1.0), "{text}");
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
    // A program that sleeps is not judged, and has no share of the promise.
    assert_eq!(value(&text, "mapper_app_achieved_of_promised_ratio{"), None);
    let count = |name: &str| value(&text, name).unwrap();
    assert!(count("mapper_intervals_total") > 3.0);
    // The launch was followed by a decision, but no interval ended.
    assert!(count("mapper_intervals_total") < count("mapper_decisions_total"));
    assert_eq!(value(&text, "mapper_launches_total"), Some(1.0));
    assert_eq!(value(&text, "mapper_launch_seconds_count"), Some(1.0));
    assert!(value(&text, "mapper_daemon_resident_memory_bytes").unwrap() > 1e6);
    assert!(value(&text, "mapper_daemon_open_descriptors").unwrap() > 3.0);
    drop(running);
    eventually("it is gone", || daemon.status().apps.is_empty());
    let text = scrape(&socket, GET);
    assert_eq!(value(&text, "mapper_applications"), Some(0.0));
    assert!(!text.contains("counted"), "{text}");
}

#[test]
fn a_launch_writes_one_line_into_the_log() {
    let daemon = Daemon::start();
    let lines = || daemon.log().lines().count();
    eventually("it is ready", || daemon.log().contains("ready"));
    let before = lines();
    let running = launch(&daemon, "counted");
    eventually("it is logged", || daemon.log().contains("name=counted"));
    daemon.status();
    assert_eq!(lines(), before + 1, "{}", daemon.log());
    let pid = format!("pid={}", running.program.child.id());
    assert!(daemon.log().contains(&pid), "{}", daemon.log());
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
fn clients_that_send_or_read_nothing_and_ask_all_the_time_hold_no_scraper_up() {
    let dir = tempfile::tempdir().unwrap();
    let (config, socket) = (dir.path().join("c.toml"), dir.path().join("m"));
    std::fs::write(&config, format!("[metrics]\nsocket = {socket:?}\n")).unwrap();
    let _daemon = Daemon::start_with(&["--config", config.to_str().unwrap()]);
    let mut held = Vec::new();
    for _ in 0..3 {
        for sent in ["", "GET /met", GET, GET].repeat(50) {
            let mut stream = UnixStream::connect(&socket).unwrap();
            stream.write_all(sent.as_bytes()).unwrap();
            held.push(stream);
        }
        let started = Instant::now();
        let text = scrape(&socket, GET);
        let took = started.elapsed();
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}

#[test]
fn the_daemon_is_asked_every_50_ms_at_most_however_often_it_is_scraped() {
    let dir = tempfile::tempdir().unwrap();
    let (config, socket) = (dir.path().join("c.toml"), dir.path().join("m"));
    std::fs::write(&config, format!("[metrics]\nsocket = {socket:?}\n")).unwrap();
    let _daemon = Daemon::start_with(&["--config", config.to_str().unwrap()]);
    // It grows until the daemon is asked the next time.
    let cpu_time = || {
        let text = scrape(&socket, GET);
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with("mapper_daemon_cpu_seconds_total "));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let started = Instant::now();
    let seen: BTreeSet<String> = std::thread::scope(|scope| {
        let scrape_all = || (0..10).map(|_| cpu_time()).collect::<Vec<_>>();
        let scrapers = [(); 4].map(|()| scope.spawn(scrape_all));
        let seen = scrapers.into_iter().map(|scraper| scraper.join().unwrap());
        seen.flatten().collect()
    });
    let (times, took) = (seen.len(), started.elapsed());
    assert!(times > 1, "{seen:?}");
    let at_most = 1 + took.as_millis() / 50;
    assert!(times as u128 <= at_most, "{times} times within {took:?}");
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

#[test]
fn a_log_and_a_service_manager_that_nobody_reads_stop_nothing_and_what_was_lost_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (config, socket, log) = (path("c.toml"), path("m"), path("pipe"));
    let text = format!("interval = \"50ms\"\n[metrics]\nsocket = {socket:?}\n");
    std::fs::write(&config, text).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &log, FileType::Fifo, mode, 0).unwrap();
    let mut pipe = File::options();
    let pipe = pipe
        .read(true)
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let mut pipe = pipe.open(&log).unwrap();
    while pipe.write(&[b'.'; 4096]).is_ok() {}
    let _manager = UnixDatagram::bind(path("notify")).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2<>\"$LOG\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_mapperd")).env("LOG", &log);
    command
        .env_remove("JOURNAL_STREAM")
        .env("NOTIFY_SOCKET", path("notify"));
    // A notification each millisecond.
    command
        .env_remove("WATCHDOG_PID")
        .env("WATCHDOG_USEC", "2000");
    let place = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start_as(command, place, &["--config", config.to_str().unwrap()]);

    let running = launch(&daemon, "counted");
    let mut client = daemon.client();
    let mut refused = running.program.request("refused");
    refused.pid = 1;
    for _ in 0..1500 {
        let started = Instant::now();
        client.launch(refused.clone()).map(|_| ()).unwrap_err();
        let took = started.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    let decisions = daemon.status().daemon.decisions;
    eventually("decisions go on", || {
        daemon.status().daemon.decisions > decisions + 3
    });
    let dropped = value(&scrape(&socket, GET), "mapper_log_lines_dropped_total").unwrap();
    assert!(dropped > 100.0, "{dropped}");

    // The reader comes back.
    let mut text = Vec::new();
    eventually("the loss is logged", || {
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).contains("log lines were dropped")
    });
    // And goes, and the daemon is stopped.
    while pipe.write(&[b'.'; 4096]).is_ok() {}
    daemon.signal(rustix::process::Signal::TERM);
    let started = Instant::now();
    let status = daemon.child.wait().unwrap();
    assert!(status.success() && started.elapsed() < PATIENCE, "{status}");
}

#[test]
fn lines_that_the_logs_reader_refuses_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (config, socket) = (dir.path().join("c.toml"), dir.path().join("m"));
    std::fs::write(&config, format!("[metrics]\nsocket = {socket:?}\n")).unwrap();
    let mut command = Command::new("sh");
    // No line has room there.
    command.args(["-c", "exec \"$@\" 2>/dev/full", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_mapperd"));
    command
        .env_remove("JOURNAL_STREAM")
        .env_remove("NOTIFY_SOCKET");
    let place = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_as(command, place, &["--config", config.to_str().unwrap()]);
    let refused = || value(&scrape(&socket, GET), "mapper_log_lines_dropped_total").unwrap();
    let before = refused();
    assert!(before > 0.0, "the daemon says that it is ready");
    let program = private_daemon::Program::sleeping();
    let mut request = program.request("refused");
    request.pid = 1;
    for _ in 0..5 {
        let launched = daemon.client().launch(request.clone());
        launched.map(|_| ()).unwrap_err();
    }
    eventually("each line is counted", || refused() >= before + 5.0);
}
