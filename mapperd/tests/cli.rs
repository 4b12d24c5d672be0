//! What mapperd says to a command line or surroundings it cannot work with, and how it exits.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use assert_cmd::assert::OutputAssertExt;
use private_daemon::{Daemon, eventually};
use std::os::unix::net::UnixListener;
use std::process::Output;

fn run(flags: &[&str]) -> Output {
    Daemon::command().args(flags).output().unwrap()
}

/// Fails with a status and says all of these.
fn fails(output: Output, status: i32, says: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    output.assert().code(status);
    for part in says {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

fn stderr(flags: &[&str]) -> String {
    String::from_utf8(run(flags).stderr).unwrap()
}

#[test]
fn the_help_text_is_as_reviewed() {
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    insta::assert_snapshot!("help", help);
}

#[test]
fn what_is_said_of_a_bad_command_line_is_as_reviewed() {
    insta::assert_snapshot!("bad_interval", stderr(&["--interval", "5ms"]));
    insta::assert_snapshot!("unknown_flag", stderr(&["--fast"]));
}

#[test]
fn a_bad_flag_value_is_named_with_what_is_accepted() {
    for (flags, says) in [
        (["--interval", "5ms"], &["5ms", "20ms to 10s"][..]),
        (["--interval", "abc"], &["abc", "20ms to 10s"]),
        (["--allocation", "best"], &["\"best\"", "mapper", "fair"]),
        (["--mapping", "nowhere"], &["\"nowhere\"", "sam_mph"]),
        (["--enforcer", "magic"], &["\"magic\"", "cgroup"]),
        (["--counters", "abacus"], &["\"abacus\"", "hardware"]),
        (["--reserve", "1-x"], &["1-x", "0-3,8"]),
        (["--nonsense", "1"], &["--nonsense"]),
    ] {
        fails(run(&flags), 2, says);
    }
}

#[test]
fn a_second_daemon_on_the_same_socket_names_the_first() {
    let first = Daemon::start();
    let socket = first.socket();
    let pid = format!("pid {}", first.child.id());
    let second = run(&[
        "--enforcer",
        "affinity",
        "--socket",
        socket.to_str().unwrap(),
    ]);
    fails(
        second,
        3,
        &["a daemon is already running", &pid, "--socket"],
    );
    assert_eq!(first.status().daemon.pid, first.child.id());
}

#[test]
fn a_socket_file_without_a_daemon_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    drop(UnixListener::bind(&path).unwrap());
    let child = Daemon::spawn(Daemon::command(), dir.path(), &[]);
    let daemon = Daemon { child, dir };
    eventually("it answers", || daemon.try_client().is_ok());
}

#[test]
fn a_directory_that_cannot_be_reached_is_named() {
    let flags = [
        "--enforcer",
        "affinity",
        "--socket",
        "/proc/none/mapper.sock",
    ];
    fails(run(&flags), 1, &["/proc/none", "--socket"]);
}

#[test]
fn a_socket_path_that_is_too_long_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x".repeat(120));
    fails(
        run(&["--enforcer", "affinity", "--socket", path.to_str().unwrap()]),
        1,
        &["listen on", "xxx"],
    );
}

#[test]
fn a_user_daemon_listens_below_the_runtime_directory() {
    let dir = tempfile::tempdir().unwrap();
    let child = Daemon::command()
        .args(["--user", "--config", "/dev/null"])
        .env("XDG_RUNTIME_DIR", dir.path())
        .stderr(std::fs::File::create(dir.path().join("log")).unwrap())
        .spawn()
        .unwrap();
    let daemon = Daemon { child, dir };
    let socket = daemon.dir.path().join("mapper/mapper.sock");
    eventually("it listens", || socket.exists());
    let mode = std::os::unix::fs::MetadataExt::mode(&socket.parent().unwrap().metadata().unwrap());
    assert_eq!(mode & 0o777, 0o700);
    eventually("it says what it uses and why", || {
        let log = daemon.log();
        [
            "topology from hwloc",
            "enforcer: thread affinity",
            "not available",
            "ready",
        ]
        .iter()
        .all(|part| log.contains(part))
    });
}

#[test]
fn a_configuration_that_cannot_be_used_is_named_with_line_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mapper.toml");
    std::fs::write(&path, "interval = \"1s\"\nintervals = 3\n").unwrap();
    let config = path.to_str().unwrap();
    fails(
        run(&["--config", config]),
        1,
        &["mapper.toml", "line 2", "`intervals`"],
    );
    fails(
        run(&["--config", "/nonexistent.toml"]),
        1,
        &["/nonexistent.toml", "No such file"],
    );
}

#[test]
fn control_groups_that_are_required_and_missing_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let socket = dir.path().join("s");
    let flags = [
        "--enforcer",
        "cgroup",
        "--cgroup-root",
        root.to_str().unwrap(),
        "--socket",
        socket.to_str().unwrap(),
    ];
    fails(
        run(&flags),
        1,
        &["not on a cgroup v2 file system", "--cgroup-root"],
    );
    assert!(!socket.exists());
}

#[test]
fn reserving_every_cpu_leaves_nothing_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let all = private_daemon::all_cpus().to_string();
    let flags = [
        "--enforcer",
        "affinity",
        "--reserve",
        &all,
        "--socket",
        socket.to_str().unwrap(),
    ];
    fails(run(&flags), 1, &["no CPU is usable", "reserved"]);
}

#[test]
fn output_that_nobody_can_take_is_an_error_and_a_reader_that_has_enough_is_none() {
    for flags in [
        &["--config-schema"][..],
        &["--check-config", "--config", "/dev/null"],
    ] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = Daemon::command().args(flags).stdout(full).output().unwrap();
        fails(
            output,
            1,
            &["mapperd: write to standard output", "No space"],
        );
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Daemon::command()
            .args(flags)
            .stdout(writer)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

#[test]
fn a_check_names_what_it_read_and_how_a_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mapper.toml");
    std::fs::write(&path, "[[program]]\nqos = 0.5\n").unwrap();
    let config = path.to_str().unwrap();
    let checked = run(&["--check-config", "--config", config]);
    let said = String::from_utf8(checked.stdout.clone()).unwrap();
    assert!(
        said.contains("mapper.toml: the settings are valid"),
        "{said}"
    );
    fails(
        checked,
        0,
        &["warning", "program rule 1", "for all programs"],
    );
    let none = Daemon::command()
        .args(["--user", "--check-config"])
        .env("XDG_CONFIG_HOME", dir.path().join("none"))
        .env("XDG_RUNTIME_DIR", dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8(none.stdout).unwrap();
    assert!(
        said.contains("no configuration file: ") && said.contains("none/mapper"),
        "{said}"
    );
    fails(
        run(&["--check-config", config]),
        2,
        &["--check-config --config", "mapper.toml"],
    );
}

#[test]
fn a_check_refuses_a_reserve_with_which_the_daemon_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mapper.toml");
    let all = private_daemon::all_cpus().to_string();
    for (reserve, says) in [
        ("900-901", "this machine has no CPU 900-901"),
        (&*all, "no CPU is usable"),
    ] {
        std::fs::write(&path, format!("reserve = {reserve:?}\n")).unwrap();
        let checked = run(&["--check-config", "--config", path.to_str().unwrap()]);
        assert!(checked.stdout.is_empty());
        fails(checked, 1, &["mapper.toml", reserve, says]);
    }
}

#[test]
fn cpus_that_the_machine_does_not_have_cannot_be_reserved() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let flags = [
        "--enforcer",
        "affinity",
        "--reserve",
        "900",
        "--socket",
        socket.to_str().unwrap(),
    ];
    fails(
        run(&flags),
        1,
        &["reserve 900", "this machine has no CPU 900"],
    );
}
