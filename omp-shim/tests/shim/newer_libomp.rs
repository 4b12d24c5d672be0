//! Programs of clang 14 with a libomp of five versions later, as users have them who update the runtime
//! alone. `cargo xtask setup tests` fetches it.

use std::path::{Path, PathBuf};

use mapper_abi::TeamMode;

use crate::harness::{Compiler, Managed, Outcome, Program};

/// The folder of the newer libomp: `NEWER_LIBOMP` or where `cargo xtask setup` puts it.
fn newer_libomp() -> PathBuf {
    let folder = std::env::var_os("NEWER_LIBOMP").map_or_else(
        || {
            // The test lies in `target/PROFILE/deps`.
            let test = std::env::current_exe().unwrap();
            let target = test.ancestors().nth(3).map(Path::to_owned).unwrap();
            target.join("runtimes/libomp5-19/usr/lib/llvm-19/lib")
        },
        PathBuf::from,
    );
    assert!(
        folder.join("libomp.so.5").exists(),
        "{}: no libomp.so.5; run `cargo xtask setup tests`, or name the folder of a libomp newer than \
         clang's in NEWER_LIBOMP",
        folder.display()
    );
    folder
}

/// Programs that run with it.
struct WithNewer {
    program: Program,
    libraries: String,
}

impl WithNewer {
    fn new(source: &str) -> Self {
        let program = Program::new(Compiler::Clang, source);
        let libraries = newer_libomp().to_str().unwrap().to_owned();
        let this = Self { program, libraries };
        let mut linker = std::process::Command::new("ldd");
        linker.arg(&this.program.path);
        linker.env("LD_LIBRARY_PATH", &this.libraries);
        let found = Outcome::of(&mut linker).stdout;
        assert!(found.contains(&this.libraries), "not used: {found}");
        this
    }

    fn managed(&self) -> Managed {
        let managed = self.program.managed();
        managed.env("LD_LIBRARY_PATH", &self.libraries)
    }

    fn run_plainly(&self, threads: &str) -> Outcome {
        let environment = [
            ("LD_LIBRARY_PATH", self.libraries.as_str()),
            ("OMP_NUM_THREADS", threads),
        ];
        self.program.run_plainly(&[], &environment)
    }
}

#[test]
fn results_and_counts_are_those_of_a_plain_run() {
    let program = WithNewer::new("constructs.c");
    let plain = program.run_plainly("3");
    for cpus in [1, 2, 3] {
        let mut fixed = program.managed().threads(3);
        fixed.page.publish(cpus, TeamMode::Fixed);
        assert_eq!(fixed.run().output(), plain.output(), "fixed {cpus}");
        let mut followed = program.managed().threads(3).following(cpus);
        assert_eq!(followed.run().output(), plain.output(), "follow {cpus}");
        for managed in [fixed, followed] {
            let counted = managed.page.progress();
            let line = format!(
                "regions {} iterations {}",
                counted.regions, counted.iterations
            );
            assert_eq!(plain.output().lines().last().unwrap(), line, "{cpus}");
        }
    }
}

#[test]
fn static_loops_are_divided_among_the_threads_that_have_cpus() {
    let program = WithNewer::new("static_loops.c");
    for cpus in [1, 2, 3, 64] {
        let mut managed = program.managed().threads(4);
        managed.page.publish(cpus, TeamMode::Fixed);
        let divided = cpus.min(4);
        let expected = format!("wrong 0\ndealt 4 {divided}\n");
        assert_eq!(managed.run().output(), expected, "{cpus}");
    }
}

#[test]
fn teams_follow_a_changed_allocation() {
    let program = WithNewer::new("teams.c");
    let mut dialogue = program.managed().threads(4).following(2).start();
    assert_eq!(dialogue.team(""), 4, "the first region has the full team");
    for cpus in [1, 2, 1, 3, 4, 1, 2] {
        dialogue.page.allocate(cpus);
        assert_eq!(dialogue.team(""), cpus);
        assert_eq!(dialogue.team("loop"), cpus);
        assert_eq!(dialogue.team("sections"), cpus);
        assert_eq!(dialogue.team("clause 3"), 3, "a clause is exact");
    }
    dialogue.finish();
}
