//! An application that was compiled against the first page understands the present one, and is understood.
//! `mapperd/tests/own_word.rs` runs it under a daemon.
//!
//! `compatibility/mapper_page_1.h` is the C header as it was; it is never changed. When the layout
//! gets a new version, the daemon must go on to make pages of the old one for such applications, or
//! this test must go together with the word to users that they have to compile anew.

#![allow(clippy::unwrap_used)]

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use mapper_abi::{Allocation, CpuMask, OwnReport, PageWriter, Runtimes, TeamMode};

fn compile(folder: &Path) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compatibility");
    let program = folder.join("client");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(&compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(sources.join("client_1.c"))
        .output()
        .unwrap_or_else(|error| panic!("run {compiler}: {error}; install gcc or set CC"));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    program
}

#[test]
fn a_client_of_the_first_layout_understands_the_present_page_and_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    let client = compile(folder.path());
    let mut writer = PageWriter::create().unwrap();
    let generation = writer.publish(&Allocation {
        cpu_count: 3,
        team_mode: TeamMode::Follow,
        cpus: CpuMask::from_cpus([1, 64, 69]).unwrap(),
        node_mask: 1,
        ..Allocation::default()
    });
    let page = format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        writer.as_fd().as_raw_fd()
    );
    let output = Command::new(client)
        .env(mapper_abi::PAGE_ENV, page)
        .env(mapper_abi::TOKEN_ENV, writer.token().to_string())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, "3 cpus, mode 1, mask 21\n");

    let reader = writer.reader().unwrap();
    let progress = reader.progress(10);
    assert_eq!((progress.regions, progress.iterations), (12, 3400));
    assert_eq!((progress.last_progress_ns, progress.threads), (5, 1));
    let report = reader.report();
    assert_eq!(report.runtimes, Runtimes::LIBGOMP);
    assert_eq!((report.applied, report.team_size), (generation, 3));
    // What was added since, it leaves unsaid.
    assert_eq!((report.spare_cpus, report.preemptions), (0, 0));
    assert_eq!(reader.own_report(10), OwnReport::default());
}
