//! What the enforcer reads and writes, on plain files.

#![allow(clippy::unwrap_used)] // a test that cannot go on shall panic

use super::changes::Asked;
use super::files::POSSIBLE_CPUS;
use super::systemd::Outstanding;
use super::*;
use crate::enforce::AdoptTarget;
use mapper_model::{AppName, ThreadId};
use std::fs;

/// A directory with the files that the kernel would show in a group. Plain files keep what is
/// written to them, which is what these tests look at; what the kernel makes of it is tested in
/// the guest.
fn fake_group(path: &Path, populated: bool) {
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

fn newcomer(app: u64) -> Newcomer {
    Newcomer {
        app: AppId(app),
        name: AppName::new("test").unwrap(),
        first_process: 4711,
        launcher: 4710,
    }
}

fn text(path: PathBuf) -> String {
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
}

#[test]
fn a_set_written_by_somebody_else_is_noticed() {
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
    assert_eq!(enforcer.set_by_others(AppId(1)), "1".parse().ok());
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
    assert_eq!(next.set_by_others(AppId(1)), "5".parse().ok());
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
    fake_group(&root.path().join("somebody-elses"), true);
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
    assert_eq!(text(root.path().join("somebody-elses/cpuset.cpus")), "");
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
        enforcer.bind_memory(AppId(1), &nodes).unwrap();
        assert_eq!(mems(), written);
    }
    enforcer.bind_memory(AppId(1), &[NodeId(1)]).unwrap();
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
fn a_root_without_the_controller_says_what_is_there_and_what_would_mend_it() {
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
fn the_mount_of_version_2_is_told_from_those_of_version_1() {
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

fn adopt(app: u64, path: &str, owner: Option<u32>) -> Adoptee {
    Adoptee {
        app: AppId(app),
        target: AdoptTarget::Cgroup(path.into()),
        owner,
        usable: CpuSet::new(),
    }
}

/// A mount with the daemon's root and a foreign group `jobs/1` on CPUs 4-5.
fn mount_with_a_job(init: Init) -> (tempfile::TempDir, CgroupEnforcer) {
    let mount = tempfile::tempdir().unwrap();
    fake_group(mount.path(), true);
    fake_group(&mount.path().join("mapper"), true);
    fake_group(&mount.path().join("jobs/1"), true);
    fs::write(mount.path().join("jobs/1/cpuset.cpus"), "4-5\n").unwrap();
    let root = mount.path().join("mapper");
    let enforcer = CgroupEnforcer::prepare(&root, mount.path(), init).unwrap();
    (mount, enforcer)
}

#[test]
fn an_adopted_group_is_confined_in_place_and_gets_back_what_it_had() {
    let (mount, mut enforcer) = mount_with_a_job(Init::Other);
    let job = mount.path().join("jobs/1");
    let with_mount = job.display().to_string();
    for path in ["jobs/1", "/jobs/1", &with_mount] {
        for departure in [Departure::ForGood, Departure::DaemonStops] {
            enforcer.adopt(&adopt(1, path, None)).unwrap();
            assert_eq!(enforcer.set_by_others(AppId(1)), None);
            enforcer.apply(AppId(1), &"2".parse().unwrap()).unwrap();
            assert_eq!(text(job.join("cpuset.cpus")), "2");
            // A daemon that took over in between knows it too.
            let former = Former {
                app: AppId(1),
                cpus: "2".parse().unwrap(),
                launcher: None,
                set_by_others: None,
                processes: enforcer.remember(AppId(1)),
            };
            let root = mount.path().join("mapper");
            enforcer = CgroupEnforcer::prepare(&root, mount.path(), Init::Other).unwrap();
            enforcer.take_over(&former).unwrap();
            enforcer
                .release(AppId(1), &CpuSet::first(8), departure)
                .unwrap();
            assert_eq!(text(job.join("cpuset.cpus")), "4-5");
        }
    }
}

#[test]
fn a_group_that_had_no_set_gets_all_cpus_back() {
    let (mount, mut enforcer) = mount_with_a_job(Init::Other);
    let file = mount.path().join("jobs/1/cpuset.cpus");
    fs::write(&file, "\n").unwrap();
    enforcer.adopt(&adopt(1, "jobs/1", None)).unwrap();
    enforcer.apply(AppId(1), &"2".parse().unwrap()).unwrap();
    let all = CpuSet::first(8);
    enforcer
        .release(AppId(1), &all, Departure::ForGood)
        .unwrap();
    let possible: CpuSet = text(PathBuf::from(POSSIBLE_CPUS)).parse().unwrap();
    assert_eq!(text(file).parse(), Ok(possible));
}

#[test]
fn what_cannot_be_adopted_is_told_with_what_would_mend_it() {
    let (mount, mut enforcer) = mount_with_a_job(Init::Other);
    fake_group(&mount.path().join("jobs/empty"), false);
    fake_group(&mount.path().join("mapper/app-7"), true);
    fake_group(&mount.path().join("bare"), true);
    fs::remove_file(mount.path().join("bare/cpuset.cpus")).unwrap();
    let mut refusal = |adoptee: Adoptee| enforcer.adopt(&adoptee).unwrap_err().to_string();
    for (path, says) in [
        ("", "the root of all groups"),
        ("/", "the root of all groups"),
        ("mapper", "holds the daemon or its applications"),
        ("mapper/app-7", "holds the daemon or its applications"),
        ("jobs/empty", "no process is in it"),
        ("jobs/2", "there is no such group; name one below"),
        ("jobs/../mapper", "without dots"),
        ("bare", "write +cpuset to"),
    ] {
        let text = refusal(adopt(1, path, None));
        assert!(text.contains(says), "{path}: {text}");
    }
    let own = rustix::process::geteuid().as_raw();
    let told = refusal(adopt(1, "jobs/1", Some(own + 1)));
    assert!(
        told.contains(&format!("belongs to user {own}, not to the caller")),
        "{told}"
    );
    let unit = Adoptee {
        target: AdoptTarget::Unit("a.service".into()),
        ..adopt(1, "", None)
    };
    assert!(refusal(unit).contains("systemd does not run"));
    // Nothing was changed, and nothing is managed.
    assert_eq!(text(mount.path().join("jobs/1/cpuset.cpus")), "4-5\n");
    assert!(enforcer.groups.is_empty());
    // One's own may be adopted, but once only.
    enforcer.adopt(&adopt(1, "jobs/1", Some(own))).unwrap();
    let twice = enforcer.adopt(&adopt(2, "jobs", None)).unwrap_err();
    assert!(
        twice
            .to_string()
            .contains("application 1 lie within one another")
    );
}

#[test]
fn a_group_of_systemds_is_left_to_it() {
    let (mount, mut enforcer) = mount_with_a_job(Init::Systemd);
    fake_group(&mount.path().join("system.slice/db.service/worker"), true);
    let adoptee = adopt(1, "system.slice/db.service/worker", None);
    let error = enforcer.adopt(&adoptee).unwrap_err().to_string();
    assert!(error.contains("--unit db.service"), "{error}");
}

/// Who runs this may set such an attribute: on a tree without it nothing below would be a test.
fn delegate(group: &Path) {
    let set = |name: &str| rustix::fs::setxattr(group, name, b"1", rustix::fs::XattrFlags::empty());
    set("user.delegate")
        .or_else(|_| set("trusted.delegate"))
        .unwrap();
}

#[test]
fn a_group_that_was_delegated_is_not_its_users_to_confine_and_one_that_he_made_below_is() {
    let (mount, mut enforcer) = mount_with_a_job(Init::Systemd);
    let own = rustix::process::geteuid().as_raw();
    let unit = mount.path().join("user.slice/user@1000.service");
    for group in [&unit, &unit.join("mine"), &unit.join("mine/deeper")] {
        fake_group(group, true);
    }
    delegate(&unit);
    let path = "user.slice/user@1000.service";
    for owner in [None, Some(own)] {
        let error = enforcer.adopt(&adopt(1, path, owner)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("--unit user@1000.service"), "{text}");
    }
    let below = format!("{path}/mine/deeper");
    let error = enforcer.adopt(&adopt(1, &below, Some(own + 1)));
    let text = error.unwrap_err().to_string();
    assert!(text.contains("its cpuset.cpus belongs to user"), "{text}");
    enforcer.adopt(&adopt(1, &below, Some(own))).unwrap();
}

#[test]
fn who_owns_a_group_is_who_owns_the_file_with_its_cpus_and_not_its_directory() {
    let (mount, mut enforcer) = mount_with_a_job(Init::Other);
    let own = rustix::process::geteuid().as_raw();
    let job = mount.path().join("jobs/1");
    let dir = GroupDir::open(&job).unwrap();
    assert_eq!(dir.owner_of("cpuset.cpus").unwrap(), own);
    // As systemd does for a delegatee; whoever cannot give files away cannot make the difference either.
    let given = std::os::unix::fs::chown(&job, Some(own + 1), None);
    match given {
        Ok(()) => {
            let error = enforcer.adopt(&adopt(1, "jobs/1", Some(own + 1)));
            assert!(error.is_err(), "{error:?}");
            enforcer.adopt(&adopt(1, "jobs/1", Some(own))).unwrap();
        }
        Err(error) => assert_ne!(own, 0, "{error}"),
    }
}

#[test]
fn a_unit_is_nobodys_but_roots() {
    let (_mount, mut enforcer) = mount_with_a_job(Init::Systemd);
    let unit = Adoptee {
        target: AdoptTarget::Unit("a.service".into()),
        ..adopt(1, "", Some(1000))
    };
    let text = enforcer.adopt(&unit).unwrap_err().to_string();
    assert!(text.contains("ask root"), "{text}");
}

/// A process as `/proc` shows it.
struct Shown {
    pid: u32,
    parent: u32,
    uid: u32,
    group: &'static str,
}

/// A mount on a machine with systemd, and an enforcer to which these processes are all there are.
fn mount_with(processes: &[Shown]) -> (tempfile::TempDir, CgroupEnforcer) {
    let (mount, mut enforcer) = mount_with_a_job(Init::Systemd);
    let proc = mount.path().join("proc");
    for Shown {
        pid,
        parent,
        uid,
        group,
    } in processes
    {
        let shown = proc.join(pid.to_string());
        fs::create_dir_all(&shown).unwrap();
        let stat = format!(
            "{pid} (sleep) S {parent} 5 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {pid} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17\n"
        );
        // Those after the start: more than are read.
        fs::write(
            shown.join("stat"),
            stat.replace(" 17\n", " 17 17 17 17 17\n"),
        )
        .unwrap();
        fs::write(shown.join("status"), format!("Uid:\t{uid}\t{uid}\t{uid}\n")).unwrap();
        fs::write(shown.join("cgroup"), format!("0::/{group}\n")).unwrap();
        let home = mount.path().join(group);
        if !home.exists() {
            fake_group(&home, true);
        }
        let procs = text(home.join("cgroup.procs"));
        fs::write(home.join("cgroup.procs"), format!("{procs}{pid}\n")).unwrap();
    }
    enforcer.proc = ProcFs::at(proc).unwrap();
    (mount, enforcer)
}

fn adopt_pid(pid: u32, owner: Option<u32>) -> Adoptee {
    Adoptee {
        app: AppId(1),
        target: AdoptTarget::Pid(pid),
        owner,
        usable: CpuSet::new(),
    }
}

const SLICE: &str = "system.slice/a.service";

fn shown(pid: u32, parent: u32, uid: u32, group: &'static str) -> Shown {
    Shown {
        pid,
        parent,
        uid,
        group,
    }
}

#[test]
fn where_each_process_comes_from_is_known_before_the_first_is_moved() {
    let other = "system.slice/b.service";
    let (mount, mut enforcer) = mount_with(&[shown(100, 50, 7, SLICE), shown(101, 100, 7, other)]);
    enforcer.adopt(&adopt_pid(100, Some(7))).unwrap();
    let known = enforcer.remember(AppId(1)).to_string();
    assert!(known.contains(SLICE) && known.contains(other), "{known}");
    assert!(!mount.path().join("mapper/app-1/cgroup.procs").exists());
    assert_eq!(text(mount.path().join(SLICE).join("cgroup.procs")), "100\n");
}

#[test]
fn a_tree_with_a_process_of_another_user_is_refused_also_if_it_came_after_the_first_look() {
    let (mount, mut enforcer) = mount_with(&[shown(100, 50, 7, SLICE), shown(101, 100, 8, SLICE)]);
    let told = enforcer.adopt(&adopt_pid(100, Some(7))).unwrap_err();
    assert!(
        told.to_string().contains("101 of it belongs to user 8"),
        "{told}"
    );
    enforcer.adopt(&adopt_pid(100, None)).unwrap();
    // As if root had not been the one who asked: what the first look let pass is looked at again.
    let told = enforcer.move_in(&adopt_pid(100, Some(7))).unwrap_err();
    assert!(
        told.to_string().contains("101 of it belongs to user 8"),
        "{told}"
    );
    let moved = mount.path().join("mapper/app-1/cgroup.procs");
    assert_ne!(fs::read_to_string(moved).unwrap_or_default(), "101");
    assert!(enforcer.groups.is_empty());
}

#[test]
fn descendants_in_a_group_that_was_adopted_in_its_place_stay_there() {
    let job = "jobs/1";
    let (_mount, mut enforcer) = mount_with(&[shown(100, 50, 7, SLICE), shown(101, 100, 7, job)]);
    enforcer.init = Init::Other;
    enforcer
        .adopt(&Adoptee {
            app: AppId(2),
            ..adopt(2, job, None)
        })
        .unwrap();
    enforcer.adopt(&adopt_pid(100, None)).unwrap();
    let known = enforcer.remember(AppId(1)).to_string();
    assert!(
        known.contains("\"100\"") && !known.contains("\"101\""),
        "{known}"
    );
}

#[test]
fn the_last_process_of_a_scope_is_not_taken_out_of_it() {
    let scope = "user.slice/session-3.scope";
    let all = [shown(100, 50, 7, scope), shown(101, 100, 7, scope)];
    let (mount, mut enforcer) = mount_with(&all);
    let told = enforcer.adopt(&adopt_pid(100, Some(7))).unwrap_err();
    assert!(
        told.to_string().contains("--unit session-3.scope"),
        "{told}"
    );
    assert!(!mount.path().join("mapper/app-1").exists());
    // Somebody stays behind.
    enforcer.adopt(&adopt_pid(101, Some(7))).unwrap();
}

#[test]
fn one_home_that_is_gone_keeps_nobody_else_from_going_back() {
    let gone = "system.slice/gone.service";
    let (mount, mut enforcer) = mount_with(&[
        shown(100, 50, 7, gone),
        shown(101, 100, 7, SLICE),
        shown(102, 100, 7, gone),
    ]);
    enforcer.adopt(&adopt_pid(100, None)).unwrap();
    let app = mount.path().join("mapper/app-1");
    fake_group(&app, true);
    fs::write(app.join("cgroup.procs"), "100\n101\n102\n").unwrap();
    fs::write(mount.path().join(SLICE).join("cgroup.procs"), "").unwrap();
    fs::remove_dir_all(mount.path().join(gone)).unwrap();
    // Plain files do not lose who was moved, so that this never finds the group empty.
    enforcer
        .release(AppId(1), &CpuSet::first(8), Departure::ForGood)
        .unwrap_err();
    assert_eq!(text(mount.path().join(SLICE).join("cgroup.procs")), "101");
    assert_eq!(enforcer.left_over(), [AppId(1)]);
}

#[test]
fn what_others_limit_to_fewer_cpus_than_may_be_planned_is_refused_with_both_sets() {
    let (mount, mut enforcer) = mount_with_a_job(Init::Other);
    fake_group(&mount.path().join("jobs"), true);
    let of = |usable: &str| Adoptee {
        usable: usable.parse().unwrap(),
        ..adopt(1, "jobs/1", None)
    };
    let told = enforcer.adopt(&of("0-7")).unwrap_err().to_string();
    assert!(
        told.contains("limited to CPUs 4-5") && told.contains("gives out 0-7"),
        "{told}"
    );
    fs::write(mount.path().join("jobs/1/cpuset.cpus"), "\n").unwrap();
    fs::write(mount.path().join("jobs/cpuset.cpus.effective"), "0-3\n").unwrap();
    let told = enforcer.adopt(&of("0-7")).unwrap_err().to_string();
    assert!(
        told.contains("/jobs around it is limited to CPUs 0-3"),
        "{told}"
    );
    enforcer.adopt(&of("0-3")).unwrap();
}

#[test]
fn a_group_without_a_cpuset_of_its_own_has_the_cpus_of_those_around_it() {
    let (mount, mut enforcer) = mount_with_a_job(Init::Other);
    enforcer.adopt(&adopt(1, "jobs/1", None)).unwrap();
    fs::remove_file(mount.path().join("jobs/1/cpuset.cpus.effective")).unwrap();
    assert_eq!(enforcer.effective(AppId(1)).unwrap().to_string(), "0-7");
}

#[test]
fn a_change_by_systemd_counts_when_the_file_shows_it_and_one_that_failed_is_nobodys() {
    let (mount, mut enforcer) = mount_with_a_job(Init::Other);
    enforcer.adopt(&adopt(1, "jobs/1", None)).unwrap();
    let file = mount.path().join("jobs/1/cpuset.cpus");
    let ask = |enforcer: &mut CgroupEnforcer, answer: Option<Outstanding>| {
        let cpus = "2".parse().unwrap();
        enforcer.groups.get_mut(&AppId(1)).unwrap().change = Some(Asked { cpus, answer });
    };
    // Not answered yet, then late with an error: what stands there is what was there before.
    let (tell, answer) = systemd::outstanding();
    ask(&mut enforcer, Some(answer));
    assert_eq!(enforcer.set_by_others(AppId(1)), None);
    tell.send(Err("no".to_owned())).unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), None);
    assert!(enforcer.groups[&AppId(1)].change.is_none());
    // Answered, and shown later.
    ask(&mut enforcer, None);
    for _ in 0..2 {
        assert_eq!(enforcer.set_by_others(AppId(1)), None);
    }
    fs::write(&file, "2\n").unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), None);
    assert_eq!(enforcer.groups[&AppId(1)].written.to_string(), "2");
    fs::write(&file, "3\n").unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), "3".parse().ok());
}
