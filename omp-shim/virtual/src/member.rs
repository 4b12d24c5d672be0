//! Logical threads, each with the OS thread whose stack and thread-local storage it has.
//!
//! *Terms.* A team of *n* logical threads is cut into *k* contiguous *blocks*, one for each CPU. The first member of a
//! block is its *lead*; the lead's OS thread *carries* the block: it runs its members in turn. The OS threads of the
//! others are parked; they provide stack and storage: one `errno`, one set of thread-local and threadprivate variables,
//! one `pthread_self`, a stack that `pthread_getattr_np` knows. A member that has to run beside its carrier
//! (`liveness`) is *hosted* by a parked OS thread until it next waits for others. With shared storage (`storage`) the
//! members of a block run under a donor's thread pointer, and one that begins when another is through does so on that
//! one's stack.
//!
//! *Invariants.* Member 0 is the thread that begins the regions; its OS thread is never parked. The other OS threads
//! are made when first needed and end with the first member's, which owns the pool; no region runs then. A member runs in one place at a time: on its carrier or its host.

use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use mapper_shim_core::pass_on;
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::thread_state::{self, Logical, ThreadState};

use super::block::Carrier;
use super::context::{self, Base, HandOff, Modes, Saved};
use super::preserved::PreservedState;
use super::runtimes_lock::RuntimesLock;
use super::share::Share;
use super::tasks::Execution;
use super::thread_pointer::{self, ThreadPointer};
use super::waiting::Mailbox;
use super::{kernel, proxy_call};

/// What a member is doing: one of the constants, or waiting at a barrier of its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State(u32);

impl State {
    /// It has not begun the region yet.
    pub(super) const UNSTARTED: Self = Self(0);
    pub(super) const READY: Self = Self(1);
    pub(super) const RUNNING: Self = Self(2);
    pub(super) const DONE: Self = Self(3);

    /// It waits at the barrier after so many passed ones of its block.
    #[inline(always)]
    pub(super) const fn waiting(barriers_passed: u32) -> Self {
        Self(barriers_passed | 4)
    }
}

/// What the number of barriers passed goes up by, so that it leaves room for the other states.
pub(super) const BARRIER: u32 = 8;

#[derive(Default)]
#[repr(C, align(128))]
pub(crate) struct Member {
    pub(super) id: u32,
    state: AtomicU32,
    lead: AtomicPtr<Member>,
    /// The one that follows it there, the first after the last.
    next: AtomicPtr<Member>,
    /// The member whose OS thread runs it beside its carrier; null otherwise.
    host: AtomicPtr<Member>,
    pub(super) saved: Saved,
    thread_pointer: AtomicUsize,
    os_thread: AtomicI32,
    modes: AtomicU64,
    /// What else it has, for programs that look at it.
    pub(super) preserved_state: PreservedState,
    /// Where its stack begins when its OS thread is parked.
    pub(super) stack_top: AtomicUsize,
    /// Worksharing constructs it has entered, in the life of the pool.
    pub(super) shares_entered: AtomicU64,
    pub(super) share: AtomicPtr<Share>,
    /// Static chunks it has had there.
    pub(super) trips: AtomicU64,
    /// Its chunk of an ordered loop, as numbers of iterations; empty if it has none.
    pub(super) chunk_first: AtomicU64,
    pub(super) chunk_last: AtomicU64,
    pub(super) singles_met: AtomicU32,
    /// The task that it executes; null before it has made one.
    pub(super) execution: AtomicPtr<Execution>,
    /// The lock of a runtime that it took last and has not given back.
    pub(super) held: AtomicPtr<RuntimesLock>,
    /// Which of the program's settings its copy in the runtime holds.
    pub(super) settings_seen: AtomicU32,
    /// The runtime in which it does.
    pub(super) settings_runtime: AtomicUsize,

    pub(super) carried: AtomicU32,
    pub(super) mailbox: Mailbox,
    pub(super) guest: AtomicPtr<Member>,
    /// What its OS thread is to call for it.
    pub(super) pending_call: AtomicPtr<c_void>,
    /// Where its OS thread goes on once its guest waits.
    pub(super) parked: Saved,
    /// The carrier whose lock its OS thread gives back when it gets there.
    pub(super) locked: AtomicPtr<Carrier>,
    pub(super) carrier: Carrier,
}

/// Access to the members that the core's thread state refers to without knowing them.
pub(crate) trait OfMember {
    fn member(&self) -> Option<&'static Member>;
    fn outer_member(&self) -> Option<&'static Member>;
    fn set_member(&self, member: Option<&'static Member>);
}

impl OfMember for ThreadState {
    #[inline(always)]
    fn member(&self) -> Option<&'static Member> {
        self.member.get().map(Member::of)
    }

    #[inline(always)]
    fn outer_member(&self) -> Option<&'static Member> {
        self.outer.get().map(Member::of)
    }

    #[inline(always)]
    fn set_member(&self, member: Option<&'static Member>) {
        self.member
            .set(member.map(|member| NonNull::from(member).cast()));
    }
}

#[inline(always)]
pub(super) fn member_for(thread: &ThreadState, symbol: Symbol) -> Option<&'static Member> {
    pass_on::member_for(thread, symbol).map(Member::of)
}

/// Exports functions: the first expression answers for members of virtual teams, the second for all others.
macro_rules! for_members {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $([$quick:ident => $first:expr])?:
        |$member:ident| $own:expr, |$thread:ident, $real:ident| $other:expr;)*) => {
        mapper_shim_core::pass_on::pass_on! {$(
            $name($($argument: $type),*) $(-> $result)? $([$quick => $first])?: |$thread, $real|
                match $crate::member::member_for($thread, mapper_shim_core::symbols::Symbol::$name) {
                    Some($member) => $own,
                    None => $other,
                };
        )*}
    };
}
pub(super) use for_members;

/// No region is numbered so before four thousand million have begun.
const NEVER: u32 = u32::MAX;

pub(super) const CARRY: u32 = 2;
pub(super) const HOST: u32 = 3;
pub(super) const END: u32 = 4;
pub(super) const CALL: u32 = 5;

impl Member {
    /// The one that the shim's core knows so.
    #[inline(always)]
    pub(super) fn of(logical: Logical) -> &'static Self {
        // SAFETY: only `set_member` makes a thread a logical one; members are never freed.
        unsafe { logical.cast::<Self>().as_ref() }
    }

    pub(super) fn new(id: u32) -> Self {
        Self {
            id,
            state: AtomicU32::new(State::DONE.0),
            carried: AtomicU32::new(NEVER),
            ..Self::default()
        }
    }

    #[inline(always)]
    pub(super) fn state(&self) -> State {
        State(self.state.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(super) fn set(&self, State(state): State) {
        self.state.store(state, Ordering::Relaxed);
    }

    /// Whether it could run if it got a CPU, its block having passed so many barriers.
    #[inline(always)]
    pub(super) fn is_runnable(&self, barriers_passed: u32) -> bool {
        let State(state) = self.state();
        state <= State::READY.0
            || (state > State::DONE.0 && state != State::waiting(barriers_passed).0)
    }

    #[inline(always)]
    pub(super) fn lead(&self) -> &'static Member {
        // SAFETY: set by `join` before the member runs; members are never freed.
        unsafe { &*self.lead.load(Ordering::Relaxed) }
    }

    #[inline(always)]
    pub(super) fn next(&self) -> &'static Member {
        // SAFETY: as for `lead`.
        unsafe { &*self.next.load(Ordering::Relaxed) }
    }

    /// Whether its context lies where it was left, unless its carrier waits for news in it.
    pub(super) fn is_suspended(&'static self) -> bool {
        let State(state) = self.state();
        let waits = state == State::READY.0 || state > State::DONE.0;
        self.host().is_none() && (waits || (state == State::DONE.0 && self.is_lead()))
    }

    #[inline(always)]
    pub(super) fn is_lead(&'static self) -> bool {
        core::ptr::eq(self.lead.load(Ordering::Relaxed), self)
    }

    #[inline(always)]
    pub(super) fn host(&self) -> Option<&'static Member> {
        // SAFETY: null or a member, and members are never freed.
        unsafe { self.host.load(Ordering::Relaxed).as_ref() }
    }

    #[inline(always)]
    pub(super) fn set_host(&self, host: Option<&'static Member>) {
        let host = host.map_or(null_mut(), |host| core::ptr::from_ref(host).cast_mut());
        self.host.store(host, Ordering::Relaxed);
    }

    pub(super) fn thread_pointer(&self) -> ThreadPointer {
        ThreadPointer(self.thread_pointer.load(Ordering::Relaxed))
    }

    pub(super) fn adopt_this_thread(&self) {
        let ThreadPointer(pointer) = thread_pointer::current();
        self.thread_pointer.store(pointer, Ordering::Relaxed);
        self.os_thread
            .store(kernel::thread_number(), Ordering::Relaxed);
    }

    /// It executes no task any more, as its pool ends.
    pub(super) fn drop_execution(&self) {
        let execution = self.execution.swap(null_mut(), Ordering::Relaxed);
        if !execution.is_null() {
            // SAFETY: `tasks` has made it for this member alone, and no region runs.
            drop(unsafe { Box::from_raw(execution) });
        }
    }

    /// Its OS thread ends, and its number may become another's.
    pub(super) fn lose_os_thread(&self) {
        self.os_thread.store(0, Ordering::Relaxed);
    }

    pub(super) fn os_thread(&self) -> libc::pid_t {
        self.os_thread.load(Ordering::Relaxed)
    }

    pub(super) fn keep_modes(&self) {
        self.modes.store(context::modes().0, Ordering::Relaxed);
        self.preserved_state.keep();
    }

    pub(super) fn take_up_modes(&self) {
        context::set_modes(Modes(self.modes.load(Ordering::Relaxed)));
        self.preserved_state.take_up();
    }

    /// Its context's `errno` becomes its storage's. Safety: it is suspended, and nothing runs under its thread pointer.
    pub(super) unsafe fn take_errno_along(&self) {
        // SAFETY: as the caller promises; its OS thread is there while a region runs.
        unsafe {
            self.thread_pointer()
                .take_errno(self.saved.load(Ordering::Relaxed));
        }
    }

    /// Has the calling OS thread, which runs it, continue in its own storage. Safety: nothing runs there. References to
    /// the calling thread's state must not be used any more.
    pub(super) unsafe fn move_to_own_storage(&self) {
        let chunk = thread_state::current().enter_region();
        // SAFETY: as the caller promises.
        unsafe { self.thread_pointer().put_in_force() };
        thread_state::current().leave_region(chunk);
    }

    /// Has the calling OS thread go on as this member, which begins a region in storage that is not its own.
    pub(super) fn take_turn(&self) {
        self.take_up_modes();
        // SAFETY: its OS thread is there, and nobody runs under its thread pointer but while parked.
        unsafe { self.thread_pointer().lend_errno() };
    }

    /// It has joined no block yet.
    pub(super) fn lead_itself(&'static self) {
        let pointer = core::ptr::from_ref(self).cast_mut();
        self.lead.store(pointer, Ordering::Relaxed);
        self.next.store(pointer, Ordering::Relaxed);
    }

    pub(super) fn has_ordered_chunk(&self) -> bool {
        self.chunk_first.load(Ordering::Relaxed) != self.chunk_last.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn join(&self, [lead, next]: [&'static Self; 2], shares_entered: u64, singles: u32) {
        self.set(State::UNSTARTED);
        let pointer = |member: &'static Member| core::ptr::from_ref(member).cast_mut();
        self.lead.store(pointer(lead), Ordering::Relaxed);
        self.next.store(pointer(next), Ordering::Relaxed);
        self.shares_entered.store(shares_entered, Ordering::Relaxed);
        self.singles_met.store(singles, Ordering::Relaxed);
    }

    pub(super) fn make_context(
        &'static self,
        start: unsafe extern "C-unwind" fn(*const c_void) -> !,
    ) {
        // SAFETY: the OS thread is parked and uses only the stack above; the last region, which used the stack below, is
        // over for this member.
        let context = unsafe {
            context::fresh(
                self.stack_top.load(Ordering::Relaxed),
                Modes(self.modes.load(Ordering::Relaxed)),
                self.thread_pointer(),
                start,
                core::ptr::from_ref(self).cast(),
            )
        };
        self.saved.store(context, Ordering::Relaxed);
    }

    /// Leaves this member's context for that of `other`, which runs next on this OS thread. Safety: `self` runs here;
    /// `other` is suspended, for this OS thread alone. Under `base` nothing else runs.
    #[inline(always)]
    pub(super) unsafe fn switch_to(&self, other: &Member, base: Base, hand_off: HandOff) {
        let to = other.saved.load(Ordering::Relaxed);
        // SAFETY: as the caller promises; the OS thread of `other` is there while a region runs.
        unsafe { context::switch(&self.saved, to, base, hand_off) };
    }

    pub(super) fn receive(&'static self, guest: &'static Member) {
        guest.set(State::RUNNING);
        guest.set_host(Some(self));
        self.guest
            .store(core::ptr::from_ref(guest).cast_mut(), Ordering::Relaxed);
        self.mailbox.post(HOST);
    }

    /// Has its OS thread, which is parked and gets no other order meanwhile, make a call of the C library.
    pub(super) fn have_called(&self, call: &dyn Fn() -> c_int) -> c_int {
        proxy_call::by_order(call, |order| {
            self.pending_call.store(order, Ordering::Relaxed);
            self.mailbox.post(CALL);
        })
    }

    /// The guest of this OS thread has stopped: parks it, and then releases the lock of `carrier`, which the caller
    /// holds. Returns when the guest is continued. Safety: `guest` runs on the OS thread of `self`; its state says that
    /// it does not run any more.
    pub(super) unsafe fn send_away(&self, guest: &Member, carrier: &Carrier) {
        guest.set_host(None);
        self.locked
            .store(core::ptr::from_ref(carrier).cast_mut(), Ordering::Relaxed);
        let to = self.parked.load(Ordering::Relaxed);
        // SAFETY: the OS thread left that context when it took the guest in.
        unsafe {
            let base = Base::Of(self.thread_pointer());
            context::switch(&guest.saved, to, base, HandOff::silent());
        }
    }
}
