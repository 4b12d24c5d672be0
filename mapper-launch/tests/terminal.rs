//! In front of a terminal nobody notices the launcher: Ctrl-C, Ctrl-Z, `fg` and `bg` do what they
//! do without it. The shell is a real one with job control.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

mod support;

use support::terminal::{CTRL_BACKSLASH, CTRL_C, CTRL_Z, Terminal};
use support::{
    LAUNCHER, Stage, children, eventually, has_ended, parent, probe, state, wait_for_witness,
    witness,
};

fn terminal(stage: &Stage) -> Terminal {
    let mut base = stage.bare("bash");
    base.env("L", format!("{LAUNCHER} --"))
        .env("PROBE", probe())
        .env("FIFO", stage.folder.path().join("fifo"));
    Terminal::start(&base)
}

/// Starts something that prints "ready PID", and waits for it.
fn start(terminal: &mut Terminal, line: &str) -> i32 {
    terminal.types(&format!("{line}\n"));
    terminal.sees("ready ");
    terminal.sees("\n").trim().parse().unwrap()
}

/// The shell tells of what it ran last that it ended so; returns what appears before that.
fn shell_tells(terminal: &mut Terminal, status: u8) -> String {
    terminal.types("echo status=$?.\n");
    terminal.sees(&format!("status={status}."))
}

/// Stops the job in the foreground, with the program in it.
fn stop_by_ctrl_z(terminal: &mut Terminal, program: i32) {
    terminal.types(CTRL_Z);
    terminal.sees("Stopped");
    is_stopped(program);
}

/// Has the shell continue the job in the foreground.
fn continue_by_fg(terminal: &mut Terminal, program: i32) {
    terminal.types("fg\n");
    eventually("it runs again", || state(program) == Some('S'));
}

/// Waits until a process is stopped.
fn is_stopped(pid: i32) {
    eventually("it is stopped", || state(pid) == Some('T'));
}

/// Presses a key that ends the program, and lets it take effect: as long as the program is there,
/// it may read what is typed next.
fn end_by(terminal: &mut Terminal, key: &str, program: i32) {
    terminal.types(key);
    eventually("the program is gone", || state(program).is_none());
}

#[test]
fn ctrl_c_ends_the_program_with_130() {
    let stage = Stage::new();
    let mut terminal = terminal(&stage);
    let program = start(&mut terminal, "$L $PROBE default");
    end_by(&mut terminal, CTRL_C, program);
    shell_tells(&mut terminal, 130);
}

#[test]
fn ctrl_backslash_ends_the_program_with_131() {
    let stage = Stage::new();
    let mut terminal = terminal(&stage);
    terminal.types("ulimit -c 0\n");
    let program = start(&mut terminal, "$L $PROBE default");
    end_by(&mut terminal, CTRL_BACKSLASH, program);
    shell_tells(&mut terminal, 131);
}

#[test]
fn ctrl_c_reaches_a_program_that_handles_it_once() {
    let stage = Stage::new();
    let mut terminal = terminal(&stage);
    let program = start(&mut terminal, "$L $PROBE signals");
    let launcher = parent(program);
    wait_for_witness(launcher, program, None);
    for _ in 0..3 {
        let before = witness(launcher, program);
        terminal.types(CTRL_C);
        terminal.sees("signal 2 from 0 code 128");
        wait_for_witness(launcher, program, before);
    }
    // Any input ends the probe, which leaves it to the shell; nothing else was reported in between.
    terminal.types("\n");
    eventually("the program is gone", || state(program).is_none());
    let rest = shell_tells(&mut terminal, 0);
    assert!(!rest.contains("signal"), "{rest}");
}

#[test]
fn ctrl_c_ends_a_whole_loop() {
    let stage = Stage::new();
    let mut terminal = terminal(&stage);
    let program = start(
        &mut terminal,
        "for i in 1 2 3; do $L $PROBE default; done; echo after",
    );
    end_by(&mut terminal, CTRL_C, program);
    let between = shell_tells(&mut terminal, 130);
    assert!(
        !between.contains("ready") && !between.contains("after"),
        "{between}"
    );
}

#[test]
fn ctrl_z_stops_the_job_and_fg_and_bg_continue_it() {
    let stage = Stage::new();
    let mut terminal = terminal(&stage);
    let program = start(&mut terminal, "$L $PROBE default");
    stop_by_ctrl_z(&mut terminal, program);
    shell_tells(&mut terminal, 148);

    continue_by_fg(&mut terminal, program);
    stop_by_ctrl_z(&mut terminal, program);

    // In the background it reads from the terminal, which stops it again.
    let launcher = parent(program);
    terminal.types("bg; echo continued=$((1+1))\n");
    terminal.sees("continued=2");
    is_stopped(program);
    is_stopped(launcher);
    terminal.types("jobs\n");
    terminal.sees("Stopped");
    continue_by_fg(&mut terminal, program);
    end_by(&mut terminal, CTRL_C, program);
    shell_tells(&mut terminal, 130);
}

#[test]
fn a_job_that_is_continued_runs_in_the_background() {
    let stage = Stage::new();
    let mut terminal = terminal(&stage);
    let gate = stage.folder.path().join("fifo");
    let program = start(
        &mut terminal,
        "mkfifo $FIFO; $L sh -c 'echo ready $$; cat $FIFO; exit 7'",
    );
    // A shell that is just starting a command cannot be stopped.
    eventually("the command runs", || {
        let name = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm"));
        children(program)
            .iter()
            .any(|pid| name(pid).is_ok_and(|name| name == "cat\n"))
    });
    stop_by_ctrl_z(&mut terminal, program);
    terminal.types("bg; echo continued=$((1+1)); wait %1; echo status=$?.\n");
    terminal.sees("continued=2");
    // Only now the command has anything to read, the end.
    drop(std::fs::File::options().write(true).open(gate).unwrap());
    terminal.sees("status=7.");
}

#[test]
fn a_shell_that_kills_the_job_kills_it_once() {
    let stage = Stage::new();
    let mut terminal = terminal(&stage);
    // An input that neither brings anything nor ends.
    let program = start(&mut terminal, "mkfifo $FIFO; $L $PROBE signals <>$FIFO &");
    let launcher = parent(program);
    wait_for_witness(launcher, program, None);
    for (name, line) in [("USR1", "signal 10 "), ("TERM", "signal 15 ")] {
        let before = witness(launcher, program);
        terminal.types(&format!("kill -{name} %1\n"));
        terminal.sees(line);
        wait_for_witness(launcher, program, before);
        // Time for a second one, which is not meant to come.
        terminal.types("sleep 0.2; echo over=$((1+1))\n");
        let between = terminal.sees("over=2");
        assert!(!between.contains("signal"), "{between}");
    }
    terminal.types("kill -KILL %1; wait; echo gone\n");
    terminal.sees("gone");
}

#[test]
fn a_pipeline_with_the_launcher_in_it_stops_and_continues_as_a_whole() {
    let stage = Stage::new();
    let mut terminal = terminal(&stage);
    let program = start(&mut terminal, "$L $PROBE default | cat");
    stop_by_ctrl_z(&mut terminal, program);
    continue_by_fg(&mut terminal, program);
    end_by(&mut terminal, CTRL_C, program);
    terminal.types("echo over=$((1+1))\n");
    terminal.sees("over=2");
}

#[test]
fn an_interactive_shell_can_be_launched() {
    let stage = Stage::new();
    let mut terminal = terminal(&stage);
    terminal.types("$L bash --norc --noprofile -i\n");
    terminal.types("echo inner=$((40+2))\n");
    terminal.sees("inner=42");
    // Job control works inside, and Ctrl-C ends what runs there, not the inner shell.
    let program = start(&mut terminal, "$PROBE default");
    stop_by_ctrl_z(&mut terminal, program);
    continue_by_fg(&mut terminal, program);
    end_by(&mut terminal, CTRL_C, program);
    terminal.types("echo still=$((5*5))\n");
    terminal.sees("still=25");
    terminal.types("exit 3\n");
    shell_tells(&mut terminal, 3);
}

#[test]
fn a_lost_terminal_ends_the_program() {
    let stage = Stage::new();
    let mut terminal = terminal(&stage);
    // The launcher leads the session, in the shell's place.
    let program = start(&mut terminal, "exec $L $PROBE default");
    let mut leader = terminal.hangs_up();
    leader.wait().unwrap();
    eventually("the program is gone", || has_ended(program));
}

/// A daemon that says of every program the same.
fn reporting() -> Stage {
    use mapper_control::fake::{Answer, grant};
    use mapper_control::schema::{Account, ReportReply};
    use mapper_control::{PROTOCOL, Reply, Request};
    let account = Account {
        managed_ns: 2_000_000_000,
        achieved: Some(0.93),
        fewest_cpus: 1,
        most_cpus: 2,
        ..Account::default()
    };
    Stage::with_daemon(move |request| match request {
        Request::Launch(launch) => Answer::Reply(grant(launch, &mapper_model::CpuSet::first(2), 4)),
        Request::Report(asked) => Answer::Reply(Reply::Report(Box::new(ReportReply {
            protocol: PROTOCOL,
            app: asked.app,
            name: mapper_model::AppName::from_lossy("fft"),
            qos: mapper_model::Qos::default(),
            account: account.clone(),
        }))),
        _ => Answer::Silence,
    })
}

#[test]
fn what_a_program_got_is_one_line_at_its_end_unless_it_was_brief_or_quiet_is_asked_for() {
    let stage = reporting();
    let mut terminal = terminal(&stage);
    terminal.types("$L sleep 1.1\n");
    terminal.sees(
        "mapper-launch: fft: 2.0 s on 1 to 2 CPUs; 93 % of its fair-share speed (85 % promised)",
    );
    let quiet = format!("{LAUNCHER} --quiet -- sleep 1.1; $L true\n");
    terminal.types(&quiet);
    let rest = shell_tells(&mut terminal, 0);
    assert!(!rest.contains("fair-share"), "{rest}");
}
