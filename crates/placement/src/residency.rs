//! MAPPER's residency rule: on which sockets an application grows and from which it gives
//! [MAPPER §3.4, readings "MAPPER refinement"].
//!
//! Counts hardware contexts per socket. An application's *residency score* on a socket is the number of
//! contexts it holds there. To colocate, it grows into the sockets with the highest scores, gives from
//! those with the lowest that is not zero, and gathers on one socket as soon as one can hold all of it. To
//! spread, it grows one context at a time where it has fewest and gives from where it has most.
//!
//! Readings: of equal scores growth takes the lower socket, giving the higher one. Spreading does not move
//! contexts that are held. Invariants: the result adds up to the target as far as the held and free
//! contexts allow; no socket gets more than it holds and has free.

/// Contexts on each socket for an application that wants to be together.
///
/// `residency` are those it holds, `free` those nobody holds, both by socket.
pub fn colocate(residency: &[u32], free: &[u32], target: u32) -> Vec<u32> {
    let mut order: Vec<usize> = (0..residency.len()).collect();
    order.sort_by_key(|&s| (std::cmp::Reverse(residency[s]), s));
    if let Some(&home) = order.iter().find(|&&s| residency[s] + free[s] >= target) {
        let mut gathered = vec![0; residency.len()];
        gathered[home] = target;
        return gathered;
    }
    let mut counts = residency.to_vec();
    let mut total: u32 = counts.iter().sum();
    for &s in &order {
        let more = free[s].min(target.saturating_sub(total));
        counts[s] += more;
        total += more;
    }
    for &s in order.iter().rev() {
        let less = counts[s].min(total.saturating_sub(target));
        counts[s] -= less;
        total -= less;
    }
    counts
}

/// Contexts on each socket for an application that wants to be spread, as [`colocate`].
pub fn spread(residency: &[u32], free: &[u32], target: u32) -> Vec<u32> {
    let mut counts = residency.to_vec();
    let mut total: u32 = counts.iter().sum();
    while total < target {
        let open = (0..counts.len()).filter(|&s| counts[s] < residency[s] + free[s]);
        let Some(lowest) = open.min_by_key(|&s| (counts[s], s)) else {
            break;
        };
        counts[lowest] += 1;
        total += 1;
    }
    while total > target {
        let Some(highest) = (0..counts.len()).max_by_key(|&s| (counts[s], s)) else {
            break;
        };
        counts[highest] -= 1;
        total -= 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_application_that_gathers_grows_where_it_has_most_and_gives_where_it_has_least() {
        for (residency, free, target, expected) in [
            // There is room for all on one socket.
            ([12, 8, 0, 0], [8, 12, 20, 20], 20, [20, 0, 0, 0]),
            ([12, 8, 0, 0], [2, 4, 9, 9], 24, [14, 10, 0, 0]),
            ([20, 4, 0, 0], [0; 4], 20, [20, 0, 0, 0]),
            ([20, 20, 6, 0], [0; 4], 42, [20, 20, 2, 0]),
        ] {
            assert_eq!(colocate(&residency, &free, target), expected);
        }
    }

    #[test]
    fn an_application_that_spreads_grows_where_it_has_least_and_gives_where_it_has_most() {
        assert_eq!(spread(&[4, 2, 0, 0], &[20, 20, 1, 20], 12), [4, 4, 1, 3]);
        assert_eq!(spread(&[10, 4, 6, 0], &[0; 4], 12), [4, 4, 4, 0]);
    }

    proptest! {
        #[test]
        fn the_target_is_met_and_no_socket_overfilled(
            sockets in proptest::collection::vec((0u32..20, 0u32..20), 1..9),
            target in 0u32..200,
        ) {
            let (residency, free): (Vec<u32>, Vec<u32>) = sockets.into_iter().unzip();
            let room: u32 = residency.iter().chain(&free).sum();
            for counts in [colocate(&residency, &free, target), spread(&residency, &free, target)] {
                prop_assert_eq!(counts.iter().sum::<u32>(), target.min(room));
                for s in 0..counts.len() {
                    prop_assert!(counts[s] <= residency[s] + free[s]);
                }
            }
        }
    }
}
