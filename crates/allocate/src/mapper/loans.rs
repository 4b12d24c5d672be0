//! Loans: what an application does without in a serial phase, and how it has it back after that.
//!
//! Problem: a program that says that it is serial needs one CPU, and others take the rest. When it says
//! that the phase is over it has use for all of them again. If they were gifts like any other, it would
//! have to fall below its promise first, would get back one gift at a time, and no more than the promise
//! takes. Unit: CPUs. The paper knows no such statements; of programs that make none nothing is decided
//! differently.
//!
//! Approach: [`Loans`] remember how many CPUs it had when the phase began, and who got them. With the
//! first decision after the phase it is owed the difference. [`settle`] takes it from the free CPUs, then
//! from the borrowers, the last first. A borrower returns what it got, as far as its own promise does not
//! need it: down to its fair share in any case, below that what it can spare. The rest is asked for
//! like any CPUs that are owed, and the program tries more as it did before the phase.
//!
//! Invariants (property-tested): nobody gets more than it is owed, nobody returns more than it borrowed
//! or can return, and what is not returned stays owed.

use super::state::Gift;
use super::turn::Turn;
use crate::ledger::Holder;
use mapper_model::{AppId, Reason, SerialPhase};
use serde::{Deserialize, Serialize};

/// What an application is to have again when its serial phase is over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Loans {
    /// The count it had when the phase began, less what it owed others.
    due: u32,
    /// Who has borrowed from it, each once, the last one last.
    borrowed: Vec<Gift>,
}

impl Loans {
    /// Nothing lent yet of this many CPUs.
    pub(super) const fn of(due: u32) -> Self {
        Self {
            due,
            borrowed: Vec::new(),
        }
    }

    /// The count it is to have again.
    pub(super) const fn due(&self) -> u32 {
        self.due
    }

    pub(super) fn lend(&mut self, taker: AppId, cpus: u32) {
        let before = self.strike(taker, u32::MAX);
        self.borrowed.push(Gift {
            taker,
            cpus: before.saturating_add(cpus),
        });
    }

    /// Strikes what came back of a loan, and returns how much of it was lent.
    pub(super) fn strike(&mut self, taker: AppId, cpus: u32) -> u32 {
        let mut struck = 0;
        for loan in self.borrowed.iter_mut().filter(|l| l.taker == taker) {
            let part = cpus.min(loan.cpus);
            loan.cpus -= part;
            struck += part;
        }
        self.borrowed.retain(|l| l.cpus > 0);
        struck
    }

    /// So many of the CPUs that it had were owed to others.
    pub(super) const fn forgo(&mut self, cpus: u32) {
        self.due = self.due.saturating_sub(cpus);
    }
}

/// One who borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Borrower {
    /// CPUs it borrowed.
    borrowed: u32,
    /// CPUs it can return without being short of its promise.
    can_return: u32,
}

/// What one borrower is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Repayment {
    /// What is owed of the loan.
    claimed: u32,
    /// What of that comes back.
    returned: u32,
}

/// How what is owed comes back.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Settlement {
    /// From the free CPUs.
    from_free: u32,
    /// From each borrower, in their order.
    repayments: Vec<Repayment>,
    /// What is still owed.
    open: u32,
}

/// Settles what is owed: from the free CPUs, then from the borrowers in their order.
fn settle(owed: u32, free: u32, borrowers: &[Borrower]) -> Settlement {
    let from_free = owed.min(free);
    let mut open = owed - from_free;
    let repayments = borrowers
        .iter()
        .map(|borrower| {
            let claimed = borrower.borrowed.min(open);
            let returned = claimed.min(borrower.can_return);
            open -= returned;
            Repayment { claimed, returned }
        })
        .collect();
    Settlement {
        from_free,
        repayments,
        open,
    }
}

impl Turn<'_> {
    /// Whether an application is in a serial phase by its own account, and lends what it has.
    pub(super) fn is_serial(&self, place: usize) -> bool {
        self.members.at(place).loans.is_some()
    }

    /// Notes which serial phases begin, and settles what is owed where one has ended.
    pub(super) fn follow_serial_phases(&mut self) {
        for place in 0..self.len() {
            let open = self.app(place).profile.serial_phase == SerialPhase::Open;
            if open && !self.is_serial(place) && !self.sheets[place].fixed {
                // What it tries says nothing while one CPU is all it needs.
                self.interrupt(place);
                let cpus = self.count(place);
                self.members.at_mut(place).loans = Some(Loans::of(cpus));
            }
        }
        for place in 0..self.len() {
            let open = self.app(place).profile.serial_phase == SerialPhase::Open;
            if !open && self.is_serial(place) {
                self.end_serial_phase(place);
            }
        }
    }

    /// CPUs that an application is owed for what it lent.
    fn owed(&self, place: usize, loans: &Loans) -> u32 {
        let due = loans.due.min(self.sheets[place].max);
        due.saturating_sub(self.count(place))
    }

    /// CPUs that a borrower can return without being short of its promise.
    fn can_return(&self, place: usize) -> u32 {
        if self.sheets[place].fixed {
            return 0;
        }
        let beyond_fair = self.count(place).saturating_sub(self.sheets[place].fair);
        beyond_fair.max(self.spare(place, &self.metrics(place)))
    }

    fn end_serial_phase(&mut self, place: usize) {
        let borrowed = match &self.members.at(place).loans {
            Some(loans) if self.owed(place, loans) > self.free() => loans.borrowed.clone(),
            _ => Vec::new(),
        };
        for loan in borrowed {
            if let Some(taker) = self.place_of(loan.taker) {
                // A trial with borrowed CPUs ends, which may return them already.
                self.interrupt(taker);
            }
        }
        let Some(loans) = self.members.at_mut(place).loans.take() else {
            return;
        };
        let owed = self.owed(place, &loans);
        self.sheets[place].fresh = None;
        if self.count(place) + owed > self.ledger.before(place) {
            self.say(place, Reason::SerialPhaseEnded { had: loans.due });
        }
        let takers: Vec<(usize, Borrower)> = loans
            .borrowed
            .iter()
            .rev()
            .filter_map(|loan| {
                let taker = self.place_of(loan.taker)?;
                let borrower = Borrower {
                    borrowed: loan.cpus,
                    can_return: self.can_return(taker),
                };
                Some((taker, borrower))
            })
            .collect();
        let borrowers: Vec<Borrower> = takers.iter().map(|(_, borrower)| *borrower).collect();
        let settlement = settle(owed, self.free(), &borrowers);
        let free = self
            .ledger
            .shift(Holder::Pool, Holder::App(place), settlement.from_free);
        if free > 0 {
            self.say(place, Reason::TookFree { cpus: free });
        }
        for ((taker, _), repayment) in takers.iter().zip(&settlement.repayments) {
            self.repay(*taker, place, *repayment);
        }
        let cpus = self.count(place);
        if cpus != self.ledger.before(place) {
            self.members.at_mut(place).settle_at(cpus);
        }
        if owed > 0 {
            self.sheets[place].moved = true;
            // As what is owed after a broken promise.
            self.sheets[place].want = self.sheets[place].want.max(settlement.open);
        }
    }

    fn repay(&mut self, taker: usize, lender: usize, repayment: Repayment) {
        // What it had of this was not its own, whether it still has it or has lent it itself.
        self.members.at_mut(taker).forgo(repayment.claimed);
        let cpus = self
            .ledger
            .shift(Holder::App(taker), Holder::App(lender), repayment.returned);
        if cpus == 0 {
            return;
        }
        let left = self.count(taker);
        self.members.at_mut(taker).settle_at(left);
        // Its last sample belongs to the count before.
        self.sheets[taker].fresh = None;
        self.sheets[taker].moved = true;
        let (from, to) = (self.id(taker), self.id(lender));
        self.say(taker, Reason::ReclaimedBy { taker: to, cpus });
        self.say(
            lender,
            Reason::Reclaimed {
                from: Some(from),
                cpus,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn borrower(borrowed: u32, can_return: u32) -> Borrower {
        Borrower {
            borrowed,
            can_return,
        }
    }

    fn returned(settlement: &Settlement) -> Vec<u32> {
        let parts = settlement.repayments.iter();
        parts.map(|repayment| repayment.returned).collect()
    }

    #[test]
    fn free_cpus_come_first_and_then_the_borrowers_in_their_order() {
        let settled = settle(7, 2, &[borrower(3, 9), borrower(4, 9)]);
        assert_eq!((settled.from_free, settled.open), (2, 0));
        assert_eq!(returned(&settled), [3, 2]);
    }

    #[test]
    fn what_a_borrower_needs_for_its_promise_stays_with_it_and_is_still_owed() {
        let settled = settle(7, 0, &[borrower(7, 5)]);
        assert_eq!((returned(&settled), settled.open), (vec![5], 2));
        assert_eq!(settled.repayments[0].claimed, 7);
    }

    #[test]
    fn who_lends_to_one_twice_is_owed_the_sum_and_last_by_him() {
        let mut loans = Loans::of(8);
        loans.lend(AppId(1), 2);
        loans.lend(AppId(2), 1);
        loans.lend(AppId(1), 3);
        let lent = |loans: &Loans| -> Vec<(u64, u32)> {
            let loans = loans.borrowed.iter();
            loans.map(|l| (l.taker.0, l.cpus)).collect()
        };
        assert_eq!(lent(&loans), [(2, 1), (1, 5)]);
        assert_eq!(loans.strike(AppId(1), 4), 4);
        assert_eq!(loans.strike(AppId(2), 4), 1);
        assert_eq!(lent(&loans), [(1, 1)]);
        loans.forgo(3);
        assert_eq!(loans.due(), 5);
    }

    proptest! {
        #[test]
        fn a_settlement_gives_nobody_more_than_it_is_owed_and_takes_from_nobody_more_than_it_can_return(
            owed in 0u32..200,
            free in 0u32..200,
            borrowers in proptest::collection::vec((0u32..100, 0u32..100), 0..6),
        ) {
            let borrowers: Vec<Borrower> = borrowers
                .into_iter()
                .map(|(borrowed, can_return)| borrower(borrowed, can_return))
                .collect();
            let settled = settle(owed, free, &borrowers);
            prop_assert!(settled.from_free <= free);
            let sum: u32 = returned(&settled).iter().sum();
            prop_assert_eq!(settled.from_free + sum + settled.open, owed);
            for (repayment, borrower) in settled.repayments.iter().zip(&borrowers) {
                prop_assert!(repayment.returned <= borrower.can_return);
                prop_assert!(repayment.returned <= repayment.claimed);
                prop_assert!(repayment.claimed <= borrower.borrowed);
            }
            // Nothing stays owed while somebody could return it.
            let more = settled.repayments.iter().zip(&borrowers).any(|(repayment, borrower)| {
                repayment.returned < borrower.borrowed.min(borrower.can_return)
            });
            prop_assert!(settled.open == 0 || !more && settled.from_free == free);
        }
    }
}
