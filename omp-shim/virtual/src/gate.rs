//! Who may touch a block of members: its carrier alone, or those who hold the lock. Entering the shim must cost
//! nanoseconds, so this is Dekker's algorithm with the expensive fence on the side of the watcher, which runs rarely:
//!
//! | busy | contested | the block may be touched by |
//! |---|---|---|
//! | no | no | nobody: the carrier runs the program's code |
//! | yes | no | the carrier, without the lock |
//! | no | yes | the holder of the lock |
//! | yes | yes | the holder of the lock, once the carrier has seen `contested` |
//!
//! The carrier sets `busy`, passes half a fence, reads `contested`. The watcher sets `contested`, passes the other half
//! (all threads of the process pass a memory barrier), reads `busy`. Either the carrier sees `contested` and takes the
//! lock, or the watcher sees `busy` and gives up: the carrier is in the shim, hence needs no help.
//!
//! *Invariants.* Only the carrier's OS thread writes `busy` and `visits`. The watcher alone sets `contested`; the
//! watcher or the carrier under the lock clears it. The tests explore all interleavings.

use core::sync::atomic::Ordering;

use super::words::{Native, Word as _, Words};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Others {
    KeepAway,
    MayTouchIt,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Visits(usize);

#[repr(C)]
pub(super) struct Gate<W: Words = Native> {
    visits: W::Number,
    /// The carrier's OS thread is inside the shim, or has no block.
    pub(super) busy: W::Flag,
    contested: W::Flag,
}

impl<W: Words> Default for Gate<W> {
    fn default() -> Self {
        Self {
            visits: 0.into(),
            busy: true.into(),
            contested: false.into(),
        }
    }
}

impl<W: Words> Gate<W> {
    #[inline(always)]
    pub(super) fn comes_in(&self) -> Others {
        self.busy.store(true, Ordering::Relaxed);
        W::light_fence();
        let visits = self.visits.load(Ordering::Relaxed);
        self.visits.store(visits.wrapping_add(1), Ordering::Release);
        match self.contested.load(Ordering::Relaxed) {
            true => Others::MayTouchIt,
            false => Others::KeepAway,
        }
    }

    #[inline(always)]
    pub(super) fn leave(&self) {
        self.busy.store(false, Ordering::Release);
    }

    /// Whether the carrier is inside the shim. For its own OS thread.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Whether others may touch the block. For the carrier while it is in the shim.
    pub(super) fn is_contested(&self) -> bool {
        self.contested.load(Ordering::Relaxed)
    }

    /// Whether others may touch the block from the carrier's next visit on. For the carrier under the lock.
    pub(super) fn set_contested(&self, contested: bool) {
        // Not a store, so that who takes the lock next sees this and not what was swapped in before, as far as `loom` can tell.
        self.contested.swap(contested, Ordering::Relaxed);
    }

    /// How often the carrier has been in the shim; nothing while it is there. For the watcher.
    pub(super) fn look(&self) -> Option<Visits> {
        // In this order: a visit whose number is seen here is seen to be busy, or to be over.
        let visits = self.visits.load(Ordering::Acquire);
        let is_away = !self.busy.load(Ordering::Acquire);
        is_away.then_some(Visits(visits))
    }

    /// Has the lock decide who may touch the block, if the carrier is away; says whether it does. For the watcher.
    pub(super) fn contest(&self) -> bool {
        if self.contested.swap(true, Ordering::SeqCst) {
            return true;
        }
        W::heavy_fence();
        let is_busy = self.busy.load(Ordering::Acquire);
        if is_busy {
            self.contested.store(false, Ordering::Relaxed);
        }
        !is_busy
    }

    /// Whether the carrier is away, and will take the lock when it comes in. For the watcher under the lock.
    pub(super) fn is_left(&self) -> bool {
        self.contested.load(Ordering::Relaxed) && self.look().is_some()
    }

    /// Whether the carrier has not been in the shim since. For the watcher under the lock.
    pub(super) fn is_still(&self, seen: Visits) -> bool {
        self.look() == Some(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::model::{Loom, Unfenced};
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// A block, of which only who may touch it matters.
    struct Block<W: Words> {
        gate: Gate<W>,
        lock: Mutex<()>,
        touched: UnsafeCell<u32>,
    }

    // SAFETY: that nobody touches the cell while another does is what the tests are about; `loom` says so if not.
    unsafe impl<W: Words> Sync for Block<W> {}
    // SAFETY: likewise.
    unsafe impl<W: Words> Send for Block<W> {}

    impl<W: Words> Block<W> {
        fn touch(&self) {
            // SAFETY: `loom` fails the test where anybody else does so at the same time.
            self.touched.with_mut(|touched| unsafe { *touched += 1 });
        }

        fn visit(&self) {
            match self.gate.comes_in() {
                Others::KeepAway => self.touch(),
                Others::MayTouchIt => {
                    let _held = self.lock.lock().unwrap();
                    self.touch();
                    self.gate.set_contested(false);
                }
            }
            self.gate.leave();
        }

        fn help(&self) {
            let Some(seen) = self.gate.look() else { return };
            if self.gate.contest() {
                let _held = self.lock.lock().unwrap();
                if self.gate.is_still(seen) {
                    self.touch();
                }
            }
        }

        fn help_whenever_it_is_away(&self) {
            if self.gate.look().is_some() && self.gate.contest() {
                let _held = self.lock.lock().unwrap();
                if self.gate.is_left() {
                    self.touch();
                }
            }
        }
    }

    fn carrier_and_watcher<W: Words + 'static>(help: fn(&Block<W>)) {
        loom::model(move || {
            let block = Arc::new(Block::<W> {
                gate: Gate::default(),
                lock: Mutex::new(()),
                touched: UnsafeCell::new(0),
            });
            block.gate.leave();
            let carrier = {
                let block = Arc::clone(&block);
                thread::spawn(move || {
                    block.visit();
                    block.visit();
                })
            };
            help(&block);
            carrier.join().unwrap();
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "loom has its own threads")]
    fn in_no_interleaving_is_a_block_touched_by_two_at_once() {
        carrier_and_watcher::<Loom>(Block::help);
        carrier_and_watcher::<Loom>(Block::help_whenever_it_is_away);
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    #[cfg_attr(miri, ignore = "loom has its own threads")]
    fn without_its_half_of_the_fence_a_carrier_may_meet_the_watcher() {
        carrier_and_watcher::<Unfenced>(Block::help);
    }
}
