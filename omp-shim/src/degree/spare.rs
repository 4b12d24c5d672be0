//! CPUs that the program's regions can do without, reported to the daemon.
//!
//! About once a second the regions say what they did and how many threads they are worth ([`crate::degree`]); regions
//! with a negligible part of the time do not count. This happens when a region has been timed and, while anything is
//! reported as spare, at every region, so that what is needed again is called back. A region that is always large
//! counts with its first measurement times the number of its calls.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::degree::Activity;
use crate::degree::region_table;
use mapper_shim_core::attachment;
use mapper_shim_core::clock;

const PERIOD_NS: u64 = 1_000_000_000;
/// Regions that took less than one part in this many of the time do not count.
const NEGLIGIBLE: u64 = 50;

static LOOKED_NS: AtomicU64 = AtomicU64::new(0);
static REPORTED: AtomicU32 = AtomicU32::new(0);

#[inline(always)]
pub(crate) fn is_reported() -> bool {
    REPORTED.load(Ordering::Relaxed) != 0
}

/// Looks whether there is something to report, when `limit` threads are allowed.
pub(crate) fn look(limit: u32) {
    let now_ns = clock::coarse_now_ns();
    let looked_ns = LOOKED_NS.load(Ordering::Relaxed);
    if now_ns.saturating_sub(looked_ns) < PERIOD_NS {
        return;
    }
    let won = LOOKED_NS
        .compare_exchange(looked_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok();
    // The first look only begins the period that the second one judges.
    if won && looked_ns != 0 {
        let activities = region_table::all().filter_map(|region| region.degree.activity());
        // Few enough to be gone through twice, but asked only once.
        let mut total: u64 = 0;
        let mut by_need = [0_u64; NEEDS];
        for Activity { ticks, needs } in activities {
            total = total.saturating_add(ticks);
            let needs = needs.unwrap_or(limit).min(limit) as usize;
            if let Some(sum) = by_need.get_mut(needs.min(NEEDS - 1)) {
                *sum = sum.saturating_add(ticks);
            }
        }
        report(spare(limit, total, &by_need));
    }
}

/// Needs that are distinguished; more count as that many.
const NEEDS: usize = 1024;

/// What is left of `limit` when regions of all needs but negligible ones have what they need.
fn spare(limit: u32, total: u64, by_need: &[u64]) -> u32 {
    if total == 0 {
        return 0;
    }
    let needed = by_need
        .iter()
        .rposition(|ticks| *ticks > total / NEGLIGIBLE)
        .map_or(limit, |needs| u32::try_from(needs).unwrap_or(limit));
    if needed as usize + 1 >= by_need.len() {
        return 0;
    }
    limit.saturating_sub(needed.max(1))
}

/// Takes the report back: it was about another allocation. Judges the new one from now on.
pub(crate) fn forget() {
    LOOKED_NS.store(clock::coarse_now_ns(), Ordering::Relaxed);
    report(0);
}

fn report(spare: u32) {
    if REPORTED.swap(spare, Ordering::Relaxed) != spare {
        attachment::report_spare(spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_neediest_region_decides_unless_it_is_negligible() {
        let mut by_need = [0; NEEDS];
        by_need[1] = 900;
        assert_eq!(spare(8, 900, &by_need), 7);
        by_need[4] = 90;
        assert_eq!(spare(8, 990, &by_need), 4);
        by_need[8] = 10;
        assert_eq!(spare(8, 1000, &by_need), 4);
        by_need[8] = 500;
        assert_eq!(spare(8, 1490, &by_need), 0);
        assert_eq!(spare(8, 0, &[0; NEEDS]), 0, "a program that did nothing");
    }
}
