//! Which of the new processes a search looks at.
//!
//! A search looks at so many, and each account has an equal part of them; what an account does not need goes to the
//! others. So who starts thousands of processes delays only what is found of its own.

use crate::procfs::ProcFs;
use std::collections::BTreeMap;
use std::fmt;

/// New processes that one search looks at.
pub(super) const NEW: usize = 1024;

/// New processes that are known by their number and wait to be looked at. With more, the rest is not even listed.
pub(super) const LISTED: usize = 16 * NEW;

/// The account of a uid.
pub(super) struct AccountOf(pub(super) Box<dyn Fn(u32) -> u32>);

impl fmt::Debug for AccountOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountOf")
    }
}

#[derive(Debug)]
pub(super) struct Search {
    pub(super) account_of: AccountOf,
    /// Processes that were listed and have not been looked at, with the account of each.
    waiting: BTreeMap<u32, u32>,
    /// There are more, which have not been listed.
    pub(super) unlisted: bool,
}

impl Search {
    /// Each uid is an account.
    pub(super) fn new() -> Self {
        Self {
            account_of: AccountOf(Box::new(|uid| uid)),
            waiting: BTreeMap::new(),
            unlisted: false,
        }
    }

    /// How many more may be listed.
    pub(super) fn room(&self) -> usize {
        LISTED - self.waiting.len()
    }

    /// Everything has been looked at.
    pub(super) fn is_complete(&self) -> bool {
        self.waiting.is_empty() && !self.unlisted
    }

    /// All processes of these accounts have been looked at.
    pub(super) fn is_complete_for(&self, accounts: &[u32]) -> bool {
        !self.unlisted && !self.waiting.values().any(|of| accounts.contains(of))
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.unlisted = false;
    }

    /// The account of a process, as far as its directory shows: root's, if it cannot be traced.
    pub(super) fn account(&self, proc: &ProcFs, pid: u32) -> Option<u32> {
        proc.owner(pid).map(|uid| (self.account_of.0)(uid))
    }

    /// Of those just listed and those that wait, what this search looks at, ascending.
    pub(super) fn take(&mut self, proc: &ProcFs, mut listed: Vec<u32>) -> Vec<u32> {
        if self.waiting.len() + listed.len() <= NEW {
            listed.extend(std::mem::take(&mut self.waiting).into_keys());
            listed.sort_unstable();
            return listed;
        }
        for pid in listed {
            if let Some(account) = self.account(proc, pid) {
                self.waiting.insert(pid, account);
            }
        }
        let taken = parts(&self.waiting, NEW);
        for pid in &taken {
            self.waiting.remove(pid);
        }
        taken
    }
}

/// So many of these processes, the oldest of each account.
fn parts(waiting: &BTreeMap<u32, u32>, most: usize) -> Vec<u32> {
    let mut accounts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, account) in waiting {
        accounts.entry(*account).or_default().push(*pid);
    }
    let mut accounts: Vec<Vec<u32>> = accounts.into_values().collect();
    accounts.sort_by_key(Vec::len);
    let mut taken = Vec::new();
    let mut others = accounts.len();
    for mut pids in accounts {
        pids.truncate((most - taken.len()).div_ceil(others));
        others -= 1;
        taken.extend(pids);
    }
    taken.sort_unstable();
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_account_has_an_equal_part_of_a_search_and_what_one_leaves_goes_to_the_others() {
        let waiting = (0..3000).map(|pid| match pid {
            10 | 2999 => (pid, 1),
            _ => (pid, 2 + pid % 2),
        });
        let waiting: BTreeMap<u32, u32> = waiting.collect();
        let taken = parts(&waiting, 102);
        let of = |account| taken.iter().filter(|pid| waiting[pid] == account).count();
        assert_eq!([of(1), of(2), of(3)], [2, 50, 50]);
        assert!(taken.is_sorted() && taken[..20].is_sorted_by(|a, b| b - a == 1));
        let alone: BTreeMap<u32, u32> = (0..50).map(|pid| (pid, pid)).collect();
        assert_eq!(parts(&alone, 20).len(), 20);
        assert_eq!(parts(&alone, 100).len(), 50);
    }
}
