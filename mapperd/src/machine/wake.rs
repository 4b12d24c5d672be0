//! Noticing within milliseconds that an application that lends its CPUs has something to do.
//!
//! The CPU time of each lender is read every [`LOOK`], more rarely where there are so many that this would take more than
//! [`COST`] of the time. Timers and signals that are handled at once are no work: it is back if it used a quarter of a CPU
//! since the last look and one of its threads is still running, or if it did so twice in a row. Until then the kernel
//! divides its CPUs between it and those that borrow them.

use crate::machine::Machine;
use crate::machine::process::runnable;
use crate::registry::Registry;
use crate::registry::app::{App, Look};
use mapper_host::observe::process_cpu_time_ns;
use mapper_model::Activity;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(4);

/// Part of the time that looking may take.
const COST: u32 = 100;

/// Part of a CPU, as one divided by this, from which a lender is at work.
const PART: u128 = 4;

/// Looks at every lender. Says whether one has something to do, and when to look next: never if there is no lender.
pub(crate) fn look(registry: &mut Registry, machine: &mut Machine) -> (Activity, Option<Duration>) {
    let started = Instant::now();
    let (mut found, mut lenders) = (Activity::Idle, 0);
    for app in registry.apps.iter_mut().filter(|app| app.lends()) {
        lenders += 1;
        if look_at(app, machine) == Activity::Active {
            app.woke = Activity::Active;
            found = Activity::Active;
        }
    }
    let next = LOOK.max(started.elapsed() * COST);
    (found, (lenders > 0).then_some(next))
}

fn look_at(app: &mut App, machine: &mut Machine) -> Activity {
    let clocks = app.tasks.processes.iter();
    let used = machine.enforcer.cpu_time_ns(app.record.id);
    let cpu_time_ns = used.unwrap_or_else(|| {
        let used = clocks.filter_map(|pid| process_cpu_time_ns(*pid));
        used.fold(0, u64::saturating_add)
    });
    let at = Instant::now();
    let Some(last) = app.looked.replace(Look {
        at,
        cpu_time_ns,
        activity: Activity::Idle,
    }) else {
        return Activity::Idle;
    };
    let used_ns = u128::from(cpu_time_ns.saturating_sub(last.cpu_time_ns));
    if used_ns * PART < (at - last.at).as_nanos() {
        return Activity::Idle;
    }
    app.looked = app.looked.map(|look| Look {
        activity: Activity::Active,
        ..look
    });
    match last.activity == Activity::Active || runnable(&machine.proc, &app.tasks.threads) > 0 {
        true => Activity::Active,
        false => Activity::Idle,
    }
}
