//! The OS threads of members: parked, carrying a block, or hosting a member that runs beside its carrier.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use mapper_shim_core::{attachment, thread_state};

use super::context::{self, Base, HandOff};
use super::member::{CALL, CARRY, END, Member, OfMember};
use super::{attendants, proxy_call, team};

/// Room for a parked OS thread's frames and signal handlers, which would else overwrite the member below.
const PARKED_BYTES: usize = 1 << 20;

impl Member {
    fn serve(&'static self) {
        loop {
            match self.mailbox.take(|| team::expected(self)) {
                END => return,
                CARRY => {
                    self.take_up_modes();
                    team::carry(self);
                    self.keep_modes();
                    continue;
                }
                CALL => {
                    // SAFETY: who ordered it waits for the answer.
                    unsafe { proxy_call::run(self.pending_call.load(Ordering::Relaxed)) };
                    continue;
                }
                _ => {}
            }
            // SAFETY: whoever ordered it stored the guest there, suspended, for this OS thread alone.
            let guest = unsafe { &*self.guest.load(Ordering::Relaxed) };
            let to = guest.saved.load(Ordering::Relaxed);
            // SAFETY: likewise.
            unsafe {
                let base = Base::Of(guest.thread_pointer());
                context::switch(&self.parked, to, base, HandOff::silent());
            }
            // SAFETY: set in `send_away` to a carrier whose lock this OS thread holds.
            unsafe { &*self.locked.load(Ordering::Relaxed) }.lock.give();
        }
    }
}

extern "C" fn os_thread(member: *mut c_void) -> *mut c_void {
    // SAFETY: `start_thread` passes the member.
    let member: &'static Member = unsafe { &*member.cast::<Member>() };
    let thread = thread_state::current();
    // While it is itself, so that the slot bears its number.
    let _ = attachment::slot(thread);
    // For handlers before its first region.
    member.lead_itself();
    thread.set_member(Some(member));
    member.adopt_this_thread();
    member.keep_modes();
    let mark = 0_u8;
    let here = core::hint::black_box(&raw const mark) as usize;
    let stack_top = (here - PARKED_BYTES) & !63;
    member.stack_top.store(stack_top, Ordering::Release);
    member.serve();
    member.lose_os_thread();
    thread.set_member(None);
    attendants::goes();
    null_mut()
}

/// Makes the OS thread of a member and waits until it is parked; false if there can be no more. Size 0: the system's.
pub(super) fn start_thread(member: &'static Member, stack_bytes: usize) -> bool {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    attendants::comes();
    // SAFETY: the attributes are initialised before use and destroyed after; the start function
    // matches its argument, which lives for ever.
    let started = unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        let mut size = stack_bytes;
        if size == 0 {
            libc::pthread_attr_getstacksize(attributes.as_ptr(), &raw mut size);
        }
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        // The size is the user's word, and the member's stack begins where the rest has room.
        let started = size
            .checked_add(PARKED_BYTES)
            .and_then(|size| size.checked_next_multiple_of(4096))
            .is_some_and(|size| {
                libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), size) == 0
                    && libc::pthread_create(
                        thread.as_mut_ptr(),
                        attributes.as_ptr(),
                        os_thread,
                        core::ptr::from_ref(member).cast_mut().cast(),
                    ) == 0
            });
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        started
    };
    if !started {
        attendants::goes();
        return false;
    }
    while member.stack_top.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    true
}
