//! Who runs where: by context and application, the share of time in which one of its threads runs there.
//!
//! Plain Linux spreads all threads evenly ([`Occupancy::pool`], a mean field). Within its own CPU set an application's
//! computing threads each sit on a context ([`Occupancy::confine`]); those of services come and go
//! ([`Occupancy::spread`]).
//!
//! Invariant: no share is negative, and those of a context add up to at most 1.

use crate::machine::Machine;
use mapper_model::{CpuId, CpuSet};

/// Shares of time by context and application.
#[derive(Clone, PartialEq, Debug)]
pub struct Occupancy {
    apps: usize,
    /// One row of `apps` values for each context.
    shares: Vec<f64>,
}

impl Occupancy {
    /// Nothing runs.
    pub fn idle(machine: &Machine, apps: usize) -> Self {
        Self {
            apps,
            shares: vec![0.0; machine.contexts() as usize * apps],
        }
    }

    /// Plain Linux with this many runnable threads of each application: equal time for every thread, empty cores before
    /// second contexts, everything spread evenly.
    pub fn pool(machine: &Machine, runnable: &[f64]) -> Self {
        let mut occupancy = Self::idle(machine, runnable.len());
        let total: f64 = runnable.iter().sum();
        if total <= 0.0 {
            return occupancy;
        }
        let (cores, contexts) = (machine.cores() as usize, machine.contexts() as usize);
        let first = (total / cores as f64).min(1.0);
        let second = match contexts > cores {
            true => ((total - cores as f64) / (contexts - cores) as f64).clamp(0.0, 1.0),
            false => 0.0,
        };
        for context in 0..contexts {
            let busy = if context < cores { first } else { second };
            for (app, threads) in runnable.iter().enumerate() {
                occupancy.shares[context * runnable.len() + app] = busy * threads / total;
            }
        }
        occupancy
    }

    /// Confines an application with this many runnable threads to a set. Fewer threads than contexts sit on one core
    /// after the other, sockets in turn, second contexts last. [`Occupancy::divide`] shares contexts with others.
    pub fn confine(&mut self, machine: &Machine, app: usize, runnable: f64, set: &CpuSet) {
        if runnable >= f64::from(set.len()) {
            for cpu in set {
                self.add(cpu.index(), app, 1.0);
            }
            return;
        }
        let mut left = runnable;
        for [.., context] in seats(machine, set) {
            if left > 0.0 {
                self.add(context, app, left.min(1.0));
                left -= 1.0;
            }
        }
    }

    /// Spreads an application evenly over the cores of a set, and what does not fit there over second contexts: threads
    /// that wake and sleep all the time find an empty core before a second context.
    pub fn spread(&mut self, machine: &Machine, app: usize, runnable: f64, set: &CpuSet) {
        let mut left = runnable;
        for round in seats(machine, set).chunk_by(|a, b| a[0] == b[0]) {
            let share = (left / round.len() as f64).clamp(0.0, 1.0);
            left -= share * round.len() as f64;
            for &[.., context] in round {
                self.add(context, app, share);
            }
        }
    }

    /// Scales overbooked contexts down to their time.
    pub fn divide(&mut self) {
        for row in self.shares.chunks_exact_mut(self.apps.max(1)) {
            let total: f64 = row.iter().sum();
            if total > 1.0 {
                row.iter_mut().for_each(|share| *share /= total);
            }
        }
    }

    pub(crate) fn add(&mut self, context: usize, app: usize, share: f64) {
        if let Some(place) = self.shares.get_mut(context * self.apps + app) {
            *place += share;
        }
    }

    /// The shares of a context, one for each application.
    pub(crate) fn row(&self, context: usize) -> &[f64] {
        let row = context * self.apps..(context + 1) * self.apps;
        self.shares.get(row).unwrap_or(&[])
    }

    /// Average number of running threads of an application.
    pub(crate) fn running(&self, app: usize) -> f64 {
        self.shares.iter().skip(app).step_by(self.apps.max(1)).sum()
    }
}

/// The contexts of a set in the order in which Linux fills them: how many come before each in its core, before it in
/// its socket of those with as many, and the context.
pub(crate) fn seats(machine: &Machine, set: &CpuSet) -> Vec<[usize; 3]> {
    let mut taken_in_core = vec![0; machine.cores() as usize];
    let mut taken_in_socket = vec![[0; 2]; machine.nodes()];
    let mut seats = Vec::with_capacity(set.len() as usize);
    let contexts = set.iter().map(CpuId::index);
    for context in contexts.filter(|&context| context < machine.contexts() as usize) {
        let round = &mut taken_in_core[machine.core_of(context)];
        let in_socket = &mut taken_in_socket[machine.socket_of(context)][*round];
        seats.push([*round, *in_socket, context]);
        *round += 1;
        *in_socket += 1;
    }
    seats.sort_unstable();
    seats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{hsw80, set};
    use proptest::prelude::*;

    fn one(change: impl FnOnce(&mut Occupancy, &Machine)) -> Occupancy {
        let machine = hsw80();
        let mut occupancy = Occupancy::idle(&machine, 1);
        change(&mut occupancy, &machine);
        occupancy
    }

    #[test]
    fn linux_fills_cores_before_second_contexts_and_gives_every_thread_the_same_time() {
        let occupancy = Occupancy::pool(&hsw80(), &[20.0, 40.0]);
        assert!((occupancy.row(0)[0] - 1.0 / 3.0).abs() < 1e-12);
        assert!((occupancy.row(40)[1] - 0.5 * 2.0 / 3.0).abs() < 1e-12);
        let occupancy = Occupancy::pool(&hsw80(), &[322.0, 80.0]);
        let ratio = occupancy.running(0) / occupancy.running(1);
        assert!((ratio - 322.0 / 80.0).abs() < 1e-9);
        assert!((occupancy.running(0) + occupancy.running(1) - 80.0).abs() < 1e-9);
    }

    #[test]
    fn few_threads_in_a_set_sit_on_cores_of_their_own_in_turn_over_the_sockets() {
        // Cores 0 and 10 with both contexts, on two sockets.
        let occupancy = one(|o, machine| o.confine(machine, 0, 2.5, &set("0,10,40,50")));
        let found = [0, 10, 40, 50].map(|at| occupancy.row(at)[0]);
        assert_eq!(found, [1.0, 1.0, 0.5, 0.0]);
    }

    #[test]
    fn threads_that_come_and_go_are_spread_over_all_cores_of_a_set_before_second_contexts() {
        let spread = |runnable, on| one(|o, machine| o.spread(machine, 0, runnable, &set(on)));
        for (runnable, expected) in [
            (1.5, [0.5, 0.5, 0.5, 0.0, 0.0]),
            (4.0, [1.0, 1.0, 1.0, 0.5, 0.5]),
            (9.0, [1.0; 5]),
        ] {
            // Cores 0 and 10 with both contexts, core 20 with its second one alone.
            let found = spread(runnable, "0,10,40,50,60");
            assert_eq!([0, 10, 60, 40, 50].map(|at| found.row(at)[0]), expected);
        }
        for runnable in [9.0, 40.0, 55.0, 200.0] {
            let (pool, all) = (
                Occupancy::pool(&hsw80(), &[runnable]),
                spread(runnable, "0-79"),
            );
            for context in 0..80 {
                let off = pool.row(context)[0] - all.row(context)[0];
                assert!(off.abs() < 1e-12, "{runnable} threads, context {context}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_context_runs_for_more_than_all_of_its_time(
            runnable in prop::collection::vec(0.0..400.0_f64, 1..5),
            from in 0..60_u32,
        ) {
            let machine = hsw80();
            let mut confined = Occupancy::idle(&machine, runnable.len());
            let set = set(&format!("{from}-{}", from + 19));
            for (app, threads) in runnable.iter().enumerate() {
                confined.confine(&machine, app, *threads, &set);
            }
            confined.divide();
            for occupancy in [Occupancy::pool(&machine, &runnable), confined] {
                for context in 0..80 {
                    prop_assert!(occupancy.row(context).iter().all(|share| *share >= 0.0));
                    prop_assert!(occupancy.row(context).iter().sum::<f64>() <= 1.0 + 1e-9);
                }
            }
        }
    }
}
