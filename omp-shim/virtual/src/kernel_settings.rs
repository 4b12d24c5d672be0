//! Priorities, CPU masks and whatever else the kernel keeps for a thread, set and asked for by members of virtual teams.
//!
//! *Approach.* A member's own OS thread keeps what the member sets, and tells it: where another OS thread runs the member,
//! its own, which is parked, makes the call ([`carrier::on_own_thread`]). Functions that take a `pthread_t` find it by
//! themselves. What has to be in force where the member computes, such as a priority, gives virtual teams up: from the next
//! region on each member runs on its own OS thread, with what it has set. A CPU mask does not: which CPUs a program runs on
//! is mapper's to say.
//!
//! *Bounds.* Until that region ends, a member may run without what it has set. Outside regions a call is the C library's;
//! so is one that names the calling thread by its number.

use core::ffi::{c_int, c_ulong};

use mapper_abi::TeamsOff;
use mapper_shim_core::{attachment, thread_state};

use super::c_library::in_place_of_c_library;
use super::member::OfMember;
use super::{carrier, region};

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// It changes what has to be in force where the thread computes.
    InForce,
    /// It changes what need not be, or tells.
    Kept,
    /// It concerns another thread, or a whole process.
    Elsewhere,
}

impl Effect {
    /// The same, if the call names its thread so that it is the calling one.
    fn on(self, thread: u32) -> Self {
        if thread == 0 { self } else { Self::Elsewhere }
    }

    fn on_whom(self, which: c_int, who: u32) -> Self {
        match which {
            0 => self.on(who),
            _ => Self::Elsewhere,
        }
    }

    /// Unknown options may change anything.
    fn of_prctl(option: c_int, second: c_ulong) -> Self {
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
        let is_set =
            option == libc::PR_CAP_AMBIENT && second == libc::PR_CAP_AMBIENT_IS_SET as c_ulong;
        match option {
            _ if is_set || TELL.contains(&option) || NEED_NOT_BE_IN_FORCE.contains(&option) => {
                Self::Kept
            }
            _ if FOR_THE_PROCESS.contains(&option) => Self::Elsewhere,
            _ => Self::InForce,
        }
    }
}

fn call(effect: Effect, real: &dyn Fn() -> c_int) -> c_int {
    let member = thread_state::current().member();
    let member = member.filter(|member| effect != Effect::Elsewhere && carrier::runs_here(member));
    let Some(member) = member else {
        return real();
    };
    if effect == Effect::InForce && !region::give_up() {
        attachment::report_teams_off(TeamsOff::KernelState);
    }
    carrier::on_own_thread(member, real)
}

in_place_of_c_library! {
    |real| call(Effect::InForce, &real);
    nice(increment: c_int);
    setpriority(which: c_int, who: u32, priority: c_int)
        => call(Effect::InForce.on_whom(which, who), &real);
    getpriority(which: c_int, who: u32) => call(Effect::Kept.on_whom(which, who), &real);
    sched_setscheduler(thread: u32, policy: c_int, parameters: *const libc::sched_param)
        => call(Effect::InForce.on(thread), &real);
    sched_getscheduler(thread: u32) => call(Effect::Kept.on(thread), &real);
    sched_setparam(thread: u32, parameters: *const libc::sched_param)
        => call(Effect::InForce.on(thread), &real);
    sched_getparam(thread: u32, parameters: *mut libc::sched_param)
        => call(Effect::Kept.on(thread), &real);
    sched_setaffinity(thread: u32, size: usize, mask: *const libc::cpu_set_t)
        => call(Effect::Kept.on(thread), &real);
    sched_getaffinity(thread: u32, size: usize, mask: *mut libc::cpu_set_t)
        => call(Effect::Kept.on(thread), &real);
    pthread_setschedparam(thread: libc::pthread_t, policy: c_int, parameters: *const libc::sched_param);
    pthread_setschedprio(thread: libc::pthread_t, priority: c_int);
    prctl(option: c_int, second: c_ulong, third: c_ulong, fourth: c_ulong, fifth: c_ulong)
        => call(Effect::of_prctl(option, second), &real);
}
