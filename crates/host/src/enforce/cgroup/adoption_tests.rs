//! Adopting and putting back, on plain directories and files.

use super::files::POSSIBLE_CPUS;
use super::group::Asked;
use super::systemd::Outstanding;
use super::tests::{APP, ROOT, Tree, hold_up_writes_to, of_app, operators, until_finished};
use super::*;
use crate::enforce::AdoptTarget;
use std::fs;
use std::os::unix::fs::chown;

const JOB: &str = "jobs/1";
const JOB_CPUS: &str = "jobs/1/cpuset.cpus";
const SERVICE: &str = "system.slice/a.service";

fn adoptee(app: u64, target: AdoptTarget, owner: Option<u32>) -> Adoptee {
    Adoptee {
        app: AppId(app),
        target,
        owner,
        account: 0,
        usable: CpuSet::new(),
    }
}

fn group(path: &str, owner: Option<u32>) -> Adoptee {
    adoptee(1, AdoptTarget::Cgroup(path.into()), owner)
}

fn unit(owner: Option<u32>) -> Adoptee {
    adoptee(1, AdoptTarget::Unit("a.service".into()), owner)
}

fn pid(pid: u32, owner: Option<u32>) -> Adoptee {
    adoptee(1, AdoptTarget::Pid(pid), owner)
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

impl Tree {
    fn with_a_job(init: Init) -> Self {
        let tree = Self::new(init);
        tree.group(JOB, true);
        tree.write(JOB_CPUS, "4-5\n");
        tree
    }

    fn with_an_adopted_job() -> Self {
        let mut tree = Self::with_a_job(Init::Other);
        tree.adopt(&group(JOB, None)).unwrap();
        tree
    }

    fn with_processes(processes: &[Shown]) -> Self {
        let mut tree = Self::with_a_job(Init::Systemd);
        for Shown(pid, parent, uid, group) in processes {
            fs::create_dir_all(tree.path(&format!("proc/{pid}"))).unwrap();
            let stat = stat(*pid, *parent, *pid);
            let status = format!("Uid:\t{uid}\t{uid}\t{uid}\n");
            for (file, text) in [
                ("stat", stat),
                ("status", status),
                ("cgroup", format!("0::/{group}\n")),
            ] {
                tree.write(&format!("proc/{pid}/{file}"), &text);
            }
            tree.group(group, true);
            let procs = format!("{group}/cgroup.procs");
            tree.write(&procs, &format!("{}{pid}\n", tree.read(&procs)));
        }
        tree.enforcer.groups.proc = ProcFs::at(tree.path("proc")).unwrap().into();
        tree
    }

    fn adopt(&mut self, adoptee: &Adoptee) -> Result<(), HostError> {
        self.enforcer.adopt(adoptee)
    }
}

struct Shown(u32, u32, u32, &'static str);

/// Those after the start: more than are read.
fn stat(pid: u32, parent: u32, started: u32) -> String {
    format!(
        "{pid} (sleep) S {parent} 5 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {started} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 \
         17 17 17 17\n"
    )
}

#[test]
fn an_adopted_group_is_confined_in_place_and_gets_back_what_it_had() {
    let mut tree = Tree::with_a_job(Init::Other);
    let with_mount = tree.path(JOB).display().to_string();
    for path in ["jobs/1", "/jobs/1", &with_mount] {
        for departure in [Departure::ForGood, Departure::DaemonStops] {
            tree.adopt(&group(path, None)).unwrap();
            assert_eq!(tree.set_by_others(), None);
            tree.apply(1, "2");
            assert_eq!(tree.read(JOB_CPUS), "2");
            tree.hand_over(None);
            tree.release(1, departure).unwrap();
            assert_eq!(tree.read(JOB_CPUS), "4-5");
        }
    }
}

#[test]
fn what_is_adopted_in_place_keeps_its_weight_among_its_neighbours() {
    let mut tree = Tree::with_a_job(Init::Other);
    tree.adopt(&group(JOB, None)).unwrap();
    let weight = Weight::new(3.0).unwrap();
    tree.enforcer.weigh(APP, weight).unwrap();
    assert_eq!(tree.read(&format!("{JOB}/cpu.weight")), "100\n");
}

#[test]
fn a_group_that_had_no_set_gets_all_cpus_back() {
    let mut tree = Tree::with_a_job(Init::Other);
    tree.write(JOB_CPUS, "\n");
    tree.adopt(&group(JOB, None)).unwrap();
    tree.apply(1, "2");
    tree.release(1, Departure::ForGood).unwrap();
    let possible: CpuSet = tree.read(POSSIBLE_CPUS).parse().unwrap();
    assert_eq!(tree.read(JOB_CPUS).parse(), Ok(possible));
}

#[test]
fn what_cannot_be_adopted_is_refused_with_a_hint() {
    let mut tree = Tree::with_a_job(Init::Other);
    tree.group("jobs/empty", false);
    tree.group(&of_app(7, ""), true);
    tree.group("bare", true);
    fs::remove_file(tree.path("bare/cpuset.cpus")).unwrap();
    let own = own_user();
    let anothers = format!("belongs to user {own}, not to the caller");
    for (adoptee, says) in [
        (group("", None), "the root of all groups"),
        (group("/", None), "the root of all groups"),
        (group(ROOT, None), "holds the daemon or its applications"),
        (
            group(&of_app(7, ""), None),
            "holds the daemon or its applications",
        ),
        (group("jobs/empty", None), "no process is in it"),
        (
            group("jobs/2", None),
            "there is no such group; name one below",
        ),
        (group("jobs/../mapper.slice", None), "without dots"),
        (group("bare", None), "write +cpuset to"),
        (group(JOB, Some(own + 1)), &anothers),
        (unit(None), "systemd does not run"),
    ] {
        tree.adopt(&adoptee).unwrap_err().says(&[says]);
    }
    assert_eq!(tree.read(JOB_CPUS), "4-5\n");
    assert!(tree.enforcer.groups.apps.is_empty());
    tree.adopt(&group(JOB, Some(own))).unwrap();
    let around = adoptee(2, AdoptTarget::Cgroup("jobs".into()), None);
    let twice = tree.adopt(&around).unwrap_err();
    twice.says(&["application 1 lie within one another"]);
}

#[test]
fn a_group_of_systemds_is_left_to_it_and_a_unit_is_roots_alone() {
    let mut tree = Tree::with_a_job(Init::Systemd);
    let worker = "system.slice/db.service/worker";
    tree.group(worker, true);
    let error = tree.adopt(&group(worker, None)).unwrap_err();
    error.says(&["--unit db.service"]);
    let error = tree.adopt(&unit(Some(1000))).unwrap_err();
    error.says(&["ask root"]);
}

/// Its user may set such an attribute; without it this would test nothing.
fn delegate(group: &Path) {
    let set = |name: &str| rustix::fs::setxattr(group, name, b"1", rustix::fs::XattrFlags::empty());
    set("user.delegate")
        .or_else(|_| set("trusted.delegate"))
        .unwrap();
}

#[test]
fn a_user_may_adopt_groups_below_a_delegated_group_but_not_the_group_itself() {
    let mut tree = Tree::with_a_job(Init::Systemd);
    let own = own_user();
    let manager = "user.slice/user@1000.service";
    let below = format!("{manager}/mine/deeper");
    for path in [manager, &format!("{manager}/mine"), &below] {
        tree.group(path, true);
    }
    delegate(&tree.path(manager));
    for owner in [None, Some(own)] {
        let error = tree.adopt(&group(manager, owner)).unwrap_err();
        error.says(&["--unit user@1000.service"]);
    }
    let error = tree.adopt(&group(&below, Some(own + 1))).unwrap_err();
    error.says(&["its cpuset.cpus belongs to user"]);
    tree.adopt(&group(&below, Some(own))).unwrap();
}

#[test]
fn who_owns_a_group_is_who_owns_the_file_with_its_cpus_and_not_its_directory() {
    let mut tree = Tree::with_a_job(Init::Other);
    let own = own_user();
    let dir = GroupDir::open(&tree.path(JOB)).unwrap();
    assert_eq!(dir.owner_of("cpuset.cpus").unwrap(), own);
    // As systemd does for a delegatee. Only root can give files away.
    match chown(tree.path(JOB), Some(own + 1), None) {
        Ok(()) => {
            let error = tree.adopt(&group(JOB, Some(own + 1)));
            assert!(error.is_err(), "{error:?}");
            tree.adopt(&group(JOB, Some(own))).unwrap();
        }
        Err(error) => assert_ne!(own, 0, "{error}"),
    }
}

#[test]
fn where_each_process_comes_from_is_known_before_the_first_is_moved() {
    let other = "system.slice/b.service";
    let all = [Shown(100, 50, 7, SERVICE), Shown(101, 100, 7, other)];
    let mut tree = Tree::with_processes(&all);
    tree.adopt(&pid(100, Some(7))).unwrap();
    let known = tree.enforcer.remember(APP).to_string();
    assert!(known.contains(SERVICE) && known.contains(other), "{known}");
    assert!(!tree.path(&of_app(1, "cgroup.procs")).exists());
    assert_eq!(tree.read("system.slice/a.service/cgroup.procs"), "100\n");
}

#[test]
fn a_tree_with_a_process_of_another_user_is_refused_also_if_it_came_after_the_first_look() {
    let all = [Shown(100, 50, 7, SERVICE), Shown(101, 100, 8, SERVICE)];
    let mut tree = Tree::with_processes(&all);
    let error = tree.adopt(&pid(100, Some(7))).unwrap_err();
    error.says(&["101 of it belongs to user 8"]);
    tree.adopt(&pid(100, None)).unwrap();
    // As if root had not requested it: what the first look let pass is checked again.
    let error = tree.enforcer.move_in(&pid(100, Some(7))).unwrap_err();
    error.says(&["101 of it belongs to user 8"]);
    let moved = tree.path(&of_app(1, "cgroup.procs"));
    assert_ne!(fs::read_to_string(moved).unwrap_or_default(), "101");
    assert!(tree.enforcer.groups.apps.is_empty());
}

#[test]
fn descendants_in_a_group_that_was_adopted_in_its_place_stay_there() {
    let all = [Shown(100, 50, 7, SERVICE), Shown(101, 100, 7, JOB)];
    let mut tree = Tree::with_processes(&all);
    tree.enforcer.groups.init = Init::Other;
    let job = adoptee(2, AdoptTarget::Cgroup(JOB.into()), None);
    tree.adopt(&job).unwrap();
    tree.adopt(&pid(100, None)).unwrap();
    let known = tree.enforcer.remember(APP).to_string();
    assert!(
        known.contains("\"100\"") && !known.contains("\"101\""),
        "{known}"
    );
}

#[test]
fn the_last_process_of_a_scope_is_not_taken_out_of_it() {
    let scope = "user.slice/session-3.scope";
    let all = [Shown(100, 50, 7, scope), Shown(101, 100, 7, scope)];
    let mut tree = Tree::with_processes(&all);
    let error = tree.adopt(&pid(100, Some(7))).unwrap_err();
    error.says(&["--unit session-3.scope"]);
    assert!(!tree.path(&of_app(1, "")).exists());
    tree.adopt(&pid(101, Some(7))).unwrap();
}

#[test]
fn one_home_that_is_gone_keeps_no_other_process_from_going_back() {
    let gone = "system.slice/gone.service";
    let mut tree = Tree::with_processes(&[
        Shown(100, 50, 7, gone),
        Shown(101, 100, 7, SERVICE),
        Shown(102, 100, 7, gone),
    ]);
    tree.adopt(&pid(100, None)).unwrap();
    tree.group(&of_app(1, ""), true);
    tree.write(&of_app(1, "cgroup.procs"), "100\n101\n102\n");
    tree.write("system.slice/a.service/cgroup.procs", "");
    fs::remove_dir_all(tree.path(gone)).unwrap();
    // Plain files do not lose a process that was moved, so that this never finds the group empty.
    let error = tree.release(1, Departure::ForGood).unwrap_err();
    error.says(&["app-1, with all CPUs"]);
    assert_eq!(tree.read("system.slice/a.service/cgroup.procs"), "101");
    assert_eq!(tree.enforcer.left_over(), [APP]);
}

#[test]
fn many_processes_whose_home_is_gone_are_tried_once() {
    let gone = "system.slice/gone.service";
    let mut tree = Tree::with_processes(&[Shown(100, 50, 7, gone)]);
    tree.adopt(&pid(100, None)).unwrap();
    tree.group(&of_app(1, ""), true);
    let numbers: Vec<String> = (1000..2000).map(|pid| format!("{pid}\n")).collect();
    tree.write(&of_app(1, "cgroup.procs"), &numbers.concat());
    fs::remove_dir_all(tree.path(gone)).unwrap();
    tree.release(1, Departure::ForGood).unwrap_err();
    assert_eq!(tree.enforcer.unfinished(), Unfinished::Nothing);
    assert_eq!(tree.enforcer.left_over(), [APP]);
}

#[test]
fn an_adoption_whose_move_the_kernel_holds_up_is_finished_in_a_later_turn() {
    let mut tree = Tree::with_processes(&[Shown(100, 50, 7, SERVICE)]);
    let adoptee = pid(100, None);
    tree.adopt(&adoptee).unwrap();
    let changes = tree.enforcer.groups.root.changes().clone();
    changes.impatient();
    let procs = tree.path(&of_app(1, "cgroup.procs"));
    hold_up_writes_to(&procs);
    for _ in 0..3 {
        assert_eq!(tree.enforcer.move_in(&adoptee).unwrap(), Moved::Part);
        assert!(changes.moves_wait());
    }
    let group = &tree.enforcer.groups.apps[&APP];
    assert_eq!(group.arriving.awaited.map(|process| process.pid), Some(100));
    assert_eq!(fs::read_to_string(&procs).unwrap(), "100");
    until_finished(&tree);
    tree.write(
        "proc/100/cgroup",
        &format!("0::/{}\n", of_app(1, "").trim_end_matches('/')),
    );
    assert_eq!(tree.enforcer.move_in(&adoptee).unwrap(), Moved::All);
    assert_eq!(tree.enforcer.groups.apps[&APP].arriving.awaited, None);
}

#[test]
fn a_daemon_that_stops_puts_processes_back_once_a_move_is_finished_that_the_kernel_holds_up() {
    let mut tree = Tree::with_processes(&[Shown(100, 50, 7, SERVICE)]);
    tree.adopt(&pid(100, None)).unwrap();
    tree.group(&of_app(1, ""), true);
    tree.write(&of_app(1, "cgroup.procs"), "100\n");
    let home = format!("{SERVICE}/cgroup.procs");
    tree.write(&home, "");
    let changes = tree.enforcer.groups.root.changes().clone();
    let held = changes.hold_up("cgroup.procs");
    tree.release(1, Departure::ForGood).unwrap();
    tree.enforcer.continue_moving();
    assert_eq!(tree.enforcer.unfinished(), Unfinished::Moving);
    assert_eq!(tree.read(&home), "");
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
    });
    tree.enforcer.finish();
    assert_eq!(tree.read(&home), "100");
    assert_eq!(tree.enforcer.unfinished(), Unfinished::Nothing);
    later.join().unwrap();
}

#[test]
fn what_has_the_number_of_a_moved_process_goes_where_its_parent_is_if_it_was_moved() {
    let other = "other.slice/b.service";
    let own = format!("0::/{ROOT}/app-1\n");
    let adopted = || {
        let mut tree = Tree::with_processes(&[
            Shown(100, 50, 7, SERVICE),
            Shown(101, 100, 7, SERVICE),
            Shown(200, 1, 0, other),
        ]);
        tree.adopt(&pid(100, None)).unwrap();
        tree.group(&of_app(1, ""), true);
        tree.write("proc/100/cgroup", &own);
        tree
    };
    // While its move was held up.
    for (group, moved) in [("0::/init.scope\n", ""), (&own, "101")] {
        let mut tree = adopted();
        let group_of_app = tree.enforcer.groups.apps.get_mut(&APP).unwrap();
        let before = tree.enforcer.groups.proc.stat(101).unwrap();
        group_of_app.arriving.awaited = Some(before);
        tree.write("proc/101/stat", &stat(101, 200, 999));
        tree.write("proc/101/status", "Uid:\t0\t0\t0\n");
        tree.write("proc/101/cgroup", group);
        tree.write(&format!("{other}/cgroup.procs"), "");
        assert_eq!(tree.enforcer.move_in(&pid(100, None)).unwrap(), Moved::All);
        assert_eq!(tree.read(&format!("{other}/cgroup.procs")), moved);
    }
    // At the release; a child of the application, and an orphan that another user's process took, go where that goes.
    for (parent, user, expected) in [(200, 0, other), (100, 0, SERVICE), (200, 7, SERVICE)] {
        let mut tree = adopted();
        tree.write(&of_app(1, "cgroup.procs"), "101\n");
        tree.write("proc/101/stat", &stat(101, parent, 999));
        tree.write(
            "proc/101/status",
            &format!("Uid:\t{user}\t{user}\t{user}\n"),
        );
        for group in [other, SERVICE] {
            tree.write(&format!("{group}/cgroup.procs"), "");
        }
        tree.release(1, Departure::ForGood).unwrap_err();
        let written = |group| tree.read(&format!("{group}/cgroup.procs"));
        let written = [other, SERVICE].map(|group| (group, written(group)));
        for (group, procs) in written {
            assert_eq!(procs == "101", group == expected, "{group} has {procs:?}");
        }
    }
}

#[test]
fn what_was_launched_between_two_turns_of_an_adoption_keeps_its_group() {
    let all = [Shown(100, 50, 7, SERVICE), Shown(101, 100, 7, SERVICE)];
    let mut tree = Tree::with_processes(&all);
    let adoptee = pid(100, None);
    tree.adopt(&adoptee).unwrap();
    let child = tree.enforcer.groups.proc.stat(101).unwrap();
    let group = tree.enforcer.groups.apps.get_mut(&APP).unwrap();
    group.arriving.left = vec![child];
    tree.write("proc/100/cgroup", &format!("0::/{ROOT}/app-1\n"));
    tree.write("proc/101/cgroup", &format!("0::/{ROOT}/app-2\n"));
    assert_eq!(tree.enforcer.move_in(&adoptee).unwrap(), Moved::All);
    assert!(!tree.path(&of_app(1, "cgroup.procs")).exists());
}

#[test]
fn what_others_limit_to_fewer_cpus_than_may_be_planned_is_refused_with_both_sets() {
    let mut tree = Tree::with_a_job(Init::Other);
    tree.group("jobs", true);
    let of = |usable: &str| Adoptee {
        usable: usable.parse().unwrap(),
        ..group(JOB, None)
    };
    let error = tree.adopt(&of("0-7")).unwrap_err();
    error.says(&["limited to CPUs 4-5", "gives out 0-7"]);
    tree.write(JOB_CPUS, "\n");
    tree.write("jobs/cpuset.cpus.effective", "0-3\n");
    let error = tree.adopt(&of("0-7")).unwrap_err();
    error.says(&["/jobs around it is limited to CPUs 0-3"]);
    tree.adopt(&of("0-3")).unwrap();
}

#[test]
fn a_group_without_a_cpuset_of_its_own_has_the_cpus_of_those_around_it() {
    let mut tree = Tree::with_an_adopted_job();
    fs::remove_file(tree.path("jobs/1/cpuset.cpus.effective")).unwrap();
    assert_eq!(tree.enforcer.effective(APP).unwrap().to_string(), "0-7");
}

#[test]
fn a_change_by_systemd_counts_when_the_file_shows_it_and_one_that_failed_is_no_change() {
    let mut tree = Tree::with_an_adopted_job();
    let ask = |tree: &mut Tree, answer: Option<Outstanding>| {
        let cpus: CpuSet = "2".parse().unwrap();
        let group = tree.enforcer.groups.apps.get_mut(&APP).unwrap();
        group.expected = vec![cpus.clone()];
        group.change = Some(Asked { cpus, answer });
    };
    // Not answered yet, then late with an error: the file shows what it showed before.
    let (tell, answer) = systemd::outstanding();
    ask(&mut tree, Some(answer));
    assert_eq!(tree.set_by_others(), None);
    tell.send(Err("no".to_owned())).unwrap();
    assert_eq!(tree.set_by_others(), None);
    assert!(tree.enforcer.groups.apps[&APP].change.is_none());
    ask(&mut tree, None);
    for _ in 0..2 {
        assert_eq!(tree.set_by_others(), None);
    }
    tree.write(JOB_CPUS, "2\n");
    assert_eq!(tree.set_by_others(), None);
    assert_eq!(tree.enforcer.groups.apps[&APP].written.to_string(), "2");
    tree.write(JOB_CPUS, "3\n");
    assert_eq!(tree.set_by_others(), operators("3"));
}

#[test]
fn while_systemd_has_not_answered_an_earlier_call_intervals_do_not_wait_for_it() {
    let mut tree = Tree::with_an_adopted_job();
    let (tell, answer) = systemd::outstanding();
    let group = tree.enforcer.groups.apps.get_mut(&APP).unwrap();
    let (cpus, answer) = ("2".parse().unwrap(), Some(answer));
    group.change = Some(Asked { cpus, answer });
    for _ in 0..2 {
        tree.enforcer.refresh().unwrap();
        assert_eq!(tree.enforcer.units.patience, Duration::ZERO);
    }
    tell.send(Ok(())).unwrap();
    tree.enforcer.refresh().unwrap();
    assert_eq!(tree.enforcer.units.patience, systemd::PATIENCE);
}

#[test]
fn a_set_written_by_the_owner_of_a_group_is_reported_and_stays_after_its_release() {
    let mut tree = Tree::with_an_adopted_job();
    tree.apply(1, "2");
    tree.write(JOB_CPUS, "0-6\n");
    assert_eq!(tree.set_by_others(), operators("0-6"));
    let own = own_user();
    match chown(tree.path(JOB_CPUS), Some(own + 1), None) {
        Ok(()) => {
            let found = tree.set_by_others().unwrap();
            assert_eq!(found.writer, Writer::User(own + 1));
        }
        Err(error) => assert_ne!(own, 0, "{error}"),
    }
    tree.release(1, Departure::ToItsOwner).unwrap();
    assert_eq!(tree.read(JOB_CPUS), "0-6\n");
}

#[test]
fn a_group_with_more_groups_below_it_than_can_be_looked_through_is_not_managed() {
    let mut tree = Tree::with_a_job(Init::Other);
    let stat = |tree: &Tree, groups: u64| {
        let text = format!("nr_descendants {groups}\nnr_dying_descendants 4000\n");
        tree.write("jobs/1/cgroup.stat", &text);
    };
    stat(&tree, MOST_GROUPS + 1);
    let error = tree.adopt(&group(JOB, None)).unwrap_err();
    error.says(&["has 257 groups below it"]);
    stat(&tree, MOST_GROUPS);
    tree.group("jobs/1/inner", true);
    tree.write("jobs/1/cgroup.procs", "7\n");
    tree.write("jobs/1/inner/cgroup.procs", "8\n");
    tree.adopt(&group(JOB, None)).unwrap();
    assert_eq!(tree.enforcer.too_many_groups(APP), None);
    assert_eq!(tree.enforcer.tasks(APP).processes, [7, 8]);
    stat(&tree, 1_000_000);
    assert_eq!(tree.enforcer.too_many_groups(APP), Some(1_000_000));
    assert_eq!(tree.enforcer.tasks(APP).processes, [7]);
}

#[test]
fn memory_of_an_adopted_group_follows_and_gets_back_the_nodes_it_had() {
    let mut tree = Tree::with_a_job(Init::Other);
    let file = "jobs/1/cpuset.mems";
    for (before, after) in [("1-2\n", "1-2"), ("\n", "0-3")] {
        tree.write(file, before);
        tree.adopt(&group(JOB, None)).unwrap();
        tree.hand_over(None);
        tree.enforcer.bind_memory(APP, &[NodeId(3)]).unwrap();
        assert_eq!(tree.read(file), "3");
        tree.release(1, Departure::ForGood).unwrap();
        assert_eq!(tree.read(file), after);
    }
    tree.write(file, "2\n");
    tree.adopt(&group(JOB, None)).unwrap();
    tree.release(1, Departure::ForGood).unwrap();
    assert_eq!(tree.read(file), "2\n");
}

#[test]
fn a_limit_around_counts_for_what_stays_in_its_place_alone() {
    let mut tree = Tree::with_an_adopted_job();
    tree.group("jobs", true);
    tree.write("jobs/cpuset.cpus.effective", "0-1\n");
    assert_eq!(tree.enforcer.limit_of(APP).unwrap(), "0-1".parse().ok());
    tree.admit(2);
    assert_eq!(tree.enforcer.limit_of(AppId(2)).unwrap(), None);
}
