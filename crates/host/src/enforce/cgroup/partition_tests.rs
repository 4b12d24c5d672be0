//! Isolated partitions, on plain directories and files.

use super::asked::EXCLUSIVE;
use super::files::possible_cpus;
use super::isolation::{ISOLATED, MEMBER, PARTITION};
use super::partition::TRY_AGAIN;
use super::tests::{APP, ROOT, Tree, of_app};
use super::*;
use std::fs;

const CLAIMED: &str = "mapper.slice/cpuset.cpus.exclusive";

impl Tree {
    fn with_an_isolated_application() -> Self {
        let mut tree = Self::new(Init::Other);
        tree.admit(1);
        tree.enforcer.isolate(APP).unwrap();
        tree.apply(1, "0-3");
        tree
    }

    fn trimmed(&self, file: &str) -> String {
        self.read(file).trim_end().to_owned()
    }

    fn set_of(&self, number: u64) -> CpuSet {
        self.enforcer.groups.apps[&AppId(number)].written.clone()
    }

    fn app(&self, number: u64, file: &str) -> String {
        self.trimmed(&of_app(number, file))
    }
}

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

#[test]
fn an_isolated_application_moves_with_its_partition_and_those_around_claim_what_it_has() {
    let mut tree = Tree::new(Init::Other);
    for app in 1..=3 {
        tree.admit(app);
    }
    tree.enforcer.isolate(APP).unwrap();
    tree.enforcer.isolate(AppId(2)).unwrap();
    tree.apply(3, "6-7");
    for (app, cpus, all) in [
        (1, "0-3", "0-3"),
        (1, "2-3", "2-3"),
        (2, "4-5", "2-5"),
        (1, "0-1", "0-1,4-5"),
    ] {
        tree.apply(app, cpus);
        for file in [EXCLUSIVE, "cpuset.cpus"] {
            assert_eq!(tree.app(app, file), cpus, "{file}");
        }
        assert_eq!(tree.app(app, PARTITION), ISOLATED);
        assert_eq!(tree.enforcer.standing(AppId(app)), Standing::Isolated);
        for group in ["mapper.slice", ROOT] {
            assert_eq!(tree.trimmed(&format!("{group}/{EXCLUSIVE}")), all);
        }
        assert_eq!(tree.enforcer.exclusive(), set(all));
    }
    assert_eq!(tree.enforcer.standing(AppId(3)), Standing::Member);
    assert_eq!(tree.app(3, PARTITION), MEMBER);
}

#[test]
fn isolated_cpus_stay_part_of_the_limit() {
    let tree = Tree::with_an_isolated_application();
    tree.write("mapper.slice/apps/cpuset.cpus.effective", "4-7\n");
    assert_eq!(tree.enforcer.limit().unwrap(), set("0-7"));
}

#[test]
fn who_has_to_leave_cpus_does_so_before_another_gets_them() {
    let mut tree = Tree::with_an_isolated_application();
    tree.admit(2);
    tree.apply(2, "2-5");
    assert_eq!(tree.app(1, EXCLUSIVE), "0-1");
    assert_eq!(tree.trimmed(CLAIMED), "0-1");
    assert_eq!(tree.app(2, "cpuset.cpus"), "2-5");
    tree.apply(2, "0-5");
    assert_eq!(tree.app(1, PARTITION), MEMBER);
    assert!(tree.enforcer.exclusive().is_empty());
    tree.apply(1, "6-7");
    assert_eq!(tree.enforcer.standing(APP), Standing::Isolated);
}

#[test]
fn who_has_more_cpus_than_planned_does_not_keep_another_from_isolating_them() {
    let mut tree = Tree::new(Init::Other);
    for app in 1..=3 {
        tree.admit(app);
    }
    tree.apply(2, "0-7");
    tree.apply(3, "2-3");
    tree.enforcer.isolate(APP).unwrap();
    tree.apply(1, "2-3");
    assert_eq!(tree.enforcer.standing(APP), Standing::Isolated);
    assert_eq!(tree.app(2, "cpuset.cpus"), "0-1,4-7");
    assert_eq!(tree.set_of(2), set("0-1,4-7"));
    // The kernel refuses an empty set.
    assert_eq!(tree.app(3, "cpuset.cpus"), "2-3");
}

#[test]
fn a_partition_that_the_kernel_dissolves_is_a_member_again_and_says_why() {
    let mut tree = Tree::with_an_isolated_application();
    let message = "isolated invalid (Parent is not a partition root)";
    tree.write(&of_app(1, PARTITION), &format!("{message}\n"));
    tree.enforcer.refresh().unwrap();
    assert_eq!(tree.app(1, PARTITION), MEMBER);
    assert_eq!(tree.app(1, EXCLUSIVE), "");
    assert_eq!(tree.app(1, "cpuset.cpus"), "0-3");
    assert_eq!(tree.trimmed(CLAIMED), "");
    let standing = tree.enforcer.standing(APP);
    assert!(
        matches!(&standing, Standing::NotIsolated(why) if why.contains(message)),
        "{standing}"
    );
    tree.apply(1, "0-2");
    assert_eq!(tree.enforcer.standing(APP), Standing::Isolated);
}

#[test]
fn what_kept_a_partition_from_standing_is_tried_again() {
    let mut tree = Tree::with_an_isolated_application();
    tree.write(&of_app(1, PARTITION), "isolated invalid\n");
    tree.enforcer.refresh().unwrap();
    assert_eq!(tree.app(1, PARTITION), MEMBER);
    for _ in 0..TRY_AGAIN {
        tree.enforcer.refresh().unwrap();
    }
    assert_eq!(tree.enforcer.standing(APP), Standing::Isolated);
    assert_eq!(tree.app(1, EXCLUSIVE), "0-3");
}

#[test]
fn a_set_written_by_others_counts_and_ends_the_partition() {
    let mut tree = Tree::with_an_isolated_application();
    assert_eq!(tree.set_by_others(), None);
    tree.write(&of_app(1, "cpuset.cpus"), "6-7\n");
    let found = tree.set_by_others().map(|found| found.cpus);
    assert_eq!(found, Some(set("6-7")));
    assert_eq!(tree.app(1, PARTITION), MEMBER);
    assert_eq!(tree.app(1, "cpuset.cpus"), "6-7");
    assert_eq!(tree.trimmed(CLAIMED), "");
}

#[test]
fn where_nothing_can_be_claimed_the_application_has_its_cpus_all_the_same() {
    let mut tree = Tree::new(Init::Other);
    tree.admit(1);
    tree.enforcer.isolate(APP).unwrap();
    fs::remove_file(tree.path(CLAIMED)).unwrap();
    fs::create_dir(tree.path(CLAIMED)).unwrap();
    tree.apply(1, "0-3");
    assert_eq!(tree.app(1, "cpuset.cpus"), "0-3");
    let standing = tree.enforcer.standing(APP).to_string();
    assert!(standing.contains(CLAIMED), "{standing}");
}

#[test]
fn the_next_daemon_keeps_a_partition_and_a_stop_dissolves_it() {
    let mut tree = Tree::with_an_isolated_application();
    tree.hand_over(None);
    assert_eq!(tree.enforcer.standing(APP), Standing::Isolated);
    assert_eq!(tree.enforcer.exclusive(), set("0-3"));
    tree.apply(1, "4-5");
    assert_eq!(tree.trimmed(CLAIMED), "4-5");
    tree.release(1, Departure::DaemonStops).unwrap();
    assert_eq!(tree.app(1, PARTITION), MEMBER);
    assert_eq!(tree.trimmed(CLAIMED), "");
    let possible = possible_cpus().unwrap().to_string();
    assert_eq!(tree.app(1, "cpuset.cpus"), possible);
}

#[test]
fn a_partition_whose_application_ended_without_a_daemon_is_dissolved() {
    let tree = Tree::with_an_isolated_application();
    tree.group(&of_app(1, ""), false);
    // Plain files keep the folder from being removed, so that the group is still found.
    let mut next = tree.prepare().unwrap();
    assert_eq!(tree.app(1, PARTITION), MEMBER);
    next.refresh().unwrap();
    assert_eq!(tree.trimmed(CLAIMED), "");
    // Claimed by the outer group alone, as a daemon that may not write there leaves it.
    tree.write(CLAIMED, "0-3\n");
    fs::remove_dir_all(tree.path(&of_app(1, ""))).unwrap();
    tree.prepare().unwrap().refresh().unwrap();
    assert_eq!(tree.trimmed(CLAIMED), "");
}

#[test]
fn a_kernel_without_remote_partitions_is_reported_with_the_version_that_has_them() {
    let tree = Tree::new(Init::Other);
    fs::remove_file(tree.path("mapper.slice/apps/cpuset.cpus.exclusive")).unwrap();
    let error = tree.prepare().unwrap().may_isolate().unwrap_err();
    error.says(&["no isolated CPUs", "6.7"]);
}
