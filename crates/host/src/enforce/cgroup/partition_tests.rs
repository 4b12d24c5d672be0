//! Isolated partitions, on directories and files that stand in for the kernel's.

#![allow(clippy::unwrap_used)] // a test that cannot go on shall panic

use super::files::possible_cpus;
use super::isolation::{EXCLUSIVE, ISOLATED, MEMBER, PARTITION};
use super::partition::TRY_AGAIN;
use super::tests::{fake_group, text};
use super::*;
use crate::enforce::{Departure, Former, Newcomer};
use mapper_model::AppName;
use std::fs;
use std::path::PathBuf;

/// A tree with the groups around the applications', as the unit has them.
struct Tree {
    mount: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        let tree = Self {
            mount: tempfile::tempdir().unwrap(),
        };
        for group in ["", "mapper.slice", "mapper.slice/apps"] {
            fake_group(&tree.path(group), true);
        }
        for group in ["mapper.slice", "mapper.slice/apps"] {
            fs::write(tree.path(group).join(EXCLUSIVE), "\n").unwrap();
        }
        tree
    }

    fn path(&self, group: &str) -> PathBuf {
        self.mount.path().join(group)
    }

    fn read(&self, group: &str, file: &str) -> String {
        text(self.path(group).join(file)).trim_end().to_owned()
    }

    fn app(&self, number: u64, file: &str) -> String {
        self.read(&format!("mapper.slice/apps/app-{number}"), file)
    }

    fn enforcer(&self) -> CgroupEnforcer {
        let root = self.path("mapper.slice/apps");
        CgroupEnforcer::prepare(&root, self.mount.path(), Init::Other).unwrap()
    }

    fn admit(&self, enforcer: &mut CgroupEnforcer, number: u64) {
        let newcomer = Newcomer {
            app: AppId(number),
            name: AppName::new("test").unwrap(),
            first_process: 4711,
            launcher: 4710,
        };
        enforcer.admit(&newcomer).unwrap();
        let group = self.path(&format!("mapper.slice/apps/app-{number}"));
        fake_group(&group, true);
        fs::write(group.join("cgroup.threads"), "").unwrap();
        fs::write(group.join(PARTITION), "member\n").unwrap();
    }
}

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

#[test]
fn an_isolated_application_moves_with_its_partition_and_those_around_claim_what_it_has() {
    let tree = Tree::new();
    let mut enforcer = tree.enforcer();
    for app in 1..=3 {
        tree.admit(&mut enforcer, app);
    }
    enforcer.isolate(AppId(1)).unwrap();
    enforcer.isolate(AppId(2)).unwrap();
    enforcer.apply(AppId(3), &set("6-7")).unwrap();
    let mut expect = |app, cpus: &str, all: &str| {
        enforcer.apply(AppId(app), &set(cpus)).unwrap();
        for file in [EXCLUSIVE, "cpuset.cpus"] {
            assert_eq!(tree.app(app, file), cpus, "{file}");
        }
        assert_eq!(tree.app(app, PARTITION), ISOLATED);
        assert_eq!(enforcer.standing(AppId(app)), Standing::Isolated);
        for group in ["mapper.slice", "mapper.slice/apps"] {
            assert_eq!(tree.read(group, EXCLUSIVE), all, "{group}");
        }
        assert_eq!(enforcer.exclusive(), set(all));
    };
    expect(1, "0-3", "0-3");
    expect(1, "2-3", "2-3");
    expect(2, "4-5", "2-5");
    expect(1, "0-1", "0-1,4-5");
    // Those who did not ask have nothing to do with it.
    assert_eq!(enforcer.standing(AppId(3)), Standing::Member);
    assert_eq!(tree.app(3, PARTITION), MEMBER);
}

#[test]
fn isolated_cpus_stay_part_of_the_limit() {
    let tree = Tree::new();
    let mut enforcer = tree.enforcer();
    tree.admit(&mut enforcer, 1);
    enforcer.isolate(AppId(1)).unwrap();
    enforcer.apply(AppId(1), &set("0-3")).unwrap();
    let effective = tree.path("mapper.slice/apps/cpuset.cpus.effective");
    fs::write(effective, "4-7\n").unwrap();
    assert_eq!(enforcer.limit().unwrap(), set("0-7"));
}

#[test]
fn who_has_to_leave_cpus_does_so_before_another_gets_them() {
    let tree = Tree::new();
    let mut enforcer = tree.enforcer();
    for app in 1..=2 {
        tree.admit(&mut enforcer, app);
    }
    enforcer.isolate(AppId(1)).unwrap();
    enforcer.apply(AppId(1), &set("0-3")).unwrap();
    enforcer.apply(AppId(2), &set("2-5")).unwrap();
    assert_eq!(tree.app(1, EXCLUSIVE), "0-1");
    assert_eq!(tree.read("mapper.slice", EXCLUSIVE), "0-1");
    assert_eq!(tree.app(2, "cpuset.cpus"), "2-5");
    // With nothing left it is a member until it gets its own.
    enforcer.apply(AppId(2), &set("0-5")).unwrap();
    assert_eq!(tree.app(1, PARTITION), MEMBER);
    assert!(enforcer.exclusive().is_empty());
    enforcer.apply(AppId(1), &set("6-7")).unwrap();
    assert_eq!(enforcer.standing(AppId(1)), Standing::Isolated);
}

#[test]
fn a_partition_that_the_kernel_dissolves_is_a_member_again_and_says_why() {
    let tree = Tree::new();
    let mut enforcer = tree.enforcer();
    tree.admit(&mut enforcer, 1);
    enforcer.isolate(AppId(1)).unwrap();
    enforcer.apply(AppId(1), &set("0-3")).unwrap();
    let file = tree.path("mapper.slice/apps/app-1").join(PARTITION);
    let message = "isolated invalid (Parent is not a partition root)";
    fs::write(&file, format!("{message}\n")).unwrap();
    enforcer.refresh().unwrap();
    assert_eq!(tree.app(1, PARTITION), MEMBER);
    assert_eq!(tree.app(1, EXCLUSIVE), "");
    assert_eq!(tree.app(1, "cpuset.cpus"), "0-3");
    assert_eq!(tree.read("mapper.slice", EXCLUSIVE), "");
    let Standing::NotIsolated(why) = enforcer.standing(AppId(1)) else {
        panic!("it is {}", enforcer.standing(AppId(1)));
    };
    assert!(why.contains(message), "{why}");
    enforcer.apply(AppId(1), &set("0-2")).unwrap();
    assert_eq!(enforcer.standing(AppId(1)), Standing::Isolated);
}

#[test]
fn what_kept_a_partition_from_standing_is_tried_again() {
    let tree = Tree::new();
    let mut enforcer = tree.enforcer();
    tree.admit(&mut enforcer, 1);
    enforcer.isolate(AppId(1)).unwrap();
    enforcer.apply(AppId(1), &set("0-3")).unwrap();
    let file = tree.path("mapper.slice/apps/app-1").join(PARTITION);
    fs::write(&file, "isolated invalid\n").unwrap();
    enforcer.refresh().unwrap();
    assert_eq!(tree.app(1, PARTITION), MEMBER);
    for _ in 0..TRY_AGAIN {
        enforcer.refresh().unwrap();
    }
    assert_eq!(enforcer.standing(AppId(1)), Standing::Isolated);
    assert_eq!(tree.app(1, EXCLUSIVE), "0-3");
}

#[test]
fn a_set_written_by_others_counts_and_ends_the_partition() {
    let tree = Tree::new();
    let mut enforcer = tree.enforcer();
    tree.admit(&mut enforcer, 1);
    enforcer.isolate(AppId(1)).unwrap();
    enforcer.apply(AppId(1), &set("0-3")).unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), None);
    fs::write(tree.path("mapper.slice/apps/app-1/cpuset.cpus"), "6-7\n").unwrap();
    let found = enforcer.set_by_others(AppId(1)).map(|found| found.cpus);
    assert_eq!(found, Some(set("6-7")));
    assert_eq!(tree.app(1, PARTITION), MEMBER);
    assert_eq!(tree.app(1, "cpuset.cpus"), "6-7");
    assert_eq!(tree.read("mapper.slice", EXCLUSIVE), "");
}

#[test]
fn where_nothing_can_be_claimed_the_application_has_its_cpus_all_the_same() {
    let tree = Tree::new();
    let mut enforcer = tree.enforcer();
    tree.admit(&mut enforcer, 1);
    enforcer.isolate(AppId(1)).unwrap();
    let file = tree.path("mapper.slice").join(EXCLUSIVE);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    enforcer.apply(AppId(1), &set("0-3")).unwrap();
    assert_eq!(tree.app(1, "cpuset.cpus"), "0-3");
    let standing = enforcer.standing(AppId(1)).to_string();
    assert!(
        standing.contains("mapper.slice/cpuset.cpus.exclusive"),
        "{standing}"
    );
}

#[test]
fn the_next_daemon_keeps_a_partition_and_a_stop_dissolves_it() {
    let tree = Tree::new();
    let mut enforcer = tree.enforcer();
    tree.admit(&mut enforcer, 1);
    enforcer.isolate(AppId(1)).unwrap();
    enforcer.apply(AppId(1), &set("0-3")).unwrap();
    drop(enforcer);
    let mut next = tree.enforcer();
    next.take_over(&Former {
        app: AppId(1),
        cpus: set("0-3"),
        launcher: None,
        set_by_others: None,
        processes: serde_json::Value::Null,
    })
    .unwrap();
    assert_eq!(next.standing(AppId(1)), Standing::Isolated);
    assert_eq!(next.exclusive(), set("0-3"));
    next.apply(AppId(1), &set("4-5")).unwrap();
    assert_eq!(tree.read("mapper.slice", EXCLUSIVE), "4-5");
    next.release(AppId(1), &set("0-7"), Departure::DaemonStops)
        .unwrap();
    assert_eq!(tree.app(1, PARTITION), MEMBER);
    assert_eq!(tree.read("mapper.slice", EXCLUSIVE), "");
    assert_eq!(
        tree.app(1, "cpuset.cpus"),
        possible_cpus().unwrap().to_string()
    );
}

#[test]
fn a_partition_whose_application_ended_without_a_daemon_is_dissolved() {
    let tree = Tree::new();
    let mut enforcer = tree.enforcer();
    tree.admit(&mut enforcer, 1);
    enforcer.isolate(AppId(1)).unwrap();
    enforcer.apply(AppId(1), &set("0-3")).unwrap();
    drop(enforcer);
    fake_group(&tree.path("mapper.slice/apps/app-1"), false);
    // Plain files keep the folder from being removed, so that the group is still found.
    let mut next = tree.enforcer();
    assert_eq!(tree.app(1, PARTITION), MEMBER);
    next.refresh().unwrap();
    assert_eq!(tree.read("mapper.slice", EXCLUSIVE), "");
    // Claimed by the outer group alone, as a daemon that may not write there leaves it.
    fs::write(tree.path("mapper.slice").join(EXCLUSIVE), "0-3\n").unwrap();
    fs::remove_dir_all(tree.path("mapper.slice/apps/app-1")).unwrap();
    tree.enforcer().refresh().unwrap();
    assert_eq!(tree.read("mapper.slice", EXCLUSIVE), "");
}

#[test]
fn a_kernel_without_remote_partitions_is_reported_with_the_version_that_has_them() {
    let tree = Tree::new();
    fs::remove_file(tree.path("mapper.slice/apps").join(EXCLUSIVE)).unwrap();
    let error = tree.enforcer().available().unwrap_err().to_string();
    assert!(
        error.contains("no isolated CPUs") && error.contains("6.7"),
        "{error}"
    );
}
