//! The user against whose share and limits a group counts that a rule adopts.

use crate::config::accounts::Accounts;
use mapper_host::enforce::cgroup::{RunningGroup, users_in};
use std::collections::{BTreeMap, BTreeSet};

/// The users of Slurm's jobs that were looked at.
#[derive(Debug, Default)]
pub(super) struct UsersOfJobs(BTreeMap<RunningGroup, u32>);

impl UsersOfJobs {
    /// Forgets other groups than these.
    pub(super) fn keep<'a>(&mut self, groups: impl Iterator<Item = &'a RunningGroup>) {
        let mut before = std::mem::take(&mut self.0);
        self.0 = groups
            .filter_map(|group| before.remove_entry(group))
            .collect();
    }

    /// The owner of its directory; if that is root, the N of systemd's `user-N.slice`, or the user of a job of Slurm: `None` as
    /// long as none of its user's processes is in it.
    pub(super) fn of(&mut self, group: &RunningGroup, accounts: &Accounts) -> Option<u32> {
        let look = |path: &str| users_in(path).into_iter().map(|uid| accounts.of(uid));
        self.with(group, |path| look(path).collect())
    }

    fn with(
        &mut self,
        group: &RunningGroup,
        look: impl FnOnce(&str) -> BTreeSet<u32>,
    ) -> Option<u32> {
        if group.owner != 0 {
            return Some(group.owner);
        }
        let sessions = group.path.strip_prefix("/user.slice/user-");
        let user = sessions.and_then(|rest| rest.strip_suffix(".slice"));
        if let Some(user) = user.and_then(|user| user.parse().ok()) {
            return Some(user);
        }
        if !is_job(&group.path) {
            return Some(group.owner);
        }
        if let Some(user) = self.0.get(group) {
            return Some(*user);
        }
        // Slurm starts a job's processes as its user, and watches them as root.
        let users: Vec<u32> = look(&group.path)
            .into_iter()
            .filter(|uid| *uid != 0)
            .collect();
        let [user] = users[..] else {
            return None;
        };
        self.0.insert(group.clone(), user);
        Some(user)
    }
}

/// Whether a group is one that Slurm makes for a job: `…slurmstepd.scope/job_N`.
fn is_job(path: &str) -> bool {
    let Some((scope, job)) = path.rsplit_once('/') else {
        return false;
    };
    let number = job.strip_prefix("job_");
    let number = number.is_some_and(|number| number.parse::<u32>().is_ok());
    number && scope.ends_with("slurmstepd.scope")
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "/system.slice/node1_slurmstepd.scope/job_4711";

    fn group(path: &str, owner: u32) -> RunningGroup {
        RunningGroup {
            path: path.to_owned(),
            inode: 1,
            owner,
        }
    }

    fn not_asked(path: &str) -> BTreeSet<u32> {
        panic!("{path} is looked at")
    }

    #[test]
    fn a_group_counts_for_its_owner_whatever_its_name_is() {
        let mut users = UsersOfJobs::default();
        let mut of = |path, owner| users.with(&group(path, owner), not_asked);
        assert_eq!(of("/user.slice/user-1000.slice", 0), Some(1000));
        assert_eq!(of("/jobs/user-0.slice", 1000), Some(1000));
        assert_eq!(of("/user.slice/user-0.slice", 1000), Some(1000));
        assert_eq!(of(JOB, 1000), Some(1000));
        for path in [
            "/system.slice/a.service",
            "/system.slice/a.service/job_1",
            "/system.slice/slurmstepd.scope/system",
            "/system.slice/slurmstepd.scope/job_1/step_0",
        ] {
            assert_eq!(of(path, 0), Some(0), "{path}");
        }
    }

    #[test]
    fn a_job_of_slurm_counts_for_its_user_once_a_process_of_the_users_is_in_it() {
        let (mut users, job) = (UsersOfJobs::default(), group(JOB, 0));
        assert_eq!(users.with(&job, |_| BTreeSet::from([0])), None);
        // As none of Slurm's are.
        assert_eq!(users.with(&job, |_| BTreeSet::from([0, 1000, 1001])), None);
        assert_eq!(users.with(&job, |_| BTreeSet::from([0, 1000])), Some(1000));
        assert_eq!(users.with(&job, not_asked), Some(1000));
        // Made again, it is another.
        let again = RunningGroup { inode: 2, ..job };
        users.keep([&again].into_iter());
        assert_eq!(users.with(&again, |_| BTreeSet::from([1001])), Some(1001));
    }
}
