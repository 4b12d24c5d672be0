//! The runtime interface from one end to the other: an OpenMP program that `mapper-launch` starts
//! with the real preloaded library, under a real daemon, and what `mapperctl explain` says of it.
//!
//! The program runs a region for each line it is sent, so that a test decides when its regions are.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use private_daemon::launcher::{Launched, Made};
use private_daemon::{Daemon, eventually};
use std::process::Command;

/// A program under test, by how it is made and started.
#[derive(Clone, Copy)]
struct Case {
    compiler: &'static str,
    /// Further arguments of the compiler.
    made: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

/// A program of gcc's with nothing besides its regions.
const PLAIN: Case = Case {
    compiler: "gcc",
    made: &[],
    environment: &[],
};

/// Four threads on one CPU, so that real teams and virtual ones can be distinguished.
const VIRTUAL: &[&str] = &["--teams", "virtual", "--threads", "4", "--max-cpus", "1"];

/// What one region was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Region {
    team: u32,
    /// Threads of the kernel's that its members ran on.
    threads: u32,
}

fn start<'a>(daemon: &'a Daemon, case: Case, flags: &[&str]) -> Launched<'a> {
    let mut compiler = Command::new(case.compiler);
    compiler.args(["-fopenmp", "-pthread"]).args(case.made);
    let made = Made::by(&mut compiler, "regions.c");
    Launched::new(daemon, made, flags, case.environment)
}

/// Has it run a region.
fn region(program: &mut Launched<'_>) -> Region {
    let line = program.ask("");
    let mut numbers = line
        .split_whitespace()
        .map(|number| number.parse().unwrap());
    match (numbers.next(), numbers.next()) {
        (Some(team), Some(threads)) => Region { team, threads },
        _ => panic!("it said {line:?} of a region"),
    }
}

/// Runs two regions of the program, since the first is left as it is in all modes; returns the second and what
/// is explained then.
fn explained(daemon: &Daemon, case: Case, flags: &[&str]) -> (Region, String) {
    let mut program = start(daemon, case, flags);
    region(&mut program);
    let region = region(&mut program);
    let text = program.explained();
    let status = program.finish();
    assert!(status.success(), "{:?}: {status}", case.made);
    (region, text)
}

#[test]
fn a_virtual_team_keeps_its_size_on_a_single_thread_of_the_kernels() {
    let daemon = Daemon::start();
    let mut program = start(&daemon, PLAIN, VIRTUAL);
    let mut regions = 0;
    // On a busy machine a member may be helped by a thread of its own: it seems to wait by hand.
    eventually("all members of a team share a thread", || {
        regions += 1;
        let region = region(&mut program);
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
        (made(&["-DDOACROSS"]), "it has doacross loops"),
        (made(&["-DDETACHED"]), "it has detached tasks"),
        (made(&["-DTASK_REDUCTION"]), "it has reductions over tasks"),
        (made(&["-DCANCELLATION"]), "it cancels constructs"),
        (made(&["-DOFFLOADING"]), "it has teams or target regions"),
        (made(&["-DTHREAD_BOUND"]), "it uses robust"),
        (
            made(&["-DKERNEL_STATE"]),
            "its threads change kernel settings of their own",
        ),
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
    let mut program = start(&daemon, case, VIRTUAL);
    let mut text = String::new();
    eventually("it is sent back to real teams", || {
        assert_eq!(region(&mut program).team, 4);
        text = program.explained();
        text.contains("teams are not virtual any more")
    });
    assert!(text.contains("regions preempted: "), "{text}");
    assert_eq!(
        region(&mut program),
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
        let mut program = start(&daemon, case, &["--teams", "follow"]);
        assert_eq!(
            region(&mut program),
            Region {
                team: all,
                threads: all
            }
        );
        let other = private_daemon::launch(&daemon, "other");
        eventually("its teams have shrunk", || region(&mut program).team < all);
        drop(other);
        eventually("its teams have grown again", || {
            region(&mut program).team == all
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
fn a_clang_program_with_virtual_teams_is_informed_that_teams_are_fixed() {
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
