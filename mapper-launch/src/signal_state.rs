//! The signal state the launcher was started with, which the program must get unchanged.
//!
//! The launcher blocks all signals, to read them in turn, and sets SIGCHLD to its default if it was ignored, as the
//! kernel would not report how the program ended. All other dispositions stay as they are: there are no handlers.

use anyhow::Context;
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, raise, sigaction,
};
use std::ffi::c_int;

#[derive(Debug)]
pub(crate) struct SignalState {
    mask: SigSet,
    on_child: SigAction,
}

impl SignalState {
    pub(crate) fn take_over() -> anyhow::Result<Self> {
        let mask = SigSet::all()
            .thread_swap_mask(SigmaskHow::SIG_SETMASK)
            .context("block signals")?;
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // SAFETY: no handler is installed.
        let on_child =
            unsafe { sigaction(Signal::SIGCHLD, &default) }.context("wait for SIGCHLD")?;
        Ok(Self { mask, on_child })
    }

    pub(crate) fn restore(&self) -> nix::Result<()> {
        // SAFETY: the disposition is one that was inherited through exec: default or ignore.
        unsafe { sigaction(Signal::SIGCHLD, &self.on_child) }?;
        self.mask.thread_set_mask()
    }
}

/// Does to this process what a signal does by default, even if it was ignored. Returns after a stop and its end.
pub(crate) fn suffer(signal: c_int) {
    // Terminals send none of the real-time signals, which nix does not know.
    let Ok(signal) = Signal::try_from(signal) else {
        return;
    };
    if signal == Signal::SIGSTOP {
        let _ = raise(signal);
        return;
    }
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: no handler is installed.
    let before = unsafe { sigaction(signal, &default) };
    // The signal is blocked and pending until it is let through. If any of this fails, the process continues.
    let _ = raise(signal);
    let only = SigSet::from(signal);
    let _ = only.thread_unblock();
    let _ = only.thread_block();
    if let Ok(before) = before {
        // SAFETY: as it was before; the launcher has no handlers.
        let _ = unsafe { sigaction(signal, &before) };
    }
}
