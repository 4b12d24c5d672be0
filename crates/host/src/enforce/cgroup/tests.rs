//! What the enforcer reads and writes, on plain files.

use super::asked::Change;
use super::asked::EXCLUSIVE;
use super::files::POSSIBLE_CPUS;
use super::group_dir::{DEPTH, Removed};
use super::isolation::PARTITION;
use super::*;
use crate::enforce::{Extent, Moves};
use mapper_model::ThreadId;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

pub(super) const APP: AppId = AppId(1);
pub(super) const ROOT: &str = "mapper.slice/apps";

/// A cgroup file system of plain files. What the kernel makes of the writes is tested in the guest.
pub(super) struct Tree {
    mount: tempfile::TempDir,
    init: Init,
    pub(super) enforcer: CgroupEnforcer,
}

impl Tree {
    pub(super) fn new(init: Init) -> Self {
        let mount = tempfile::tempdir().unwrap();
        for group in ["", "mapper.slice", ROOT] {
            fake_group(&mount.path().join(group), true);
        }
        let root = mount.path().join(ROOT);
        let enforcer = CgroupEnforcer::prepare(&root, mount.path(), init).unwrap();
        Self {
            mount,
            init,
            enforcer,
        }
    }

    pub(super) fn prepare(&self) -> Result<CgroupEnforcer, HostError> {
        CgroupEnforcer::prepare(&self.path(ROOT), self.mount.path(), self.init)
    }

    pub(super) fn hand_over(&mut self, set_by_others: Option<CpuSet>) {
        let former = Former {
            set_by_others,
            cpus: "2-3".parse().unwrap(),
            ..former(1, self.enforcer.remember(APP))
        };
        self.enforcer = self.prepare().unwrap();
        self.enforcer.take_over(&former).unwrap();
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.mount.path().join(path)
    }

    pub(super) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap()
    }

    pub(super) fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap();
    }

    pub(super) fn group(&self, path: &str, populated: bool) {
        fake_group(&self.path(path), populated);
    }

    pub(super) fn admit(&mut self, app: u64) {
        let newcomer = Newcomer {
            app: AppId(app),
            first_process: 4711,
            launcher: 4710,
            account: 0,
        };
        self.enforcer.admit(&newcomer).unwrap();
        self.group(&of_app(app, ""), true);
    }

    pub(super) fn apply(&mut self, app: u64, cpus: &str) {
        let cpus = cpus.parse().unwrap();
        self.enforcer.apply(AppId(app), &cpus).unwrap();
    }

    pub(super) fn set_by_others(&mut self) -> Option<ForeignSet> {
        self.enforcer.set_by_others(APP)
    }

    pub(super) fn release(&mut self, app: u64, departure: Departure) -> Result<(), HostError> {
        let all = CpuSet::first(8);
        self.enforcer.release(AppId(app), &all, departure)
    }
}

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
        (EXCLUSIVE, "\n"),
        (PARTITION, "member\n"),
        ("cpu.weight", "100\n"),
        ("cpu.idle", "0\n"),
        ("cpu.stat", "usage_usec 1500\nuser_usec 1000\n"),
    ] {
        if !path.join(name).exists() {
            fs::write(path.join(name), text).unwrap();
        }
    }
    let events = format!("populated {}\nfrozen 0\n", u8::from(populated));
    fs::write(path.join("cgroup.events"), events).unwrap();
}

pub(super) fn of_app(app: u64, file: &str) -> String {
    format!("{ROOT}/app-{app}/{file}")
}

pub(super) fn former(app: u64, processes: serde_json::Value) -> Former {
    Former {
        app: AppId(app),
        cpus: CpuSet::new(),
        unsaved: None,
        launcher: None,
        account: 0,
        set_by_others: None,
        processes,
    }
}

pub(super) fn operators(cpus: &str) -> Option<ForeignSet> {
    Some(ForeignSet {
        cpus: cpus.parse().unwrap(),
        writer: Writer::Operator,
    })
}

#[test]
fn a_newcomer_gets_a_group_with_its_process_and_its_cpus() {
    let mut tree = Tree::new(Init::Other);
    assert_eq!(tree.enforcer.limit().unwrap().to_string(), "0-7");
    tree.admit(1);
    assert_eq!(tree.read(&of_app(1, "cgroup.procs")), "4711");
    tree.apply(1, "2-3,6");
    assert_eq!(tree.read(&of_app(1, "cpuset.cpus")), "2-3,6");
    tree.write(&of_app(1, "cpuset.cpus.effective"), "2-3\n");
    assert_eq!(tree.enforcer.effective(APP).unwrap().to_string(), "2-3");
}

#[test]
fn an_application_gets_its_weight_where_the_kernel_divides_by_group() {
    let mut tree = Tree::new(Init::Other);
    tree.admit(1);
    let file = of_app(1, "cpu.weight");
    let weigh = |tree: &mut Tree, weight| {
        let weight = Weight::new(weight).unwrap();
        tree.enforcer.weigh(APP, weight).unwrap();
        tree.read(&file)
    };
    assert_eq!(weigh(&mut tree, 1.0), "100\n", "as it was made");
    assert_eq!(weigh(&mut tree, 0.025), "3");
    assert_eq!(weigh(&mut tree, 100.0), "10000");
    assert_eq!(weigh(&mut tree, 96.0), "10000", "not worth a write");
    // It is written once, and no error where the controller is not handed down.
    tree.write(&of_app(1, "cpu.weight"), "7\n");
    assert_eq!(weigh(&mut tree, 100.0), "7\n");
    fs::remove_file(tree.path(&of_app(1, "cpu.weight"))).unwrap();
    tree.enforcer.weigh(APP, Weight::default()).unwrap();
}

#[test]
fn groups_get_cpuset_and_cpu_where_it_is_offered_each_once() {
    let tree = Tree::new(Init::Other);
    // The file shows the last of several writes.
    for (offered, enabled, written) in [
        ("cpuset memory\n", "", "+cpuset"),
        ("cpuset cpu memory\n", "cpuset\n", "+cpu"),
        ("cpuset cpu memory\n", "cpuset cpu\n", "cpuset cpu\n"),
    ] {
        tree.write(&format!("{ROOT}/cgroup.controllers"), offered);
        let file = format!("{ROOT}/cgroup.subtree_control");
        tree.write(&file, enabled);
        tree.prepare().unwrap();
        assert_eq!(
            tree.read(&file),
            written,
            "{offered:?} of which {enabled:?}"
        );
    }
}

#[test]
fn who_uses_idle_time_runs_last_and_has_the_cpus_of_others_besides_those_in_force() {
    let mut tree = Tree::new(Init::Other);
    tree.admit(1);
    let use_idle_time = |tree: &mut Tree, cpus: &str| {
        let cpus: CpuSet = cpus.parse().unwrap();
        let change = tree.enforcer.use_idle_time(APP, &cpus).unwrap();
        tree.apply(1, "2-3");
        let read = |file| tree.read(&of_app(1, file)).trim_end().to_owned();
        (change, read("cpuset.cpus"), read("cpu.idle"))
    };
    let state = |change, cpus: &str, idle: &str| (change, cpus.to_owned(), idle.to_owned());
    assert_eq!(tree.enforcer.idle_time_use(APP), IdleTimeUse::WhileLeft);
    assert_eq!(
        use_idle_time(&mut tree, ""),
        state(IdleTimeChange::None, "2-3", "0")
    );
    assert_eq!(
        use_idle_time(&mut tree, "5"),
        state(IdleTimeChange::Made, "2-3,5", "1")
    );
    tree.write(&of_app(1, "cpuset.cpus.effective"), "2-3,5\n");
    assert_eq!(tree.enforcer.effective(APP).unwrap().to_string(), "2-3");
    assert_eq!(tree.set_by_others(), None);
    // What is not in its file is written again.
    tree.write(&of_app(1, "cpuset.cpus"), "2-3\n");
    assert_eq!(
        use_idle_time(&mut tree, "5"),
        state(IdleTimeChange::Made, "2-3,5", "1")
    );
    // The kernel refuses a weight meanwhile; afterwards it has to be written again.
    tree.enforcer.weigh(APP, Weight::new(3.0).unwrap()).unwrap();
    assert_eq!(tree.read(&of_app(1, "cpu.weight")), "100\n");
    assert_eq!(
        use_idle_time(&mut tree, "5"),
        state(IdleTimeChange::None, "2-3,5", "1")
    );
    tree.hand_over(None);
    assert_eq!(tree.enforcer.effective(APP).unwrap().to_string(), "2-3");
    tree.enforcer.weigh(APP, Weight::new(3.0).unwrap()).unwrap();
    assert_eq!(
        use_idle_time(&mut tree, ""),
        state(IdleTimeChange::Made, "2-3", "0")
    );
    assert_eq!(tree.read(&of_app(1, "cpu.weight")), "300");
    // What is left of it after this daemon is a group like others.
    use_idle_time(&mut tree, "6");
    tree.release(1, Departure::DaemonStops).unwrap();
    assert_eq!(tree.read(&of_app(1, "cpu.idle")), "0");
}

#[test]
fn who_cannot_run_last_uses_no_idle_time() {
    let mut tree = Tree::new(Init::Other);
    tree.admit(1);
    // The file cannot be written.
    let file = tree.path(&of_app(1, "cpu.idle"));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let cpus = "5".parse().unwrap();
    let refused = tree.enforcer.use_idle_time(APP, &cpus).unwrap_err();
    assert!(refused.to_string().contains("cpu.idle"), "{refused}");
    assert_eq!(tree.enforcer.idle_time_use(APP), IdleTimeUse::Never);
    tree.apply(1, "2-3");
    assert_eq!(tree.read(&of_app(1, "cpuset.cpus")), "2-3");
}

#[test]
fn tasks_and_cpu_time_are_read_from_the_group_and_those_below() {
    let mut tree = Tree::new(Init::Other);
    tree.admit(1);
    tree.group(&of_app(1, "inner"), true);
    tree.write(&of_app(1, "cgroup.procs"), "20\n10\n");
    tree.write(&of_app(1, "inner/cgroup.threads"), "31\n30\n");
    // Where the kernel says that there is none below it, none is looked for.
    tree.write(&of_app(1, "cgroup.stat"), "nr_descendants 0\n");
    assert_eq!(tree.enforcer.tasks(APP).threads, []);
    tree.write(&of_app(1, "cgroup.stat"), "nr_descendants 1\n");
    let tasks = tree.enforcer.tasks(APP);
    assert_eq!(tasks.processes, [10, 20]);
    assert_eq!(tasks.threads, [ThreadId(30), ThreadId(31)]);
    assert_eq!(tree.enforcer.cpu_time_ns(APP), Some(1_500_000));
    // Of more groups than can be read none is, and the application stays managed.
    tree.write(&of_app(1, "cgroup.stat"), "nr_descendants 100000\n");
    assert_eq!(tree.enforcer.tasks(APP).processes, [10, 20]);
    assert_eq!(tree.enforcer.tasks(APP).threads, []);
    assert_eq!(tree.enforcer.too_many_groups(APP), None);
}

#[test]
fn of_each_account_so_many_threads_are_listed_in_an_interval() {
    let mut tree = Tree::new(Init::Other);
    let many: String = (1..=3000).map(|tid| format!("{tid}\n")).collect();
    for (app, account) in [(1, 7), (2, 7), (3, 8)] {
        let newcomer = Newcomer {
            app: AppId(app),
            first_process: 4711,
            launcher: 4710,
            account,
        };
        tree.enforcer.admit(&newcomer).unwrap();
        tree.group(&of_app(app, ""), true);
        tree.write(&of_app(app, "cgroup.threads"), &many);
    }
    let mut listed = |app| {
        let tasks = tree.enforcer.tasks(AppId(app));
        assert_eq!(tasks.extent, Extent::Part);
        tasks.threads.len()
    };
    assert_eq!([1, 2, 3].map(&mut listed), [2048, 64, 2048]);
    tree.enforcer.refresh().unwrap();
    tree.write(&of_app(1, "cgroup.threads"), "1\n2\n");
    let few = tree.enforcer.tasks(APP);
    assert_eq!((few.threads.len(), few.extent), (2, Extent::Whole));
    assert_eq!(tree.enforcer.tasks(AppId(2)).threads.len(), 2046);
}

#[test]
fn a_set_written_by_others_is_noticed() {
    let mut tree = Tree::new(Init::Other);
    tree.admit(1);
    let file = of_app(1, "cpuset.cpus");
    tree.write(&file, "\n");
    assert_eq!(tree.set_by_others(), None);
    tree.apply(1, "2-3");
    assert_eq!(tree.set_by_others(), None);
    tree.write(&file, "1\n");
    assert_eq!(tree.set_by_others(), operators("1"));
    tree.apply(1, "2");
    assert_eq!(tree.set_by_others(), None);
    tree.write(&file, "5\n");
    tree.hand_over("5".parse().ok());
    assert_eq!(tree.set_by_others(), operators("5"));
}

#[test]
fn a_group_that_still_has_members_gets_all_cpus_when_it_is_released() {
    let mut tree = Tree::new(Init::Other);
    tree.admit(1);
    let file = of_app(1, "cpuset.cpus");
    tree.write(&file, "3");
    assert_eq!(tree.enforcer.emptied(&mut BTreeSet::from([APP])), []);
    tree.release(1, Departure::ForGood).unwrap();
    assert_eq!(tree.read(&file).trim(), tree.read(POSSIBLE_CPUS).trim());
    assert_eq!(tree.enforcer.left_over(), [APP]);
}

#[test]
fn groups_of_an_earlier_daemon_are_taken_over_as_they_are() {
    let tree = Tree::new(Init::Other);
    tree.group(&of_app(41, ""), true);
    tree.write(&of_app(41, "cpuset.cpus"), "3\n");
    tree.write(&of_app(41, "cpuset.cpus.effective"), "3\n");
    let anothers = format!("{ROOT}/of-another");
    tree.group(&anothers, true);
    let mut enforcer = tree.prepare().unwrap();
    assert_eq!(enforcer.left_over(), [AppId(41)]);
    let known = |app| former(app, serde_json::Value::Null);
    enforcer.take_over(&known(41)).unwrap();
    assert!(enforcer.left_over().is_empty());
    assert_eq!(enforcer.effective(AppId(41)).unwrap().to_string(), "3");
    assert_eq!(tree.read(&of_app(41, "cpuset.cpus")), "3\n");
    enforcer.apply(AppId(41), &"5".parse().unwrap()).unwrap();
    assert_eq!(tree.read(&of_app(41, "cpuset.cpus")), "5");
    assert!(enforcer.take_over(&known(42)).unwrap_err().is_gone());
    assert_eq!(tree.read(&format!("{anothers}/cpuset.cpus")), "");
}

#[test]
fn memory_is_bound_to_nodes_that_there_are_and_freed_again() {
    let mut tree = Tree::new(Init::Other);
    tree.admit(1);
    let mems = of_app(1, "cpuset.mems");
    for (nodes, written) in [
        (&[1][..], "1"),
        (&[1, 2], "1-2"),
        (&[3, 9], "3"),
        (&[9], "0-3"),
        (&[1], "1"),
    ] {
        let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
        tree.enforcer.bind_memory(APP, &nodes).unwrap();
        assert_eq!(tree.read(&mems), written);
    }
    tree.release(1, Departure::DaemonStops).unwrap();
    assert_eq!(tree.read(&mems), "0-3");
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
    let tree = Tree::new(Init::Other);
    tree.group("mapper.slice/apps/daemon", true);
    let own_pid = std::process::id().to_string();
    tree.write("mapper.slice/apps/cgroup.procs", &format!("{own_pid}\n"));
    tree.prepare().unwrap();
    assert_eq!(tree.read("mapper.slice/apps/daemon/cgroup.procs"), own_pid);
}

#[test]
fn a_root_without_the_controller_or_elsewhere_is_refused_with_a_hint() {
    let tree = Tree::new(Init::Other);
    tree.write("mapper.slice/apps/cgroup.controllers", "cpu memory\n");
    let error = tree.prepare().unwrap_err();
    error.says(&["cpu memory", "Delegate=cpuset"]);
    let error = CgroupEnforcer::open(&tree.path(ROOT)).unwrap_err();
    error.says(&["not on a cgroup v2 file system"]);
}

#[test]
fn the_mount_of_version_2_is_found_among_those_of_version_1() {
    let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                  cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                  cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    let unified = Some(PathBuf::from("/sys/fs/cgroup/unified"));
    assert_eq!(cgroup2_mount(mounts), unified);
    assert_eq!(cgroup2_mount("tmpfs / tmpfs rw 0 0\n"), None);
}

/// A tree in which the kernel holds up a change until what comes with it is dropped.
fn held_up() -> (Tree, std::sync::mpsc::Sender<()>) {
    let mut tree = Tree::new(Init::Other);
    tree.admit(1);
    let changes = tree.enforcer.groups.root.changes();
    let held = changes.hold_up("cpuset.mems");
    (tree, held)
}

/// One that comes while the kernel holds up a change.
fn second() -> Newcomer {
    Newcomer {
        app: AppId(2),
        first_process: 4712,
        launcher: 4710,
        account: 0,
    }
}

/// A write to it waits for a reader.
pub(super) fn hold_up_writes_to(file: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, file, fifo, mode, 0).unwrap();
}

pub(super) fn until_finished(tree: &Tree) {
    while tree.enforcer.held_up().is_some() {
        std::thread::yield_now();
    }
}

#[test]
fn while_the_kernel_holds_up_a_change_cpus_are_set_and_what_would_wait_is_not_tried() {
    let (mut tree, held) = held_up();
    let said = tree.enforcer.held_up().unwrap();
    assert_eq!(said.change, "write \"0\" to cpuset.mems");
    tree.apply(1, "2-3");
    assert_eq!(tree.read(&of_app(1, "cpuset.cpus")), "2-3");
    let newcomer = second();
    let refused = tree.enforcer.admit(&newcomer).unwrap_err();
    refused.says(&["apps/app-2", "held up (write \"0\" to cpuset.mems)"]);
    assert!(!tree.path(&of_app(2, "")).exists());
    // The group of one that ends stays until it can be removed.
    tree.write(&of_app(1, "cgroup.events"), "populated 0\n");
    tree.release(1, Departure::ForGood).unwrap();
    tree.enforcer.refresh().unwrap();
    tree.enforcer.continue_moving();
    assert_eq!(tree.enforcer.left_over(), [APP]);
    assert_eq!(tree.enforcer.unfinished(), Unfinished::Moving);
    drop(held);
    until_finished(&tree);
    fs::remove_dir_all(tree.path(&of_app(1, ""))).unwrap();
    tree.enforcer.continue_moving();
    assert_eq!(tree.enforcer.left_over(), []);
    assert_eq!(tree.enforcer.unfinished(), Unfinished::Nothing);
    tree.enforcer.admit(&newcomer).unwrap();
}

#[test]
fn moves_wait_for_one_that_is_held_up() {
    let mut tree = Tree::new(Init::Other);
    tree.admit(1);
    let changes = tree.enforcer.groups.root.changes().clone();
    let held = changes.hold_up("cgroup.procs");
    let said = tree.enforcer.held_up().unwrap();
    assert_eq!(said.moves, Moves::Wait);
    tree.apply(1, "2-3");
    assert_eq!(tree.read(&of_app(1, "cpuset.cpus")), "2-3");
    let newcomer = second();
    let refused = tree.enforcer.admit(&newcomer).unwrap_err();
    assert!(matches!(refused, HostError::HeldUp(..)), "{refused}");
    drop(held);
    until_finished(&tree);
    tree.enforcer.admit(&newcomer).unwrap();
}

/// A tree in which the kernel holds up a value for a file of the first application.
fn held_up_at(file: &str) -> (Tree, std::sync::mpsc::Sender<()>) {
    let mut tree = Tree::new(Init::Other);
    tree.admit(1);
    let changes = tree.enforcer.groups.root.changes();
    let held = changes.hold_up(tree.path(&of_app(1, file)));
    (tree, held)
}

fn is_held_up(tree: &mut Tree, app: u64, cpus: &str) {
    let refused = tree
        .enforcer
        .apply(AppId(app), &cpus.parse().unwrap())
        .unwrap_err();
    assert!(matches!(refused, HostError::HeldUp(..)), "{refused}");
}

#[test]
fn of_the_values_for_a_file_that_is_held_up_the_newest_is_written_after_that() {
    let (mut tree, held) = held_up_at("cpuset.cpus");
    is_held_up(&mut tree, 1, "2-3");
    is_held_up(&mut tree, 1, "3");
    tree.enforcer.refresh().unwrap();
    assert_eq!(tree.read(&of_app(1, "cpuset.cpus")), "");
    // Other files are written meanwhile.
    tree.enforcer.weigh(APP, Weight::new(2.0).unwrap()).unwrap();
    assert_eq!(tree.read(&of_app(1, "cpu.weight")), "200");
    drop(held);
    until_finished(&tree);
    assert_eq!(tree.read(&of_app(1, "cpuset.cpus")), "3");
    // It is not another program's.
    assert_eq!(tree.set_by_others(), None);
}

#[test]
fn what_is_released_while_its_file_is_held_up_has_all_cpus_after_that() {
    let (mut tree, held) = held_up_at("cpuset.cpus");
    tree.release(1, Departure::ForGood).unwrap();
    drop(held);
    until_finished(&tree);
    let all = fs::read_to_string(POSSIBLE_CPUS).unwrap();
    assert_eq!(tree.read(&of_app(1, "cpuset.cpus")), all.trim_end());
}

#[test]
fn a_value_is_written_once_a_thread_for_it_has_been_started() {
    let mut tree = Tree::new(Init::Other);
    tree.admit(1);
    let starved = tree.enforcer.groups.root.changes().starve();
    is_held_up(&mut tree, 1, "2-3");
    let said = tree.enforcer.held_up().unwrap();
    assert_eq!(said.moves, Moves::Go);
    assert!(said.change.contains("2-3"), "{}", said.change);
    drop(starved);
    until_finished(&tree);
    assert_eq!(tree.read(&of_app(1, "cpuset.cpus")), "2-3");
}

#[test]
fn a_daemon_that_ends_waits_for_values_that_are_due() {
    let (mut tree, held) = held_up_at("cpuset.cpus");
    tree.release(1, Departure::DaemonStops).unwrap();
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
    });
    tree.enforcer.finish();
    let all = fs::read_to_string(POSSIBLE_CPUS).unwrap();
    assert_eq!(tree.read(&of_app(1, "cpuset.cpus")), all.trim_end());
    ends.join().unwrap();
}

#[test]
fn a_newcomer_whose_move_was_held_up_and_came_after_all_is_not_moved_again() {
    let mut tree = Tree::new(Init::Other);
    // As an attempt leaves it whose group was made.
    tree.enforcer.groups.begun.insert(AppId(2));
    fs::create_dir_all(tree.path(&of_app(2, ""))).unwrap();
    let processes = tree.path(&of_app(2, "cgroup.procs"));
    hold_up_writes_to(&processes);
    tree.enforcer.groups.root.changes().impatient();
    for _ in 0..3 {
        let refused = tree.enforcer.admit(&second()).unwrap_err();
        assert!(matches!(refused, HostError::HeldUp(..)), "{refused}");
        assert!(tree.enforcer.groups.begun.contains(&AppId(2)));
    }
    assert_eq!(fs::read_to_string(&processes).unwrap(), "4712");
    until_finished(&tree);
    // A second move would be held up, too.
    tree.enforcer.admit(&second()).unwrap();
    assert!(tree.enforcer.groups.begun.is_empty());
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn who_asks_again_for_a_move_that_was_held_up_gets_its_outcome_once() {
    let tree = Tree::new(Init::Other);
    let changes = tree.enforcer.groups.root.changes().clone();
    changes.impatient();
    let woken = Arc::new(Woken::default());
    changes.wake_when_finished(Waker::from(Arc::clone(&woken)));
    let a_move = Change {
        action: "write",
        value: "4712",
        path: "cgroup.procs".into(),
    };
    for errno in [None, Some(Errno::SRCH)] {
        let (end, waits) = std::sync::mpsc::channel::<()>();
        let outcome = errno.map_or(Ok(()), |errno| Err(std::io::Error::from(errno)));
        let late = changes.make(&a_move, move || {
            let _ended = waits.recv();
            outcome
        });
        assert!(matches!(late, Err(HostError::HeldUp(..))), "{late:?}");
        assert!(!woken.0.load(Ordering::SeqCst));
        drop(end);
        while !woken.0.swap(false, Ordering::SeqCst) {
            std::thread::yield_now();
        }
        until_finished(&tree);
        let not_made = || -> std::io::Result<()> { panic!("it is made again") };
        let outcome = changes.make(&a_move, not_made);
        assert_eq!(outcome.err().and_then(|error| error.errno()), errno);
    }
    // Then it is another move.
    let made = changes.make(&a_move, || Ok(()));
    assert!(
        matches!(made, Ok(()) | Err(HostError::HeldUp(..))),
        "{made:?}"
    );
}

#[test]
fn memory_is_bound_once_the_kernel_has_finished_what_it_held_up() {
    let (mut tree, held) = held_up();
    tree.write("mapper.slice/apps/cpuset.mems.effective", "0-1\n");
    let file = of_app(1, "cpuset.mems");
    tree.enforcer.bind_memory(APP, &[NodeId(1)]).unwrap();
    tree.enforcer.refresh().unwrap();
    assert!(!tree.path(&file).exists(), "it was not tried");
    drop(held);
    until_finished(&tree);
    tree.enforcer.refresh().unwrap();
    assert_eq!(tree.read(&file), "1");
}
