//! Which hardware threads of a domain an application gets, and which it gives.
//!
//! A demand first takes idle cores, as many as it should use ([`budget_cores`](crate::demand::budget_cores));
//! then the siblings of its own threads; then cores with cool occupants before those with hot ones
//! [SAM-MPH §3.2, §4.4; MAPPER §3.4]. A hot demand takes siblings of cool threads of others before those of
//! its own. Among equal threads it takes those it held before, then free ones. On hybrid machines faster
//! cores come first, except for demands that stream from memory.
//!
//! Giving reverses the order: threads on cores shared with others first, then whole cores while the demand
//! uses more cores than it should, else siblings of its own threads.

use crate::demand::{Demand, Siblings, Wish};
use crate::layout::{ThreadIndex, UNOWNED};
use crate::machine_view::{MIXED, MachineView};
use std::cmp::Reverse;

/// Chooses threads. Holds only buffers between calls.
#[derive(Debug, Default)]
pub(crate) struct FreeCpus {
    idle: Vec<(u64, u32)>,
    own: Vec<u32>,
    all: Vec<(u64, ThreadIndex)>,
}

impl FreeCpus {
    /// Takes `need` free threads of a domain; `before` is who had each thread before a fresh placement.
    pub(crate) fn take(
        &mut self,
        view: &mut MachineView<'_>,
        id: u32,
        demand: &Demand<'_>,
        domain: u32,
        need: u32,
        before: &[u32],
    ) {
        let mut left = need.min(view.domains[domain as usize].free);
        if left == 0 {
            return;
        }
        if demand.siblings == Siblings::Ignored {
            self.take_by_number(view, id, domain, left, before);
            return;
        }
        let place = view.layout.domains[domain as usize];
        self.idle.clear();
        self.own.clear();
        let mut used = 0;
        for core in place.range() {
            let state = view.cores[core as usize];
            let has_own = state.owner == id
                || (state.owner == MIXED
                    && view
                        .core(core)
                        .range()
                        .any(|s| view.owner[s as usize] == id));
            if state.owner == UNOWNED {
                self.idle
                    .push((idle_key(view, id, demand, core, before), core));
            } else if has_own {
                used += 1;
                if state.owner == id && view.free_on(core) > 0 {
                    self.own.push(core);
                }
            }
        }
        self.idle.sort_unstable();
        let target = demand.cores_for(view.counts(id)[domain as usize] + left);
        let wanted = target.saturating_sub(used).min(left) as usize;
        let (chosen, spare) = self.idle.split_at(wanted.min(self.idle.len()));

        for &(_, core) in chosen {
            left -= take_on(view, id, core, 1, before);
        }
        if demand.nature.hot {
            left -= take_beside_cool(view, id, domain, left, before);
        }
        for round in 0..2 {
            // The siblings of its own threads; then further idle cores and their siblings.
            let cores = if round == 0 { chosen } else { spare };
            if round == 1 {
                for &(_, core) in cores {
                    if left == 0 {
                        return;
                    }
                    left -= take_on(view, id, core, 1, before);
                }
            } else {
                left = take_evenly(view, id, &self.own.iter().copied(), left, before);
            }
            left = take_evenly(view, id, &cores.iter().map(|c| c.1), left, before);
            if left == 0 {
                return;
            }
        }
        left -= take_beside_cool(view, id, domain, left, before);
        for core in place.range() {
            if left == 0 {
                return;
            }
            left -= take_on(view, id, core, left, before);
        }
    }

    /// Takes the free threads with the lowest CPU numbers, those held before first.
    fn take_by_number(
        &mut self,
        view: &mut MachineView<'_>,
        id: u32,
        domain: u32,
        need: u32,
        before: &[u32],
    ) {
        let layout = view.layout;
        self.all.clear();
        for core in layout.domains[domain as usize].range() {
            for thread in view.core(core).range() {
                if view.owner[thread as usize] == UNOWNED {
                    let other = u64::from(before[thread as usize] != id);
                    let number = u64::from(layout.cpu[thread as usize].0);
                    self.all.push((other << 32 | number, thread));
                }
            }
        }
        self.all.sort_unstable();
        for &(_, thread) in self.all.iter().take(need as usize) {
            view.take(id, thread);
        }
    }
}

/// The order of idle cores: most threads held before, fewest held by others, the right speed, number.
fn idle_key(
    view: &MachineView<'_>,
    id: u32,
    demand: &Demand<'_>,
    core: u32,
    before: &[u32],
) -> u64 {
    let (mut mine, mut others) = (0u64, 0u64);
    for thread in view.core(core).range() {
        let holder = before[thread as usize];
        mine += u64::from(holder == id);
        others += u64::from(holder != id && holder != UNOWNED);
    }
    let slowness = u64::from(view.core(core).slowness);
    let speed = if demand.wish == Wish::Spread {
        255 - slowness
    } else {
        slowness
    };
    // The speed outranks residency only where there is a choice, on hybrid machines.
    speed << 48 | (255 - mine.min(255)) << 40 | others.min(255) << 32 | u64::from(core)
}

/// Takes up to `need` threads of a core: those held before, those nobody held, the others.
fn take_on(view: &mut MachineView<'_>, id: u32, core: u32, need: u32, before: &[u32]) -> u32 {
    let mut taken = 0;
    while taken < need {
        let best = view
            .core(core)
            .range()
            .filter(|&s| view.owner[s as usize] == UNOWNED)
            .min_by_key(|&s| match before[s as usize] {
                holder if holder == id => 0,
                UNOWNED => 1,
                _ => 2,
            });
        let Some(thread) = best else { break };
        view.take(id, thread);
        taken += 1;
    }
    taken
}

/// Takes one more thread of each core in turn until `need` are found; returns what is still needed.
fn take_evenly(
    view: &mut MachineView<'_>,
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
            let one = take_on(view, id, core, 1, before);
            need -= one;
            found |= one > 0;
        }
    }
    need
}

/// Takes one thread of each used core without a hot occupant, cores on which it was before first.
fn take_beside_cool(
    view: &mut MachineView<'_>,
    id: u32,
    domain: u32,
    need: u32,
    before: &[u32],
) -> u32 {
    let place = view.layout.domains[domain as usize];
    let mut taken = 0;
    for resident in [true, false] {
        for core in place.range() {
            if taken == need {
                return taken;
            }
            let state = view.cores[core as usize];
            let was_here = || {
                let mut threads = view.core(core).range();
                threads.any(|s| before[s as usize] == id && view.owner[s as usize] == UNOWNED)
            };
            if state.owner != UNOWNED
                && state.owner != id
                && state.hot == 0
                && view.free_on(core) > 0
                && was_here() == resident
            {
                taken += take_on(view, id, core, 1, before);
            }
        }
    }
    taken
}

/// Releases the thread in a domain that a demand misses least; `after` is how many it will have there.
pub(crate) fn release_one(
    view: &mut MachineView<'_>,
    id: u32,
    demand: &Demand<'_>,
    domain: u32,
    after: u32,
) {
    let place = view.layout.domains[domain as usize];
    let (mut cores, mut best) = (0, None);
    let own_on = |core: u32| {
        let threads = view.core(core).range();
        threads.filter(|&s| view.owner[s as usize] == id).count() as u32
    };
    for core in place.range() {
        cores += u32::from(own_on(core) > 0);
    }
    let too_many_cores =
        cores > demand.cores_for(after) && demand.siblings == Siblings::Distinguished;
    for core in place.range() {
        let state = view.cores[core as usize];
        if state.used == 0 || (state.owner != id && state.owner != MIXED) {
            continue;
        }
        let own = own_on(core);
        let crowd = if too_many_cores { u32::MAX - own } else { own };
        let slowness = view.core(core).slowness;
        let wrong_speed = if demand.wish == Wish::Spread {
            u32::MAX - slowness
        } else {
            slowness
        };
        for thread in view.core(core).range() {
            if view.owner[thread as usize] == id {
                let key = (state.owner == MIXED, crowd, wrong_speed, Reverse(0), thread);
                best = best.max(Some(key));
            }
        }
    }
    if let Some((.., thread)) = best {
        view.release(thread);
    }
}
