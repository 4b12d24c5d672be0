//! Running the members of a block in turn on one OS thread.
//!
//! *Approach.* A change of members at a barrier must cost nanoseconds. Usually only the carrier's OS thread touches the
//! block, without atomic instructions. The watcher (`liveness`) contests that to take suspended members away
//! ([`super::gate`]); from then on both sides take the lock. A lock that is held while members change is released after
//! the change, by [`super::block::landed`] or by a host's OS thread once it is parked again.
//!
//! *Storage.* A block with shared thread-local storage (`storage`) runs under a donor's thread pointer; a member that
//! runs beside its carrier does so under its own, as all do once a member claims its storage ([`claim_storage`]). So no
//! member ever runs under another member's thread pointer.
//!
//! *Invariants.* `contested` holds while members of the block are on other OS threads; once the program has been given
//! up they stay there until the region ends. The block is complete when every member waits or is done; only the
//! carrier's OS thread acts on that.

mod ending;
mod lending;

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

pub(super) use ending::{finish, succeed};
pub(super) use lending::{lend_for_tasks, lend_members, look_at, outcome};

use super::block::Carrier;
use super::context::{Base, HandOff};
use super::gate::Others;
use super::member::OfMember;
use super::member::{BARRIER, Member, State};
use super::thread_pointer;
use super::{kernel, pool, region, tasks};
use mapper_shim_core::clock;
use mapper_shim_core::thread_state::{self, LoopState};

impl Carrier {
    /// The carrier's OS thread, which runs `member`, comes into the shim.
    #[inline(always)]
    fn enter(&self, member: &'static Member) {
        if self.gate.comes_in() == Others::MayTouchIt {
            self.take_lock(member);
        }
    }

    #[cold]
    fn take_lock(&self, member: &'static Member) {
        self.lock.take();
        self.holds_lock.store(true, Ordering::Relaxed);
        self.first_stop.of_carrier();
        // A member on another OS thread may have ended the sharing.
        if !self.is_shared() && thread_pointer::current() == self.donor() {
            // SAFETY: `member` runs here, and nothing runs under its own thread pointer. Callers do not use the calling
            // thread's state afterwards.
            unsafe { member.move_to_own_storage() };
        }
    }

    #[inline(always)]
    fn is_complete(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// A member comes to a barrier or is through; returns how many are left who are not.
    #[inline(always)]
    fn count_off(&self) -> u32 {
        let left = self.left.load(Ordering::Relaxed).wrapping_sub(1);
        self.left.store(left, Ordering::Relaxed);
        left
    }

    #[inline(always)]
    fn are_all_done(&self) -> bool {
        self.done.load(Ordering::Relaxed) == self.len.load(Ordering::Relaxed)
    }

    fn members(&self, lead: &'static Member) -> &'static [Member] {
        pool::members(lead.id, self.len.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn could_run(&self, member: &Member) -> bool {
        member.is_runnable(self.barriers_passed.load(Ordering::Relaxed))
    }

    /// The next member after `from`, in turn, that could run: usually the very next.
    #[inline]
    fn pick(&self, lead: &'static Member, from: &'static Member) -> Option<&'static Member> {
        let next = from.next();
        match self.could_run(next) {
            true => Some(next),
            false => self.search(self.members(lead), (from.id - lead.id) as usize + 1),
        }
    }

    fn search(&self, members: &'static [Member], place: usize) -> Option<&'static Member> {
        let (before, after) = members.split_at_checked(place)?;
        after
            .iter()
            .chain(before)
            .find(|member| self.could_run(member))
    }

    /// Runs `next` here instead of `member`; returns when `member` is continued.
    #[inline(always)]
    fn change(&'static self, member: &'static Member, next: &'static Member) {
        if next.state() == State::UNSTARTED {
            make_context(next);
        }
        next.set(State::RUNNING);
        self.hand_over(next);
        let hand_off = match self.holds_lock.load(Ordering::Relaxed) {
            true => HandOff::tell(self),
            false => HandOff::clear(&self.gate.busy),
        };
        // SAFETY: `member` runs here; `next` is in this block, suspended, and either nobody else touches the block or
        // this OS thread holds its lock.
        unsafe { member.switch_to(next, self.base(next), hand_off) };
    }

    #[inline(always)]
    fn base(&self, member: &Member) -> Base {
        match self.is_shared() {
            true => Base::InForce,
            false => Base::Of(member.thread_pointer()),
        }
    }

    /// Notes in storage that is shared whose turn it is. Storage of a member's own says so always.
    #[inline(always)]
    fn hand_over(&self, next: &'static Member) {
        if self.is_shared() {
            thread_state::current().set_member(Some(next));
        }
    }

    /// Has each member continue in its own storage; the running one once it enters the shim. Inside the shim or locked.
    fn end_sharing(&self, lead: &'static Member) {
        if !self.is_shared() {
            return;
        }
        // SAFETY: the donor sleeps while the pool is there. Under its thread pointer runs this thread, or one in the program's code or
        // waiting for the lock.
        let running = unsafe { self.donor().state() }.member();
        for member in self.members(lead) {
            let runs = running.is_some_and(|running| core::ptr::eq(running, member));
            if !runs && member.is_suspended() {
                // SAFETY: it is, and its OS thread is parked or carries others under the donor's.
                unsafe { member.take_errno_along() };
            }
        }
        self.is_shared.store(false, Ordering::Relaxed);
    }

    /// Notes that `member` waits; returns how many barriers the block has passed.
    #[inline(always)]
    fn wait(&self, member: &Member) -> u32 {
        let passed = self.barriers_passed.load(Ordering::Relaxed);
        member.set(State::waiting(passed));
        passed
    }

    /// All members of the block wait: meets the other blocks, then lets all members go on.
    #[inline]
    fn pass_barrier(&self, lead: &'static Member, member: &'static Member) {
        let through = self.done.load(Ordering::Relaxed);
        let len = self.len.load(Ordering::Relaxed);
        self.left.store(len - through, Ordering::Relaxed);
        // Members on other OS threads wait there, if any are left: the program has been given up.
        let on_loan = self.on_loan.load(Ordering::Relaxed) > 0;
        if self.holds_lock.load(Ordering::Relaxed) {
            self.gate.set_contested(on_loan);
            self.drop_lock();
        }
        match region::expects_tasks() {
            true => tasks::meet(member, |execute| run_task(member, execute)),
            false => region::meet_other_blocks(),
        }
        // Members may have been lent to execute tasks meanwhile.
        let may_be_on_loan = self.gate.is_contested();
        if may_be_on_loan {
            self.take_lock(member);
            for other in self.members(lead) {
                if other.host().is_some() {
                    other.set(State::RUNNING);
                }
            }
        }
        let passed = self.barriers_passed.load(Ordering::Relaxed);
        self.barriers_passed
            .store(passed.wrapping_add(BARRIER), Ordering::Release);
        if may_be_on_loan {
            kernel::futex_wake(&self.barriers_passed, u32::MAX >> 1);
            tasks::tell_workers();
        }
    }

    #[cold]
    fn wait_for_news(&self, member: &'static Member) {
        let seen = self.news.load(Ordering::Relaxed);
        self.drop_lock();
        match region::expects_tasks() {
            true => {
                let is_over = || self.news.load(Ordering::Acquire) != seen;
                tasks::work(member, is_over, |execute| run_task(member, execute));
            }
            false => kernel::futex_wait(&self.news, seen),
        }
        self.take_lock(member);
    }

    /// A member that has stopped on another OS thread, under the lock, is back.
    fn take_back(&self) {
        let on_loan = self.on_loan.load(Ordering::Relaxed);
        self.on_loan.store(on_loan - 1, Ordering::Relaxed);
        self.tell_news();
    }

    fn tell_news(&self) {
        self.news.fetch_add(1, Ordering::Release);
        kernel::futex_wake(&self.news, 1);
        if region::expects_tasks() {
            tasks::tell_workers();
        }
    }
}

pub(super) fn make_context(member: &'static Member) {
    member.make_context(begin);
}

unsafe extern "C-unwind" fn begin(member: *const c_void) -> ! {
    // SAFETY: `make_context` passes the member.
    let mut member = unsafe { &*member.cast::<Member>() };
    // Its modes are in the context that it begins with.
    member.preserved_state.take_up();
    loop {
        region::run_body(member);
        end_body(member);
        member.keep_modes();
        if thread_pointer::current() != member.thread_pointer() {
            // SAFETY: its OS thread is there, and nobody runs under its thread pointer but while parked.
            unsafe { member.thread_pointer().copy_errno() };
        }
        member = succeed(member);
    }
}

#[inline(always)]
pub(super) fn begin_lead(lead: &'static Member) {
    let carrier = &lead.carrier;
    lead.set(State::RUNNING);
    if carrier.is_shared() {
        // SAFETY: the donor sleeps while the pool is there, and nothing else uses its storage in this region. Callers use the calling
        // thread's own state again only when `finish` has returned to it.
        unsafe {
            let thread = carrier.donor().state();
            thread.set_member(Some(lead));
            thread.leave_region(LoopState::default());
            carrier.donor().put_in_force();
        }
    }
    carrier.leave();
}

/// Waits for all members of the team. Nearly always the next member continues; then nothing is kept on the stack here.
#[inline(always)]
pub(super) fn barrier(member: &'static Member) {
    let carrier = &member.lead().carrier;
    if member.host().is_some() {
        return wait_on_host(member);
    }
    if carrier.gate.comes_in() == Others::MayTouchIt {
        return wait_with_lock(member);
    }
    if carrier.count_off() == 0 {
        return pass_with_all(member);
    }
    let passed = carrier.wait(member);
    let next = member.next();
    if next.state() != State::waiting(passed.wrapping_sub(BARRIER)) || region::expects_tasks() {
        return run_others(member, passed);
    }
    next.set(State::RUNNING);
    let base = if carrier.is_shared() {
        thread_state::current().set_member(Some(next));
        Base::InForce
    } else {
        Base::Of(next.thread_pointer())
    };
    // SAFETY: `member` runs here; `next` is in this block, suspended, and nobody else touches the block.
    unsafe { member.switch_to(next, base, HandOff::clear(&carrier.gate.busy)) };
}

/// `member` has executed the region's body: waits until all tasks are executed, where any may have come.
#[inline(always)]
pub(super) fn end_body(member: &'static Member) {
    if region::expects_tasks() {
        wait_for_tasks(member);
    }
}

/// Apart from [`end_body`], which is in the path of every region.
#[inline(never)]
fn wait_for_tasks(member: &'static Member) {
    barrier(member);
}

#[cold]
fn wait_with_lock(member: &'static Member) {
    let carrier = &member.lead().carrier;
    carrier.take_lock(member);
    if carrier.count_off() == 0 {
        pass_with_all(member);
    } else {
        let passed = carrier.wait(member);
        run_others(member, passed);
    }
}

#[inline(never)]
fn pass_with_all(member: &'static Member) {
    let lead = member.lead();
    lead.carrier.pass_barrier(lead, member);
    lead.carrier.leave();
}

/// Runs other members of the block until `member`, which waits, may go on.
#[inline(never)]
fn run_others(member: &'static Member, passed: u32) {
    let lead = member.lead();
    let carrier = &lead.carrier;
    loop {
        if let Some(next) = carrier.pick(lead, member) {
            carrier.change(member, next);
            return help(member, passed);
        }
        if carrier.is_complete() {
            carrier.pass_barrier(lead, member);
            member.set(State::RUNNING);
            carrier.leave();
            return;
        }
        carrier.wait_for_news(member);
    }
}

#[cold]
fn wait_on_host(member: &'static Member) {
    let Some(host) = member.host() else { return };
    let carrier = &member.lead().carrier;
    carrier.lock.take();
    carrier.first_stop.of_lent_member();
    carrier.count_off();
    let passed = carrier.wait(member);
    if region::has_given_up() {
        // It stays where it is.
        carrier.tell_news();
        carrier.lock.give();
        help(member, passed);
        while carrier.barriers_passed.load(Ordering::Acquire) == passed {
            kernel::futex_wait(&carrier.barriers_passed, passed);
        }
        return;
    }
    carrier.take_back();
    // SAFETY: `member` runs on the OS thread of `host`, and waits now; the lock is held.
    unsafe { host.send_away(member, carrier) };
    help(member, passed);
}

/// A member that is continued at a barrier, after so many passed ones, before its block has passed it, is on another OS thread
/// to execute tasks there, as one waits for another: it stays until the block has passed.
#[inline]
fn help(member: &'static Member, passed: u32) {
    let barriers_passed = &member.lead().carrier.barriers_passed;
    let is_over = || barriers_passed.load(Ordering::Acquire) != passed;
    if region::expects_tasks() && !is_over() {
        tasks::work(member, is_over, |execute| execute());
    }
}

/// Whether the caller is the carrier of `member`. A child of `clone` that has its parent's memory, and with it the storage
/// of the thread that made it, is not, and must not run the parent's members. Costs a system call.
pub(super) fn carries(member: &'static Member) -> bool {
    member.lead().os_thread() == kernel::thread_number()
}

/// Whether the calling OS thread runs `member`, on its carrier or beside it. Costs a system call, as [`carries`].
pub(super) fn runs_here(member: &'static Member) -> bool {
    let host = member.host().unwrap_or_else(|| member.lead());
    host.os_thread() == kernel::thread_number()
}

/// Makes a call of the C library for `member`, which runs here, on its own OS thread. That one is parked, or this one. This one
/// makes the call also where the other carries the block or hosts another member, as after a member was stuck.
pub(super) fn on_own_thread(member: &'static Member, call: &dyn Fn() -> c_int) -> c_int {
    let lead = member.lead();
    let carrier = &lead.carrier;
    // A handler may have interrupted the shim, where the block must not be touched.
    if member.is_lead() || member.host().is_some() || carrier.gate.is_busy() {
        return call();
    }
    carrier.enter(member);
    // Nobody else takes members away or brings them back meanwhile.
    let mut members = carrier.members(lead).iter();
    let is_parked = !members.any(|it| it.host().is_some_and(|host| core::ptr::eq(host, member)));
    let answer = is_parked.then(|| member.have_called(call));
    carrier.leave();
    answer.unwrap_or_else(call)
}

/// Lets another member of the block run, if one could; says whether one did. The calling thread may be another then.
#[inline]
pub(super) fn give_way(member: &'static Member) -> bool {
    if member.host().is_some() {
        return false;
    }
    let lead = member.lead();
    let carrier = &lead.carrier;
    carrier.enter(member);
    let Some(next) = carrier.pick(lead, member) else {
        carrier.leave();
        return false;
    };
    member.set(State::READY);
    // The chunk that the member is executing.
    let chunk = thread_state::current().enter_region();
    carrier.change(member, next);
    thread_state::current().leave_region(chunk);
    true
}

/// How long a member that makes or executes one task after another keeps the others of its block from running.
const TURN_NS: u64 = 1_000_000;

/// Lets another member of the block run if the last was let so some time ago, as [`give_way`].
pub(super) fn give_way_in_time(member: &'static Member) {
    let last_ns = &member.lead().carrier.gave_way_ns;
    let now_ns = clock::now_ns();
    if member.host().is_none() && now_ns.saturating_sub(last_ns.load(Ordering::Relaxed)) >= TURN_NS
    {
        last_ns.store(now_ns, Ordering::Relaxed);
        give_way(member);
    }
}

/// Executes a task in the context of `member`, which waits at a barrier, on its carrier. Inside the shim, without the lock.
fn run_task(member: &'static Member, execute: &dyn Fn()) {
    let carrier = &member.lead().carrier;
    let state = member.state();
    member.set(State::RUNNING);
    carrier.leave();
    execute();
    carrier.enter(member);
    member.set(state);
    if carrier.holds_lock.load(Ordering::Relaxed) {
        let on_loan = carrier.on_loan.load(Ordering::Relaxed) > 0;
        carrier.gate.set_contested(on_loan);
        carrier.drop_lock();
    }
}

/// Makes the thread-local storage that of `member`, which runs here, for the rest of the region. True if that is new.
pub(super) fn claim_storage(member: &'static Member) -> bool {
    let lead = member.lead();
    let carrier = &lead.carrier;
    let is_own = thread_pointer::current() == member.thread_pointer();
    if is_own && !carrier.is_shared() {
        return false;
    }
    if member.host().is_some() {
        carrier.lock.take();
        carrier.end_sharing(lead);
        carrier.lock.give();
        return true;
    }
    carrier.enter(member);
    carrier.end_sharing(lead);
    if thread_pointer::current() != member.thread_pointer() {
        // SAFETY: it runs here, and nothing runs under its own thread pointer. The calling thread's state is not used
        // below.
        unsafe { member.move_to_own_storage() };
    }
    carrier.leave();
    true
}
