//! A program and the daemon's side of its page talk to one another.

#![allow(clippy::unwrap_used)]

use core::num::NonZeroU32;
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mapper_abi::{Allocation, CpuMask, OwnProgress, PageWriter};
use mapper_client::{Generation, Mapper, NotManaged};

const LONG: Duration = Duration::from_secs(60);

fn publish(writer: &mut PageWriter, cpu_count: u32) -> Generation {
    writer.publish(&Allocation {
        cpu_count,
        cpus: CpuMask::from_cpus(0..cpu_count).unwrap(),
        node_mask: 1,
        ..Allocation::default()
    })
}

/// A program that finds the page of `writer`.
fn program(path: &str, writer: &PageWriter) -> Command {
    let mut command = Command::new(path);
    let descriptor = writer.as_fd().as_raw_fd();
    command
        .env(
            mapper_abi::PAGE_ENV,
            format!("/proc/{}/fd/{descriptor}", std::process::id()),
        )
        .env(mapper_abi::TOKEN_ENV, writer.token().to_string());
    command
}

/// Runs this very test program for one of the tests below that play the program's part.
fn play(part: &str, writer: &PageWriter) -> std::process::Child {
    let this = std::env::current_exe().unwrap();
    let mut command = program(&this.to_string_lossy(), writer);
    command.env("PART", part);
    command
        .args(["--exact", "plays_a_part", "--nocapture"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The program's side; does nothing unless another test has started it.
#[test]
fn plays_a_part() {
    let Ok(part) = std::env::var("PART") else {
        return;
    };
    let mapper = Mapper::get();
    assert!(mapper.is_managed());
    match part.as_str() {
        "waits" => {
            let mut known = mapper.allocation().unwrap();
            assert_eq!(known.cpu_count.get(), 2);
            mapper.work_done(f64::from(known.cpu_count.get()));
            while known.cpu_count.get() != 5 {
                known = mapper.wait_for_change(known.generation, LONG).unwrap();
            }
            assert_eq!(known.cpus.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
            assert_eq!(known.generation, mapper.generation());
            let nothing = mapper.wait_for_change(known.generation, Duration::from_millis(5));
            assert_eq!(nothing, None);
            mapper.work_done(0.5);
        }
        "speaks" => {
            let cpus = |count| NonZeroU32::new(count).unwrap();
            mapper.latency(Duration::from_micros(250));
            mapper.declare_cpus(cpus(2), cpus(6));
            mapper.begin_serial();
        }
        other => panic!("no part {other}"),
    }
}

#[test]
fn a_program_without_mapper_says_nothing_to_nobody() {
    let mapper = Mapper::inert();
    mapper.work_done(1.0);
    mapper.latency(Duration::from_secs(1));
    drop(mapper.serial_phase());
    assert!(!mapper.is_managed());
    assert_eq!(mapper.allocation(), None);
    assert_eq!(mapper.generation().get(), 0);
    let begun = Instant::now();
    let pause = Duration::from_millis(20);
    assert_eq!(mapper.wait_for_change(mapper.generation(), pause), None);
    assert!(begun.elapsed() >= pause);
    assert!(matches!(
        Mapper::attach(),
        Err(NotManaged::NotLaunched("MAPPER_PAGE"))
    ));
}

#[test]
fn a_program_wakes_when_its_allocation_changes() {
    let mut writer = PageWriter::create().unwrap();
    let reader = writer.reader().unwrap();
    publish(&mut writer, 2);
    let mut child = play("waits", &writer);
    // It has read the first allocation when it reports.
    let begun = Instant::now();
    while reader.own_report(u64::MAX).progress.is_none() {
        assert!(begun.elapsed() < LONG, "the program says nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
    publish(&mut writer, 5);
    assert!(child.wait().unwrap().success());
    let Some(OwnProgress::Work { done, at_ns }) = reader.own_report(u64::MAX).progress else {
        panic!("no work reported");
    };
    assert_eq!(done, 2.5);
    assert!(at_ns > 0);
}

#[test]
fn what_a_program_declares_reaches_the_daemon() {
    let writer = PageWriter::create().unwrap();
    assert!(play("speaks", &writer).wait().unwrap().success());
    let report = writer.reader().unwrap().own_report(u64::MAX);
    let Some(OwnProgress::Latency { latency_ns, .. }) = report.progress else {
        panic!("no latency reported");
    };
    assert_eq!(latency_ns, 250_000.0);
    let wish = report.cpus.unwrap();
    assert_eq!((wish.least.get(), wish.most.get()), (2, 6));
    assert!(report.serial);
}

#[test]
fn the_rayon_example_follows_its_allocation() {
    let this = std::env::current_exe().unwrap();
    let example: PathBuf = this.parent().unwrap().join("../examples/rayon_pool");
    assert!(
        example.exists(),
        "{} is missing: run `cargo build -p mapper-client --examples`",
        example.display()
    );
    let mut writer = PageWriter::create().unwrap();
    publish(&mut writer, 3);
    // So many that even on a busy machine there are some left when the allocation changes.
    let mut child = program(&example.to_string_lossy(), &writer)
        .arg("1000")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "3 threads");
    publish(&mut writer, 1);
    assert_eq!(lines.next().unwrap().unwrap(), "1 threads");
    assert_eq!(lines.next().unwrap().unwrap(), "done");
    assert!(child.wait().unwrap().success());
    let Some(OwnProgress::Work { done, .. }) =
        writer.reader().unwrap().own_report(u64::MAX).progress
    else {
        panic!("no work reported");
    };
    assert_eq!(done, 1000.0);
}
