//! What threads lose by waiting for each other: at barriers, for locks, for the CPU.
//!
//! With more runnable threads than CPUs threads take turns. At each barrier an application then waits for threads
//! that are not running, which costs more the shorter it computes between barriers relative to a time slice. With
//! more threads than own CPUs it also waits for locks whose holders do not run.

use crate::application::AppModel;
use crate::constants::Constants;

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

/// The shares of its speed that an application keeps, at barriers and otherwise, with this many runnable threads on each
/// CPU: on CPUs of its own or under plain Linux, in a parallel or in a serial part.
pub(crate) fn kept(
    constants: &Constants,
    app: &AppModel,
    runnable_per_cpu: f64,
    own_cpus: bool,
    parallel: bool,
) -> [f64; 2] {
    let crowded = runnable_per_cpu > 1.0;
    let at_barriers = match parallel {
        true => at_barriers(constants, app, runnable_per_cpu),
        false => 1.0,
    };
    let otherwise = match own_cpus {
        true if parallel && crowded && !app.pipeline => {
            1.0 - constants.own_oversubscription * (1.0 - 1.0 / runnable_per_cpu)
        }
        false if crowded => 1.0 - constants.time_sharing,
        _ => 1.0,
    };
    [at_barriers, otherwise]
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
            for (crowding, own_cpus) in [(1.0, true), (0.3, false)] {
                let kept = kept(&constants, &app, crowding, own_cpus, true);
                assert_eq!(kept, [1.0, 1.0], "{name}");
            }
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
