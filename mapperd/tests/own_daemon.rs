//! A launcher where no daemon serves the user starts one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use mapper_control::Client;
use nix::unistd::{getpgid, getsid};
use private_daemon::{eventually, launcher::built, text};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A user without a daemon; one that was started is ended with this.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("mapper/mapper.sock")
    }

    fn log(&self) -> String {
        text(&self.0.path().join("state/mapper/mapperd.log"))
    }

    /// A launch by this user, on a machine whose own daemon, if it has one, does not count.
    fn launch(&self, words: &[&str]) -> Command {
        self.command("mapper-launch", words)
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = self.any(&built().join(program));
        command.args(words);
        command
    }

    /// A program in this user's environment.
    fn any(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("XDG_RUNTIME_DIR", self.0.path());
        command.env("XDG_STATE_HOME", self.0.path().join("state"));
        command.env("XDG_CONFIG_HOME", self.0.path().join("config"));
        command.env("MAPPER_SOCKET", self.socket());
        command.env_remove("MAPPER_NO_START");
        command
    }

    /// Daemon and process of the application "job", once that runs: before, its launch fails with the daemon.
    fn job(&self) -> Option<(u32, u32)> {
        let mut client = Client::connect(&self.socket(), Duration::from_secs(10)).ok()?;
        let status = client.status().ok()?;
        let app = status.apps.iter().find(|app| app.name.as_str() == "job")?;
        let program = fs::read_to_string(format!("/proc/{}/comm", app.pid)).ok()?;
        (program == "sleep\n").then_some((status.daemon.pid, app.pid))
    }

    fn daemon(&self) -> Option<Pid> {
        let mut client = Client::connect(&self.socket(), Duration::from_secs(10)).ok()?;
        let pid = client.status().ok()?.daemon.pid;
        Pid::from_raw(i32::try_from(pid).unwrap())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(pid) = self.daemon() {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn twenty_launches_at_once_start_one_daemon_which_manages_all() {
    let home = Home::new();
    let start = || {
        let mut launch = home.launch(&["--report", "--", "sh", "-c", "sleep 1; exit 3"]);
        launch.stdout(Stdio::piped()).stderr(Stdio::piped());
        launch.spawn().unwrap()
    };
    let running: Vec<_> = (0..20).map(|_| start()).collect();
    for launched in running {
        let output = launched.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        assert!(said(&output).contains("CPU-seconds"), "{}", said(&output));
    }
    let log = home.log();
    assert_eq!(log.matches("ready").count(), 1, "{log}");
    assert!(!log.contains("already running"), "{log}");
}

#[test]
fn a_daemon_that_was_started_depends_on_nothing_of_the_launcher() {
    let home = Home::new();
    let (read, write) = std::io::pipe().unwrap();
    // For every program that is started from here on.
    rustix::io::fcntl_setfd(&write, rustix::io::FdFlags::empty()).unwrap();
    // It would wait if the daemon had the launcher's output.
    let output = home.launch(&["--", "true"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(said(&output), "", "nothing is said but to a terminal");
    let daemon = home.daemon().unwrap();
    // By `nix`: these may be 0, where the test runs in a container.
    let pid = nix::unistd::Pid::from_raw(daemon.as_raw_nonzero().get());
    assert_ne!(getsid(Some(pid)).unwrap(), getsid(None).unwrap());
    assert_ne!(getpgid(Some(pid)).unwrap(), getpgid(None).unwrap());
    let proc = Path::new("/proc").join(daemon.as_raw_nonzero().to_string());
    assert_eq!(fs::read_link(proc.join("cwd")).unwrap(), Path::new("/"));
    // Nobody has the other end of the pipe.
    drop(write);
    assert_eq!(std::io::read_to_string(read).unwrap(), "");

    // The next launch is served by the same daemon.
    assert!(home.launch(&["--", "true"]).status().unwrap().success());
    assert_eq!(home.daemon(), Some(daemon));
    // And after a crash by another.
    kill_process(daemon, Signal::KILL).unwrap();
    // A connection that it does not answer any more would be a failed launch.
    eventually("it is gone", || {
        std::os::unix::net::UnixStream::connect(home.socket()).is_err()
    });
    assert!(home.launch(&["--", "true"]).status().unwrap().success());
    assert!(home.daemon().is_some_and(|next| next != daemon));
}

#[test]
fn no_daemon_is_started_for_who_does_not_want_one_or_names_a_socket() {
    let home = Home::new();
    let other = home.0.path().join("other.sock");
    let mut forbidden = home.launch(&["--", "true"]);
    forbidden.env("MAPPER_NO_START", "1");
    let other = other.to_str().unwrap();
    for mut launch in [
        forbidden,
        home.launch(&["--no-start", "--", "true"]),
        home.launch(&["--socket", other, "--", "true"]),
    ] {
        let output = launch.output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert!(
            said(&output).contains("no daemon there"),
            "{}",
            said(&output)
        );
    }
    assert!(!home.0.path().join("mapper").exists());
}

#[test]
fn why_a_daemon_could_not_be_started_is_said_and_with_fallback_the_program_runs() {
    let home = Home::new();
    let config = home.0.path().join("config/mapper");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("mapper.toml"), "intervall = \"1s\"\n").unwrap();
    let output = home.launch(&["--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let why = said(&output);
    assert!(
        why.contains("intervall") && why.contains("mapperd.log"),
        "{why}"
    );
    let output = home.launch(&["--fallback", "--", "sh", "-c", "exit 4"]);
    let output = { output }.output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(
        said(&output).contains("running unmanaged"),
        "{}",
        said(&output)
    );

    let home = Home::new();
    fs::write(home.0.path().join("mapper"), "in the way").unwrap();
    let output = home.launch(&["--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let why = said(&output);
    assert!(why.contains("not a directory of yours"), "{why}");
}

#[test]
fn a_user_starts_and_stops_the_own_daemon_and_programs_continue() {
    let home = Home::new();
    let said = |words: &[&str]| {
        let output = home.command("mapper", words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(said(&["stop"]).starts_with("No daemon of yours runs at "));
    assert!(said(&["start"]).starts_with("Started a daemon"));
    let daemon = home.daemon().unwrap();
    let number = daemon.as_raw_nonzero().to_string();
    assert!(said(&["start"]).contains(&format!("runs already, as process {number},")));

    let mut program = home.command("mapper", &["run", "--", "sleep", "1000"]);
    let mut program = program.spawn().unwrap();
    eventually("it is managed", || said(&["status"]).contains("sleep"));
    let stopped = said(&["stop"]);
    assert_eq!(
        stopped,
        "Stopped the daemon; 1 program continues, with all CPUs.\n"
    );
    assert_eq!(home.daemon(), None);
    assert!(
        program.try_wait().unwrap().is_none(),
        "the program continues"
    );
    // Longer than a launcher waits before it starts a daemon in the place of one that was killed.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(home.daemon(), None, "stopped is stopped");
    kill_process(Pid::from_child(&program), Signal::TERM).unwrap();
    program.wait().unwrap();
}

#[test]
fn a_program_whose_daemon_was_killed_is_managed_by_the_next_which_its_launcher_starts() {
    let home = Home::new();
    let output = home.0.path().join("nohup.out");
    let file = fs::File::create(&output).unwrap();
    let mut launch = home.launch(&["--name", "job", "--", "sleep", "1000"]);
    let mut launched = launch.stderr(file).spawn().unwrap();
    let managed = || home.job();
    eventually("it is managed", || managed().is_some());
    for round in 1..=2 {
        let (before, program) = managed().unwrap();
        let pid = Pid::from_raw(before.cast_signed()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        eventually("another daemon manages it", || {
            managed().is_some_and(|(daemon, again)| daemon != before && again == program)
        });
        let said = "mapper-launch: job: the daemon went away; the next one manages it again\n";
        eventually("it is said", || text(&output) == said.repeat(round));
    }
    kill_process(Pid::from_child(&launched), Signal::TERM).unwrap();
    launched.wait().unwrap();
}

#[test]
fn a_launcher_that_may_start_no_daemon_says_that_it_is_gone_and_waits_for_the_next() {
    let home = Home::new();
    let output = home.0.path().join("nohup.out");
    let file = fs::File::create(&output).unwrap();
    assert!(home.launch(&["--", "true"]).status().unwrap().success());
    let mut launch = home.launch(&["--no-start", "--name", "job", "--", "sleep", "1000"]);
    let mut launched = launch.stderr(file).spawn().unwrap();
    let managed = || home.job().is_some();
    eventually("it is managed", managed);
    kill_process(home.daemon().unwrap(), Signal::KILL).unwrap();
    let gone = "mapper-launch: job: the daemon went away; it continues with the CPUs it has\n";
    eventually("it is said", || text(&output) == gone);
    assert_eq!(home.daemon(), None);
    assert!(
        home.command("mapper", &["start"])
            .status()
            .unwrap()
            .success()
    );
    eventually("it is managed again", managed);
    kill_process(Pid::from_child(&launched), Signal::TERM).unwrap();
    launched.wait().unwrap();
}

#[test]
fn what_has_ended_is_remembered_also_by_the_next_daemon() {
    let home = Home::new();
    let asked = |words: &[&str]| {
        let output = home.command("mapper", words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let script = home.0.path().join("fit_a.sh");
    fs::write(&script, "exit 3\n").unwrap();
    let mut launch = home.command("mapper", &["run", "--", "sh"]);
    assert_eq!(launch.arg(&script).status().unwrap().code(), Some(3));
    let says = "with exit status 3";
    eventually("its status is known", || {
        asked(&["explain", "fit_a"]).contains(says)
    });
    asked(&["stop"]);
    asked(&["start"]);
    assert!(asked(&["explain", "fit_a"]).contains(says));
    assert!(asked(&["history"]).contains("fit_a"));
    assert!(asked(&["report", "fit_a"]).starts_with("fit_a: 0.0 s on "));
}

#[test]
fn a_daemon_serves_the_socket_that_a_service_manager_passes_and_leaves_it_there() {
    let home = Home::new();
    fs::create_dir(home.0.path().join("mapper")).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(home.socket()).unwrap();
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=control \
                  exec \"$0\" --user --stop-when-idle 600";
    let mut daemon = home.any(Path::new("sh"));
    daemon.args(["-c", script]).arg(built().join("mapperd"));
    let passed = std::os::fd::OwnedFd::from(listener.try_clone().unwrap());
    let mut daemon = daemon.stdin(passed).spawn().unwrap();
    // Connections made before it is ready wait.
    assert_eq!(home.daemon(), Some(Pid::from_child(&daemon)));
    assert!(home.launch(&["--", "true"]).status().unwrap().success());
    kill_process(Pid::from_child(&daemon), Signal::TERM).unwrap();
    assert!(daemon.wait().unwrap().success());
    assert!(home.socket().exists());
    // The next connection would start the next daemon.
    std::os::unix::net::UnixStream::connect(home.socket()).unwrap();
}

/// The processes whose command lines are meant, with their folders.
fn processes(are_meant: impl Fn(&str) -> bool) -> Vec<(i32, PathBuf)> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let meant = all.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let words = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        are_meant(&words).then(|| (pid, entry.path()))
    });
    meant.collect()
}

/// A program that starts orphans all the time, and its launcher. All of them end with this.
struct Mother {
    launcher: Child,
    /// How long each orphan sleeps: a number that no other process has among its words.
    seconds: String,
}

impl Mother {
    fn launch(home: &Home) -> Self {
        let seconds = format!("4711.{:07}", std::process::id());
        let script = format!("while :; do (setsid sleep {seconds} &); sleep 0.01; done");
        let launcher = home.launch(&["--", "sh", "-c", &script]).spawn().unwrap();
        Self { launcher, seconds }
    }

    /// The parents of the orphans.
    fn parents(&self) -> Vec<i32> {
        let orphan = format!("sleep\0{}\0", self.seconds);
        let parent = |(_, folder): (i32, PathBuf)| {
            let stat = fs::read_to_string(folder.join("stat")).ok()?;
            stat.split(' ').nth(3)?.parse().ok()
        };
        let orphans = processes(|words| words == orphan).into_iter();
        orphans.filter_map(parent).collect()
    }
}

impl Drop for Mother {
    fn drop(&mut self) {
        // The launcher's words have the number, too. What is just being started may have none for a moment.
        let mut looks_in_vain = 0;
        while looks_in_vain < 5 {
            let left = processes(|words| words.contains(&self.seconds));
            looks_in_vain = match left.is_empty() {
                true => looks_in_vain + 1,
                false => 0,
            };
            for (pid, _) in left {
                let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.launcher.wait();
    }
}

#[test]
fn orphans_of_a_program_stay_with_its_launcher_also_while_that_starts_the_next_daemon() {
    let home = Home::new();
    let mother = Mother::launch(&home);
    let launcher = Pid::from_child(&mother.launcher).as_raw_nonzero().get();
    eventually("there are orphans", || !mother.parents().is_empty());
    let before = home.daemon().unwrap();
    kill_process(before, Signal::KILL).unwrap();
    eventually("its launcher starts the next", || {
        home.daemon().is_some_and(|daemon| daemon != before)
    });
    // One that has just been started is its shell's for a moment.
    eventually("all orphans are the launcher's", || {
        mother.parents().iter().all(|parent| *parent == launcher)
    });
}

#[test]
fn it_is_as_urgent_as_the_session_that_started_it() {
    let home = Home::new();
    let output = home.launch(&["--", "true"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let daemon = home.daemon().unwrap().as_raw_nonzero();
    // Empty where the kernel knows no sessions.
    let nice = |process: &str| {
        let group = fs::read_to_string(format!("/proc/{process}/autogroup")).unwrap_or_default();
        let nice = group
            .trim()
            .rsplit_once("nice ")
            .map(|(_, nice)| nice.parse::<i32>());
        nice.transpose().unwrap().unwrap_or_default()
    };
    assert_eq!(nice(&daemon.to_string()), nice("self").min(0));
}
