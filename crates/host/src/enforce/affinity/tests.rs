//! Confinement of real processes by affinity.

use super::*;
use mapper_model::CpuId;
use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

struct Running(Child);

impl Running {
    fn shell(script: &str) -> Self {
        let child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
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
    };
    let mut enforcer = AffinityEnforcer::new().unwrap();
    enforcer.admit(&newcomer).unwrap();
    enforcer
}

fn adoptee(target: AdoptTarget) -> Adoptee {
    Adoptee {
        app: APP,
        target,
        owner: None,
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
    assert_eq!(enforcer.emptied(&BTreeSet::from([APP])), []);
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
fn an_application_whose_processes_ended_is_not_populated() {
    let mut child = Running::shell("exec sleep 30");
    let mut enforcer = admitted(&child);
    assert_eq!(enforcer.emptied(&BTreeSet::from([APP])), []);
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    assert_eq!(enforcer.emptied(&BTreeSet::from([APP])), [APP]);
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
            launcher: None,
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
