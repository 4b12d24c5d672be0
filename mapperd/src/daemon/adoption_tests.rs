//! Adoptions while the disk or the kernel is slow.

use crate::fake::{FakeMachine, assert_says, root};
use crate::registry::pending::{Promising, Step};
use crate::requests::permit::HELD_UP_AT_MOST;
use crate::socket::message::{Answer, Served};
use crate::store::directory::Stored;
use crate::store::kept_pages::KeptPages;
use crate::store::saved::{Ending, Progress, Saved, SavedApp, Unsaved};
use crate::store::saver::{Saver, StateWriter};
use crate::store::takeover::Legacy;
use mapper_control::Reply;
use mapper_control::schema::{AdoptRequest, AdoptTarget, PromiseRequest};
use mapper_host::enforce::Unfinished;
use mapper_model::{AppId, Qos};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A disk that takes a state for each message, and fails where that says so.
struct Slow {
    works: Mutex<mpsc::Receiver<bool>>,
    states: States,
}

/// The applications in each state.
type States = Arc<Mutex<Vec<Vec<SavedApp>>>>;

impl StateWriter for Slow {
    fn store(&self, state: Unsaved) -> anyhow::Result<Stored> {
        let works = self.works.lock().unwrap().recv()?;
        anyhow::ensure!(works, "no space left");
        self.states.lock().unwrap().push(state.apps);
        Ok(Stored::Whole)
    }
}

struct SlowDisk {
    works: mpsc::Sender<bool>,
    states: States,
}

fn with_slow_disk() -> (FakeMachine, SlowDisk) {
    let mut machine = FakeMachine::with_processes_of(0);
    let (works, messages) = mpsc::channel();
    let states = States::default();
    let slow = Slow {
        works: Mutex::new(messages),
        states: Arc::clone(&states),
    };
    machine.daemon.store.saver = Some(Saver::start(slow).unwrap());
    (machine, SlowDisk { works, states })
}

fn begin_to_adopt(machine: &mut FakeMachine, group: &str) -> oneshot::Receiver<Answer> {
    begin(machine, AdoptTarget::Cgroup(group.to_owned()))
}

fn begin(machine: &mut FakeMachine, target: AdoptTarget) -> oneshot::Receiver<Answer> {
    let request = AdoptRequest::of(target);
    let (reply, answer) = oneshot::channel();
    let started = Instant::now();
    machine.daemon.adopt(&root(), request, reply);
    assert!(started.elapsed() < Duration::from_millis(150), "it waited");
    answer
}

#[test]
fn while_an_adoption_waits_for_the_disk_nothing_is_moved_and_others_are_served() {
    let (mut machine, disk) = with_slow_disk();
    // The second gets another name.
    let answers = ["/jobs/1", "/other/1"].map(|group| begin_to_adopt(&mut machine, group));
    machine.daemon.interval_passed();
    assert_eq!(machine.daemon.registry.apps.len(), 0);
    assert_eq!(machine.daemon.registry.count(), 2);
    assert_eq!(machine.seen.borrow().moved, []);
    for _ in 0..16 {
        disk.works.send(true).unwrap();
    }
    machine.saved();
    let names = machine.daemon.registry.apps.iter();
    let names: Vec<&str> = names.map(|app| app.record.spec.name.as_str()).collect();
    assert_eq!(names, ["1", "1-2"]);
    for mut answer in answers {
        assert!(answer.try_recv().unwrap().is_ok());
    }
    assert_eq!(machine.seen.borrow().moved.len(), 2);
    // What is saved while the first comes has the second as well.
    machine.daemon.store.flush(Duration::from_secs(20));
    let states = disk.states.lock().unwrap();
    assert!(states.len() >= 2, "{states:?}");
    for later in &states[1..] {
        let apps: Vec<u64> = later.iter().map(|app| app.record.id.0).collect();
        assert_eq!(apps, [1, 2]);
    }
}

#[test]
fn an_adoption_is_refused_when_the_disk_takes_too_long_or_fails() {
    for (works, says) in [(None, "within 200 ms"), (Some(false), "could not be saved")] {
        let (mut machine, disk) = with_slow_disk();
        let mut answer = begin_to_adopt(&mut machine, "/jobs/1");
        if let Some(works) = works {
            disk.works.send(works).unwrap();
            machine.saved();
        } else {
            let Step::Saving { due, .. } = machine.daemon.registry.joining[0].step else {
                panic!("it is moved");
            };
            machine.daemon.answer_saved(due - Duration::from_millis(1));
            assert!(answer.try_recv().is_err(), "it waits no longer");
            machine.daemon.answer_saved(due);
        }
        assert_says(answer.try_recv().unwrap().unwrap_err(), &[says]);
        assert_eq!(machine.daemon.registry.count(), 0);
        assert_eq!(machine.seen.borrow().moved, []);
        assert_eq!(machine.seen.borrow().released.len(), 1);
    }
}

#[test]
fn an_adoption_is_moved_in_turns_between_which_others_are_served() {
    let (mut machine, disk) = with_slow_disk();
    machine.seen.borrow_mut().turns_left = 3;
    let mut answer = begin_to_adopt(&mut machine, "/jobs/1");
    for _ in 0..16 {
        disk.works.send(true).unwrap();
    }
    machine.saved();
    for turns_left in [2, 1, 0] {
        assert_eq!(machine.seen.borrow().turns_left, turns_left);
        let next = machine.daemon.timing.next_turn.unwrap();
        // What is saved meanwhile moves nothing, and neither do decisions.
        machine.daemon.answer_saved(next);
        machine.daemon.interval_passed();
        assert_eq!(machine.seen.borrow().turns_left, turns_left);
        assert!(answer.try_recv().is_err() && machine.daemon.registry.apps.is_empty());
        machine.daemon.take_turn();
    }
    assert_eq!(machine.daemon.timing.next_turn, None);
    assert!(answer.try_recv().unwrap().is_ok());
    assert_eq!(machine.seen.borrow().moved.len(), 1);
    assert_eq!(machine.daemon.registry.apps.len(), 1);
}

#[test]
fn an_adoption_that_the_kernel_does_not_finish_or_the_daemon_does_not_see_through_is_undone() {
    for (stops, says) in [(false, "within 10 s"), (true, "the daemon stops")] {
        let (mut machine, disk) = with_slow_disk();
        machine.seen.borrow_mut().turns_left = u32::MAX;
        let mut answer = begin_to_adopt(&mut machine, "/jobs/1");
        for _ in 0..16 {
            disk.works.send(true).unwrap();
        }
        machine.saved();
        if stops {
            machine.daemon.withdraw_all();
        } else {
            let since = tokio::time::Instant::now() - Duration::from_secs(11);
            machine.daemon.registry.joining[0].step = Step::Moving { since: Some(since) };
            machine.daemon.take_turn();
        }
        assert_says(answer.try_recv().unwrap().unwrap_err(), &[says]);
        assert_eq!(machine.daemon.registry.count(), 0);
        assert_eq!(machine.seen.borrow().moved, []);
        assert_eq!(machine.seen.borrow().released.len(), 1);
    }
}

#[test]
fn adoptions_that_are_moved_have_their_turns_one_after_the_other() {
    let (mut machine, disk) = with_slow_disk();
    machine.seen.borrow_mut().turns_left = 5;
    let answers = ["/jobs/1", "/other/1"].map(|group| begin_to_adopt(&mut machine, group));
    for _ in 0..16 {
        disk.works.send(true).unwrap();
    }
    machine.daemon.store.flush(Duration::from_secs(20));
    machine.daemon.answer_saved(tokio::time::Instant::now());
    let first = |machine: &FakeMachine| machine.daemon.registry.joining[0].adoptee.app.0;
    for turn in 0..5 {
        assert_eq!(first(&machine), 1 + turn % 2);
        machine.daemon.take_turn();
    }
    machine.daemon.take_turn();
    machine.daemon.take_turn();
    for mut answer in answers {
        assert!(answer.try_recv().unwrap().is_ok());
    }
}

#[test]
fn what_was_being_adopted_when_the_daemon_was_killed_is_adopted_by_the_next() {
    let (mut machine, disk) = with_slow_disk();
    machine.seen.borrow_mut().turns_left = u32::MAX;
    let _answer = begin_to_adopt(&mut machine, "/jobs/1");
    for _ in 0..16 {
        disk.works.send(true).unwrap();
    }
    machine.saved();
    let apps = disk.states.lock().unwrap().last().unwrap().clone();
    assert_eq!(apps[0].progress, Progress::Joining);
    for (progress, moved) in [(Progress::Joining, 1), (Progress::Done, 0)] {
        let mut next = FakeMachine::with_processes_of(0);
        next.seen.borrow_mut().turns_left = 3;
        let mut saved = Saved::new(Ending::Running, AppId(2), 17);
        saved.apps.clone_from(&apps);
        saved.apps[0].progress = progress;
        next.daemon.take_over(Legacy {
            saved: Some(saved),
            pages: KeptPages::among(Vec::new()),
        });
        assert_eq!(next.daemon.registry.count(), 1);
        while next.daemon.timing.next_turn.is_some() {
            next.daemon.take_turn();
        }
        assert_eq!(next.seen.borrow().moved.len(), moved);
        assert_eq!(next.daemon.registry.apps.len(), 1);
    }
}

#[test]
fn others_are_served_while_systemd_is_asked_about_a_unit() {
    for (unanswered, end) in [(2, "adopted"), (u32::MAX, "late"), (u32::MAX, "stops")] {
        let mut machine = FakeMachine::with_processes_of(0);
        machine.seen.borrow_mut().unanswered = unanswered;
        let mut answer = begin(&mut machine, AdoptTarget::Unit("a.service".to_owned()));
        assert!(answer.try_recv().is_err(), "it is answered");
        assert!(machine.daemon.timing.next_turn.is_some());
        match end {
            "adopted" => {
                for _ in 0..unanswered {
                    assert_eq!(machine.daemon.registry.count(), 0);
                    machine.daemon.take_turn();
                }
                machine.saved();
                assert!(answer.try_recv().unwrap().is_ok());
                assert_eq!(machine.daemon.registry.apps.len(), 1);
            }
            "late" => {
                let before = Duration::from_millis(500);
                let asking = &mut machine.daemon.registry.asking[0];
                *asking.unanswered.as_mut().unwrap() -= before;
                machine.daemon.take_turn();
                assert_eq!(machine.daemon.timing.next_turn, None);
                assert_says(answer.try_recv().unwrap().unwrap_err(), &["within 500 ms"]);
            }
            _ => {
                machine.daemon.withdraw_all();
                assert_says(
                    answer.try_recv().unwrap().unwrap_err(),
                    &["the daemon stops"],
                );
            }
        }
        assert!(machine.daemon.registry.asking.is_empty());
    }
}

#[test]
fn what_asks_where_a_process_is_waits_while_the_kernel_holds_up_a_move_but_not_for_ever() {
    let held = |machine: &FakeMachine, held| {
        machine.seen.borrow_mut().moves_are_held_up = held;
        machine.seen.borrow_mut().held_up = held;
    };
    for ends in [true, false] {
        let mut machine = FakeMachine::with_processes_of(0);
        held(&machine, true);
        let mut adoption = begin_to_adopt(&mut machine, "/jobs/1");
        let (reply, mut promise) = oneshot::channel();
        let qos = Qos::new(0.5).unwrap();
        machine.daemon.promise(Promising {
            peer: root(),
            request: PromiseRequest { name: None, qos },
            reply,
            since: tokio::time::Instant::now(),
        });
        for _ in 0..3 {
            machine.daemon.take_turn();
            assert!(
                machine.daemon.timing.next_turn.is_some(),
                "nobody looks again"
            );
        }
        assert!(adoption.try_recv().is_err(), "it is answered");
        assert!(promise.try_recv().is_err(), "it is answered");
        let (adopted, promised) = match ends {
            true => {
                held(&machine, false);
                machine.daemon.take_turn();
                machine.saved();
                (None, "part of no application")
            }
            false => {
                let registry = &mut machine.daemon.registry;
                registry.asking[0].since -= HELD_UP_AT_MOST;
                registry.promising[0].since -= HELD_UP_AT_MOST;
                machine.daemon.take_turn();
                (Some("the kernel has held up"), "the kernel has held up")
            }
        };
        match (adopted, adoption.try_recv().unwrap()) {
            (None, answer) => assert!(answer.is_ok()),
            (Some(says), answer) => assert_says(answer.unwrap_err(), &[says]),
        }
        assert_says(promise.try_recv().unwrap().unwrap_err(), &[promised]);
    }
}

#[test]
fn an_adoption_whose_group_the_kernel_holds_up_gets_that_group_or_gives_it_up() {
    for waits in [true, false] {
        let mut machine = FakeMachine::with_processes_of(0);
        machine.seen.borrow_mut().moves_are_held_up = true;
        let mut answer = begin_to_adopt(&mut machine, "/jobs/1");
        machine.daemon.take_turn();
        assert!(answer.try_recv().is_err(), "it is answered");
        assert_eq!(machine.daemon.registry.asking[0].app, Some(AppId(1)));
        machine.seen.borrow_mut().moves_are_held_up = false;
        if waits {
            machine.daemon.take_turn();
            machine.saved();
            assert!(answer.try_recv().unwrap().is_ok());
            assert_eq!(machine.seen.borrow().moved, [AppId(1)]);
        } else {
            drop(answer);
            machine.daemon.take_turn();
            assert_eq!(machine.seen.borrow().given_up, [AppId(1)]);
        }
        assert!(machine.daemon.registry.asking.is_empty());
    }
}

#[test]
fn a_release_is_answered_once_its_processes_are_back_but_not_much_later() {
    for goes_back in [true, false] {
        let mut machine = FakeMachine::with_processes_of(0);
        machine.seen.borrow_mut().unfinished = Unfinished::Moving;
        let (reply, mut answered) = oneshot::channel();
        let answer = Ok(Served::plain(Reply::Exited {}));
        machine.daemon.answer_when_moved(AppId(1), answer, reply);
        machine.daemon.take_turn();
        assert!(answered.try_recv().is_err(), "it is answered");
        if goes_back {
            machine.seen.borrow_mut().unfinished = Unfinished::Nothing;
        } else {
            machine.daemon.registry.releasing[0].since -= Duration::from_secs(1);
        }
        machine.daemon.take_turn();
        assert!(answered.try_recv().unwrap().is_ok());
    }
}
