//! Membership changes within a decision: which applications came or left, and what else changed.

use super::decision::Decision;
use super::loans::Loans;
use super::member::{Mode, Request, Standing};
use super::membership;
use super::stealing::Bidder;
use crate::accounting;
use crate::table::Changes;
use mapper_model::Reason;

impl Decision<'_> {
    /// Whether an application came, left or asks for something else, or CPUs came or left.
    pub(crate) fn membership_changed(&self, changes: Changes, usable_before: u32) -> bool {
        changes.changed()
            || usable_before != self.usable
            || (0..self.len()).any(|place| {
                let member = self.members.at(place);
                member.standing == Standing::Newcomer
                    || member.terms != Some(Request::of(self.app(place)))
                    || self.count(place) > self.scratch[place].max
                    || member.cpus != self.count(place)
            })
    }

    /// Gives every application what it is owed in the new situation [readings R3.13, R3.14]. Trials end.
    /// Newcomers, and those below their fair shares against their will, get their fair shares. Others are
    /// cut only as far as that takes, never below their own.
    pub(crate) fn resolve_membership(&mut self, usable_before: u32) {
        for place in 0..self.len() {
            self.interrupt(place);
            let (app, max) = (self.app(place), self.scratch[place].max);
            let limited = membership::cut_to_limit(&mut self.accounts, place, app, max);
            self.scratch[place].reasons.extend(limited);
        }
        let bidders: Vec<Bidder> = (0..self.len())
            .map(|place| {
                let (scratch, member) = (&self.scratch[place], self.members.at(place));
                let cur = self.count(place);
                let owed = if member.modest && cur >= member.cpus {
                    // What it lends in a serial phase is its own.
                    let due = member.loans.as_ref().map_or(0, Loans::due);
                    scratch.min.max(due.min(scratch.fair))
                } else {
                    scratch.fair
                };
                Bidder {
                    cur,
                    fair: scratch.fair,
                    want: owed.saturating_sub(cur),
                    ..Bidder::default()
                }
            })
            .collect();
        let (members, scratch) = (&*self.members, &mut self.scratch);
        membership::reclaim(
            &mut self.accounts,
            self.snapshot.apps,
            &bidders,
            |place| members.at(place).standing == Standing::Newcomer,
            |place, reason| scratch[place].reasons.push(reason),
        );
        self.accounts.merge_transfers();
        let enough = self.config.initial_intervals;
        for place in 0..self.len() {
            let cpus = self.count(place);
            let fair = self.scratch[place].fair;
            let newcomer = self.members.at(place).standing == Standing::Newcomer;
            if newcomer {
                if let Some(begin) = accounting::begin(self.app(place), fair, self.usable) {
                    self.say(place, begin);
                }
            } else if usable_before != self.usable && cpus != self.accounts.before(place) {
                let usable = self.usable;
                self.say(place, Reason::UsableChanged { usable });
            }
            let known = self.curve(place).at(cpus).map_or(0.0, |p| p.samples);
            let member = self.members.at_mut(place);
            member.terms = Some(Request::of(&self.snapshot.apps[place]));
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
                member.restart_samples(cpus);
                if known < f64::from(enough) {
                    member.mode = Mode::Measuring { done: 0 };
                }
            }
        }
    }
}
