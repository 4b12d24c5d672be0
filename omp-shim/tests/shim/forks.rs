//! Children of `fork`, made at every moment while other threads load and unload libraries.
//!
//! `MAPPER_TEST_FORKS` says how many children each test makes.

use crate::harness::{Compiler, Managed, Program};

/// A process has so many children, one after the other.
const CHILDREN: u32 = 400;

fn children() -> u32 {
    let wanted = std::env::var("MAPPER_TEST_FORKS").ok();
    wanted.map_or(36, |count| count.parse().unwrap())
}

fn in_mode(mode: &str, program: &Program) -> Managed {
    match mode {
        "fixed" => program.managed(),
        "follow" => program.managed().following(2),
        _ => program.managed().virtually(1),
    }
    .threads(2)
}

#[test]
fn a_child_forked_while_other_threads_load_libraries_never_hangs() {
    no_child_hangs(Compiler::Gcc);
}

#[test]
fn a_child_of_libomp_forked_while_other_threads_load_libraries_never_hangs() {
    no_child_hangs(Compiler::Clang);
}

fn no_child_hangs(compiler: Compiler) {
    let program = Program::with_flags(compiler, "forks.c", &["-fopenmp", "-pthread", "-ldl"]);
    let plugins = [("library.c", "libplain.so"), ("guest.c", "libguest.so")];
    let plugins = plugins.map(|(source, name)| {
        let flags = ["-fopenmp", "-fPIC", "-shared", "-DNAME=work"];
        compiler.compile(source, &program.dir.path().join(name), &flags)
    });
    let plugins = plugins.each_ref().map(|path| path.to_str().unwrap());
    let cells = ["fixed", "follow", "virtual"]
        .into_iter()
        .flat_map(|mode| ["calls", "region", "find", "exec"].map(|what| (mode, what)))
        .collect::<Vec<_>>();
    for (mode, what) in &cells {
        let mut left = children() / cells.len() as u32;
        while left > 0 {
            let now = left.min(CHILDREN);
            left -= now;
            let count = now.to_string();
            let arguments = [&[count.as_str(), what][..], &plugins].concat();
            let outcome = in_mode(mode, &program).args(&arguments).run();
            let wanted = "0 hung 0 failed\n";
            assert_eq!(outcome.stdout, wanted, "{mode} {what} {outcome:?}");
        }
    }
}
