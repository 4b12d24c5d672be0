//! Noticing within milliseconds that an application that lends its CPUs has something to do.
//!
//! The CPU time of each application whose CPUs others use is read every [`LOOK`], less often where there are so many that
//! looking would take more than one hundredth of a CPU. Timers and signals that are handled at once are no work: it is back
//! if it used a quarter of a CPU since the last look and one of its threads runs, or if it did something in two looks in a
//! row. Until then the kernel divides its CPUs between it and those that borrow them.

use crate::machine::Machine;
use crate::machine::process::{runnable, thread_cpu_time};
use crate::registry::Registry;
use crate::registry::app::{App, Look};
use mapper_host::chain;
use mapper_host::enforce::Tasks;
use mapper_host::observe::process_cpu_time_ns;
use mapper_model::{Activity, AppId, CpuSet, Loan, Sharing};
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(4);

/// Looking takes no more of a CPU than one divided by this.
const COST: u32 = 100;

/// How often it is looked for processes that applications have started, where no group tells what those use.
const NEW_PROCESSES: Duration = Duration::from_millis(50);

/// What the looks at all applications that lend have found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Those that have something to do.
    pub(crate) woke: Vec<AppId>,
    /// When to look next: never if nobody uses CPUs of another.
    pub(crate) next: Option<Duration>,
}

/// What is remembered from look to look.
#[derive(Debug, Default)]
pub(crate) struct Lookout {
    /// When it was last looked for new processes.
    processes_at: Option<Instant>,
}

impl Lookout {
    /// Looks at every application whose CPUs others have borrowed.
    pub(crate) fn look(&mut self, registry: &mut Registry, machine: &mut Machine) -> Found {
        let began = thread_cpu_time();
        let mut found = Found::default();
        let borrowed = borrowed(registry);
        if borrowed.is_empty() {
            return found;
        }
        let last = self.processes_at;
        let follow = last.is_none_or(|last| last.elapsed() >= NEW_PROCESSES);
        let mut followed = !follow;
        let lend = |app: &&mut App| app.lends() && !app.effective.is_disjoint(&borrowed);
        for app in registry.apps.iter_mut().filter(lend) {
            let id = app.record.id;
            let in_group = machine.enforcer.cpu_time_ns(id);
            if in_group.is_none() && follow {
                if !followed && let Err(error) = machine.enforcer.follow_new() {
                    tracing::debug!("processes not read: {}", chain(&error));
                }
                followed = true;
                self.processes_at = Some(Instant::now());
                app.tasks = machine.enforcer.tasks(id);
            }
            let cpu_time_ns = in_group.unwrap_or_else(|| cpu_time_ns(&app.tasks));
            if look_at(app, cpu_time_ns, machine) == Activity::Active {
                app.woke = Activity::Active;
                found.woke.push(id);
            }
        }
        let spent = thread_cpu_time().saturating_sub(began);
        found.next = Some(LOOK.max(spent * COST));
        found
    }
}

fn cpu_time_ns(tasks: &Tasks) -> u64 {
    let processes = tasks.processes.iter();
    let used = processes.filter_map(|pid| process_cpu_time_ns(*pid));
    used.fold(0, u64::saturating_add)
}

/// The CPUs that some application has borrowed, or shared with one that lends now.
pub(crate) fn borrowed(registry: &Registry) -> CpuSet {
    let mut borrowed = CpuSet::new();
    for app in &registry.apps {
        let planned = app.record.planned.as_ref();
        if let Some(Loan::Borrows { cpus }) = planned.map(|planned| &planned.loan) {
            borrowed.insert_all(cpus);
        }
        if planned.is_some_and(|planned| {
            planned.loan == Loan::Lends && planned.share.sharing != Sharing::Exclusive
        }) {
            borrowed.insert_all(&app.effective);
        }
    }
    borrowed
}

/// Whether an application is back, which has used so much so far.
fn look_at(app: &mut App, cpu_time_ns: u64, machine: &Machine) -> Activity {
    let at = Instant::now();
    let Some(last) = app.looked else {
        app.looked = Some(Look {
            at,
            cpu_time_ns,
            activity: Activity::Idle,
        });
        return Activity::Idle;
    };
    let used = Duration::from_nanos(cpu_time_ns.saturating_sub(last.cpu_time_ns));
    let seen = Seen {
        used,
        passed: at - last.at,
        running: match used.is_zero() {
            true => 0,
            false => runnable(&machine.proc, &app.tasks.threads),
        },
    };
    app.looked = Some(Look {
        at,
        cpu_time_ns,
        activity: seen.activity(),
    });
    seen.verdict(last.activity)
}

/// What one look has seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// CPU time since the look before.
    used: Duration,
    passed: Duration,
    /// Threads that run or wait for a CPU now.
    running: u32,
}

impl Seen {
    fn used_a_quarter(self) -> bool {
        self.used * 4 >= self.passed
    }

    /// Whether it did anything.
    fn activity(self) -> Activity {
        match self.used_a_quarter() || self.running > 0 {
            true => Activity::Active,
            false => Activity::Idle,
        }
    }

    /// Whether it is back, by this look and the one before.
    fn verdict(self, before: Activity) -> Activity {
        match self.used_a_quarter() && self.running > 0 {
            true => Activity::Active,
            false if before == Activity::Active => self.activity(),
            false => Activity::Idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Activity::{Active, Idle};

    #[test]
    fn an_application_is_back_when_it_runs_on_and_not_for_a_timer() {
        let seen = |used_us, running| Seen {
            used: Duration::from_micros(used_us),
            passed: LOOK,
            running,
        };
        // A timer; a burst that is over; work; work that gets little of its CPU, as others run there.
        for (look, alone, after_work) in [
            (seen(60, 0), Idle, Idle),
            (seen(1500, 0), Idle, Active),
            (seen(1500, 1), Active, Active),
            (seen(300, 1), Idle, Active),
            (seen(0, 0), Idle, Idle),
        ] {
            assert_eq!(look.verdict(Idle), alone, "{look:?}");
            assert_eq!(look.verdict(Active), after_work, "{look:?}");
        }
    }
}
