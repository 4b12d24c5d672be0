//! A daemon from start to stop, with programs coming and going.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use mapper_control::schema::{ExitedRequest, MemoryPolicy};
use mapper_control::{ClientErrorKind, ErrorReply};
use mapper_model::{AppId, CpuRange, CpuSet};
use mapper_pipeline::{Changes, Comparison, Replay};
use private_daemon::{Daemon, Program, all_cpus, cpus_of, eventually, launch, launch_program};
use std::os::unix::net::UnixStream;

fn union(a: &CpuSet, b: &CpuSet) -> CpuSet {
    a.union(b)
}

/// A daemon, two programs launched at the same time, and what they were given at first.
type SideBySide = (Daemon, [Program; 2], Vec<CpuSet>);

/// Launches two programs at the same time; also tells how many decisions that took.
fn launched_side_by_side() -> (u64, SideBySide) {
    let daemon = Daemon::start_with(&["--interval", "10s"]);
    let programs = [Program::sleeping(), Program::sleeping()];
    let mut clients = [daemon.client(), daemon.client()];
    let before = daemon.status().daemon.decisions;
    let replies = std::thread::scope(|scope| {
        let calls: Vec<_> = programs
            .iter()
            .zip(&mut clients)
            .map(|(program, client)| {
                let request = program.request("twin");
                scope.spawn(move || client.launch(request).unwrap().reply.cpus)
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let decisions = daemon.status().daemon.decisions - before;
    (decisions, (daemon, programs, replies))
}

#[test]
fn a_program_alone_gets_every_cpu_and_a_page_with_its_token() {
    let daemon = Daemon::start();
    let running = launch(&daemon, "solo");
    assert_eq!(running.launched.reply.cpus, all_cpus());
    assert_eq!(running.launched.reply.cpu_count, all_cpus().len());
    assert_eq!(running.launched.reply.machine_cpus, all_cpus().len());
    let page = running.page();
    assert_eq!(
        page.allocation().unwrap().fields.cpu_count,
        all_cpus().len()
    );
    let status = daemon.status();
    assert_eq!(status.apps.len(), 1);
    assert_eq!(status.apps[0].name.as_str(), "solo");
    assert_eq!(status.apps[0].pid, running.program.child.id());
    assert!(!status.daemon.enforcer.not_better.is_empty());
}

#[test]
fn programs_that_start_together_share_from_the_beginning() {
    // Whether they start together is a matter of milliseconds, for which a busy machine may keep one of them
    // waiting. That both were admitted by one decision tells that they did.
    let (daemon, mut programs, replies) = (0..20)
        .map(|_| launched_side_by_side())
        .find_map(|(decisions, launched)| (decisions == 1).then_some(launched))
        .unwrap();
    if all_cpus().len() >= 2 {
        assert!(replies[0].is_disjoint(&replies[1]), "{replies:?}");
    }
    assert_eq!(union(&replies[0], &replies[1]), all_cpus());
    for (program, cpus) in programs.iter_mut().zip(&replies) {
        assert_eq!(&program.cpus(), cpus);
        program.go();
    }
    let names: Vec<String> = daemon
        .status()
        .apps
        .iter()
        .map(|a| a.name.to_string())
        .collect();
    assert_eq!(names, ["twin", "twin-2"]);
}

#[test]
fn what_a_program_starts_is_confined_like_itself() {
    let daemon = Daemon::start();
    let _other = launch(&daemon, "other");
    let program = Program::waiting("sh -c 'taskset -pc $$' ; taskset -pc $$");
    let mut running = launch_program(&daemon, program, "parent");
    let cpus = running.launched.reply.cpus.to_string();
    let output = running.program.output();
    assert_eq!(output.lines().count(), 2, "{output}");
    for line in output.lines() {
        assert!(line.ends_with(&format!(": {cpus}")), "{cpus}: {line}");
    }
}

#[test]
fn an_inherited_mask_counts_in_the_reported_cpus() {
    let daemon = Daemon::start();
    let first = all_cpus().iter().next().unwrap();
    let mut program = Program::waiting("exec sleep 60");
    let narrow: CpuSet = first.to_string().parse().unwrap();
    let thread = mapper_model::ThreadId(program.child.id());
    mapper_host::enforce::masks::set(thread, &narrow).unwrap();
    let launched = daemon.client().launch(program.request("narrow")).unwrap();
    assert_eq!(launched.reply.cpus, narrow);
    assert_eq!(launched.reply.cpu_count, 1);
    program.go();
    assert_eq!(program.cpus(), narrow);
}

#[test]
fn the_end_of_a_program_frees_its_cpus_at_once() {
    let daemon = Daemon::start_with(&["--interval", "10s"]);
    let stays = launch(&daemon, "stays");
    let mut goes = launch(&daemon, "goes");
    assert_ne!(stays.program.cpus(), all_cpus());
    goes.program.kill();
    goes.client
        .exited(ExitedRequest {
            app: goes.launched.reply.app,
            status: 137,
        })
        .unwrap();
    eventually("the other has all CPUs", || {
        stays.program.cpus() == all_cpus()
    });
    assert_eq!(daemon.status().apps.len(), 1);
}

#[test]
fn the_end_is_noticed_without_a_word_from_the_launcher() {
    let daemon = Daemon::start_with(&["--interval", "10s"]);
    let mut running = launch(&daemon, "silent");
    running.program.kill();
    eventually("it is gone", || daemon.status().apps.is_empty());
}

#[test]
fn a_program_whose_launcher_is_gone_stays_managed_until_it_ends() {
    let daemon = Daemon::start();
    let running = launch(&daemon, "orphan");
    drop(running.client);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(daemon.status().apps.len(), 1);
    drop(running.program);
    eventually("it is gone", || daemon.status().apps.is_empty());
}

#[test]
fn a_daemon_stops_when_it_had_nothing_to_manage_for_as_long_as_was_said() {
    let mut daemon = Daemon::start_with(&["--stop-when-idle", "1"]);
    let mut program = launch(&daemon, "only");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(daemon.child.try_wait().unwrap().is_none());
    program.program.kill();
    let ended = std::time::Instant::now();
    assert!(daemon.child.wait().unwrap().success(), "{}", daemon.log());
    assert!(ended.elapsed().as_millis() > 900, "{:?}", ended.elapsed());
    assert!(!daemon.socket().exists());
}

#[test]
fn an_orderly_stop_gives_all_cpus_back_and_takes_the_socket_away() {
    let daemon = Daemon::start();
    let [a, b] = [launch(&daemon, "a"), launch(&daemon, "b")];
    let socket = daemon.socket();
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
    assert!(log.contains("SIGTERM: stopping"), "{log}");
    for running in [&a, &b] {
        assert_eq!(running.program.cpus(), all_cpus());
    }
    // The directory of the daemon is gone with it, and so the socket: nothing is there to connect to.
    assert!(UnixStream::connect(socket).is_err());
}

#[test]
fn programs_outlive_a_daemon_that_is_killed_and_a_new_one_can_start() {
    let mut daemon = Daemon::start();
    let [mut a, b] = [launch(&daemon, "a"), launch(&daemon, "b")];
    let before = a.program.cpus();
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    assert!(
        daemon.socket().exists(),
        "a killed daemon leaves its socket behind"
    );
    assert_eq!(a.program.cpus(), before);
    assert!(a.program.child.try_wait().unwrap().is_none());
    assert!(a.client.status().is_err());
    daemon.start_again();
    assert!(
        daemon
            .log()
            .contains("removed the socket of a daemon that has ended")
    );
    drop(b);
}

#[test]
fn more_programs_than_cpus_share_and_all_run() {
    let daemon = Daemon::start();
    let count = all_cpus().len() as usize + 2;
    let running: Vec<_> = (0..count)
        .map(|i| launch(&daemon, &format!("p{i}")))
        .collect();
    for one in &running {
        assert!(!one.program.cpus().is_empty());
        assert!(one.program.cpus().is_subset(&all_cpus()));
    }
    assert_eq!(daemon.status().apps.len(), count);
}

#[test]
fn a_process_that_is_not_the_callers_child_is_refused() {
    let daemon = Daemon::start();
    let program = Program::sleeping();
    let mut request = program.request("stranger");
    for (pid, says) in [(1, "not a child"), (i32::MAX as u32, "no such process")] {
        request.pid = pid;
        let error = daemon.client().launch(request.clone()).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    request.pid = program.child.id();
    let _first = daemon.client();
    let mut client = daemon.client();
    client.launch(request.clone()).unwrap();
    let error = daemon.client().launch(request).unwrap_err();
    assert!(
        matches!(&error.kind, ClientErrorKind::Daemon(ErrorReply::NotPermitted { message }) if message.contains("already managed")),
        "{error}"
    );
}

#[test]
fn an_end_reported_by_another_client_does_nothing() {
    let daemon = Daemon::start();
    let running = launch(&daemon, "mine");
    let app = running.launched.reply.app;
    daemon
        .client()
        .exited(ExitedRequest { app, status: 0 })
        .unwrap();
    daemon
        .client()
        .exited(ExitedRequest {
            app: AppId(999),
            status: 0,
        })
        .unwrap();
    assert_eq!(daemon.status().apps.len(), 1);
}

#[test]
fn an_explanation_is_given_by_name_and_by_number() {
    let daemon = Daemon::start();
    let running = launch(&daemon, "asked");
    eventually("some intervals have passed", || {
        daemon.status().daemon.decisions > 3
    });
    let by_name = daemon.client().explain("asked").unwrap();
    assert_eq!(by_name.id, running.launched.reply.app);
    assert!(!by_name.decisions.is_empty());
    let by_number = daemon.client().explain(&by_name.id.to_string()).unwrap();
    assert_eq!(by_number.name, by_name.name);
    let error = daemon.client().explain("nobody").unwrap_err().to_string();
    assert!(error.contains("nobody"), "{error}");
}

#[test]
fn the_policies_in_use_are_marked() {
    let daemon = Daemon::start_with(&["--allocation", "fair"]);
    let policies = daemon.client().policies().unwrap().policies;
    let used: Vec<&str> = policies
        .iter()
        .filter(|p| p.in_use)
        .map(|p| p.name.as_str())
        .collect();
    assert_eq!(used, ["fair", "sam_mph"]);
}

#[test]
fn a_daemon_with_nothing_to_do_takes_no_decisions() {
    let daemon = Daemon::start_with(&["--interval", "20ms"]);
    let before = daemon.status().daemon.decisions;
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(daemon.status().daemon.decisions, before);
}

#[test]
fn garbage_on_the_socket_ends_the_connection_and_nothing_else() {
    use std::io::{Read, Write};
    let daemon = Daemon::start();
    let running = launch(&daemon, "stays");
    for garbage in [
        &b"GET / HTTP/1.1\r\n\0"[..],
        b"{}\0",
        &[b'x'; 100_000],
        b"\0\0\0",
    ] {
        let mut stream = UnixStream::connect(daemon.socket()).unwrap();
        // The daemon may close before all is written.
        let _ = stream.write_all(garbage);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(daemon.status().apps.len(), 1);
    assert_eq!(cpus_of(running.program.child.id()), all_cpus());
}

#[test]
fn a_page_full_of_nonsense_does_no_harm() {
    let daemon = Daemon::start_with(&["--interval", "20ms"]);
    let running = launch(&daemon, "liar");
    let page = std::fs::File::from(running.launched.page.unwrap());
    let nonsense = vec![0xff; mapper_abi::PAGE_BYTES];
    std::os::unix::fs::FileExt::write_all_at(&page, &nonsense, 0).unwrap();
    let before = daemon.status().daemon.decisions;
    eventually("decisions go on", || {
        daemon.status().daemon.decisions > before + 5
    });
    assert_eq!(daemon.status().apps.len(), 1);
}

#[test]
fn what_was_recorded_is_decided_again_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("record.jsonl");
    let daemon = Daemon::start_with(&["--interval", "20ms", "--record", file.to_str().unwrap()]);
    let running = launch(&daemon, "recorded");
    eventually("some decisions", || daemon.status().daemon.decisions > 3);
    drop(running);
    daemon.stop();
    let text = private_daemon::text(&file);
    let mut lines = text.lines();
    let mut replay = Replay::start(lines.next().unwrap(), &Changes::default()).unwrap();
    let mut decisions = 0;
    for line in lines {
        assert_eq!(replay.next(line).unwrap().comparison, Comparison::Same);
        decisions += 1;
    }
    assert!(decisions > 3);
}

#[test]
fn memory_that_cannot_be_bound_is_refused_with_the_fix() {
    let daemon = Daemon::start();
    let program = Program::sleeping();
    for (memory, says) in [
        (
            MemoryPolicy::Local,
            "mem local: this daemon confines by thread affinity",
        ),
        (MemoryPolicy::Interleave, "--enforcer cgroup"),
        (MemoryPolicy::Unknown, "give local, interleave or keep"),
    ] {
        let mut request = program.request("numa");
        request.wishes.memory = memory;
        let error = daemon.client().launch(request).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(daemon.status().apps.is_empty());
}

#[test]
fn a_program_that_sleeps_is_idle_and_wants_and_breaks_nothing() {
    let daemon = Daemon::start_with(&["--interval", "20ms"]);
    let sleeps = launch(&daemon, "sleeps");
    let _also = launch(&daemon, "also");
    eventually("it is idle", || {
        let status = daemon.status();
        let app = status.apps.iter().find(|app| app.name.as_str() == "sleeps");
        app.is_some_and(|app| app.sentence.ends_with("idle"))
    });
    let decisions = daemon.status().daemon.decisions;
    eventually("some intervals", || {
        let status = daemon.status();
        for app in &status.apps {
            assert!(!app.sentence.contains("wanted"), "{}", app.sentence);
        }
        status.daemon.decisions > decisions + 50
    });
    let report = daemon.client().report(sleeps.launched.reply.app).unwrap();
    // It may have been seen while it started.
    assert!(report.account.judged_intervals <= 2, "{report:?}");
}

#[test]
fn a_minimum_above_the_machine_is_refused_with_the_maximum() {
    let daemon = Daemon::start();
    let program = Program::sleeping();
    let mut request = program.request("greedy");
    let most = all_cpus().len();
    request.wishes.cpus = CpuRange::new(most + 1, None).unwrap();
    let error = daemon.client().launch(request).unwrap_err().to_string();
    let says = format!("min-cpus {}: only {most} CPUs", most + 1);
    assert!(error.contains(&says), "{error}");
}

#[test]
fn an_application_below_its_own_minimum_is_shown_why() {
    let daemon = Daemon::start();
    let most = all_cpus().len();
    let running = ["one", "other"].map(|name| {
        let mut program = Program::sleeping();
        let mut request = program.request(name);
        request.wishes.cpus = CpuRange::new(most, None).unwrap();
        let mut client = daemon.client();
        let launched = client.launch(request).unwrap();
        program.go();
        (program, client, launched)
    });
    let status = daemon.status();
    for (_, _, launched) in &running {
        let app = status
            .apps
            .iter()
            .find(|app| app.id == launched.reply.app)
            .unwrap();
        let says = format!("requested a minimum of {most}");
        assert!(
            most == 1 || app.sentence.contains(&says),
            "{}",
            app.sentence
        );
    }
}

#[test]
fn programs_confined_by_their_owner_stay_confined() {
    let daemon = Daemon::start_with(&["--interval", "20ms"]);
    let cpus: Vec<CpuSet> = all_cpus()
        .iter()
        .map(|cpu| [cpu].into_iter().collect())
        .collect();
    let [low, .., high] = &cpus[..] else {
        // With one CPU there is nothing to be confined to.
        assert_eq!(cpus.len(), 1);
        return;
    };
    let confined = |name: &str, mask: &CpuSet| {
        let mut program = Program::sleeping();
        mapper_host::enforce::masks::set(mapper_model::ThreadId(program.child.id()), mask).unwrap();
        let mut client = daemon.client();
        let launched = client.launch(program.request(name)).unwrap();
        assert_eq!(launched.reply.cpus, *mask);
        program.go();
        (program, client)
    };
    // Against the order in which CPUs are assigned.
    let above = confined("above", high);
    let below = confined("below", low);
    let mut guest = launch(&daemon, "guest");
    let stay = |daemon: &Daemon| {
        let decisions = daemon.status().daemon.decisions;
        eventually("some decisions", || {
            daemon.status().daemon.decisions > decisions + 5
        });
        let shown = |name: &str| {
            let status = daemon.status();
            let app = status
                .apps
                .into_iter()
                .find(|app| app.name.as_str() == name);
            app.unwrap().cpus
        };
        assert_eq!(
            (above.0.cpus(), shown("above")),
            (high.clone(), high.clone())
        );
        assert_eq!((below.0.cpus(), shown("below")), (low.clone(), low.clone()));
    };
    if all_cpus().len() > 2 {
        stay(&daemon);
    }
    guest.program.kill();
    guest
        .client
        .exited(ExitedRequest {
            app: guest.launched.reply.app,
            status: 137,
        })
        .unwrap();
    eventually("the guest is gone", || daemon.status().apps.len() == 2);
    stay(&daemon);
    // A stop gives them what they had.
    let (_, log) = daemon.stop();
    assert_eq!(
        (above.0.cpus(), below.0.cpus()),
        (high.clone(), low.clone()),
        "{log}"
    );
}
