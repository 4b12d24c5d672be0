//! Bad input gets an error that names value, place and mend, and exit status 125.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

mod support;

use support::{Stage, ending, run};

/// What a command line that cannot be served says, with status 125 and without asking the daemon.
fn refusal(line: &[&str]) -> String {
    let stage = Stage::new();
    let mut launch = stage.bare(support::LAUNCHER);
    let outcome = run(launch.args(line));
    assert_eq!(ending(outcome.status), "exit 125", "{line:?}");
    assert_eq!(outcome.stdout, "");
    assert_eq!(stage.daemon().seen(), []);
    outcome.stderr
}

#[test]
fn a_promise_outside_zero_to_one_is_refused() {
    for value in ["0", "1.5", "abc", "-0.1", "nan", ""] {
        let said = refusal(&["--qos", value, "--", "true"]);
        assert!(said.starts_with("mapper-launch: "), "{said}");
    }
    insta::assert_snapshot!(refusal(&["--qos", "0", "--", "true"]));
    insta::assert_snapshot!(refusal(&["--qos", "1.5", "--", "true"]));
    insta::assert_snapshot!(refusal(&["--qos", "abc", "--", "true"]));
}

#[test]
fn limits_that_cannot_be_kept_are_refused() {
    insta::assert_snapshot!(refusal(&[
        "--min-cpus",
        "3",
        "--max-cpus",
        "2",
        "--",
        "true"
    ]));
    insta::assert_snapshot!(refusal(&["--min-cpus", "0", "--", "true"]));
    insta::assert_snapshot!(refusal(&["--max-cpus", "many", "--", "true"]));
    insta::assert_snapshot!(refusal(&["--weight", "0", "--", "true"]));
}

#[test]
fn modes_that_do_not_exist_are_refused() {
    insta::assert_snapshot!(refusal(&["--teams", "elastic", "--", "true"]));
    insta::assert_snapshot!(refusal(&["--threads", "0", "--", "true"]));
    insta::assert_snapshot!(refusal(&[
        "--teams",
        "follow",
        "--no-runtime",
        "--",
        "true"
    ]));
    insta::assert_snapshot!(refusal(&["--name", "../x", "--", "true"]));
}

#[test]
fn a_line_without_program_or_with_unknown_flags_is_refused() {
    insta::assert_snapshot!(refusal(&[]));
    insta::assert_snapshot!(refusal(&["--qos", "0.9", "--"]));
    insta::assert_snapshot!(refusal(&["--quality", "0.9", "--", "true"]));
    insta::assert_snapshot!(refusal(&["-q", "--", "true"]));
}

#[test]
fn a_socket_that_cannot_be_reached_is_reported_with_its_path() {
    let stage = Stage::without_daemon();
    let path = |name: &str| stage.folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("file"), "").unwrap();
    drop(std::os::unix::net::UnixListener::bind(path("stale")).unwrap());
    let long = path(&"x".repeat(120));
    let mut said = String::new();
    for socket in [
        path("none"),
        path("file"),
        path("stale"),
        long,
        path("file/sock"),
    ] {
        let outcome = run(&mut stage.launch(&["--socket", &socket], &["true"]));
        assert_eq!(ending(outcome.status), "exit 125");
        said.push_str(&outcome.stderr);
    }
    insta::assert_snapshot!(said.replace(stage.folder.path().to_str().unwrap(), "FOLDER"));
}

#[test]
fn a_program_that_is_not_there_is_reported_before_the_daemon_is_asked() {
    let stage = Stage::without_daemon();
    let mut said = String::new();
    for program in ["no-such-program", "./no-such-program", "/", ""] {
        said.push_str(&run(&mut stage.launch(&[], &[program])).stderr);
    }
    insta::assert_snapshot!(said);
}

#[test]
fn help_and_version_go_to_standard_output() {
    let stage = Stage::without_daemon();
    for flag in ["--help", "--version"] {
        let outcome = run(stage.bare(support::LAUNCHER).arg(flag));
        assert_eq!(ending(outcome.status), "exit 0");
        assert_eq!(outcome.stderr, "");
        assert!(outcome.stdout.contains("mapper-launch"));
    }
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut help = stage.bare(support::LAUNCHER);
    let failed = help.arg("--help").stdout(full).output().unwrap();
    assert_eq!(ending(failed.status), "exit 125");
}

#[test]
fn the_help_is_as_it_was() {
    let stage = Stage::without_daemon();
    insta::assert_snapshot!(run(stage.bare(support::LAUNCHER).arg("--help")).stdout);
}
