//! What the shim costs: interleaved runs of plain programs and of the same under the shim; and how
//! fast threads park and come back.
//!
//! `cargo bench -p mapper-omp-shim [-- WORD...]`; prints medians over the rounds, for the lines that
//! contain all the words (such as `libgomp`, `chunk`, `parking`).

#![allow(clippy::unwrap_used, dead_code)]

#[path = "../tests/shim/harness.rs"]
mod harness;

use std::time::Duration;

use harness::{Compiler, Dialogue, Program};
use mapper_abi::TeamMode;

const ROUNDS: usize = 9;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let wanted = |line: &str| words.iter().all(|word| line.contains(word.as_str()));
    println!(
        "{:28} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "ns, median of runs", "plain", "inert", "fixed", "shrunk", "follow", "virtual"
    );
    for (compiler, name) in [(Compiler::Gcc, "libgomp"), (Compiler::Clang, "libomp")] {
        for what in ["region", "chunk", "barrier"] {
            for threads in ["1", "2"] {
                let line = format!("{name} {what}, {threads} thread(s)");
                if wanted(&line) {
                    print!("{line:28}");
                    compare(compiler, what, threads);
                }
            }
        }
        let line = format!("{name} parking");
        if wanted(&line) {
            latencies(compiler, &line);
        }
    }
}

/// Plain, without a page, with one that says nothing, with one that says one CPU, following, and
/// virtual on one CPU.
fn compare(compiler: Compiler, what: &str, threads: &str) {
    let program = Program::new(compiler, "../../benches/cost.c");
    let mut settings = [const { Vec::new() }; 6];
    for _ in 0..ROUNDS {
        let environment = [("OMP_NUM_THREADS", threads)];
        let managed = || {
            program
                .managed()
                .env("OMP_NUM_THREADS", threads)
                .args(&[what])
        };
        let mut shrunk = managed();
        shrunk.page.publish(1, TeamMode::Fixed);
        let outcomes = [
            program.run_plainly(&[what], &environment),
            managed()
                .env("MAPPER_PAGE", "")
                .env("MAPPER_DEBUG", "0")
                .run(),
            managed().run(),
            shrunk.run(),
            managed().following(2).run(),
            managed().virtually(1).run(),
        ];
        for (times, outcome) in settings.iter_mut().zip(&outcomes) {
            times.push(outcome.output().trim().parse::<f64>().unwrap());
        }
    }
    for times in settings {
        print!(" {:8.2}", median(times));
    }
    println!();
}

/// From the daemon's write to the excess thread's last moment of work, and to its first again.
fn latencies(compiler: Compiler, line: &str) {
    const CHUNK_US: &str = "20";
    let program = Program::new(compiler, "parking.c");
    let mut managed = program.managed().threads(2).args(&["dynamic", CHUNK_US]);
    managed.page.publish(2, TeamMode::Fixed);
    let mut dialogue = managed.start();
    dialogue.ask("who");
    let ask = |dialogue: &mut Dialogue, line| dialogue.ask(line).parse::<u64>().unwrap() as f64;
    let (mut parked, mut resumed) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        let shrunk_ns = harness::monotonic_ns();
        dialogue.page.publish(1, TeamMode::Fixed);
        std::thread::sleep(Duration::from_millis(40));
        parked.push(ask(&mut dialogue, "parked 1") - shrunk_ns as f64);
        let grown_ns = harness::monotonic_ns();
        dialogue.page.publish(2, TeamMode::Fixed);
        std::thread::sleep(Duration::from_millis(10));
        resumed.push(ask(&mut dialogue, "resumed 1") - grown_ns as f64);
    }
    dialogue.ask("stop");
    dialogue.finish();
    for (what, times) in [("until parked", parked), ("until running", resumed)] {
        let most = times.iter().copied().fold(f64::MIN, f64::max);
        println!(
            "{line} {what}, chunks of {CHUNK_US} us: median {:.0} ns, most {most:.0} ns",
            median(times)
        );
    }
}
