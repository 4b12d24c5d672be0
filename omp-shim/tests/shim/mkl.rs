//! MKL has as many threads as the program has CPUs, unless somebody chose a number.

use mapper_abi::TeamMode;

use crate::harness::{Compiler, Dialogue, Managed, Program};

/// The program with a library that behaves as MKL, with four threads by default.
struct WithMkl {
    program: Program,
    library: String,
}

impl WithMkl {
    fn new() -> Self {
        let program = Program::with_flags(Compiler::Clang, "mkl.c", &["-fopenmp", "-ldl"]);
        let library = program.dir.path().join("libmkl.so");
        let flags = ["-fopenmp", "-fPIC", "-shared", "-DLIBRARY"];
        Compiler::Clang.compile("mkl.c", &library, &flags);
        let library = library.to_str().unwrap().to_owned();
        Self { program, library }
    }

    fn managed(&self) -> Managed {
        let managed = self.program.managed().threads(4);
        managed.args(&[&self.library])
    }
}

/// The size of its team once it has noticed that there are so many CPUs.
fn team_on(program: &mut Dialogue, cpus: u32, mode: TeamMode) -> u32 {
    program.page.publish(cpus, mode);
    // It begins this region with the number of before.
    program.team("");
    program.team("")
}

#[test]
fn mkl_has_as_many_threads_as_the_program_has_cpus() {
    let with_mkl = WithMkl::new();
    for (mode, start) in [
        (
            TeamMode::Virtual,
            Managed::virtually as fn(Managed, u32) -> Managed,
        ),
        (TeamMode::Follow, Managed::following),
    ] {
        let mut program = start(with_mkl.managed(), 4).start();
        for cpus in [4, 1, 3, 2, 1, 4] {
            assert_eq!(team_on(&mut program, cpus, mode), cpus, "{mode:?}");
        }
        assert_eq!(team_on(&mut program, 64, mode), 4, "{mode:?}");
        program.finish();
    }
}

#[test]
fn mkl_has_the_number_of_threads_that_the_program_chose() {
    let with_mkl = WithMkl::new();
    let mut program = with_mkl.managed().virtually(4).start();
    assert_eq!(team_on(&mut program, 2, TeamMode::Virtual), 2);
    assert_eq!(program.team("3"), 3);
    assert_eq!(team_on(&mut program, 1, TeamMode::Virtual), 3);
    // What it had at first is no choice: libraries that limit it for a while give that back.
    assert_eq!(program.team("4"), 4);
    assert_eq!(team_on(&mut program, 2, TeamMode::Virtual), 2);
    program.finish();
}

#[test]
fn mkl_has_the_number_of_threads_that_the_user_chose() {
    let with_mkl = WithMkl::new();
    for choice in ["MKL_NUM_THREADS", "MKL_CBWR"] {
        let managed = with_mkl.managed().env(choice, "4");
        let mut program = managed.virtually(4).start();
        assert_eq!(team_on(&mut program, 1, TeamMode::Virtual), 4, "{choice}");
        program.finish();
    }
    let mut program = with_mkl.managed().env("MAPPER_TEAMS", "fixed").start();
    assert_eq!(team_on(&mut program, 1, TeamMode::Fixed), 4);
    program.finish();
}
