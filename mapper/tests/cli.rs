//! `mapper` as it is called: it does what mapper-launch and mapperctl do, and names itself.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

use mapper_control::fake::{Answer, FakeDaemon, grant};
use mapper_control::schema::{AdoptTarget, PoliciesReply};
use mapper_control::{ErrorReply, PROTOCOL, Reply, Request};
use mapper_model::{AppName, CpuSet};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A user, and perhaps a daemon.
struct Stage {
    folder: TempDir,
    daemon: Option<FakeDaemon>,
}

impl Stage {
    fn without_daemon() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            daemon: None,
        }
    }

    fn new() -> Self {
        let mut stage = Self::without_daemon();
        std::fs::create_dir(stage.folder.path().join("mapper")).unwrap();
        let daemon = FakeDaemon::start(&stage.socket(), |request| match request {
            Request::Launch(launch) => Answer::Reply(grant(launch, &CpuSet::first(2), 4)),
            Request::Policies => Answer::Reply(Reply::Policies(PoliciesReply {
                protocol: PROTOCOL,
                policies: vec![],
            })),
            Request::Explain(_) => Answer::Error(ErrorReply::UnknownApplication {
                message: "no application \"x\"".into(),
                running: vec![AppName::new("md").unwrap()],
            }),
            _ => Answer::HangUp,
        });
        stage.daemon = Some(daemon.unwrap());
        stage
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("mapper/mapper.sock")
    }

    fn mapper(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mapper"));
        command.args(words).stdin(Stdio::null());
        command.env("XDG_RUNTIME_DIR", self.folder.path());
        command.env("MAPPER_SOCKET", self.socket());
        command.env("MAPPER_NO_START", "1").env("COLUMNS", "100");
        command
    }

    /// Status, output and errors.
    fn run(&self, words: &[&str]) -> Outcome {
        Outcome::of(&self.mapper(words).output().unwrap())
    }

    fn requests(&self) -> Vec<Request> {
        let seen = self.daemon.as_ref().unwrap().seen();
        let call = |seen| match seen {
            mapper_control::fake::Seen::Call(request) => Some(request),
            _ => None,
        };
        seen.into_iter().filter_map(call).collect()
    }
}

#[derive(Debug)]
struct Outcome {
    status: Option<i32>,
    out: String,
    errors: String,
}

impl Outcome {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            status: output.status.code(),
            out: text(&output.stdout),
            errors: text(&output.stderr),
        }
    }
}

#[test]
fn run_starts_a_program_with_what_was_wished_and_ends_as_it_does() {
    let stage = Stage::new();
    let words = ["run", "--qos", "90%", "--", "sh", "-c", "echo hi; exit 3"];
    let outcome = stage.run(&words);
    assert_eq!((outcome.status, outcome.out.as_str()), (Some(3), "hi\n"));
    let requests = stage.requests();
    let Request::Launch(launch) = &requests[0] else {
        panic!("{requests:?}");
    };
    assert_eq!(launch.wishes.qos.map(f64::from), Some(0.9));
    assert_eq!(launch.wishes.name.as_str(), "sh");
}

#[test]
fn the_socket_may_be_named_before_the_task_or_after_it() {
    let stage = Stage::new();
    let socket = stage.socket();
    let socket = socket.to_str().unwrap();
    for words in [
        ["--socket", socket, "run", "true"],
        ["run", "--socket", socket, "true"],
    ] {
        let mut command = stage.mapper(&words);
        let outcome = Outcome::of(&command.env_remove("MAPPER_SOCKET").output().unwrap());
        assert_eq!(outcome.status, Some(0), "{outcome:?}");
    }
    assert_eq!(stage.run(&["--socket", socket, "policies"]).status, Some(0));
}

#[test]
fn the_other_tasks_ask_the_daemon() {
    let stage = Stage::new();
    assert_eq!(stage.run(&["policies", "--json"]).status, Some(0));
    stage.run(&["adopt", "--pid", "7", "--qos", "50%"]);
    let requests = stage.requests();
    assert_eq!(requests[0], Request::Policies);
    let Request::Adopt(adopt) = &requests[1] else {
        panic!("{requests:?}");
    };
    assert_eq!(adopt.target, AdoptTarget::Pid(7));
    assert_eq!(adopt.qos.map(f64::from), Some(0.5));
}

#[test]
fn messages_name_the_command_that_was_typed() {
    let (stage, without) = (Stage::new(), Stage::without_daemon());
    for (outcome, status, says) in [
        (
            stage.run(&["explain", "x"]),
            1,
            "mapper: no application \"x\"; these run: md\n",
        ),
        (
            stage.run(&["run", "no-such-program"]),
            127,
            "mapper: no-such-program: not found",
        ),
        (
            stage.run(&["run", "--qos", "2", "true"]),
            125,
            "mapper: invalid value '2'",
        ),
        (stage.run(&["run"]), 125, "Usage: mapper run"),
        (
            stage.run(&["stats"]),
            2,
            "mapper: unrecognized subcommand 'stats'",
        ),
        (stage.run(&[]), 2, "mapper run -- ./program"),
        (stage.run(&["top"]), 1, "use `mapper status`"),
        (
            without.run(&["status"]),
            1,
            "`mapper run -- PROGRAM` starts one",
        ),
    ] {
        assert_eq!(outcome.status, Some(status), "{outcome:?}");
        assert!(outcome.errors.contains(says), "{says}: {outcome:?}");
        for part in ["mapper-launch", "mapperctl"] {
            assert!(!outcome.errors.contains(part), "{outcome:?}");
        }
    }
}

#[test]
fn the_help_can_be_read() {
    let stage = Stage::without_daemon();
    insta::assert_snapshot!("help", stage.run(&["--help"]).out);
    insta::assert_snapshot!("help_of_run_in_short", stage.run(&["run", "-h"]).out);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let stage = Stage::new();
    let mut command = stage.mapper(&["policies"]);
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    let output = command.stdout(write).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// What bash would offer for the last word.
fn offered(stage: &Stage, words: &[&str]) -> Vec<String> {
    let mut command = stage.mapper(&["--", "mapper"]);
    command.args(words).env("MAPPER_COMPLETE", "bash");
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.env("_CLAP_IFS", "\n");
    let outcome = Outcome::of(&command.output().unwrap());
    assert_eq!(outcome.status, Some(0), "{outcome:?}");
    outcome.out.lines().map(str::to_owned).collect()
}

#[test]
fn completions_know_tasks_values_and_the_programs_that_run() {
    let stage = Stage::without_daemon();
    let tasks = offered(&stage, &[""]);
    for task in ["run", "status", "explain", "stop"] {
        assert!(tasks.iter().any(|offered| offered == task), "{tasks:?}");
    }
    let teams = offered(&stage, &["run", "--teams", ""]);
    assert_eq!(teams, ["fixed", "virtual", "follow", "auto"]);
    let names = offered(&stage, &["explain", ""]);
    assert!(names.iter().all(|name| name.starts_with("--")), "{names:?}");
    let stage = Stage::without_daemon();
    std::fs::create_dir(stage.folder.path().join("mapper")).unwrap();
    let _daemon = FakeDaemon::start(&stage.socket(), |_| {
        Answer::Reply(Reply::Status(Box::new(samples::status())))
    });
    assert_eq!(offered(&stage, &["explain", "m"]), ["md"]);
    for words in [
        &["run", "/usr/bin/en"][..],
        &["compare", "--", "/usr/bin/en"],
    ] {
        let files = offered(&stage, words);
        assert!(
            files.iter().any(|file| file == "/usr/bin/env"),
            "{words:?}: {files:?}"
        );
    }
}

#[test]
fn the_scripts_for_shells_ask_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::without_daemon();
    let written = stage.run(&["--write-manual", folder.path().to_str().unwrap()]);
    assert_eq!(written.status, Some(0), "{written:?}");
    for file in ["mapper.bash", "_mapper", "mapper.fish"] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(text.contains("MAPPER_COMPLETE"), "{file}: {text}");
    }
    for page in [
        "mapper.1",
        "mapper.7",
        "mapper-run.1",
        "mapper-status.1",
        "mapper-stop.1",
    ] {
        assert!(folder.path().join(page).is_file(), "{page}");
    }
    let pages = std::fs::read_dir(folder.path()).unwrap();
    let pages = pages.map(|entry| entry.unwrap().path());
    for page in pages.filter(|path| path.extension().is_some_and(|kind| kind == "1")) {
        let text = std::fs::read_to_string(&page).unwrap();
        let sections = [
            "\"EXIT STATUS\"",
            "ENVIRONMENT",
            "FILES",
            "EXAMPLES",
            "\"SEE ALSO\"",
        ];
        for title in sections {
            let section = text.split(&format!(".SH {title}\n")).nth(1);
            let entry =
                section.is_some_and(|text| text.starts_with(".TP") || title.contains("SEE"));
            // Examples are in crates/manual/src/sections.rs.
            assert!(entry, "{}: no {title}", page.display());
        }
    }
}

#[path = "../../mapperctl/tests/samples/mod.rs"]
#[allow(dead_code)]
mod samples;
