//! One application: the masks of its threads, and how far the pass over them has come.

use crate::enforce::masks;
use crate::{HostError, chain};
use mapper_model::{AppId, CpuSet, ThreadId};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Masks from before the last changes that are remembered of an application.
pub(super) const STALE: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Confined {
    pub(super) account: u32,
    /// The account of its first process: another's, if root launched it.
    pub(super) owner: u32,
    /// The last set applied; empty before the first.
    pub(super) cpus: CpuSet,
    pub(super) threads: BTreeMap<ThreadId, Mask>,
    /// Begins with each pass over all threads, and anew with each change.
    pub(super) round: u64,
    /// The round that began with this pass: another one if the CPUs changed since.
    pub(super) pass: u64,
    /// The process and the place among its threads where the pass continues; `None` between passes.
    pub(super) at: Option<(u32, usize)>,
    /// The interval in which the last pass ended.
    pub(super) whole_at: u64,
    /// The last of the masks that threads may still have from before a change. Emptied when every thread is set.
    pub(super) stale: Vec<CpuSet>,
    pub(super) refusal_logged: bool,
    pub(super) before: Option<Before>,
    pub(super) leaving: Option<Leaving>,
}

/// How far the release of an application has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leaving {
    /// All threads get all CPUs.
    Freeing,
    /// Those of an adopted one from this on get what they had before.
    PuttingBack(ThreadId),
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Before {
    /// Of the process that was named: threads started since get it.
    pub(super) first: CpuSet,
    pub(super) threads: BTreeMap<u32, ThreadBefore>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ThreadBefore {
    /// When it started: its number may be another's by the time it is put back.
    pub(super) started_ticks: u64,
    pub(super) mask: CpuSet,
}

#[derive(Debug, Default)]
pub(super) struct Mask {
    pub(super) in_force: CpuSet,
    pub(super) own: Option<CpuSet>,
    /// The round in which it was looked at.
    pub(super) round: u64,
}

impl Confined {
    /// Looks at the mask of a thread, and sets it if it has to be another. Returns whether it had to be set.
    pub(super) fn settle(&mut self, thread: ThreadId) -> Result<bool, HostError> {
        let Ok(now) = masks::get(thread) else {
            return Ok(false);
        };
        let target = &self.cpus;
        let mask = self.threads.entry(thread).or_default();
        mask.round = self.round;
        if target.is_empty() {
            return Ok(false);
        }
        let narrows = |cpus: &CpuSet| now.is_subset(cpus) && now != *cpus;
        if mask.in_force.is_empty() {
            if !self.stale.contains(&now) {
                mask.own = narrows(target).then(|| now.clone());
            }
        } else if now != mask.in_force {
            // Perhaps under a set from before a change, after which it has not been looked at.
            let chosen = narrows(target) || self.stale.iter().any(narrows);
            mask.own = chosen.then(|| now.clone());
        }
        let wanted = match &mask.own {
            Some(own) if !own.is_disjoint(target) => own.intersection(target),
            _ => target.clone(),
        };
        if now == wanted {
            mask.in_force = now;
            return Ok(false);
        }
        let set = masks::set(thread, &wanted);
        // The kernel leaves out CPUs that it does not allow. Without an answer the thread has just ended.
        match masks::get(thread) {
            Ok(in_force) => mask.in_force = in_force,
            Err(_) => mask.round = 0,
        }
        match set {
            Err(error) if !error.is_gone() => Err(error),
            _ => Ok(true),
        }
    }

    /// Set-uid programs cannot be confined; the rest of the application is all the same.
    pub(super) fn noted(
        &mut self,
        app: AppId,
        refused: Option<HostError>,
    ) -> Result<(), HostError> {
        match refused {
            Some(error) if error.errno() == Some(Errno::PERM) => {
                if !std::mem::replace(&mut self.refusal_logged, true) {
                    tracing::warn!(
                        app = app.0,
                        "a thread cannot be confined, it may run on all CPUs: {}",
                        chain(&error)
                    );
                }
                Ok(())
            }
            refused => refused.map_or(Ok(()), Err),
        }
    }

    /// Has all threads looked at for a new set. A pass goes on: begun again, it would never end while changes come.
    pub(super) fn change_to(&mut self, cpus: &CpuSet) {
        let before = std::mem::replace(&mut self.cpus, cpus.clone());
        self.stale.retain(|mask| *mask != before);
        if self.stale.len() == STALE {
            self.stale.remove(0);
        }
        self.stale.push(before);
        self.round += 1;
    }
}
