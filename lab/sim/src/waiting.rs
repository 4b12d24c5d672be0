//! What threads lose by waiting for each other: at barriers, for locks, for the CPU.
//!
//! With more runnable threads than CPUs threads take turns. At each barrier an application then waits for threads
//! that are not running, which costs more the shorter it computes between barriers relative to a time slice. With
//! more threads than own CPUs it also waits for locks whose holders do not run.

use crate::application::AppModel;
use crate::constants::Constants;

/// The shares of its speed that an application keeps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Kept {
    pub(crate) at_barriers: f64,
    pub(crate) otherwise: f64,
}

impl Kept {
    pub(crate) const ALL: Self = Self {
        at_barriers: 1.0,
        otherwise: 1.0,
    };

    pub(crate) fn share(self) -> f64 {
        self.at_barriers * self.otherwise
    }
}

/// The share kept at barriers with this many runnable threads on each CPU.
fn at_barriers(constants: &Constants, app: &AppModel, runnable_per_cpu: f64) -> f64 {
    let Some(barrier_s) = app.barrier_s.filter(|_| runnable_per_cpu > 1.0) else {
        return 1.0;
    };
    let cost = match app.spin {
        true => constants.spin_wait,
        false => constants.block_wait,
    };
    let slice_s = constants.slice_s(runnable_per_cpu);
    let computing_s = (1.0 + barrier_s / slice_s) * barrier_s * runnable_per_cpu;
    1.0 / (1.0 + cost * (runnable_per_cpu - 1.0) * slice_s / computing_s)
}

/// What an application keeps on CPUs of its own.
pub(crate) fn on_own_cpus(constants: &Constants, app: &AppModel, runnable_per_cpu: f64) -> Kept {
    let crowded = runnable_per_cpu > 1.0 && !app.pipeline;
    Kept {
        at_barriers: at_barriers(constants, app, runnable_per_cpu),
        otherwise: match crowded {
            true => 1.0 - constants.own_oversubscription * (1.0 - 1.0 / runnable_per_cpu),
            false => 1.0,
        },
    }
}

/// What an application keeps under plain Linux.
pub(crate) fn in_pool(constants: &Constants, app: &AppModel, runnable_per_cpu: f64) -> Kept {
    Kept {
        at_barriers: at_barriers(constants, app, runnable_per_cpu),
        otherwise: match runnable_per_cpu > 1.0 {
            true => 1.0 - constants.time_sharing,
            false => 1.0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{app, close};
    use crate::presets;

    #[test]
    fn short_phases_between_spinning_barriers_suffer_most() {
        let kept = |name: &str| at_barriers(&Constants::default(), &app(name), 2.0);
        assert!(kept("moldyn") < 0.2);
        assert!(kept("moldyn") < kept("multigrid") && kept("multigrid") < kept("mandel"));
        assert_eq!(kept("SGD"), 1.0);
    }

    #[test]
    fn no_thread_waits_while_each_has_its_cpu() {
        let constants = Constants::default();
        for (name, app) in presets::read_apps(presets::APPS).unwrap() {
            assert_eq!(on_own_cpus(&constants, &app, 1.0), Kept::ALL, "{name}");
            assert_eq!(in_pool(&constants, &app, 0.3), Kept::ALL, "{name}");
        }
    }

    #[test]
    fn barriers_cost_by_the_formula_with_the_slice_that_crowding_leaves() {
        let mut app = app("moldyn");
        for (spin, barrier_s, crowding, cost) in [
            // r = 2: q = 12 ms, 1 + 0.5·1·12/((1 + 1/12)·1·2).
            (true, 1e-3, 2.0, 0.5 * 12.0 / (13.0 / 12.0 * 2.0)),
            // r = 4: q = 6 ms, 1 + 0.5·3·6/((1 + 3/6)·3·4).
            (true, 3e-3, 4.0, 0.5 * 3.0 * 6.0 / (1.5 * 3.0 * 4.0)),
            // r = 16: q = 3 ms and not 1.5, asleep: 1 + 0.03·15·3/((1 + 1)·3·16).
            (false, 3e-3, 16.0, 0.03 * 15.0 * 3.0 / (2.0 * 3.0 * 16.0)),
        ] {
            app.spin = spin;
            app.barrier_s = Some(barrier_s);
            let kept = at_barriers(&Constants::default(), &app, crowding);
            close(kept, 1.0 / (1.0 + cost), 1e-9);
        }
    }
}
