//! The shim with what a program may bring: how its threads end, how it makes other processes, what stands before the C
//! library beside the shim. The book has the table (`how/surroundings.md`).

use std::path::Path;

use crate::harness::{COMPILERS, Compiler, Managed, Program, shim};

pub(crate) const MODES: [&str; 3] = ["fixed", "follow", "virtual"];

/// With two CPUs and three threads: under `virtual` one carrier runs two members.
pub(crate) fn in_mode(mode: &str, managed: Managed) -> Managed {
    match mode {
        "fixed" => managed,
        "follow" => managed.following(2),
        _ => managed.virtually(2),
    }
    .threads(3)
}

#[test]
fn a_process_ends_with_the_last_of_the_programs_own_threads() {
    // Of gcc's only: the threads of libomp keep a process alive, with or without mapper.
    let program = Program::with_flags(Compiler::Gcc, "ends.c", &["-fopenmp", "-pthread"]);
    for who in ["t", "m", "a", "tm", "mt", "ma", "tma", "tttt"] {
        let plainly = program.run_plainly(&[who], &[("OMP_NUM_THREADS", "3")]);
        assert_eq!(plainly.output(), "ended\n", "{who}");
        for mode in MODES {
            let mut managed = in_mode(mode, program.managed()).args(&[who]);
            let outcome = managed.run_while(|_| {});
            assert_eq!(outcome.output(), "ended\n", "{mode} {who}");
        }
    }
}

/// Runs `program` with these arguments in every mode, after `prepare`: it must print the same as plainly.
fn is_right_in_every_mode(
    program: &Program,
    arguments: &[&str],
    prepare: impl Fn(Managed) -> Managed,
) {
    for mode in MODES {
        let managed = prepare(in_mode(mode, program.managed()));
        let outcome = managed.args(arguments).run_while(|_| {});
        let path = program.path.display();
        assert!(
            outcome.status.success(),
            "{path} {mode} {arguments:?} {outcome:?}"
        );
        assert_eq!(outcome.stdout, "right\n", "{path} {mode} {arguments:?}");
    }
}

#[test]
fn processes_made_in_every_way_and_at_every_place_run_as_plainly() {
    for compiler in COMPILERS {
        let program = Program::with_flags(compiler, "processes.c", &["-fopenmp", "-pthread"]);
        for how in [
            "fork",
            "exec",
            "exit",
            "vfork",
            "spawn",
            "clone",
            "clone_vm",
            "clone_exec",
            "bare",
            "bare_exec",
        ] {
            for place in ["before", "after", "beside", "within"] {
                // A bare call leaves the C library's locks and threads as they were: beside a thread, a child that calls
                // what waits for one may hang. So it does plainly when it exits after libomp's first region: libomp waits
                // for its threads.
                let hangs_plainly = match place {
                    "beside" => ["bare", "clone"].contains(&how),
                    "after" => how == "bare" && compiler == Compiler::Clang,
                    _ => false,
                };
                if !hangs_plainly {
                    is_right_in_every_mode(&program, &[how, place], |managed| managed);
                }
            }
        }
    }
}

#[test]
fn a_child_made_by_a_bare_fork_while_the_shim_starts_threads_never_hangs() {
    // With libomp the program hangs plainly, too.
    let program = Program::with_flags(Compiler::Gcc, "fork_at_start.c", &["-fopenmp", "-pthread"]);
    is_right_in_every_mode(&program, &[], |managed| managed);
}

#[test]
fn system_calls_that_a_filter_refuses_change_no_result() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "refused.c");
        // After the first region.
        is_right_in_every_mode(&program, &[], |managed| managed);
    }
    // Before the program starts, as by the launcher's parent. Plainly, too, libomp ends a program that may not set its
    // affinity.
    let program = Program::new(Compiler::Gcc, "refused.c");
    let path = program.path.to_str().unwrap();
    is_right_in_every_mode(&program, &[path], |managed| {
        managed
            .env("REFUSED", "1")
            .env("LD_PRELOAD", "")
            .env("THEN_PRELOAD", shim().to_str().unwrap())
    });
}

#[test]
fn preloaded_libraries_beside_the_shim_may_come_before_and_after_it() {
    let shim = shim();
    let shim = shim.to_str().unwrap();
    for compiler in COMPILERS {
        let program = Program::with_flags(compiler, "processes.c", &["-fopenmp", "-pthread"]);
        let library = program.dir.path().join("preloaded.so");
        let library = compiler.compile("preloaded.c", &library, &["-fPIC", "-shared"]);
        let library = library.to_str().unwrap();
        for order in [format!("{shim}:{library}"), format!("{library}:{shim}")] {
            for place in ["after", "beside", "within"] {
                is_right_in_every_mode(&program, &["fork", place], |managed| {
                    managed.env("LD_PRELOAD", &order)
                });
            }
        }
    }
}

#[test]
fn programs_with_sanitizers_run_in_every_mode() {
    let sanitizers = ["address", "undefined", "thread"];
    let cells = sanitizers
        .iter()
        .flat_map(|sanitizer| COMPILERS.map(|compiler| (sanitizer, compiler)));
    for (sanitizer, compiler) in cells {
        let sanitizer = format!("-fsanitize={sanitizer}");
        let flags = ["-fopenmp", "-pthread", sanitizer.as_str()];
        let program = Program::with_flags(compiler, "processes.c", &flags);
        let path = program.path.to_str().unwrap();
        for mode in MODES {
            // Some sanitizers need the addresses that a program has without randomisation.
            let managed = Managed::new(Path::new("/usr/bin/setarch"));
            let outcome = in_mode(mode, managed)
                .env("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0")
                .env("TSAN_OPTIONS", "report_bugs=0")
                .args(&["-R", path, "exec", "after"])
                .run_while(|_| {});
            let cell = format!("{compiler:?} {flags:?} {mode} {outcome:?}");
            assert_eq!(outcome.stdout, "right\n", "{cell}");
        }
    }
}

#[test]
fn a_setuid_program_runs_without_the_shim() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    let program = Program::with_flags(Compiler::Gcc, "processes.c", &["-fopenmp", "-pthread"]);
    // A set-uid program of the same user is started as any other. So root makes one and starts it as another user; who is
    // not root takes one of the system.
    let is_root = rustix::process::getuid().is_root();
    let (path, arguments) = match is_root {
        true => (program.path.as_path(), &["fork", "after"][..]),
        false => (Path::new("/usr/bin/mount"), &["--version"][..]),
    };
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    if is_root {
        mode(program.dir.path(), 0o755);
        mode(&program.path, 0o4755);
    }
    let found = std::fs::metadata(path).unwrap().permissions().mode();
    assert!(found & 0o4000 != 0, "{} is not set-uid", path.display());
    for team_mode in MODES {
        let mut managed = in_mode(team_mode, Managed::new(path)).args(arguments);
        if is_root {
            managed.command.uid(65534);
        }
        let outcome = managed.run_while(|_| {});
        // With `MAPPER_DEBUG` the shim says where it is not to act.
        let said = outcome.output();
        assert!(said == "right\n" || (!is_root && said.starts_with("mount")));
        assert_eq!(
            managed.page.progress().iterations,
            0,
            "the linker ignores the shim"
        );
    }
}
