//! `cargo xtask eval` as a user has it: stopped halfway, and given nonsense.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn eval(kept: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    // Results are kept beneath it.
    command.arg("eval").env("CARGO_TARGET_DIR", kept);
    command
}

/// Files of finished runs beneath a folder.
fn finished(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let count = entries.flatten().map(|entry| {
        let path = entry.path();
        match path.is_dir() {
            true => finished(&path),
            false => usize::from(path.extension().is_some_and(|e| e == "json")),
        }
    });
    count.sum()
}

#[test]
fn an_evaluation_that_is_stopped_reports_what_is_finished_and_goes_on_from_there() {
    let kept = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    let arguments = ["--suite", "mapper-fig2", "--policy", "fair,mapper", "--out"];
    let child = eval(kept.path())
        .args(arguments)
        .arg(out.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while finished(kept.path()) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(300), "nothing done");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(told.contains("runs left out"), "{told}");
    let error = String::from_utf8(output.stderr).unwrap();
    let report = std::fs::read_to_string(out.path().join("eval.html")).unwrap();
    assert!(report.contains("Stopped early"));
    let json = std::fs::read_to_string(out.path().join("eval.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let left_out = json["left_out"].as_u64().unwrap();
    let done = finished(kept.path()) as u64;
    assert!(left_out > 0 && done > 0);
    // Twelve mixes: fair share once, mapper with five seeds.
    assert_eq!(left_out + done, 12 * 6);
    let stopped =
        format!("stopped with {done} of 72 runs done: they are kept; the same command goes on");
    assert!(error.contains(&stopped), "{stopped}: {error}");
    let again = eval(kept.path())
        .args(["--suite", "mapper-fig2", "--policy", "fair,mapper"])
        .output()
        .unwrap();
    let told = String::from_utf8(again.stdout).unwrap();
    // Runs of either policy may have been the first to finish.
    let kept = format!("; 72 runs, {done} of them kept");
    assert!(told.contains(&kept), "{kept}: {told}");
}

#[test]
fn what_cannot_be_evaluated_is_told_before_anything_is_computed() {
    let kept = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 10] = [
        (&["--suite", "fig9"], "unknown suite \"fig9\": give all"),
        (
            &["--mix", "SGD", "--machine", "pdp11"],
            "unknown machine \"pdp11\"",
        ),
        (
            &["--suite", "mapper", "--machine", "hsw80"],
            "--machine hsw80: only with --mix",
        ),
        (&["--mix", "SDG"], "unknown application \"SDG\""),
        (&["--mix", "20 SGD,"], "program 2: nothing there"),
        (
            &["--mix", "60 SGD, 60 ALS", "--policy", "sam"],
            "120 threads, but hsw80 only 80 CPUs",
        ),
        (
            &["--mix", "SGD", "--out", "/proc/no"],
            "another folder with --out",
        ),
        (
            &["--mix", "SGD", "--json", "/no/x.json"],
            "another file with --json",
        ),
        (
            &["--mix", "SGD", "--set", "decisions=1"],
            "unknown field `decisions`",
        ),
        (
            &["--mix", "SGD", "--set", "ALS.st=0"],
            "no mix has a program \"ALS\"",
        ),
    ];
    for (arguments, mend) in cases {
        let output = eval(kept.path()).args(arguments).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(told.contains(mend), "{arguments:?}: {told}");
    }
    assert_eq!(finished(kept.path()), 0);
}
