//! What changes around the applications: CPUs that come and go, sets that others write, sleep.
//!
//! All of it is looked at before each decision. CPUs that go offline, or that a container or slice
//! around the daemon loses, are not given out any more; those that come (back) are. CPUs that the
//! topology does not know yet have it read again.
//!
//! *CPU sets that somebody else writes.* An operator may write an application's `cpuset.cpus`, and
//! meant something by it. The application is then left where it was put: it takes no part in
//! decisions, and its CPUs are given to nobody else while there are others to give. Writing a set of
//! all CPUs gives it back to the daemon, which then knows nothing of it and starts anew. That is for
//! those who may divide the machine: root and the daemon's user. An ordinary user who owns an adopted
//! group may write to it, too, but takes nothing from others by that: the group is released to him as he
//! set it. So is one in which he makes more groups than can be looked through.
//!
//! *Limits around one application* are another module's ([`limited`](crate::machine::limited)).
//!
//! *Sleep.* Monotonic time stands still while the machine is suspended, and so does everything that
//! is measured. Still, caches are cold and clocks have changed: the interval in which the machine slept
//! is no sample. Changes of the wall clock are not noticed, since it is not used.

use crate::daemon::Daemon;
use crate::store::saved::Ending;
use mapper_host::clock::Clock;
use mapper_host::enforce::{Departure, ForeignSet, Writer};
use mapper_model::CpuSet;
use std::time::Duration;

/// Sleep from which on an interval does not count.
const SLEPT: Duration = Duration::from_millis(100);

/// Whether the interval that has passed can be compared with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Surroundings {
    AsBefore,
    Changed,
}

impl Daemon {
    /// Looks at everything that may have changed.
    pub(crate) fn look_around(&mut self) -> Surroundings {
        let cpus = self.look_at_cpus();
        let others = self.look_for_others();
        let limits = self.look_for_limits();
        let sleep = self.look_for_sleep();
        if [cpus, others, limits, sleep].contains(&Surroundings::Changed) {
            Surroundings::Changed
        } else {
            Surroundings::AsBefore
        }
    }

    fn look_at_cpus(&mut self) -> Surroundings {
        let usable = match self.read_usable() {
            Ok(usable) => usable,
            Err(error) => {
                tracing::warn!("usable CPUs as before: {error:#}");
                return Surroundings::AsBefore;
            }
        };
        if !usable
            .online
            .is_subset(self.parts.controller.topology().cpus())
        {
            self.read_topology_again();
        }
        self.online = usable.online;
        if usable.cpus == self.usable {
            return Surroundings::AsBefore;
        }
        tracing::info!(
            "CPUs to give out: {} (before: {})",
            usable.cpus,
            self.usable
        );
        self.usable = usable.cpus;
        Surroundings::Changed
    }

    /// There are CPUs that the topology does not know.
    fn read_topology_again(&mut self) {
        match self.parts.topology_source.read() {
            Ok(topology) if topology != *self.parts.controller.topology() => {
                tracing::info!(cpus = %topology.cpus(), "topology read again");
                self.parts.controller.set_topology(topology);
                // Its thread writes what it was given, and ends.
                if self.parts.recorder.take().is_some() {
                    tracing::warn!("recording ended: it holds the decisions for one topology");
                }
            }
            // hwloc does not know them either: they cannot be placed, and are not given out.
            Ok(_) => {}
            Err(error) => tracing::warn!("topology as before: {}", mapper_host::chain(&error)),
        }
    }

    fn look_for_others(&mut self) -> Surroundings {
        let mut surroundings = Surroundings::AsBefore;
        let mut leave = Vec::new();
        for app in &mut self.apps {
            if let Some(groups) = self.parts.enforcer.too_many_groups(app.id) {
                tracing::warn!(
                    app = app.id.0,
                    name = %app.spec.name,
                    groups,
                    "released: there are more groups below it than can be looked through at each decision"
                );
                leave.push((app.id, Departure::ForGood));
                continue;
            }
            // A newcomer's set is about to be written.
            let placed = app.planned.is_some() || app.limited.is_some();
            if !placed && app.set_by_others.is_none() {
                continue;
            }
            let found = self.parts.enforcer.set_by_others(app.id);
            let narrower = found.filter(|set| !self.usable.is_subset(&set.cpus));
            let set = match narrower {
                Some(ForeignSet {
                    cpus,
                    writer: Writer::User(user),
                }) => {
                    tracing::warn!(
                        app = app.id.0,
                        name = %app.spec.name,
                        %cpus,
                        user,
                        "released: the user who owns it has set its CPUs, which are given to others all the same"
                    );
                    leave.push((app.id, Departure::ToItsOwner));
                    continue;
                }
                Some(ForeignSet {
                    cpus,
                    writer: Writer::Operator,
                }) => Some(cpus),
                None => None,
            };
            if let Some(set) = &set
                && let Ok(effective) = self.parts.enforcer.effective(app.id)
            {
                app.effective = effective;
                if app.set_by_others.as_ref() != Some(set) {
                    tracing::warn!(
                        app = app.id.0,
                        name = %app.spec.name,
                        cpus = %set,
                        "its CPUs were set by somebody else and are left so; write all CPUs to its \
                         cpuset.cpus to give it back"
                    );
                }
            }
            if app.set_by_others == set {
                continue;
            }
            surroundings = Surroundings::Changed;
            app.planned = None;
            if set.is_none() {
                tracing::info!(app = app.id.0, name = %app.spec.name, "under management again");
                app.effective = CpuSet::new();
            }
            app.set_by_others = set;
        }
        if leave.is_empty() {
            return surroundings;
        }
        for (app, departure) in leave {
            self.let_go(app, departure);
        }
        // The next daemon is not to manage them again.
        self.save(Ending::Running);
        Surroundings::Changed
    }

    /// What remains to be given out beside those that others have placed, and those that are limited;
    /// everything, if they hold it all.
    pub(crate) fn left_by_others(&self) -> CpuSet {
        let mut left = self.usable.clone();
        for app in self.apps.iter().filter(|app| app.set_by_others.is_some()) {
            left.remove_all(&app.effective);
        }
        for limited in self.apps.iter().filter_map(|app| app.limited.as_ref()) {
            left.remove_all(&limited.given);
        }
        if left.is_empty() {
            self.usable.clone()
        } else {
            left
        }
    }

    /// What is left of these CPUs for plans. If every application is to have its CPUs to itself, the last CPU of
    /// the machine is not for them: the kernel isolates none but where one is left to all others.
    pub(crate) fn less_housekeeping(&self, mut cpus: CpuSet) -> CpuSet {
        let mut others = self.apps.iter().filter(|app| app.partition.is_member());
        if !self.apps.is_empty()
            && others.next().is_none()
            && cpus.len() > 1
            && self.online.is_subset(&cpus)
            && let Some(first) = cpus.first_cpu()
        {
            cpus.remove(first);
        }
        cpus
    }

    fn look_for_sleep(&mut self) -> Surroundings {
        self.sleep.look(self.parts.clock.as_ref())
    }
}

/// For how long the machine had slept since it was booted when that was last looked at.
///
/// It is the difference of two clocks, one of which stands still meanwhile (`CLOCK_BOOTTIME` and
/// `CLOCK_MONOTONIC`): the only jump that either of them makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sleep {
    suspended_ns: u64,
}

impl Sleep {
    /// As of now.
    pub(crate) fn until_now(clock: &dyn Clock) -> Self {
        Self {
            suspended_ns: clock.suspended_ns(),
        }
    }

    /// Whether it has slept since the last look.
    fn look(&mut self, clock: &dyn Clock) -> Surroundings {
        let before = std::mem::replace(self, Self::until_now(clock));
        let slept_ns = self.suspended_ns.saturating_sub(before.suspended_ns);
        let slept = Duration::from_nanos(slept_ns);
        if slept < SLEPT {
            return Surroundings::AsBefore;
        }
        tracing::info!("the machine was suspended for {slept:.1?}");
        Surroundings::Changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Machine, root, user};
    use mapper_host::clock::ManualClock;
    use mapper_model::Trigger;

    fn set(cpus: &str, writer: Writer) -> ForeignSet {
        ForeignSet {
            cpus: cpus.parse().unwrap(),
            writer,
        }
    }

    #[test]
    fn what_the_operator_sets_stays_and_is_taken_from_the_others() {
        let mut machine = Machine::with_processes_of(0);
        let placed = machine.adopt(&root(), "/jobs/1").unwrap();
        let other = machine.adopt(&root(), "/jobs/2").unwrap();
        let foreign = set("0-5", Writer::Operator);
        machine.seen.borrow_mut().foreign.insert(placed, foreign);
        machine.daemon.decide(Trigger::Interval);
        assert_eq!(machine.daemon.left_by_others().to_string(), "6-7");
        let seen = machine.seen.borrow();
        assert_eq!(seen.sets[&other].to_string(), "6-7");
        assert_eq!(seen.released, []);
    }

    #[test]
    fn an_ordinary_user_who_sets_the_cpus_of_his_group_takes_none_from_others() {
        let user = user();
        let mut machine = Machine::with_processes_of(user.uid);
        let greedy = machine.adopt(&user, "/jobs/1").unwrap();
        let other = machine.adopt(&root(), "/jobs/2").unwrap();
        // Also if root had it adopted.
        let too = machine.adopt(&root(), "/jobs/3").unwrap();
        for app in [greedy, too] {
            let foreign = set("0-6", Writer::User(user.uid));
            machine.seen.borrow_mut().foreign.insert(app, foreign);
        }
        machine.daemon.decide(Trigger::Interval);
        assert_eq!(machine.daemon.left_by_others(), CpuSet::first(8));
        let seen = machine.seen.borrow();
        let released = [greedy, too].map(|app| (app, Departure::ToItsOwner));
        assert_eq!(seen.released, released);
        assert_eq!(seen.sets[&other], CpuSet::first(8));
        let left: Vec<_> = machine.daemon.apps.iter().map(|app| app.id).collect();
        assert_eq!(left, [other]);
    }

    #[test]
    fn a_group_in_which_too_many_are_made_is_released_with_what_it_had() {
        let mut machine = Machine::with_processes_of(0);
        let app = machine.adopt(&root(), "/jobs/1").unwrap();
        machine.seen.borrow_mut().groups.insert(app, 4711);
        machine.daemon.decide(Trigger::Interval);
        let seen = machine.seen.borrow();
        assert_eq!(seen.released, [(app, Departure::ForGood)]);
    }

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn only_the_interval_in_which_the_machine_slept_does_not_count() {
        let clock = ManualClock::default();
        // What it slept before the daemon came is nobody's interval.
        clock.sleep(3600 * SECOND_NS);
        let mut sleep = Sleep::until_now(&clock);
        let mut passed = |slept_ns| {
            clock.advance(SECOND_NS);
            clock.sleep(slept_ns);
            sleep.look(&clock)
        };
        assert_eq!(passed(0), Surroundings::AsBefore);
        assert_eq!(passed(5 * SECOND_NS), Surroundings::Changed);
        assert_eq!(passed(0), Surroundings::AsBefore);
        // The two clocks are read one after the other, so that they differ by a little at any time.
        assert_eq!(passed(1_000_000), Surroundings::AsBefore);
        assert_eq!(passed(SECOND_NS), Surroundings::Changed);
    }
}
