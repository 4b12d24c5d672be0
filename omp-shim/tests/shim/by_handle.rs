//! Functions of the runtime that the program calls by a handle of its library.

use mapper_abi::{TeamMode, TeamsOff};

use crate::harness::{COMPILERS, Compiler, Dialogue, Managed, Program};
use crate::modules::wheel_of;

fn program(compiler: Compiler) -> Program {
    Program::with_flags(compiler, "by_handle.c", &["-fopenmp", "-ldl"])
}

/// Runs it with four threads by default; `modes` are named for messages.
fn in_every_mode(
    program: &Program,
    arguments: &[&str],
    environment: &[(&str, &str)],
    check: impl Fn(&str, &mut Dialogue),
) {
    let managed = || {
        let managed = program.managed().threads(4).args(arguments);
        let each = environment.iter();
        each.fold(managed, |managed, (name, value)| managed.env(name, value))
    };
    let mut fixed = managed();
    fixed.page.publish(2, TeamMode::Fixed);
    let modes: [(&str, Managed); 4] = [
        ("fixed", fixed),
        ("follow", managed().following(2)),
        ("virtual on 1", managed().virtually(1)),
        ("virtual on 2", managed().virtually(2)),
    ];
    for (mode, managed) in modes {
        let mut dialogue = managed.start();
        check(mode, &mut dialogue);
        dialogue.finish();
    }
}

#[test]
fn a_size_set_by_handle_is_exact_in_every_mode() {
    for compiler in COMPILERS {
        in_every_mode(&program(compiler), &[], &[], |mode, program| {
            assert_eq!(program.team("team"), 4, "{compiler:?} {mode}");
            for size in [1, 2, 3, 5, 4, 4, 1, 4] {
                program.ask(&format!("set {size}"));
                for _ in 0..3 {
                    assert_eq!(program.team("team"), size, "{compiler:?} {mode} {size}");
                }
                assert_eq!(program.team("max"), size, "{compiler:?} {mode} {size}");
            }
        });
    }
}

#[test]
fn who_asks_by_handle_for_what_is_no_teams_business_keeps_its_mode() {
    let program = program(Compiler::Gcc);
    let mut following = program.managed().threads(4).following(2).start();
    let mut virtually = program.managed().threads(4).virtually(2).start();
    for program in [&mut following, &mut virtually] {
        assert_eq!(program.team("max"), 4);
        assert_eq!(program.team("team"), 4);
        assert_eq!(program.team("max"), 4);
    }
    assert_eq!(following.team("team"), 2);
    assert_eq!(virtually.team("team"), 4);
    assert_eq!(following.finish().report().teams_off, None);
    assert_eq!(virtually.finish().report().teams_off, None);
}

#[test]
fn virtual_teams_stay_so_when_sizes_are_set_by_handle() {
    let program = program(Compiler::Gcc);
    let mut program = program.managed().threads(4).virtually(1).start();
    for size in [4, 3, 1, 4] {
        program.ask(&format!("set {size}"));
        assert_eq!(program.team("team"), size);
    }
    let report = program.finish().report();
    assert_eq!((report.teams_off, report.team_size), (None, 1));
}

#[test]
fn teams_of_one_that_are_made_larger_by_handle_are_virtual_too() {
    let program = program(Compiler::Gcc);
    let mut program = program.managed().threads(1).virtually(2).start();
    assert_eq!(program.team("team"), 1);
    program.ask("set 3");
    assert_eq!(program.team("team"), 3);
    assert_eq!(program.finish().report().team_size, 2, "carried by two");
}

#[test]
fn what_members_set_by_handle_ends_with_their_region() {
    in_every_mode(&program(Compiler::Gcc), &[], &[], |mode, program| {
        assert_eq!(program.team("team"), 4, "{mode}");
        for size in [2, 3, 1] {
            assert_eq!(program.team(&format!("inset {size}")), 4, "{mode}");
            assert_eq!(
                (program.team("max"), program.team("team")),
                (4, 4),
                "{mode}"
            );
        }
    });
}

#[test]
fn no_active_levels_by_handle_is_teams_of_one() {
    for compiler in COMPILERS {
        in_every_mode(&program(compiler), &[], &[], |mode, program| {
            assert_eq!(program.team("team"), 4, "{compiler:?} {mode}");
            program.ask("levels 0");
            assert_eq!(program.team("team"), 1, "{compiler:?} {mode}");
            program.ask("levels 1");
            assert!(program.team("team") > 1, "{compiler:?} {mode}");
        });
    }
}

#[test]
fn a_program_that_forbids_dynamic_teams_by_handle_has_exact_ones() {
    for compiler in COMPILERS {
        let mut program = program(compiler).managed().threads(4).following(1).start();
        assert_eq!(program.team("team"), 4);
        assert_eq!(program.team("team"), 1);
        program.ask("dynamic 0");
        assert_eq!(program.team("team"), 4, "{compiler:?}");
        let report = program.finish().report();
        assert_eq!(report.teams_off, Some(TeamsOff::SetDynamic), "{compiler:?}");
    }
}

#[test]
fn who_asks_a_team_by_handle_has_real_ones_from_the_next_region_on() {
    for question in ["known", "within"] {
        for compiler in COMPILERS {
            in_every_mode(&program(compiler), &[], &[], |mode, program| {
                let case = format!("{compiler:?} {mode} {question}");
                assert_eq!(program.team("team"), 4, "{case}");
                for _ in 0..3 {
                    let size = if mode == "follow" { 2 } else { 4 };
                    assert_eq!(program.team(question), size, "{case}");
                }
            });
        }
        let program = program(Compiler::Gcc);
        let mut program = program.managed().threads(4).virtually(1).start();
        assert_eq!(program.team("team"), 4);
        assert_eq!(program.page.report().teams_off, None);
        program.ask(question);
        assert_eq!(program.team("team"), 4);
        let report = program.finish().report();
        assert_eq!(report.teams_off, Some(TeamsOff::ByHandle), "{question}");
    }
}

/// The program as a library, loaded with local scope by one that has no runtime; with what to run that by.
fn hosted() -> (Program, [String; 2]) {
    let loader = Program::with_flags(Compiler::Gcc, "loader.c", &[]);
    let flags = ["-fopenmp", "-fPIC", "-shared", "-DHOST"];
    let host = loader.dir.path().join("libhost.so");
    let host = Compiler::Gcc.compile("by_handle.c", &host, &flags);
    let load = format!("local:{}:host_main", host.display());
    (loader, [load, "call:0".to_owned()])
}

#[test]
fn who_looks_up_for_others_serves_a_member_or_ends_the_program() {
    let (loader, arguments) = hosted();
    let helper = loader.dir.path().join("libhelper.so");
    let helper = Compiler::Gcc.compile("by_handle.c", &helper, &["-fPIC", "-shared", "-DFIND"]);
    let hosted = || {
        loader
            .managed()
            .args(&arguments.each_ref().map(String::as_str))
    };
    let with_helper = |managed: Managed| {
        let managed = managed.threads(4).env("HELPER", helper.to_str().unwrap());
        managed.virtually(1).start()
    };
    // One runtime for all: the helper's lookups mean that one.
    let alone = program(Compiler::Gcc);
    let mut alone = with_helper(alone.managed());
    assert_eq!((alone.team("team"), alone.team("elsewhere")), (4, 4));
    alone.finish();
    // Where each module has its own, one that does not use OpenMP has none.
    let mut several = with_helper(hosted());
    assert_eq!((several.team("team"), several.team("within")), (4, 4));
    several.finish();
    let mut several = with_helper(hosted());
    assert_eq!(several.team("team"), 4);
    several.say("elsewhere");
    assert_eq!(several.hear(), "", "it ends");
}

#[test]
fn of_two_runtimes_that_one_is_set_whose_handle_it_was() {
    let (loader, arguments) = hosted();
    let arguments = arguments.each_ref().map(String::as_str);
    let guest = wheel_of("by_handle.c", loader.dir.path(), "guest", &[]);
    let guest = [("GUEST", guest.to_str().unwrap())];
    in_every_mode(&loader, &arguments, &guest, |mode, program| {
        let sizes = |program: &mut Dialogue| (program.team("team"), program.team("gteam"));
        assert_eq!(program.team("team"), 4, "{mode}");
        for (own, guests) in [(3, 2), (1, 4), (2, 1), (4, 3)] {
            program.ask(&format!("gset {guests}"));
            program.ask(&format!("set {own}"));
            for _ in 0..3 {
                assert_eq!(sizes(program), (own, guests), "{mode}");
            }
            let most = (program.team("max"), program.team("gmax"));
            assert_eq!(most, (own, guests), "{mode}");
        }
    });
}

#[test]
fn errors_and_special_handles_are_the_programs() {
    for compiler in COMPILERS {
        in_every_mode(&program(compiler), &[], &[], |mode, program| {
            for _ in 0..2 {
                assert_eq!(program.team("missing"), 1, "{compiler:?} {mode}");
                assert_eq!(program.team("next"), 1, "{compiler:?} {mode}");
                assert!(program.team("team") > 0, "{compiler:?} {mode}");
            }
        });
    }
}
