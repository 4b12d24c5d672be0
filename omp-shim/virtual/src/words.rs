//! Atomic words and fences, in the machine's memory model or in that of `loom`, which explores all interleavings.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use super::kernel;

pub(super) trait Words {
    type Flag: Word<bool>;
    type Number: Word<usize>;
    /// The cheap half of a fence between two threads: it keeps the compiler from changing the order.
    fn light_fence();
    /// The expensive half: all threads of the process pass a memory barrier.
    fn heavy_fence();
}

pub(super) trait Word<T>: From<T> {
    fn load(&self, order: Ordering) -> T;
    fn store(&self, value: T, order: Ordering);
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Makes it `new` if it is `old`; says whether it was.
    fn exchange(&self, old: T, new: T) -> bool;
}

macro_rules! words {
    ($($word:ty: $value:ty),*) => {$(
        impl $crate::words::Word<$value> for $word {
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                self.load(order)
            }

            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                self.store(value, order);
            }

            #[inline(always)]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                self.swap(value, order)
            }

            #[inline(always)]
            fn exchange(&self, old: $value, new: $value) -> bool {
                self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            }
        }
    )*};
}

words!(AtomicBool: bool, AtomicUsize: usize);

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

    words!(AtomicBool: bool, AtomicUsize: usize);

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
