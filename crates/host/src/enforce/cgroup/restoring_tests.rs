//! Units whose CPUs systemd does not give back immediately, against a fake systemd.

use super::restoring::{Restoring, recall};
use super::systemd::{Script, Systemd, UnitState};
use super::tests::{APP, Tree, former};
use super::*;
use crate::enforce::AdoptTarget;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATH: &str = "system.slice/a.service";

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

fn state(allowed: &str) -> UnitState {
    UnitState {
        nodes: CpuSet::new(),
        group: PATH.to_owned(),
        allowed: allowed.parse().unwrap(),
    }
}

impl Tree {
    fn with_a_unit(asked: &Asked) -> Self {
        let mut tree = Self::new(Init::Systemd);
        tree.group(PATH, true);
        tree.restart(asked);
        tree.adopt_unit(1);
        tree
    }

    fn restart(&mut self, asked: &Asked) {
        self.enforcer = self.prepare().unwrap();
        self.enforcer.units.systemd = Systemd::scripted(state("0-3"), asked.script());
        self.enforcer.units.patience = Duration::from_millis(50);
    }

    fn adopt_unit(&mut self, app: u64) {
        self.try_to_adopt_unit(app).unwrap();
    }

    fn try_to_adopt_unit(&mut self, app: u64) -> Result<(), HostError> {
        let adoptee = Adoptee {
            app: AppId(app),
            target: AdoptTarget::Unit("a.service".into()),
            owner: None,
            account: 0,
            usable: "0-3".parse().unwrap(),
        };
        self.enforcer.adopt(&adoptee)
    }
}

#[test]
fn systemd_is_asked_once_about_a_unit_however_often_an_adoption_comes_back_for_the_answer() {
    let asked = Asked::default();
    let mut tree = Tree::new(Init::Systemd);
    tree.group(PATH, true);
    tree.restart(&asked);
    tree.enforcer.units.systemd.answer_late();
    for _ in 0..3 {
        let late = tree.try_to_adopt_unit(1).unwrap_err();
        assert!(matches!(late, HostError::SystemdLate(..)), "{late}");
    }
    assert_eq!(tree.enforcer.units.systemd.answer_looks(), 1);
    tree.adopt_unit(1);
    assert_eq!(tree.enforcer.units.systemd.answer_looks(), 0);
}

#[test]
fn a_release_that_systemd_has_not_answered_is_reported_and_retried() {
    let asked = Asked::default();
    let mut tree = Tree::with_a_unit(&asked);
    assert_eq!(tree.enforcer.unfinished(), Unfinished::Nothing);
    let error = tree.release(1, Departure::ForGood).unwrap_err();
    error.says(&["no answer yet; retrying"]);
    assert_eq!(tree.enforcer.unfinished(), Unfinished::Restoring);
    tree.enforcer.units.restoring[0].give_up_waiting();
    asked.answer(Some(Ok(())));
    let deadline = Instant::now() + Duration::from_secs(20);
    while tree.enforcer.unfinished() == Unfinished::Restoring {
        assert!(Instant::now() < deadline);
        let later = Instant::now() + Duration::from_secs(2);
        tree.enforcer.units.restore_again(later);
    }
    assert_eq!(asked.sets(), ["0-3", "0-3"]);
}

#[test]
fn requests_are_repeated_with_growing_pauses_for_a_minute() {
    let asked = Asked::default();
    asked.answer(refused());
    let mut tree = Tree::with_a_unit(&asked);
    let error = tree.release(1, Departure::ForGood).unwrap_err();
    error.says(&["not now"]);
    let start = Instant::now();
    let mut asked_at = Vec::new();
    let units = &mut tree.enforcer.units;
    for second in 0..120 {
        let before = asked.sets().len();
        units.restore_again(start + Duration::from_secs(second));
        while units.restoring.iter_mut().any(Restoring::is_late) {
            std::thread::yield_now();
        }
        if asked.sets().len() > before {
            asked_at.push(second);
        }
        if units.restoring.is_empty() {
            assert_eq!(second, 60);
            break;
        }
    }
    assert_eq!(tree.enforcer.unfinished(), Unfinished::Nothing);
    let pauses: Vec<u64> = asked_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.len() >= 6, "{asked_at:?}");
    assert!(pauses.is_sorted() && pauses.contains(&10), "{asked_at:?}");
}

#[test]
fn the_next_daemon_restores_what_the_previous_one_had_not() {
    let asked = Asked::default();
    asked.answer(refused());
    let mut tree = Tree::with_a_unit(&asked);
    tree.release(1, Departure::ForGood).unwrap_err();
    let remembered = tree.enforcer.remember_unfinished();
    tree.restart(&asked);
    tree.enforcer.take_up(&remembered);
    assert_eq!(tree.enforcer.unfinished(), Unfinished::Restoring);
    assert_eq!(tree.enforcer.remember_unfinished(), remembered);
    tree.enforcer.refresh().unwrap();
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
        let mut tree = Tree::with_a_unit(&asked);
        let known = former(1, tree.enforcer.remember(APP));
        tree.group(PATH, false);
        asked.answer(answer);
        tree.restart(&asked);
        assert!(tree.enforcer.take_over(&known).unwrap_err().is_gone());
        assert_eq!(tree.enforcer.unfinished(), Unfinished::Restoring);
    }
}

#[test]
fn a_unit_that_is_adopted_again_had_what_it_has_not_got_back() {
    let asked = Asked::default();
    let mut tree = Tree::with_a_unit(&asked);
    tree.release(1, Departure::ForGood).unwrap_err();
    // systemd reports what mapper had set, since it has not done anything since.
    tree.enforcer.units.systemd = Systemd::scripted(state("1"), asked.script());
    tree.adopt_unit(2);
    assert_eq!(tree.enforcer.unfinished(), Unfinished::Nothing);
    asked.answer(Some(Ok(())));
    tree.enforcer.units.patience = Duration::from_secs(20);
    tree.release(2, Departure::ForGood).unwrap();
    assert_eq!(asked.sets().last().unwrap(), "0-3");
}

#[test]
fn a_set_that_was_requested_before_and_comes_late_is_not_foreign() {
    let asked = Asked::default();
    asked.answer(Some(Ok(())));
    let mut tree = Tree::with_a_unit(&asked);
    let file = "system.slice/a.service/cpuset.cpus";
    let apply = |tree: &mut Tree, cpus: &str| {
        tree.enforcer.units.patience = Duration::from_millis(10);
        tree.enforcer.apply(APP, &cpus.parse().unwrap())
    };
    apply(&mut tree, "1").unwrap();
    apply(&mut tree, "2").unwrap();
    for late in ["1\n", "2\n"] {
        tree.write(file, late);
        assert_eq!(tree.set_by_others(), None);
    }
    asked.answer(refused());
    apply(&mut tree, "3").unwrap_err();
    tree.write(file, "3\n");
    assert_eq!(tree.set_by_others(), None);
    tree.write(file, "0\n");
    let found = tree.set_by_others().unwrap();
    assert_eq!(found.cpus.to_string(), "0");
}
