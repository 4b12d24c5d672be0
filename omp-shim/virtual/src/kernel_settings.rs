//! Priorities, CPU masks and whatever else the kernel keeps for a thread, set and asked for by members of virtual teams.
//!
//! *Approach.* A member's own OS thread keeps what the member sets, and is asked for it, whichever OS thread runs the
//! member. Most calls name a thread by its number, so they get that of the member's own; names are files under it.
//! Other options of `prctl` concern the thread that makes the call, so the member's own makes it where it is parked
//! ([`carrier::on_own_thread`]). Functions that take a `pthread_t` find the right one by themselves. As what was set has to be
//! in force where the member computes, virtual teams are given up: from the next region on each member runs on its own
//! OS thread. Names, and what is only asked for, do not give them up. All of it may be called by handlers of signals.
//!
//! *Bounds.* Until that region ends, a member may run without what it has set, and with what the lead of its block has; what the
//! first thread sets between regions is in force for all of its block. `prctl` concerns the OS thread that runs the member
//! where its own runs another, as after a member was stuck. What is set for another member by its handle is in force once that
//! one runs on its own OS thread.

use core::ffi::{c_char, c_int, c_ulong};

use mapper_abi::TeamsOff;
use mapper_shim_core::{attachment, thread_state};

use super::c_library::{fail, in_place_of_c_library};
use super::member::{Member, OfMember};
use super::{carrier, kernel, region, thread_pointer};

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// It changes what has to be in force where the thread computes.
    InForce,
    /// It changes what need not be, or only tells.
    Kept,
}

use Effect::{InForce, Kept};

/// Options of `prctl` that only tell.
const TELL: [c_int; 19] = [
    libc::PR_GET_PDEATHSIG,
    libc::PR_GET_DUMPABLE,
    libc::PR_GET_KEEPCAPS,
    libc::PR_GET_NAME,
    libc::PR_GET_SECCOMP,
    libc::PR_CAPBSET_READ,
    libc::PR_GET_TSC,
    libc::PR_GET_SECUREBITS,
    libc::PR_GET_TIMERSLACK,
    libc::PR_MCE_KILL_GET,
    libc::PR_GET_CHILD_SUBREAPER,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_GET_TID_ADDRESS,
    libc::PR_GET_THP_DISABLE,
    // Of later kernels: speculation, tagged addresses, I/O flushers, memory that is written and executed, merged memory.
    52,
    56,
    58,
    66,
    68,
];
/// Options for the process, or that need not be in force where the thread computes.
const HARMLESS: [c_int; 10] = [
    libc::PR_SET_NAME,
    libc::PR_SET_PDEATHSIG,
    libc::PR_SET_DUMPABLE,
    libc::PR_SET_CHILD_SUBREAPER,
    libc::PR_SET_MM,
    libc::PR_SET_PTRACER,
    libc::PR_SET_THP_DISABLE,
    libc::PR_SET_VMA,
    // Memory that is written and executed, merged memory.
    65,
    67,
];

/// What an option of `prctl` does. Unknown ones may change anything.
fn of_option(option: c_int, second: c_ulong) -> Effect {
    let asks = option == libc::PR_CAP_AMBIENT && second == libc::PR_CAP_AMBIENT_IS_SET as c_ulong;
    match asks || TELL.contains(&option) || HARMLESS.contains(&option) {
        true => Kept,
        false => InForce,
    }
}

/// The member that calls, if it runs on the calling OS thread, also within a region of its own of one thread.
fn caller() -> Option<&'static Member> {
    let thread = thread_state::current();
    let member = thread.member().or_else(|| thread.outer_member());
    member.filter(|member| carrier::runs_here(member))
}

/// After a call of a member's.
fn note(effect: Effect, failed: bool) {
    if effect == InForce && !failed && !region::give_up() {
        attachment::report_teams_off(TeamsOff::KernelState);
    }
}

/// A call that names its thread by number: 0, or its own, for the caller. It gets the number of the one that is meant.
fn by_number(number: u32, effect: Effect, call: impl Fn(u32) -> c_int) -> c_int {
    let is_own = || number == 0 || number == kernel::thread_number().cast_unsigned();
    let Some(member) = caller().filter(|_| is_own()) else {
        return call(number);
    };
    let answer = call(member.os_thread().cast_unsigned());
    note(effect, answer == -1);
    answer
}

/// The same, if the number is that of a thread.
fn by_number_of(which: c_int, number: u32, effect: Effect, call: impl Fn(u32) -> c_int) -> c_int {
    match which == libc::PRIO_PROCESS as c_int {
        true => by_number(number, effect, call),
        false => call(number),
    }
}

/// A call that names its thread by handle and returns the number of an error.
fn by_handle(thread: libc::pthread_t, call: impl Fn() -> c_int) -> c_int {
    let is_own = thread == thread_pointer::current().0 as libc::pthread_t;
    let error = call();
    if is_own && caller().is_some() {
        note(InForce, error != 0);
    }
    error
}

/// `nice` by the functions that take a thread's number, as the C library does it.
fn be_nicer(increment: c_int, call: impl Fn() -> c_int) -> c_int {
    let Some(member) = caller() else {
        return call();
    };
    let number = member.os_thread().cast_unsigned();
    let Some(before) = kernel::priority(number) else {
        return fail(libc::EPERM);
    };
    let wanted = before.saturating_add(increment).clamp(-20, 19);
    if let Err(error) = kernel::set_priority(number, wanted) {
        // By POSIX.
        return fail(if error == libc::EACCES {
            libc::EPERM
        } else {
            error
        });
    }
    note(InForce, wanted == before);
    kernel::priority(number).unwrap_or(wanted)
}

/// What a function of the C library returns.
fn answer(done: Result<(), c_int>) -> c_int {
    done.map_or_else(fail, |()| 0)
}

/// Safety: the arguments are the caller's.
unsafe fn by_option(option: c_int, second: c_ulong, call: &dyn Fn() -> c_int) -> c_int {
    let Some(member) = caller() else {
        return call();
    };
    let thread = member.os_thread();
    let is_elsewhere = second != 0 && thread != kernel::thread_number();
    let name = second as *mut c_char;
    match option {
        // SAFETY: as the caller promises.
        libc::PR_SET_NAME if is_elsewhere => answer(unsafe { kernel::name_thread(thread, name) }),
        libc::PR_GET_NAME if is_elsewhere => {
            // SAFETY: as the caller promises.
            answer(unsafe { kernel::name_of_thread(thread, name) })
        }
        _ => {
            let answer = carrier::on_own_thread(member, call);
            note(of_option(option, second), answer == -1);
            answer
        }
    }
}

in_place_of_c_library! {
    each |real|
    nice(increment: c_int) => be_nicer(increment, || real(increment));
    setpriority(which: c_int, number: u32, priority: c_int)
        => by_number_of(which, number, InForce, |number| real(which, number, priority));
    getpriority(which: c_int, number: u32)
        => by_number_of(which, number, Kept, |number| real(which, number));
    sched_setscheduler(number: u32, policy: c_int, parameters: *const libc::sched_param)
        => by_number(number, InForce, |number| real(number, policy, parameters));
    sched_getscheduler(number: u32) => by_number(number, Kept, real);
    sched_setparam(number: u32, parameters: *const libc::sched_param)
        => by_number(number, InForce, |number| real(number, parameters));
    sched_getparam(number: u32, parameters: *mut libc::sched_param)
        => by_number(number, Kept, |number| real(number, parameters));
    sched_setaffinity(number: u32, size: usize, mask: *const libc::cpu_set_t)
        => by_number(number, InForce, |number| real(number, size, mask));
    sched_getaffinity(number: u32, size: usize, mask: *mut libc::cpu_set_t)
        => by_number(number, Kept, |number| real(number, size, mask));
    pthread_setaffinity_np(thread: libc::pthread_t, size: usize, mask: *const libc::cpu_set_t)
        => by_handle(thread, || real(thread, size, mask));
    pthread_setschedparam(thread: libc::pthread_t, policy: c_int, parameters: *const libc::sched_param)
        => by_handle(thread, || real(thread, policy, parameters));
    pthread_setschedprio(thread: libc::pthread_t, priority: c_int)
        => by_handle(thread, || real(thread, priority));
    prctl(option: c_int, second: c_ulong, third: c_ulong, fourth: c_ulong, fifth: c_ulong)
        // SAFETY: these are the caller's arguments.
        => unsafe { by_option(option, second, &|| real(option, second, third, fourth, fifth)) };
}
