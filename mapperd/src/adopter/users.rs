//! For whom a group counts that a rule names.

use mapper_host::enforce::cgroup::{RunningGroup, users_in};
use std::collections::BTreeMap;

/// Looks for users in a group of root's: what starts with root's processes alone, as a job does, has its user's soon.
const LOOKS: u32 = 20;

/// Users that people have, as systemd divides numbers: below are the system's, between dynamic ones and `nobody`.
const FIRST: u32 = 1000;
const NOT_OF_PEOPLE: std::ops::RangeInclusive<u32> = 61_184..=65_534;

/// For whom the groups of root's count that were looked at.
#[derive(Debug, Default)]
pub(super) struct UsersOfGroups(BTreeMap<RunningGroup, Looked>);

#[derive(Clone, Copy, Debug)]
enum Looked {
    /// So often, and no user was found.
    Times(u32),
    Found(u32),
}

impl UsersOfGroups {
    /// Forgets groups other than these.
    pub(super) fn keep<'a>(&mut self, groups: impl Iterator<Item = &'a RunningGroup>) {
        let mut before = std::mem::take(&mut self.0);
        self.0 = groups
            .filter_map(|group| before.remove_entry(group))
            .collect();
    }

    /// The N of systemd's `user-N.slice`; else the owner of its directory; of one that is root's, the user whose processes are
    /// in it, if there is one only beside root and system users.
    pub(super) fn of(&mut self, group: &RunningGroup) -> u32 {
        self.with(group, users_in)
    }

    fn with(&mut self, group: &RunningGroup, look: impl FnOnce(&str) -> Vec<u32>) -> u32 {
        if group.owner != 0 {
            return group.owner;
        }
        let sessions = group.path.strip_prefix("/user.slice/user-");
        let user = sessions.and_then(|rest| rest.strip_suffix(".slice"));
        if let Some(user) = user.and_then(|user| user.parse().ok()) {
            return user;
        }
        let looked = self.0.entry(group.clone()).or_insert(Looked::Times(0));
        match *looked {
            Looked::Found(user) => return user,
            Looked::Times(LOOKS..) => return group.owner,
            Looked::Times(times) => *looked = Looked::Times(times + 1),
        }
        let mut users = look(&group.path);
        users.retain(|user| *user >= FIRST && !NOT_OF_PEOPLE.contains(user));
        match users[..] {
            [user] => {
                *looked = Looked::Found(user);
                user
            }
            _ => group.owner,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(path: &str, owner: u32) -> RunningGroup {
        RunningGroup {
            path: path.to_owned(),
            inode: 1,
            owner,
        }
    }

    #[test]
    fn a_group_counts_for_its_owner_whatever_its_name_is() {
        let mut users = UsersOfGroups::default();
        let mut of = |path, owner| users.with(&group(path, owner), |_| vec![0, 2000]);
        assert_eq!(of("/user.slice/user-1000.slice", 0), 1000);
        assert_eq!(of("/jobs/user-0.slice", 1000), 1000);
        assert_eq!(of("/user.slice/user-0.slice", 1000), 1000);
        assert_eq!(of("/user.slice/user-0.slice", 0), 0);
    }

    #[test]
    fn a_group_of_roots_counts_for_the_one_user_whose_processes_are_in_it() {
        for (users, expected) in [
            (vec![0], 0),
            (vec![0, 1000], 1000),
            (vec![1000], 1000),
            (vec![0, 998, 100_000], 100_000),
            (vec![1000, 1001], 0),
            (vec![61_184, 65_534], 0),
        ] {
            let found = UsersOfGroups::default().with(&group("/job_1", 0), |_| users.clone());
            assert_eq!(found, expected, "{users:?}");
        }
    }

    #[test]
    fn a_user_who_was_found_stays_and_one_who_is_not_there_is_looked_for_a_limited_number_of_times()
    {
        let mut users = UsersOfGroups::default();
        let (job, service) = (group("/job_1", 0), group("/a.service", 0));
        assert_eq!(users.with(&job, |_| vec![0]), 0);
        assert_eq!(users.with(&job, |_| vec![0, 1000]), 1000);
        assert_eq!(users.with(&job, |_| panic!("it is known")), 1000);
        for _ in 0..LOOKS {
            assert_eq!(users.with(&service, |_| vec![0]), 0);
        }
        assert_eq!(users.with(&service, |_| panic!("often enough")), 0);
        // Made again, it is another.
        let again = RunningGroup { inode: 2, ..job };
        users.keep([&again].into_iter());
        assert_eq!(users.with(&again, |_| vec![1001]), 1001);
        assert_eq!(users.with(&service, |_| vec![1002]), 1002);
    }
}
