//! The CPU accounts of one decision: which application holds how many CPUs, and how they changed hands.
//!
//! Every CPU moves through [`CpuAccounting::shift`], so the accounts balance: the counts and the free CPUs add up to
//! the usable ones, and each count before, plus what it took, less what it gave, is its count after.

use crate::shares;
use mapper_model::{
    Allocation, AppId, AppView, Explanation, Placing, Reason, Share, Sharing, Snapshot, Transfer,
};

/// A holder of CPUs: the free pool, or an application by its place in the snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    Pool,
    App(usize),
}

/// The CPU accounts of one decision.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuAccounting {
    ids: Vec<AppId>,
    before: Vec<u32>,
    counts: Vec<u32>,
    free: u32,
    transfers: Vec<Transfer>,
}

impl CpuAccounting {
    /// Every application holds what the snapshot says; nothing, should that be more than is usable.
    pub(crate) fn open(snapshot: &Snapshot<'_>) -> Self {
        let usable = snapshot.usable.len();
        let mut counts: Vec<u32> = snapshot.apps.iter().map(|a| a.held.len()).collect();
        let mut held = counts.iter().fold(0u32, |sum, c| sum.saturating_add(*c));
        if held > usable {
            counts.fill(0);
            held = 0;
        }
        Self {
            ids: snapshot.apps.iter().map(|a| a.app).collect(),
            before: counts.clone(),
            counts,
            free: usable - held,
            transfers: Vec::new(),
        }
    }

    /// How many CPUs an application holds now.
    pub(crate) fn count(&self, place: usize) -> u32 {
        self.counts[place]
    }

    /// How many it held at the start of the decision.
    pub(crate) fn before(&self, place: usize) -> u32 {
        self.before[place]
    }

    pub(crate) const fn free(&self) -> u32 {
        self.free
    }

    /// Moves up to `cpus` from one holder to another and returns how many were there to move.
    pub(crate) fn shift(&mut self, from: Holder, to: Holder, cpus: u32) -> u32 {
        let available = match from {
            Holder::Pool => self.free,
            Holder::App(place) => self.counts[place],
        };
        let cpus = cpus.min(available);
        if cpus == 0 || from == to {
            return 0;
        }
        match from {
            Holder::Pool => self.free -= cpus,
            Holder::App(place) => self.counts[place] -= cpus,
        }
        match to {
            Holder::Pool => self.free += cpus,
            Holder::App(place) => self.counts[place] += cpus,
        }
        let id = |holder| match holder {
            Holder::Pool => None,
            Holder::App(place) => Some(self.ids[place]),
        };
        self.transfers.push(Transfer {
            from: id(from),
            to: id(to),
            cpus,
        });
        cpus
    }

    /// Gives an application this many CPUs: the difference comes from the pool or goes there.
    pub(crate) fn resize(&mut self, place: usize, cpus: u32) {
        let held = self.counts[place];
        if cpus > held {
            self.shift(Holder::Pool, Holder::App(place), cpus - held);
        } else {
            self.shift(Holder::App(place), Holder::Pool, held - cpus);
        }
    }

    /// Merges what went from one application through a second to a third: when a situation is resolved
    /// anew, what a trial borrowed goes back and may be owed to another application.
    pub(crate) fn merge_transfers(&mut self) {
        let between = |t: &Transfer| t.from.is_some() && t.to.is_some();
        let mut drawn: Vec<Transfer> = Vec::with_capacity(self.transfers.len());
        for mut next in std::mem::take(&mut self.transfers) {
            // What its giver has just been given goes straight to its taker.
            let mut at = 0;
            while between(&next) && next.cpus > 0 && at < drawn.len() {
                let earlier = drawn[at];
                if !between(&earlier) || earlier.to != next.from {
                    at += 1;
                    continue;
                }
                let part = earlier.cpus.min(next.cpus);
                next.cpus -= part;
                drawn[at].cpus -= part;
                if earlier.from != next.to {
                    drawn.push(Transfer {
                        from: earlier.from,
                        to: next.to,
                        cpus: part,
                    });
                }
                if drawn[at].cpus == 0 {
                    drawn.remove(at);
                }
            }
            if next.cpus > 0 {
                drawn.push(next);
            }
        }
        self.transfers = drawn;
    }

    /// Moves CPUs until every application holds its target: first from those with too many to those
    /// with too few, both in order of arrival, then to and from the pool.
    pub(crate) fn settle(&mut self, targets: &[u32]) {
        // Takers before this one have what they need.
        let mut taker = 0;
        for (giver, &target) in targets.iter().enumerate() {
            while self.counts[giver] > target {
                while taker < targets.len() && self.counts[taker] >= targets[taker] {
                    taker += 1;
                }
                let surplus = self.counts[giver] - target;
                if taker == targets.len() {
                    self.shift(Holder::App(giver), Holder::Pool, surplus);
                } else {
                    let missing = targets[taker] - self.counts[taker];
                    self.shift(Holder::App(giver), Holder::App(taker), surplus.min(missing));
                }
            }
        }
        for (place, target) in targets.iter().enumerate() {
            let missing = target.saturating_sub(self.counts[place]);
            self.shift(Holder::Pool, Holder::App(place), missing);
        }
    }

    /// Adds which application gave to which, for policies that set all counts without bargains between
    /// two. Stands before the other reasons, but after that of a newcomer ([`begin`]).
    pub(crate) fn explain_transfers(&self, notes: &mut [Note]) {
        if self.transfers.is_empty() {
            return;
        }
        let place_of = |app: AppId| self.ids.iter().position(|id| *id == app);
        let mut transferred = vec![Transferred::default(); notes.len()];
        for &Transfer { from, to, cpus } in &self.transfers {
            let (giver, taker) = (from.and_then(place_of), to.and_then(place_of));
            if let (Some(giver), Some(to)) = (giver, to) {
                transferred[giver].gave.add(to, cpus);
            }
            match (taker, from) {
                (Some(taker), Some(from)) => transferred[taker].got.add(from, cpus),
                (Some(taker), None) => transferred[taker].free += cpus,
                (None, _) => {}
            }
        }
        for (place, (note, moved)) in notes.iter_mut().zip(transferred).enumerate() {
            let newcomer = self.before[place] == 0;
            let mut reasons = Vec::new();
            if moved.gave.cpus > 0 {
                reasons.push(Reason::Handed {
                    to: moved.gave.with,
                    cpus: moved.gave.cpus,
                });
            }
            if moved.got.cpus > 0 {
                reasons.push(Reason::Received {
                    from: moved.got.with,
                    cpus: moved.got.cpus,
                });
            }
            if moved.free > 0 && !newcomer {
                reasons.push(Reason::TookFree { cpus: moved.free });
            }
            let at = usize::from(newcomer && !note.reasons.is_empty());
            note.reasons.splice(at..at, reasons);
        }
    }

    pub(crate) fn close(self, notes: Vec<Note>) -> Allocation {
        let shares = notes
            .into_iter()
            .enumerate()
            .map(|(place, note)| Share {
                app: self.ids[place],
                cpus: self.counts[place],
                sharing: Sharing::Exclusive,
                by_node: note.by_node,
                fair: note.fair,
                floor: note.floor,
                spare: note.spare,
                norm_eff: note.norm_eff,
                state: note.state.to_owned(),
                explanation: Explanation {
                    before: self.before[place],
                    after: self.counts[place],
                    reasons: note.reasons,
                },
            })
            .collect();
        Allocation {
            shares,
            transfers: self.transfers,
            free: self.free,
            placing: Placing::default(),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Transferred {
    gave: Counterparts,
    got: Counterparts,
    free: u32,
}

/// Applications on the other side of transfers, each once.
#[derive(Clone, Debug, Default)]
struct Counterparts {
    with: Vec<AppId>,
    cpus: u32,
}

impl Counterparts {
    fn add(&mut self, app: AppId, cpus: u32) {
        if !self.with.contains(&app) {
            self.with.push(app);
        }
        self.cpus += cpus;
    }
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Note {
    pub(crate) fair: u32,
    pub(crate) floor: Option<f64>,
    pub(crate) spare: u32,
    pub(crate) norm_eff: Option<f64>,
    pub(crate) state: &'static str,
    pub(crate) by_node: Option<Vec<mapper_model::NodeShare>>,
    pub(crate) reasons: Vec<Reason>,
}

/// The first reason of an application that holds nothing: it arrived, or its CPUs went away.
pub(crate) fn begin(app: &AppView<'_>, fair: u32, usable: u32) -> Option<Reason> {
    if !app.held.is_empty() {
        None
    } else if app.profile.samples == 0 {
        Some(Reason::Arrived { fair })
    } else {
        Some(Reason::UsableChanged { usable })
    }
}

/// The limits that an application set for itself, if they decide that it has `count` CPUs.
pub(crate) fn own_limit(app: &AppView<'_>, count: u32) -> Option<Reason> {
    let range = app.spec.cpus;
    let (min, max) = (range.min(), range.max());
    (count == min && count > 1 || max == Some(count)).then_some(Reason::Limited { min, max })
}

/// Whether every application can have a CPU of its own.
pub(crate) fn fits(snapshot: &Snapshot<'_>) -> bool {
    snapshot.apps.len() as u64 <= u64::from(snapshot.usable.len())
}

/// The share of an application that has CPUs of `usable` ones together with others, for which this many are counted.
pub fn sharing(app: &AppView<'_>, usable: u32, slot: u32, counted: u32, why: Reason) -> Share {
    let reasons = begin(app, counted, usable).into_iter();
    Share {
        app: app.app,
        cpus: counted,
        sharing: Sharing::Slot(slot),
        fair: counted,
        state: "sharing".to_owned(),
        explanation: Explanation {
            before: app.held.len(),
            after: counted,
            reasons: reasons.chain([why]).collect(),
        },
        ..Share::default()
    }
}

/// More applications than CPUs: application `i` has slot `i mod C` [readings R3.16].
pub(crate) fn pool(snapshot: &Snapshot<'_>) -> Allocation {
    let contexts = snapshot.usable.len();
    let shares = snapshot
        .apps
        .iter()
        .zip(0u32..)
        .map(|(app, place)| {
            let slot = shares::slot(place, contexts);
            sharing(app, contexts, slot, 1, Reason::Shares { slot })
        })
        .collect();
    // Slots are filled from CPU 0 on; with more applications than CPUs none is left.
    Allocation {
        shares,
        ..Allocation::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Merges transfers between applications; `(from, to, cpus)`.
    fn merged(transfers: &[(u64, u64, u32)]) -> Vec<(u64, u64, u32)> {
        let transfer = |&(from, to, cpus): &(u64, u64, u32)| Transfer {
            from: Some(AppId(from)),
            to: Some(AppId(to)),
            cpus,
        };
        let mut accounts = CpuAccounting {
            transfers: transfers.iter().map(transfer).collect(),
            ..CpuAccounting::default()
        };
        accounts.merge_transfers();
        let id = |app: Option<AppId>| app.unwrap().0;
        accounts
            .transfers
            .iter()
            .map(|t| (id(t.from), id(t.to), t.cpus))
            .collect()
    }

    #[test]
    fn what_passes_through_one_goes_straight_to_the_last() {
        assert_eq!(merged(&[(1, 2, 1), (2, 6, 1)]), [(1, 6, 1)]);
        // A part of it stays.
        assert_eq!(merged(&[(1, 2, 3), (2, 6, 1)]), [(1, 2, 2), (1, 6, 1)]);
        assert_eq!(merged(&[(1, 2, 3), (3, 4, 1)]), [(1, 2, 3), (3, 4, 1)]);
        assert!(merged(&[(1, 2, 3), (2, 1, 3)]).is_empty());
    }
}
