//! The order in which a repetition goes through the settings.

/// The places of `count` settings in the order in which a mix goes through them at a moment: the rows of a
/// Williams square in turn. Over `count` moments (twice as many for an odd count, whose rows also run
/// backwards) every setting stands at every place, and follows every other one, equally often. Source:
/// Williams, *Experimental designs balanced for the estimation of residual effects of treatments*,
/// Australian Journal of Scientific Research A 2, 1949.
pub(crate) fn order(count: usize, mix: usize, moment: usize) -> impl Iterator<Item = usize> {
    let row = mix + moment;
    let (shift, is_backwards) = match count % 2 {
        0 => (row, false),
        _ => (row / 2, row % 2 == 1),
    };
    (0..count).map(move |place| {
        let place = match is_backwards {
            true => count - 1 - place,
            false => place,
        };
        // 0, 1, -1, 2, -2 and so on: all differences of neighbours are different.
        let zigzag = match place % 2 {
            0 => count - place / 2,
            _ => place.div_ceil(2),
        };
        (zigzag + shift) % count
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_setting_follows_another_much_more_often_than_any_other_does() {
        for count in 2..=8_usize {
            let mut followed = vec![vec![0_u32; count]; count];
            let mut first = vec![0_u32; count];
            for (mix, moment) in (0..8).flat_map(|mix| (0..10).map(move |moment| (mix, moment))) {
                let order: Vec<usize> = order(count, mix, moment).collect();
                first[order[0]] += 1;
                for pair in order.windows(2) {
                    followed[pair[0]][pair[1]] += 1;
                }
            }
            let mut counts = Vec::new();
            for (one, followed) in followed.iter().enumerate() {
                let others = (0..count).filter(|&other| other != one);
                counts.extend(others.map(|other| followed[other]));
            }
            let spread =
                |counts: &[u32]| counts.iter().max().unwrap() - counts.iter().min().unwrap();
            assert!(spread(&counts) <= 2, "{count} settings: {followed:?}");
            assert!(spread(&first) <= 2, "{count} settings: {first:?}");
        }
    }

    #[test]
    fn every_moment_runs_every_setting_in_another_order() {
        let orders: BTreeSet<Vec<usize>> =
            (0..4).map(|moment| order(4, 1, moment).collect()).collect();
        assert_eq!(orders.len(), 4);
        for order in orders {
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 4);
        }
    }
}
