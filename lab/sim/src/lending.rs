//! Idle CPUs lent as control groups can do it.
//!
//! A group with `cpu.idle=1` runs only where no other wants to, at full speed where it is alone. The decision says which
//! CPUs of others a program may use so ([`IdleTime`]).
//!
//! Units: threads, CPUs, seconds. Costs ([`Loan::costs`]): evicted threads wait up to a period of the balancer for
//! another CPU; every move costs what moves cost elsewhere in the model; an owner that takes CPUs back finds their caches
//! filled by others. A lent sibling slows its owner by the performance function.
//!
//! Invariant: no program runs on a CPU of another at the expense of that one's time.

use crate::machine::Machine;
use crate::occupancy::{Occupancy, seats};
use mapper_model::{CpuId, CpuSet, IdleTime};

/// Period in which Linux's balancer finds a waiting thread a free CPU.
const BALANCING_S: f64 = 4e-3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Party<'a> {
    pub(crate) app: usize,
    pub(crate) own: &'a CpuSet,
    /// What it may use besides.
    pub(crate) idle_time: Option<&'a IdleTime>,
    /// Threads without a CPU of their own that may run elsewhere.
    pub(crate) waiting: f64,
    /// Whether all its threads meet at barriers.
    pub(crate) meets: bool,
}

/// Lends idle cores at no cost to all with waiting threads, in proportion to these.
pub(crate) fn lend_cores(occupancy: &mut Occupancy, machine: &Machine, parties: &[Party<'_>]) {
    let (cores, contexts) = (machine.cores() as usize, machine.contexts() as usize);
    let is_idle = |context: usize| occupancy.row(context).iter().all(|share| *share <= 0.0);
    let idle: Vec<usize> = (0..contexts)
        .filter(|context| (context % cores..contexts).step_by(cores).all(is_idle))
        .collect();
    let total: f64 = parties.iter().map(|party| party.waiting).sum();
    let share = (total / idle.len() as f64).min(1.0);
    for context in idle.into_iter().filter(|_| total > 0.0) {
        for party in parties {
            if !party.own.contains(CpuId(context as u32)) {
                occupancy.add(context, party.app, share * party.waiting / total);
            }
        }
    }
}

/// Spreads waiting threads over what others leave idle on the CPUs of which they may use the idle time: idle cores first,
/// then second contexts, then siblings of contexts on which others run, as Linux does. Where the owner comes and goes within
/// less than a part of its cycle, as services do, threads that meet at barriers gain nothing: each time all wait for
/// those that the owner drives away (measured: 1.00 to 1.21 times the speed, other threads 1.61 times).
pub(crate) fn lend(occupancy: &mut Occupancy, machine: &Machine, parties: &[Party<'_>]) {
    let before = occupancy.clone();
    let used = |context: usize| before.row(context).iter().sum::<f64>();
    let (mut free, mut beside) = (CpuSet::default(), CpuSet::default());
    for context in (0..machine.contexts() as usize).filter(|context| used(*context) < 1.0) {
        let alone = machine.sibling_of(context).is_none_or(|s| used(s) <= 0.0);
        let set = if alone { &mut free } else { &mut beside };
        set.insert(CpuId(context as u32));
    }
    let mut waiting: Vec<f64> = parties.iter().map(|p| p.waiting).collect();
    for [.., context] in [seats(machine, &free), seats(machine, &beside)].concat() {
        let cpu = CpuId(context as u32);
        let gains = |party: &Party<'_>| used(context) <= 0.0 || !party.meets;
        for (party, waiting) in parties.iter().zip(&mut waiting) {
            if party.idle_time.is_some_and(|idle| idle.cpus.contains(cpu)) && gains(party) {
                let share = waiting.min(1.0 - used(context));
                occupancy.add(context, party.app, share);
                *waiting -= share;
            }
        }
    }
}

/// CPUs lent and borrowed by an application.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Loan {
    /// Own CPUs on which it runs.
    pub(crate) used: f64,
    pub(crate) own: f64,
    /// Others' CPUs on which it runs.
    pub(crate) borrowed: f64,
    /// Own CPUs on which others run.
    pub(crate) lent: f64,
    /// Threads that would run elsewhere if they could.
    pub(crate) waiting: f64,
}

/// What moves by a change of loans cost, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Moves {
    pub(crate) core_s: f64,
    /// Until the caches are filled again.
    pub(crate) refill_s: f64,
    /// For data that are then on another node.
    pub(crate) far_s: f64,
    /// Whether all threads meet at barriers, so that all wait for one.
    pub(crate) meets: bool,
}

impl Loan {
    pub(crate) fn of(occupancy: &Occupancy, app: usize, set: &CpuSet, waiting: f64) -> Self {
        let mut loan = Self {
            own: f64::from(set.len()),
            waiting,
            ..Self::default()
        };
        for cpu in set {
            let row = occupancy.row(cpu.index());
            let own = row.get(app).copied().unwrap_or(0.0);
            loan.used += own;
            loan.lent += row.iter().sum::<f64>() - own;
        }
        loan.borrowed = (occupancy.running(app) - loan.used).max(0.0);
        loan
    }

    /// Seconds lost by a program whose loan was `before` and that still wants all CPUs it can get.
    pub(crate) fn costs(&self, before: &Self, moves: Moves) -> f64 {
        let part = |threads: f64, of: f64| match threads > 1e-9 {
            true if moves.meets => 1.0,
            true => (threads / of.max(1.0)).min(1.0),
            false => 0.0,
        };
        let running = self.used + self.borrowed;
        let driven = part(before.borrowed - self.borrowed, running);
        let came = part(self.borrowed - before.borrowed, running);
        let returned = part(before.lent - self.lent, self.own);
        let returned_s = moves.core_s + moves.refill_s;
        let moved_s = returned_s + moves.far_s;
        driven * (BALANCING_S + moved_s) + came * moved_s + returned * returned_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{hsw80, set};

    /// So much of the first core of ten used by one program, and 80 threads of another on the other 60 CPUs, of which so many
    /// wait and may use the idle time of these CPUs.
    fn lent(used: f64, waiting: f64, cpus: &str, meets: bool) -> Occupancy {
        let machine = hsw80();
        let sets = [set("0-9,40-49"), set("10-39,50-79")];
        let mut occupancy = Occupancy::idle(&machine, 2);
        occupancy.confine(&machine, 0, used, &sets[0]);
        occupancy.confine(&machine, 1, 80.0, &sets[1]);
        let idle_time = IdleTime {
            cpus: set(cpus),
            count: 1,
        };
        let parties = [0, 1].map(|app| Party {
            app,
            own: &sets[app],
            idle_time: (app == 1).then_some(&idle_time),
            waiting: [0.0, waiting][app],
            meets,
        });
        lend(&mut occupancy, &machine, &parties);
        occupancy
    }

    #[test]
    fn idle_time_is_used_on_the_cpus_that_were_named_and_nowhere_else() {
        // 19 of the 20 CPUs are idle, of which one is the sibling of the serial part.
        for (cpus, running, sibling) in [
            ("0-9,40-49", 79.0, [0.0, 1.0]),
            ("0-3", 63.0, [0.0; 2]),
            ("0", 60.0, [0.0; 2]),
        ] {
            let found = lent(1.0, 20.0, cpus, true);
            assert!((found.running(1) - running).abs() < 1e-9);
            assert_eq!(found.row(40), sibling);
            assert_eq!(found.row(0), [1.0, 0.0], "the owner has all its time");
        }
    }

    #[test]
    fn idle_cores_are_taken_before_second_contexts() {
        let occupancy = lent(1.0, 9.0, "0-9,40-49", true);
        let on = |contexts: std::ops::Range<usize>| -> f64 {
            contexts.map(|c| occupancy.row(c)[1]).sum()
        };
        assert_eq!([on(1..10), on(40..50)], [9.0, 0.0]);
    }

    #[test]
    fn what_an_owner_leaves_of_a_cpu_serves_threads_that_do_not_meet_at_barriers() {
        assert_eq!(lent(0.3, 20.0, "0", false).row(0), [0.3, 0.7]);
        assert_eq!(lent(0.3, 20.0, "0", true).row(0), [0.3, 0.0]);
    }

    #[test]
    fn whole_cores_go_to_all_at_no_cost() {
        let machine = hsw80();
        let sets = [set("0-9,40-49"), set("10-39,50-79")];
        let mut occupancy = Occupancy::idle(&machine, 2);
        occupancy.confine(&machine, 0, 1.0, &sets[0]);
        occupancy.confine(&machine, 1, 80.0, &sets[1]);
        let parties = [0, 1].map(|app| Party {
            app,
            own: &sets[app],
            idle_time: None,
            waiting: [0.0, 20.0][app],
            meets: true,
        });
        lend_cores(&mut occupancy, &machine, &parties);
        assert!((occupancy.running(1) - 78.0).abs() < 1e-9);
        assert_eq!([0, 40, 41].map(|at| occupancy.row(at)[1]), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn evicted_threads_wait_for_the_balancer_and_owners_find_cold_caches() {
        let loan = |borrowed, lent| Loan {
            used: 20.0,
            own: 20.0,
            borrowed,
            lent,
            waiting: 0.0,
        };
        for (meets, before, after, expected) in [
            // 20 of 40 threads lose their CPU: at barriers all wait 4 ms, the move and the refill.
            (true, loan(20.0, 0.0), loan(0.0, 0.0), 5.03e-3),
            // Without barriers 10 of 30 do alone.
            (false, loan(20.0, 0.0), loan(10.0, 0.0), 5.03e-3 / 3.0),
            (true, loan(0.0, 20.0), loan(0.0, 0.0), 1.03e-3),
            (true, loan(0.0, 0.0), loan(0.0, 0.0), 0.0),
        ] {
            let moves = Moves {
                core_s: 30e-6,
                refill_s: 1e-3,
                far_s: 0.0,
                meets,
            };
            let found = after.costs(&before, moves);
            assert!((found - expected).abs() < 1e-9, "{found}");
        }
    }
}
