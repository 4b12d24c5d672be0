//! Thread-local storage in virtual teams: shared where the program cannot tell, each thread's own elsewhere.

use mapper_abi::{ReportFlags, TeamMode};

use crate::harness::{Compiler, Dialogue, Program, turn};

/// `storage.c`, with something besides that tells threads apart.
fn program(sees: Option<&str>) -> Program {
    let sees = sees.map(|what| format!("-DSEES_{what}"));
    let flags: Vec<&str> = ["-fopenmp"].into_iter().chain(sees.as_deref()).collect();
    Program::with_flags(Compiler::Gcc, "storage.c", &flags)
}

fn start(program: &Program, threads: u32, cpus: u32) -> Dialogue {
    program.managed().threads(threads).virtually(cpus).start()
}

fn is_shared(dialogue: &Dialogue) -> bool {
    let flags = dialogue.page.report().flags;
    flags.contains(ReportFlags::STORAGE_SHARED)
}

/// Has the program do that; it must be right, and its teams virtual.
fn does(dialogue: &mut Dialogue, what: &str) {
    assert_eq!(dialogue.ask(what), "right", "{what}");
    assert_eq!(dialogue.page.report().teams_off, None, "{what}");
}

#[test]
fn a_program_that_cannot_tell_shares_storage_and_is_right() {
    let program = program(None);
    for (threads, cpus) in [(2, 1), (4, 1), (8, 1), (8, 2), (5, 3), (3, 3)] {
        let mut dialogue = start(&program, threads, cpus);
        for what in [
            "barriers", "brief", "messages", "modes", "barriers", "modes",
        ] {
            does(&mut dialogue, what);
            assert!(is_shared(&dialogue), "{what}: {threads} on {cpus}");
        }
        dialogue.finish();
    }
}

#[test]
fn a_program_that_can_tell_has_storage_of_each_threads_own() {
    for sees in ["THREAD_LOCAL", "THREADPRIVATE", "PTHREAD_SELF"] {
        let program = program(Some(sees));
        let mut dialogue = start(&program, 4, 1);
        for what in ["barriers", "brief", "messages", "modes", "place"] {
            does(&mut dialogue, what);
            assert!(!is_shared(&dialogue), "{sees}: {what}");
        }
        dialogue.finish();
    }
}

#[test]
fn the_user_can_have_storage_of_each_threads_own() {
    let program = program(None);
    let managed = program.managed().threads(4).virtually(1);
    let mut dialogue = managed.env("MAPPER_THREAD_STORAGE", "own").start();
    does(&mut dialogue, "barriers");
    assert!(!is_shared(&dialogue));
    dialogue.finish();
}

#[test]
fn a_program_that_asks_for_errno_within_a_region_has_its_own_storage_from_there_on() {
    let program = program(None);
    for claim in ["place", "behind a barrier"] {
        for (threads, cpus) in [(2, 1), (4, 1), (8, 3)] {
            let mut dialogue = start(&program, threads, cpus);
            does(&mut dialogue, "messages");
            assert!(is_shared(&dialogue), "{threads} on {cpus}");
            does(&mut dialogue, claim);
            assert!(!is_shared(&dialogue), "{claim}: {threads} on {cpus}");
            for what in ["messages", "barriers", "brief", "modes", claim] {
                does(&mut dialogue, what);
            }
            dialogue.finish();
        }
    }
}

#[test]
fn members_that_share_storage_are_helped_out_like_others() {
    turn::alone();
    let program = program(None);
    for (threads, cpus) in [(2, 1), (4, 1), (5, 2)] {
        let mut dialogue = start(&program, threads, cpus);
        for what in ["waiting", "barriers", "messages while waiting", "messages"] {
            does(&mut dialogue, what);
        }
        assert!(is_shared(&dialogue), "{threads} on {cpus}");
        let helped = dialogue.page.report().preemptions;
        assert!(helped > 0, "{threads} on {cpus} hangs without help");
        dialogue.finish();
    }
}

#[test]
fn the_place_of_errno_stays_a_threads_own_where_it_is_helped_out() {
    turn::alone();
    let program = program(None);
    for what in ["place while waiting", "place later"] {
        for (threads, cpus) in [(2, 1), (4, 1), (5, 2)] {
            let mut dialogue = start(&program, threads, cpus);
            does(&mut dialogue, "barriers");
            assert!(is_shared(&dialogue), "{threads} on {cpus}");
            does(&mut dialogue, what);
            assert!(!is_shared(&dialogue), "{what}: {threads} on {cpus}");
            does(&mut dialogue, "barriers");
            dialogue.finish();
        }
    }
}

#[test]
fn programs_that_share_storage_are_right_while_the_allocation_flaps() {
    let program = program(None);
    let mut dialogue = start(&program, 6, 1);
    for round in 0..60 {
        dialogue.page.publish(round % 5 + 1, TeamMode::Virtual);
        let what = ["barriers", "brief", "messages", "modes"][round as usize % 4];
        does(&mut dialogue, what);
    }
    assert!(is_shared(&dialogue));
    dialogue.finish();
}

#[test]
fn the_first_errno_of_a_process_does_not_wait_for_a_library_that_is_being_loaded() {
    let flags = ["-ldl", "-pthread"];
    let program = Program::with_flags(Compiler::Gcc, "constructor_waits.c", &flags);
    let library = program.dir.path().join("libwaits.so");
    let to_library = ["-pthread", "-fPIC", "-shared", "-DLIBRARY"];
    Compiler::Gcc.compile("constructor_waits.c", &library, &to_library);
    let mut managed = program.managed().args(&[library.to_str().unwrap()]);
    assert_eq!(managed.run().output(), "loaded\n");
}
