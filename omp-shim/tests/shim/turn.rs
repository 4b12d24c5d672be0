//! Tests that look at the clock have the machine for themselves: a thread that others take the CPU from is waited for,
//! spins for nothing, and is taken to be stuck. All others run beside each other, as many as the test program
//! has threads.
//!
//! A test has its turn until its thread ends; the harness takes one beside others for those that did not ask.

use std::cell::RefCell;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static MACHINE: RwLock<()> = RwLock::new(());

/// The turn of a test, held for what its end does.
enum Turn {
    NotTaken,
    BesideOthers {
        _turn: RwLockReadGuard<'static, ()>,
    },
    Alone {
        _turn: RwLockWriteGuard<'static, ()>,
    },
}

thread_local! {
    static TURN: RefCell<Turn> = const { RefCell::new(Turn::NotTaken) };
}

/// Waits until no other test is alone. Nothing for a test that has a turn.
pub(crate) fn beside_others() {
    TURN.with_borrow_mut(|turn| {
        if matches!(turn, Turn::NotTaken) {
            *turn = Turn::BesideOthers {
                _turn: MACHINE.read().unwrap_or_else(PoisonError::into_inner),
            };
        }
    });
}

/// Waits until no other test runs. To be called before a test starts or compiles anything.
pub(crate) fn alone() {
    TURN.with_borrow_mut(|turn| {
        if !matches!(turn, Turn::Alone { .. }) {
            // The thread of an earlier test, if one thread runs all.
            *turn = Turn::NotTaken;
            *turn = Turn::Alone {
                _turn: MACHINE.write().unwrap_or_else(PoisonError::into_inner),
            };
        }
    });
}
