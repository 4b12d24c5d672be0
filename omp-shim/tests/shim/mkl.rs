//! MKL has as many threads for linear algebra as the program has CPUs, unless the user or the program chose a number.

use mapper_abi::TeamMode;

use crate::harness::{Compiler, Dialogue, Managed, Program};

/// The program with a library that behaves as MKL, on a machine of four cores.
struct WithMkl {
    program: Program,
    library: String,
}

impl WithMkl {
    fn new() -> Self {
        Self::named("libmkl_intel_thread.so.3")
    }

    fn named(name: &str) -> Self {
        let program = Program::with_flags(Compiler::Clang, "mkl.c", &["-fopenmp", "-ldl"]);
        let library = program.dir.path().join(name);
        let flags = ["-fopenmp", "-fPIC", "-shared", "-DLIBRARY"];
        Compiler::Clang.compile("mkl.c", &library, &flags);
        let library = library.to_str().unwrap().to_owned();
        Self { program, library }
    }

    /// Where OpenMP has six threads.
    fn managed(&self) -> Managed {
        let managed = self.program.managed().threads(6);
        managed.args(&[&self.library])
    }

    fn start(&self) -> Dialogue {
        self.managed().virtually(6).start()
    }
}

fn sizes_on(program: &mut Dialogue, line: &str, cpus: &[u32]) -> Vec<u32> {
    let on = |cpus: &u32| {
        program.page.publish(*cpus, TeamMode::Virtual);
        program.team(line)
    };
    cpus.iter().map(on).collect()
}

#[test]
fn mkl_has_a_thread_for_each_cpu_and_grows_again_after_it_had_one() {
    let with_mkl = WithMkl::new();
    let mut program = with_mkl.start();
    for work in ["blas", "lapack"] {
        let sizes = sizes_on(&mut program, work, &[6, 1, 1, 3, 2, 1, 4, 64]);
        assert_eq!(sizes, [4, 1, 1, 3, 2, 1, 4, 4], "{work}");
    }
    program.finish();
}

#[test]
fn work_that_keeps_tables_for_its_threads_and_questions_of_the_program_get_mkls_own_number() {
    let with_mkl = WithMkl::new();
    let mut program = with_mkl.start();
    for line in ["pardiso", "max", "made"] {
        assert_eq!(
            sizes_on(&mut program, line, &[6, 1, 3]),
            [4, 4, 4],
            "{line}"
        );
        assert_eq!(program.team("blas"), 3);
    }
    program.finish();
}

#[test]
fn a_number_that_the_program_sets_is_mkls_until_it_restores_the_first() {
    let with_mkl = WithMkl::new();
    let mut program = with_mkl.start();
    assert_eq!(sizes_on(&mut program, "blas", &[1]), [1]);
    let usual = program.team("max");
    for chosen in [1, 2, 3] {
        program.ask(&format!("mkl {chosen}"));
        let sizes = sizes_on(&mut program, "blas", &[6, 1, 2]);
        assert_eq!(sizes, [chosen; 3]);
    }
    program.ask(&format!("mkl {usual}"));
    assert_eq!(sizes_on(&mut program, "blas", &[6, 1, 2]), [4, 1, 2]);
    program.finish();
}

#[test]
fn mkl_has_no_more_threads_than_the_program_set_for_openmp() {
    let with_mkl = WithMkl::new();
    let mut program = with_mkl.start();
    program.ask("openmp 2");
    assert_eq!(sizes_on(&mut program, "blas", &[6, 1, 6]), [2, 1, 2]);
    program.ask("openmp 3");
    assert_eq!(sizes_on(&mut program, "blas", &[6, 1, 2]), [3, 1, 2]);
    program.finish();
}

#[test]
fn what_the_user_chose_for_mkl_is_left_alone() {
    let with_mkl = WithMkl::new();
    for (choice, value) in [
        ("MKL_NUM_THREADS", "4"),
        ("MKL_DOMAIN_NUM_THREADS", "MKL_DOMAIN_BLAS=4"),
        ("MKL_CBWR", "COMPATIBLE"),
    ] {
        let managed = with_mkl.managed().env(choice, value);
        let mut program = managed.virtually(6).start();
        assert_eq!(sizes_on(&mut program, "blas", &[6, 1]), [4, 4], "{choice}");
        program.finish();
    }
}

#[test]
fn an_mkl_that_may_not_adjust_its_number_keeps_it() {
    let with_mkl = WithMkl::new();
    let mut program = with_mkl.start();
    program.ask("dynamic 0");
    assert_eq!(sizes_on(&mut program, "blas", &[6, 1]), [6, 6]);
    program.ask("dynamic 1");
    assert_eq!(sizes_on(&mut program, "blas", &[1]), [1]);
    program.finish();
}

#[test]
fn an_mkl_for_another_runtime_and_one_under_fixed_teams_are_left_alone() {
    let with_mkl = WithMkl::named("libmkl_gnu_thread.so.3");
    let mut program = with_mkl.start();
    assert_eq!(sizes_on(&mut program, "blas", &[1]), [4]);
    program.finish();
    let with_mkl = WithMkl::new();
    let managed = with_mkl.managed().env("MAPPER_TEAMS", "fixed");
    let mut program = managed.start();
    program.page.publish(1, TeamMode::Fixed);
    assert_eq!(program.team("blas"), 4);
    program.finish();
}
