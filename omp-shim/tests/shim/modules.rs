//! Each call reaches the runtime that the dynamic linker would have chosen.

use std::path::{Path, PathBuf};
use std::process::Command;

use mapper_abi::{Runtimes, TeamMode, TeamsOff};

use crate::harness::{Compiler, Program};

/// What a library's function returns when its calls all reach the same runtime.
const RIGHT: &str = "24500";

/// Compiles `library.c` with the function `name`.
fn library(compiler: Compiler, dir: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let define = format!("-DNAME={name}");
    let mut all = vec!["-fopenmp", "-fPIC", "-shared", define.as_str()];
    all.extend(flags);
    compiler.compile("library.c", &dir.join(format!("lib{name}.so")), &all)
}

/// A copy of libgomp under another name, as Python wheels bring it.
fn renamed_libgomp(dir: &Path) -> PathBuf {
    let output = Command::new("gcc")
        .arg("-print-file-name=libgomp.so.1")
        .output()
        .unwrap();
    let original = String::from_utf8(output.stdout).unwrap();
    let mut image = std::fs::read(original.trim()).unwrap();
    let (old, new) = (b"libgomp.so.1\0", b"libgomq.so.1\0");
    let mut renamed = 0;
    for start in 0..image.len() - old.len() {
        if image[start..].starts_with(old) {
            image[start..start + new.len()].copy_from_slice(new);
            renamed += 1;
        }
    }
    assert!(renamed > 0, "{original} does not hold its own name");
    let copy = dir.join("libgomq.so.1");
    std::fs::write(&copy, image).unwrap();
    copy
}

/// `library.c`, linked with the renamed libgomp, which it finds beside itself.
fn wheel(dir: &Path, name: &str, flags: &[&str]) -> PathBuf {
    wheel_of("library.c", dir, name, flags)
}

/// The same of another source.
pub(crate) fn wheel_of(source: &str, dir: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let define = format!("-DNAME={name}");
    let bundled = renamed_libgomp(dir);
    let object = dir.join(format!("{name}.o"));
    let to_object = ["-fopenmp", "-fPIC", "-c", "-DLIBRARY", &define];
    Compiler::Gcc.compile(source, &object, &to_object);
    let library = dir.join(format!("lib{name}.so"));
    let status = Command::new("gcc")
        .arg("-shared")
        .arg("-o")
        .arg(&library)
        .arg(&object)
        .arg(&bundled)
        .arg("-Wl,-rpath,$ORIGIN")
        .args(flags)
        .status()
        .unwrap();
    assert!(status.success());
    library
}

fn loader() -> Program {
    Program::with_flags(Compiler::Gcc, "loader.c", &[])
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_library_loaded_late_with_local_scope_is_served() {
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        let program = loader();
        let late = library(compiler, program.dir.path(), "late", &[]);
        let load = format!("local:{}:late", text(&late));
        let mut managed = program.managed().args(&[&load, "call:0", "call:0"]);
        assert_eq!(
            managed.run().output(),
            format!("{RIGHT}\n{RIGHT}\n"),
            "{compiler:?}"
        );
        let progress = managed.page.progress();
        assert_eq!(
            (progress.regions, progress.iterations),
            (20, 1000),
            "{compiler:?}"
        );
    }
}

#[test]
fn a_wheel_with_a_runtime_of_its_own_is_served_by_it() {
    let program = loader();
    let wheel = wheel(program.dir.path(), "wheel", &[]);
    let load = format!("local:{}:wheel", text(&wheel));
    let mut managed = program.managed().args(&[&load, "call:0"]);
    assert_eq!(managed.run().output(), format!("{RIGHT}\n"));
    assert_eq!(managed.page.progress().regions, 10);
}

#[test]
fn critical_sections_of_two_runtimes_do_not_exclude_each_other() {
    let program = Program::with_flags(Compiler::Gcc, "critical_within.c", &[]);
    let dir = program.dir.path();
    let flags = ["-fopenmp", "-fPIC", "-shared", "-DOUTER"];
    let outer = Compiler::Gcc.compile("critical_within.c", &dir.join("libouter.so"), &flags);
    let inner = wheel_of("critical_within.c", dir, "inner", &[]);
    let libraries = [text(&outer), text(&inner)];
    let plain = program.run_plainly(&libraries, &[]);
    assert_eq!(plain.output(), "2\n");
    let managed = || program.managed().args(&libraries);
    for mut managed in [managed(), managed().following(2), managed().virtually(1)] {
        assert_eq!(managed.run().output(), "2\n");
    }
}

#[test]
fn a_barrier_that_ends_the_body_of_a_region_is_that_of_the_wheels_runtime() {
    let program = loader();
    let dir = program.dir.path();
    let wheel = wheel_of("barrier_last.c", dir, "wheel", &[]);
    let wheel = format!("local:{}:wheel", text(&wheel));
    let other = format!(
        "local:{}:other",
        text(&library(Compiler::Gcc, dir, "other", &[]))
    );
    for arguments in [
        &[&wheel, "call:0"][..],
        &[&wheel, &other, "call:1", "call:0", "call:1"],
    ] {
        let mut managed = program.managed().args(arguments);
        let calls = arguments.iter().filter(|a| a.starts_with("call")).count();
        let expected = format!("{RIGHT}\n").repeat(calls);
        assert_eq!(managed.run().output(), expected, "{arguments:?}");
    }
}

#[test]
fn a_wheel_and_another_library_each_keep_their_runtime() {
    let program = loader();
    let dir = program.dir.path();
    let wheel = format!("local:{}:wheel", text(&wheel(dir, "wheel", &[])));
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        let other = library(compiler, dir, "other", &[]);
        for scope in ["local", "global"] {
            let other = format!("{scope}:{}:other", text(&other));
            // Calls in turn, in both orders of loading, bound at once or at the first call.
            for arguments in [
                [&wheel, &other, "call:0", "call:1", "call:0", "call:1"],
                [&other, &wheel, "call:0", "call:1", "call:0", "call:1"],
                [&wheel, &other, "call:1", "call:0", "call:1", "call:0"],
                [&wheel, "call:0", &other, "call:1", "call:0", "call:1"],
            ] {
                for bind_now in [true, false] {
                    // Without the shim such mixtures only work when bound at once: a lazily bound
                    // library is torn between two runtimes as soon as one becomes global.
                    if !bind_now && scope == "global" {
                        continue;
                    }
                    let mut managed = program.managed().args(&arguments);
                    if bind_now {
                        managed = managed.env("LD_BIND_NOW", "1");
                    }
                    let outcome = managed.run();
                    let expected = format!("{RIGHT}\n").repeat(4);
                    let case = format!("{compiler:?} {arguments:?} {bind_now}");
                    assert_eq!(outcome.stdout, expected, "{case} {outcome:?}");
                    assert_eq!(managed.page.progress().regions, 40, "{case}");
                }
            }
        }
    }
}

#[test]
fn a_program_with_both_runtimes_has_both_counted() {
    let dir = tempfile::tempdir().unwrap();
    library(Compiler::Gcc, dir.path(), "of_gcc", &[]);
    library(Compiler::Clang, dir.path(), "of_clang", &[]);
    let (place, path) = (
        format!("-L{}", text(dir.path())),
        format!("-Wl,-rpath,{}", text(dir.path())),
    );
    for order in [["-lof_gcc", "-lof_clang"], ["-lof_clang", "-lof_gcc"]] {
        let program = Program::with_flags(
            Compiler::Gcc,
            "two_runtimes.c",
            &[&place, &path, order[0], order[1]],
        );
        let plain = program.run_plainly(&[], &[]);
        let mut managed = program.managed();
        assert_eq!(managed.run().output(), plain.output(), "{order:?}");
        let progress = managed.page.progress();
        assert_eq!(
            (progress.regions, progress.iterations),
            (60, 3000),
            "{order:?}"
        );
        assert_eq!(managed.page.report().runtimes, Runtimes::all());
    }
}

#[test]
fn a_program_with_both_runtimes_is_right_in_every_mode_while_its_cpus_change() {
    let dir = tempfile::tempdir().unwrap();
    library(Compiler::Gcc, dir.path(), "of_gcc", &[]);
    library(Compiler::Clang, dir.path(), "of_clang", &[]);
    let place = format!("-L{}", text(dir.path()));
    let path = format!("-Wl,-rpath,{}", text(dir.path()));
    let flags = [place.as_str(), &path, "-DROUNDS=30"];
    let program = |order: [&str; 2]| {
        let flags = [flags.as_slice(), &order].concat();
        Program::with_flags(Compiler::Gcc, "two_runtimes.c", &flags)
    };
    for order in [["-lof_gcc", "-lof_clang"], ["-lof_clang", "-lof_gcc"]] {
        let program = program(order);
        let plain = program.run_plainly(&[], &[]);
        for mode in [TeamMode::Fixed, TeamMode::Follow, TeamMode::Virtual] {
            let mut managed = match mode {
                TeamMode::Fixed => program.managed(),
                TeamMode::Follow => program.managed().following(2),
                TeamMode::Virtual => program.managed().virtually(2),
            };
            let mut cpus = 0;
            let outcome = managed.run_while(|page| {
                cpus = cpus % 4 + 1;
                page.publish(cpus, mode);
            });
            assert_eq!(outcome.output(), plain.output(), "{mode:?} {order:?}");
            let progress = managed.page.progress();
            let counts = (progress.regions, progress.iterations);
            assert_eq!(counts, (600, 30_000), "{mode:?} {order:?}");
            let report = managed.page.report();
            assert_eq!(report.runtimes, Runtimes::all(), "{mode:?} {order:?}");
        }
    }
}

#[test]
fn libraries_loaded_late_have_virtual_teams_whatever_their_runtime() {
    let program = loader();
    let dir = program.dir.path();
    let wheel = format!("local:{}:wheel", text(&wheel(dir, "wheel", &[])));
    let of_gcc = format!(
        "local:{}:of_gcc",
        text(&library(Compiler::Gcc, dir, "of_gcc", &[]))
    );
    let of_clang = library(Compiler::Clang, dir, "of_clang", &[]);
    let of_clang = format!("local:{}:of_clang", text(&of_clang));
    for arguments in [
        &[&of_gcc, "call:0", "call:0"][..],
        &[&wheel, "call:0", "call:0"],
        &[&wheel, "call:0", &of_gcc, "call:1", "call:0", "call:1"],
        &[&of_gcc, "call:0", &wheel, "call:1", "call:0", "call:1"],
        &[&wheel, "call:0", &of_clang, "call:1", "call:0", "call:1"],
        &[&of_clang, &of_gcc, "call:0", "call:1", "call:0", "call:1"],
    ] {
        for cpus in [1, 2] {
            let mut managed = program.managed().virtually(cpus).args(arguments);
            let calls = arguments
                .iter()
                .filter(|argument| argument.starts_with("call"))
                .count();
            let outcome = managed.run();
            let case = format!("{arguments:?} {cpus} {outcome:?}");
            assert_eq!(outcome.stdout, format!("{RIGHT}\n").repeat(calls), "{case}");
            let report = managed.page.report();
            assert_eq!((report.teams_off, report.team_size), (None, cpus), "{case}");
            assert_eq!(managed.page.progress().regions, 10 * calls as u64, "{case}");
        }
    }
}

#[test]
fn a_wheel_with_doacross_loops_that_is_loaded_late_ends_virtual_teams_of_other_runtimes() {
    let program = Program::with_flags(Compiler::Gcc, "late.c", &["-fopenmp", "-ldl"]);
    let wheel = wheel_of("doacross.c", program.dir.path(), "doacross", &[]);
    let managed = program.managed().threads(3).virtually(1);
    let mut managed = managed.args(&[text(&wheel)]);
    assert_eq!(managed.run().output(), "3 20 3 20\n");
    let report = managed.page.report();
    assert_eq!(report.teams_off, Some(TeamsOff::Ordered));
    // Until then one thread carried them.
    assert_eq!(report.team_size, 3);
}

/// `host` runs `host.c` with the library at `guest`: what it says must be the same in each mode of teams.
fn in_every_mode(host: &Program, arguments: &[&str], guest: &Path) {
    for when in ["EARLY", "LATE"] {
        let environment = [
            ("OMP_NUM_THREADS", "3"),
            ("GUEST", text(guest)),
            (when, "1"),
        ];
        let plain = host.run_plainly(arguments, &environment);
        let managed = || {
            let bare = host.managed().args(arguments);
            environment
                .iter()
                .fold(bare, |m, (name, value)| m.env(name, value))
        };
        assert_eq!(managed().run().output(), plain.output(), "inert {when}");
        let mut fixed = managed();
        fixed.page.publish(2, TeamMode::Fixed);
        assert_eq!(fixed.run().output(), plain.output(), "fixed {when}");
        let followed = managed().following(3).run();
        assert_eq!(followed.output(), plain.output(), "follow {when}");
        for cpus in [1, 2, 3] {
            let mut virtually = managed().virtually(cpus);
            assert_eq!(virtually.run().output(), plain.output(), "{cpus} {when}");
            assert_eq!(virtually.page.report().teams_off, None, "{when}");
        }
    }
}

#[test]
fn a_library_of_clang_is_served_by_its_runtime_beside_regions_of_gcc_and_within_them() {
    let host = Program::with_flags(Compiler::Gcc, "host.c", &["-fopenmp", "-ldl"]);
    let guest = host.dir.path().join("libguest.so");
    Compiler::Clang.compile("guest.c", &guest, &["-fopenmp", "-fPIC", "-shared"]);
    in_every_mode(&host, &[], &guest);
}

#[test]
fn a_wheel_is_served_by_its_runtime_beside_regions_of_another_and_within_them() {
    let program = loader();
    let dir = program.dir.path();
    let guest = wheel_of("guest.c", dir, "guest", &[]);
    let host = dir.join("libhost.so");
    let to_library = ["-fopenmp", "-fPIC", "-shared", "-DLIBRARY", "-ldl"];
    Compiler::Gcc.compile("host.c", &host, &to_library);
    let load = format!("local:{}:host", text(&host));
    in_every_mode(&program, &[&load, "call:0"], &guest);
}

#[test]
fn what_virtual_teams_do_not_serve_is_refused_in_the_region_that_loads_it() {
    let program = Program::with_flags(Compiler::Gcc, "late_within.c", &["-fopenmp", "-ldl"]);
    for (construct, function) in [
        ("DOACROSS", "GOMP_loop_doacross_static_start"),
        ("SCOPE", "GOMP_scope_start"),
        ("TARGET", "GOMP_target_ext"),
        ("OLD_TARGET", "GOMP_target"),
        ("DOACROSS_ULL", "GOMP_loop_ull_doacross_runtime_start"),
    ] {
        let library = program.dir.path().join(format!("lib{construct}.so"));
        let define = format!("-D{construct}");
        let to_library = ["-fopenmp", "-fPIC", "-shared", define.as_str()];
        Compiler::Gcc.compile("unserved.c", &library, &to_library);
        let arguments = [text(&library)];
        let plain = program.run_plainly(&arguments, &[("OMP_NUM_THREADS", "3")]);
        assert_eq!(plain.output(), "435\n", "{construct}");
        let managed = || program.managed().threads(3).args(&arguments);
        let mut fixed = managed();
        fixed.page.publish(2, TeamMode::Fixed);
        assert_eq!(fixed.run().output(), plain.output(), "{construct}");
        let refused = managed().virtually(2).run();
        assert_eq!(refused.status.code(), Some(127), "{construct} {refused:?}");
        assert!(refused.stderr.contains(function), "{refused:?}");
        assert!(refused.stderr.contains("--teams fixed"), "{refused:?}");
    }
}
