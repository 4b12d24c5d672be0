//! The runtime interface from one end to the other: an OpenMP program that `mapper-launch` starts
//! with the real preloaded library, under a real daemon, and what `mapperctl explain` says of it.
//!
//! The program runs a region for each line it is sent, so that a test decides when its regions are.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use private_daemon::{Daemon, eventually};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;

/// The folder of the daemon's binary, with launcher, control program and preloaded library in it.
/// Cargo makes only this package's own programs by itself.
fn built() -> &'static Path {
    static BUILT: OnceLock<&'static Path> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_mapperd")).parent().unwrap();
        let profile = match folder.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        let status = Command::new(env!("CARGO"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["build", "--quiet", "--locked", "--profile", profile])
            .args(["-p", "mapper-launch", "-p", "mapperctl"])
            .args(["-p", "mapper-omp-shim"])
            .status()
            .unwrap();
        assert!(status.success(), "cargo build: {status}");
        folder
    })
}

/// A command without the OpenMP settings of whoever runs the tests.
fn clean(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let meddles = ["OMP_", "GOMP_", "KMP_", "MAPPER_", "LD_"];
        if meddles.iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
    command
}

/// A program under test, by how it is made and started.
#[derive(Clone, Copy)]
struct Case {
    compiler: &'static str,
    /// Further arguments of the compiler.
    made: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// Further arguments of the launcher.
    launched: &'static [&'static str],
}

/// A program of gcc's with nothing besides its regions.
const PLAIN: Case = Case {
    compiler: "gcc",
    made: &[],
    environment: &[],
    launched: &[],
};

/// Four threads on one CPU, so that real teams and virtual ones can be told apart.
const VIRTUAL: &[&str] = &["--teams", "virtual", "--threads", "4", "--max-cpus", "1"];

/// A program that was launched and waits for a line.
struct Launched<'a> {
    daemon: &'a Daemon,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    _folder: tempfile::TempDir,
}

/// What one region was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Region {
    team: u32,
    /// Threads of the kernel's that its members ran on.
    threads: u32,
}

impl<'a> Launched<'a> {
    fn new(daemon: &'a Daemon, case: Case, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program: PathBuf = folder.path().join("regions");
        let made = Command::new(case.compiler)
            .args(["-O1", "-Wall", "-Werror", "-fopenmp", "-pthread", "-o"])
            .arg(&program)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/regions.c"))
            .args(case.made)
            .status()
            .unwrap_or_else(|error| panic!("run {}: {error}; is it installed?", case.compiler));
        assert!(made.success(), "{} {:?}", case.compiler, case.made);
        let mut child = clean(built().join("mapper-launch"))
            .arg("--socket")
            .arg(daemon.socket())
            .arg("--shim")
            .arg(built().join("libmapper_omp.so"))
            .args(["--name", "regions"])
            .args(flags)
            .args(case.launched)
            .arg("--")
            .arg(&program)
            .envs(case.environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            daemon,
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            _folder: folder,
        }
    }

    /// Has it run a region.
    fn region(&mut self) -> Region {
        self.input.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let mut numbers = line
            .split_whitespace()
            .map(|number| number.parse().unwrap());
        match (numbers.next(), numbers.next()) {
            (Some(team), Some(threads)) => Region { team, threads },
            _ => panic!("it said {line:?} of a region"),
        }
    }

    /// What `mapperctl explain` prints, on one line.
    fn explained(&self) -> String {
        let output = clean(built().join("mapperctl"))
            .args(["explain", "regions", "--socket"])
            .arg(self.daemon.socket())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Lets it come to its end, and waits until the daemon has noticed.
    fn finish(mut self) -> ExitStatus {
        drop(self.input.take());
        let status = self.child.wait().unwrap();
        let daemon = self.daemon;
        eventually("the program is gone", || daemon.status().apps.is_empty());
        status
    }
}

impl Drop for Launched<'_> {
    fn drop(&mut self) {
        // The program's input ends with this, and it with that.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Runs two regions of the program, since the first is left as it is in all modes; returns the second and what
/// is explained then.
fn explained(daemon: &Daemon, case: Case, flags: &[&str]) -> (Region, String) {
    let mut program = Launched::new(daemon, case, flags);
    program.region();
    let region = program.region();
    let text = program.explained();
    let status = program.finish();
    assert!(status.success(), "{:?}: {status}", case.made);
    (region, text)
}

#[test]
fn a_virtual_team_keeps_its_size_on_a_single_thread_of_the_kernels() {
    let daemon = Daemon::start();
    let mut program = Launched::new(&daemon, PLAIN, VIRTUAL);
    let mut regions = 0;
    // On a busy machine a member may be helped by a thread of its own: it seems to wait by hand.
    eventually("all members of a team share a thread", || {
        regions += 1;
        let region = program.region();
        assert_eq!(region.team, 4);
        region.threads == 1
    });
    let text = program.explained();
    let teams = "teams virtual (as asked); runtime interface: libgomp";
    assert!(text.contains(teams), "{text}");
    assert!(!text.contains("not virtual"), "{text}");
    assert!(program.finish().success());
}

#[test]
fn what_virtual_teams_cannot_serve_has_real_ones_and_is_explained() {
    const fn made(made: &'static [&'static str]) -> Case {
        Case { made, ..PLAIN }
    }
    const fn within(environment: &'static [(&'static str, &'static str)]) -> Case {
        Case {
            environment,
            ..PLAIN
        }
    }
    let sanitized = Case {
        made: &["-fsanitize=address"],
        // It wants to be loaded before all other libraries.
        environment: &[("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0")],
        ..PLAIN
    };
    let daemon = Daemon::start();
    let cases = [
        (made(&["-DORDERED"]), "it has ordered or doacross loops"),
        (made(&["-DTASKS"]), "it has tasks"),
        (made(&["-DTASK_REDUCTION"]), "it has reductions over tasks"),
        (made(&["-DCANCELLATION"]), "it cancels constructs"),
        (made(&["-DOFFLOADING"]), "it has teams or target regions"),
        (made(&["-DTHREAD_BOUND"]), "it uses robust"),
        (made(&["-DUNSERVED"]), "it calls functions of libgomp"),
        (sanitized, "it was compiled with a sanitizer"),
        (within(&[("OMP_PROC_BIND", "true")]), "OMP_PROC_BIND"),
        (within(&[("OMP_NUM_THREADS", "4,2")]), "OMP_NUM_THREADS"),
        (within(&[("OMP_DYNAMIC", "true")]), "OMP_DYNAMIC"),
        (within(&[("OMP_THREAD_LIMIT", "3")]), "they have more than"),
    ];
    for (case, why) in cases {
        let mut flags = VIRTUAL.to_vec();
        // Where the environment gives sizes, those count that it gives.
        if case
            .environment
            .iter()
            .any(|(name, _)| *name == "OMP_NUM_THREADS")
        {
            flags.retain(|flag| !["--threads", "4"].contains(flag));
        }
        let (region, text) = explained(&daemon, case, &flags);
        assert_eq!(region.threads, region.team, "{why}");
        assert!(
            text.contains(&format!("not virtual: {why}")),
            "{why}: {text}"
        );
    }
}

#[test]
fn threads_that_wait_for_one_another_by_hand_have_real_teams_in_the_end_and_it_is_explained() {
    let daemon = Daemon::start();
    let case = Case {
        made: &["-DSPINS"],
        ..PLAIN
    };
    let mut program = Launched::new(&daemon, case, VIRTUAL);
    let mut text = String::new();
    eventually("it is sent back to real teams", || {
        assert_eq!(program.region().team, 4);
        text = program.explained();
        text.contains("teams are not virtual any more")
    });
    assert!(text.contains("regions preempted: "), "{text}");
    assert_eq!(
        program.region(),
        Region {
            team: 4,
            threads: 4
        }
    );
    assert!(program.finish().success());
}

#[test]
fn teams_follow_the_cpus_that_the_daemon_gives_and_takes() {
    let daemon = Daemon::start();
    let all = private_daemon::all_cpus().len();
    assert!(all > 1, "a machine with one CPU has none to move");
    for compiler in ["gcc", "clang"] {
        let case = Case { compiler, ..PLAIN };
        let mut program = Launched::new(&daemon, case, &["--teams", "follow"]);
        assert_eq!(
            program.region(),
            Region {
                team: all,
                threads: all
            }
        );
        let other = private_daemon::launch(&daemon, "other");
        eventually("its teams have shrunk", || program.region().team < all);
        drop(other);
        eventually("its teams have grown again", || {
            program.region().team == all
        });
        let text = program.explained();
        assert!(!text.contains("do not follow"), "{compiler}: {text}");
        assert!(program.finish().success());
    }
}

#[test]
fn a_program_that_sizes_its_teams_itself_is_left_to_it_and_it_is_explained() {
    let daemon = Daemon::start();
    for (made, size, why) in [
        (&["-DSET_NUM_THREADS"], 3, "it calls omp_set_num_threads"),
        (
            &["-DCLAUSE"],
            3,
            "it gives its regions a num_threads clause",
        ),
        (&["-DSET_DYNAMIC"], 4, "it calls omp_set_dynamic(0)"),
    ] {
        let case = Case { made, ..PLAIN };
        let flags = ["--teams", "follow", "--threads", "4", "--max-cpus", "1"];
        let (region, text) = explained(&daemon, case, &flags);
        assert_eq!(region.team, size, "{why}");
        assert!(
            text.contains(&format!("teams do not follow: {why}")),
            "{why}: {text}"
        );
    }
}

#[test]
fn a_program_of_clangs_that_asks_for_virtual_teams_is_told_that_it_has_fixed_ones() {
    let daemon = Daemon::start();
    let case = Case {
        compiler: "clang",
        ..PLAIN
    };
    let (region, text) = explained(&daemon, case, VIRTUAL);
    assert_eq!(
        region,
        Region {
            team: 4,
            threads: 4
        }
    );
    assert!(text.contains("teams fixed"), "{text}");
    assert!(text.contains("libomp, whose teams"), "{text}");
}
