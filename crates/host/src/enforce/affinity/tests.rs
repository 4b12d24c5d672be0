//! Confinement of real processes by affinity.

#![allow(clippy::unwrap_used)] // a test that cannot go on shall panic

use super::*;
use mapper_model::{AppName, CpuId};
use std::process::{Child, Command, Stdio};

/// A child that is ended whatever happens to the test.
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
    let mut enforcer = AffinityEnforcer::new().unwrap();
    enforcer
        .admit(&Newcomer {
            app: APP,
            name: AppName::new("test").unwrap(),
            first_process: child.0.id(),
            // Not this process: other tests of the same binary have children too.
            launcher: u32::MAX,
        })
        .unwrap();
    enforcer
}

fn first_cpu(cpus: &CpuSet) -> CpuSet {
    cpus.first_cpu().into_iter().collect()
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
    assert!(enforcer.is_populated(APP));
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
    let thread = ThreadId(child.0.id());
    masks::set(thread, &all).unwrap();
    enforcer.refresh().unwrap();
    assert_eq!(masks::get(thread).unwrap(), one);
}

#[test]
fn a_thread_that_pins_itself_within_the_allocation_is_respected() {
    let all = crate::cpus::own_affinity().unwrap();
    assert!(all.len() >= 2, "this test needs two CPUs, found {all}");
    let mut cpus = all.iter();
    let [low, high] = [cpus.next().unwrap(), cpus.next().unwrap()];
    let set = |cpus: &[CpuId]| cpus.iter().copied().collect::<CpuSet>();
    let child = Running::shell("exec sleep 30");
    let thread = ThreadId(child.0.id());
    let mut enforcer = admitted(&child);
    enforcer.apply(APP, &set(&[low, high])).unwrap();
    masks::set(thread, &set(&[high])).unwrap();
    enforcer.refresh().unwrap();
    assert_eq!(masks::get(thread).unwrap(), set(&[high]));
    assert_eq!(enforcer.effective(APP).unwrap(), set(&[low, high]));
    // Its CPU is withdrawn and comes back.
    enforcer.apply(APP, &set(&[low])).unwrap();
    assert_eq!(masks::get(thread).unwrap(), set(&[low]));
    enforcer.apply(APP, &set(&[low, high])).unwrap();
    assert_eq!(masks::get(thread).unwrap(), set(&[high]));
}

#[test]
fn an_application_whose_processes_ended_is_not_populated() {
    let mut child = Running::shell("exec sleep 30");
    let mut enforcer = admitted(&child);
    assert!(enforcer.is_populated(APP));
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    assert!(!enforcer.is_populated(APP));
}

fn adopt(enforcer: &mut AffinityEnforcer, child: &Running) {
    let target = AdoptTarget::Pid(child.0.id());
    let adoptee = Adoptee {
        app: APP,
        target,
        owner: None,
        usable: CpuSet::new(),
    };
    enforcer.adopt(&adoptee).unwrap();
}

#[test]
fn what_was_adopted_gets_back_the_masks_it_had_also_by_another_enforcer() {
    let all = crate::cpus::own_affinity().unwrap();
    assert!(all.len() >= 2, "this test needs two CPUs, found {all}");
    let low = first_cpu(&all);
    let high = all.difference(&low);
    let [narrow, wide] = [
        Running::shell("exec sleep 30"),
        Running::shell("exec sleep 30"),
    ];
    let [narrow_thread, wide_thread] = [&narrow, &wide].map(|child| ThreadId(child.0.id()));
    masks::set(narrow_thread, &low).unwrap();
    for (child, thread, before) in [(&narrow, narrow_thread, &low), (&wide, wide_thread, &all)] {
        let mut enforcer = AffinityEnforcer::new().unwrap();
        adopt(&mut enforcer, child);
        assert_eq!(masks::get(thread).unwrap(), *before);
        enforcer.apply(APP, &high).unwrap();
        assert_eq!(masks::get(thread).unwrap(), high);
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
        assert_eq!(masks::get(thread).unwrap(), *before);
    }
}

#[test]
fn groups_and_units_are_refused_with_a_hint() {
    let mut enforcer = AffinityEnforcer::new().unwrap();
    for target in [
        AdoptTarget::Cgroup("a".into()),
        AdoptTarget::Unit("a.service".into()),
    ] {
        let adoptee = Adoptee {
            app: APP,
            target,
            owner: None,
            usable: CpuSet::new(),
        };
        let error = enforcer.adopt(&adoptee).unwrap_err().to_string();
        assert!(error.contains("--enforcer cgroup"), "{error}");
    }
}

#[test]
fn a_set_that_the_kernel_refuses_keeps_neither_the_next_one_nor_a_release_back() {
    let all = crate::cpus::own_affinity().unwrap();
    let one = first_cpu(&all);
    // No machine that this runs on has such a CPU: as one that has gone offline, it is refused (EINVAL).
    let gone: CpuSet = "1000".parse().unwrap();
    for adopted in [false, true] {
        let child = Running::shell("exec sleep 30");
        let thread = ThreadId(child.0.id());
        let mut enforcer = match adopted {
            true => AffinityEnforcer::new().unwrap(),
            false => admitted(&child),
        };
        if adopted {
            adopt(&mut enforcer, &child);
        }
        let refused = enforcer.apply(APP, &gone).unwrap_err();
        assert_eq!(refused.errno(), Some(Errno::INVAL), "{refused}");
        enforcer.apply(APP, &one).unwrap();
        assert_eq!(masks::get(thread).unwrap(), one);
        enforcer.apply(APP, &gone).unwrap_err();
        enforcer.release(APP, &all, Departure::ForGood).unwrap();
        assert_eq!(masks::get(thread).unwrap(), all);
        // It is forgotten: nobody forces a set upon it any more.
        masks::set(thread, &one).unwrap();
        enforcer.refresh().unwrap();
        assert_eq!(masks::get(thread).unwrap(), one);
    }
}
