//! The configuration is read again while programs run.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use private_daemon::{Daemon, all_cpus, eventually, launch};
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::Signal;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A daemon with a configuration that the test changes.
fn configured(text: &str) -> (Daemon, PathBuf, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mapper.toml");
    std::fs::write(&path, text).unwrap();
    let daemon = Daemon::start_with(&["--config", path.to_str().unwrap()]);
    (daemon, path, dir)
}

#[test]
fn a_reload_takes_over_what_it_can_and_tells_what_waits() {
    let (daemon, path, _dir) = configured("interval = \"50ms\"\nallocation = \"equal\"\n");
    let running = launch(&daemon, "steady");
    std::fs::write(
        &path,
        "interval = \"80ms\"\nallocation = \"fair\"\nrecord = \"/tmp/r\"\n[expert.characterise]\nfading = 0.5\n",
    )
    .unwrap();
    let reply = daemon.client().reload().unwrap();
    assert_eq!(
        reply.changed,
        [
            "interval: 50ms → 80ms",
            "allocation: equal → fair",
            "[expert.characterise]"
        ]
    );
    assert_eq!(reply.needs_restart, ["record: none → /tmp/r"]);
    let status = daemon.status();
    assert_eq!(status.daemon.interval_ns, 80_000_000);
    assert_eq!(status.daemon.allocation, "fair");
    assert_eq!(status.apps[0].cpus, all_cpus());
    assert_eq!(running.program.cpus(), all_cpus());
    assert_eq!(daemon.client().reload().unwrap().changed, [""; 0]);
}

#[test]
fn a_hang_up_signal_reads_the_configuration_again() {
    let (daemon, path, _dir) = configured("interval = \"50ms\"\n");
    std::fs::write(&path, "interval = \"70ms\"\n").unwrap();
    daemon.signal(Signal::HUP);
    eventually("the interval is the new one", || {
        daemon.status().daemon.interval_ns == 70_000_000
    });
}

/// As names of users in it may be a server's that does not answer.
#[test]
fn a_configuration_that_cannot_be_read_at_once_holds_nobody_up() {
    let (daemon, path, _dir) = configured("interval = \"50ms\"\n");
    let _running = launch(&daemon, "steady");
    std::fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // Opened for reading, too, so that nothing here waits for the daemon.
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.read(true).write(true).open(&path).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| daemon.client().reload());
        let before = daemon.status().daemon.decisions;
        let deadline = Instant::now() + private_daemon::PATIENCE;
        while daemon.status().daemon.decisions < before + 6 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let decided = daemon.status().daemon.decisions - before;
        let waits = !first.is_finished();
        let says_so = || {
            daemon
                .log()
                .contains("the configuration is still being read")
        };
        while !says_so() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let said_so = says_so();
        // It may be another file by now, so it is read once more for this one.
        let second = scope.spawn(|| daemon.client().reload());
        std::thread::sleep(Duration::from_millis(200));
        // Before anything can fail: each end waits for the file otherwise.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "interval = \"90ms\"\n").unwrap();
        file.write_all(b"interval = \"70ms\"\n").unwrap();
        drop(file);
        let changed = first.join().unwrap().unwrap().changed;
        assert_eq!(changed, ["interval: 50ms → 70ms"]);
        let changed = second.join().unwrap().unwrap().changed;
        assert_eq!(changed, ["interval: 70ms → 90ms"]);
        assert!(waits && decided >= 6, "{waits}, {decided} decisions");
        assert!(said_so, "{}", daemon.log());
    });
}

#[test]
fn a_file_with_an_error_changes_nothing_and_is_named_with_line_and_key() {
    let (daemon, path, _dir) = configured("interval = \"50ms\"\n");
    let running = launch(&daemon, "steady");
    for (text, says) in [
        (
            "\ninterval = \"1h\"\n",
            &["line 2", "1h", "20ms to 10s"][..],
        ),
        ("intervall = \"1s\"\n", &["line 1", "`intervall`"]),
        (
            "interval = \"1s\"\n[machine]\nipc_high = 0.0\n",
            &["line 3", "machine.ipc_high"],
        ),
        ("allocation = \"best\"", &["line 1", "\"best\""]),
        ("reserve = \"0-4095\"", &["0-4095", "no CPU"]),
        ("interval = ", &["line 1"]),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = daemon.client().reload().unwrap_err().to_string();
        for part in says {
            assert!(error.contains(part), "{text}: {error}");
        }
        assert_eq!(daemon.status().daemon.interval_ns, 50_000_000);
    }
    std::fs::remove_file(&path).unwrap();
    assert!(daemon.client().reload().is_err());
    daemon.signal(Signal::HUP);
    eventually("the log says so", || {
        daemon.log().contains("configuration unchanged")
    });
    assert_eq!(running.program.cpus(), all_cpus());
}

#[test]
fn reserved_cpus_are_taken_from_applications_that_run() {
    if all_cpus().len() < 2 {
        return;
    }
    let (daemon, path, _dir) = configured("");
    let running = launch(&daemon, "shrinks");
    let first = all_cpus().iter().next().unwrap();
    std::fs::write(&path, format!("reserve = \"{first}\"")).unwrap();
    daemon.client().reload().unwrap();
    assert!(!running.program.cpus().contains(first));
    std::fs::write(&path, "").unwrap();
    daemon.client().reload().unwrap();
    eventually("it has them back", || running.program.cpus() == all_cpus());
}

#[test]
fn a_configuration_can_be_checked_without_a_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mapper.toml");
    let check = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Daemon::command()
            .args(["--check-config", "--config"])
            .arg(&path)
            .output()
            .unwrap()
    };
    assert!(check("interval = \"2s\"\n").status.success());
    let bad = check("interval = \"2s\"\nreserve = \"x\"\n");
    assert_eq!(bad.status.code(), Some(1));
    let text = String::from_utf8(bad.stderr).unwrap();
    assert!(
        text.contains("line 2") && text.contains("reserve"),
        "{text}"
    );
}
