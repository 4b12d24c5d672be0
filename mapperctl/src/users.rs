//! Whose programs are shown.

use mapper_control::schema::AppStatus;
use nix::unistd::{Uid, User};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Whether the programs are of several users, so that it matters whose each of them is.
pub(crate) fn are_several<'a>(apps: impl IntoIterator<Item = &'a AppStatus>) -> bool {
    let mut apps = apps.into_iter();
    let first = apps.next();
    apps.any(|app| first.is_some_and(|first| first.user() != app.user()))
}

/// The name of a user; the number where it has none here.
pub(crate) fn name(uid: u32) -> String {
    // Where users are a server's, each question takes its time.
    static KNOWN: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let ask = || {
        let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
        user.map_or_else(|| uid.to_string(), |user| user.name)
    };
    known.entry(uid).or_insert_with(ask).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_shown_by_name_where_there_is_one() {
        assert_eq!(name(0), "root");
        assert_eq!(name(4_000_000_000), "4000000000");
    }
}
