//! Teams follow the allocation where they may, and nowhere else.

use mapper_abi::{TeamMode, TeamsOff};

use crate::harness::{COMPILERS, Compiler, Dialogue, Program};

/// The program under `--teams follow` with four threads by default, its first region done.
fn following(compiler: Compiler, cpus: u32) -> Dialogue {
    let program = Program::new(compiler, "teams.c");
    let mut dialogue = program.managed().threads(4).following(cpus).start();
    assert_eq!(
        dialogue.team(""),
        4,
        "the first region has the full team ({compiler:?})"
    );
    dialogue
}

#[test]
fn a_changed_allocation_is_followed_at_the_next_region() {
    for compiler in COMPILERS {
        let mut program = following(compiler, 2);
        assert_eq!(program.team(""), 2, "{compiler:?}");
        for cpus in [1, 2, 1, 3, 4, 1, 2] {
            program.page.allocate(cpus);
            assert_eq!(program.team(""), cpus, "{compiler:?}");
            let report = program.page.report();
            assert_eq!(report.team_size, cpus);
            assert_eq!(report.applied, program.page.writer.generation());
            assert_eq!(program.team("loop"), cpus, "{compiler:?}");
            assert_eq!(program.team("sections"), cpus, "{compiler:?}");
        }
        let page = program.finish();
        assert_eq!(page.report().teams_off, None);
    }
}

#[test]
fn a_team_never_exceeds_the_one_the_program_started_with() {
    for compiler in COMPILERS {
        let mut program = following(compiler, 64);
        assert_eq!(program.team(""), 4, "{compiler:?}");
        assert_eq!(program.page.report().max_threads, 4);
        program.finish();
    }
}

#[test]
fn the_number_of_threads_a_program_may_ask_for_is_not_altered() {
    for compiler in COMPILERS {
        let mut program = following(compiler, 1);
        assert_eq!(program.team(""), 1);
        assert_eq!(program.team("max"), 4, "{compiler:?}");
        program.finish();
    }
}

#[test]
fn a_clause_is_exact() {
    for compiler in COMPILERS {
        let mut program = following(compiler, 1);
        assert_eq!(program.team("clause 3"), 3, "{compiler:?}");
        assert_eq!(program.page.report().teams_off, Some(TeamsOff::Clause));
        assert_eq!(program.team(""), 1, "{compiler:?}");
        assert_eq!(program.team("if 0"), 1, "{compiler:?}");
        assert_eq!(program.team("if 1"), 1, "{compiler:?}");
        program.finish();
    }
}

#[test]
fn a_size_set_by_the_program_is_exact() {
    for compiler in COMPILERS {
        let setters: &[&str] = match compiler {
            Compiler::Gcc => &["set 3", "fset 3", "f8set 3"],
            Compiler::Clang => &["set 3", "fset 3"],
        };
        for setter in setters {
            let mut program = following(compiler, 1);
            assert_eq!(program.team(""), 1);
            program.ask(setter);
            assert_eq!(program.team(""), 3, "{compiler:?} {setter}");
            program.page.allocate(2);
            assert_eq!(program.team(""), 3, "{compiler:?} {setter}");
            assert_eq!(
                program.page.report().teams_off,
                Some(TeamsOff::SetNumThreads)
            );
            program.finish();
        }
    }
}

#[test]
fn a_size_set_within_a_region_concerns_only_what_is_nested_in_it() {
    for compiler in COMPILERS {
        let mut program = following(compiler, 2);
        assert_eq!(program.team("inset 3"), 2, "{compiler:?}");
        assert_eq!(program.team(""), 2, "{compiler:?}");
        program.finish();
    }
}

#[test]
fn a_program_that_forbids_dynamic_teams_has_exact_ones() {
    for compiler in COMPILERS {
        let setters: &[(&str, &str)] = match compiler {
            Compiler::Gcc => &[
                ("dynamic 0", "dynamic 1"),
                ("fdynamic 0", "fdynamic 1"),
                ("f8dynamic 0", "f8dynamic 1"),
            ],
            Compiler::Clang => &[("dynamic 0", "dynamic 1"), ("fdynamic 0", "fdynamic 1")],
        };
        for (forbid, allow) in setters {
            let mut program = following(compiler, 1);
            program.ask(forbid);
            assert_eq!(program.team(""), 4, "{compiler:?} {forbid}");
            assert_eq!(program.page.report().teams_off, Some(TeamsOff::SetDynamic));
            program.ask(allow);
            assert_eq!(program.team(""), 1, "{compiler:?} {allow}");
            program.finish();
        }
    }
}

#[test]
fn nested_regions_are_left_alone() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "teams.c");
        let managed = program.managed().env("OMP_NUM_THREADS", "4,3").following(2);
        let mut dialogue = managed.start();
        assert_eq!(dialogue.team(""), 4);
        assert_eq!(dialogue.ask("nested"), "3 in 2", "{compiler:?}");
        dialogue.page.allocate(1);
        // In a team of one thread, too, what is nested is none of the shim's business.
        assert_eq!(dialogue.ask("nested"), "3 in 1", "{compiler:?}");
        assert_eq!(dialogue.page.report().team_size, 1);
        dialogue.finish();
    }
}

#[test]
fn every_thread_that_begins_regions_has_a_full_first_one() {
    for compiler in COMPILERS {
        let mut program = following(compiler, 2);
        assert_eq!(program.ask("thread"), "4 then 2", "{compiler:?}");
        program.finish();
    }
}

#[test]
fn fixed_teams_never_change() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "teams.c");
        for name in [None, Some("fixed")] {
            let mut managed = program.managed().threads(3);
            if let Some(name) = name {
                managed = managed.env("MAPPER_TEAMS", name);
            }
            let mut dialogue = managed.start();
            // The page may say what it likes.
            for cpus in [1, 2, 8] {
                dialogue.page.allocate(cpus);
                assert_eq!(dialogue.team(""), 3, "{compiler:?}");
            }
            dialogue.finish();
        }
    }
}

#[test]
fn the_daemon_can_take_the_liberty_back() {
    for compiler in COMPILERS {
        let mut program = following(compiler, 2);
        assert_eq!(program.team(""), 2);
        program.page.publish(2, TeamMode::Fixed);
        assert_eq!(program.team(""), 4, "{compiler:?}");
        program.page.publish(2, TeamMode::Follow);
        assert_eq!(program.team(""), 2, "{compiler:?}");
        program.finish();
    }
}

#[test]
fn before_the_first_decision_teams_are_full() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "teams.c");
        let mut dialogue = program
            .managed()
            .threads(4)
            .env("MAPPER_TEAMS", "follow")
            .start();
        assert_eq!(dialogue.team(""), 4);
        assert_eq!(dialogue.team(""), 4, "{compiler:?}");
        dialogue.page.allocate(1);
        assert_eq!(dialogue.team(""), 1, "{compiler:?}");
        dialogue.finish();
    }
}

#[test]
fn the_clauses_of_newer_compilers_are_exact_too() {
    let place = tempfile::tempdir().unwrap();
    let library = place.path().join("libnewer.so");
    let flags = ["-fPIC", "-shared", "-DLIBRARY", "-ldl"];
    Compiler::Clang.compile("newer_clauses.c", &library, &flags);
    let library = library.to_str().unwrap();
    let program = Program::with_flags(Compiler::Clang, "newer_clauses.c", &["-fopenmp", library]);
    let mut managed = program.managed().threads(4).following(2);
    assert_eq!(managed.run().output(), "4 3 3 3 2\n");
}
