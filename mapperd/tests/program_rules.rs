//! Rules about programs, in a daemon that runs: they set what a launch leaves open, are reported, and
//! are read again.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot continue shall panic

mod private_daemon;

use mapper_control::schema::{
    LinkedOpenMp, Program as ProgramFile, RuntimeState, Schedule, TeamsWish, Terms,
};
use mapper_model::TeamMode;
use private_daemon::{Daemon, Program};

/// Launches a program whose file is said to be this one; returns its terms and what the status shows.
fn settled(daemon: &Daemon, teams: Option<TeamsWish>, openmp: LinkedOpenMp) -> (Terms, String) {
    let mut program = Program::sleeping();
    let mut request = program.request("fft");
    request.wishes.teams = teams;
    request.program = Some(ProgramFile {
        path: "/opt/bin/fft".into(),
        build_id: None,
        openmp,
    });
    let mut client = daemon.client();
    let launched = client.launch(request).unwrap();
    program.go();
    let app = daemon.status().apps.pop().unwrap();
    assert_eq!(app.teams, launched.reply.terms.teams);
    let explained = client_explains(daemon);
    assert_eq!(explained.teams, app.teams);
    assert_eq!(explained.runtime, app.runtime);
    let text = format!("{} {:?}", app.qos, app.runtime);
    if app.runtime.state == RuntimeState::Unreachable {
        assert!(app.runtime.notes[0].contains("/opt/bin/fft"), "{text}");
    }
    (launched.reply.terms, text)
}

fn client_explains(daemon: &Daemon) -> mapper_control::schema::ExplainReply {
    daemon.client().explain("fft").unwrap()
}

fn wait_until_gone(daemon: &Daemon) {
    private_daemon::eventually("the program is gone", || daemon.status().apps.is_empty());
}

#[test]
fn rules_settle_what_is_open_and_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("mapper.toml");
    let rule = "[[program]]\npath = \"/opt/**\"\nteams = \"virtual\"\nqos = 0.5\nschedule = \"adaptive\"\n";
    std::fs::write(&config, rule).unwrap();
    let daemon = Daemon::start_with(&["--config", config.to_str().unwrap()]);

    let (choice, text) = settled(&daemon, None, LinkedOpenMp::Libgomp);
    assert_eq!(choice.teams, TeamMode::Virtual);
    assert_eq!(choice.teams_by, format!("rule 1 of {}", config.display()));
    assert_eq!(choice.schedule, Some(Schedule::Adaptive));
    assert!(text.starts_with("0.5 "), "{text}");
    wait_until_gone(&daemon);

    let (choice, text) = settled(&daemon, None, LinkedOpenMp::Libomp);
    assert_eq!(choice.teams, TeamMode::Fixed);
    assert!(text.contains("libomp, whose teams"), "{text}");
    wait_until_gone(&daemon);

    let (choice, text) = settled(
        &daemon,
        Some(TeamsWish::Named(TeamMode::Virtual)),
        LinkedOpenMp::StaticLibgomp,
    );
    assert_eq!(choice.teams, TeamMode::Fixed);
    assert!(text.contains("mapper moves CPUs only"), "{text}");
    wait_until_gone(&daemon);

    std::fs::write(&config, "").unwrap();
    let changed = daemon.client().reload().unwrap().changed;
    assert_eq!(changed, ["[[program]]"]);
    let (choice, _) = settled(&daemon, None, LinkedOpenMp::Libgomp);
    assert_eq!(
        (choice.teams, choice.teams_by.as_str()),
        (TeamMode::Virtual, "by default")
    );
}
