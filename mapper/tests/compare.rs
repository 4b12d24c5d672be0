//! `mapper compare`, with a daemon that grants everything.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mapper_control::fake::{Answer, FakeDaemon, grant};
use mapper_control::schema::{Account, EndedApp, HistoryReply};
use mapper_control::{PROTOCOL, Reply, Request};
use mapper_model::{AppId, AppName, CpuSet, Qos};
use std::process::{Command, Output};

fn compare(words: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("mapper.sock");
    let _daemon = FakeDaemon::start(&socket, |request| match request {
        Request::Launch(launch) => Answer::Reply(grant(launch, &CpuSet::first(1), 1)),
        Request::History => Answer::Reply(Reply::History(HistoryReply {
            protocol: PROTOCOL,
            ended: vec![ended("sh", 1), ended("sh-2", 0)],
        })),
        _ => Answer::HangUp,
    })
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mapper"));
    command
        .args(["compare", "--socket"])
        .arg(&socket)
        .args(words);
    command.env("COLUMNS", "100").env_remove("OMP_WAIT_POLICY");
    command.output().unwrap()
}

fn ended(name: &str, violations: u64) -> EndedApp {
    EndedApp {
        app: AppId(1),
        name: AppName::new(name).unwrap(),
        uid: 0,
        command: name.to_owned(),
        ended_ago_ns: 1,
        exit_status: Some(0),
        qos: Qos::default(),
        account: Account {
            judged_intervals: 4,
            violations,
            ..Account::default()
        },
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn programs_run_in_every_setting_and_their_outputs_and_promises_are_compared() {
    let words = [
        "--",
        "sh",
        "-c",
        "sleep 0.1; echo $OMP_WAIT_POLICY",
        "::",
        "sh",
        "-c",
        "sleep 0.1; echo b",
    ];
    let output = compare(&words);
    let (shown, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}");
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("PROGRAM"), "{shown}");
    assert!(
        lines[1].starts_with("sh ") && lines[1].ends_with("PASSIVE DIFFERS"),
        "{shown}"
    );
    assert!(
        lines[2].starts_with("sh-2 ") && lines[2].ends_with("equal"),
        "{shown}"
    );
    assert!(
        shown.contains("sh was below its promise in 3 of 12 intervals."),
        "{shown}"
    );
    assert!(shown.contains("medians of 3 rounds"), "{shown}");
}

#[test]
fn nothing_is_compared_where_a_program_fails_or_is_missing() {
    for (words, expected) in [
        (
            &["--", "sh", "-c", "echo oh >&2; exit 3"][..],
            "`sh` failed under plain Linux (exit status: 3), so nothing is compared; it wrote last:\noh\n",
        ),
        (
            &["--", "./no-such-program"],
            "start `no-such-program`: No such file or directory",
        ),
        (
            &["--", "true", "::"],
            "a program is missing before or after `::`",
        ),
    ] {
        let output = compare(words);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(expected), "{errors}");
        assert!(output.stdout.is_empty());
    }
}
