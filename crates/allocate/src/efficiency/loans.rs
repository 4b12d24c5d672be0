//! CPUs that changed hands and may have to come back: gifts, and loans in a serial phase.
//!
//! A *gift* is undone when it broke the giver's promise. A *loan* comes back in any case: a program that
//! reports that it is serial needs one CPU, others take the rest, and after the phase it needs all again.
//! [`Loans`] hold how many CPUs it had when the phase began, and the borrowers. [`repay`] takes what is
//! owed from the free CPUs, then from the borrowers in their order, as far as their own promises allow.
//!
//! Invariants (property-tested): an application gets no more than it is owed, a borrower returns no more
//! than it borrowed or can return, and the rest stays owed.

use mapper_model::AppId;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Gift {
    pub(crate) taker: AppId,
    pub(crate) cpus: u32,
}

/// What an application gets back after its serial phase.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Loans {
    /// The count it had when the phase began, less what it owed others.
    due: u32,
    /// Which applications borrowed from it, each once, the latest last.
    borrowed: Vec<Gift>,
}

impl Loans {
    /// Loans of an application with this many CPUs; none yet.
    pub(crate) const fn of(due: u32) -> Self {
        Self {
            due,
            borrowed: Vec::new(),
        }
    }

    pub(crate) const fn due(&self) -> u32 {
        self.due
    }

    pub(crate) fn borrowed(&self) -> &[Gift] {
        &self.borrowed
    }

    /// Lends CPUs. A second loan to the same borrower is added to the first and moves to the back.
    pub(crate) fn lend(&mut self, taker: AppId, cpus: u32) {
        let before = self.strike(taker, u32::MAX);
        self.borrowed.push(Gift {
            taker,
            cpus: before.saturating_add(cpus),
        });
    }

    /// Removes what came back of a loan, and returns how much of it was lent.
    pub(crate) fn strike(&mut self, taker: AppId, cpus: u32) -> u32 {
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
    pub(crate) const fn forgo(&mut self, cpus: u32) {
        self.due = self.due.saturating_sub(cpus);
    }
}

/// The CPUs that an application borrowed, and those it can return without breaking its promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Borrower {
    pub(crate) borrowed: u32,
    pub(crate) can_return: u32,
}

/// What is claimed of a loan, and what of that comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Repayment {
    pub(crate) claimed: u32,
    pub(crate) returned: u32,
}

/// How what is owed comes back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Repaid {
    /// From the free CPUs.
    pub(crate) from_free: u32,
    /// From each borrower, in their order.
    pub(crate) repayments: Vec<Repayment>,
    /// What is still owed.
    pub(crate) open: u32,
}

/// How what is owed comes back: from the free CPUs, then from the borrowers in their order.
pub(crate) fn repay(owed: u32, free: u32, borrowers: &[Borrower]) -> Repaid {
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
    Repaid {
        from_free,
        repayments,
        open,
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

    fn returned(repaid: &Repaid) -> Vec<u32> {
        let parts = repaid.repayments.iter();
        parts.map(|repayment| repayment.returned).collect()
    }

    #[test]
    fn free_cpus_come_first_and_then_the_borrowers_in_their_order() {
        let repaid = repay(7, 2, &[borrower(3, 9), borrower(4, 9)]);
        assert_eq!((repaid.from_free, repaid.open), (2, 0));
        assert_eq!(returned(&repaid), [3, 2]);
    }

    #[test]
    fn what_a_borrower_needs_for_its_promise_stays_with_it_and_is_still_owed() {
        let repaid = repay(7, 0, &[borrower(7, 5)]);
        assert_eq!((returned(&repaid), repaid.open), (vec![5], 2));
        assert_eq!(repaid.repayments[0].claimed, 7);
    }

    #[test]
    fn two_loans_to_one_borrower_are_merged_and_move_to_the_back() {
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
        fn no_more_comes_back_than_is_owed_or_than_a_borrower_can_return(
            owed in 0u32..200,
            free in 0u32..200,
            borrowers in proptest::collection::vec((0u32..100, 0u32..100), 0..6),
        ) {
            let borrowers: Vec<Borrower> = borrowers
                .into_iter()
                .map(|(borrowed, can_return)| borrower(borrowed, can_return))
                .collect();
            let repaid = repay(owed, free, &borrowers);
            prop_assert!(repaid.from_free <= free);
            let sum: u32 = returned(&repaid).iter().sum();
            prop_assert_eq!(repaid.from_free + sum + repaid.open, owed);
            for (repayment, borrower) in repaid.repayments.iter().zip(&borrowers) {
                prop_assert!(repayment.returned <= borrower.can_return);
                prop_assert!(repayment.returned <= repayment.claimed);
                prop_assert!(repayment.claimed <= borrower.borrowed);
            }
            // Nothing stays owed while a borrower could return it.
            let more = repaid.repayments.iter().zip(&borrowers).any(|(repayment, borrower)| {
                repayment.returned < borrower.borrowed.min(borrower.can_return)
            });
            prop_assert!(repaid.open == 0 || !more && repaid.from_free == free);
        }
    }
}
