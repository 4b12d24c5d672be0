//! Units whose CPUs systemd does not give back at once, against a systemd that is none.

#![allow(clippy::unwrap_used)] // a test that cannot go on shall panic

use super::restoring::{Restoring, recall};
use super::systemd::{Script, Systemd, UnitState};
use super::tests::fake_group;
use super::*;
use crate::enforce::AdoptTarget;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const UNIT: &str = "a.service";
const PATH: &str = "system.slice/a.service";

/// What systemd was asked to set, in order, and how it answers from now on.
#[derive(Clone, Default)]
struct Asked {
    sets: Arc<Mutex<Vec<String>>>,
    answer: Arc<Mutex<Option<Result<(), String>>>>,
}

impl Asked {
    fn script(&self) -> Script {
        let asked = self.clone();
        Box::new(move |_, cpus| {
            asked.sets.lock().unwrap().push(cpus.to_string());
            asked.answer.lock().unwrap().clone()
        })
    }

    fn answer(&self, answer: Option<Result<(), String>>) {
        *self.answer.lock().unwrap() = answer;
    }

    fn sets(&self) -> Vec<String> {
        self.sets.lock().unwrap().clone()
    }
}

fn refused() -> Option<Result<(), String>> {
    Some(Err("not now".to_owned()))
}

fn adoptee(app: u64) -> Adoptee {
    Adoptee {
        app: AppId(app),
        target: AdoptTarget::Unit(UNIT.into()),
        owner: None,
        usable: "0-3".parse().unwrap(),
    }
}

/// A machine with systemd and a unit that was allowed CPUs 0-3.
fn mount_with_a_unit(asked: &Asked) -> (tempfile::TempDir, CgroupEnforcer) {
    let mount = tempfile::tempdir().unwrap();
    for group in ["", "mapper", PATH] {
        fake_group(&mount.path().join(group), true);
    }
    let enforcer = enforcer_of(&mount, asked);
    (mount, enforcer)
}

fn enforcer_of(mount: &tempfile::TempDir, asked: &Asked) -> CgroupEnforcer {
    let root = mount.path().join("mapper");
    let mut enforcer = CgroupEnforcer::prepare(&root, mount.path(), Init::Systemd).unwrap();
    let state = UnitState {
        nodes: CpuSet::new(),
        group: PATH.to_owned(),
        allowed: "0-3".parse().unwrap(),
    };
    enforcer.units.systemd = Systemd::scripted(state, asked.script());
    enforcer.units.patience = Duration::from_millis(50);
    enforcer
}

fn release(enforcer: &mut CgroupEnforcer, app: u64) -> Result<(), HostError> {
    enforcer.release(AppId(app), &CpuSet::first(8), Departure::ForGood)
}

fn after(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

#[test]
fn a_release_that_systemd_has_not_answered_is_reported_and_retried() {
    let asked = Asked::default();
    let (_mount, mut enforcer) = mount_with_a_unit(&asked);
    enforcer.adopt(&adoptee(1)).unwrap();
    assert_eq!(enforcer.unfinished(), Unfinished::Nothing);
    let message = release(&mut enforcer, 1).unwrap_err().to_string();
    assert!(message.contains("no answer yet; retrying"), "{message}");
    assert_eq!(enforcer.unfinished(), Unfinished::Restoring);
    // Once it does what it is asked there is nothing left to do.
    enforcer.units.restoring[0].give_up_waiting();
    asked.answer(Some(Ok(())));
    let deadline = Instant::now() + Duration::from_secs(20);
    while enforcer.unfinished() == Unfinished::Restoring {
        assert!(Instant::now() < deadline);
        enforcer.units.restore_again(after(2));
    }
    assert_eq!(asked.sets(), ["0-3", "0-3"]);
}

#[test]
fn it_is_asked_again_with_growing_pauses_for_a_minute() {
    let asked = Asked::default();
    asked.answer(refused());
    let (_mount, mut enforcer) = mount_with_a_unit(&asked);
    enforcer.adopt(&adoptee(1)).unwrap();
    let message = release(&mut enforcer, 1).unwrap_err().to_string();
    assert!(message.contains("not now"), "{message}");
    let start = Instant::now();
    let mut asked_at = Vec::new();
    for second in 0..120 {
        let before = asked.sets().len();
        enforcer
            .units
            .restore_again(start + Duration::from_secs(second));
        // The answer comes from another thread.
        while enforcer.units.restoring.iter_mut().any(Restoring::is_late) {
            std::thread::yield_now();
        }
        if asked.sets().len() > before {
            asked_at.push(second);
        }
        if enforcer.unfinished() == Unfinished::Nothing {
            assert_eq!(second, 60);
            break;
        }
    }
    assert_eq!(enforcer.unfinished(), Unfinished::Nothing);
    let pauses: Vec<u64> = asked_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.len() >= 6, "{asked_at:?}");
    assert!(pauses.is_sorted() && pauses.contains(&10), "{asked_at:?}");
}

#[test]
fn the_next_daemon_restores_what_the_previous_one_had_not() {
    let asked = Asked::default();
    asked.answer(refused());
    let (mount, mut enforcer) = mount_with_a_unit(&asked);
    enforcer.adopt(&adoptee(1)).unwrap();
    release(&mut enforcer, 1).unwrap_err();
    let remembered = enforcer.remember_unfinished();
    let mut next = enforcer_of(&mount, &asked);
    next.take_up(&remembered);
    assert_eq!(next.unfinished(), Unfinished::Restoring);
    assert_eq!(next.remember_unfinished(), remembered);
    next.refresh().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while asked.sets().len() < 2 {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(asked.sets(), ["0-3", "0-3"]);
    assert!(recall(&serde_json::Value::Null, Instant::now()).is_empty());
}

#[test]
fn a_unit_that_ended_while_no_daemon_ran_is_given_back_what_it_had_also_by_a_slow_systemd() {
    for answer in [None, refused()] {
        let asked = Asked::default();
        let (mount, mut enforcer) = mount_with_a_unit(&asked);
        enforcer.adopt(&adoptee(1)).unwrap();
        let former = Former {
            app: AppId(1),
            cpus: "0".parse().unwrap(),
            launcher: None,
            set_by_others: None,
            processes: enforcer.remember(AppId(1)),
        };
        fake_group(&mount.path().join(PATH), false);
        asked.answer(answer);
        let mut next = enforcer_of(&mount, &asked);
        assert!(next.take_over(&former).unwrap_err().is_gone());
        assert_eq!(next.unfinished(), Unfinished::Restoring);
    }
}

#[test]
fn a_unit_that_is_adopted_again_had_what_it_has_not_got_back() {
    let asked = Asked::default();
    let (mount, mut enforcer) = mount_with_a_unit(&asked);
    enforcer.adopt(&adoptee(1)).unwrap();
    release(&mut enforcer, 1).unwrap_err();
    // systemd tells what mapper had set, since it has not done anything since.
    let confined = UnitState {
        nodes: CpuSet::new(),
        group: PATH.to_owned(),
        allowed: "1".parse().unwrap(),
    };
    enforcer.units.systemd = Systemd::scripted(confined, asked.script());
    enforcer.adopt(&adoptee(2)).unwrap();
    assert_eq!(enforcer.unfinished(), Unfinished::Nothing);
    asked.answer(Some(Ok(())));
    enforcer.units.patience = Duration::from_secs(20);
    release(&mut enforcer, 2).unwrap();
    assert_eq!(asked.sets().last().unwrap(), "0-3");
    drop(mount);
}

#[test]
fn a_set_that_was_asked_for_before_and_comes_late_is_nobody_elses() {
    let asked = Asked::default();
    asked.answer(Some(Ok(())));
    let (mount, mut enforcer) = mount_with_a_unit(&asked);
    let file = mount.path().join(PATH).join("cpuset.cpus");
    enforcer.adopt(&adoptee(1)).unwrap();
    let apply = |enforcer: &mut CgroupEnforcer, cpus: &str| {
        enforcer.units.patience = Duration::from_millis(10);
        enforcer.apply(AppId(1), &cpus.parse().unwrap())
    };
    apply(&mut enforcer, "1").unwrap();
    apply(&mut enforcer, "2").unwrap();
    std::fs::write(&file, "1\n").unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), None);
    std::fs::write(&file, "2\n").unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), None);
    // Told as failed, and done all the same.
    asked.answer(refused());
    apply(&mut enforcer, "3").unwrap_err();
    std::fs::write(&file, "3\n").unwrap();
    assert_eq!(enforcer.set_by_others(AppId(1)), None);
    std::fs::write(&file, "0\n").unwrap();
    let found = enforcer.set_by_others(AppId(1)).unwrap();
    assert_eq!(found.cpus.to_string(), "0");
}
