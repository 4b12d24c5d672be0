//! Adopts what the rules of the configuration name: now, and whenever it starts again.
//!
//! The groups with processes are read twice a second, apart from the deciding thread, and each that fits a rule is adopted
//! by the message that a call of root would be. One that could not be is tried again, less and less often. One that was
//! released stays released until it starts anew or the rules change.

use crate::config::adopt_rules::{AdoptRules, Wanted};
use crate::socket::message::{Message, Sender};
use mapper_control::ErrorReply;
use mapper_host::chain;
use mapper_host::enforce::cgroup::{RunningGroup, running_groups};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep};

/// How often it is looked what runs.
const LOOK: Duration = Duration::from_millis(500);

/// The longest time until what could not be adopted is tried again.
const LONGEST: Duration = Duration::from_secs(60);

/// What was tried with a group.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Tried {
    Adopted,
    Refused {
        why: String,
        again: Instant,
        after: Duration,
    },
}

/// Adopts until the daemon ends. Without rules it waits for some.
pub(crate) async fn run(mut rules: watch::Receiver<AdoptRules>, sender: Sender) {
    let mut tried = BTreeMap::new();
    loop {
        if rules.has_changed().unwrap_or(true) {
            tried.clear();
        }
        let present = rules.borrow_and_update().clone();
        if present.is_empty() {
            if rules.changed().await.is_err() {
                return;
            }
            continue;
        }
        let wanted = tokio::task::spawn_blocking(move || wanted(&present)).await;
        let wanted = wanted.unwrap_or_default();
        tried.retain(|group, _| wanted.contains_key(group));
        for (group, Wanted { rule, request }) in wanted {
            if !is_due(tried.get(&group), Instant::now()) {
                continue;
            }
            let (reply, answer) = oneshot::channel();
            let target = request.target.clone();
            if sender
                .send(Message::Adopt { request, reply })
                .await
                .is_err()
            {
                return;
            }
            let Ok(answer) = answer.await else {
                return;
            };
            let before = tried.remove(&group);
            let now = note(before.as_ref(), answer, Instant::now());
            if let Tried::Refused { why, .. } = &now
                && !matches!(&before, Some(Tried::Refused { why: known, .. }) if known == why)
            {
                tracing::warn!(
                    "{target} not adopted, as adopt rule {rule} says: {why}; tried again later"
                );
            }
            tried.insert(group, now);
        }
        sleep(LOOK).await;
    }
}

/// What runs and fits a rule.
fn wanted(rules: &AdoptRules) -> BTreeMap<RunningGroup, Wanted> {
    let found = running_groups(|path| rules.reach_below(path));
    let found = found.unwrap_or_else(|error| {
        tracing::warn!("control groups not read: {}", chain(&error));
        Vec::new()
    });
    let fits = |group: RunningGroup| Some((group.clone(), rules.find(&group.path)?));
    found.into_iter().filter_map(fits).collect()
}

fn is_due(tried: Option<&Tried>, now: Instant) -> bool {
    match tried {
        None => true,
        Some(Tried::Adopted) => false,
        Some(Tried::Refused { again, .. }) => *again <= now,
    }
}

fn note(before: Option<&Tried>, answer: Result<(), ErrorReply>, now: Instant) -> Tried {
    let Err(error) = answer else {
        return Tried::Adopted;
    };
    let after = match before {
        Some(Tried::Refused { after, .. }) => (*after * 2).min(LONGEST),
        _ => LOOK,
    };
    Tried::Refused {
        why: error.to_string(),
        again: now + after,
        after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::permit::invalid;

    #[tokio::test]
    async fn what_was_refused_is_tried_again_ever_later_and_at_least_each_minute() {
        let mut now = Instant::now();
        let mut tried = None;
        let mut waits = Vec::new();
        for _ in 0..10 {
            assert!(is_due(tried.as_ref(), now));
            let refused = Err(invalid("it has no process".to_owned()));
            tried = Some(note(tried.as_ref(), refused, now));
            assert!(!is_due(tried.as_ref(), now));
            let Some(Tried::Refused { again, .. }) = tried else {
                panic!("{tried:?}");
            };
            waits.push((again - now).as_secs_f64());
            now = again;
        }
        assert_eq!(waits[..3], [0.5, 1.0, 2.0]);
        assert_eq!(waits[8..], [60.0, 60.0]);
        let adopted = note(tried.as_ref(), Ok(()), now);
        assert!(!is_due(Some(&adopted), now + 2 * LONGEST));
    }
}
