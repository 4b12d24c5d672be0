//! Where groups may be made, and making that place ready.

use super::group_dir::GroupDir;
use crate::procfs::read_small;
use crate::{HostError, Missing};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The magic number of cgroup v2 in `statfs(2)`.
pub(super) const CGROUP2_MAGIC: rustix::fs::FsWord = 0x6367_7270;

/// The group that mapper's units hold for the applications (`deploy/mapper-apps.service`).
const UNIT: &str = "mapper.slice/mapper-apps.service";

/// Where to make groups if no place is named: in the subtree that was delegated to this process; as root, in the
/// group of mapper's own unit if that runs, else in `mapper.slice` at the top.
pub fn find_root() -> Result<PathBuf, HostError> {
    let mounts = read_small(Path::new("/proc/self/mounts"))?;
    let Some(mount) = cgroup2_mount(&mounts) else {
        let why = "no cgroup v2 file system is mounted";
        return Err(missing(why, "mount one at /sys/fs/cgroup"));
    };
    let controllers = read_small(&mount.join("cgroup.controllers"))?;
    if !controllers.split_ascii_whitespace().any(|c| c == "cpuset") {
        let offered = match controllers.trim() {
            "" => "none",
            offered => offered,
        };
        return Err(missing(
            format!(
                "the cpuset controller is not on cgroup v2 ({} offers: {offered})",
                mount.display()
            ),
            "boot with systemd.unified_cgroup_hierarchy=1",
        ));
    }
    let own = read_small(Path::new("/proc/self/cgroup"))?;
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .map(|path| mount.join(path));
    if let Some(delegated) = own
        .iter()
        .flat_map(|own| own.ancestors().take(2))
        .find(|group| GroupDir::open(group).is_ok_and(|dir| dir.is_delegated()))
    {
        return Ok(delegated.to_owned());
    }
    if rustix::process::geteuid().is_root() {
        let unit = mount.join(UNIT);
        return Ok(match unit.is_dir() {
            true => unit,
            false => mount.join("mapper.slice"),
        });
    }
    Err(missing(
        "no subtree is delegated to this process",
        "run mapperd as a service with Delegate=cpuset, or name a directory with --cgroup-root",
    ))
}

pub(crate) fn cgroup2_mount(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_device, path, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    })
}

pub(super) fn missing(why: impl Into<String>, hint: &str) -> HostError {
    HostError::Missing(Missing::new("control groups", why, hint))
}

/// Has the groups below one have a controller.
pub(super) fn hand_down(dir: &GroupDir, controller: &str) -> Result<(), HostError> {
    let file = "cgroup.subtree_control";
    let enabled = dir.read(file)?;
    if enabled.split_ascii_whitespace().any(|c| c == controller) {
        return Ok(());
    }
    match dir.write(file, &format!("+{controller}")) {
        Err(error) if error.errno() == Some(Errno::BUSY) => Err(missing(
            format!(
                "{} holds processes itself, so that nothing can be enabled below it",
                dir.path().display()
            ),
            "name a directory without processes with --cgroup-root",
        )),
        result => result,
    }
}
