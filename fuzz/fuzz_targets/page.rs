//! The page that a program shares with the daemon: the program may write anything to it at any time.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mapper_abi::layout::{MAX_CPUS, SLOT_COUNT};
use mapper_abi::{Allocation, OwnProgress, PAGE_BYTES, PageReader, PageWriter};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// The daemon's clock, in ns.
const NOW_NS: u64 = 1 << 40;

// The first two bytes say where in the page the others are written.
fuzz_target!(|data: &[u8]| {
    let Some((&place, bytes)) = data.split_first_chunk() else {
        return;
    };
    let offset = usize::from(u16::from_le_bytes(place)) % PAGE_BYTES;
    let writer = PageWriter::create().expect("a page");
    let reader = writer.reader().expect("the page is new");
    let file = File::from(writer.as_fd().try_clone_to_owned().expect("a descriptor"));
    let length = bytes.len().min(PAGE_BYTES - offset);
    file.write_all_at(&bytes[..length], offset as u64)
        .expect("the page is open for writing");

    look(&reader);
    // What a daemon finds that takes over.
    let _ = PageReader::from_fd(&file, writer.token()).map(|reader| look(&reader));
    if let Ok(mut next) = PageWriter::adopt(file.into(), writer.token()) {
        next.publish(&Allocation::default());
    }
});

fn look(reader: &PageReader) {
    let before = reader.progress(NOW_NS);
    assert!(before.threads as usize <= SLOT_COUNT);
    assert!(before.last_progress_ns <= NOW_NS);
    let after = reader.progress(NOW_NS);
    let _ = after.since(&before);
    assert!(reader.report().spare_cpus as usize <= MAX_CPUS);
    let own = reader.own_report(NOW_NS);
    match own.progress {
        Some(OwnProgress::Work { done, at_ns }) => {
            assert!(done.is_finite() && done >= 0.0 && at_ns <= NOW_NS);
        }
        Some(OwnProgress::Latency { latency_ns, at_ns }) => {
            assert!(latency_ns.is_finite() && latency_ns >= 0.0 && at_ns <= NOW_NS);
        }
        None => {}
    }
    if let Some(wish) = own.cpus {
        assert!(wish.least <= wish.most && wish.most.get() as usize <= MAX_CPUS);
    }
}
