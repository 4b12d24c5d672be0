//! The daemon on a fake machine: what decisions and requests do together.

use crate::config::access::{Access, AccessRule, See};
use crate::config::accounts::Accounts;
use crate::config::file::ConfigFile;
use crate::config::peer::Peer;
use crate::daemon::Daemon;
use crate::fake::{FIRST_PROCESS, FakeMachine, assert_says, root, user};
use crate::machine::observe::{left_by_operator, weights_by_user};
use crate::machine::process;
use crate::registry::pending::{Launch, Pending};
use crate::registry::provenance::EarlierRun;
use crate::requests::permit::Permit;
use crate::requests::{history, launch, release, report, terms};
use crate::socket::message::{Candidate, Outcome};
use mapper_control::Reply;
use mapper_control::schema::{AdoptRequest, AdoptTarget, LaunchRequest, Wishes};
use mapper_host::enforce::cgroup::RunningGroup;
use mapper_host::enforce::{Departure, ForeignSet, Unfinished, Writer};
use mapper_model::{AppId, AppName, CpuSet, Loan, Trigger, Weight};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant as Clock};
use tokio::sync::oneshot;

fn left(machine: &FakeMachine) -> CpuSet {
    left_by_operator(&machine.daemon.registry, &machine.daemon.machine)
}

fn set(cpus: &str, writer: Writer) -> ForeignSet {
    ForeignSet {
        cpus: cpus.parse().unwrap(),
        writer,
    }
}

#[test]
fn a_set_of_the_operator_stays_and_is_taken_from_the_others() {
    let mut machine = FakeMachine::with_processes_of(0);
    let placed = machine.adopt(&root(), "/jobs/1").unwrap();
    let other = machine.adopt(&root(), "/jobs/2").unwrap();
    let foreign = set("0-5", Writer::Operator);
    machine.seen.borrow_mut().foreign.insert(placed, foreign);
    let written = machine.seen.borrow_mut().sets.remove(&placed);
    assert!(written.is_some());
    machine.daemon.decide(Trigger::Interval);
    assert_eq!(left(&machine).to_string(), "6-7");
    let seen = machine.seen.borrow();
    assert_eq!(seen.sets[&other].to_string(), "6-7");
    assert!(!seen.sets.contains_key(&placed));
    assert_eq!(seen.released, []);
}

/// Admits a launch whose process has ended, and says that it was refused and not managed.
fn is_refused(machine: &mut FakeMachine, launch: Launch) {
    let Daemon {
        registry,
        machine: of_daemon,
        telemetry,
        ..
    } = &mut machine.daemon;
    assert!(launch::admit(launch, registry, of_daemon, telemetry).is_err());
    assert!(registry.apps.is_empty());
}

#[tokio::test]
async fn a_launch_whose_process_ended_while_it_waited_takes_no_other_process_of_that_number() {
    let mut machine = FakeMachine::with_processes_of(0);
    let mut ended = Command::new("true").spawn().unwrap();
    let launch = launch_of(&machine, ended.id());
    ended.wait().unwrap();
    is_refused(&mut machine, launch);
    // Its number may be another's: nothing is done by it, and so nothing has to be undone.
    let seen = machine.seen.borrow();
    assert_eq!(seen.admitted, []);
    assert_eq!(seen.released, []);
}

#[tokio::test]
async fn a_launch_whose_process_ends_while_it_is_admitted_is_given_up() {
    let mut machine = FakeMachine::with_processes_of(0);
    let ends = Command::new("sleep").arg("60").spawn().unwrap();
    let launch = launch_of(&machine, ends.id());
    machine.seen.borrow_mut().ends = Some(ends);
    is_refused(&mut machine, launch);
    let seen = machine.seen.borrow();
    let released: Vec<AppId> = seen.released.iter().map(|(app, _)| *app).collect();
    assert_eq!(released.len(), 1);
    assert_eq!(released, seen.admitted);
}

fn launch_of(machine: &FakeMachine, process: u32) -> Launch {
    let (peer, config) = (user(), &machine.daemon.config);
    let name = AppName::new("any").unwrap();
    let request = LaunchRequest::new(FIRST_PROCESS, ["any"], Wishes::named(name));
    let settlement = terms::settle(
        &config.programs,
        &config.shipped_programs,
        &peer,
        &request,
        EarlierRun::Nothing,
    );
    Launch {
        app: None,
        peer,
        request,
        settlement,
        process: process::descriptor(process).unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_waits_while_others_arrive_and_for_nobody_where_there_are_none() {
    let mut machine = FakeMachine::with_processes_of(0);
    let others = [(); 2].map(|()| machine.daemon.arrivals.begin());
    let mut waits = Vec::new();
    for other in others.into_iter().map(Some).chain([None]) {
        let (reply, _) = oneshot::channel();
        let launch = launch_of(&machine, std::process::id());
        drop(other);
        machine.daemon.await_admission(launch, reply);
        let due = machine.daemon.timing.gathered.unwrap();
        waits.push(due.saturating_duration_since(tokio::time::Instant::now()));
    }
    assert!(waits[0] > Duration::ZERO, "{waits:?}");
    assert_eq!(waits[1..], [Duration::ZERO; 2]);
}

#[tokio::test]
async fn launches_that_take_long_to_admit_leave_time_for_others_between() {
    let mut machine = FakeMachine::with_processes_of(0);
    machine.seen.borrow_mut().admission = Duration::from_millis(20);
    let (launches, mut answers): (Vec<_>, Vec<_>) = (0..10)
        .map(|_| {
            let (reply, answer) = oneshot::channel();
            let launch = launch_of(&machine, std::process::id());
            let since = tokio::time::Instant::now();
            let pending = Pending {
                launch,
                reply,
                since,
            };
            (pending, answer)
        })
        .unzip();
    machine.daemon.registry.pending = launches;
    let mut rounds = 0;
    while !machine.daemon.registry.pending.is_empty() {
        let before = machine.daemon.registry.pending.len();
        machine.daemon.act_on_gathered();
        let admitted = before - machine.daemon.registry.pending.len();
        assert!((1..=3).contains(&admitted), "{admitted}");
        rounds += 1;
    }
    assert!(rounds >= 4, "{rounds}");
    assert_eq!(machine.daemon.registry.apps.len(), 10);
    assert!(answers.iter_mut().all(|answer| answer.try_recv().is_ok()));
}

#[tokio::test]
async fn launches_wait_while_the_kernel_holds_up_moves_and_their_users_are_not_charged() {
    let mut machine = FakeMachine::with_processes_of(0);
    let mut answers = Vec::new();
    for _ in 0..2 {
        let (reply, answer) = oneshot::channel();
        let launch = launch_of(&machine, std::process::id());
        machine.daemon.await_admission(launch, reply);
        answers.push(answer);
    }
    machine.seen.borrow_mut().admission = Duration::from_millis(100);
    machine.seen.borrow_mut().moves_are_held_up = true;
    let left = |daemon: &Daemon| {
        let peer = user();
        daemon.quotas.left_us(peer.uid, peer.account, Clock::now())
    };
    let before = left(&machine.daemon);
    let started = Clock::now();
    for _ in 0..3 {
        machine.daemon.act_on_gathered();
        assert_eq!(machine.daemon.registry.pending.len(), 2);
        assert!(
            machine.daemon.timing.gathered.is_some(),
            "nobody looks again"
        );
    }
    assert!(
        started.elapsed() < Duration::from_millis(200),
        "it was tried again"
    );
    assert!(left(&machine.daemon) >= before);
    machine.seen.borrow_mut().moves_are_held_up = false;
    machine.daemon.act_on_gathered();
    machine.daemon.act_on_gathered();
    assert_eq!(machine.daemon.registry.apps.len(), 2);
    assert!(answers.iter_mut().all(|answer| answer.try_recv().is_ok()));
}

#[tokio::test]
async fn who_has_most_time_left_is_admitted_first_but_after_who_has_waited_long() {
    let mut machine = FakeMachine::with_processes_of(0);
    machine.seen.borrow_mut().admission = Duration::from_millis(60);
    let busy = rustix::process::geteuid().as_raw() + 1000;
    let second = Duration::from_secs(1);
    machine.daemon.quotas.charge(busy, busy, second);
    let mut answers = Vec::new();
    let now = tokio::time::Instant::now();
    let long = now - 2 * second;
    for (uid, since) in [
        (busy, now),
        (busy, long),
        (busy + 1, now),
        (busy, long - second),
    ] {
        let (reply, answer) = oneshot::channel();
        let mut launch = launch_of(&machine, std::process::id());
        (launch.peer.uid, launch.peer.account) = (uid, uid);
        machine.daemon.registry.pending.push(Pending {
            launch,
            reply,
            since,
        });
        answers.push(answer);
    }
    let mut order = Vec::new();
    for _ in 0..4 {
        machine.daemon.act_on_gathered();
        let answered = answers.iter_mut().position(|a| a.try_recv().is_ok());
        order.extend(answered);
    }
    assert_eq!(order, [3, 1, 2, 0]);
}

#[test]
fn a_user_who_sets_the_cpus_of_an_own_group_takes_none_from_others() {
    let user = user();
    let mut machine = FakeMachine::with_processes_of(user.uid);
    let greedy = machine.adopt(&user, "/jobs/1").unwrap();
    let other = machine.adopt(&root(), "/jobs/2").unwrap();
    // Also if root had it adopted.
    let too = machine.adopt(&root(), "/jobs/3").unwrap();
    for app in [greedy, too] {
        let foreign = set("0-6", Writer::User(user.uid));
        machine.seen.borrow_mut().foreign.insert(app, foreign);
    }
    machine.daemon.decide(Trigger::Interval);
    assert_eq!(left(&machine), CpuSet::first(8));
    let seen = machine.seen.borrow();
    let released = [greedy, too].map(|app| (app, Departure::ToItsOwner));
    assert_eq!(seen.released, released);
    assert_eq!(seen.sets[&other], CpuSet::first(8));
    let left = machine.daemon.registry.apps.iter();
    let left: Vec<_> = left.map(|app| app.record.id).collect();
    assert_eq!(left, [other]);
}

#[test]
fn a_group_in_which_too_many_are_made_is_released_with_what_it_had() {
    let mut machine = FakeMachine::with_processes_of(0);
    let app = machine.adopt(&root(), "/jobs/1").unwrap();
    machine.seen.borrow_mut().groups.insert(app, 4711);
    machine.daemon.decide(Trigger::Interval);
    let seen = machine.seen.borrow();
    assert_eq!(seen.released, [(app, Departure::ForGood)]);
}

#[test]
fn intervals_continue_until_released_applications_are_restored() {
    let mut machine = FakeMachine::with_processes_of(0);
    let app = machine.adopt(&root(), "/jobs/1").unwrap();
    let timer = |machine: &FakeMachine| machine.daemon.timing.next_interval.is_some();
    assert!(timer(&machine));
    machine.seen.borrow_mut().unfinished = Unfinished::Restoring;
    machine.daemon.forget(app);
    machine.daemon.membership_changed();
    for _ in 0..3 {
        assert!(timer(&machine));
        machine.daemon.interval_passed();
    }
    machine.seen.borrow_mut().unfinished = Unfinished::Nothing;
    machine.daemon.interval_passed();
    assert!(!timer(&machine));
}

#[test]
fn a_decision_that_lets_the_last_application_go_stops_the_timer() {
    let mut machine = FakeMachine::with_processes_of(0);
    let app = machine.adopt(&root(), "/jobs/1").unwrap();
    machine.seen.borrow_mut().groups.insert(app, 4711);
    machine.daemon.interval_passed();
    assert!(machine.daemon.timing.next_interval.is_none());
}

#[test]
fn applications_count_against_the_user_who_requested_them() {
    let one = AccessRule {
        max_applications: 1,
        ..AccessRule::default()
    };
    let user = user();
    // What root has adopted of the user's does not count.
    let mut machine = FakeMachine::with_processes_of(user.uid);
    machine.daemon.config.access = Access::resolve(std::slice::from_ref(&one)).unwrap();
    machine.adopt(&root(), "/jobs/1").unwrap();
    machine.adopt(&user, "/jobs/2").unwrap();
    // What the user has adopted does, even if another user runs in it.
    let mut machine = FakeMachine::with_processes_of(user.uid + 1);
    machine.daemon.config.access = Access::resolve(&[one]).unwrap();
    machine.adopt(&user, "/jobs/1").unwrap();
    let refused = machine.adopt(&user, "/jobs/2").unwrap_err();
    assert_says(&refused, &["applications beyond 1"]);
    // And what a subordinate uid of the user's has.
    let etc = tempfile::tempdir().unwrap();
    let subuid = format!("{}:400000:65536\n", user.uid);
    std::fs::write(etc.path().join("subuid"), subuid).unwrap();
    machine.daemon.machine.accounts = Accounts::read(etc.path());
    let subordinate = Peer {
        account: user.uid,
        ..Peer::of(400_000, &[])
    };
    let refused = machine.adopt(&subordinate, "/jobs/3").unwrap_err();
    assert_says(&refused, &["applications beyond 1"]);
}

#[test]
fn users_have_equal_shares_however_many_programs_each_of_them_runs() {
    let mut machine = FakeMachine::with_processes_of(user().uid);
    let other = Peer::of(user().uid + 1, &[]);
    let of_one = ["/a/1", "/a/2"].map(|group| machine.adopt(&user(), group).unwrap());
    let of_other = machine.adopt(&other, "/b/1").unwrap();
    let fair = |machine: &FakeMachine, app| {
        let app = machine.daemon.registry.get(app).unwrap();
        app.record.planned.as_ref().unwrap().share.fair
    };
    let shares = of_one.map(|app| fair(&machine, app));
    assert_eq!((shares, fair(&machine, of_other)), ([2, 2], 4));
    // What root has adopted counts for itself.
    let services = ["/s/1", "/s/2"].map(|group| machine.adopt(&root(), group).unwrap());
    let shares = [of_one[0], of_one[1], of_other, services[0], services[1]];
    let shares = shares.map(|app| fair(&machine, app));
    assert_eq!(shares, [1, 1, 2, 2, 2]);
}

#[test]
fn a_user_has_the_weight_that_the_first_rule_of_user_or_group_gives() {
    let mut machine = FakeMachine::with_processes_of(user().uid);
    let number = user().uid + 1;
    let text = format!(
        "[[access]]\nusers = [\"{number}\"]\nweight = 3.0\n[[access]]\ngroups = [\"77\"]\nweight = 2.0\n"
    );
    let rules = ConfigFile::parse(&text).unwrap().access;
    machine.daemon.config.access = Access::resolve(&rules).unwrap();
    let (heavy, member) = (Peer::of(number, &[77]), Peer::of(number + 1, &[7, 77]));
    let of_one = machine.adopt(&user(), "/a/1").unwrap();
    let of_heavy = ["/b/1", "/b/2"].map(|group| machine.adopt(&heavy, group).unwrap());
    let of_member = machine.adopt(&member, "/c/1").unwrap();
    let found = weights(&machine);
    let ratio = |a: &AppId| (found[a] / found[&of_one] * 1000.0).round();
    assert_eq!(of_heavy.each_ref().map(ratio), [1500.0, 1500.0]);
    assert_eq!(ratio(&of_member), 2000.0);
    // What counts for the same user, but was not requested by it, changes nothing; out of the group it weighs less.
    let record = &mut machine.daemon.registry.get_mut(of_heavy[0]).unwrap().record;
    assert_eq!(record.groups.take(), Some(vec![77]));
    assert_eq!(
        of_heavy
            .each_ref()
            .map(|a| (weights(&machine)[a] / found[a] * 100.0).round()),
        [100.0, 100.0]
    );
    let outside = Peer::of(number + 1, &[7]);
    machine.adopt(&outside, "/c/2").unwrap();
    let found = weights(&machine);
    assert_eq!((found[&of_member] / found[&of_one] * 1000.0).round(), 500.0);
}

fn weights(machine: &FakeMachine) -> BTreeMap<AppId, f64> {
    let Daemon {
        config,
        registry,
        machine: of_daemon,
        ..
    } = &machine.daemon;
    let weights = weights_by_user(&config.access, registry, of_daemon).into_iter();
    let apps = registry.apps.iter().map(|app| app.record.id);
    apps.zip(weights.map(Weight::get)).collect()
}

#[test]
fn programs_that_lend_take_nothing_from_the_others_of_their_user() {
    let mut machine = FakeMachine::with_processes_of(user().uid);
    let other = Peer::of(user().uid + 1, &[]);
    let busy = machine.adopt(&user(), "/a/0").unwrap();
    let idle = ["/a/1", "/a/2"].map(|group| machine.adopt(&user(), group).unwrap());
    let of_other = machine.adopt(&other, "/b/1").unwrap();
    let found = weights(&machine);
    assert!(found[&of_other] > 2.9 * found[&busy], "{found:?}");
    for app in idle {
        let app = machine.daemon.registry.get_mut(app).unwrap();
        app.record.planned.as_mut().unwrap().loan = Loan::Lends;
    }
    let found = weights(&machine);
    assert_eq!(found[&of_other], found[&busy]);
}

#[test]
fn more_programs_of_a_user_than_cpus_leave_another_user_half_of_the_machine() {
    let mut machine = FakeMachine::with_processes_of(user().uid);
    let other = Peer::of(user().uid + 1, &[]);
    let of_other = machine.adopt(&other, "/b/1").unwrap();
    let many: Vec<_> = (0..12)
        .map(|number| machine.adopt(&user(), &format!("/a/{number}")).unwrap())
        .collect();
    let seen = machine.seen.borrow();
    let alone = &seen.sets[&of_other];
    assert_eq!(alone.len(), 4);
    for app in many {
        assert!(seen.sets[&app].is_disjoint(alone), "{}", seen.sets[&app]);
        assert_eq!(seen.sets[&app].len(), 4);
    }
}

#[test]
fn the_kernel_is_given_weights_where_programs_share_cpus_and_nowhere_else() {
    let mut machine = FakeMachine::with_processes_of(0);
    for number in 0..8 {
        machine.adopt(&root(), &format!("/a/{number}")).unwrap();
    }
    assert!(machine.seen.borrow().weights.is_empty());
    machine.adopt(&root(), "/a/8").unwrap();
    let seen = machine.seen.borrow();
    assert_eq!(seen.weights.len(), 9, "{:?}", seen.weights);
}

#[test]
fn what_comes_and_goes_has_the_threads_of_no_other_application_listed() {
    let mut machine = FakeMachine::with_processes_of(0);
    let first = machine.adopt(&root(), "/jobs/1").unwrap();
    let listed = |machine: &FakeMachine| machine.seen.borrow().listed[&first];
    let before = listed(&machine);
    for path in ["/jobs/2", "/jobs/3", "/jobs/4"] {
        let other = machine.adopt(&root(), path).unwrap();
        assert!(machine.seen.borrow().listed[&other] > 0);
    }
    assert_eq!(listed(&machine), before);
    machine.daemon.decide(Trigger::Interval);
    assert_eq!(listed(&machine), before + 1);
}

#[test]
fn what_comes_and_goes_has_the_running_threads_of_no_other_application_counted() {
    let mut machine = FakeMachine::with_processes_of(0);
    let paths = (1..=8).map(|number| format!("/jobs/{number}"));
    let apps: Vec<_> = paths
        .map(|path| machine.adopt(&root(), &path).unwrap())
        .collect();
    let first = machine.daemon.registry.get_mut(apps[0]).unwrap();
    assert_eq!(first.effective.len(), 1);
    first.runnable = Some(2);
    let runnable = |machine: &FakeMachine| machine.daemon.registry.get(apps[0]).unwrap().runnable;
    // No thread of this machine can be read: if counted, none runs.
    machine.daemon.decide(Trigger::Membership);
    assert_eq!(runnable(&machine), Some(2));
    machine.daemon.decide(Trigger::Interval);
    assert_eq!(runnable(&machine), Some(0));
}

/// A group that a rule adopts with this weight.
fn candidate(path: &str, inode: u64, weight: f64) -> Candidate {
    let target = AdoptTarget::Cgroup(path.to_owned());
    let request = AdoptRequest {
        weight: Weight::new(weight).unwrap(),
        ..AdoptRequest::of(target)
    };
    Candidate {
        group: RunningGroup {
            path: path.to_owned(),
            inode,
            owner: 0,
        },
        user: user().uid,
        rule: 1,
        request,
    }
}

fn offered(machine: &mut FakeMachine, candidate: Candidate) -> Outcome {
    let (reply, mut outcome) = oneshot::channel();
    machine.daemon.adopt_by_rule(candidate, reply);
    machine.saved();
    outcome.try_recv().unwrap()
}

#[test]
fn a_rule_adopts_each_life_of_a_group_once_and_not_what_was_released() {
    let mut machine = FakeMachine::with_processes_of(0);
    let target = AdoptTarget::Cgroup("/jobs/1".to_owned());
    let offer = |machine: &mut FakeMachine, inode| {
        let outcome = offered(machine, candidate("/jobs/1", inode, 1.0));
        matches!(outcome, Outcome::Adopted)
    };
    assert!(offer(&mut machine, 7));
    assert!(!offer(&mut machine, 7));
    let first = machine.daemon.registry.adopted(&target).unwrap();
    let requested_by = |machine: &FakeMachine, app| {
        let app = machine.daemon.registry.get(app).unwrap();
        app.record.requested_by()
    };
    assert_eq!(requested_by(&machine, first), user().uid);
    // Its next life, once the first is seen to have ended.
    machine.seen.borrow_mut().empty.insert(first);
    assert!(!offer(&mut machine, 8));
    assert!(offer(&mut machine, 8));
    let second = machine.daemon.registry.adopted(&target).unwrap();
    assert_ne!(second, first);
    // It was taken over after its group was made anew: known by that from then on.
    assert!(!offer(&mut machine, 88));
    assert_eq!(machine.daemon.registry.adopted(&target), Some(second));
    machine.daemon.registry.leave_alone(second);
    machine.daemon.forget(second);
    assert!(!offer(&mut machine, 88));
    assert_eq!(machine.daemon.registry.adopted(&target), None);
    assert!(offer(&mut machine, 9));
}

#[test]
fn what_root_adopted_by_hand_stays_released_although_a_rule_fits() {
    let mut machine = FakeMachine::with_processes_of(0);
    let app = machine.adopt(&root(), "/jobs/1").unwrap();
    let offer = |machine: &mut FakeMachine, inode| {
        let candidate = candidate("/jobs/1", inode, 1.0);
        matches!(offered(machine, candidate), Outcome::Adopted)
    };
    assert!(!offer(&mut machine, 7));
    released(&mut machine, &root(), app);
    assert!(!offer(&mut machine, 7));
    assert!(offer(&mut machine, 8));
    // What a user adopted and released is for the rule to adopt.
    let mut machine = FakeMachine::with_processes_of(user().uid);
    let app = machine.adopt(&user(), "/jobs/1").unwrap();
    assert!(!offer(&mut machine, 7));
    released(&mut machine, &user(), app);
    assert!(offer(&mut machine, 7));
}

fn released(machine: &mut FakeMachine, by: &Peer, app: AppId) {
    let Daemon {
        config,
        registry,
        machine,
        decider,
        telemetry,
        ..
    } = &mut machine.daemon;
    let (permit, asked) = (Permit::of(by, config), app.0.to_string());
    let reply = release::release(&permit, &asked, registry, machine, decider, telemetry);
    assert!(reply.is_ok(), "{reply:?}");
}

#[test]
fn an_adopted_group_gets_the_terms_of_a_rule_that_changes() {
    let mut machine = FakeMachine::with_processes_of(0);
    let adopted = |machine: &mut FakeMachine, weight| {
        let outcome = offered(machine, candidate("/jobs/1", 7, weight));
        let app = machine.daemon.registry.apps.first().unwrap();
        (
            matches!(outcome, Outcome::Adopted),
            app.record.spec.weight.get(),
        )
    };
    assert_eq!(adopted(&mut machine, 1.0), (true, 1.0));
    assert_eq!(adopted(&mut machine, 3.0), (false, 3.0));
    // What root has adopted keeps what root said.
    let mut machine = FakeMachine::with_processes_of(0);
    machine.adopt(&root(), "/jobs/1").unwrap();
    assert_eq!(adopted(&mut machine, 3.0), (false, 1.0));
}

#[test]
fn an_application_is_placed_within_the_limit_around_it() {
    let mut machine = FakeMachine::with_processes_of(0);
    let confined = machine.adopt(&root(), "/jobs/1").unwrap();
    let other = machine.adopt(&root(), "/jobs/2").unwrap();
    let limit = |machine: &mut FakeMachine, cpus: &str| {
        let cpus = cpus.parse().unwrap();
        machine.seen.borrow_mut().limits.insert(confined, cpus);
        machine.daemon.decide(Trigger::Interval);
    };
    limit(&mut machine, "6-7");
    for app in [confined, other] {
        let cpus = machine.seen.borrow().sets[&app].clone();
        let within: CpuSet = "6-7".parse().unwrap();
        assert!(!cpus.is_empty());
        assert_eq!(cpus.is_subset(&within), app == confined, "{cpus}");
    }
    let planned = |machine: &FakeMachine| {
        let app = machine.daemon.registry.get(confined).unwrap();
        app.record.planned.is_some()
    };
    assert!(planned(&machine));
    // A limit without an assignable CPU leaves it where it is, outside of decisions.
    limit(&mut machine, "64");
    assert!(!planned(&machine));
    machine.seen.borrow_mut().limits.clear();
    machine.daemon.decide(Trigger::Interval);
    assert!(planned(&machine));
}

#[test]
fn the_history_and_reports_of_a_users_programs_are_the_users_and_roots_alone() {
    let owner = user();
    let other = Peer::of(owner.uid + 1, &[]);
    let mut machine = FakeMachine::with_processes_of(owner.uid);
    let app = machine.adopt(&owner, "/jobs/1").unwrap();
    machine.daemon.forget(app);
    let mut seen = |peer: &Peer| {
        let Daemon {
            config,
            registry,
            machine,
            ..
        } = &mut machine.daemon;
        let permit = Permit::of(peer, config);
        let Reply::History(history) = history::history(&permit, registry, machine) else {
            panic!("no history");
        };
        let reported = report::report(&permit, app, registry, machine).is_ok();
        (history.ended.len(), reported)
    };
    assert_eq!(
        [&owner, &root(), &other].map(&mut seen),
        [(1, true), (1, true), (0, false)]
    );
    let all = AccessRule {
        see: See::All,
        ..AccessRule::default()
    };
    machine.daemon.config.access = Access::resolve(&[all]).unwrap();
    let Daemon {
        config,
        registry,
        machine,
        ..
    } = &machine.daemon;
    let permit = Permit::of(&other, config);
    assert!(matches!(
        history::history(&permit, registry, machine),
        Reply::History(history) if history.ended.len() == 1
    ));
}
