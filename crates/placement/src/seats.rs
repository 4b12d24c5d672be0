//! Which hardware threads of a region an application gets, and which it gives.
//!
//! Counts seats of the [`Layout`](crate::layout::Layout). Within a region the rules are about
//! siblings of a core [SAM-MPH §3.2, §4.4; MAPPER §3.4]: a unit first takes idle cores, as many as
//! it should use ([`budget_cores`](crate::unit::budget_cores)); then the siblings of its own
//! threads; then what remains, cores with cool occupants before those with hot ones. A hot unit
//! takes siblings of cool threads of others before those of its own. Among equal seats it takes
//! those it held before, then those nobody held. On machines with cores of different speed, faster
//! cores come first, except for units that stream from memory, which leave them to others.
//!
//! Giving reverses the order: seats on cores shared with others first, then whole cores while the
//! unit sits on more cores than it should, else siblings of its own threads.

use crate::board::{Board, MIXED};
use crate::layout::{NOBODY, Seat};
use crate::unit::{Siblings, Unit, Wish};
use std::cmp::Reverse;

/// Chooses seats. Holds no state between calls but buffers.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    idle: Vec<(u64, u32)>,
    own: Vec<u32>,
    all: Vec<(u64, Seat)>,
}

impl Seats {
    /// Takes `need` free seats of a region for a unit. `before` is who had each seat before
    /// everything was placed afresh.
    pub(crate) fn take(
        &mut self,
        board: &mut Board<'_>,
        id: u32,
        unit: &Unit<'_>,
        region: u32,
        need: u32,
        before: &[u32],
    ) {
        let mut left = need.min(board.regions[region as usize].free);
        if left == 0 {
            return;
        }
        if unit.siblings == Siblings::Ignored {
            self.take_by_number(board, id, region, left, before);
            return;
        }
        let place = board.layout.regions[region as usize];
        self.idle.clear();
        self.own.clear();
        let mut used = 0;
        for core in place.range() {
            let state = board.cores[core as usize];
            let has_own = state.owner == id
                || (state.owner == MIXED
                    && board
                        .core(core)
                        .range()
                        .any(|s| board.owner[s as usize] == id));
            if state.owner == NOBODY {
                self.idle
                    .push((idle_key(board, id, unit, core, before), core));
            } else if has_own {
                used += 1;
                if state.owner == id && board.free_on(core) > 0 {
                    self.own.push(core);
                }
            }
        }
        self.idle.sort_unstable();
        let target = unit.cores_for(board.counts(id)[region as usize] + left);
        let wanted = target.saturating_sub(used).min(left) as usize;
        let (chosen, spare) = self.idle.split_at(wanted.min(self.idle.len()));

        for &(_, core) in chosen {
            left -= take_on(board, id, core, 1, before);
        }
        if unit.nature.hot {
            left -= take_beside_cool(board, id, region, left, before);
        }
        for round in 0..2 {
            // The siblings of its own threads; then further idle cores and their siblings.
            let cores = if round == 0 { chosen } else { spare };
            if round == 1 {
                for &(_, core) in cores {
                    if left == 0 {
                        return;
                    }
                    left -= take_on(board, id, core, 1, before);
                }
            } else {
                left = take_evenly(board, id, &self.own.iter().copied(), left, before);
            }
            left = take_evenly(board, id, &cores.iter().map(|c| c.1), left, before);
            if left == 0 {
                return;
            }
        }
        left -= take_beside_cool(board, id, region, left, before);
        for core in place.range() {
            if left == 0 {
                return;
            }
            left -= take_on(board, id, core, left, before);
        }
    }

    /// Takes the free seats with the lowest CPU numbers, those held before first.
    fn take_by_number(
        &mut self,
        board: &mut Board<'_>,
        id: u32,
        region: u32,
        need: u32,
        before: &[u32],
    ) {
        let layout = board.layout;
        self.all.clear();
        for core in layout.regions[region as usize].range() {
            for seat in board.core(core).range() {
                if board.owner[seat as usize] == NOBODY {
                    let other = u64::from(before[seat as usize] != id);
                    let number = u64::from(layout.cpu[seat as usize].0);
                    self.all.push((other << 32 | number, seat));
                }
            }
        }
        self.all.sort_unstable();
        for &(_, seat) in self.all.iter().take(need as usize) {
            board.take(id, seat);
        }
    }
}

/// The order of idle cores: most seats held before, fewest held by others, the right speed, number.
fn idle_key(board: &Board<'_>, id: u32, unit: &Unit<'_>, core: u32, before: &[u32]) -> u64 {
    let (mut mine, mut others) = (0u64, 0u64);
    for seat in board.core(core).range() {
        let holder = before[seat as usize];
        mine += u64::from(holder == id);
        others += u64::from(holder != id && holder != NOBODY);
    }
    let slowness = u64::from(board.core(core).slowness);
    let speed = if unit.wish == Wish::Spread {
        255 - slowness
    } else {
        slowness
    };
    // The speed outranks residency only where there is a choice, on hybrid machines.
    speed << 48 | (255 - mine.min(255)) << 40 | others.min(255) << 32 | u64::from(core)
}

/// Takes up to `need` seats of a core: those held before, those nobody held, the others.
fn take_on(board: &mut Board<'_>, id: u32, core: u32, need: u32, before: &[u32]) -> u32 {
    let mut taken = 0;
    while taken < need {
        let best = board
            .core(core)
            .range()
            .filter(|&s| board.owner[s as usize] == NOBODY)
            .min_by_key(|&s| match before[s as usize] {
                holder if holder == id => 0,
                NOBODY => 1,
                _ => 2,
            });
        let Some(seat) = best else { break };
        board.take(id, seat);
        taken += 1;
    }
    taken
}

/// Takes one more seat of each core in turn until `need` are found; returns what is still needed.
fn take_evenly(
    board: &mut Board<'_>,
    id: u32,
    cores: &(impl Iterator<Item = u32> + Clone),
    mut need: u32,
    before: &[u32],
) -> u32 {
    let mut found = true;
    while need > 0 && found {
        found = false;
        for core in cores.clone() {
            if need == 0 {
                break;
            }
            let one = take_on(board, id, core, 1, before);
            need -= one;
            found |= one > 0;
        }
    }
    need
}

/// Takes one seat of each core that others use and none of whose occupants is hot; cores on which
/// it was before first.
fn take_beside_cool(board: &mut Board<'_>, id: u32, region: u32, need: u32, before: &[u32]) -> u32 {
    let place = board.layout.regions[region as usize];
    let mut taken = 0;
    for resident in [true, false] {
        for core in place.range() {
            if taken == need {
                return taken;
            }
            let state = board.cores[core as usize];
            let was_here = || {
                let mut seats = board.core(core).range();
                seats.any(|s| before[s as usize] == id && board.owner[s as usize] == NOBODY)
            };
            if state.owner != NOBODY
                && state.owner != id
                && state.hot == 0
                && board.free_on(core) > 0
                && was_here() == resident
            {
                taken += take_on(board, id, core, 1, before);
            }
        }
    }
    taken
}

/// Releases one seat of a unit in a region: the one it misses least. `after` is how many it will
/// have there in the end.
pub(crate) fn release_one(
    board: &mut Board<'_>,
    id: u32,
    unit: &Unit<'_>,
    region: u32,
    after: u32,
) {
    let place = board.layout.regions[region as usize];
    let (mut cores, mut best) = (0, None);
    let own_on = |core: u32| {
        let seats = board.core(core).range();
        seats.filter(|&s| board.owner[s as usize] == id).count() as u32
    };
    for core in place.range() {
        cores += u32::from(own_on(core) > 0);
    }
    let too_many_cores = cores > unit.cores_for(after) && unit.siblings == Siblings::Told;
    for core in place.range() {
        let state = board.cores[core as usize];
        if state.used == 0 || (state.owner != id && state.owner != MIXED) {
            continue;
        }
        let own = own_on(core);
        let crowd = if too_many_cores { u32::MAX - own } else { own };
        let slowness = board.core(core).slowness;
        let wrong_speed = if unit.wish == Wish::Spread {
            u32::MAX - slowness
        } else {
            slowness
        };
        for seat in board.core(core).range() {
            if board.owner[seat as usize] == id {
                let key = (state.owner == MIXED, crowd, wrong_speed, Reverse(0), seat);
                best = best.max(Some(key));
            }
        }
    }
    if let Some((.., seat)) = best {
        board.release(seat);
    }
}
