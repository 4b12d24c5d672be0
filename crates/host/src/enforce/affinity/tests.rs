//! Confinement of real processes by affinity.

use super::confined::STALE;
use super::search::NEW;
use super::*;
use mapper_model::CpuId;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Running(Child);

impl Running {
    fn shell(script: &str) -> Self {
        Self::start(Command::new("sh").args(["-c", script]))
    }

    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.process_group(0).spawn().unwrap())
    }

    /// So many processes besides the shell, all of which are there.
    fn with_children(count: usize) -> Self {
        let mut running = Self::shell(&format!(
            "i=0; while [ $i -lt {count} ]; do sleep 60 & i=$((i+1)); done; echo; wait"
        ));
        running.line();
        running
    }

    /// The next line it prints.
    fn line(&mut self) -> String {
        let mut line = String::new();
        let output = self.0.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // With all it started: the shell leads a group.
        if let Some(group) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

const APP: AppId = AppId(1);

fn admitted(child: &Running) -> AffinityEnforcer {
    let newcomer = Newcomer {
        app: APP,
        first_process: child.0.id(),
        // Not this process: other tests of the same binary have children too.
        launcher: u32::MAX,
        account: rustix::process::geteuid().as_raw(),
    };
    let mut enforcer = AffinityEnforcer::new().unwrap();
    enforcer.admit(&newcomer).unwrap();
    enforcer
}

/// Two CPUs of this machine, and both of them.
fn two_cpus() -> [CpuSet; 3] {
    let all = crate::cpus::own_affinity().unwrap();
    assert!(all.len() >= 2, "this test needs two CPUs, found {all}");
    let mut cpus = all.iter();
    let [low, high] = [cpus.next().unwrap(), cpus.next().unwrap()];
    let set = |cpus: &[CpuId]| cpus.iter().copied().collect();
    [set(&[low]), set(&[high]), set(&[low, high])]
}

fn adoptee(target: AdoptTarget) -> Adoptee {
    Adoptee {
        app: APP,
        target,
        owner: None,
        account: 0,
        usable: CpuSet::new(),
    }
}

fn adopted(child: &Running) -> AffinityEnforcer {
    let mut enforcer = AffinityEnforcer::new().unwrap();
    let target = AdoptTarget::Pid(child.0.id());
    enforcer.adopt(&adoptee(target)).unwrap();
    enforcer
}

fn first_cpu(cpus: &CpuSet) -> CpuSet {
    cpus.first_cpu().into_iter().collect()
}

fn mask(child: &Running) -> CpuSet {
    masks::get(ThreadId(child.0.id())).unwrap()
}

fn set_mask(child: &Running, cpus: &CpuSet) {
    masks::set(ThreadId(child.0.id()), cpus).unwrap();
}

#[test]
fn every_process_of_the_tree_is_confined_and_freed_again() {
    let all = crate::cpus::own_affinity().unwrap();
    let one = first_cpu(&all);
    let child = Running::shell("sleep 30 & sleep 30 & wait");
    let mut enforcer = admitted(&child);
    enforcer.apply(APP, &one).unwrap();
    // Children that were forked before or after that have the mask in any case.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while enforcer.tasks(APP).processes.len() < 3 {
        assert!(std::time::Instant::now() < deadline, "{enforcer:?}");
        enforcer.refresh().unwrap();
    }
    let tasks = enforcer.tasks(APP);
    for thread in &tasks.threads {
        assert_eq!(masks::get(*thread).unwrap(), one);
    }
    assert_eq!(enforcer.effective(APP).unwrap(), one);
    assert_eq!(enforcer.emptied(&mut BTreeSet::from([APP])), []);
    enforcer.release(APP, &all, Departure::ForGood).unwrap();
    for thread in &tasks.threads {
        assert_eq!(masks::get(*thread).unwrap(), all);
    }
}

#[test]
fn a_mask_beyond_the_allocation_is_taken_back_at_the_next_interval() {
    let all = crate::cpus::own_affinity().unwrap();
    let one = first_cpu(&all);
    let child = Running::shell("exec sleep 30");
    let mut enforcer = admitted(&child);
    enforcer.apply(APP, &one).unwrap();
    set_mask(&child, &all);
    enforcer.refresh().unwrap();
    assert_eq!(mask(&child), one);
}

#[test]
fn a_thread_that_pins_itself_within_the_allocation_is_respected() {
    let all = crate::cpus::own_affinity().unwrap();
    assert!(all.len() >= 2, "this test needs two CPUs, found {all}");
    let mut cpus = all.iter();
    let [low, high] = [cpus.next().unwrap(), cpus.next().unwrap()];
    let set = |cpus: &[CpuId]| cpus.iter().copied().collect::<CpuSet>();
    let child = Running::shell("exec sleep 30");
    let mut enforcer = admitted(&child);
    enforcer.apply(APP, &set(&[low, high])).unwrap();
    set_mask(&child, &set(&[high]));
    enforcer.refresh().unwrap();
    assert_eq!(mask(&child), set(&[high]));
    assert_eq!(enforcer.effective(APP).unwrap(), set(&[low, high]));
    enforcer.apply(APP, &set(&[low])).unwrap();
    assert_eq!(mask(&child), set(&[low]));
    enforcer.apply(APP, &set(&[low, high])).unwrap();
    assert_eq!(mask(&child), set(&[high]));
}

#[test]
fn applications_share_the_part_of_their_account_of_any_user() {
    let children = [(1, 7), (2, 7), (3, 8)].map(|of| (Running::shell("exec sleep 30"), of));
    let mut enforcer = AffinityEnforcer::new().unwrap();
    for (child, (app, account)) in &children {
        let newcomer = Newcomer {
            app: AppId(*app),
            first_process: child.0.id(),
            launcher: u32::MAX,
            account: *account,
        };
        enforcer.admit(&newcomer).unwrap();
    }
    enforcer.refresh().unwrap();
    // Each process takes as much as some threads, and its own thread.
    let used = |account| THREADS - enforcer.left[&account];
    assert_eq!(enforcer.left.len(), 2);
    assert_eq!(used(7), 2 * used(8));
}

#[test]
fn an_application_whose_processes_ended_is_not_populated() {
    let mut child = Running::shell("exec sleep 30");
    let mut enforcer = admitted(&child);
    assert_eq!(enforcer.emptied(&mut BTreeSet::from([APP])), []);
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    assert_eq!(enforcer.emptied(&mut BTreeSet::from([APP])), [APP]);
}

#[test]
fn what_was_adopted_gets_back_the_masks_it_had_also_by_another_enforcer() {
    let all = crate::cpus::own_affinity().unwrap();
    assert!(all.len() >= 2, "this test needs two CPUs, found {all}");
    let low = first_cpu(&all);
    let high = all.difference(&low);
    for before in [&low, &all] {
        let child = Running::shell("exec sleep 30");
        set_mask(&child, before);
        let mut enforcer = adopted(&child);
        assert_eq!(mask(&child), *before);
        enforcer.apply(APP, &high).unwrap();
        assert_eq!(mask(&child), high);
        let former = Former {
            app: APP,
            cpus: high.clone(),
            unsaved: None,
            launcher: None,
            account: 0,
            set_by_others: None,
            processes: enforcer.remember(APP),
        };
        let mut next = AffinityEnforcer::new().unwrap();
        next.take_over(&former).unwrap();
        next.release(APP, &all, Departure::ForGood).unwrap();
        assert_eq!(mask(&child), *before);
    }
}

#[test]
fn what_was_given_and_not_saved_is_no_mask_that_a_thread_chose() {
    let all = crate::cpus::own_affinity().unwrap();
    assert!(all.len() >= 2, "this test needs two CPUs, found {all}");
    let low = first_cpu(&all);
    for unsaved in [None, Some(low.clone())] {
        let child = Running::shell("exec sleep 30");
        let mut enforcer = admitted(&child);
        enforcer.apply(APP, &all).unwrap();
        let processes = enforcer.remember(APP);
        // The daemon ends after this, and its state is that of before.
        enforcer.apply(APP, &low).unwrap();
        let mut next = AffinityEnforcer::new().unwrap();
        let is_known = unsaved.is_some();
        next.take_over(&Former {
            app: APP,
            cpus: all.clone(),
            unsaved,
            launcher: None,
            account: 0,
            set_by_others: None,
            processes,
        })
        .unwrap();
        next.apply(APP, &all).unwrap();
        // As far as is known otherwise, its owner has set it.
        assert_eq!(
            mask(&child),
            if is_known { all.clone() } else { low.clone() }
        );
    }
}

#[test]
fn groups_and_units_are_refused_with_a_hint() {
    let mut enforcer = AffinityEnforcer::new().unwrap();
    for target in [
        AdoptTarget::Cgroup("a".into()),
        AdoptTarget::Unit("a.service".into()),
    ] {
        let error = enforcer.adopt(&adoptee(target)).unwrap_err();
        error.says(&["--enforcer cgroup"]);
    }
}

#[test]
fn a_set_that_the_kernel_refuses_keeps_neither_the_next_one_nor_a_release_back() {
    let all = crate::cpus::own_affinity().unwrap();
    let one = first_cpu(&all);
    // No machine that this runs on has such a CPU: as one that has gone offline, it is refused (EINVAL).
    let gone: CpuSet = "1000".parse().unwrap();
    for enforcer in [admitted, adopted] {
        let child = Running::shell("exec sleep 30");
        let mut enforcer = enforcer(&child);
        let refused = enforcer.apply(APP, &gone).unwrap_err();
        assert_eq!(refused.errno(), Some(Errno::INVAL), "{refused}");
        enforcer.apply(APP, &one).unwrap();
        assert_eq!(mask(&child), one);
        enforcer.apply(APP, &gone).unwrap_err();
        enforcer.release(APP, &all, Departure::ForGood).unwrap();
        assert_eq!(mask(&child), all);
        set_mask(&child, &one);
        enforcer.refresh().unwrap();
        assert_eq!(mask(&child), one);
    }
}

#[test]
fn threads_of_a_large_application_and_of_others_are_confined_however_often_its_cpus_change() {
    let [low, high, both] = two_cpus();
    let large = Running::with_children(250);
    let small = Running::shell("exec sleep 60");
    let mut enforcer = admitted(&large);
    let other = AppId(2);
    let newcomer = Newcomer {
        app: other,
        first_process: small.0.id(),
        launcher: u32::MAX,
        account: 0,
    };
    enforcer.admit(&newcomer).unwrap();
    enforcer.apply(other, &low).unwrap();
    // Its children were there before the enforcer.
    enforcer.full_look = true;
    enforcer.refresh().unwrap();
    let threads: Vec<ThreadId> = enforcer.tree.members(APP).map(ThreadId).collect();
    assert_eq!(threads.len(), 251);
    for thread in &threads {
        masks::set(*thread, &both).unwrap();
    }
    set_mask(&small, &both);
    for _ in 0..12 {
        enforcer.refresh().unwrap();
        enforcer.apply(APP, &low).unwrap();
        enforcer.apply(APP, &high).unwrap();
    }
    let unconfined = threads.iter().filter(|t| masks::get(**t).unwrap() == both);
    assert_eq!(unconfined.count(), 0);
    assert_eq!(mask(&small), low);
    assert!(enforcer.apps[&APP].stale.len() <= 3);
    // Once nothing changes, all get the last set and no old mask is kept.
    for _ in 0..8 {
        enforcer.refresh().unwrap();
    }
    for thread in &threads {
        assert_eq!(masks::get(*thread).unwrap(), high);
    }
    assert_eq!(enforcer.apps[&APP].stale, []);
}

#[test]
fn old_masks_are_remembered_once_each_and_only_the_last() {
    let mut confined = Confined::default();
    for cpus in (1..200).chain(1..200).map(CpuSet::first) {
        confined.change_to(&cpus);
    }
    assert_eq!(confined.stale.len(), STALE);
    assert_eq!(confined.stale.last(), Some(&CpuSet::first(198)));
    let mut confined = Confined::default();
    for cpus in [1, 2].repeat(STALE).into_iter().map(CpuSet::first) {
        confined.change_to(&cpus);
    }
    // The first is that it had none.
    let old = [0, 2, 1].map(CpuSet::first);
    assert_eq!(confined.stale, old);
}

#[test]
fn an_application_has_not_ended_while_new_processes_of_others_hide_its_child() {
    // It leads a group, by which its child is found.
    let mut first = Running::shell("read x; sleep 60 & echo $!");
    let mut enforcer = admitted(&first);
    enforcer.refresh().unwrap();
    let others = Running::with_children(NEW + 50);
    drop(first.0.stdin.take());
    let child: u32 = first.line().parse().unwrap();
    first.0.wait().unwrap();
    // Users whose processes tests beside this one start have their part of each look.
    for _ in 0..50 {
        let mut apps = BTreeSet::from([APP]);
        assert_eq!(enforcer.emptied(&mut apps), []);
        if apps.is_empty() {
            break;
        }
    }
    assert_eq!(enforcer.first_process(APP), Some(child));
    drop(first);
    wait_until(|| !enforcer.emptied(&mut BTreeSet::from([APP])).is_empty());
    drop(others);
}

#[test]
fn the_end_of_an_application_is_not_held_up_by_another_users_thousands_of_new_processes() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: acting as other users takes root");
        return;
    }
    let [user, other, subordinate] = [61_201, 61_202, 400_000];
    let as_user = |uid, script: &str| {
        Running::start(Command::new("sh").args(["-c", script]).uid(uid).gid(uid))
    };
    let mut ends = as_user(user, "read x");
    let floods = as_user(other, "sleep 60 & echo; read x; sleep 60 & wait");
    let account_of = move |uid| match uid {
        // Those that tests beside this one start are nobody's: all would wait for root's.
        0 => u32::MAX,
        _ if uid == subordinate => other,
        _ => uid,
    };
    let enforcer = AffinityEnforcer::new().unwrap();
    let mut enforcer = enforcer.with_accounts(account_of);
    for (app, first, account) in [(APP, &ends, user), (AppId(2), &floods, other)] {
        let newcomer = Newcomer {
            app,
            first_process: first.0.id(),
            launcher: u32::MAX,
            account,
        };
        enforcer.admit(&newcomer).unwrap();
    }
    enforcer.refresh().unwrap();
    let many = format!(
        "i=0; while [ $i -lt {} ]; do sleep 60 & i=$((i+1)); done; echo; wait",
        NEW * 3 / 2
    );
    let _crowd = [other, subordinate].map(|uid| {
        let mut crowd = as_user(uid, &many);
        crowd.line();
        crowd
    });
    drop(ends.0.stdin.take());
    ends.0.wait().unwrap();
    // It was launched before the crowd, whose processes hide what its own may have left.
    let group = floods.0.id();
    drop(floods);
    // What was killed lives until it gets a CPU.
    wait_until(|| {
        let all = enforcer.proc.processes().unwrap();
        let mut left = all.iter().filter(|process| process.group == group);
        left.all(ProcessStat::is_zombie)
    });
    let mut apps = BTreeSet::from([APP, AppId(2)]);
    let mut looks_until = |app| {
        let mut looks = (1..20).map(|_| enforcer.emptied(&mut apps));
        looks.position(|ended| ended.contains(&app)).unwrap()
    };
    assert_eq!(looks_until(APP), 0);
    // Who has them waits until they have been looked at.
    assert!(looks_until(AppId(2)) > 0);
}

#[test]
fn a_change_takes_no_more_than_is_left_to_the_user_and_forgets_no_mask_that_a_thread_chose() {
    let [low, high, both] = two_cpus();
    let child = Running::with_children(64);
    let mut enforcer = admitted(&child);
    enforcer.full_look = true;
    enforcer.apply(APP, &both).unwrap();
    enforcer.refresh().unwrap();
    let threads: Vec<ThreadId> = enforcer.tree.members(APP).map(ThreadId).collect();
    assert_eq!(threads.len(), 65);
    for thread in &threads {
        masks::set(*thread, &high).unwrap();
    }
    enforcer.left.values_mut().for_each(|left| *left = 0);
    enforcer.apply(APP, &low).unwrap();
    let known = enforcer.apps[&APP].threads.values();
    let looked_at = known.filter(|mask| mask.own.is_some()).count();
    assert!((1..=AT_LEAST / PROCESS).contains(&looked_at), "{looked_at}");
    for (cpus, in_force) in [(&low, &low), (&both, &high)] {
        enforcer.apply(APP, cpus).unwrap();
        for _ in 0..3 {
            enforcer.refresh().unwrap();
        }
        for thread in &threads {
            assert_eq!(masks::get(*thread).unwrap(), *in_force);
        }
    }
}
