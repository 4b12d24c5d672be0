//! What the rest of the shim calls of virtual teams.

use mapper_abi::TeamsOff;
use mapper_shim_core::construct::{Chunk, Loop, Start};
use mapper_shim_core::features::{Begun, Request, TeamService};
use mapper_shim_core::runtime::Family;
use mapper_shim_core::thread_state::{self, ThreadState};
use mapper_shim_core::{attachment, logical};

use super::member::OfMember;
use super::region::{self, Plan};
use super::{
    admission, c_library, control_variables, credentials, kernel_settings, liveness, owner,
    preserved, shares, storage, team, thread_names, waiting,
};

/// Virtual teams, as what runs regions with logical threads.
pub const SERVICE: TeamService = TeamService {
    begin,
    end: team::end,
    enter_loop,
    next_chunk,
    setting_changes: control_variables::note_change,
};

/// The library is being loaded: looks up all real functions that the child of a fork may call.
pub fn look_up() {
    admission::look_up();
    c_library::look_up();
    credentials::look_up();
    kernel_settings::look_up();
    preserved::look_up();
    thread_names::look_up();
}

/// The user asked for virtual teams, and the page's daemon is there.
pub fn want() {
    // SAFETY: takes a number.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
    waiting::prepare(control_variables::spin_count(), cpus);
    logical::want();
}

/// Decides whether a region is to be a virtual one, and on how many CPUs; has it timed to learn how many pay.
#[inline]
fn plan(request: &mut Request<'_>) -> Option<Plan> {
    let Start {
        thread,
        runtime,
        asked,
        ..
    } = *request.start;
    if asked == 1 || logical::is_refused() || logical::is_within(thread) {
        return None;
    }
    let is_outermost = runtime.level(Family::Gomp) == 0;
    if !is_outermost || !owner::own_pool(thread) || !admission::is_granted() {
        return None;
    }
    let sizes = control_variables::sizes(runtime);
    let size = if asked == 0 { sizes.usual } else { asked };
    if sizes.are_dynamic {
        attachment::report_teams_off(TeamsOff::Dynamic);
        return None;
    }
    if size < 2 {
        return None;
    }
    if size > sizes.limit || !owner::has_members(size) {
        attachment::report_teams_off(TeamsOff::TooLarge);
        return None;
    }
    let gave_up = region::has_given_up();
    let most_carriers = |size: u32| match gave_up {
        true => size,
        false => attachment::carrier_limit().clamp(1, size.max(1)),
    };
    let most = most_carriers(size);
    // What the program's usual team gets, so that clauses of many sizes are not news each time.
    let usual = most_carriers(sizes.usual);
    if attachment::is_news(usual) {
        attachment::report_team(usual);
    }
    let blocks = match gave_up {
        true => size,
        false => (request.os_threads)(size, most),
    };
    // Without a watcher there is no net.
    let blocks = match blocks < size && !liveness::stands_by() {
        true => size,
        false => blocks,
    };
    let storage = storage::of_region(runtime, size, blocks);
    Some(Plan {
        size,
        blocks,
        storage,
    })
}

fn begin(request: &mut Request<'_>) -> Begun {
    let Some(plan) = plan(request) else {
        return Begun::No;
    };
    team::begin(request, plan);
    Begun::Yes
}

fn enter_loop(describe: &dyn Fn() -> Loop) -> Option<Chunk> {
    let member = thread_state::current().member()?;
    shares::enter_share(member, describe);
    shares::next_chunk(member)
}

fn next_chunk(thread: &ThreadState) -> Option<Chunk> {
    shares::next_chunk(thread.member()?)
}
