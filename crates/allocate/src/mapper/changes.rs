//! Membership changes within a decision: who came, who left, what else is different now.

use super::loans::Loans;
use super::state::{Mode, Standing, Terms};
use super::stealing::{self, Bidder, Passes};
use super::turn::Turn;
use crate::ledger::{self, Holder};
use crate::roll::Attendance;
use mapper_model::Reason;

impl Turn<'_> {
    /// Whether anybody came, left or asks for something else, or CPUs came or went.
    pub(super) fn membership_changed(&self, attendance: Attendance, usable_before: u32) -> bool {
        attendance.changed()
            || usable_before != self.usable
            || (0..self.len()).any(|place| {
                let member = self.members.at(place);
                member.standing == Standing::Newcomer
                    || member.terms != Some(Terms::of(self.app(place)))
                    || self.count(place) > self.sheets[place].max
                    || member.cpus != self.count(place)
            })
    }

    /// Gives everybody what he is owed in the new situation [readings R3.13, R3.14]. Trials end;
    /// newcomers, and those who did not choose to be below their fair shares, get them at once;
    /// others are cut only as far as that takes, and never below their own fair shares.
    pub(super) fn settle_membership(&mut self, usable_before: u32) {
        for place in 0..self.len() {
            self.interrupt(place);
            let surplus = self.count(place).saturating_sub(self.sheets[place].max);
            if surplus > 0 {
                self.ledger.shift(Holder::App(place), Holder::Pool, surplus);
                self.say_limits(place);
            }
        }
        let bidders: Vec<Bidder> = (0..self.len())
            .map(|place| {
                let (sheet, member) = (&self.sheets[place], self.members.at(place));
                let cur = self.count(place);
                let owed = if member.modest && cur >= member.cpus {
                    // What it lends in a serial phase is its own.
                    let due = member.loans.as_ref().map_or(0, Loans::due);
                    sheet.min.max(due.min(sheet.fair))
                } else {
                    sheet.fair
                };
                Bidder {
                    cur,
                    fair: sheet.fair,
                    want: owed.saturating_sub(cur),
                    ..Bidder::default()
                }
            })
            .collect();
        let round = stealing::round(self.ledger.free(), &bidders, Passes::ReclaimOnly);
        for step in &round.moves {
            let from = step.from.map_or(Holder::Pool, Holder::App);
            self.ledger.shift(from, Holder::App(step.to), step.cpus);
            let taker = self.id(step.to);
            if let Some(giver) = step.from {
                self.say(
                    giver,
                    Reason::ReclaimedBy {
                        taker,
                        cpus: step.cpus,
                    },
                );
            }
            if self.members.at(step.to).standing == Standing::Known {
                let from = step.from.map(|giver| self.id(giver));
                self.say(
                    step.to,
                    Reason::Reclaimed {
                        from,
                        cpus: step.cpus,
                    },
                );
            }
        }
        self.ledger.draw_together();
        let enough = self.config.initial_intervals;
        for place in 0..self.len() {
            let cpus = self.count(place);
            let fair = self.sheets[place].fair;
            let newcomer = self.members.at(place).standing == Standing::Newcomer;
            if newcomer {
                if let Some(begin) = ledger::begin(self.app(place), fair, self.usable) {
                    self.say(place, begin);
                }
            } else if usable_before != self.usable && cpus != self.ledger.before(place) {
                self.say(
                    place,
                    Reason::UsableChanged {
                        usable: self.usable,
                    },
                );
            }
            let known = self.curve(place).at(cpus).map_or(0.0, |p| p.samples);
            let member = self.members.at_mut(place);
            member.terms = Some(Terms::of(&self.snapshot.apps[place]));
            member.gifts.clear();
            member.loans = None;
            member.forget_trials();
            member.holdoff = 0;
            member.modest &= cpus < fair;
            if member.fair != fair {
                // The promise is another one now.
                member.broken_at = 0;
            }
            if newcomer || cpus != member.cpus {
                member.settle_at(cpus);
                if known < f64::from(enough) {
                    member.mode = Mode::Measuring { done: 0 };
                }
            }
        }
    }

    fn say_limits(&mut self, place: usize) {
        let range = self.app(place).spec.cpus;
        self.say(
            place,
            Reason::Limited {
                min: range.min(),
                max: range.max(),
            },
        );
    }
}
