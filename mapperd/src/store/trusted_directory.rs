//! Whether other users could replace what the daemon keeps in a directory.
//!
//! In a directory that every user may write to (`/tmp`), another user could create `mapper` first, and then replace
//! the state and answer on the socket in the daemon's name. So the directory and all above it have to belong to the user or
//! to root, and others must not be able to write there, unless the sticky bit keeps them from renaming what they do not
//! own. A symbolic link counts by its owner, who can redirect it.

use anyhow::{anyhow, ensure};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Write permission for the group and for others.
const OTHERS_WRITE: u32 = 0o022;
/// Only owners may rename and remove.
const STICKY: u32 = 0o1000;

/// Checks a directory and all above it, also where links lead. `flag` is the option that names another.
pub(crate) fn check(directory: &Path, flag: &str) -> anyhow::Result<()> {
    let unreadable = |path: &Path, error| {
        let path = path.display();
        anyhow!("read directory {path}: {error}; name another {flag}")
    };
    let user = rustix::process::geteuid().as_raw();
    let absolute = |path: &Path| std::path::absolute(path).map_err(|error| unreadable(path, error));
    // There are no more links than the kernel follows, or this fails.
    std::fs::metadata(directory).map_err(|error| unreadable(directory, error))?;
    let mut ways = vec![absolute(directory)?];
    while let Some(way) = ways.pop() {
        for path in way.ancestors() {
            let found = std::fs::symlink_metadata(path).map_err(|error| unreadable(path, error))?;
            judge(path, &found, user, flag)?;
            if found.is_symlink() {
                let to = std::fs::read_link(path).map_err(|error| unreadable(path, error))?;
                ways.push(absolute(&path.parent().unwrap_or(path).join(to))?);
            }
        }
    }
    Ok(())
}

fn judge(path: &Path, found: &Metadata, user: u32, flag: &str) -> anyhow::Result<()> {
    let (path, owner, mode) = (path.display(), found.uid(), found.mode() & 0o7777);
    ensure!(
        owner == 0 || owner == user,
        "{path} belongs to user {owner}, neither to you nor to root; point XDG_RUNTIME_DIR at a directory \
         of your own (mkdir -m 700), or name another {flag}"
    );
    // A link's own mode has no meaning.
    ensure!(
        found.is_symlink() || mode & OTHERS_WRITE == 0 || mode & STICKY != 0,
        "{path} has mode {mode:o}, so that other users can replace what is in it; run `chmod go-w {path}`, or name \
         another {flag}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::assert_says;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn with_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused_and_named() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("mapper");
        fs::create_dir(&dir).unwrap();
        for (above, own, fine) in [
            (0o700, 0o700, true),
            (0o755, 0o755, true),
            (0o1777, 0o700, true),
            (0o700, 0o777, false),
            (0o700, 0o770, false),
            (0o777, 0o700, false),
        ] {
            with_mode(place.path(), above);
            with_mode(&dir, own);
            let found = check(&dir, "--socket");
            assert_eq!(found.is_ok(), fine, "{above:o} {own:o}: {found:?}");
            if let Err(error) = found {
                assert_says(error, &["chmod", "--socket"]);
            }
        }
        with_mode(place.path(), 0o700);
        // Far above, where a link leads, and on the way there.
        let [open, link, first, second] =
            ["open", "link", "first", "open/second"].map(|name| place.path().join(name));
        let deep = open.join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        for (to, from) in [(&deep, &link), (&second, &first), (&dir, &second)] {
            std::os::unix::fs::symlink(to, from).unwrap();
        }
        with_mode(&dir, 0o700);
        for path in [&deep, &link, &first] {
            with_mode(&open, 0o755);
            check(path, "--socket").unwrap();
            with_mode(&open, 0o777);
            assert_says(check(path, "--socket").unwrap_err(), &["chmod go-w"]);
        }
    }

    #[test]
    fn a_directory_of_another_user_is_refused_and_one_of_roots_is_not() {
        let place = tempfile::tempdir().unwrap();
        with_mode(place.path(), 0o700);
        let found = fs::metadata(place.path()).unwrap();
        let owner = found.uid();
        assert!(judge(place.path(), &found, owner, "--socket").is_ok());
        // Seen by another user, unless root made it.
        let error = judge(place.path(), &found, owner + 1, "--socket");
        assert_eq!(error.is_ok(), owner == 0, "{error:?}");
    }

    #[test]
    fn a_link_that_leads_nowhere_is_no_directory() {
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("mapper");
        std::os::unix::fs::symlink(place.path().join("none"), &link).unwrap();
        let error = check(&link, "--socket").unwrap_err();
        assert_says(error, &["read directory", "name another --socket"]);
    }
}
