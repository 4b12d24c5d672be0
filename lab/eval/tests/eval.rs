//! `cargo xtask eval` as a user has it: stopped halfway, and given nonsense.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn eval(kept: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mapper-eval"));
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
fn a_stopped_evaluation_reports_what_is_finished_and_continues_from_there() {
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
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{shown}");
    assert!(shown.contains("runs left out"), "{shown}");
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
        format!("stopped with {done} of 72 runs done: they are kept; the same command continues");
    assert!(error.contains(&stopped), "{stopped}: {error}");
    let again = eval(kept.path())
        .args(["--suite", "mapper-fig2", "--policy", "fair,mapper"])
        .output()
        .unwrap();
    let shown = String::from_utf8(again.stdout).unwrap();
    // Runs of either policy may have been the first to finish.
    let kept = format!("; 72 runs, {done} of them kept");
    assert!(shown.contains(&kept), "{kept}: {shown}");
}

#[test]
fn what_cannot_be_evaluated_is_reported_before_anything_is_computed() {
    let kept = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 24] = [
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
            "--json: cannot write to /no/x.json; choose another file",
        ),
        (
            &["--mix", "SGD", "--set", "decisions=1"],
            "unknown field `decisions`",
        ),
        (
            &["--mix", "SGD", "--set", "ALS.st=0"],
            "no mix has a program \"ALS\"",
        ),
        (
            &["--mix", "SGD", "--policy", "linux,linus"],
            "unknown policy \"linus\": give one of linux",
        ),
        (
            &["--mix", "SGD", "--out", "/dev/null"],
            "write to /dev/null: give another folder with --out",
        ),
        (
            &["--mix", "SGD", "--summary", "/no/x.json"],
            "--summary: cannot write to /no/x.json; choose another file",
        ),
        (
            &[
                "--mix",
                "SGD, canneal, ALS",
                "--set",
                "machine.sockets=1",
                "--set",
                "machine.cores_per_socket=1",
                "--set",
                "machine.threads_per_core=1",
            ],
            "has 3 programs, but hsw80 only 1 CPU",
        ),
        (
            &["--mix", "SGD", "--set", "row_buffer_loss=5"],
            "row_buffer_loss is 5: give 0 to 0.99",
        ),
        (
            &["--mix", "SGD", "--set", "time_sharing*=100"],
            "time_sharing is 8: give 0 to 0.99",
        ),
        (
            &["--mix", "SGD", "--json", "-"],
            "--json: - is no file, and standard output has the tables",
        ),
        (
            &[
                "--mix",
                "SGD",
                "--out",
                "/tmp/x",
                "--json",
                "/tmp/x/eval.html",
            ],
            "--json and --out both name /tmp/x/eval.html",
        ),
        (&["--mix", "SGD", "--qos", "-1"], "--qos: "),
        (&["--mix", "-1 SGD"], "\"-1\" is no number of threads"),
        (
            &["--mix", "SGD", "--json", "/tmp/x", "--summary", "/tmp/x"],
            "both name /tmp/x: give two files",
        ),
        (
            &["--suite", "mapper", "--follow"],
            "--follow: only with --mix",
        ),
        (
            &["--mix", "SGD", "--apps", "/no/apps.toml"],
            "--apps: read /no/apps.toml: give another file",
        ),
        (
            &["--mix", "SGD", "--machines", "/no/machines.toml"],
            "--machines: read /no/machines.toml: give another file",
        ),
    ];
    for (arguments, hint) in cases {
        let output = eval(kept.path()).args(arguments).output().unwrap();
        let shown = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(shown.contains(hint), "{arguments:?}: {shown}");
    }
    assert_eq!(finished(kept.path()), 0);
}

/// What is printed by a run that has to succeed.
fn printed(kept: &Path, arguments: &[&str]) -> String {
    let output = eval(kept).args(arguments).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// What is shown of a run that has to fail.
fn refused(kept: &Path, arguments: &[&str]) -> String {
    let output = eval(kept).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// An entry of a file of presets under another name.
fn preset(file: &str, name: &str, own: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/presets");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let from = text.find(&format!("\n[{name}]\n")).unwrap() + 1;
    let entry = text[from..].split("\n\n").next().unwrap();
    entry.replace(&format!("[{name}]"), &format!("[{own}]")) + "\n"
}

#[test]
fn a_program_of_the_users_own_runs_beside_those_of_the_papers() {
    let kept = tempfile::tempdir().unwrap();
    let apps = kept.path().join("mine.toml");
    std::fs::write(&apps, preset("apps.toml", "SGD", "OWN")).unwrap();
    let apps = apps.to_str().unwrap();
    let run = |mix| {
        let arguments = [
            "--mix", mix, "--apps", apps, "--policy", "linux", "--seeds", "1",
        ];
        printed(kept.path(), &arguments)
    };
    let own = run("20 OWN, 20 ALS");
    assert!(own.contains("OWN 0.") && own.contains("ALS 0."), "{own}");
    assert!(own.contains(&format!("--apps {apps}")), "{own}");
    // It does what the program does of which it is a copy.
    let line = |text: &str| {
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with("geometric mean"));
        line.unwrap().to_owned()
    };
    assert_eq!(line(&own), line(&run("20 SGD, 20 ALS")));
}

#[test]
fn a_machine_of_the_users_own_is_used_and_holds_as_many_programs_as_it_has_cpus() {
    let kept = tempfile::tempdir().unwrap();
    let machines = kept.path().join("small.toml");
    let small = preset("machines.toml", "ivb40", "small").replace("_core = 2", "_core = 1");
    let small = small.replace("cores_per_socket = 10", "cores_per_socket = 2");
    std::fs::write(&machines, small).unwrap();
    let arguments = |mix| {
        [
            "--mix",
            mix,
            "--machine",
            "small",
            "--machines",
            machines.to_str().unwrap(),
            "--policy",
            "fair",
            "--seeds",
            "1",
        ]
    };
    let shown = printed(kept.path(), &arguments("SGD, ALS"));
    assert!(shown.contains("(small, in the model)"), "{shown}");
    assert!(
        shown.contains("SGD") && shown.contains("on 2 CPUs"),
        "{shown}"
    );
    printed(kept.path(), &arguments("SGD, SGD, SGD, SGD"));
    let shown = refused(kept.path(), &arguments("SGD, SGD, SGD, SGD, SGD"));
    assert!(
        shown.contains("has 5 programs, but small only 4 CPUs: leave some out"),
        "{shown}"
    );
}

#[test]
fn results_are_kept_until_the_inputs_or_the_program_change_and_a_fresh_run_uses_none() {
    let kept = tempfile::tempdir().unwrap();
    let mix = [
        "--mix",
        "20 SGD, 20 ALS",
        "--policy",
        "fair,mapper",
        "--seeds",
        "1",
    ];
    let run = |more: &[&str]| printed(kept.path(), &[&mix, more].concat());
    let first = run(&[]);
    assert!(first.contains("; 2 runs, 0 of them kept"), "{first}");
    let second = run(&[]);
    assert!(second.contains("; 2 runs, 2 of them kept"), "{second}");
    let fresh = run(&["--fresh"]);
    assert!(fresh.contains("; 2 runs, 0 of them kept"), "{fresh}");
    let numbers = |text: &str| text.split("\nprotocol").next().unwrap().to_owned();
    assert_eq!(numbers(&second), numbers(&first));
    assert_eq!(
        numbers(&fresh),
        numbers(&first),
        "nothing is left to chance"
    );
    // Another number of the model, and another policy: what is meant by fair stays.
    let changed = run(&["--set", "spin_wait*=2"]);
    assert!(changed.contains("; 2 runs, 0 of them kept"), "{changed}");
    let promise = run(&["--qos", "0.8"]);
    assert!(promise.contains("; 2 runs, 1 of them kept"), "{promise}");

    // A program that differs by one byte may compute something else.
    let other = kept.path().join("xtask");
    let mut program = std::fs::read(env!("CARGO_BIN_EXE_mapper-eval")).unwrap();
    program.push(0);
    std::fs::write(&other, program).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&other, mode).unwrap();
    let output = Command::new(&other)
        .arg("eval")
        .args(mix)
        .env("CARGO_TARGET_DIR", kept.path())
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("; 2 runs, 0 of them kept"), "{shown}");
}

#[test]
fn what_is_given_twice_counts_once() {
    let kept = tempfile::tempdir().unwrap();
    let numbers = |arguments: &[&str]| {
        let text = printed(kept.path(), &[arguments, &["--seeds", "1"]].concat());
        text.split("\nprotocol").next().unwrap().to_owned()
    };
    let once = numbers(&["--mix", "SGD", "--policy", "linux,fair"]);
    assert!(once.contains("1.000"), "{once}");
    assert_eq!(
        numbers(&["--mix", "SGD", "--policy", "linux,fair,linux"]),
        once
    );
    assert_eq!(
        numbers(&["--mix", "SGD", "--mix", "SGD", "--policy", "linux,fair"]),
        once
    );
    let fair = ["--suite", "mapper-fig7", "--policy", "fair"];
    assert_eq!(
        numbers(&[fair.as_slice(), &["--suite", "mapper-fig7"]].concat()),
        numbers(&fair)
    );
}

#[test]
fn a_page_is_headed_by_published_numbers_only_where_a_suite_was_held_against_them() {
    let kept = tempfile::tempdir().unwrap();
    let head = |arguments: &[&str]| {
        let out = tempfile::tempdir().unwrap();
        let folder = ["--seeds", "1", "--out", out.path().to_str().unwrap()];
        printed(kept.path(), &[arguments, &folder].concat());
        let page = std::fs::read_to_string(out.path().join("eval.html")).unwrap();
        let from = page.find("<h1>").unwrap();
        page[from + 4..page.find("</h1>").unwrap()].to_owned()
    };
    assert_eq!(
        head(&["--mix", "20 SGD, 20 ALS", "--policy", "linux,fair"]),
        "Policies compared, without published numbers"
    );
    let suite = head(&["--suite", "nucore-intel", "--policy", "nucore-static,linux"]);
    assert!(
        suite.ends_with("published numbers came out inside their band"),
        "{suite}"
    );
    assert!(!suite.starts_with("0 of 0"), "{suite}");
}

#[test]
fn the_summary_has_the_means_the_published_numbers_and_what_was_changed() {
    let kept = tempfile::tempdir().unwrap();
    let file = kept.path().join("summary.json");
    let arguments = [
        "--suite",
        "nucore-intel",
        "--policy",
        "nucore,linux",
        "--seeds",
        "1",
        "--summary",
        file.to_str().unwrap(),
    ];
    printed(kept.path(), &arguments);
    let text = std::fs::read_to_string(&file).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["left_out"], 0);
    assert_eq!(summary["protocol_sha256"].as_str().unwrap().len(), 64);
    let settings = summary["settings"].as_array().unwrap();
    assert!(settings.contains(&"--seeds 1".into()), "{settings:?}");
    assert!(summary["overall"]["nucore-intel"]["nucore"].is_f64());
    let targets = summary["targets"].as_array().unwrap();
    let of = |id: &str| targets.iter().find(|line| line["id"] == id).unwrap();
    assert_eq!(
        (of("NC-1")["uses"].as_str(), of("NC-1")["verdict"].as_str()),
        (Some("exact"), Some("inside"))
    );
    assert!(of("MP-4")["model"].is_null() && of("MP-4")["verdict"] == "not_run");
    // An evaluation that fails leaves no file where none was.
    let none = kept.path().join("none.json");
    refused(
        kept.path(),
        &[
            "--mix",
            "SGD",
            "--out",
            "/proc/no",
            "--summary",
            none.to_str().unwrap(),
        ],
    );
    assert!(!none.exists());
}

#[test]
fn nobody_reading_standard_error_is_no_crash() {
    let kept = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = eval(kept.path())
        .args(["--mix", "nosuch"])
        .stderr(writer)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn without_a_terminal_lines_tell_how_far_it_is() {
    let kept = tempfile::tempdir().unwrap();
    let output = eval(kept.path())
        .args(["--mix", "SGD, ALS", "--policy", "linux,fair"])
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stderr).unwrap();
    assert!(
        shown.contains("[0/2] runs") && shown.ends_with("[2/2] runs\n"),
        "{shown}"
    );
}

/// The current protocol, as text.
fn protocol() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/protocol-v7.toml");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_program_that_is_replaced_while_it_runs_still_reports() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::copy(env!("CARGO_BIN_EXE_mapper-eval"), at("xtask")).unwrap();
    nix::unistd::mkfifo(&at("protocol"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let child = Command::new(at("xtask"))
        .args(["eval", "--mix", "SGD", "--policy", "linux", "--protocol"])
        .arg(at("protocol"))
        .env("CARGO_TARGET_DIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It runs and waits for its protocol; opening takes until it does.
    let mut writer = std::fs::OpenOptions::new()
        .write(true)
        .open(at("protocol"))
        .unwrap();
    std::fs::remove_file(at("xtask")).unwrap();
    std::io::Write::write_all(&mut writer, protocol().as_bytes()).unwrap();
    drop(writer);
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
    assert!(
        String::from_utf8(output.stdout).unwrap().contains("SGD"),
        "{error}"
    );
}

#[test]
fn a_protocol_that_differs_from_the_version_it_names_is_reported_in_every_form_of_the_results() {
    let kept = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = kept.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let shown = |path: &str| {
        let out = kept.path().join("out");
        let arguments = [
            "--mix",
            "SGD",
            "--policy",
            "linux",
            "--out",
            out.to_str().unwrap(),
        ];
        let printed = printed(
            kept.path(),
            &[&arguments[..], &["--protocol", path]].concat(),
        );
        let page = std::fs::read_to_string(out.join("eval.html")).unwrap();
        let json = std::fs::read_to_string(out.join("eval.json")).unwrap();
        [printed, page, json].map(|text| text.contains("changed from version"))
    };
    let text = protocol();
    assert_eq!(shown(&file("copy.toml", &text)), [false; 3]);
    let changed = text.replacen("spin_wait = 0.5", "spin_wait = 0.55", 1);
    assert_ne!(changed, text);
    assert_eq!(shown(&file("changed.toml", &changed)), [true; 3]);
}

#[test]
fn a_file_that_cannot_be_written_costs_neither_the_report_nor_the_tables() {
    let kept = tempfile::tempdir().unwrap();
    let (out, summary) = (kept.path().join("out"), kept.path().join("summary"));
    let output = eval(kept.path())
        .args([
            "--mix",
            "SGD",
            "--policy",
            "linux",
            "--json",
            "/dev/full",
            "--out",
        ])
        .args([out.as_os_str(), "--summary".as_ref(), summary.as_os_str()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("write /dev/full"), "{error}");
    for written in [out.join("eval.html"), out.join("eval.json"), summary] {
        assert!(std::fs::metadata(written).unwrap().len() > 0);
    }
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("geometric mean")
    );
}

#[test]
fn a_run_that_takes_for_ever_does_not_keep_a_stopped_evaluation() {
    let kept = tempfile::tempdir().unwrap();
    let apps = kept.path().join("mine.toml");
    let long = preset("apps.toml", "SGD", "LONG");
    let long = long.replace("standalone_s = ", "standalone_s = 999");
    assert!(long.contains("standalone_s = 9996"), "{long}");
    std::fs::write(&apps, long).unwrap();
    let mut child = eval(kept.path())
        .args([
            "--mix",
            "LONG, ALS",
            "--policy",
            "mapper",
            "--interval",
            "0.01",
            "--apps",
        ])
        .arg(&apps)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first line comes when the runs begin.
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut shown = String::new();
    lines.read_line(&mut shown).unwrap();
    assert!(shown.contains("[0/6] runs"), "{shown}");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let begun = Instant::now();
    lines.read_to_string(&mut shown).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{shown}");
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
    assert!(shown.contains(" of 6 runs done"), "{shown}");
}
