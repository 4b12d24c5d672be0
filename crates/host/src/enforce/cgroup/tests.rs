//! What the enforcer reads and writes, on plain files.

#![allow(clippy::unwrap_used)] // a test that cannot go on shall panic

use super::files::POSSIBLE_CPUS;
use super::group_dir::{DEPTH, Removed};
use super::*;
use mapper_model::{AppName, ThreadId};
use std::fs;

/// A directory with the files that the kernel would show in a group. Plain files keep what is
/// written to them, which is what these tests look at; what the kernel makes of it is tested in
/// the guest.
pub(super) fn fake_group(path: &Path, populated: bool) {
    fs::create_dir_all(path).unwrap();
    for (name, text) in [
        ("cgroup.controllers", "cpuset cpu memory\n"),
        ("cgroup.subtree_control", ""),
        ("cgroup.procs", ""),
        ("cgroup.threads", ""),
        ("cpuset.cpus", ""),
        ("cpuset.cpus.effective", "0-7\n"),
        ("cpuset.mems.effective", "0-3\n"),
        ("cpu.stat", "usage_usec 1500\nuser_usec 1000\n"),
    ] {
        fs::write(path.join(name), text).unwrap();
    }
    let events = format!("populated {}\nfrozen 0\n", u8::from(populated));
    fs::write(path.join("cgroup.events"), events).unwrap();
}

/// A set that root or the daemon's user has written.
pub(super) fn operators(cpus: &str) -> Option<ForeignSet> {
    Some(ForeignSet {
        cpus: cpus.parse().unwrap(),
        writer: Writer::Operator,
    })
}

fn newcomer(app: u64) -> Newcomer {
    Newcomer {
        app: AppId(app),
        name: AppName::new("test").unwrap(),
        first_process: 4711,
        launcher: 4710,
    }
}

pub(super) fn text(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_newcomer_gets_a_group_with_its_process_and_its_cpus() {
    let root = tempfile::tempdir().unwrap();
    fake_group(root.path(), true);
    let mut enforcer = prepare(root.path()).unwrap();
    assert_eq!(text(root.path().join("cgroup.subtree_control")), "+cpuset");
    assert_eq!(enforcer.limit().unwrap().to_string(), "0-7");
    enforcer.admit(&newcomer(1)).unwrap();
    let group = root.path().join("app-1");
    assert_eq!(text(group.join("cgroup.procs")), "4711");
    enforcer.apply(AppId(1), &"2-3,6".parse().unwrap()).unwrap();
    assert_eq!(text(group.join("cpuset.cpus")), "2-3,6");
    fs::write(group.join("cpuset.cpus.effective"), "2-3\n").unwrap();
    assert_eq!(enforcer.effective(AppId(1)).unwrap().to_string(), "2-3");
}

#[test]
fn tasks_and_cpu_time_are_read_from_the_group_and_those_below() {
    let root = tempfile::tempdir().unwrap();
    fake_group(root.path(), true);
    let mut enforcer = prepare(root.path()).unwrap();
    enforcer.admit(&newcomer(1)).unwrap();
    let group = root.path().join("app-1");
    fake_group(&group, true);
    fake_group(&group.join("inner"), true);
    fs::write(group.join("cgroup.procs"), "20\n10\n").unwrap();
    fs::write(group.join("inner/cgroup.threads"), "31\n30\n").unwrap();
    let tasks = enforcer.tasks(AppId(1));
    assert_eq!(tasks.processes, [10, 20]);
    assert_eq!(tasks.threads, [ThreadId(30), ThreadId(31)]);
    assert_eq!(enforcer.cpu_time_ns(AppId(1)), Some(1_500_000));
    // Of more groups than can be looked through none is, and the application is managed further.
    fs::write(group.join("cgroup.stat"), "nr_descendants 100000\n").unwrap();
    assert_eq!(enforcer.tasks(AppId(1)).processes, [10, 20]);
    assert_eq!(enforcer.tasks(AppId(1)).threads, []);
    assert_eq!(enforcer.too_many_groups(AppId(1)), None);
}

#[test]
fn a_set_written_by_others_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    fake_group(root.path(), true);
    let mut enforcer = prepare(root.path()).unwrap();
    enforcer.admit(&newcomer(1)).unwrap();
    let file = root.path().join("app-1/cpuset.cpus");
    fs::write(&file, "\n").unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), None);
    enforcer.apply(AppId(1), &"2-3".parse().unwrap()).unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), None);
    fs::write(&file, "1\n").unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), operators("1"));
    enforcer.apply(AppId(1), &"2".parse().unwrap()).unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), None);
    // The next daemon still knows it from the earlier one's.
    fs::write(&file, "5\n").unwrap();
    fs::write(root.path().join("app-1/cgroup.events"), "populated 1\n").unwrap();
    let mut next = prepare(root.path()).unwrap();
    next.take_over(&Former {
        app: AppId(1),
        cpus: CpuSet::new(),
        launcher: None,
        set_by_others: "5".parse().ok(),
        processes: serde_json::Value::Null,
    })
    .unwrap();
    assert_eq!(next.set_by_others(AppId(1)), operators("5"));
}

#[test]
fn a_group_that_still_has_members_gets_all_cpus_when_it_is_released() {
    let root = tempfile::tempdir().unwrap();
    fake_group(root.path(), true);
    let mut enforcer = prepare(root.path()).unwrap();
    enforcer.admit(&newcomer(1)).unwrap();
    let group = root.path().join("app-1");
    fake_group(&group, true);
    fs::write(group.join("cpuset.cpus"), "3").unwrap();
    assert!(enforcer.is_populated(AppId(1)));
    enforcer
        .release(AppId(1), &CpuSet::first(8), Departure::ForGood)
        .unwrap();
    let possible = text(PathBuf::from(POSSIBLE_CPUS));
    assert_eq!(text(group.join("cpuset.cpus")).trim(), possible.trim());
    assert_eq!(enforcer.left_over(), [AppId(1)]);
}

#[test]
fn groups_of_an_earlier_daemon_are_taken_over_as_they_are() {
    let root = tempfile::tempdir().unwrap();
    fake_group(root.path(), true);
    let group = root.path().join("app-41");
    fake_group(&group, true);
    fs::write(group.join("cpuset.cpus"), "3\n").unwrap();
    fs::write(group.join("cpuset.cpus.effective"), "3\n").unwrap();
    fake_group(&root.path().join("of-another"), true);
    let mut enforcer = prepare(root.path()).unwrap();
    assert_eq!(enforcer.left_over(), [AppId(41)]);
    let former = |app| Former {
        app: AppId(app),
        cpus: "3".parse().unwrap(),
        launcher: None,
        set_by_others: None,
        processes: serde_json::Value::Null,
    };
    enforcer.take_over(&former(41)).unwrap();
    assert!(enforcer.left_over().is_empty());
    assert_eq!(enforcer.effective(AppId(41)).unwrap().to_string(), "3");
    assert_eq!(text(group.join("cpuset.cpus")), "3\n");
    enforcer.apply(AppId(41), &"5".parse().unwrap()).unwrap();
    assert_eq!(text(group.join("cpuset.cpus")), "5\n".trim());
    assert!(enforcer.take_over(&former(42)).unwrap_err().is_gone());
    assert_eq!(text(root.path().join("of-another/cpuset.cpus")), "");
}

#[test]
fn memory_is_bound_to_nodes_that_there_are_and_freed_again() {
    let root = tempfile::tempdir().unwrap();
    fake_group(root.path(), true);
    let mut enforcer = prepare(root.path()).unwrap();
    enforcer.admit(&newcomer(1)).unwrap();
    let group = root.path().join("app-1");
    fake_group(&group, true);
    let mems = || text(group.join("cpuset.mems"));
    for (nodes, written) in [
        (&[1][..], "1"),
        (&[1, 2], "1-2"),
        (&[3, 9], "3"),
        (&[9], "0-3"),
    ] {
        let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
        enforcer.bind(AppId(1), &nodes).unwrap();
        assert_eq!(mems(), written);
    }
    enforcer.bind(AppId(1), &[NodeId(1)]).unwrap();
    enforcer
        .release(AppId(1), &CpuSet::first(8), Departure::DaemonStops)
        .unwrap();
    assert_eq!(mems(), "0-3");
}

#[test]
fn an_empty_group_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let group = root.path().join("app-1");
    fs::create_dir(&group).unwrap();
    let dir = GroupDir::open(root.path()).unwrap();
    assert!(matches!(dir.remove_tree("app-1", DEPTH), Ok(Removed::Yes)));
    assert!(!group.exists());
    assert!(matches!(dir.remove_if_empty("app-1"), Ok(Removed::Yes)));
}

#[test]
fn a_daemon_that_sits_in_the_root_moves_beside_the_applications() {
    let root = tempfile::tempdir().unwrap();
    fake_group(root.path(), true);
    fake_group(&root.path().join(DAEMON), true);
    let own_pid = std::process::id().to_string();
    fs::write(root.path().join("cgroup.procs"), format!("{own_pid}\n")).unwrap();
    prepare(root.path()).unwrap();
    assert_eq!(text(root.path().join("daemon/cgroup.procs")), own_pid);
}

#[test]
fn a_root_without_the_controller_is_reported_with_a_hint() {
    let root = tempfile::tempdir().unwrap();
    fake_group(root.path(), true);
    fs::write(root.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
    let error = prepare(root.path()).unwrap_err().to_string();
    assert!(
        error.contains("cpu memory") && error.contains("Delegate=cpuset"),
        "{error}"
    );
}

#[test]
fn a_directory_elsewhere_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let error = CgroupEnforcer::open(root.path()).unwrap_err().to_string();
    assert!(error.contains("not on a cgroup v2 file system"), "{error}");
}

#[test]
fn the_mount_of_version_2_is_found_among_those_of_version_1() {
    let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                  cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                  cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    assert_eq!(
        cgroup2_mount(mounts),
        Some(PathBuf::from("/sys/fs/cgroup/unified"))
    );
    assert_eq!(cgroup2_mount("tmpfs / tmpfs rw 0 0\n"), None);
}

fn prepare(root: &Path) -> Result<CgroupEnforcer, HostError> {
    CgroupEnforcer::prepare(root, root, Init::Other)
}
