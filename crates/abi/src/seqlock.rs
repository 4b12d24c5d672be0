//! A sequence lock: one writer, any number of readers, without waiting.
//!
//! *Problem.* The allocation has some 500 bytes. A reader must never see a mixture of two, make the daemon wait, or hang when
//! the daemon dies during a write.
//!
//! *Approach.* The writer makes the sequence number odd, stores the fields, and makes it even again. A reader reads the
//! number, the fields, and the number again; unless both are equal and even it retries, a bounded number of times. Fields
//! are relaxed atomics, so that a torn read is discarded and never a data race. Two fences order them: a *release* fence
//! after the odd store keeps the fields' stores behind it, an *acquire* fence before the second read of the number keeps the
//! fields' loads before it.
//!
//! *Invariants.* A successful read returns the fields of exactly one write. A writer that died during a write leaves readers
//! with `None`. The number wraps after 2³¹ writes, more than a year at fifty decisions a second; a wrong read would need a
//! reader that sleeps exactly that long inside one read.
//!
//! The functions are generic over the word, so that `loom` can explore all interleavings.

use core::sync::atomic::{AtomicU32, Ordering, fence};

/// The 32-bit atomic that holds the sequence number.
pub trait SequenceWord {
    /// Reads the number.
    fn load(&self, order: Ordering) -> u32;
    /// Writes the number.
    fn store(&self, value: u32, order: Ordering);
    /// A fence of the same memory model.
    fn fence(order: Ordering);
}

impl SequenceWord for AtomicU32 {
    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    #[inline]
    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }

    #[inline]
    fn fence(order: Ordering) {
        fence(order);
    }
}

/// Fields and the sequence number they were published under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamped<T> {
    /// The even sequence number.
    pub sequence: u32,
    /// What was read.
    pub fields: T,
}

/// Publishes what `store_fields` stores (with relaxed stores) after sequence number `current` and returns the new, even one.
/// There must be one writer at a time; it passes the number it got last, so that the shared memory is not trusted.
pub fn publish<W: SequenceWord>(word: &W, current: u32, store_fields: impl FnOnce()) -> u32 {
    let writing = current.wrapping_add(1) | 1;
    word.store(writing, Ordering::Relaxed);
    W::fence(Ordering::Release);
    store_fields();
    let done = writing.wrapping_add(1);
    word.store(done, Ordering::Release);
    done
}

/// Reads fields with `load_fields` (relaxed loads) until they are consistent, at most `attempts` times.
pub fn read<W: SequenceWord, T>(
    word: &W,
    attempts: u32,
    mut load_fields: impl FnMut() -> T,
) -> Option<Stamped<T>> {
    for _ in 0..attempts {
        let before = word.load(Ordering::Acquire);
        if before % 2 == 1 {
            core::hint::spin_loop();
            continue;
        }
        let fields = load_fields();
        W::fence(Ordering::Acquire);
        if word.load(Ordering::Relaxed) == before {
            return Some(Stamped {
                sequence: before,
                fields,
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic as model;
    use loom::thread;

    impl SequenceWord for model::AtomicU32 {
        fn load(&self, order: Ordering) -> u32 {
            self.load(order)
        }

        fn store(&self, value: u32, order: Ordering) {
            self.store(value, order);
        }

        fn fence(order: Ordering) {
            model::fence(order);
        }
    }

    #[derive(Default)]
    struct Shared {
        word: model::AtomicU32,
        left: model::AtomicU32,
        right: model::AtomicU32,
    }

    impl Shared {
        fn publish(&self, current: u32, value: u32) -> u32 {
            publish(&self.word, current, || {
                self.left.store(value, Ordering::Relaxed);
                self.right.store(value, Ordering::Relaxed);
            })
        }

        fn read(&self) -> Option<Stamped<(u32, u32)>> {
            // One attempt: a second one explores the same interleavings again, which takes long.
            read(&self.word, 1, || {
                (
                    self.left.load(Ordering::Relaxed),
                    self.right.load(Ordering::Relaxed),
                )
            })
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "loom switches stacks")]
    fn in_no_interleaving_does_a_reader_see_parts_of_two_writes() {
        loom::model(|| {
            let shared = Arc::new(Shared::default());
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let sequence = shared.publish(0, 1);
                    shared.publish(sequence, 2);
                })
            };
            if let Some(seen) = shared.read() {
                let (left, right) = seen.fields;
                assert_eq!(left, right, "torn read");
                assert_eq!(seen.sequence, 2 * left, "fields of another generation");
            }
            writer.join().unwrap();
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "loom switches stacks")]
    fn a_reader_never_goes_back_to_an_earlier_write() {
        loom::model(|| {
            let shared = Arc::new(Shared::default());
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.publish(0, 1);
                })
            };
            let first = shared.read();
            let second = shared.read();
            if let (Some(first), Some(second)) = (first, second) {
                assert!(second.sequence >= first.sequence);
            }
            writer.join().unwrap();
            assert_eq!(shared.read().map(|seen| seen.fields), Some((1, 1)));
        });
    }

    #[test]
    fn a_writer_that_died_halfway_yields_no_value_rather_than_a_wait() {
        let word = AtomicU32::new(7);
        assert_eq!(read(&word, 100, || 1), None);
    }

    #[test]
    fn a_successor_of_a_half_finished_write_is_even() {
        let word = AtomicU32::new(7);
        assert_eq!(publish(&word, 7, || {}), 10);
        assert_eq!(publish(&word, u32::MAX - 1, || {}), 0);
    }
}
