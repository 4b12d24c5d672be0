//! The program gets descriptors, signals, words and environment as the launcher got them.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

mod support;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{LAUNCHER, Stage, ending, eventually, probe, run};

/// The command with and without the launcher.
fn both(stage: &Stage, command: &[&str]) -> [Command; 2] {
    let mut direct = stage.bare(command[0]);
    direct.args(&command[1..]);
    [direct, stage.launch(&[], command)]
}

fn signal_state(output: &str) -> Vec<&str> {
    output
        .lines()
        .filter(|line| line.starts_with("Sig") && !line.starts_with("SigQ"))
        .collect()
}

#[test]
fn dispositions_and_mask_are_the_callers() {
    let stage = Stage::new();
    for ignored in [0, libc::SIGPIPE, libc::SIGHUP, libc::SIGINT, libc::SIGCHLD] {
        let states = both(&stage, &["cat", "/proc/self/status"]).map(|mut command| {
            // SAFETY: only async-signal-safe calls.
            unsafe {
                command.pre_exec(move || {
                    let mut blocked = std::mem::zeroed();
                    libc::sigemptyset(&raw mut blocked);
                    libc::sigaddset(&raw mut blocked, libc::SIGUSR2);
                    libc::sigprocmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut());
                    if ignored != 0 {
                        libc::signal(ignored, libc::SIG_IGN);
                    }
                    Ok(())
                });
            }
            run(&mut command).stdout
        });
        let [direct, launched] = states.each_ref().map(|text| signal_state(text));
        assert_eq!(direct.len(), 4);
        assert_eq!(launched, direct, "ignored: {ignored}");
    }
}

#[test]
fn sigpipe_ends_the_program_as_it_does_without_the_launcher() {
    let stage = Stage::new();
    let mut launch = stage.launch(&[], &["yes"]);
    let mut running = launch.stdout(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 10];
    running
        .stdout
        .take()
        .unwrap()
        .read_exact(&mut some)
        .unwrap();
    assert_eq!(ending(running.wait().unwrap()), "exit 141");
}

#[test]
fn descriptors_are_the_callers_and_no_other() {
    let stage = Stage::new();
    let file = tempfile::tempfile().unwrap();
    let number = file.as_raw_fd();
    const HIGH: i32 = 97;
    // Closed ones stay closed, open ones open.
    for closed in [None, Some(0), Some(1), Some(2)] {
        let list = ["sh", "-c", "ls -l /proc/$$/fd >$OUT"];
        let lists = both(&stage, &list).map(|mut command| {
            let out = stage.folder.path().join("out");
            command
                .env("OUT", &out)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            // SAFETY: only async-signal-safe calls.
            unsafe {
                command.pre_exec(move || {
                    // A number that the file does not have: such a copy would be closed at exec.
                    libc::dup2(number, HIGH);
                    if let Some(closed) = closed {
                        libc::close(closed);
                    }
                    Ok(())
                });
            }
            assert_eq!(ending(command.status().unwrap()), "exit 0");
            let list = std::fs::read_to_string(out).unwrap();
            let open: Vec<String> = list
                .lines()
                .filter_map(|line| {
                    Some(
                        line.split_once(" -> ")?.0.rsplit_once(' ')?.1.to_owned()
                            + line.split_once(" -> ")?.1,
                    )
                })
                .collect();
            open
        });
        assert!(
            lists[0]
                .iter()
                .any(|entry| entry.starts_with(&HIGH.to_string())),
            "{lists:?}"
        );
        assert_eq!(lists[0], lists[1], "closed: {closed:?}");
    }
}

#[test]
fn a_pipe_the_program_closes_is_closed() {
    let stage = Stage::new();
    let mut launch = stage.launch(&[], &["sh", "-c", "exec >&- 2>&-; read wait"]);
    let mut running = launch
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Would not return if the launcher kept the pipes open.
    let mut text = String::new();
    running
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    running
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "");
    running.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    assert_eq!(ending(running.wait().unwrap()), "exit 0");
}

#[test]
fn words_and_standard_streams_pass_through() {
    let stage = Stage::new();
    let odd = OsStr::from_bytes(b"caf\xe9 \n\"'$x");
    let mut launch = stage.launch(
        &[],
        &["sh", "-c", r#"cat; printf '%s|' "$0" "$@" >&2; exit 4"#],
    );
    launch.args(["--qos", "", "--"]).arg(odd);
    let mut running = launch
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    running.stdin.take().unwrap().write_all(b"in\0put").unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"in\0put");
    assert_eq!(
        output.stderr,
        [b"--qos||--|", odd.as_bytes(), b"|"].concat()
    );
    assert_eq!(ending(output.status), "exit 4");
}

fn environment(command: &mut Command) -> BTreeMap<String, String> {
    let outcome = run(command);
    assert_eq!(outcome.stderr, "");
    let entry = |line: &str| {
        let (name, value) = line.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    outcome.stdout.lines().map(entry).collect()
}

#[test]
fn the_environment_gains_what_openmp_and_the_shim_need() {
    let stage = Stage::new();
    let mut launch = stage.launch(&["--teams", "follow", "--max-cpus", "3"], &["env"]);
    let found = environment(launch.env("LD_PRELOAD", "libm.so.6"));
    let plain = environment(stage.bare("env").env("LD_PRELOAD", "libm.so.6"));
    let shim = support::shim().to_str().unwrap();
    assert_eq!(found["OMP_NUM_THREADS"], "3");
    let turns: u32 = found["GOMP_SPINCOUNT"].parse().unwrap();
    assert!((200..=3_000).contains(&turns), "{turns}");
    assert_eq!(found["MAPPER_SPIN_TURNS"], found["GOMP_SPINCOUNT"]);
    assert_eq!(found["LD_PRELOAD"], format!("{shim}:libm.so.6"));
    assert_eq!(found["MAPPER_TOKEN"], "00c0ffee00c0ffee");
    assert_eq!(found["MAPPER_TEAMS"], "follow");
    let socket = stage.socket();
    assert_eq!(Path::new(&found["MAPPER_SOCKET"]), socket);
    assert_eq!(found["OMP_TOOL_LIBRARIES"], shim);
    assert_eq!(found["ASAN_OPTIONS"], "verify_asan_link_order=0");
    let ours = |name: &String| {
        [
            "OMP_NUM_THREADS",
            "GOMP_SPINCOUNT",
            "MAPPER_SPIN_TURNS",
            "KMP_BLOCKTIME",
            "KMP_AFFINITY",
            "LD_PRELOAD",
            "OMP_TOOL_LIBRARIES",
            "ASAN_OPTIONS",
            "MAPPER_PAGE",
            "MAPPER_SOCKET",
            "MAPPER_TOKEN",
            "MAPPER_TEAMS",
        ]
        .contains(&name.as_str())
    };
    let rest = |mut all: BTreeMap<_, _>| {
        all.retain(|name, _| !ours(name));
        all
    };
    assert_eq!(rest(found), rest(plain));
}

#[test]
fn teams_of_fixed_size_have_that_of_the_allocation_unless_the_user_says_otherwise() {
    let stage = Stage::new();
    for (flags, users, threads) in [
        (&[][..], None, "2"),
        (&["--threads", "all"], None, "4"),
        (&["--threads", "9"], None, "9"),
        (&[], Some("5"), "5"),
        (&["--threads", "alloc"], Some("5"), "2"),
        (&["--no-runtime"], None, "2"),
    ] {
        let mut launch = stage.launch(flags, &["env"]);
        if let Some(users) = users {
            launch.env("OMP_NUM_THREADS", users);
        }
        assert_eq!(
            environment(&mut launch)["OMP_NUM_THREADS"],
            threads,
            "{flags:?} {users:?}"
        );
    }
}

#[test]
fn the_program_finds_its_page_even_if_it_closed_everything() {
    let stage = Stage::new();
    let reads = r#"exec 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-; test "$(cat "$MAPPER_PAGE")" = "$MAPPER_TOKEN""#;
    assert_eq!(
        ending(run(&mut stage.launch(&[], &["sh", "-c", reads])).status),
        "exit 0"
    );
}

#[test]
fn without_the_runtime_interface_there_is_neither_page_nor_shim() {
    let stage = Stage::new();
    let found = environment(&mut stage.launch(&["--no-runtime"], &["env"]));
    for name in [
        "LD_PRELOAD",
        "OMP_TOOL_LIBRARIES",
        "ASAN_OPTIONS",
        "MAPPER_PAGE",
        "MAPPER_TOKEN",
        "MAPPER_TEAMS",
    ] {
        assert!(!found.contains_key(name), "{name}");
    }
}

#[test]
fn a_missing_shim_is_warned_of_and_the_program_runs() {
    let stage = Stage::new();
    let mut launch = stage.launch(&["--shim", "/no/shim.so"], &["env"]);
    let outcome = run(&mut launch);
    assert_eq!(ending(outcome.status), "exit 0");
    assert_eq!(
        outcome.stderr,
        "mapper-launch: warning: shim /no/shim.so: no such file; running without the runtime interface\n"
    );
    assert!(!outcome.stdout.contains("LD_PRELOAD"));
}

#[test]
fn the_shim_is_loaded_into_ordinary_programs() {
    let stage = Stage::new();
    let outcome = run(stage.launch(&[], &["true"]).env("SHIM_TELLS", "1"));
    assert_eq!(outcome.stderr, "shim loaded\n");
}

#[test]
fn a_set_uid_program_runs_without_the_shim_and_without_noise() {
    let stage = Stage::new();
    let mount = ["/bin/mount", "/usr/bin/mount"].into_iter().find(|path| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o4000 != 0)
    });
    let mount = mount.expect("mount is a set-uid program on every Debian");
    for teams in ["fixed", "follow", "virtual"] {
        let mut launch = stage.launch(&["--teams", teams], &[mount, "--version"]);
        // A set-uid program changes nothing for its owner, so root runs this as another user, who may not be
        // allowed where the programs were built.
        if rustix::process::geteuid().is_root() {
            let copies = [Path::new(LAUNCHER), support::shim()].map(|built| {
                let copy = stage.folder.path().join(built.file_name().unwrap());
                std::fs::copy(built, &copy).unwrap();
                copy
            });
            // Until a child that another test forked meanwhile executes its program, it has the copy open for writing.
            let mut version = Command::new(&copies[0]);
            version.arg("--version");
            eventually("the copy can be executed", || version.output().is_ok());
            launch = stage.bare(copies[0].to_str().unwrap());
            launch
                .args(["--teams", teams, "--", mount, "--version"])
                .env("MAPPER_SHIM", &copies[1]);
            open_to_others(stage.folder.path());
            open_to_others(&stage.socket());
            launch.uid(65534).gid(65534);
        }
        launch.env("SHIM_TELLS", "1");
        let outcome = run(&mut launch);
        assert_eq!(outcome.stderr, "");
        assert!(outcome.stdout.contains("mount"), "{}", outcome.stdout);
        assert_eq!(ending(outcome.status), "exit 0");
    }
}

fn open_to_others(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn the_process_group_and_session_are_the_callers() {
    let stage = Stage::new();
    let groups = "cut -d' ' -f5,6 /proc/$$/stat";
    let [direct, launched] =
        both(&stage, &["sh", "-c", groups]).map(|mut command| run(&mut command).stdout);
    assert_eq!(launched, direct);
}

#[test]
fn the_launchers_helper_is_not_mistaken_for_it() {
    let stage = Stage::new();
    let mut running = support::Running::start(&mut stage.launch(&[], &[probe(), "signals"]));
    let program = running.ready();
    let launcher = running.pid();
    support::eventually("the witness is there", || {
        support::children(launcher).len() == 2
    });
    let witness = support::witness(launcher, program).unwrap();
    support::eventually("it has its name", || {
        let name = std::fs::read_to_string(format!("/proc/{witness}/comm")).unwrap_or_default();
        name == "group-witness\n"
    });
    // Which comes before its command line.
    support::eventually("its command line tells it too", || {
        let line = std::fs::read(format!("/proc/{witness}/cmdline")).unwrap();
        !String::from_utf8_lossy(&line).contains("mapper-launch")
    });
    // It holds nothing of the caller's.
    let held = std::fs::read_dir(format!("/proc/{witness}/fd")).unwrap();
    let held: Vec<_> = held
        .map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap())
        .filter(|target| !target.starts_with("/dev/null"))
        .collect();
    assert_eq!(held.len(), 1, "{held:?}");
    assert_eq!(LAUNCHER.rsplit('/').next(), Some("mapper-launch"));
    drop(running);
    support::eventually("it goes with the launcher", || support::has_ended(witness));
}
