//! Serial phases within a decision: what an application lends in one, and how it gets it back.
//!
//! A program that reports that it is serial needs one CPU, and others take the rest; after the phase it needs all of
//! them again. As gifts they would come back only one by one, after a broken promise. So what it gives in the phase are
//! loans ([`loans`]), which it is owed after it. A borrower returns what it got, as far as its own promise allows: down
//! to its fair share in any case, below that what it can spare. The rest is requested like any CPUs that are owed.

use super::counts::{self, is_serial};
use crate::accounting::Holder;
use crate::efficiency::decision::Decision;
use crate::efficiency::loans::{self, Borrower, Loans, Repayment};
use mapper_model::{Reason, SerialPhase};

/// Starts the serial phases that begin, and returns what is owed where one has ended.
pub(super) fn follow_serial_phases(decision: &mut Decision<'_>) {
    for place in 0..decision.len() {
        let open = decision.app(place).profile.serial_phase == SerialPhase::Open;
        if open && !is_serial(decision, place) && !decision.scratch[place].fixed {
            // A trial means nothing while one CPU suffices.
            decision.interrupt(place);
            let cpus = decision.count(place);
            decision.members.at_mut(place).loans = Some(Loans::of(cpus));
        }
    }
    for place in 0..decision.len() {
        let open = decision.app(place).profile.serial_phase == SerialPhase::Open;
        if !open && is_serial(decision, place) {
            end_serial_phase(decision, place);
        }
    }
}

/// CPUs that an application is owed for what it lent.
fn owed(decision: &Decision<'_>, place: usize, loans: &Loans) -> u32 {
    let due = loans.due().min(decision.scratch[place].max);
    due.saturating_sub(decision.count(place))
}

/// CPUs that a borrower can return without breaking its promise.
fn can_return(decision: &Decision<'_>, place: usize) -> u32 {
    if decision.scratch[place].fixed {
        return 0;
    }
    let beyond_fair = decision
        .count(place)
        .saturating_sub(decision.scratch[place].fair);
    beyond_fair.max(counts::spare(decision, place, &decision.metrics(place)))
}

fn end_serial_phase(decision: &mut Decision<'_>, place: usize) {
    let borrowed = match &decision.members.at(place).loans {
        Some(loans) if owed(decision, place, loans) > decision.free() => loans.borrowed().to_vec(),
        _ => Vec::new(),
    };
    for loan in borrowed {
        if let Some(taker) = decision.place_of(loan.taker) {
            // A trial with borrowed CPUs ends, which may already return them. It does not ask for them again in
            // the same decision.
            let before = decision.count(taker);
            decision.interrupt(taker);
            decision.scratch[taker].moved |= decision.count(taker) < before;
        }
    }
    let Some(loans) = decision.members.at_mut(place).loans.take() else {
        return;
    };
    let owed = owed(decision, place, &loans);
    decision.scratch[place].fresh = None;
    if decision.count(place) + owed > decision.accounts.before(place) {
        decision.say(place, Reason::SerialPhaseEnded { had: loans.due() });
    }
    let takers: Vec<(usize, Borrower)> = loans
        .borrowed()
        .iter()
        .rev()
        .filter_map(|loan| {
            let taker = decision.place_of(loan.taker)?;
            let borrower = Borrower {
                borrowed: loan.cpus,
                can_return: can_return(decision, taker),
            };
            Some((taker, borrower))
        })
        .collect();
    let borrowers: Vec<Borrower> = takers.iter().map(|(_, borrower)| *borrower).collect();
    let repaid = loans::repay(owed, decision.free(), &borrowers);
    let free = decision
        .accounts
        .shift(Holder::Pool, Holder::App(place), repaid.from_free);
    if free > 0 {
        decision.say(place, Reason::TookFree { cpus: free });
    }
    for ((taker, _), repayment) in takers.iter().zip(&repaid.repayments) {
        return_loan(decision, *taker, place, *repayment);
    }
    let cpus = decision.count(place);
    if cpus != decision.accounts.before(place) {
        decision.members.at_mut(place).restart_samples(cpus);
    }
    if owed > 0 {
        decision.scratch[place].moved = true;
        // Like what is owed after a broken promise.
        decision.scratch[place].want = decision.scratch[place].want.max(repaid.open);
    }
}

fn return_loan(decision: &mut Decision<'_>, taker: usize, lender: usize, repayment: Repayment) {
    // What it had of this was not its own, even if it has lent it itself.
    decision.members.at_mut(taker).forgo(repayment.claimed);
    let (from, to) = (Holder::App(taker), Holder::App(lender));
    let cpus = decision.accounts.shift(from, to, repayment.returned);
    if cpus == 0 {
        return;
    }
    let left = decision.count(taker);
    decision.members.at_mut(taker).restart_samples(left);
    // Its last sample belongs to the count before.
    decision.scratch[taker].fresh = None;
    decision.scratch[taker].moved = true;
    let (from, to) = (decision.id(taker), decision.id(lender));
    decision.say(taker, Reason::ReclaimedBy { taker: to, cpus });
    let from = Some(from);
    decision.say(lender, Reason::Reclaimed { from, cpus });
}
