//! Keeps panics inside the shim.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; `None` if it panics. For the rare paths that allocate or parse: panics must not reach the program.
pub fn shielded<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_nothing() {
        assert_eq!(shielded(|| Some(1)), Some(1));
        assert_eq!(shielded::<()>(|| panic!("a panic on purpose")), None);
    }
}
