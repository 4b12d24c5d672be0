//! Idle CPUs lent in one direction, as control groups can do it.
//!
//! A group with `cpu.idle=1` runs only where no other wants to, at full speed where it is alone. A program may so be
//! given another's CPUs beside its own at idle priority: it gives way there immediately. It cannot lend its own to that
//! other in turn. So programs are put into an order ([`Order`]) and idle CPUs go down that order only; nested
//! groups can express any length. Programs with nothing to borrow for stand first, then those that left most CPUs idle.
//!
//! Units: threads, CPUs, seconds. Costs ([`Loan::costs`]): evicted threads wait up to a period of the balancer for
//! another CPU; every move costs what moves cost elsewhere in the model; an owner that takes CPUs back finds their caches
//! filled by others. A lent sibling slows its owner by the performance function.
//!
//! Invariant: no program runs on a CPU of another that may run on one of its own.

use crate::machine::Machine;
use crate::occupancy::{Occupancy, seats};
use crate::scenario::Lending;
use mapper_model::{CpuId, CpuSet};

/// Period in which Linux's balancer finds a waiting thread a free CPU.
const BALANCING_S: f64 = 4e-3;
/// Time after which a program's idle share is known.
const KNOWN_S: f64 = 3.0;
/// Threads without a CPU from which a program has something to borrow for.
const BORROWS: f64 = 1.0;
/// By how much more of its CPUs a program has to leave idle to be put before another.
const CLEARLY: f64 = 0.05;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Party<'a> {
    pub(crate) app: usize,
    pub(crate) own: &'a CpuSet,
    /// Its place in the order, once it is known: idle CPUs go from lower to higher ones.
    pub(crate) rank: Option<usize>,
    /// Threads without a CPU of their own that may run elsewhere.
    pub(crate) waiting: f64,
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

/// Spreads waiting threads over the idle CPUs of programs before theirs: idle cores first, then second contexts, as Linux
/// does; last, if they are lent, siblings of contexts on which others run.
pub(crate) fn lend(
    occupancy: &mut Occupancy,
    machine: &Machine,
    parties: &[Party<'_>],
    how: Lending,
) {
    let parties: Vec<_> = parties.iter().filter(|p| p.rank.is_some()).collect();
    let before = occupancy.clone();
    let busy = |context: usize| before.row(context).iter().any(|share| *share > 0.0);
    let (mut free, mut beside) = (CpuSet::default(), CpuSet::default());
    for context in (0..machine.contexts() as usize).filter(|context| !busy(*context)) {
        let alone = machine.sibling_of(context).is_none_or(|s| !busy(s));
        let set = if alone { &mut free } else { &mut beside };
        set.insert(CpuId(context as u32));
    }
    let mut waiting: Vec<f64> = parties.iter().map(|p| p.waiting).collect();
    for [.., context] in [seats(machine, &free), seats(machine, &beside)].concat() {
        let cpu = CpuId(context as u32);
        let mut owners = parties.iter().filter(|p| p.own.contains(cpu));
        let (Some(owner), None) = (owners.next(), owners.next()) else {
            continue;
        };
        let meets_others = |guest: &Party<'_>| {
            machine.sibling_of(context).is_some_and(|sibling| {
                let mut row = before.row(sibling).iter().enumerate();
                row.any(|(app, share)| app != guest.app && *share > 0.0)
            })
        };
        let guests: Vec<usize> = (0..parties.len())
            .filter(|&at| waiting[at] > 0.0 && parties[at].rank > owner.rank)
            .filter(|&at| how == Lending::OneWay || !meets_others(parties[at]))
            .collect();
        let total: f64 = guests.iter().map(|&at| waiting[at]).sum();
        let given = total.min(1.0);
        for at in guests {
            let share = given * waiting[at] / total;
            occupancy.add(context, parties[at].app, share);
            waiting[at] -= share;
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

/// The order of lending, by what programs left idle so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Order {
    programs: Vec<Known>,
    /// Known programs, the first lender first.
    order: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Known {
    /// CPU seconds of its own, used and had.
    used_s: f64,
    had_s: f64,
    /// Threads without a CPU when all own ones were busy last.
    waiting: f64,
    lived_s: f64,
}

impl Order {
    pub(crate) fn of(programs: usize) -> Self {
        Self {
            programs: vec![Known::default(); programs],
            order: Vec::new(),
        }
    }

    pub(crate) fn observe(&mut self, program: usize, loan: &Loan, seconds: f64) {
        let known = &mut self.programs[program];
        known.used_s += loan.used * seconds;
        known.had_s += loan.own * seconds;
        if loan.used + 0.5 > loan.own {
            known.waiting = loan.waiting;
        }
        known.lived_s += seconds;
    }

    /// The idle share of a program's CPUs, plus 1 for a program with nothing to borrow for.
    fn idle(&self, program: usize) -> f64 {
        let known = &self.programs[program];
        let idle = 1.0 - known.used_s / known.had_s.max(1e-12);
        match known.waiting >= BORROWS {
            true => idle,
            false => 1.0 + idle,
        }
    }

    /// Inserts programs that have become known and corrects what is clearly wrong; returns whether the order changed.
    pub(crate) fn update(&mut self) -> bool {
        let before = self.order.clone();
        for program in 0..self.programs.len() {
            if self.programs[program].lived_s >= KNOWN_S && !self.order.contains(&program) {
                let idle = self.idle(program);
                let at = self.order.partition_point(|&p| self.idle(p) >= idle);
                self.order.insert(at, program);
            }
        }
        for end in (1..self.order.len()).rev() {
            for at in 0..end {
                let [a, b] = [self.order[at], self.order[at + 1]];
                if self.idle(b) > self.idle(a) + CLEARLY {
                    self.order.swap(at, at + 1);
                }
            }
        }
        before != self.order
    }

    /// The place of a program, once it is known.
    pub(crate) fn rank(&self, program: usize) -> Option<usize> {
        self.order.iter().position(|p| *p == program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{hsw80, set};

    /// A serial part on the first core of ten, 80 threads on the other 60 CPUs, and so many of these that would borrow.
    fn lent(ranks: [usize; 2], waiting: f64, how: Lending) -> Occupancy {
        let machine = hsw80();
        let sets = [set("0-9,40-49"), set("10-39,50-79")];
        let mut occupancy = Occupancy::idle(&machine, 2);
        occupancy.confine(&machine, 0, 1.0, &sets[0]);
        occupancy.confine(&machine, 1, 80.0, &sets[1]);
        let parties = [0, 1].map(|app| Party {
            app,
            own: &sets[app],
            rank: Some(ranks[app]),
            waiting: [0.0, waiting][app],
        });
        match how {
            Lending::WholeCores => lend_cores(&mut occupancy, &machine, &parties),
            _ => lend(&mut occupancy, &machine, &parties, how),
        }
        occupancy
    }

    #[test]
    fn idle_cpus_go_down_the_order_only_and_busy_cores_only_where_siblings_are_lent() {
        // 19 of the 20 CPUs are idle, of which one is the sibling of the serial part.
        for (ranks, how, running, sibling) in [
            ([0, 1], Lending::OneWay, 79.0, [0.0, 1.0]),
            ([1, 0], Lending::OneWay, 60.0, [0.0, 0.0]),
            ([0, 1], Lending::OneWayCores, 78.0, [0.0, 0.0]),
            // Whole cores go in any direction.
            ([1, 0], Lending::WholeCores, 78.0, [0.0, 0.0]),
        ] {
            let found = lent(ranks, 20.0, how);
            assert!((found.running(1) - running).abs() < 1e-9);
            assert_eq!(found.row(40), sibling);
            assert_eq!(found.row(0), [1.0, 0.0]);
            let borrows = f64::from(u8::from(running > 60.0));
            assert_eq!(found.row(41), [0.0, borrows]);
        }
    }

    #[test]
    fn idle_cores_are_taken_before_second_contexts() {
        let occupancy = lent([0, 1], 9.0, Lending::OneWay);
        let on = |contexts: std::ops::Range<usize>| -> f64 {
            contexts.map(|c| occupancy.row(c)[1]).sum()
        };
        assert_eq!([on(1..10), on(40..50)], [9.0, 0.0]);
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

    #[test]
    fn programs_with_nothing_to_borrow_for_stand_first_then_those_that_are_idle_most() {
        let had = |used: f64, waiting| Loan {
            used,
            own: 20.0,
            waiting,
            ..Loan::default()
        };
        let mut order = Order::of(4);
        for (program, part, waiting) in [(0, 19.0, 20.0), (1, 10.0, 20.0), (2, 20.0, 0.0)] {
            order.observe(program, &had(20.0, waiting), 2.0);
            order.observe(program, &had(part, 0.0), 2.0);
        }
        order.observe(3, &had(20.0, 20.0), 1.0);
        assert!(order.update());
        let ranks = [0, 1, 2, 3].map(|program| order.rank(program));
        assert_eq!(ranks, [Some(2), Some(1), Some(0), None]);
        assert!(!order.update(), "nothing is new");
    }
}
