//! What the launcher asks of the daemon, and what becomes of the program when there is none, when
//! it says no, and when it dies.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

mod support;

use mapper_control::fake::{Answer, Seen, grant};
use mapper_control::schema::{
    ExitedRequest, LinkedOpenMp, RuntimeChoice, Schedule, ShimFile, TeamsWish, Terms, Threads,
    Wish, Wishes,
};
use mapper_control::{ErrorReply, Reply, Request};
use mapper_model::{AppId, AppName, CpuSet, Qos, Resizing, TeamMode};
use std::time::{Duration, Instant};
use support::{Running, Stage, children, ending, eventually, probe, run};

fn refusing() -> Stage {
    Stage::with_daemon(|_| {
        Answer::Error(ErrorReply::Unavailable {
            message: "no CPU is left".into(),
        })
    })
}

#[test]
fn the_daemon_is_asked_for_what_the_command_line_says() {
    let stage = Stage::new();
    let flags = [
        "--qos",
        "0.7",
        "--weight",
        "2.5",
        "--min-cpus",
        "2",
        "--max-cpus",
        "3",
        "--teams",
        "follow",
        "--no-resize",
        "--name",
        "fft",
    ];
    assert_eq!(
        ending(run(&mut stage.launch(&flags, &["sh", "-c", "exit 3"])).status),
        "exit 3"
    );
    let seen = stage
        .daemon()
        .seen_when(|seen| seen.contains(&Seen::Closed));
    let [
        Seen::Call(Request::Launch(launch)),
        Seen::Call(exited),
        Seen::Closed,
    ] = &seen[..]
    else {
        panic!("{seen:?}");
    };
    assert_eq!(launch.command, "sh -c exit 3");
    let wishes = &launch.wishes;
    assert_eq!(wishes.runtime, None);
    assert_eq!(wishes.name.as_str(), "fft");
    assert_eq!(
        (wishes.qos.map(Qos::get), wishes.weight.get()),
        (Some(0.7), 2.5)
    );
    assert_eq!((wishes.cpus.min(), wishes.cpus.max()), (2, Some(3)));
    assert_eq!(wishes.teams, Some(TeamsWish::Named(TeamMode::Follow)));
    assert_eq!(wishes.resizing, Resizing::Never);
    let request = ExitedRequest {
        app: AppId(7),
        status: 3,
    };
    assert_eq!(exited, &Request::Exited(request));
}

#[test]
fn the_daemon_is_asked_for_the_very_process_that_becomes_the_program() {
    let stage = Stage::new();
    let mut running = Running::start(&mut stage.launch(&[], &[probe(), "signals"]));
    let program = running.ready();
    let Seen::Call(Request::Launch(launch)) = &stage.daemon().seen()[0] else {
        panic!("a launch");
    };
    assert_eq!(i32::try_from(launch.pid).unwrap(), program);
    assert!(children(running.pid()).contains(&program));
    // The lease lasts as long as the program.
    assert!(!stage.daemon().seen().contains(&Seen::Closed));
    running.end();
    let seen = stage
        .daemon()
        .seen_when(|seen| seen.contains(&Seen::Closed));
    assert!(seen.contains(&Seen::Closed));
}

#[test]
fn the_program_does_not_start_before_it_has_its_place() {
    let stage = Stage::with_daemon(|request| match request {
        Request::Launch(launch) => {
            let child = launch.pid;
            // Blocked in a pipe, still the launcher's image, and not gone after a while.
            std::thread::sleep(Duration::from_millis(100));
            let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap();
            assert_eq!(name, "mapper-launch\n");
            Answer::Reply(grant(launch, &CpuSet::first(1), 1))
        }
        _ => Answer::HangUp,
    });
    let outcome = run(&mut stage.launch(&[], &["true"]));
    assert_eq!(ending(outcome.status), "exit 0", "{}", outcome.stderr);
}

#[test]
fn a_launch_without_the_shim_says_that_it_is_missing() {
    let stage = Stage::new();
    run(&mut stage.launch(&["--teams", "follow", "--shim", "/no/shim.so"], &["true"]));
    let Seen::Call(Request::Launch(launch)) = &stage.daemon().seen()[0] else {
        panic!("a launch");
    };
    assert_eq!(launch.shim, ShimFile::Missing);
    // The user did not turn it off.
    assert_eq!(launch.wishes.runtime, None);
    run(&mut stage.launch(&["--no-runtime"], &["true"]));
    let seen = stage.daemon().seen();
    let unwanted = seen.iter().rev().find_map(|seen| match seen {
        Seen::Call(Request::Launch(launch)) => Some(launch),
        _ => None,
    });
    let unwanted = unwanted.unwrap();
    assert_eq!(unwanted.wishes.runtime, Some(RuntimeChoice::Off));
}

#[test]
fn without_a_daemon_the_launch_fails_unless_fallback_is_wanted() {
    let stage = Stage::without_daemon();
    let outcome = run(&mut stage.launch(&[], &["sh", "-c", "echo ran; exit 3"]));
    assert_eq!(ending(outcome.status), "exit 125");
    assert_eq!(outcome.stdout, "");
    assert!(
        outcome.stderr.contains("no daemon there"),
        "{}",
        outcome.stderr
    );

    let outcome = run(&mut stage.launch(&["--fallback"], &["sh", "-c", "echo ran; exit 3"]));
    assert_eq!(ending(outcome.status), "exit 3");
    assert_eq!(outcome.stdout, "ran\n");
    assert!(
        outcome.stderr.starts_with("mapper-launch: warning: "),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.ends_with("; running unmanaged\n"),
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.stderr.lines().count(), 1);
}

#[test]
fn a_fallback_program_takes_the_launchers_place() {
    let stage = Stage::without_daemon();
    let mut running = Running::start(&mut stage.launch(&["--fallback"], &[probe(), "signals"]));
    assert_eq!(running.ready(), running.pid());
}

#[test]
fn a_refusal_of_the_daemon_is_obeyed_unless_fallback_is_wanted() {
    let stage = refusing();
    let outcome = run(&mut stage.launch(&[], &["echo", "ran"]));
    assert_eq!(ending(outcome.status), "exit 125");
    assert_eq!(outcome.stdout, "");
    let socket = stage.socket().display().to_string();
    assert_eq!(
        outcome.stderr,
        format!("mapper-launch: {socket}: no CPU is left\n")
    );

    let outcome = run(&mut stage.launch(
        &["--fallback"],
        &["sh", "-c", "echo $OMP_NUM_THREADS ran; exit 4"],
    ));
    assert_eq!(ending(outcome.status), "exit 4");
    assert_eq!(outcome.stdout, "ran\n");
    assert_eq!(outcome.stderr.lines().count(), 1);
}

#[test]
fn a_daemon_that_hangs_up_or_sends_nonsense_is_reported_and_nothing_runs() {
    for (answer, says) in [
        (
            (|| Answer::HangUp) as fn() -> Answer,
            "closed the connection",
        ),
        (
            || Answer::Bytes(b"hello\0".to_vec()),
            "does not speak mapper's protocol",
        ),
        (
            || Answer::Bytes(b"{\"parameters\":{\"protocol\":3}}\0".to_vec()),
            "the daemon speaks protocol 3, this program protocol 2",
        ),
        (
            || {
                let bytes = br#"{"parameters":{"protocol":2,"app":1,"name":"a","cpus":"0","cpu_count":1,"machine_cpus":1,"token":"zz","terms":{"teams":"fixed","teams_by":"by default"}}}"#;
                Answer::Bytes([bytes.as_slice(), b"\0"].concat())
            },
            "page and token do not come together",
        ),
    ] {
        let stage = Stage::with_daemon(move |_| answer());
        let outcome = run(&mut stage.launch(&[], &["echo", "ran"]));
        assert_eq!(ending(outcome.status), "exit 125");
        assert_eq!(outcome.stdout, "");
        assert!(outcome.stderr.contains(says), "{}", outcome.stderr);
    }
}

#[test]
fn a_daemon_that_dies_leaves_the_program_alone() {
    let mut stage = Stage::new();
    let mut launch = stage.launch(&[], &[probe(), "signals"]);
    launch.stderr(std::process::Stdio::piped());
    let mut running = Running::start(&mut launch);
    running.ready();
    let mut errors = running.child.stderr.take().unwrap();
    drop(stage.daemon.take());
    std::thread::sleep(Duration::from_millis(50));
    // It still gets its signals, and its status is still reported.
    support::kill(running.pid(), libc::SIGUSR1);
    assert!(running.line().starts_with("signal 10 "));
    assert_eq!(ending(running.end()), "exit 0");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut errors, &mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn orphans_stay_below_the_launcher_while_the_program_runs() {
    let stage = Stage::new();
    let script = "(sleep 30 >&- 2>&- & echo $!); read wait";
    let mut running = Running::start(&mut stage.launch(&[], &["sh", "-c", script]));
    let orphan: i32 = running.line().parse().unwrap();
    let launcher = running.pid();
    eventually("the orphan is adopted", || {
        children(launcher).contains(&orphan)
    });
    support::kill(orphan, libc::SIGKILL);
    eventually("the orphan is reaped", || support::state(orphan).is_none());
    running.end();
}

/// How long a command takes.
fn time_ms(mut command: std::process::Command) -> f64 {
    let begun = Instant::now();
    assert!(command.status().unwrap().success());
    begun.elapsed().as_secs_f64() * 1e3
}

#[test]
fn a_launch_costs_less_than_15_ms() {
    // A daemon that gathers arrivals for as long as the real one may.
    let stage = Stage::with_daemon(|request| match request {
        Request::Launch(launch) => {
            std::thread::sleep(Duration::from_millis(5));
            Answer::Reply(grant(launch, &CpuSet::first(2), 2))
        }
        _ => Answer::HangUp,
    });
    // Other work on the machine can only make it look worse: of many tries, by turns, the least counts.
    let mut least_ms = [f64::INFINITY; 2];
    for _ in 0..60 {
        let commands = [stage.launch(&[], &["true"]), stage.bare("true")];
        let times_ms = commands.map(time_ms);
        least_ms = [0, 1].map(|which| least_ms[which].min(times_ms[which]));
    }
    let [launched, plain] = least_ms;
    let cost = launched - plain;
    assert!(
        (5.0..15.0).contains(&cost),
        "{cost} ms more than without the launcher"
    );
}

#[test]
fn a_report_goes_to_standard_error_when_the_program_has_ended() {
    use mapper_control::schema::{Account, ReportReply};
    let stage = Stage::with_daemon(|request| match request {
        Request::Launch(launch) => Answer::Reply(grant(launch, &CpuSet::first(2), 4)),
        Request::Report(asked) => {
            Answer::Reply(mapper_control::Reply::Report(Box::new(ReportReply {
                protocol: mapper_control::PROTOCOL,
                app: asked.app,
                name: mapper_model::AppName::from_lossy("fft"),
                qos: mapper_model::Qos::default(),
                account: Account {
                    achieved: Some(0.93),
                    judged_intervals: 4,
                    ..Account::default()
                },
            })))
        }
        _ => Answer::Silence,
    });
    let output = run(&mut stage.launch(&["--report"], &["sh", "-c", "echo mine >&2; exit 4"]));
    let text = output.stderr.clone();
    assert_eq!(ending(output.status), "exit 4", "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0], "mine");
    assert!(lines[1].starts_with("mapper-launch: fft: "), "{text}");
    assert!(lines[2].starts_with("                    93 %"), "{text}");
}

#[test]
fn without_an_answer_the_report_is_missing_and_the_status_is_the_programs() {
    let stage = Stage::with_daemon(|request| match request {
        Request::Launch(launch) => Answer::Reply(grant(launch, &CpuSet::first(2), 4)),
        Request::Report(_) => Answer::HangUp,
        _ => Answer::Silence,
    });
    let output = run(&mut stage.launch(&["--report"], &["sh", "-c", "exit 5"]));
    assert_eq!(ending(output.status), "exit 5");
    let text = output.stderr.clone();
    assert!(text.starts_with("mapper-launch: no report: "), "{text}");
}

/// A daemon with a rule for teams, threads and schedule.
fn with_rule() -> Stage {
    Stage::with_daemon(|request| match request {
        Request::Launch(launch) => {
            let Reply::Launch(mut reply) = grant(launch, &CpuSet::first(1), 4) else {
                return Answer::HangUp;
            };
            let wishes = &launch.wishes;
            reply.terms = Terms {
                teams: TeamMode::Virtual,
                teams_by: "rule 1 of /r".to_owned(),
                threads: wishes.threads.or_rule(Some(Threads::All)),
                schedule: wishes.schedule.or_rule(Some(Schedule::Adaptive)),
                max_cpus: None,
            };
            Answer::Reply(Reply::Launch(reply))
        }
        _ => Answer::HangUp,
    })
}

#[test]
fn what_the_user_leaves_open_is_decided_by_the_daemon() {
    let stage = with_rule();
    let show = "echo $MAPPER_TEAMS $MAPPER_SCHEDULE $OMP_NUM_THREADS";
    let outcome = run(&mut stage.launch(&[], &["sh", "-c", show]));
    assert_eq!(outcome.stdout, "virtual adaptive 4\n", "{}", outcome.stderr);
    let Seen::Call(Request::Launch(launch)) = &stage.daemon().seen()[0] else {
        panic!("a launch");
    };
    assert_eq!(launch.wishes, Wishes::named(AppName::new("sh").unwrap()));
    let program = launch.program.as_ref().unwrap();
    assert!(program.path.starts_with('/'), "{program:?}");
}

#[test]
fn what_the_user_says_is_not_left_open() {
    let stage = with_rule();
    let flags = [
        "--teams",
        "fixed",
        "--qos",
        "0.85",
        "--threads",
        "3",
        "--schedule",
        "as-written",
    ];
    let show = "echo $MAPPER_SCHEDULE $OMP_NUM_THREADS";
    let outcome = run(&mut stage.launch(&flags, &["sh", "-c", show]));
    assert_eq!(outcome.stdout, "as-written 3\n", "{}", outcome.stderr);
    let variables = run(stage
        .launch(&["--teams", "follow"], &["sh", "-c", show])
        .env("OMP_NUM_THREADS", "2")
        .env("MAPPER_SCHEDULE", "mine"));
    assert_eq!(variables.stdout, "mine 2\n", "{}", variables.stderr);
    let seen = stage.daemon().seen();
    let launches: Vec<_> = seen
        .iter()
        .filter_map(|seen| match seen {
            Seen::Call(Request::Launch(launch)) => Some(launch),
            _ => None,
        })
        .collect();
    let first = &launches[0].wishes;
    assert_eq!(first.teams, Some(TeamsWish::Named(TeamMode::Fixed)));
    assert_eq!(first.qos, Some(Qos::default()));
    assert_eq!(first.threads, Wish::Asked("3".parse().unwrap()));
    assert_eq!(first.schedule, Wish::Asked(Schedule::AsWritten));
    let second = &launches[1].wishes;
    assert_eq!(second.threads, Wish::Environment);
    assert_eq!(second.schedule, Wish::Environment);
    assert_eq!((second.qos, second.partition), (None, None));
}

/// The dynamic loader, as gcc names it in programs.
fn loader() -> String {
    let printed = std::process::Command::new("sh")
        .args([
            "-c",
            "readelf -l /bin/sh | sed -n 's/.*interpreter: \\(.*\\)]/\\1/p'",
        ])
        .output()
        .unwrap();
    String::from_utf8(printed.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_program_started_by_the_loader_gets_the_teams_that_were_asked_for() {
    let stage = with_rule();
    let loader = loader();
    let outcome = run(&mut stage.launch(
        &["--teams", "virtual"],
        &[&loader, "/bin/sh", "-c", "echo $MAPPER_TEAMS"],
    ));
    assert_eq!(outcome.stdout, "virtual\n", "{}", outcome.stderr);
    assert_eq!(outcome.stderr, "");
    let Seen::Call(Request::Launch(launch)) = &stage.daemon().seen()[0] else {
        panic!("a launch");
    };
    let openmp = launch.program.as_ref().unwrap().openmp;
    assert_eq!(openmp, LinkedOpenMp::StaticProgram);
    assert_eq!(openmp.serves(TeamMode::Virtual), Ok(()));
}

#[test]
fn the_launcher_itself_is_no_openmp_program_when_it_is_stripped() {
    let stage = with_rule();
    let folder = tempfile::tempdir().unwrap();
    let stripped = folder.path().join("launcher");
    let mut strip = std::process::Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(support::LAUNCHER);
    assert!(strip.status().unwrap().success());
    let outcome = run(&mut stage.launch(&[], &[stripped.to_str().unwrap(), "--version"]));
    assert_eq!(ending(outcome.status), "exit 0", "{}", outcome.stderr);
    let Seen::Call(Request::Launch(launch)) = &stage.daemon().seen()[0] else {
        panic!("a launch");
    };
    let openmp = launch.program.as_ref().unwrap().openmp;
    assert_eq!(openmp, LinkedOpenMp::NotAtStart);
}

#[test]
fn teams_that_a_static_program_cannot_have_get_a_warning() {
    let stage = Stage::new();
    let folder = tempfile::tempdir().unwrap();
    let (text, program) = (folder.path().join("p.c"), folder.path().join("p"));
    std::fs::write(
        &text,
        "int main(void){\n#pragma omp parallel\n;\nreturn 0;}\n",
    )
    .unwrap();
    let compiled = std::process::Command::new("gcc")
        .args(["-fopenmp", "-static", "-o"])
        .args([&program, &text])
        .status();
    assert!(compiled.unwrap().success());
    let program = program.to_str().unwrap();
    let outcome = run(&mut stage.launch(&["--teams", "virtual"], &[program]));
    assert_eq!(ending(outcome.status), "exit 0", "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("linked statically"),
        "{}",
        outcome.stderr
    );
    let outcome = run(&mut stage.launch(&[], &[program]));
    assert_eq!(outcome.stderr, "");
    let Seen::Call(Request::Launch(launch)) = &stage.daemon().seen()[0] else {
        panic!("a launch");
    };
    let openmp = launch.program.as_ref().unwrap().openmp;
    assert_eq!(openmp, LinkedOpenMp::StaticLibgomp);
}

#[test]
fn a_launch_that_the_daemon_does_not_answer_is_asked_of_the_next_one() {
    let asked = std::sync::atomic::AtomicU32::new(0);
    let stage = Stage::with_daemon(move |request| match request {
        Request::Launch(launch) => match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Answer::HangUp,
            _ => Answer::Reply(grant(launch, &CpuSet::first(1), 1)),
        },
        _ => Answer::HangUp,
    });
    let outcome = run(&mut stage.launch(&[], &["sh", "-c", "exit 3"]));
    assert_eq!(ending(outcome.status), "exit 3", "{}", outcome.stderr);
    assert_eq!(outcome.stderr, "");
}
