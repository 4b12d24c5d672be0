//! What the shim costs against the plain runtime; how fast threads park and come back; and what
//! parking brings to two programs side by side.
//!
//! `cargo bench -p mapper-omp-shim [-- WORD...]` prints tables with what was wanted and whether it was
//! met, in two to four minutes; with words only the lines that contain them all (such as `libgomp`,
//! `chunk`, `parking`). Each construct is in a list below, with its limit.

#![allow(clippy::unwrap_used, dead_code)]

#[path = "../../tests/shim/harness.rs"]
mod harness;
mod latency;
mod paired;
mod report;
mod side_by_side;

use harness::Compiler;
use paired::{Subject, Wanted};

const fn subject(
    compiler: Compiler,
    construct: &'static str,
    threads: u32,
    batch: u32,
    wanted: Wanted,
) -> Subject {
    Subject {
        compiler,
        construct,
        threads,
        batch,
        wanted,
    }
}

/// Issue 4, "Cost".
const SUBJECTS: [Subject; 9] = [
    subject(Compiler::Gcc, "region", 1, 1000, Wanted::AtMost(25.0)),
    subject(Compiler::Gcc, "region", 2, 200, Wanted::Unsaid),
    subject(Compiler::Gcc, "chunk", 1, 50_000, Wanted::AtMost(3.0)),
    subject(Compiler::Gcc, "chunk", 2, 20_000, Wanted::NotMeasurable),
    subject(
        Compiler::Gcc,
        "working-chunk",
        2,
        5000,
        Wanted::NotMeasurable,
    ),
    subject(Compiler::Gcc, "barrier", 1, 5_000, Wanted::Unsaid),
    subject(Compiler::Clang, "region", 1, 3000, Wanted::AtMost(15.0)),
    subject(Compiler::Clang, "region", 2, 200, Wanted::Unsaid),
    subject(Compiler::Clang, "chunk", 2, 5000, Wanted::NotMeasurable),
];

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let wanted = |line: &str| words.iter().all(|word| line.contains(word.as_str()));
    println!("1-minute load at the start: {}", load());
    let mut heading_is_due = true;
    for subject in &SUBJECTS {
        let runtime = match subject.compiler {
            Compiler::Gcc => "libgomp",
            Compiler::Clang => "libomp",
        };
        let label = format!(
            "{runtime} {}, {} thread(s)",
            subject.construct, subject.threads
        );
        if wanted(&label) {
            if std::mem::take(&mut heading_is_due) {
                paired::heading();
            }
            paired::compare(&label, subject);
        }
    }
    println!();
    // What a program gets that cannot tell, as this one, and what all others get.
    for storage in ["shared", "own"] {
        for threads in [2, 8] {
            if wanted("virtual barrier") {
                let limit = (threads == 2).then_some(30.0);
                paired::on_one_cpu(("barrier", 5000), threads, storage, limit);
            }
            if wanted("virtual region") {
                paired::on_one_cpu(("region", 500), threads, storage, None);
            }
        }
    }
    for threads in [2, 8] {
        for construct in [("task", 5000), ("barrier", 5000), ("region", 500)] {
            if wanted(&format!("virtual {}, a program with tasks", construct.0)) {
                paired::with_tasks_on_one_cpu(construct, threads);
            }
        }
    }
    if wanted("page read") {
        latency::page_read();
    }
    for (compiler, name) in [(Compiler::Gcc, "libgomp"), (Compiler::Clang, "libomp")] {
        let label = format!("{name} parking");
        if wanted(&label) {
            latency::parking(compiler, &label);
        }
    }
    for (compiler, name) in [(Compiler::Gcc, "libgomp"), (Compiler::Clang, "libomp")] {
        let label = format!("{name} dynamic loops");
        if wanted(&label) {
            side_by_side::compare(compiler, &label);
        }
    }
    println!("1-minute load at the end: {}", load());
}

/// How many threads wanted to run, on average of the last minute; this program's own among them.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}
