//! `mapperctl` as it is called: what it prints at which width, and what it says when it cannot.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

mod samples;

use mapper_control::fake::{Answer, FakeDaemon};
use mapper_control::schema::{AdoptReply, AdoptTarget, AdviseReply, ReleaseReply};
use mapper_control::{ErrorReply, PROTOCOL, Reply, Request};
use mapper_model::{AppId, AppName, CpuSet};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

struct Stage {
    folder: TempDir,
    _daemon: Option<FakeDaemon>,
}

impl Stage {
    fn new(behave: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let daemon = FakeDaemon::start(&folder.path().join("mapper.sock"), behave).unwrap();
        Self {
            folder,
            _daemon: Some(daemon),
        }
    }

    /// A daemon with the sample applications.
    fn busy() -> Self {
        Self::new(|request| match request {
            Request::Status => Answer::Reply(Reply::Status(Box::new(samples::status()))),
            Request::Explain(asked) if asked.name == "md" => {
                Answer::Reply(Reply::Explain(Box::new(samples::explain())))
            }
            Request::Explain(asked) => Answer::Error(ErrorReply::UnknownApplication {
                message: format!("no application {:?} runs", asked.name),
                running: ["md", "cg"].map(|name| AppName::new(name).unwrap()).into(),
            }),
            Request::Policies => Answer::Reply(Reply::Policies(samples::policies())),
            Request::History => Answer::Reply(Reply::History(samples::history())),
            Request::Advise => Answer::Reply(Reply::Advise(samples::advice())),
            _ => Answer::HangUp,
        })
    }

    fn without_daemon() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            _daemon: None,
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("mapper.sock")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mapperctl"));
        command
            .args(arguments)
            .env("MAPPER_SOCKET", self.socket())
            .env_remove("COLUMNS")
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR")
            .env_remove("CLICOLOR_FORCE")
            .env("TERM", "xterm")
            .stdin(Stdio::null());
        command
    }

    /// Standard output of a command that succeeds, at so many columns.
    fn shows(&self, arguments: &[&str], columns: &str) -> String {
        let output = self
            .command(arguments)
            .env("COLUMNS", columns)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(output.stderr.is_empty());
        let text = String::from_utf8(output.stdout).unwrap();
        let limit: usize = columns.parse().unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= limit, "{line}");
            assert_eq!(line.trim_end(), line);
        }
        text
    }

    /// Standard error of a command that fails.
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(!output.status.success());
        assert!(output.stdout.is_empty());
        self.shown(&output)
    }

    fn shown(&self, output: &Output) -> String {
        let folder = self.folder.path().to_str().unwrap();
        String::from_utf8_lossy(&output.stderr).replace(folder, "FOLDER")
    }
}

#[test]
fn all_of_the_status_can_be_read_at_80_columns() {
    insta::assert_snapshot!(Stage::busy().shows(&["status", "-v"], "80"));
}

#[test]
fn the_status_fits_narrow_terminals() {
    // `shows` holds every line against the width.
    for columns in ["40", "50", "60", "70"] {
        let text = Stage::busy().shows(&["status"], columns);
        for part in ["NAME", "CPUS", "SPEED", "md"] {
            assert!(text.contains(part), "{columns}: {text}");
        }
    }
}

#[test]
fn adopting_and_releasing_what_cannot_be_yet_is_tried_again() {
    let late = AtomicU32::new(1);
    let stage = Stage::new(move |request| match request {
        Request::Adopt(_) | Request::Release(_) if late.fetch_xor(1, Ordering::Relaxed) == 1 => {
            Answer::Error(ErrorReply::Unavailable {
                message: "systemd is late".to_owned(),
            })
        }
        Request::Adopt(adopt) => Answer::Reply(Reply::Adopt(AdoptReply {
            protocol: PROTOCOL,
            app: AppId(1),
            name: AppName::new("db").unwrap(),
            adopted: adopt.target.clone(),
            processes: 1,
            cpus: CpuSet::first(2),
            cpu_count: 2,
        })),
        Request::Release(_) => Answer::Reply(Reply::Release(ReleaseReply {
            protocol: PROTOCOL,
            app: AppId(1),
            name: AppName::new("db").unwrap(),
            adopted: AdoptTarget::Unit("db.service".into()),
            trouble: None,
        })),
        _ => Answer::HangUp,
    });
    let adopt = ["adopt", "--unit", "db.service"];
    for (command, says) in [
        (&adopt[..], "db.service is application db"),
        (&["release", "db"], "is managed no more"),
    ] {
        let output = stage.command(command).output().unwrap();
        assert!(output.status.success());
        let said = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(said.contains(says), "{said}");
        let warning = "mapperctl: FOLDER/mapper.sock: systemd is late; trying for 10 s\n";
        assert_eq!(stage.shown(&output), warning);
    }
}

#[test]
fn completions_know_the_applications_that_run() {
    let stage = Stage::busy();
    let mut command = stage.command(&["--", "mapperctl", "explain", "m"]);
    command.env("MAPPERCTL_COMPLETE", "bash");
    command.env("_CLAP_COMPLETE_INDEX", "2");
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "md");
}

#[test]
fn a_negative_number_is_refused_with_what_is_accepted() {
    let stage = Stage::without_daemon();
    for (arguments, says) in [
        (&["adopt", "--pid", "-5"][..], "from 1"),
        (&["adopt", "--pid", "5", "--qos", "-1"], "above 0"),
        (&["adopt", "--pid", "5", "--weight", "-2"], "0.01 to 100"),
        (&["adopt", "--pid", "5", "--min-cpus", "-1"], "from 1"),
        (&["adopt", "--pid", "5", "--max-cpus", "-1"], "from 1"),
        (&["top", "--interval", "-1s"], "100ms to 60s"),
        (&["top", "--interval", "1"], "with its unit"),
    ] {
        let shown = stage.fails(arguments);
        assert!(shown.contains(says), "{arguments:?}: {shown}");
    }
}

#[test]
fn the_help_shows_the_default_promise() {
    let help = Stage::without_daemon().shows(&["adopt", "--help"], "1000");
    let shown = format!("[default: {},", mapper_model::Qos::default());
    assert!(help.contains(&shown), "{help}");
}

#[test]
fn all_of_the_status_can_be_read_at_120_columns() {
    insta::assert_snapshot!(Stage::busy().shows(&["status", "-v"], "120"));
}

#[test]
fn the_status_is_a_sentence_and_a_line_for_each_program() {
    for columns in ["40", "80", "120"] {
        let text = Stage::busy().shows(&["status"], columns);
        insta::assert_snapshot!(format!("status_{columns}"), text);
    }
}

#[test]
fn an_idle_daemon_says_how_to_start_something() {
    let stage = Stage::new(|_| Answer::Reply(Reply::Status(Box::new(samples::idle()))));
    insta::assert_snapshot!(stage.shows(&["status"], "80"));
    insta::assert_snapshot!("idle_40", stage.shows(&["status"], "40"));
}

#[test]
fn the_json_is_the_daemons_reply() {
    let text = Stage::busy().shows(&["status", "--json"], "1000");
    assert_eq!(
        serde_json::from_str::<mapper_control::schema::Status>(&text).unwrap(),
        samples::status()
    );
    insta::assert_snapshot!(text);
}

#[test]
fn the_schema_of_the_json_is_printed_without_a_daemon() {
    let text = Stage::without_daemon().shows(&["status", "--schema"], "1000");
    assert_eq!(text, mapper_control::schema::status_schema());
}

#[test]
fn top_wants_a_terminal() {
    let shown = Stage::busy().fails(&["top"]);
    assert!(shown.contains("use `mapperctl status`"), "{shown}");
}

#[test]
fn an_explanation_shows_curve_promise_and_decisions() {
    insta::assert_snapshot!("explain_80", Stage::busy().shows(&["explain", "md"], "80"));
    insta::assert_snapshot!(
        "explain_120",
        Stage::busy().shows(&["explain", "md"], "120")
    );
    let json = Stage::busy().shows(&["explain", "md", "--json"], "1000");
    assert_eq!(
        serde_json::from_str::<mapper_control::schema::ExplainReply>(&json).unwrap(),
        samples::explain()
    );
}

#[test]
fn advice_tells_of_each_program_and_of_pairs() {
    insta::assert_snapshot!("advise_80", Stage::busy().shows(&["advise"], "80"));
    insta::assert_snapshot!("advise_40", Stage::busy().shows(&["advise"], "40"));
    let json = Stage::busy().shows(&["advise", "--json"], "1000");
    let advice: AdviseReply = serde_json::from_str(&json).unwrap();
    assert_eq!(advice, samples::advice());
    let none = || AdviseReply {
        programs: vec![],
        pairs: vec![],
        policy: "fair".to_owned(),
        ..samples::advice()
    };
    let stage = Stage::new(move |_| Answer::Reply(Reply::Advise(none())));
    let said = stage.shows(&["advise"], "80");
    assert!(
        said.starts_with("Nothing is known") && said.contains("fair"),
        "{said}"
    );
}

#[test]
fn the_history_lists_what_has_ended() {
    insta::assert_snapshot!("history_80", Stage::busy().shows(&["history"], "80"));
    insta::assert_snapshot!("history_40", Stage::busy().shows(&["history"], "40"));
    let json = Stage::busy().shows(&["history", "--json"], "1000");
    assert_eq!(
        serde_json::from_str::<mapper_control::schema::HistoryReply>(&json).unwrap(),
        samples::history()
    );
    let stage = Stage::new(|_| {
        Answer::Reply(Reply::History(mapper_control::schema::HistoryReply {
            protocol: mapper_control::PROTOCOL,
            ended: vec![],
        }))
    });
    assert_eq!(
        stage.shows(&["history"], "80"),
        "No application has ended yet.\n"
    );
}

#[test]
fn an_application_that_has_ended_is_explained_by_what_it_was() {
    insta::assert_snapshot!(Stage::busy().shows(&["explain", "fit_b"], "80"));
    // By its number, too.
    let text = Stage::busy().shows(&["explain", "4"], "80");
    assert!(text.contains("not judged"), "{text}");
}

#[test]
fn the_policies_are_listed() {
    insta::assert_snapshot!(Stage::busy().shows(&["policies"], "80"));
    let json = Stage::busy().shows(&["policies", "--json"], "1000");
    assert_eq!(
        serde_json::from_str::<mapper_control::schema::PoliciesReply>(&json).unwrap(),
        samples::policies()
    );
}

#[test]
fn an_unknown_application_is_refused_with_those_that_run() {
    insta::assert_snapshot!(Stage::busy().fails(&["explain", "fft"]), @r#"mapperctl: no application "fft" runs; these run: md, cg"#);
}

#[test]
fn without_a_daemon_it_says_so_and_how_to_start_one() {
    let stage = Stage::without_daemon();
    insta::assert_snapshot!(stage.fails(&["status"]), @"mapperctl: FOLDER/mapper.sock: no daemon there; start mapperd (`systemctl start mapperd` or `mapperd --user`) or give its socket with --socket");
    drop(std::os::unix::net::UnixListener::bind(stage.socket()).unwrap());
    insta::assert_snapshot!(stage.fails(&["status"]), @"mapperctl: FOLDER/mapper.sock: no daemon listens there any more; start mapperd again or give its socket with --socket");
}

#[test]
fn a_daemon_of_another_version_is_reported() {
    let stage = Stage::new(|_| Answer::Bytes(b"{\"parameters\":{\"protocol\":3}}\0".to_vec()));
    insta::assert_snapshot!(stage.fails(&["status", "--json"]), @"mapperctl: FOLDER/mapper.sock: the daemon speaks protocol 3, this program protocol 2; install mapperd and its tools in the same version");
}

#[test]
fn a_socket_without_permission_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let stage = Stage::busy();
    let set_mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(&stage.socket(), 0o000);
    set_mode(stage.folder.path(), 0o755);
    let mut command = stage.command(&["status"]);
    // The kernel lets root connect to anything, so root runs this as another user, who may not be
    // allowed where the program was built.
    if nix::unistd::geteuid().is_root() {
        let copy = stage.folder.path().join("mapperctl");
        std::fs::copy(env!("CARGO_BIN_EXE_mapperctl"), &copy).unwrap();
        command = Command::new(&copy);
        command.arg("status").env("MAPPER_SOCKET", stage.socket());
        command.uid(65534).gid(65534);
    }
    // Until a child that another test forked meanwhile executes its program, it has the copy open for writing.
    let output = std::iter::repeat_with(|| command.output())
        .take(1_000)
        .inspect(|_| std::thread::sleep(std::time::Duration::from_millis(5)))
        .find(|output| !matches!(output, Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy));
    let shown = stage.shown(&output.unwrap().unwrap());
    insta::assert_snapshot!(shown, @"mapperctl: FOLDER/mapper.sock: permission denied; ask for access to that daemon or start your own with `mapperd --user`");
}

#[test]
fn bad_command_lines_are_refused() {
    let stage = Stage::without_daemon();
    for line in [&[][..], &["stauts"], &["explain"], &["status", "--jsno"]] {
        let output = stage.command(line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        assert!(output.stdout.is_empty());
    }
    insta::assert_snapshot!(stage.fails(&["stauts"]));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let stage = Stage::busy();
    let mut running = stage
        .command(&["status"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(running.stdout.take());
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty());
}

/// What a terminal of some columns gets to see.
fn on_terminal(stage: &Stage, columns: u16) -> String {
    let size = nix::pty::Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pty = nix::pty::openpty(&size, None).unwrap();
    let mut command = stage.command(&["status"]);
    let mut running = command.stdout(pty.slave).spawn().unwrap();
    // The command holds the terminal's other end.
    drop(command);
    let mut screen = std::fs::File::from(pty.master);
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    // Reading fails when the other end is closed.
    while let Ok(count @ 1..) = screen.read(&mut buffer) {
        text.extend_from_slice(&buffer[..count]);
    }
    assert!(running.wait().unwrap().success());
    String::from_utf8(text).unwrap()
}

#[test]
fn there_are_colours_on_a_terminal_and_nowhere_else() {
    let stage = Stage::busy();
    let text = on_terminal(&stage, 100);
    assert!(text.contains("\u{1b}["), "{text}");
    // The applications' own control characters never get there.
    assert!(!text.contains("\u{1b}]"), "{text}");
    assert!(!stage.shows(&["status"], "100").contains('\u{1b}'));
}

#[test]
fn a_terminal_is_used_to_its_width() {
    let stage = Stage::busy();
    for columns in [80, 132] {
        let text = on_terminal(&stage, columns);
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            plain.replace('\r', ""),
            stage.shows(&["status"], &columns.to_string())
        );
    }
}

/// `top` on a terminal of its own, in a process group of its own.
struct Top {
    running: std::process::Child,
    slave: std::os::fd::OwnedFd,
    keys: std::fs::File,
    screen: std::sync::mpsc::Receiver<Vec<u8>>,
}

impl Top {
    /// The command and its terminal, of which it has one end.
    fn spawn(stage: &Stage) -> (std::process::Child, nix::pty::OpenptyResult) {
        use std::os::unix::process::CommandExt;
        let size = nix::pty::Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = nix::pty::openpty(&size, None).unwrap();
        // Else the child would hold the end that it is to lose.
        let close = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC);
        nix::fcntl::fcntl(&pty.master, close).unwrap();
        let mut command = stage.command(&["top"]);
        let running = command
            .process_group(0)
            .stdin(pty.slave.try_clone().unwrap())
            .stdout(pty.slave.try_clone().unwrap())
            .spawn()
            .unwrap();
        (running, pty)
    }

    fn start(stage: &Stage) -> Self {
        let (running, pty) = Self::spawn(stage);
        let keys = std::fs::File::from(pty.master);
        let mut output = keys.try_clone().unwrap();
        let (sender, screen) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails when all other ends are closed.
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                let _ = sender.send(buffer[..count].to_vec());
            }
        });
        Self {
            running,
            slave: pty.slave,
            keys,
            screen,
        }
    }

    fn until_shown(&self, wanted: &str) {
        let mut text = Vec::new();
        while !String::from_utf8_lossy(&text).contains(wanted) {
            let patience = std::time::Duration::from_secs(30);
            text.extend(self.screen.recv_timeout(patience).unwrap());
        }
    }

    fn press(&mut self, key: &str) {
        use std::io::Write;
        self.keys.write_all(key.as_bytes()).unwrap();
    }

    fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.running.id().cast_signed())
    }

    /// Whether the terminal is as a shell needs it.
    fn reads_lines(&self) -> bool {
        use nix::sys::termios::{LocalFlags, tcgetattr};
        let flags = tcgetattr(&self.slave).unwrap().local_flags;
        flags.contains(LocalFlags::ICANON | LocalFlags::ECHO)
    }
}

#[test]
fn top_gives_the_terminal_back_when_a_signal_ends_it() {
    use nix::sys::signal::{Signal, kill};
    use std::os::unix::process::ExitStatusExt;
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let stage = Stage::busy();
        let mut top = Top::start(&stage);
        top.until_shown("SPEED");
        assert!(!top.reads_lines(), "not raw while it runs");
        kill(top.pid(), signal).unwrap();
        let status = top.running.wait().unwrap();
        assert_eq!(status.signal(), Some(signal as i32));
        assert!(top.reads_lines(), "left raw by {signal}");
    }
}

#[test]
fn top_ends_when_its_terminal_is_gone() {
    let stage = Stage::busy();
    let (mut running, pty) = Top::spawn(&stage);
    let mut screen = std::fs::File::from(pty.master);
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&text).contains("SPEED") {
        let count = screen.read(&mut buffer).unwrap();
        text.extend_from_slice(&buffer[..count]);
    }
    drop(screen);
    let ended = std::iter::repeat_with(|| running.try_wait().unwrap())
        .take(1_000)
        .inspect(|_| std::thread::sleep(std::time::Duration::from_millis(10)))
        .find_map(|status| status);
    if ended.is_none() {
        running.kill().unwrap();
    }
    assert!(ended.is_some(), "runs on without a terminal");
}

#[test]
fn ctrl_z_suspends_top_until_the_shell_continues_it() {
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    let stage = Stage::busy();
    let mut top = Top::start(&stage);
    top.until_shown("SPEED");
    top.press("\u{1a}");
    let stopped = waitpid(top.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
    assert_eq!(stopped, WaitStatus::Stopped(top.pid(), Signal::SIGTSTP));
    assert!(top.reads_lines(), "left raw for the shell");
    kill(top.pid(), Signal::SIGCONT).unwrap();
    top.until_shown("SPEED");
    assert!(!top.reads_lines(), "not raw when it continues");
    // Enter explains, and `q` leads back before it ends.
    top.press("\r");
    top.until_shown("scroll");
    top.press("q");
    top.until_shown("arrival");
    top.press("q");
    assert!(top.running.wait().unwrap().success());
    assert!(top.reads_lines());
}

/// What a command of a user called ana reads, and must not pass on.
const SECRETS: [&str; 6] = [
    "s3cret-argument",
    "s3cret-variable",
    "ana-of-the-home",
    "ana-of-the-rule",
    "s3cret-comment",
    "payroll-group",
];

#[test]
fn a_gathered_report_has_what_is_needed_and_no_secret() {
    let stage = Stage::new(|request| {
        let mut status = samples::status();
        let mut history = samples::history();
        status.apps[0].command = "./md --key s3cret-argument".into();
        status.apps[1].sentence = "moved by ana-of-the-home".into();
        history.ended[0].command = "./fit --key s3cret-argument".into();
        match request {
            Request::Status => Answer::Reply(Reply::Status(Box::new(status))),
            Request::Explain(_) => Answer::Reply(Reply::Explain(Box::new(samples::explain()))),
            _ => Answer::Reply(Reply::History(history)),
        }
    });
    let place = stage.folder.path();
    for (path, text) in [
        (
            "config/mapper/mapper.toml",
            "# s3cret-comment\nreserve = \"\"\n[[access]]\nusers = [\"ana-of-the-rule\"]\n\
             groups = [\"payroll-group\"]\n",
        ),
        (
            "state/mapper/mapperd.log",
            "INFO not adopted for ana-of-the-rule: /home/ana-of-the-home/bin\n",
        ),
    ] {
        let path = place.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let report = place.join("report.tar.gz");
    let mut command = stage.command(&["gather", "--out", report.to_str().unwrap()]);
    command
        .env("XDG_CONFIG_HOME", place.join("config"))
        .env("XDG_STATE_HOME", place.join("state"))
        .env("USER", "ana-of-the-home")
        .env("API_KEY", "s3cret-variable");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("report.tar.gz"), "{printed}");

    let unpacked = place.join("unpacked");
    std::fs::create_dir(&unpacked).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&report).arg("-C").arg(&unpacked);
    assert!(tar.status().unwrap().success());
    let folder = std::fs::read_dir(&unpacked).unwrap().next().unwrap();
    let mut all = String::new();
    for entry in std::fs::read_dir(folder.unwrap().path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name == "README.txt" || printed.contains(&name), "{name}");
        all += &format!("{name}\n{}", std::fs::read_to_string(path).unwrap());
    }
    for needed in [
        "\"allocation\": \"mapper\"",
        "explain-3.json",
        "\"achieved\": 0.71",
        "log.txt\nINFO not adopted for user",
        "reserve = \"\"",
        "daemon 0.1.0",
        "\"condition\"",
        "topology.json",
    ] {
        assert!(all.contains(needed), "{needed}: {all}");
    }
    for secret in SECRETS {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    // A report that is there is kept.
    let again = stage.fails(&["gather", "--out", report.to_str().unwrap()]);
    assert!(again.contains("report.tar.gz"), "{again}");
}

#[test]
fn a_report_can_be_gathered_without_a_daemon() {
    let stage = Stage::without_daemon();
    let report = stage.folder.path().join("report.tar.gz");
    let printed = stage.shows(&["gather", "--out", report.to_str().unwrap()], "80");
    assert!(
        printed.contains("doctor.json") && report.is_file(),
        "{printed}"
    );
}
