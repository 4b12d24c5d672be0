//! `--check-teams` finds out which modes a program tolerates, and later launches use it.
//!
//! Most programs here are shell scripts that behave differently by what they find in their
//! environment, so that nothing depends on an OpenMP runtime. They say themselves in the page that
//! they have used one, as the shim would; a library that does nothing plays the shim. Those in C are
//! checked with the shim itself.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

mod support;

use mapper_control::Request;
use mapper_control::fake::Seen;
use mapper_control::schema::TeamsWish;
use mapper_model::TeamMode;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use support::{LAUNCHER, Outcome, Stage, ending, run};

struct Bench {
    stage: Stage,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self {
            stage: Stage::new(),
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::copy(support::shim(), bench.folder.path().join("shim.so")).unwrap();
        bench
    }

    fn script(&self, body: &str) -> PathBuf {
        // A runtime that has started a region: libgomp.
        let place = std::mem::offset_of!(mapper_abi::layout::Page, report);
        let attach = format!(
            r#"[ -n "${page}" ] && printf '\001' | dd of="${page}" bs=1 seek={place} conv=notrunc 2>&-"#,
            page = mapper_abi::PAGE_ENV
        );
        self.program(&format!("{attach}\n{body}"))
    }

    fn program(&self, body: &str) -> PathBuf {
        let script = self.folder.path().join("program");
        std::fs::write(&script, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        script
    }

    fn launch(&self) -> Command {
        let mut launch = self.stage.bare(LAUNCHER);
        let shim = self.folder.path().join("shim.so");
        launch
            .env("XDG_STATE_HOME", self.folder.path())
            .arg("--shim")
            .arg(shim);
        launch
    }

    fn check(&self, script: &PathBuf) -> Outcome {
        run(self.launch().args(["--check-teams", "--"]).arg(script))
    }
}

#[test]
fn a_mode_in_which_the_output_differs_is_not_safe() {
    let bench = Bench::new();
    let script = bench.script(r#"[ "$MAPPER_TEAMS" = follow ] && echo other || echo same"#);
    let outcome = bench.check(&script);
    assert_eq!(ending(outcome.status), "exit 0", "{}", outcome.stderr);
    let said = outcome.stdout;
    assert!(said.contains("fixed    safe"), "{said}");
    assert!(said.contains("virtual  safe"), "{said}");
    assert!(
        said.contains("follow   not safe: the output differs on one CPU"),
        "{said}"
    );
    assert_eq!(bench.stage.daemon().seen(), [], "no daemon is needed");
}

#[test]
fn a_status_that_differs_is_not_safe_and_one_that_changes_by_itself_tells_nothing() {
    let bench = Bench::new();
    let script = bench.script(r#"[ "$MAPPER_TEAMS" = virtual ] && exit 3; exit 0"#);
    let said = bench.check(&script).stdout;
    assert!(said.contains("plainly: exit status 0"), "{said}");
    assert!(said.contains("virtual  not safe: exit status 3"), "{said}");
    assert!(said.contains("follow   safe"), "{said}");

    let script = bench.script(r#"cd "${0%/*}"; [ -e mark ] && exit 1; : > mark; exit 0"#);
    let outcome = bench.check(&script);
    assert_eq!(ending(outcome.status), "exit 125");
    assert!(
        outcome.stderr.contains("ends without mapper with"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn later_launches_use_the_fastest_safe_mode_of_this_very_program() {
    let bench = Bench::new();
    // Slow where teams are real, so that another mode is worth it.
    let body = r#"[ "$MAPPER_TEAMS" = fixed ] && sleep 0.2; echo done"#;
    let script = bench.script(body);
    let said = bench.check(&script).stdout;
    assert!(said.contains("later launches will use virtual"), "{said}");
    let launched = || {
        let socket = bench.stage.socket();
        let mut launch = bench.launch();
        launch.arg("--socket").arg(socket);
        run(launch.arg("--").arg(&script))
    };
    let outcome = launched();
    assert_eq!(outcome.stdout, "done\n", "{}", outcome.stderr);
    let asked = format!("{:?}", bench.stage.daemon().seen());
    assert!(asked.contains("Virtual"), "{asked}");
    // Another program by the same name.
    bench.script("echo done # changed");
    launched();
    let asked = format!("{:?}", bench.stage.daemon().seen());
    assert!(asked.contains("teams: None"), "{asked}");
}

#[test]
fn of_what_was_found_with_another_shim_only_what_failed_counts() {
    let bench = Bench::new();
    let body = r#"[ "$MAPPER_TEAMS" = fixed ] && sleep 0.2; echo done"#;
    let script = bench.script(body);
    bench.check(&script);
    let mut records = std::fs::read_dir(bench.folder.path().join("mapper/teams")).unwrap();
    let record = records.find_map(|file| {
        let path = file.unwrap().path();
        (path.extension()? == "json").then_some(path)
    });
    let record = record.unwrap();
    let mut entries: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    let entry = entries[0].as_object_mut().unwrap();
    let this = entry.remove("shim").unwrap();
    let launched = |entries: &serde_json::Value| {
        std::fs::write(&record, entries.to_string()).unwrap();
        let socket = bench.stage.socket();
        let mut launch = bench.launch();
        launch.arg("--socket").arg(socket);
        let outcome = run(launch.arg("--").arg(&script));
        let asked = format!("{:?}", bench.stage.daemon().seen());
        let (_, last) = asked.rsplit_once(" teams: ").unwrap();
        let is_followed = last.starts_with("Some(");
        assert_ne!(is_followed, last.starts_with("None"), "{asked}");
        let is_said = outcome.stderr.contains("--check-teams again");
        (is_followed, is_said)
    };
    // As earlier versions wrote it.
    assert_eq!(launched(&entries), (false, true));
    entries[0]["shim"] = "another".into();
    assert_eq!(launched(&entries), (false, true));
    entries[0]["safe"] = vec!["fixed"].into();
    assert_eq!(launched(&entries), (true, true));
    entries[0]["shim"] = this;
    assert_eq!(launched(&entries), (true, false));
}

#[test]
fn a_program_that_fails_in_every_mode_is_reported_and_later_launches_leave_its_runtime_alone() {
    let bench = Bench::new();
    let script = bench.script(r#"[ -n "$MAPPER_TEAMS" ] && exit 3; echo "plain ${LD_PRELOAD:-}""#);
    let outcome = bench.check(&script);
    assert_eq!(ending(outcome.status), "exit 1", "{}", outcome.stderr);
    let said = outcome.stdout;
    assert!(said.contains("fixed    not safe: exit status 3"), "{said}");
    assert!(
        said.contains("no mode is safe: run it with --no-runtime"),
        "{said}"
    );
    let socket = bench.stage.socket();
    let mut launch = bench.launch();
    launch.arg("--socket").arg(socket);
    let outcome = run(launch.arg("--").arg(&script));
    assert_eq!(outcome.stdout, "plain \n", "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("failed in every mode"),
        "{}",
        outcome.stderr
    );
    let asked = format!("{:?}", bench.stage.daemon().seen());
    assert!(asked.contains("runtime: Some(Off)"), "{asked}");
}

#[test]
fn a_program_that_prints_without_end_is_judged_by_its_status_and_fills_no_memory() {
    let bench = Bench::new();
    let script = bench.script("head -c 70000000 /dev/zero; [ \"$MAPPER_TEAMS\" != follow ]");
    let outcome = bench.check(&script);
    assert_eq!(ending(outcome.status), "exit 0", "{}", outcome.stderr);
    let said = outcome.stdout;
    assert!(said.contains("prints more than 64 MiB"), "{said}");
    assert!(said.contains("virtual  safe"), "{said}");
    assert!(said.contains("follow   not safe: exit status 1"), "{said}");
}

#[test]
fn threads_schedule_and_waiting_are_those_of_a_launch() {
    let bench = Bench::new();
    let script = bench.script(
        r#"echo "$OMP_NUM_THREADS $MAPPER_SCHEDULE $KMP_BLOCKTIME ${GOMP_SPINCOUNT-unset}" >> "$0.seen""#,
    );
    let mut launch = bench.launch();
    launch
        .env("OMP_WAIT_POLICY", "passive")
        .args(["--threads", "3", "--schedule", "adaptive"])
        .args(["--check-teams", "--"])
        .arg(&script);
    let outcome = run(&mut launch);
    assert_eq!(ending(outcome.status), "exit 0", "{}", outcome.stderr);
    let seen = std::fs::read_to_string(bench.folder.path().join("program.seen")).unwrap();
    let runs: Vec<_> = seen.lines().collect();
    assert_eq!(runs.first(), Some(&"3   unset"), "plainly");
    assert_eq!(runs.last(), Some(&"3 adaptive  unset"), "managed");
}

/// The modes in which a program was asked for at the daemon.
fn modes_asked_for(stage: &Stage) -> Vec<TeamMode> {
    let seen = stage.daemon().seen();
    let mode = |seen: &Seen| match seen {
        Seen::Call(Request::Launch(launch)) => launch.wishes.teams.and_then(TeamsWish::mode),
        _ => None,
    };
    seen.iter().filter_map(mode).collect()
}

/// Checks a program of gcc's with the shim itself; returns what was said, and what a launch with
/// `--teams auto` printed.
fn checked_and_launched(bench: &Bench, source: &str) -> (String, String) {
    let name = source.trim_end_matches(".c");
    checked_and_launched_as(bench, source, name, &["-fopenmp"])
}

/// The same of a program of that name, compiled with these flags.
fn checked_and_launched_as(
    bench: &Bench,
    source: &str,
    name: &str,
    flags: &[&str],
) -> (String, String) {
    let program = support::compiled(source, name, flags);
    let with_shim = || {
        let mut launch = bench.stage.bare(LAUNCHER);
        launch
            .env("XDG_STATE_HOME", bench.folder.path())
            // Also where the machine has one CPU.
            .env("OMP_NUM_THREADS", "2")
            .arg("--shim")
            .arg(support::real_shim());
        launch
    };
    let outcome = run(with_shim().args(["--check-teams", "--"]).arg(&program));
    assert_eq!(ending(outcome.status), "exit 0", "{}", outcome.stderr);
    let mut launch = with_shim();
    launch
        .args(["--teams", "auto", "--socket"])
        .arg(bench.stage.socket());
    let launched = run(launch.arg("--").arg(&program));
    assert_eq!(ending(launched.status), "exit 0", "{}", launched.stderr);
    assert_eq!(launched.stderr, "");
    (outcome.stdout, launched.stdout)
}

#[test]
fn a_program_that_stores_its_team_size_is_not_safe_to_follow_and_auto_avoids_follow() {
    let bench = Bench::new();
    let (said, printed) = checked_and_launched(&bench, "stored_team.c");
    let line = "follow   not safe: the output differs on one CPU";
    assert!(said.contains(line), "{said}");
    assert!(said.contains("fixed    safe"), "{said}");
    // By time alone it would be the best: it leaves out work.
    assert_ne!(modes_asked_for(&bench.stage), [TeamMode::Follow], "{said}");
    assert_eq!(printed, "right\n");
}

#[test]
fn a_program_with_the_address_sanitizer_runs_as_any_other() {
    let bench = Bench::new();
    let flags = ["-fopenmp", "-fsanitize=address"];
    let (said, printed) = checked_and_launched_as(&bench, "with_tasks.c", "with_sanitizer", &flags);
    assert!(said.contains("fixed    safe"), "{said}");
    assert_eq!(printed, "400\n");
}

#[test]
fn virtual_teams_are_not_for_a_program_with_doacross_loops() {
    let bench = Bench::new();
    let (said, printed) = checked_and_launched(&bench, "with_doacross.c");
    let line = said.lines().find(|line| line.starts_with("virtual"));
    let line = line.unwrap_or_default();
    assert!(
        line.starts_with("virtual  not for this program ("),
        "{said}"
    );
    assert!(line.contains("doacross"), "{said}");
    assert!(said.contains("fixed    safe"), "{said}");
    assert!(said.contains("follow   safe"), "{said}");
    assert_ne!(modes_asked_for(&bench.stage), [TeamMode::Virtual], "{said}");
    assert_eq!(printed, "400\n");
}

#[test]
fn a_program_that_fails_or_starts_no_region_gets_no_record_and_an_old_one_stays() {
    let bench = Bench::new();
    let good = r#"[ "$1" = wrong ] && { echo usage >&2; exit 2; }; [ "$1" = idle ] || "$0.region""#;
    let region = bench.script("echo done");
    let named = region.with_file_name("program.region");
    std::fs::rename(&region, &named).unwrap();
    let program = bench.program(good);
    let outcome = bench.check(&program);
    assert_eq!(ending(outcome.status), "exit 0", "{}", outcome.stderr);
    let record = bench.folder.path().join("mapper/teams");
    let recorded = || {
        let files = std::fs::read_dir(&record).unwrap();
        let mut texts: Vec<String> = files
            .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
            .collect();
        texts.sort();
        texts
    };
    let before = recorded();
    for (argument, says) in [
        ("wrong", "fails without mapper (exit status 2)"),
        ("idle", "starts no parallel region"),
    ] {
        let mut launch = bench.launch();
        launch.args(["--check-teams", "--"]).arg(&program);
        let outcome = run(launch.arg(argument));
        assert_eq!(ending(outcome.status), "exit 125", "{}", outcome.stdout);
        assert!(outcome.stderr.contains(says), "{}", outcome.stderr);
        assert_eq!(recorded(), before);
    }
}

#[test]
fn ending_the_check_ends_the_program() {
    let bench = Bench::new();
    let pid_file = bench.folder.path().join("pid");
    let script = bench.program(&format!(
        "echo $$ > {0}.new; mv {0}.new {0}; exec sleep 60",
        pid_file.display()
    ));
    for (signal, end) in [
        ("TERM", "signal 15"),
        ("INT", "signal 2"),
        ("HUP", "signal 1"),
    ] {
        let mut launch = bench.launch();
        let mut check = launch
            .args(["--check-teams", "--"])
            .arg(&script)
            .spawn()
            .unwrap();
        support::eventually("the program runs", || pid_file.exists());
        let program = std::fs::read_to_string(&pid_file).unwrap();
        std::fs::remove_file(&pid_file).unwrap();
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &check.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
        assert_eq!(ending(check.wait().unwrap()), end);
        let gone = !std::path::Path::new(&format!("/proc/{}", program.trim())).exists();
        assert!(gone, "{program} runs on after {signal}");
    }
}
