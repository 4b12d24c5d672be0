//! Adopting and putting back, on directories and files that stand in for the kernel's.

#![allow(clippy::unwrap_used)] // a test that cannot go on shall panic

use super::files::POSSIBLE_CPUS;
use super::group::Asked;
use super::systemd::Outstanding;
use super::tests::{fake_group, operators, text};
use super::*;
use crate::enforce::AdoptTarget;
use std::fs;

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
fn what_cannot_be_adopted_is_refused_with_a_hint() {
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
    let message = refusal(adopt(1, "jobs/1", Some(own + 1)));
    assert!(
        message.contains(&format!("belongs to user {own}, not to the caller")),
        "{message}"
    );
    let unit = Adoptee {
        target: AdoptTarget::Unit("a.service".into()),
        ..adopt(1, "", None)
    };
    assert!(refusal(unit).contains("systemd does not run"));
    // Nothing was changed, and nothing is managed.
    assert_eq!(text(mount.path().join("jobs/1/cpuset.cpus")), "4-5\n");
    assert!(enforcer.groups.apps.is_empty());
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
fn a_user_may_adopt_groups_below_a_delegated_group_but_not_the_group_itself() {
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
    enforcer.groups.proc = ProcFs::at(proc).unwrap();
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
    let message = enforcer.adopt(&adopt_pid(100, Some(7))).unwrap_err();
    assert!(
        message.to_string().contains("101 of it belongs to user 8"),
        "{message}"
    );
    enforcer.adopt(&adopt_pid(100, None)).unwrap();
    // As if root had not been the one who asked: what the first look let pass is looked at again.
    let message = enforcer.move_in(&adopt_pid(100, Some(7))).unwrap_err();
    assert!(
        message.to_string().contains("101 of it belongs to user 8"),
        "{message}"
    );
    let moved = mount.path().join("mapper/app-1/cgroup.procs");
    assert_ne!(fs::read_to_string(moved).unwrap_or_default(), "101");
    assert!(enforcer.groups.apps.is_empty());
}

#[test]
fn descendants_in_a_group_that_was_adopted_in_its_place_stay_there() {
    let job = "jobs/1";
    let (_mount, mut enforcer) = mount_with(&[shown(100, 50, 7, SLICE), shown(101, 100, 7, job)]);
    enforcer.groups.init = Init::Other;
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
    let message = enforcer.adopt(&adopt_pid(100, Some(7))).unwrap_err();
    assert!(
        message.to_string().contains("--unit session-3.scope"),
        "{message}"
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
    let message = enforcer
        .release(AppId(1), &CpuSet::first(8), Departure::ForGood)
        .unwrap_err();
    assert!(
        message.to_string().contains("app-1, with all CPUs"),
        "{message}"
    );
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
    let message = enforcer.adopt(&of("0-7")).unwrap_err().to_string();
    assert!(
        message.contains("limited to CPUs 4-5") && message.contains("gives out 0-7"),
        "{message}"
    );
    fs::write(mount.path().join("jobs/1/cpuset.cpus"), "\n").unwrap();
    fs::write(mount.path().join("jobs/cpuset.cpus.effective"), "0-3\n").unwrap();
    let message = enforcer.adopt(&of("0-7")).unwrap_err().to_string();
    assert!(
        message.contains("/jobs around it is limited to CPUs 0-3"),
        "{message}"
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
        let group = enforcer.groups.apps.get_mut(&AppId(1)).unwrap();
        group.expected = vec![CpuSet::clone(&cpus)];
        group.change = Some(Asked { cpus, answer });
    };
    // Not answered yet, then late with an error: what stands there is what was there before.
    let (tell, answer) = systemd::outstanding();
    ask(&mut enforcer, Some(answer));
    assert_eq!(enforcer.set_by_others(AppId(1)), None);
    tell.send(Err("no".to_owned())).unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), None);
    assert!(enforcer.groups.apps[&AppId(1)].change.is_none());
    // Answered, and shown later.
    ask(&mut enforcer, None);
    for _ in 0..2 {
        assert_eq!(enforcer.set_by_others(AppId(1)), None);
    }
    fs::write(&file, "2\n").unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), None);
    assert_eq!(enforcer.groups.apps[&AppId(1)].written.to_string(), "2");
    fs::write(&file, "3\n").unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), operators("3"));
}

#[test]
fn a_set_written_by_the_owner_of_a_group_is_reported_and_stays_after_its_release() {
    let (mount, mut enforcer) = mount_with_a_job(Init::Other);
    enforcer.adopt(&adopt(1, "jobs/1", None)).unwrap();
    enforcer.apply(AppId(1), &"2".parse().unwrap()).unwrap();
    let file = mount.path().join("jobs/1/cpuset.cpus");
    fs::write(&file, "0-6\n").unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), operators("0-6"));
    let own = rustix::process::geteuid().as_raw();
    match std::os::unix::fs::chown(&file, Some(own + 1), None) {
        Ok(()) => {
            let found = enforcer.set_by_others(AppId(1)).unwrap();
            assert_eq!(found.writer, Writer::User(own + 1));
        }
        // Only root gives files away.
        Err(error) => assert_ne!(own, 0, "{error}"),
    }
    enforcer
        .release(AppId(1), &CpuSet::first(8), Departure::ToItsOwner)
        .unwrap();
    assert_eq!(text(file), "0-6\n");
}

#[test]
fn a_group_with_more_groups_below_it_than_can_be_looked_through_is_not_managed() {
    let (mount, mut enforcer) = mount_with_a_job(Init::Other);
    let job = mount.path().join("jobs/1");
    let stat = |groups: u64| {
        let text = format!("nr_descendants {groups}\nnr_dying_descendants 4000\n");
        fs::write(job.join("cgroup.stat"), text).unwrap();
    };
    stat(MOST_GROUPS + 1);
    let message = enforcer.adopt(&adopt(1, "jobs/1", None)).unwrap_err();
    assert!(
        message.to_string().contains("has 257 groups below it"),
        "{message}"
    );
    stat(MOST_GROUPS);
    fake_group(&job.join("inner"), true);
    fs::write(job.join("cgroup.procs"), "7\n").unwrap();
    fs::write(job.join("inner/cgroup.procs"), "8\n").unwrap();
    enforcer.adopt(&adopt(1, "jobs/1", None)).unwrap();
    assert_eq!(enforcer.too_many_groups(AppId(1)), None);
    assert_eq!(enforcer.tasks(AppId(1)).processes, [7, 8]);
    // Its owner makes more.
    stat(1_000_000);
    assert_eq!(enforcer.too_many_groups(AppId(1)), Some(1_000_000));
    assert_eq!(enforcer.tasks(AppId(1)).processes, [7]);
}

#[test]
fn memory_of_an_adopted_group_follows_and_gets_back_the_nodes_it_had() {
    let (mount, mut enforcer) = mount_with_a_job(Init::Other);
    let file = mount.path().join("jobs/1/cpuset.mems");
    for (before, after) in [("1-2\n", "1-2"), ("\n", "0-3")] {
        fs::write(&file, before).unwrap();
        enforcer.adopt(&adopt(1, "jobs/1", None)).unwrap();
        let former = Former {
            app: AppId(1),
            cpus: CpuSet::new(),
            launcher: None,
            set_by_others: None,
            processes: enforcer.remember(AppId(1)),
        };
        let root = mount.path().join("mapper");
        enforcer = CgroupEnforcer::prepare(&root, mount.path(), Init::Other).unwrap();
        enforcer.take_over(&former).unwrap();
        enforcer.bind(AppId(1), &[NodeId(3)]).unwrap();
        assert_eq!(text(file.clone()), "3");
        enforcer
            .release(AppId(1), &CpuSet::first(8), Departure::ForGood)
            .unwrap();
        assert_eq!(text(file.clone()), after);
    }
    // Who did not ask keeps whatever is there.
    fs::write(&file, "2\n").unwrap();
    enforcer.adopt(&adopt(1, "jobs/1", None)).unwrap();
    enforcer
        .release(AppId(1), &CpuSet::first(8), Departure::ForGood)
        .unwrap();
    assert_eq!(text(file), "2\n");
}

#[test]
fn a_limit_around_counts_for_what_stays_in_its_place_alone() {
    let (mount, mut enforcer) = mount_with_a_job(Init::Other);
    fake_group(&mount.path().join("jobs"), true);
    enforcer.adopt(&adopt(1, "jobs/1", None)).unwrap();
    fs::write(mount.path().join("jobs/cpuset.cpus.effective"), "0-1\n").unwrap();
    assert_eq!(enforcer.limit_of(AppId(1)).unwrap(), "0-1".parse().ok());
    enforcer
        .admit(&Newcomer {
            app: AppId(2),
            name: mapper_model::AppName::new("a").unwrap(),
            first_process: 4711,
            launcher: 4710,
        })
        .unwrap();
    assert_eq!(enforcer.limit_of(AppId(2)).unwrap(), None);
}
