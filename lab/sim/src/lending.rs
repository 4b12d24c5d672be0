//! Idle CPUs lent one way, as control groups can do it.
//!
//! A group with `cpu.idle=1` runs only where nobody else wants to, and is not hindered where it is alone. So a
//! program may be given the CPUs of another beside its own, at idle priority: on its own it is alone, from the
//! other's it is driven at once. What it cannot do is to lend its own to that other in turn, who would have to give way there.
//! Programs are therefore put into an order ([`Order`]), and idle CPUs go down that order only ([`Rank`]); groups in
//! groups express one of any length. Who has nothing to borrow for stands first, then who left most of
//! its CPUs idle.
//!
//! Units: threads, CPUs, seconds. What it costs ([`Loan::costs`]): threads that are driven out wait up to a period of the
//! balancer for another CPU; every move costs what moves cost elsewhere in the model; who takes CPUs back finds their caches
//! filled by others. A sibling that is lent slows its owner by the performance function.
//!
//! Invariant: nobody runs on a CPU of somebody who may run on one of its own.

use crate::machine::Machine;
use crate::occupancy::{Occupancy, seats};
use crate::scenario::Siblings;
use mapper_model::{CpuId, CpuSet};

/// Period in which Linux's balancer finds a thread that waits where another CPU is free.
const BALANCING_S: f64 = 4e-3;
/// Time after which what a program leaves idle is known.
const KNOWN_S: f64 = 3.0;
/// Threads without a CPU from which somebody has something to borrow for.
const BORROWS: f64 = 1.0;
/// By how much more of its CPUs somebody has to leave idle to be put before another.
const CLEARLY: f64 = 0.05;

/// A place in the order: idle CPUs go from lower to higher ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Rank(pub(crate) u32);

/// Somebody with CPUs of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Party<'a> {
    /// Which application.
    pub(crate) app: usize,
    pub(crate) own: &'a CpuSet,
    pub(crate) rank: Rank,
    /// Threads without a CPU of their own that may run elsewhere.
    pub(crate) waiting: f64,
}

/// Spreads waiting threads over the idle CPUs of those who stand before them: idle cores first, second contexts then,
/// as Linux does; last, if they are lent, siblings of contexts on which others run.
pub(crate) fn lend(
    occupancy: &mut Occupancy,
    machine: &Machine,
    parties: &[Party<'_>],
    siblings: Siblings,
) {
    let before = occupancy.clone();
    let busy = |context: usize| before.row(context).iter().any(|share| *share > 0.0);
    let (mut free, mut beside) = (CpuSet::default(), CpuSet::default());
    for context in (0..machine.contexts() as usize).filter(|context| !busy(*context)) {
        let alone = machine.sibling_of(context).is_none_or(|s| !busy(s));
        let set = if alone { &mut free } else { &mut beside };
        set.insert(CpuId(context as u32));
    }
    let mut waiting: Vec<f64> = parties.iter().map(|p| p.waiting).collect();
    let contexts = seats(machine, &free);
    for context in contexts.into_iter().chain(seats(machine, &beside)) {
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
            .filter(|&at| siblings == Siblings::Lent || !meets_others(&parties[at]))
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

/// What somebody has lent and borrowed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Loan {
    /// Own CPUs on which it runs, and all of its own.
    pub(crate) used: f64,
    pub(crate) own: f64,
    /// Others' CPUs on which it runs.
    pub(crate) borrowed: f64,
    /// Own CPUs on which others run.
    pub(crate) lent: f64,
    /// Threads that would run elsewhere if they might.
    pub(crate) waiting: f64,
}

/// Seconds that a change of loans takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Moves {
    /// To another core.
    pub(crate) core_s: f64,
    /// Until the caches are filled again.
    pub(crate) refill_s: f64,
    /// For data that are on another node from then on.
    pub(crate) far_s: f64,
    /// Whether all wait at barriers for who is late.
    pub(crate) meets: bool,
}

impl Loan {
    /// Of the application on this set.
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

    /// Seconds that a program loses when its loan was `before` and it still wants all CPUs it can get.
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
        let moved_s = moves.core_s + moves.refill_s + moves.far_s;
        driven * (BALANCING_S + moved_s)
            + came * moved_s
            + returned * (moves.core_s + moves.refill_s)
    }
}

/// Who lends to whom, by what everybody left idle so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Order {
    /// By program: CPU seconds used of its own, and had.
    used_s: Vec<f64>,
    had_s: Vec<f64>,
    /// Threads without a CPU of its own when all of these were busy last.
    waiting: Vec<f64>,
    lived_s: Vec<f64>,
    /// Programs that are known, first who lends first.
    order: Vec<usize>,
}

impl Order {
    pub(crate) fn of(programs: usize) -> Self {
        Self {
            used_s: vec![0.0; programs],
            had_s: vec![0.0; programs],
            waiting: vec![0.0; programs],
            lived_s: vec![0.0; programs],
            order: Vec::new(),
        }
    }

    /// A program had this for so long.
    pub(crate) fn observe(&mut self, program: usize, loan: &Loan, seconds: f64) {
        self.used_s[program] += loan.used * seconds;
        self.had_s[program] += loan.own * seconds;
        if loan.used + 0.5 > loan.own {
            self.waiting[program] = loan.waiting;
        }
        self.lived_s[program] += seconds;
    }

    /// The share of its CPUs that a program leaves idle, and more than all for one that has nothing to borrow for.
    fn idle(&self, program: usize) -> f64 {
        let idle = 1.0 - self.used_s[program] / self.had_s[program].max(1e-12);
        if self.waiting[program] >= BORROWS {
            idle
        } else {
            1.0 + idle
        }
    }

    /// Puts who has become known into the order and mends it where it is clearly wrong; returns whether it changed.
    pub(crate) fn update(&mut self) -> bool {
        let before = self.order.clone();
        for program in 0..self.lived_s.len() {
            if self.lived_s[program] >= KNOWN_S && !self.order.contains(&program) {
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

    /// Where a program stands, once it is known.
    pub(crate) fn rank(&self, program: usize) -> Option<Rank> {
        let at = self.order.iter().position(|p| *p == program)?;
        Some(Rank(at as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    fn machine() -> Machine {
        presets::machine("hsw80").unwrap()
    }

    /// A serial part on the first core of ten, and 80 threads on the other 60 CPUs.
    fn lent(ranks: [u32; 2], siblings: Siblings) -> Occupancy {
        let machine = machine();
        let sets: [CpuSet; 2] = ["0-9,40-49", "10-39,50-79"].map(|set| set.parse().unwrap());
        let mut occupancy = Occupancy::idle(&machine, 2);
        occupancy.confine(&machine, 0, 1.0, &sets[0]);
        occupancy.confine(&machine, 1, 80.0, &sets[1]);
        let party = |app: usize, waiting| Party {
            app,
            own: &sets[app],
            rank: Rank(ranks[app]),
            waiting,
        };
        let parties = [party(0, 0.0), party(1, 20.0)];
        lend(&mut occupancy, &machine, &parties, siblings);
        occupancy
    }

    #[test]
    fn idle_cpus_go_down_the_order_only() {
        // 19 of the 20 CPUs are idle, of which one is the sibling of the serial part.
        assert!((lent([0, 1], Siblings::Lent).running(1) - 79.0).abs() < 1e-9);
        assert!((lent([1, 0], Siblings::Lent).running(1) - 60.0).abs() < 1e-9);
    }

    #[test]
    fn a_core_on_which_its_owner_runs_is_lent_only_where_siblings_are() {
        let kept = lent([0, 1], Siblings::Kept);
        assert_eq!(kept.row(40), [0.0, 0.0]);
        assert!((kept.running(1) - 78.0).abs() < 1e-9);
        assert_eq!(lent([0, 1], Siblings::Lent).row(40), [0.0, 1.0]);
    }

    #[test]
    fn idle_cores_are_taken_before_second_contexts() {
        let machine = machine();
        let own: [CpuSet; 2] = ["0-9,40-49", "10-39,50-79"].map(|set| set.parse().unwrap());
        let mut occupancy = Occupancy::idle(&machine, 2);
        occupancy.confine(&machine, 0, 1.0, &own[0]);
        let party = |app: usize, waiting| Party {
            app,
            own: &own[app],
            rank: Rank(app as u32),
            waiting,
        };
        let parties = [party(0, 0.0), party(1, 9.0)];
        lend(&mut occupancy, &machine, &parties, Siblings::Lent);
        let on = |contexts: std::ops::Range<usize>| -> f64 {
            contexts.map(|c| occupancy.row(c)[1]).sum()
        };
        assert_eq!([on(1..10), on(40..50)], [9.0, 0.0]);
    }

    fn loan(borrowed: f64, lent: f64) -> Loan {
        Loan {
            used: 20.0,
            own: 20.0,
            borrowed,
            lent,
            waiting: 0.0,
        }
    }

    const MOVES: Moves = Moves {
        core_s: 30e-6,
        refill_s: 1e-3,
        far_s: 0.0,
        meets: true,
    };

    #[test]
    fn a_thread_driven_out_waits_for_the_balancer_and_at_a_barrier_so_does_its_team() {
        // 20 of 40 threads lose their CPU: all wait 4 ms, the move and the refill. Without barriers 10 of 30 do alone.
        let team = loan(0.0, 0.0).costs(&loan(20.0, 0.0), MOVES);
        assert!((team - 5.03e-3).abs() < 1e-9, "{team}");
        let alone = Moves {
            meets: false,
            ..MOVES
        };
        let each = loan(10.0, 0.0).costs(&loan(20.0, 0.0), alone);
        assert!((each - 5.03e-3 / 3.0).abs() < 1e-9, "{each}");
    }

    #[test]
    fn who_takes_cpus_back_finds_cold_caches() {
        let back = loan(0.0, 0.0).costs(&loan(0.0, 20.0), MOVES);
        assert!((back - 1.03e-3).abs() < 1e-9, "{back}");
        assert_eq!(loan(0.0, 0.0).costs(&loan(0.0, 0.0), MOVES), 0.0);
    }

    #[test]
    fn who_has_nothing_to_borrow_for_stands_first_then_who_is_idle_most() {
        let had = |used: f64, waiting| Loan {
            used,
            own: 20.0,
            waiting,
            ..Loan::default()
        };
        let mut order = Order::of(4);
        for (program, part) in [(0, 19.0), (1, 10.0), (2, 20.0)] {
            order.observe(
                program,
                &had(20.0, if program == 2 { 0.0 } else { 20.0 }),
                2.0,
            );
            order.observe(program, &had(part, 0.0), 2.0);
        }
        order.observe(3, &had(20.0, 20.0), 1.0);
        assert!(order.update());
        let ranks: Vec<Option<Rank>> = (0..4).map(|program| order.rank(program)).collect();
        assert_eq!(ranks, [Some(Rank(2)), Some(Rank(1)), Some(Rank(0)), None]);
        assert!(!order.update(), "nothing is new");
    }
}
