//! In which order a launch is checked: everything is wrong at first, and what is complained of is mended, one thing after the
//! other. Of what fails, nothing is left behind.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

mod support;

use mapper_control::fake::{Answer, Seen};
use mapper_control::{ErrorReply, Request};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use support::{Outcome, Stage, ending, eventually, run};

/// What is still wrong with a launch.
struct Launch<'a> {
    stage: &'a Stage,
    flags: &'a [&'a str],
    program: PathBuf,
    shim: PathBuf,
}

impl Launch<'_> {
    fn run(&self) -> Outcome {
        let program = self.program.to_str().unwrap();
        let mut command = self.stage.launch(self.flags, &[program]);
        let outcome = run(command.env("MAPPER_SHIM", &self.shim));
        assert_eq!(outcome.stdout, "");
        outcome
    }

    /// It ends with this status, and says this, a line for each.
    fn fails(&self, status: &str, says: &[&str]) {
        let outcome = self.run();
        assert_eq!(ending(outcome.status), status, "{}", outcome.stderr);
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        assert_eq!(lines.len(), says.len(), "{says:?}: {lines:?}");
        for (line, part) in lines.iter().zip(says) {
            assert!(line.starts_with("mapper-launch: "), "{line}");
            assert!(line.contains(part), "no {part:?} in {line:?}");
        }
        let socket = self.stage.socket();
        eventually("nothing of it runs any more", || {
            processes_with(socket.to_str().unwrap()).is_empty()
        });
    }
}

/// Processes in whose environment a text is.
fn processes_with(text: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|process| {
            let environment = std::fs::read(process.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(text)
        })
        .map(|process| process.display().to_string())
        .collect()
}

#[test]
fn first_the_command_line_then_the_program_the_daemon_the_shim_the_place_and_the_start() {
    let stage = Stage::without_daemon();
    let folder = stage.folder.path().to_owned();
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    // Executable, but for no machine that there is: that shows when it is started.
    let foreign = folder.join("foreign");
    std::fs::write(&foreign, "\u{7f}ELF of another machine\n").unwrap();
    std::fs::set_permissions(&foreign, Permissions::from_mode(0o755)).unwrap();
    let missing = folder.join("missing");

    let mut launch = Launch {
        stage: &stage,
        flags: &["--qos", "7"],
        program: missing.clone(),
        shim: missing.clone(),
    };
    let outcome = launch.run();
    assert_eq!(ending(outcome.status), "exit 125");
    assert!(outcome.stderr.contains("--qos"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("missing"), "{}", outcome.stderr);

    launch.flags = &[];
    launch.fails("exit 127", &["missing: no such file"]);

    launch.program.clone_from(&foreign);
    launch.fails("exit 125", &["no daemon there"]);
    // So far nobody was asked, and nothing was written.
    assert_eq!(names(), ["foreign"]);

    let daemon = Stage::with_daemon(|request| match request {
        Request::Launch(_) => Answer::Error(ErrorReply::Unavailable {
            message: "no CPU is left".into(),
        }),
        _ => Answer::HangUp,
    });
    let mut launch = Launch {
        stage: &daemon,
        flags: &[],
        program: foreign.clone(),
        shim: missing,
    };
    let no_shim = "without the runtime interface";
    launch.fails("exit 125", &[no_shim, "no CPU is left"]);
    launch.shim = PathBuf::from(support::shim());
    launch.fails("exit 125", &["no CPU is left"]);
    let asked = |seen: &[Seen]| {
        let is_launch = |seen: &&Seen| matches!(seen, Seen::Call(Request::Launch(_)));
        seen.iter().filter(is_launch).count()
    };
    let ended = |seen: &[Seen]| seen.iter().filter(|seen| **seen == Seen::Closed).count();
    let seen = daemon.daemon().seen_when(|seen| ended(seen) == 2);
    assert_eq!((asked(&seen), ended(&seen)), (2, 2), "{seen:?}");

    // With a place, all that can fail is the start; the place is given back.
    let granting = Stage::new();
    let launch = Launch {
        stage: &granting,
        flags: &[],
        program: foreign,
        shim: PathBuf::from(support::shim()),
    };
    launch.fails("exit 126", &["foreign"]);
    let seen = granting.daemon().seen_when(|seen| ended(seen) == 1);
    assert_eq!((asked(&seen), ended(&seen)), (1, 1), "{seen:?}");
}
