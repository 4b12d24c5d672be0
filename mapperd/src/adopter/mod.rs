//! Adopts what the rules of the configuration name: now, and whenever it starts anew.
//!
//! The groups with processes are read twice a second, apart from the deciding thread, and each that fits a rule is offered to
//! it. It takes what it does not manage and root has not released. What it tried is tried again, less and less often,
//! so that a group that leaves its management again and again costs little. Attempts take a
//! quarter of its time at most.

mod users;

use crate::config::accounts::{Accounts, is_privileged};
use crate::config::adopt_rules::{AdoptRules, Wanted};
use crate::socket::message::{Candidate, Message, Outcome, Sender};
use mapper_host::chain;
use mapper_host::enforce::Extent;
use mapper_host::enforce::cgroup::{RunningGroup, running_groups};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep};
use users::UsersOfJobs;

/// How often it is looked what runs.
const LOOK: Duration = Duration::from_millis(500);

/// The longest time until what was tried is tried again.
const LONGEST: Duration = Duration::from_secs(60);

/// After an attempt nothing is tried for so many times as long as it took.
const REST: u32 = 3;

/// Attempts for one ordinary user at a look.
const OF_ONE_USER: u32 = 4;

/// How often it is said what is refused by one rule.
const SAY: Duration = Duration::from_secs(60);

/// Adopts until the daemon ends. Without rules it waits for some.
pub(crate) async fn run(
    mut rules: watch::Receiver<AdoptRules>,
    accounts: Accounts,
    sender: Sender,
) {
    let (mut attempts, mut sayings) = (Attempts::default(), Sayings::default());
    let mut users = UsersOfJobs::default();
    loop {
        let present = rules.borrow_and_update().clone();
        if present.is_empty() {
            if rules.changed().await.is_err() {
                return;
            }
            continue;
        }
        let (mut known, accounts_of) = (std::mem::take(&mut users), accounts.clone());
        let look = tokio::task::spawn_blocking(move || {
            (candidates(&present, &accounts_of, &mut known), known)
        });
        let look = look.await;
        let look = match look {
            Ok((look, known)) => {
                users = known;
                look
            }
            Err(error) => Err(error.to_string()),
        };
        match look {
            Ok(Found { candidates, extent }) => {
                sayings.say_extent(extent);
                attempts.forget_others(&candidates);
                for mut candidate in candidates {
                    candidate.user = accounts.of(candidate.user);
                    if rules.has_changed().unwrap_or(true) {
                        break;
                    }
                    if offer(candidate, &mut attempts, &mut sayings, &sender)
                        .await
                        .is_none()
                    {
                        return;
                    }
                }
            }
            Err(why) => sayings.say(0, || format!("control groups not read: {why}")),
        }
        sleep(LOOK).await;
    }
}

/// Offers one to the deciding thread, if it is due. `None` once the daemon has ended.
async fn offer(
    candidate: Candidate,
    attempts: &mut Attempts,
    sayings: &mut Sayings,
    sender: &Sender,
) -> Option<()> {
    if !attempts.may_try(&candidate, Instant::now()) {
        return Some(());
    }
    let (group, rule) = (candidate.group.clone(), candidate.rule);
    let (target, user) = (candidate.request.target.clone(), candidate.user);
    let (reply, outcome) = oneshot::channel();
    let started = Instant::now();
    let message = Message::Adopt { candidate, reply };
    sender.send(message).await.ok()?;
    match outcome.await.ok()? {
        Outcome::Nothing => return Some(()),
        Outcome::Adopted => {}
        Outcome::Refused(error) => sayings.say(rule, || {
            format!("{target} not adopted, as adopt rule {rule} says: {error}; tried again later")
        }),
    }
    attempts.note(group, user, Instant::now());
    sleep(REST * started.elapsed()).await;
    Some(())
}

#[derive(Debug)]
struct Found {
    candidates: Vec<Candidate>,
    extent: Extent,
}

/// What runs and fits a rule. What is within something else that does belongs to that.
fn candidates(
    rules: &AdoptRules,
    accounts: &Accounts,
    users: &mut UsersOfJobs,
) -> Result<Found, String> {
    let fits = |path: &str| rules.find(path).is_some();
    let running = running_groups(fits, |path| rules.reach_below(path));
    let running = running.map_err(|error| chain(&error))?;
    users.keep(running.groups.iter());
    Ok(Found {
        candidates: outermost(running.groups, rules, |group| users.of(group, accounts)),
        extent: running.extent,
    })
}

/// Of groups of which those above come first.
fn outermost(
    groups: Vec<RunningGroup>,
    rules: &AdoptRules,
    mut user_of: impl FnMut(&RunningGroup) -> Option<u32>,
) -> Vec<Candidate> {
    let mut chosen: Vec<Candidate> = Vec::new();
    let mut within = std::collections::BTreeSet::new();
    for group in groups {
        let above = group
            .path
            .match_indices('/')
            .map(|(end, _)| &group.path[..end]);
        if above.into_iter().any(|above| within.contains(above)) {
            continue;
        }
        if let Some(Wanted { rule, request }) = rules.find(&group.path) {
            within.insert(group.path.clone());
            if let Some(user) = user_of(&group) {
                chosen.push(Candidate {
                    group,
                    user,
                    rule,
                    request,
                });
            }
        }
    }
    chosen
}

/// What was tried, by group.
#[derive(Debug, Default)]
struct Attempts {
    last: BTreeMap<RunningGroup, Attempt>,
    /// Of ordinary users at this look.
    of_users: BTreeMap<u32, u32>,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    again: Instant,
    after: Duration,
}

impl Attempts {
    /// Begins a look at which these were found.
    fn forget_others(&mut self, found: &[Candidate]) {
        self.of_users.clear();
        let mut last = std::mem::take(&mut self.last);
        let kept = found
            .iter()
            .filter_map(|candidate| last.remove_entry(&candidate.group));
        self.last = kept.collect();
    }

    fn may_try(&self, candidate: &Candidate, now: Instant) -> bool {
        let tried = self.of_users.get(&candidate.user).copied().unwrap_or(0);
        let last = self.last.get(&candidate.group);
        tried < OF_ONE_USER && last.is_none_or(|last| last.again <= now)
    }

    fn note(&mut self, group: RunningGroup, user: u32, now: Instant) {
        if !is_privileged(user) {
            *self.of_users.entry(user).or_default() += 1;
        }
        let before = self.last.get(&group);
        let after = before.map_or(LOOK, |before| (before.after * 2).min(LONGEST));
        let again = now + after;
        self.last.insert(group, Attempt { again, after });
    }
}

/// What was said of each rule, so that no user fills the log.
#[derive(Debug, Default)]
struct Sayings {
    of_rules: BTreeMap<usize, Said>,
    extent: Extent,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    at: Instant,
    not_said: u32,
}

impl Sayings {
    fn say(&mut self, rule: usize, what: impl FnOnce() -> String) {
        if let Some(line) = self.line(rule, what, Instant::now()) {
            tracing::warn!("{line}");
        }
    }

    /// What is to be said: once a minute for a rule.
    fn line(&mut self, rule: usize, what: impl FnOnce() -> String, now: Instant) -> Option<String> {
        let mut more = 0;
        if let Some(said) = self.of_rules.get_mut(&rule) {
            if now < said.at + SAY {
                said.not_said += 1;
                return None;
            }
            more = said.not_said;
        }
        let said = Said {
            at: now,
            not_said: 0,
        };
        self.of_rules.insert(rule, said);
        let what = what();
        Some(match more {
            0 => what,
            more => format!("{what} (and {more} more in the meantime)"),
        })
    }

    fn say_extent(&mut self, extent: Extent) {
        if extent == Extent::Part && self.extent == Extent::Whole {
            tracing::warn!("there are more control groups than are read for the rules that adopt");
        }
        self.extent = extent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::adopt_rules::AdoptRules;
    use crate::config::file::ConfigFile;

    fn group(path: &str) -> RunningGroup {
        RunningGroup {
            path: path.to_owned(),
            inode: 1,
            owner: 0,
        }
    }

    fn chosen(text: &str, paths: &[&str]) -> Vec<Candidate> {
        let rules = AdoptRules::resolve(&ConfigFile::parse(text).unwrap().adopt).unwrap();
        let groups = paths.iter().map(|path| group(path)).collect();
        let (accounts, mut users) = (Accounts::default(), UsersOfJobs::default());
        outermost(groups, &rules, |group| users.of(group, &accounts))
    }

    #[test]
    fn what_is_within_something_that_a_rule_names_belongs_to_that() {
        let rules = "[[adopt]]\nunit = \"session-*.scope\"\n[[adopt]]\nunit = \"user-*.slice\"\n";
        let slice = "/user.slice/user-1000.slice";
        let paths = [slice, "/user.slice/user-1000.slice/session-3.scope"];
        let chosen = chosen(rules, &paths);
        assert_eq!(chosen.len(), 1);
        assert_eq!((chosen[0].group.path.as_str(), chosen[0].rule), (slice, 2));
        assert_eq!(chosen[0].user, 1000);
    }

    #[test]
    fn what_was_tried_is_tried_again_ever_later_and_at_least_each_minute() {
        let candidate = chosen(
            "[[adopt]]\nunit = \"a.service\"\n",
            &["/system.slice/a.service"],
        );
        let candidate = candidate.into_iter().next().unwrap();
        let (mut attempts, mut now) = (Attempts::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..10 {
            attempts.forget_others(std::slice::from_ref(&candidate));
            assert!(attempts.may_try(&candidate, now));
            attempts.note(candidate.group.clone(), candidate.user, now);
            assert!(!attempts.may_try(&candidate, now));
            let again = attempts.last[&candidate.group].again;
            waits.push((again - now).as_secs_f64());
            now = again;
        }
        assert_eq!(waits[..3], [0.5, 1.0, 2.0]);
        assert_eq!(waits[8..], [60.0, 60.0]);
        // Started anew, it is another.
        let mut anew = candidate.clone();
        anew.group.inode = 2;
        assert!(attempts.may_try(&anew, now));
        attempts.forget_others(&[]);
        assert!(attempts.may_try(&candidate, now));
    }

    #[test]
    fn one_user_has_few_attempts_at_a_look() {
        let user = rustix::process::geteuid().as_raw() + 1000;
        let candidate = chosen("[[adopt]]\ncgroup = \"/jobs/*\"\n", &["/jobs/1"]);
        let mut candidate = candidate.into_iter().next().unwrap();
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        candidate.user = user;
        for number in 0..OF_ONE_USER {
            assert!(attempts.may_try(&candidate, now));
            attempts.note(group(&format!("/jobs/of-user-{number}")), user, now);
        }
        assert!(!attempts.may_try(&candidate, now));
        candidate.user = user + 1;
        assert!(attempts.may_try(&candidate, now));
    }

    #[test]
    fn what_a_rule_cannot_adopt_is_said_once_a_minute() {
        let (mut sayings, now) = (Sayings::default(), Instant::now());
        let mut line = |rule, after| {
            let now = now + Duration::from_secs(after);
            sayings.line(rule, || "refused".to_owned(), now)
        };
        assert_eq!(line(1, 0).as_deref(), Some("refused"));
        assert_eq!(line(1, 1), None);
        assert_eq!(line(1, 59), None);
        assert_eq!(line(2, 59).as_deref(), Some("refused"));
        let more = line(1, 61);
        assert_eq!(
            more.as_deref(),
            Some("refused (and 2 more in the meantime)")
        );
    }
}
