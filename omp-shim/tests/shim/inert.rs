//! What the shim must not touch, and pages that it must not believe.

use std::os::fd::{AsFd as _, AsRawFd as _};

use mapper_abi::layout::PAGE_MAGIC;
use mapper_abi::{PAGE_BYTES, Token};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::pwrite;

use crate::harness::{COMPILERS, Compiler, Outcome, Program};

#[test]
fn a_program_without_openmp_does_not_notice() {
    let program = Program::with_flags(Compiler::Gcc, "plain.c", &["-pthread"]);
    let plain = program.run_plainly(&[], &[]);
    let mut managed = program.managed().following(1);
    let outcome = managed.run();
    assert_eq!(outcome.status.code(), Some(42));
    assert_eq!(
        (&outcome.stdout, &outcome.stderr),
        (&plain.stdout, &plain.stderr)
    );
    assert!(
        outcome.stdout.starts_with("child 7 threads 1 "),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.ends_with(" pages 0\n"), "{}", outcome.stdout);
    let report = managed.page.report();
    assert!(!report.attached());
    assert_eq!(managed.page.progress().threads, 0);
}

#[test]
fn a_setter_called_through_a_weak_reference_without_a_runtime_does_nothing() {
    let program = Program::with_flags(Compiler::Gcc, "weak.c", &["-fPIC", "-pie"]);
    assert_eq!(program.managed().run().output(), "fine\n");
}

/// Runs a program under variables that the shim must not act on.
fn run_with(compiler: Compiler, name: &str, value: &str, debug: bool) -> (Outcome, u64) {
    let program = Program::new(compiler, "constructs.c");
    let mut managed = program.managed().threads(2).following(1).env(name, value);
    if !debug {
        managed.command.env_remove("MAPPER_DEBUG");
    }
    (managed.run(), managed.page.progress().regions)
}

#[test]
fn without_a_page_to_believe_everything_passes_through() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "constructs.c");
        let plain = program.run_plainly(&[], &[("OMP_NUM_THREADS", "2")]);
        for (name, value, complaint) in [
            ("MAPPER_PAGE", "/proc/1/fd/99999", "/proc/1/fd/99999"),
            ("MAPPER_PAGE", "/dev/null", "not sealed"),
            ("MAPPER_PAGE", "", "open the shared page"),
            ("MAPPER_TOKEN", "0000000000000001", "another token"),
            ("MAPPER_TOKEN", "rubbish", "\"rubbish\""),
            ("MAPPER_TEAMS", "elastic", "\"elastic\""),
        ] {
            let (outcome, regions) = run_with(compiler, name, value, true);
            assert!(outcome.status.success());
            assert_eq!(outcome.stdout, plain.stdout, "{compiler:?} {name}={value}");
            assert!(
                outcome.stderr.contains(complaint),
                "{name}={value}: {}",
                outcome.stderr
            );
            assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
            assert_eq!(regions, 0);
            let (outcome, _) = run_with(compiler, name, value, false);
            assert_eq!(
                outcome.output(),
                plain.output(),
                "silent without MAPPER_DEBUG"
            );
        }
    }
}

#[test]
fn a_forged_page_is_not_believed() {
    let program = Program::new(Compiler::Gcc, "constructs.c");
    let token = Token::from_raw(0x1234).unwrap();
    let seals = SealFlags::SHRINK | SealFlags::GROW;
    let full = PAGE_BYTES as u64;
    for (bytes, seals, version, complaint) in [
        (full - 4096, seals, 1_u32, "bytes instead of"),
        (full, SealFlags::empty(), 1, "not sealed"),
        (full, seals, 2, "version 2"),
    ] {
        let fd = memfd_create("forgery", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, bytes).unwrap();
        let mut header = PAGE_MAGIC.to_ne_bytes().to_vec();
        header.extend(version.to_ne_bytes());
        header.extend((PAGE_BYTES as u32).to_ne_bytes());
        header.extend(token.to_raw().to_ne_bytes());
        pwrite(&fd, &header, 0).unwrap();
        fcntl_add_seals(&fd, seals).unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), fd.as_fd().as_raw_fd());
        let outcome = program
            .managed()
            .threads(2)
            .env("MAPPER_PAGE", &path)
            .env("MAPPER_TOKEN", &token.to_string())
            .run();
        assert!(outcome.status.success(), "{outcome:?}");
        assert!(outcome.stderr.contains(complaint), "{}", outcome.stderr);
    }
}

#[test]
fn a_page_full_of_garbage_harms_nobody() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "constructs.c");
        let plain = program.run_plainly(&[], &[("OMP_NUM_THREADS", "3")]);
        for byte in [0xff_u8, 0x01, 0x80] {
            let mut managed = program.managed().threads(3).following(2);
            // All but the header: a sequence number that is odd or wild, absurd sizes, no free slot.
            pwrite(&managed.page.writer, &vec![byte; PAGE_BYTES - 128], 128).unwrap();
            assert_eq!(
                managed.run().output(),
                plain.output(),
                "{compiler:?} {byte:#x}"
            );
        }
    }
}
