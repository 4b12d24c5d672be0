//! Priorities, CPU masks and whatever else the kernel keeps for a thread, set and asked for by members of virtual teams.
//!
//! *Approach.* A member's own OS thread keeps what the member sets, and is asked for it, whichever OS thread runs the
//! member. Most calls name a thread by its number, so they get that of the member's own. `prctl` concerns the thread that
//! makes the call, so the member's own makes it where it is parked ([`carrier::on_own_thread`]). Functions that take a
//! `pthread_t` find the right one by themselves. As what was set has to be in force where the member computes, virtual teams
//! are given up: from the next region on each member runs on its own OS thread. Names, and what is only asked for, do not
//! give them up. What the owner of the pool sets between regions would be in force for all members of its block, so
//! it gives them up, too; before its first region it may set what it likes, as its threads inherit that.
//!
//! *Bounds.* Until that region ends, a member may run without what it has set. `prctl` concerns the OS thread that runs the
//! member where its own runs another, as after a member was stuck.

use core::ffi::{c_char, c_int, c_ulong};

use mapper_abi::TeamsOff;
use mapper_shim_core::{attachment, thread_state};

use super::c_library::{fail, in_place_of_c_library};
use super::member::{Member, OfMember};
use super::{carrier, kernel, owner, region, thread_pointer};

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// It changes what has to be in force where the thread computes.
    InForce,
    /// It changes what need not be, or tells.
    Kept,
}

use Effect::{InForce, Kept};

/// What an option of `prctl` does. Unknown ones may change anything.
fn of_option(option: c_int, second: c_ulong) -> Effect {
    const TELL: [c_int; 12] = [
        libc::PR_GET_PDEATHSIG,
        libc::PR_GET_DUMPABLE,
        libc::PR_GET_KEEPCAPS,
        libc::PR_GET_NAME,
        libc::PR_GET_SECCOMP,
        libc::PR_CAPBSET_READ,
        libc::PR_GET_TSC,
        libc::PR_GET_SECUREBITS,
        libc::PR_GET_TIMERSLACK,
        libc::PR_GET_CHILD_SUBREAPER,
        libc::PR_GET_NO_NEW_PRIVS,
        libc::PR_GET_THP_DISABLE,
    ];
    const NEED_NOT_BE_IN_FORCE: [c_int; 2] = [libc::PR_SET_NAME, libc::PR_SET_PDEATHSIG];
    const FOR_THE_PROCESS: [c_int; 6] = [
        libc::PR_SET_DUMPABLE,
        libc::PR_SET_CHILD_SUBREAPER,
        libc::PR_SET_MM,
        libc::PR_SET_PTRACER,
        libc::PR_SET_THP_DISABLE,
        libc::PR_SET_VMA,
    ];
    let asks = option == libc::PR_CAP_AMBIENT && second == libc::PR_CAP_AMBIENT_IS_SET as c_ulong;
    let is_kept = [&TELL[..], &NEED_NOT_BE_IN_FORCE, &FOR_THE_PROCESS]
        .iter()
        .any(|options| options.contains(&option));
    match asks || is_kept {
        true => Kept,
        false => InForce,
    }
}

/// Who calls.
#[derive(Clone, Copy)]
enum Caller {
    /// It runs on the calling OS thread.
    Member(&'static Member),
    /// The owner of the pool, between regions.
    Owner,
    Other,
}

impl Caller {
    fn now() -> Self {
        let thread = thread_state::current();
        // Also within a region of its own of one thread.
        match thread.member().or_else(|| thread.outer_member()) {
            Some(member) if carrier::runs_here(member) => Self::Member(member),
            None if owner::has_team() => Self::Owner,
            _ => Self::Other,
        }
    }

    /// After a call that may have changed something of this one's.
    fn has_changed(self, effect: Effect, failed: bool) {
        let concerns_team = !matches!(self, Self::Other);
        if concerns_team && effect == Effect::InForce && !failed && !region::give_up() {
            attachment::report_teams_off(TeamsOff::KernelState);
        }
    }
}

/// A call that names its thread by number: 0, or its own, for the caller. It gets the number of the one that is meant.
fn by_number(number: u32, effect: Effect, call: impl Fn(u32) -> c_int) -> c_int {
    let caller = Caller::now();
    let is_own = || number == 0 || number == kernel::thread_number().cast_unsigned();
    match caller {
        Caller::Member(member) if is_own() => {
            let answer = call(member.os_thread().cast_unsigned());
            caller.has_changed(effect, answer == -1);
            answer
        }
        Caller::Owner if number == 0 => {
            let answer = call(number);
            caller.has_changed(effect, answer == -1);
            answer
        }
        _ => call(number),
    }
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
    if is_own {
        Caller::now().has_changed(Effect::InForce, error != 0);
    }
    error
}

/// `nice` by the functions that take a thread's number, as the C library does it.
fn be_nicer(increment: c_int, call: impl Fn() -> c_int) -> c_int {
    let caller = Caller::now();
    let Caller::Member(member) = caller else {
        let answer = call();
        caller.has_changed(Effect::InForce, increment == 0);
        return answer;
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
    caller.has_changed(Effect::InForce, increment == 0);
    kernel::priority(number).unwrap_or(wanted)
}

/// What the kernel keeps of a name, with the NUL.
const NAME_BYTES: usize = 16;

/// Sets the name of a member, or of any thread. Safety: `name` is that of `PR_SET_NAME`.
unsafe fn set_name(name: *const c_char) -> c_int {
    let mut kept = [0; NAME_BYTES];
    for (place, byte) in kept.iter_mut().take(NAME_BYTES - 1).enumerate() {
        // SAFETY: none of the bytes before was the last.
        *byte = unsafe { name.add(place).read() };
        if *byte == 0 {
            break;
        }
    }
    // SAFETY: the thread is the caller, the name ends with a NUL.
    match unsafe { libc::pthread_setname_np(libc::pthread_self(), kept.as_ptr()) } {
        0 => 0,
        error => fail(error),
    }
}

/// Tells it. Safety: `name` is that of `PR_GET_NAME`.
unsafe fn name_of_caller(name: *mut c_char) -> c_int {
    // SAFETY: the thread is the caller, and the place has so many bytes.
    match unsafe { libc::pthread_getname_np(libc::pthread_self(), name, NAME_BYTES) } {
        0 => 0,
        error => fail(error),
    }
}

/// Safety: the arguments are the caller's.
unsafe fn by_option(option: c_int, second: c_ulong, call: &dyn Fn() -> c_int) -> c_int {
    let is_name = second != 0 && matches!(Caller::now(), Caller::Member(_));
    match option {
        // SAFETY: as the caller promises.
        libc::PR_SET_NAME if is_name => unsafe { set_name(second as *const c_char) },
        // SAFETY: likewise.
        libc::PR_GET_NAME if is_name => unsafe { name_of_caller(second as *mut c_char) },
        _ => by_prctl(of_option(option, second), call),
    }
}

fn by_prctl(effect: Effect, call: &dyn Fn() -> c_int) -> c_int {
    let answer = match thread_state::current().member() {
        Some(member) if carrier::runs_here(member) => carrier::on_own_thread(member, call),
        _ => call(),
    };
    Caller::now().has_changed(effect, answer == -1);
    answer
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
        // SAFETY: they are.
        => unsafe { by_option(option, second, &|| real(option, second, third, fourth, fifth)) };
}
