//! Atomic words and fences, in the machine's memory model or in that of `loom`, which explores all interleavings.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use super::kernel;

/// A memory model.
pub(super) trait Words {
    /// An atomic flag.
    type Flag: Flag + From<bool>;
    /// An atomic number.
    type Number: Number + From<usize>;
    /// The cheap half of a fence between two threads: it keeps the compiler from changing the order.
    fn light_fence();
    /// The expensive half: all threads of the process pass a memory barrier.
    fn heavy_fence();
}

/// An atomic flag.
pub(super) trait Flag {
    fn load(&self, order: Ordering) -> bool;
    fn store(&self, value: bool, order: Ordering);
    fn swap(&self, value: bool, order: Ordering) -> bool;
}

/// An atomic number.
pub(super) trait Number {
    fn load(&self, order: Ordering) -> usize;
    fn store(&self, value: usize, order: Ordering);
    fn swap(&self, value: usize, order: Ordering) -> usize;
    /// Makes it `new` if it is `old`; says whether it was.
    fn exchange(&self, old: usize, new: usize) -> bool;
}

/// Implements both for the types of a memory model.
macro_rules! words {
    ($flag:ty, $number:ty) => {
        impl $crate::words::Flag for $flag {
            #[inline(always)]
            fn load(&self, order: Ordering) -> bool {
                self.load(order)
            }

            #[inline(always)]
            fn store(&self, value: bool, order: Ordering) {
                self.store(value, order);
            }

            #[inline(always)]
            fn swap(&self, value: bool, order: Ordering) -> bool {
                self.swap(value, order)
            }
        }

        impl $crate::words::Number for $number {
            #[inline(always)]
            fn load(&self, order: Ordering) -> usize {
                self.load(order)
            }

            #[inline(always)]
            fn store(&self, value: usize, order: Ordering) {
                self.store(value, order);
            }

            #[inline(always)]
            fn swap(&self, value: usize, order: Ordering) -> usize {
                self.swap(value, order)
            }

            #[inline(always)]
            fn exchange(&self, old: usize, new: usize) -> bool {
                self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            }
        }
    };
}

words!(AtomicBool, AtomicUsize);

/// The machine's.
pub(super) enum Native {}

impl Words for Native {
    type Flag = AtomicBool;
    type Number = AtomicUsize;

    #[inline(always)]
    fn light_fence() {
        compiler_fence(Ordering::SeqCst);
    }

    fn heavy_fence() {
        kernel::memory_barrier_everywhere();
    }
}

/// That of `loom`: both halves of the fence are whole ones.
#[cfg(test)]
pub(super) mod model {
    use core::sync::atomic::Ordering;
    use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};

    words!(AtomicBool, AtomicUsize);

    pub(crate) enum Loom {}

    impl super::Words for Loom {
        type Flag = AtomicBool;
        type Number = AtomicUsize;

        fn light_fence() {
            fence(Ordering::SeqCst);
        }

        fn heavy_fence() {
            fence(Ordering::SeqCst);
        }
    }

    /// The same with half of the fence missing.
    pub(crate) enum Unfenced {}

    impl super::Words for Unfenced {
        type Flag = AtomicBool;
        type Number = AtomicUsize;

        fn light_fence() {}

        fn heavy_fence() {
            fence(Ordering::SeqCst);
        }
    }
}
