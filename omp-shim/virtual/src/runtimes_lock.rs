//! The locks that a runtime has one of.

use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;

use super::waiting::Lock;

pub(crate) struct RuntimesLock {
    pub(super) lock: Lock,
    /// What its holder holds besides, taken before. For the holder alone.
    pub(super) outer: AtomicPtr<RuntimesLock>,
}

impl RuntimesLock {
    pub(super) const fn new() -> Self {
        Self {
            lock: Lock::new(),
            outer: AtomicPtr::new(null_mut()),
        }
    }
}
