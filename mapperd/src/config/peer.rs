//! The process at the other end of a connection.

use std::sync::Arc;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    /// The uid whose quotas it counts against ([`accounts`](crate::config::accounts)).
    pub(crate) account: u32,
    /// Its groups when it connected.
    pub(crate) groups: Arc<[u32]>,
}

impl Peer {
    /// Its groups to be kept with an application, if it is the user for whom that counts: the first ones, of so many that
    /// no user has by membership.
    pub(crate) fn own_groups(&self) -> Option<Vec<u32>> {
        const MOST: usize = 256;
        let own = self.uid == self.account;
        own.then(|| self.groups.iter().copied().take(MOST).collect())
    }

    /// The daemon itself, which does what its operator has configured, at the expense of this account.
    pub(crate) fn for_account(account: u32) -> Self {
        Self {
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            account,
            groups: Arc::default(),
        }
    }
}

#[cfg(test)]
impl Peer {
    pub(crate) fn of(uid: u32, groups: &[u32]) -> Self {
        Self {
            pid: 1,
            uid,
            account: uid,
            groups: groups.into(),
        }
    }
}
