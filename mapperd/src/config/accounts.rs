//! Whose quotas a uid counts against.
//!
//! A user may hold tens of thousands of subordinate uids (`/etc/subuid`), and act as each of them in a user namespace.
//! They all count as the user whom the range was given to; a quota by uid would be none. An owner given by number, or by a
//! name in `/etc/passwd`, shares one quota with its ranges. Of any other owner, and of root and the daemon's user, who
//! have no quotas, the ranges count together, as the first uid of the first range.
//!
//! The files are read here and not through the name service, whose answers may take seconds.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// As much of a file is read.
const MOST_BYTES: u64 = 4 << 20;

/// Owners of subordinate uids that are subordinate themselves are followed so far.
const DEPTH: usize = 4;

/// Whether a user is root or the one who runs this daemon; either could stop it anyway.
pub(crate) fn is_privileged(uid: u32) -> bool {
    is_root_or(rustix::process::geteuid().as_raw(), uid)
}

const fn is_root_or(own: u32, uid: u32) -> bool {
    uid == 0 || uid == own
}

/// Subordinate uids and the account of each. Clones share what was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accounts(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// `None` in tests that have no such files.
    etc: Option<PathBuf>,
    ranges: RwLock<Ranges>,
    /// The files as last read.
    read: Mutex<[Option<Stamp>; 2]>,
}

/// By which a changed file is noticed.
type Stamp = (u64, u64, i64, i64);

impl Accounts {
    /// Reads the files of a directory, `/etc`.
    pub(crate) fn read(etc: &Path) -> Self {
        let accounts = Self(Arc::new(Shared {
            etc: Some(etc.to_owned()),
            ..Shared::default()
        }));
        accounts.refresh();
        accounts
    }

    /// Reads the files again if they have changed. May take as long as the file system.
    pub(crate) fn refresh(&self) {
        let Some(etc) = &self.0.etc else {
            return;
        };
        let files = ["subuid", "passwd"].map(|name| etc.join(name));
        let stamps = [stamp(&files[0]), stamp(&files[1])];
        let mut read = self.0.read.lock().unwrap_or_else(PoisonError::into_inner);
        if *read == stamps {
            return;
        }
        *read = stamps;
        let [subuid, passwd] = files.map(|file| match text(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(
                    "{}: {error}; subordinate uids have quotas of their own",
                    file.display()
                );
                String::new()
            }
            text => text.unwrap_or_default(),
        });
        let ranges = Ranges::parse(&subuid, &passwd);
        *self
            .0
            .ranges
            .write()
            .unwrap_or_else(PoisonError::into_inner) = ranges;
    }

    /// The uid whose quotas this one counts against.
    pub(crate) fn of(&self, uid: u32) -> u32 {
        let ranges = self.0.ranges.read().unwrap_or_else(PoisonError::into_inner);
        ranges.account(uid)
    }
}

fn stamp(file: &Path) -> Option<Stamp> {
    let found = fs::metadata(file).ok()?;
    Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

fn text(file: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(file)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Ranges of uids, sorted, without overlap.
#[derive(Debug, Default)]
struct Ranges(Vec<Range>);

#[derive(Debug)]
struct Range {
    first: u32,
    last: u32,
    account: u32,
}

impl Ranges {
    /// Lines that are no ranges are skipped. Of ranges that overlap the one that begins first has the uids.
    fn parse(subuid: &str, passwd: &str) -> Self {
        let mut users = HashMap::new();
        for line in passwd.lines() {
            let mut fields = line.split(':');
            if let (Some(name), Some(_), Some(uid)) = (fields.next(), fields.next(), fields.next())
                && let Ok(uid) = uid.parse::<u32>()
            {
                users.entry(name).or_insert(uid);
            }
        }
        let mut accounts = HashMap::new();
        let mut ranges: Vec<Range> = Vec::new();
        for line in subuid.lines() {
            let fields: Vec<&str> = line.trim().split(':').collect();
            let &[owner, first, count] = &fields[..] else {
                continue;
            };
            let (Ok(first), Ok(count @ 1..)) = (first.parse::<u32>(), count.parse::<u32>()) else {
                continue;
            };
            let uid = owner.parse().ok().or_else(|| users.get(owner).copied());
            let uid = uid.filter(|uid| !is_privileged(*uid));
            let account = *accounts.entry(owner).or_insert(uid.unwrap_or(first));
            let last = first.saturating_add(count - 1);
            ranges.push(Range {
                first,
                last,
                account,
            });
        }
        ranges.sort_by_key(|range| range.first);
        let mut free = 0;
        ranges.retain_mut(|range| {
            range.first = range.first.max(free);
            let some_left = range.first <= range.last;
            free = free.max(range.last.saturating_add(1));
            some_left
        });
        Self(ranges)
    }

    fn account(&self, uid: u32) -> u32 {
        let mut account = uid;
        for _ in 0..DEPTH {
            let after = self.0.partition_point(|range| range.first <= account);
            match after.checked_sub(1).and_then(|place| self.0.get(place)) {
                Some(range) if account <= range.last && range.account != account => {
                    account = range.account;
                }
                _ => break,
            }
        }
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_the_user_of_the_daemon_are_privileged() {
        let privileged = [0, 1000, 1001].map(|uid| is_root_or(1000, uid));
        assert_eq!(privileged, [true, true, false]);
        assert!(is_privileged(rustix::process::geteuid().as_raw()));
    }

    #[test]
    fn subordinate_uids_count_for_the_user_who_has_the_range() {
        let passwd =
            "root:x:0:0::/root:/bin/sh\nalice:x:1001:1001::/:/bin/sh\nbroken\nalice:x:7:7:::\n";
        let subuid = "alice:100000:65536\n\
                      # a comment: 1:2\n\
                      1002:200000:65536\n\
                      alice:300000:10\n\
                      carol@corp:400000:10\n\
                      carol@corp:500000:10\n\
                      200005:600000:10\n\
                      root:700000:10\n\
                      \n::\nx:y:z\nalice:1:-5\nalice:90:0\nalice:5000000000:1\nalice:10:10:10\n\
                      carol@corp:299990:20\n\
                      dave:4294967290:4294967295\n";
        let ranges = Ranges::parse(subuid, passwd);
        for (uid, account) in [
            (1001, 1001),
            (99_999, 99_999),
            (100_000, 1001),
            (165_535, 1001),
            (165_536, 165_536),
            (200_005, 1002),
            (300_009, 400_000),
            (400_000, 400_000),
            (500_009, 400_000),
            (600_003, 1002),
            // Not root's: those have no quotas.
            (700_003, 700_000),
            (0, 0),
            (10, 10),
            (90, 90),
            (u32::MAX, 4_294_967_290),
        ] {
            assert_eq!(ranges.account(uid), account, "{uid}");
        }
        // Each the owner of the other: it ends.
        Ranges::parse("5:6:1\n6:5:1\n", "").account(5);
    }

    #[test]
    fn changed_files_are_read_again_and_missing_ones_are_no_error() {
        let etc = tempfile::tempdir().unwrap();
        let accounts = Accounts::read(etc.path());
        assert_eq!(accounts.of(100_000), 100_000);
        std::fs::write(
            etc.path().join("subuid"),
            b"alice:100000:65536\n\xff\xfe:1\n",
        )
        .unwrap();
        std::fs::write(etc.path().join("passwd"), "alice:x:1001:1001\n").unwrap();
        let reader = accounts.clone();
        reader.refresh();
        assert_eq!(accounts.of(165_535), 1001);
        std::fs::remove_file(etc.path().join("subuid")).unwrap();
        reader.refresh();
        assert_eq!(accounts.of(165_535), 165_535);
    }
}
