//! How many threads another set of CPUs moves.

use mapper_model::CpuSet;

/// Share of the threads that have to change to another place, of so many in which the contexts are:
/// threads are spread evenly over a set, before and after.
pub(super) fn share_that_moves(
    old: &CpuSet,
    new: &CpuSet,
    places: usize,
    place_of: impl Fn(usize) -> usize,
) -> f64 {
    let mut more = vec![0.0; places];
    for (set, sign) in [(new, 1.0), (old, -1.0)] {
        let each = sign / f64::from(set.len().max(1));
        for cpu in set {
            more[place_of(cpu.index())] += each;
        }
    }
    // What comes of rounding is nobody's move.
    more.into_iter().filter(|more| *more > 1e-12).sum()
}
