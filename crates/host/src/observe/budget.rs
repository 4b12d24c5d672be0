//! Whether an application is counted by its threads or by its control group.
//!
//! Each event of each thread is a file descriptor, and their number is limited. A program counted only in part has no
//! meaningful speed, so beyond the budget an application is counted by its control group: a descriptor for each event
//! and each *CPU it holds*. That does not show single threads, so threads come first. A program returns to them only
//! when they would take half of the budget: the two ways cannot be compared, and each change costs an interval's
//! measurement. The threads of one account have a budget of their own.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Threads,
    Group,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Needs {
    pub(super) threads: u64,
    /// `None` without a control group of its own, or where the kernel refuses to count one.
    pub(super) group: Option<u64>,
}

/// The next way, when `left` descriptors are available, those the application holds included, and for threads
/// `of_account`.
pub(super) fn way(now: Way, needs: Needs, left: u64, of_account: u64) -> Way {
    let Some(group) = needs.group else {
        return Way::Threads;
    };
    // What fits neither way gives more by threads: some are counted.
    if group > left {
        return Way::Threads;
    }
    let room = left.min(of_account);
    let room = match now {
        Way::Threads => room,
        Way::Group => room / 2,
    };
    if needs.threads <= room {
        Way::Threads
    } else {
        Way::Group
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEEDS: Needs = Needs {
        threads: 700,
        group: Some(56),
    };

    #[test]
    fn threads_are_counted_while_descriptors_last_and_again_when_they_take_half() {
        assert_eq!(way(Way::Threads, NEEDS, 700, u64::MAX), Way::Threads);
        assert_eq!(way(Way::Threads, NEEDS, 699, u64::MAX), Way::Group);
        assert_eq!(way(Way::Group, NEEDS, 1399, u64::MAX), Way::Group);
        assert_eq!(way(Way::Group, NEEDS, 1400, u64::MAX), Way::Threads);
    }

    #[test]
    fn without_a_group_or_room_for_it_some_threads_are_counted() {
        let alone = Needs {
            group: None,
            ..NEEDS
        };
        for (needs, left) in [(alone, 10), (NEEDS, 55)] {
            assert_eq!(way(Way::Threads, needs, left, u64::MAX), Way::Threads);
            assert_eq!(way(Way::Group, needs, left, u64::MAX), Way::Threads);
        }
    }

    #[test]
    fn an_account_has_no_more_by_threads_than_its_part_and_the_rest_by_groups() {
        assert_eq!(way(Way::Threads, NEEDS, 1400, 699), Way::Group);
        assert_eq!(way(Way::Threads, NEEDS, 1400, 700), Way::Threads);
        assert_eq!(way(Way::Threads, NEEDS, 1400, 0), Way::Group);
    }

    proptest! {
        #[test]
        fn a_way_once_taken_is_kept(
            threads in 0u64..2000, group in proptest::option::of(0u64..2000), left in 0u64..2000,
        ) {
            let needs = Needs { threads, group };
            for now in [Way::Threads, Way::Group] {
                let next = way(now, needs, left, u64::MAX);
                prop_assert_eq!(way(next, needs, left, u64::MAX), next);
            }
        }

        #[test]
        fn a_group_fits_its_budget(
            threads in 0u64..2000, group in 0u64..2000, left in 0u64..2000,
        ) {
            let needs = Needs { threads, group: Some(group) };
            for now in [Way::Threads, Way::Group] {
                prop_assert!(way(now, needs, left, u64::MAX) == Way::Threads || group <= left);
            }
        }
    }
}
