//! State of a thread that hardly any program looks at, and that belongs to the OS thread: the x87 unit's flags, the
//! signals that it blocks, its alternate stack for handlers. Keeping it costs more than a change of members.
//!
//! *Approach.* It is kept only where the program can tell: flags if a module imports a function that reads them
//! ([`note_import`]); signals from the first call by a member of a function that changes them, which is exported here.
//! From then on each context notes its state before it is left and takes it up when it is continued. For contexts left
//! before, it is what was in force before that call. (Python's interpreter imports such functions, so they cannot be
//! refused.)
//!
//! *Bounds.* Inline assembly that reads the flags is not noticed. Between a change of members and taking the mask up, a
//! few instructions later, a signal may be handled that the member blocks.

use core::ffi::{CStr, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use mapper_shim_core::thread_state;

use super::c_library::in_place_of_c_library;
use super::kernel::{self, SignalMask};

static WANTED: AtomicU32 = AtomicU32::new(0);
const FLAGS: u32 = 1;
const SIGNALS: u32 = 2;

/// The mask of contexts that were left before masks were kept.
static MASK_BEFORE: AtomicU64 = AtomicU64::new(0);

/// The exception flags in the x87 unit's status word.
const EXCEPTIONS: u16 = 0x3f;

#[inline(always)]
pub(super) fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed) != 0
}

const FLAG_FUNCTIONS: &str = "fetestexcept feraiseexcept feclearexcept fegetexceptflag fesetexceptflag \
    fegetenv fesetenv feholdexcept feupdateenv";

pub(super) fn note_import(name: &CStr) {
    let name = name.to_bytes();
    let reads_flags = name.starts_with(b"__ieee_exceptions_MOD_")
        || name.starts_with(b"_gfortran_ieee_")
        || FLAG_FUNCTIONS
            .split_ascii_whitespace()
            .any(|function| function.as_bytes() == name);
    if reads_flags {
        WANTED.fetch_or(FLAGS, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy)]
pub(super) struct Preserved {
    flags: u16,
    mask: Option<SignalMask>,
    stack: libc::stack_t,
}

impl Preserved {
    /// What a context that was left unnoticed has.
    fn unnoticed() -> Self {
        Self {
            flags: 0,
            mask: Some(SignalMask(MASK_BEFORE.load(Ordering::Relaxed))),
            stack: NO_STACK,
        }
    }

    pub(super) fn of_this_thread() -> Self {
        let wanted = WANTED.load(Ordering::Acquire);
        let mut preserved = Self {
            flags: 0,
            mask: None,
            stack: NO_STACK,
        };
        if wanted & FLAGS != 0 {
            preserved.flags = flags();
        }
        if wanted & SIGNALS != 0 {
            preserved.mask = Some(kernel::signal_mask());
            preserved.stack = kernel::alternate_stack(NO_STACK);
        }
        preserved
    }

    /// The calling thread leaves its context for one that noted nothing yet or will take up what it noted.
    pub(super) fn is_left(&self) {
        if self.mask.is_some() {
            let unnoticed = Self::unnoticed();
            self.exchange_signals(&unnoticed);
        }
    }

    pub(super) fn take_up(&self) {
        let wanted = WANTED.load(Ordering::Acquire);
        if wanted & FLAGS != 0 && flags() != self.flags {
            set_flags(self.flags);
        }
        if wanted & SIGNALS != 0 {
            Self::of_this_thread().exchange_signals(self);
        }
    }

    fn exchange_signals(&self, others: &Self) {
        if let Some(mask) = others.mask
            && self.mask != others.mask
        {
            kernel::set_signal_mask(mask);
        }
        let (old, new) = (&self.stack, &others.stack);
        if old.ss_sp != new.ss_sp || old.ss_size != new.ss_size || old.ss_flags != new.ss_flags {
            // Refused on the present one, from which nobody is taken elsewhere.
            kernel::set_alternate_stack(new);
        }
    }
}

#[derive(Default)]
pub(super) struct PreservedState {
    flags: AtomicU16,
    mask: AtomicU64,
    noticed: AtomicU32,
    stack: AtomicPtr<c_void>,
    stack_bytes: AtomicUsize,
    stack_flags: AtomicU32,
}

impl PreservedState {
    #[inline(always)]
    pub(super) fn keep(&self) {
        if is_wanted() {
            self.store(Preserved::of_this_thread());
        }
    }

    #[inline(always)]
    pub(super) fn take_up(&self) {
        if is_wanted() {
            self.load().take_up();
        }
    }

    #[cold]
    fn store(&self, preserved: Preserved) {
        self.flags.store(preserved.flags, Ordering::Relaxed);
        if let Some(SignalMask(mask)) = preserved.mask {
            self.mask.store(mask, Ordering::Relaxed);
            self.stack.store(preserved.stack.ss_sp, Ordering::Relaxed);
            self.stack_bytes
                .store(preserved.stack.ss_size, Ordering::Relaxed);
            self.stack_flags
                .store(preserved.stack.ss_flags.cast_unsigned(), Ordering::Relaxed);
            self.noticed.store(1, Ordering::Relaxed);
        }
    }

    #[cold]
    fn load(&self) -> Preserved {
        let mut preserved = Preserved {
            flags: self.flags.load(Ordering::Relaxed),
            ..Preserved::unnoticed()
        };
        if self.noticed.load(Ordering::Relaxed) != 0 {
            preserved.mask = Some(SignalMask(self.mask.load(Ordering::Relaxed)));
            preserved.stack.ss_sp = self.stack.load(Ordering::Relaxed);
            preserved.stack.ss_size = self.stack_bytes.load(Ordering::Relaxed);
            preserved.stack.ss_flags = self.stack_flags.load(Ordering::Relaxed).cast_signed();
        }
        preserved
    }
}

const NO_STACK: libc::stack_t = libc::stack_t {
    ss_sp: null_mut(),
    ss_flags: libc::SS_DISABLE,
    ss_size: 0,
};

fn flags() -> u16 {
    let status: u16;
    // SAFETY: reads a register of the calling thread's.
    unsafe {
        core::arch::asm!("fnstsw ax", out("ax") status, options(nomem, nostack, preserves_flags));
    }
    status & EXCEPTIONS
}

/// Sets them. The unit's registers are empty, as they are wherever a function is called.
fn set_flags(flags: u16) {
    /// Which word of the unit's environment the control word is, and which the status word.
    const CONTROL: usize = 0;
    const STATUS: usize = 2;
    let mut environment = [0_u16; 14];
    let mut control = 0_u16;
    // SAFETY: both write what the ABI says to places of this function's own.
    unsafe {
        core::arch::asm!(
            "fnstcw word ptr [{control}]",
            "fnstenv [{environment}]",
            control = in(reg) &raw mut control,
            environment = in(reg) environment.as_mut_ptr(),
            options(nostack, preserves_flags),
        );
    }
    environment[CONTROL] = control;
    environment[STATUS] = environment[STATUS] & !EXCEPTIONS | flags;
    // SAFETY: it is as the unit stored it, but for the flags.
    unsafe {
        core::arch::asm!(
            "fldenv [{0}]",
            in(reg) environment.as_ptr(),
            options(nostack, preserves_flags, readonly),
        );
    }
}

/// A member is about to change what concerns its signals: from here on that is kept.
fn note_change() {
    if thread_state::current().member.get().is_some()
        && WANTED.load(Ordering::Relaxed) & SIGNALS == 0
    {
        let SignalMask(mask) = kernel::signal_mask();
        MASK_BEFORE.store(mask, Ordering::Relaxed);
        WANTED.fetch_or(SIGNALS, Ordering::Release);
    }
}

in_place_of_c_library! {
    |real| {
        if !set.is_null() {
            note_change();
        }
        real()
    };
    pthread_sigmask(how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t);
    sigprocmask(how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t);
    sigaltstack(set: *const libc::stack_t, old: *mut libc::stack_t);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context;

    #[test]
    #[cfg_attr(miri, ignore = "has inline assembly")]
    fn flags_are_set_and_nothing_else_is() {
        let before = context::modes();
        for wanted in [EXCEPTIONS, 0, 1 << 2] {
            set_flags(wanted);
            assert_eq!(flags(), wanted);
        }
        set_flags(0);
        assert_eq!(context::modes(), before);
    }

    #[test]
    #[cfg_attr(miri, ignore = "has inline assembly")]
    fn a_context_takes_up_the_signals_settings_that_it_noted() {
        // Of this test alone, so that no other one's contexts do more than they must.
        let noted = |mask, ss_size| Preserved {
            flags: 0,
            mask: Some(mask),
            stack: libc::stack_t {
                ss_size,
                ..NO_STACK
            },
        };
        let SignalMask(before) = kernel::signal_mask();
        let other = SignalMask(before ^ 1 << (libc::SIGUSR2 - 1));
        noted(SignalMask(before), 0).exchange_signals(&noted(other, 0));
        assert_eq!(kernel::signal_mask(), other);
        noted(other, 0).exchange_signals(&noted(SignalMask(before), 0));
        assert_eq!(kernel::signal_mask(), SignalMask(before));
    }
}
