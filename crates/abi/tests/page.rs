//! The protocol between the two sides, over real memfds.

#![allow(clippy::unwrap_used)]

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use mapper_abi::layout::{PAGE_MAGIC, SLOT_COUNT};
use mapper_abi::{
    Allocation, ClientPage, CpuMask, Generation, PAGE_BYTES, PageError, PageReader, PageWriter,
    ReportFlags, SlotOwner, SlotSharing, TeamMode, Token,
};
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};
use rustix::io::pwrite;

const TOKEN: u64 = 0x0123_4567_89ab_cdef;

fn token() -> Token {
    Token::from_raw(TOKEN).unwrap()
}

fn path_of(fd: impl AsFd) -> PathBuf {
    let number: c_int = fd.as_fd().as_raw_fd();
    PathBuf::from(format!("/proc/{}/fd/{number}", std::process::id()))
}

fn open(writer: &PageWriter) -> ClientPage {
    ClientPage::open(&path_of(writer), writer.token()).unwrap()
}

/// A memfd that looks like a page except for what the test changes.
struct Forgery {
    bytes: u64,
    seals: SealFlags,
    magic: u64,
    version: u32,
    size: u32,
}

impl Default for Forgery {
    fn default() -> Self {
        Self {
            bytes: PAGE_BYTES as u64,
            seals: SealFlags::SHRINK | SealFlags::GROW,
            magic: PAGE_MAGIC,
            version: 1,
            size: PAGE_BYTES as u32,
        }
    }
}

impl Forgery {
    fn make(&self) -> OwnedFd {
        let fd = memfd_create("forgery", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, self.bytes).unwrap();
        let mut header = Vec::new();
        header.extend(self.magic.to_ne_bytes());
        header.extend(self.version.to_ne_bytes());
        header.extend(self.size.to_ne_bytes());
        header.extend(TOKEN.to_ne_bytes());
        header.truncate(self.bytes as usize);
        pwrite(&fd, &header, 0).unwrap();
        fcntl_add_seals(&fd, self.seals).unwrap();
        fd
    }

    /// What each of the three who map a page say about it.
    fn verdicts(&self) -> [PageError; 3] {
        let fd = self.make();
        let client = ClientPage::open(&path_of(&fd), token()).unwrap_err();
        let reader = PageReader::from_fd(&fd, token()).unwrap_err();
        let writer = PageWriter::adopt(fd, token()).unwrap_err();
        [client, reader, writer]
    }
}

#[test]
fn a_well_formed_page_is_accepted() {
    let fd = Forgery::default().make();
    ClientPage::open(&path_of(&fd), token()).unwrap();
    PageReader::from_fd(&fd, token()).unwrap();
    PageWriter::adopt(fd, token()).unwrap();
}

#[test]
fn a_page_of_another_length_is_refused() {
    for bytes in [0, 16, PAGE_BYTES as u64 - 1, PAGE_BYTES as u64 + 4096] {
        for error in (Forgery {
            bytes,
            ..Forgery::default()
        })
        .verdicts()
        {
            assert!(
                matches!(error, PageError::WrongSize(actual) if actual == bytes),
                "{error}"
            );
            assert!(error.to_string().contains(&bytes.to_string()), "{error}");
        }
    }
    for error in (Forgery {
        size: 4096,
        ..Forgery::default()
    })
    .verdicts()
    {
        assert!(matches!(error, PageError::WrongSize(4096)), "{error}");
    }
}

#[test]
fn a_page_that_could_shrink_is_refused() {
    for seals in [SealFlags::empty(), SealFlags::GROW, SealFlags::SHRINK] {
        for error in (Forgery {
            seals,
            ..Forgery::default()
        })
        .verdicts()
        {
            assert!(matches!(error, PageError::NotSealed), "{error}");
        }
    }
}

#[test]
fn a_file_that_is_no_memfd_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(PAGE_BYTES as u64).unwrap();
    let error = ClientPage::open(file.path(), token()).unwrap_err();
    assert!(matches!(error, PageError::NotSealed), "{error}");
    let error = ClientPage::open("/dev/null".as_ref(), token()).unwrap_err();
    assert!(matches!(error, PageError::NotSealed), "{error}");
}

#[test]
fn a_page_without_the_magic_number_is_refused() {
    for error in (Forgery {
        magic: 0x1122,
        ..Forgery::default()
    })
    .verdicts()
    {
        assert!(matches!(error, PageError::WrongMagic(0x1122)), "{error}");
    }
}

#[test]
fn a_page_of_another_version_is_refused_and_both_versions_are_named() {
    for error in (Forgery {
        version: 2,
        ..Forgery::default()
    })
    .verdicts()
    {
        assert!(matches!(error, PageError::WrongVersion(2)), "{error}");
        assert!(
            error
                .to_string()
                .contains("version 2, this program knows 1"),
            "{error}"
        );
    }
}

#[test]
fn a_page_with_another_token_is_refused() {
    let writer = PageWriter::create().unwrap();
    let other = Token::from_raw(writer.token().to_raw() ^ 2).unwrap();
    let error = ClientPage::open(&path_of(&writer), other).unwrap_err();
    assert!(matches!(error, PageError::WrongToken), "{error}");
    assert!(matches!(
        PageReader::from_fd(&writer, other),
        Err(PageError::WrongToken)
    ));
}

#[test]
fn a_page_that_is_not_there_is_an_error_with_the_path() {
    let error = ClientPage::open("/proc/1/fd/99999".as_ref(), token())
        .unwrap_err()
        .to_string();
    assert!(error.contains("/proc/1/fd/99999"), "{error}");
}

#[test]
fn a_page_made_here_can_neither_change_its_size_nor_its_seals() {
    let writer = PageWriter::create().unwrap();
    let seals = fcntl_get_seals(&writer).unwrap();
    assert!(
        seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL),
        "{seals:?}"
    );
    assert!(ftruncate(&writer, 0).is_err());
    assert!(fcntl_add_seals(&writer, SealFlags::WRITE).is_err());
}

/// A user's program opens the page of root's daemon by its name, for which the kernel asks for permission.
#[test]
fn a_page_made_here_can_be_opened_by_any_user_who_has_its_name_and_executed_by_none() {
    let writer = PageWriter::create().unwrap();
    let mode = rustix::fs::fstat(&writer).unwrap().st_mode;
    assert_eq!(mode & 0o777, 0o666);
}

#[test]
fn an_application_reads_what_was_published() {
    let mut writer = PageWriter::create().unwrap();
    let client = open(&writer);
    assert_eq!(client.allocation().unwrap().fields, Allocation::default());
    let allocation = Allocation {
        cpu_count: 3,
        team_mode: TeamMode::Follow,
        max_team: 8,
        cpus: CpuMask::from_cpus([1, 70, 4095]).unwrap(),
        node_mask: 0b101,
    };
    let before = client.sequence();
    let generation = writer.publish(&allocation);
    assert_eq!(generation.get(), 1);
    assert_ne!(client.sequence(), before);
    let read = client.allocation().unwrap();
    assert_eq!(read.fields, allocation);
    assert_eq!(read.sequence, client.sequence());
    assert_eq!(Generation::from_sequence(read.sequence), generation);
}

#[test]
fn no_reader_ever_sees_parts_of_two_allocations() {
    let mut writer = PageWriter::create().unwrap();
    let clients = [open(&writer), open(&writer)];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| {
                let mut last_seen = 0;
                while !done.load(Ordering::Relaxed) {
                    let Some(read) = client.allocation() else {
                        continue;
                    };
                    let Allocation {
                        cpu_count,
                        max_team,
                        cpus,
                        node_mask,
                        ..
                    } = read.fields;
                    assert_eq!(max_team, cpu_count);
                    assert_eq!(node_mask, u64::from(cpu_count));
                    assert_eq!(cpus.count(), cpu_count);
                    assert!(
                        read.sequence >= last_seen,
                        "an earlier allocation came back"
                    );
                    last_seen = read.sequence;
                }
            });
        }
        for round in 0..20_000_u32 {
            let count = 1 + round % 100;
            writer.publish(&Allocation {
                cpu_count: count,
                max_team: count,
                // Spread over the words of the mask.
                cpus: CpuMask::from_cpus((0..count).map(|cpu| cpu * 40)).unwrap(),
                node_mask: u64::from(count),
                ..Allocation::default()
            });
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_daemon_that_takes_a_page_over_continues_where_the_last_one_died() {
    let mut writer = PageWriter::create().unwrap();
    let client = open(&writer);
    writer.publish(&Allocation {
        cpu_count: 2,
        ..Allocation::default()
    });
    // The daemon dies while it writes: the sequence number stays odd.
    pwrite(&writer, &3_u32.to_ne_bytes(), 128).unwrap();
    assert_eq!(client.allocation(), None);
    let fd = writer.as_fd().try_clone_to_owned().unwrap();
    let mut heir = PageWriter::adopt(fd, writer.token()).unwrap();
    heir.publish(&Allocation {
        cpu_count: 1,
        ..Allocation::default()
    });
    assert_eq!(client.allocation().unwrap().fields.cpu_count, 1);
}

#[test]
fn what_the_application_writes_into_the_sequence_number_does_not_lead_the_daemon_astray() {
    let mut writer = PageWriter::create().unwrap();
    pwrite(&writer, &0xffff_fff1_u32.to_ne_bytes(), 128).unwrap();
    assert_eq!(writer.publish(&Allocation::default()).get(), 1);
    assert!(open(&writer).allocation().is_some());
}

fn owner(thread: u32) -> SlotOwner {
    SlotOwner { process: 7, thread }
}

#[test]
fn progress_is_the_sum_over_all_threads_ever() {
    let writer = PageWriter::create().unwrap();
    let reader = writer.reader().unwrap();
    let client = open(&writer);
    let claims = [1, 2, 3].map(|thread| client.claim_slot(owner(thread), |_| false));
    for (thread, claim) in (1_u32..).zip(&claims) {
        assert_eq!(claim.sharing, SlotSharing::Own);
        claim.add(&claim.slot.regions, 2);
        claim.add(&claim.slot.iterations, 10);
        claim
            .slot
            .region
            .store(u64::from(thread), Ordering::Relaxed);
        claim
            .slot
            .last_progress_ns
            .store(u64::from(100 + thread), Ordering::Relaxed);
    }
    client.release_slot(claims[1], owner(2));
    let progress = reader.progress(1000);
    assert_eq!(
        (progress.regions, progress.iterations, progress.threads),
        (6, 30, 2)
    );
    assert_eq!((progress.last_progress_ns, progress.region), (103, 3));
    // The next thread goes on in the slot that was given back.
    let claim = client.claim_slot(owner(4), |_| false);
    assert_eq!(claim.slot.regions.load(Ordering::Relaxed), 2);
    claim.add(&claim.slot.regions, 1);
    let later = reader.progress(1000);
    assert_eq!(later.since(&progress).regions, 1);
    assert_eq!(progress.since(&later).regions, 0);
}

#[test]
fn a_process_knows_whether_another_one_has_threads_on_its_page() {
    let writer = PageWriter::create().unwrap();
    let client = open(&writer);
    assert!(!client.has_other_processes(7));
    let own = client.claim_slot(owner(1), |_| false);
    assert!(!client.has_other_processes(7));
    assert!(client.has_other_processes(8));
    let other = SlotOwner {
        process: 8,
        thread: 2,
    };
    let others = client.claim_slot(other, |_| false);
    assert!(client.has_other_processes(7));
    client.release_slot(others, other);
    assert!(!client.has_other_processes(7));
    client.release_slot(own, owner(1));
    assert!(!client.has_other_processes(8));
}

#[test]
fn what_a_program_left_that_has_become_another_one_is_cleared_away_and_nothing_else() {
    let writer = PageWriter::create().unwrap();
    let client = open(&writer);
    let report = client.report();
    let say = |preemptions| {
        let parking_ended = ReportFlags::PARKING_ENDED | ReportFlags::WAIT_MEASURED;
        report.flags.store(parking_ended.bits(), Ordering::Relaxed);
        report.teams_off.store(5, Ordering::Relaxed);
        report.preemptions.store(preemptions, Ordering::Relaxed);
    };
    let said = || {
        (
            report.flags.load(Ordering::Relaxed),
            report.teams_off.load(Ordering::Relaxed),
            report.preemptions.load(Ordering::Relaxed),
        )
    };
    let other = SlotOwner {
        process: 8,
        thread: 2,
    };
    let process = owner(1).process;
    let _ = client.claim_slot(owner(1), |_| false);
    let _ = client.claim_slot(owner(2), |_| false);
    let others = client.claim_slot(other, |_| false);
    say(3);
    // What a page says that another process uses as well may be said of that one.
    let before = said();
    client.discard(&client.leftovers(process, |_| false));
    assert_eq!((client.threads(), said()), (1, before));
    // What is said between the look and the clearing is said of the present program.
    let _ = client.claim_slot(owner(1), |_| false);
    let leftovers = client.leftovers(process, |process| process == 8);
    report.preemptions.fetch_add(2, Ordering::Relaxed);
    report.teams_off.store(6, Ordering::Relaxed);
    client.discard(&leftovers);
    assert_eq!(client.threads(), 1);
    client.release_slot(others, other);
    assert_eq!(client.threads(), 0);
    assert_eq!(said(), (ReportFlags::WAIT_MEASURED.bits(), 6, 2));
}

#[test]
fn threads_that_find_no_slot_share_the_last_one_and_lose_nothing() {
    let writer = PageWriter::create().unwrap();
    let reader = writer.reader().unwrap();
    let client = open(&writer);
    let claims: Vec<_> = (1..=SLOT_COUNT as u32 + 20)
        .map(|thread| client.claim_slot(owner(thread), |_| false))
        .collect();
    let shared: Vec<_> = claims
        .iter()
        .filter(|claim| claim.sharing == SlotSharing::Shared)
        .collect();
    assert_eq!(shared.len(), 21);
    std::thread::scope(|scope| {
        for claim in claims.iter().rev().take(4) {
            scope.spawn(|| (0..10_000).for_each(|_| claim.add(&claim.slot.regions, 1)));
        }
    });
    assert_eq!(reader.progress(0).regions, 40_000);
    assert!(
        reader
            .report()
            .flags
            .contains(mapper_abi::ReportFlags::SLOTS_EXHAUSTED)
    );
    // Once the process is gone, others get slots of their own again.
    let gone = |process| process == 7;
    assert_eq!(
        client.claim_slot(owner(1), |_| false).sharing,
        SlotSharing::Shared
    );
    assert_eq!(client.claim_slot(owner(1), gone).sharing, SlotSharing::Own);
    assert_eq!(
        client.claim_slot(owner(1), |_| false).sharing,
        SlotSharing::Own
    );
}

#[test]
fn threads_that_come_and_go_at_once_never_own_the_same_slot() {
    let writer = PageWriter::create().unwrap();
    let reader = writer.reader().unwrap();
    let client = open(&writer);
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let client = &client;
            scope.spawn(move || {
                for _ in 0..5_000 {
                    let claim = client.claim_slot(owner(thread), |_| false);
                    assert_eq!(claim.sharing, SlotSharing::Own);
                    claim.add(&claim.slot.regions, 1);
                    client.release_slot(claim, owner(thread));
                }
            });
        }
    });
    let progress = reader.progress(0);
    assert_eq!((progress.regions, progress.threads), (20_000, 0));
}

#[test]
fn a_page_full_of_garbage_yields_bounded_numbers() {
    for byte in [0xff, 0x80, 0x01] {
        let writer = PageWriter::create().unwrap();
        let reader = writer.reader().unwrap();
        pwrite(&writer, &vec![byte; PAGE_BYTES], 0).unwrap();
        let progress = reader.progress(5_000);
        assert!(progress.last_progress_ns <= 5_000);
        assert!(progress.threads as usize <= SLOT_COUNT);
        let report = reader.report();
        assert_eq!(report.runtimes.bits() & !3, 0);
        assert_eq!(report.teams_off, None);
        assert!(progress.since(&progress).regions == 0);
    }
}

#[test]
fn reading_while_the_application_scribbles_stays_bounded() {
    let writer = PageWriter::create().unwrap();
    let reader = writer.reader().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut seed = 1_u64;
            while !done.load(Ordering::Relaxed) {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let offset = (seed >> 33) % (PAGE_BYTES as u64 - 8);
                pwrite(&writer, &seed.to_ne_bytes(), offset).unwrap();
            }
        });
        let mut before = reader.progress(1);
        for now_ns in 0..2_000 {
            let progress = reader.progress(now_ns);
            assert!(progress.last_progress_ns <= now_ns);
            let _ = progress.since(&before);
            let _ = reader.report();
            before = progress;
        }
        done.store(true, Ordering::Relaxed);
    });
}
