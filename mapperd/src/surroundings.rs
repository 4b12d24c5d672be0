//! What changes around the applications: CPUs that come and go, sets that others write, sleep.
//!
//! All of it is looked at before each decision. CPUs that go offline, or that a container or slice
//! around the daemon loses, are not given out any more; those that come (back) are. CPUs that the
//! topology does not know yet have it read again.
//!
//! *CPU sets that somebody else writes.* An operator may write an application's `cpuset.cpus`, and
//! meant something by it. The application is then left where it was put: it takes no part in
//! decisions, and its CPUs are given to nobody else while there are others to give. Writing a set of
//! all CPUs gives it back to the daemon, which then knows nothing of it and starts anew.
//!
//! *Sleep.* Monotonic time stands still while the machine is suspended, and so does everything that
//! is measured. Still, caches are cold and clocks have changed: the interval in which the machine slept
//! is no sample. Changes of the wall clock are not noticed, since it is not used.

use crate::state::Daemon;
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
        let sleep = self.look_for_sleep();
        if [cpus, others, sleep].contains(&Surroundings::Changed) {
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
                if let Some(recorder) = self.parts.recorder.take() {
                    recorder.finish(std::time::Duration::ZERO);
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
        for app in &mut self.apps {
            // A newcomer's set is about to be written.
            if app.planned.is_none() && app.set_by_others.is_none() {
                continue;
            }
            let found = self.parts.enforcer.set_by_others(app.id);
            let set = found.filter(|set| !self.usable.is_subset(set));
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
        surroundings
    }

    /// What remains to be given out beside those that others have placed; everything, if they hold
    /// it all.
    pub(crate) fn left_by_others(&self) -> CpuSet {
        let mut left = self.usable.clone();
        for app in self.apps.iter().filter(|app| app.set_by_others.is_some()) {
            left.remove_all(&app.effective);
        }
        if left.is_empty() {
            self.usable.clone()
        } else {
            left
        }
    }

    fn look_for_sleep(&mut self) -> Surroundings {
        let suspended_ns = self.parts.clock.suspended_ns();
        let slept = Duration::from_nanos(suspended_ns.saturating_sub(self.suspended_ns));
        self.suspended_ns = suspended_ns;
        if slept < SLEPT {
            return Surroundings::AsBefore;
        }
        tracing::info!("the machine was suspended for {slept:.1?}");
        Surroundings::Changed
    }
}
