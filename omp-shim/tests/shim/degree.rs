//! Small regions get fewer threads where teams may follow, and what they do not need is reported.

use std::time::{Duration, Instant};

use mapper_abi::{ReportFlags, TeamMode};

use crate::harness::{COMPILERS, Compiler, Dialogue, Program, on_one_cpu, turn};

fn following(compiler: Compiler, threads: u32, cpus: u32) -> Dialogue {
    let program = Program::new(compiler, "small_regions.c");
    program.managed().threads(threads).following(cpus).start()
}

/// Under virtual teams, answering with the number of OS threads.
fn virtually(threads: u32, cpus: u32) -> Dialogue {
    let program = Program::new(Compiler::Gcc, "small_regions.c");
    let managed = program.managed().threads(threads).virtually(cpus);
    managed.args(&["OS threads"]).start()
}

/// Asks until the answer holds, which on a busy machine may take several trials.
fn until(dialogue: &mut Dialogue, line: &str, holds: impl Fn(&[u32]) -> bool) -> Vec<u32> {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let answer = dialogue.ask(line);
        let sizes: Vec<u32> = answer
            .split_whitespace()
            .map(|size| size.parse().unwrap())
            .collect();
        if holds(&sizes) || Instant::now() > deadline {
            return sizes;
        }
    }
}

#[test]
fn small_regions_are_given_to_one_thread() {
    turn::alone();
    for compiler in COMPILERS {
        let mut dialogue = following(compiler, 2, 2);
        let sizes = until(&mut dialogue, "small", |sizes| sizes == [1; 10]);
        assert_eq!(sizes, [1; 10], "{compiler:?}");
        dialogue.finish();
    }
}

#[test]
fn large_regions_keep_their_team() {
    turn::alone();
    for compiler in COMPILERS {
        let mut dialogue = following(compiler, 4, 2);
        dialogue.ask("large");
        let sizes = until(&mut dialogue, "large", |_| true);
        assert_eq!(sizes, [2; 10], "{compiler:?}");
        dialogue.finish();
    }
}

#[test]
fn a_region_with_large_and_small_work_keeps_its_team() {
    turn::alone();
    for compiler in COMPILERS {
        let mut dialogue = following(compiler, 4, 2);
        dialogue.ask("mixed");
        let sizes = until(&mut dialogue, "mixed", |_| true);
        assert_eq!(sizes, [2; 10], "{compiler:?}");
        dialogue.finish();
    }
}

#[test]
fn small_virtual_teams_are_carried_by_one_os_thread() {
    turn::alone();
    // There two carriers are never faster than one.
    on_one_cpu(|| {
        for threads in [2, 4] {
            let mut dialogue = virtually(threads, 2);
            let sizes = until(&mut dialogue, "small", |sizes| sizes == [1; 10]);
            assert_eq!(sizes, [1; 10], "{threads}");
            dialogue.finish();
        }
    });
}

#[test]
fn large_virtual_teams_are_carried_by_as_many_os_threads_as_there_are_cpus() {
    turn::alone();
    for line in ["large", "mixed"] {
        let mut dialogue = virtually(4, 2);
        // More at first, where a thread that computes is taken to wait for others.
        let sizes = until(&mut dialogue, line, |sizes| sizes == [2; 10]);
        assert_eq!(sizes, [2; 10], "{line}");
        assert_eq!(dialogue.page.report().teams_off, None, "{line}");
        dialogue.finish();
    }
}

#[test]
fn members_of_long_regions_have_os_threads_of_their_own_where_blocks_would_be_uneven() {
    turn::alone();
    let mut dialogue = virtually(3, 2);
    // The first regions are run in blocks, until it is known that they are long.
    let sizes = until(&mut dialogue, "large", |sizes| sizes == [3; 10]);
    assert_eq!(sizes, [3; 10]);
    // With a CPU for each or one for all there is nothing to divide.
    for (cpus, carriers) in [(1, 1), (3, 3)] {
        dialogue.page.publish(cpus, TeamMode::Virtual);
        let sizes = until(&mut dialogue, "large", |sizes| sizes == [carriers; 10]);
        assert_eq!(sizes, [carriers; 10], "{cpus} CPUs");
    }
    dialogue.finish();
}

#[test]
fn small_virtual_teams_are_judged_anew_when_there_are_more_cpus() {
    turn::alone();
    // There two carriers are never faster than one.
    on_one_cpu(|| {
        let mut dialogue = virtually(4, 1);
        assert_eq!(dialogue.ask("small"), ["1"; 10].join(" "));
        dialogue.page.publish(2, TeamMode::Virtual);
        // Two for as long as the trial of two takes, then the one that is faster.
        assert_eq!(until(&mut dialogue, "trial", |_| true), [2; 10]);
        let sizes = until(&mut dialogue, "small", |sizes| sizes == [1; 10]);
        assert_eq!(sizes, [1; 10]);
        dialogue.finish();
    });
}

#[test]
fn fixed_teams_are_not_judged() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "small_regions.c");
        let mut dialogue = program.managed().threads(8).start();
        for _ in 0..3 {
            assert_eq!(dialogue.ask("small"), "8 8 8 8 8 8 8 8 8 8", "{compiler:?}");
        }
        assert_eq!(dialogue.page.report().spare_cpus, 0);
        dialogue.finish();
    }
}

/// The machine was so busy that regions were judged wrongly; they are not judged again soon.
#[derive(Debug)]
struct Misjudged;

/// Has the program run until its report of spare CPUs is as it should be, for some more looks of the
/// shim's, one a second, than the two that it needs.
fn ask_until_spare(dialogue: &mut Dialogue, line: &str, wanted: u32) -> Result<(), Misjudged> {
    let start = Instant::now();
    while dialogue.page.report().spare_cpus != wanted {
        if start.elapsed() > Duration::from_secs(5) {
            return Err(Misjudged);
        }
        dialogue.ask(line);
    }
    Ok(())
}

#[test]
fn what_small_regions_do_not_need_is_spare_until_a_large_one_comes() {
    turn::alone();
    // There two threads are never faster than one.
    on_one_cpu(|| {
        for (mode, start) in [
            (
                TeamMode::Follow,
                (|| following(Compiler::Gcc, 3, 2)) as fn() -> Dialogue,
            ),
            (TeamMode::Follow, || following(Compiler::Clang, 3, 2)),
            (TeamMode::Virtual, || virtually(3, 2)),
        ] {
            let mut runs = (0..8).map(|_| small_regions_spare_what_large_ones_need(start(), mode));
            assert!(
                runs.any(|run| run.is_ok()),
                "{mode:?}: in none of eight runs"
            );
        }
    });
}

fn small_regions_spare_what_large_ones_need(
    mut dialogue: Dialogue,
    mode: TeamMode,
) -> Result<(), Misjudged> {
    ask_until_spare(&mut dialogue, "seconds 0.3", 1)?;
    // What was spare of one allocation is not taken for spare of the next.
    dialogue.page.publish(3, mode);
    assert_eq!(dialogue.page.report().spare_cpus, 0, "{mode:?}");
    dialogue.ask("seconds 0.05");
    assert_eq!(dialogue.page.report().spare_cpus, 0, "{mode:?}");
    ask_until_spare(&mut dialogue, "seconds 0.3", 2)?;
    ask_until_spare(&mut dialogue, "both", 0)?;
    let flags = dialogue.page.report().flags;
    assert!(flags.contains(ReportFlags::WAIT_MEASURED));
    dialogue.finish();
    Ok(())
}
