//! Applications that have ended, for their reports and for the history.

use crate::config::accounts::Accounts;
use crate::registry::app::{App, AppRecord};
use crate::registry::provenance::Build;
use mapper_control::schema::Account;
use mapper_model::{AppId, AppName, ProgramKey, Qos, Spinning};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// In memory: so many may end at once before the launcher of the first has asked for its report.
const KEPT: usize = 1024;
/// In the history, and for the next daemon.
pub(crate) const SHOWN: usize = 100;

/// The last of each account: whose programs come and go all the time pushes out no other user's.
#[derive(Debug, Default)]
pub(crate) struct EndedApps(VecDeque<Arc<Ended>>);

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) app: AppId,
    pub(crate) name: AppName,
    pub(crate) uid: u32,
    pub(crate) requested_by: u32,
    /// Whose part of the history it takes.
    #[serde(default)]
    pub(crate) part_of: u32,
    pub(crate) command: String,
    pub(crate) qos: Qos,
    pub(crate) account: Account,
    pub(crate) exit_status: Option<u8>,
    pub(crate) ended_ns: u64,
    /// By what another run of it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<ProgramKey>,
    /// Which program it was, if its threads waited for one another by spinning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spun: Option<Build>,
    /// Which program it was, if its threads spun outside OpenMP, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spinning: Option<(Build, Spinning)>,
}

impl Ended {
    /// The application as if it ended now.
    pub(crate) fn now(app: &App, accounts: &Accounts, now_ns: u64) -> Self {
        let AppRecord {
            id,
            spec,
            command,
            uid,
            accounting,
            ..
        } = &app.record;
        Self {
            app: *id,
            name: spec.name.clone(),
            uid: *uid,
            requested_by: app.record.requested_by(),
            part_of: accounts.of(app.record.requested_by()),
            command: match app.record.origin.adoption() {
                Some(adoption) => adoption.target.to_string(),
                None => command.clone(),
            },
            qos: spec.qos,
            account: accounting.clone().finished(spec.qos),
            exit_status: app.exit_status,
            ended_ns: now_ns,
            program: Some(spec.program()),
            spun: app.spins(),
            spinning: app.record.build().zip(app.record.spinning),
        }
    }
}

impl EndedApps {
    pub(crate) fn add(&mut self, ended: Ended) {
        self.0.push_back(Arc::new(ended));
        if self.0.len() > KEPT {
            self.0 = self.latest_of_each(KEPT).into_iter().rev().collect();
        }
    }

    /// Forgets one whose launch is repeated.
    pub(crate) fn retract(&mut self, app: AppId) {
        self.0.retain(|ended| ended.app != app);
    }

    /// For the next daemon.
    pub(crate) fn to_save(&self) -> Vec<Arc<Ended>> {
        self.latest_of_each(SHOWN)
    }

    /// At most so many, the latest first: nobody has fewer than another while he has older ones.
    fn latest_of_each(&self, most: usize) -> Vec<Arc<Ended>> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for ended in &self.0 {
            *counts.entry(ended.part_of).or_default() += 1;
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable();
        let (mut left, mut each) = (most, most);
        for (before, count) in counts.iter().enumerate() {
            each = left / (counts.len() - before);
            if *count > each {
                break;
            }
            left -= count;
        }
        let mut taken: BTreeMap<u32, usize> = BTreeMap::new();
        let of_each = self.0.iter().rev().filter(|ended| {
            let taken = taken.entry(ended.part_of).or_default();
            *taken += 1;
            *taken <= each.max(1)
        });
        of_each.take(most).cloned().collect()
    }

    /// The launcher may report the status after the daemon has seen the end.
    pub(crate) fn note_status(&mut self, app: AppId, status: u8) {
        if let Some(ended) = self.0.iter_mut().rev().find(|ended| ended.app == app) {
            Arc::make_mut(ended).exit_status = Some(status);
        }
    }

    pub(crate) fn find(&self, app: AppId) -> Option<&Ended> {
        let found = self.0.iter().find(|ended| ended.app == app);
        found.map(Arc::as_ref)
    }

    /// The latest first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = &Arc<Ended>> {
        self.0.iter().rev()
    }

    /// What an earlier daemon saved, the latest first.
    pub(crate) fn continue_from(&mut self, saved: Vec<Arc<Ended>>) {
        self.0 = saved.into_iter().rev().collect();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn ended(app: u64, uid: u32) -> Ended {
        Ended {
            app: AppId(app),
            name: AppName::new("any").unwrap(),
            uid,
            requested_by: uid,
            part_of: uid,
            command: String::new(),
            qos: Qos::default(),
            account: Account::default(),
            exit_status: None,
            ended_ns: app,
            program: None,
            spun: None,
            spinning: None,
        }
    }

    #[test]
    fn a_user_whose_programs_end_all_the_time_pushes_no_other_users_out_of_the_history() {
        let mut apps = EndedApps::default();
        apps.add(ended(1, 7));
        apps.add(ended(2, 8));
        for app in 3..2000 {
            apps.add(ended(app, 9));
        }
        assert_eq!(apps.0.len(), KEPT);
        assert!(apps.find(AppId(1)).is_some() && apps.find(AppId(2)).is_some());
        let saved = apps.to_save();
        assert_eq!(saved.len(), SHOWN);
        assert_eq!(saved[0].app, AppId(1999), "the latest first");
        assert_eq!(saved[SHOWN - 1].app, AppId(1));
    }

    #[test]
    fn of_more_users_than_places_the_latest_are_kept() {
        let mut apps = EndedApps::default();
        for app in 0..1000 {
            apps.add(ended(app, u32::try_from(app).unwrap()));
        }
        let saved = apps.to_save();
        let saved: Vec<u64> = saved.iter().map(|ended| ended.app.0).collect();
        assert_eq!(saved, (900..1000).rev().collect::<Vec<u64>>());
    }
}
