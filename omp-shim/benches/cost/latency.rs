//! How fast the allocation is read, and how fast threads follow it within a loop.

use std::hint::black_box;
use std::time::{Duration, Instant};

use mapper_abi::{ClientPage, PageWriter, TeamMode};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::PathBuf;

use crate::harness::{self, Compiler, Dialogue, Program};
use crate::report::{Verdict, median, quantile};

/// What a look at the page costs that finds nothing new.
pub(crate) fn page_read() -> Verdict {
    const READS: u32 = 100_000;
    const LIMIT_NS: f64 = 5.0;
    let writer = PageWriter::create().unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", writer.as_fd().as_raw_fd()));
    let page = ClientPage::open(&path, writer.token()).unwrap();
    let known = page.sequence();
    let times: Vec<f64> = (0..400)
        .map(|_| {
            let start = Instant::now();
            let mut changes = 0;
            for _ in 0..READS {
                changes += u32::from(black_box(&page).sequence() != known);
            }
            assert_eq!(black_box(changes), 0);
            start.elapsed().as_nanos() as f64 / f64::from(READS)
        })
        .collect();
    let median = median(&times);
    let verdict = Verdict::of(median, Some(LIMIT_NS));
    println!(
        "page read without a change: median {median:.2} ns, wanted < {LIMIT_NS} ns  {verdict}"
    );
    verdict
}

/// From the daemon's write to the excess thread's last chunk, and to its first again.
pub(crate) fn parking(compiler: Compiler, label: &str) {
    const CHUNK_US: &str = "20";
    const TURNS: usize = 100;
    const RESUMED_LIMIT_NS: f64 = 200_000.0;
    let program = Program::new(compiler, "parking.c");
    let mut managed = program.managed().threads(2).args(&["dynamic", CHUNK_US]);
    managed.page.publish(2, TeamMode::Fixed);
    let mut dialogue = managed.start();
    dialogue.ask("who");
    let ask = |dialogue: &mut Dialogue, line: &str| dialogue.ask(line).parse::<u64>().unwrap();
    let (mut parked, mut chunks, mut resumed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let shrunk_ns = harness::monotonic_ns();
        dialogue.page.publish(1, TeamMode::Fixed);
        let written_ns = harness::monotonic_ns();
        std::thread::sleep(Duration::from_millis(40));
        parked.push(ask(&mut dialogue, "parked 1") as f64 - shrunk_ns as f64);
        chunks.push(ask(&mut dialogue, &format!("begun 1 {written_ns}")));
        let grown_ns = harness::monotonic_ns();
        dialogue.page.publish(2, TeamMode::Fixed);
        std::thread::sleep(Duration::from_millis(10));
        resumed.push((dialogue.resumed_ns(1, grown_ns) - grown_ns) as f64);
    }
    dialogue.ask("stop");
    dialogue.finish();
    let most = chunks.iter().copied().max().unwrap_or(0);
    println!(
        "{label}, chunks begun by the excess thread after the write: most {most} of {TURNS} times, \
         wanted <= 1  {}",
        Verdict::of(most as f64, Some(1.0))
    );
    for (what, times, limit) in [
        ("until its last one ended", parked, None),
        ("until it ran again", resumed, Some(RESUMED_LIMIT_NS)),
    ] {
        let most = times.iter().copied().fold(f64::MIN, f64::max);
        // Of a hundred some fall together with other programs' wake-ups.
        let high = quantile(&times, 0.9);
        println!(
            "{label}, {what}, chunks of {CHUNK_US} us: median {:.1} us, 90 % within {:.1} us, most {:.1} us{}  {}",
            median(&times) / 1e3,
            high / 1e3,
            most / 1e3,
            limit.map_or(String::new(), |limit| format!(
                ", wanted < {} us",
                limit / 1e3
            )),
            Verdict::of(high, limit)
        );
    }
}
