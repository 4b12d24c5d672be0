//! What the shim costs: interleaved runs of plain programs and of the same under the shim.
//!
//! `cargo bench -p mapper-omp-shim`; prints medians over the rounds, in nanoseconds.

#![allow(clippy::unwrap_used, dead_code)]

#[path = "../tests/shim/harness.rs"]
mod harness;

use harness::{Compiler, Program};

const ROUNDS: usize = 9;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    println!(
        "{:28} {:>8} {:>8} {:>8} {:>8}",
        "ns, median of runs", "plain", "inert", "fixed", "follow"
    );
    for (compiler, name) in [(Compiler::Gcc, "libgomp"), (Compiler::Clang, "libomp")] {
        let program = Program::new(compiler, "../../benches/cost.c");
        for (what, threads) in [
            ("region", "1"),
            ("region", "2"),
            ("chunk", "1"),
            ("chunk", "2"),
        ] {
            let mut settings = [const { Vec::new() }; 4];
            for _ in 0..ROUNDS {
                let environment = [("OMP_NUM_THREADS", threads)];
                let managed = || {
                    program
                        .managed()
                        .env("OMP_NUM_THREADS", threads)
                        .args(&[what])
                };
                let outcomes = [
                    program.run_plainly(&[what], &environment),
                    managed()
                        .env("MAPPER_PAGE", "")
                        .env("MAPPER_DEBUG", "0")
                        .run(),
                    managed().run(),
                    managed().following(2).run(),
                ];
                for (times, outcome) in settings.iter_mut().zip(&outcomes) {
                    times.push(outcome.output().trim().parse::<f64>().unwrap());
                }
            }
            print!("{:28}", format!("{name} {what}, {threads} thread(s)"));
            for times in settings {
                print!(" {:8.2}", median(times));
            }
            println!();
        }
    }
}
