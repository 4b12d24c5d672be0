//! The start of a decision of the policies that climb.
//!
//! A climber compares measurements, which means something only while every application's count is the one
//! decided last, the machine is the same, and no application came or left.

use crate::accounting::{CpuAccounting, Note};
use crate::entitlement::{self, Entitlement};
use crate::table::AppTable;
use mapper_model::Snapshot;

/// The memory of a climber.
pub(crate) trait Remembered {
    fn newcomer() -> Self;
    fn decided(&self) -> u32;
}

/// Whether this decision goes on from the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Situation {
    /// It does.
    Same,
    /// Applications, counts, entitlements or usable CPUs changed.
    Changed,
}

#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) entitled: Vec<Entitlement>,
    pub(crate) accounts: CpuAccounting,
    /// A note for each application with its fair share and nothing else.
    pub(crate) notes: Vec<Note>,
    pub(crate) situation: Situation,
}

/// Starts a decision, and updates `entitled_before` and `usable_before` from the last one.
pub(crate) fn open<T: Remembered>(
    snapshot: &Snapshot<'_>,
    min_cpus: u32,
    table: &mut AppTable<T>,
    entitled_before: &mut Vec<Entitlement>,
    usable_before: &mut u32,
) -> Opening {
    let changes = table.sync(snapshot.apps.iter().map(|a| a.app), T::newcomer);
    let entitled = entitlement::entitlements(snapshot, min_cpus);
    let accounts = CpuAccounting::open(snapshot);
    let moved = table
        .iter()
        .enumerate()
        .any(|(place, remembered)| remembered.decided() != accounts.count(place));
    let usable = snapshot.usable.len();
    let changed =
        changes.changed() || moved || *usable_before != usable || *entitled_before != entitled;
    *usable_before = usable;
    entitled_before.clone_from(&entitled);
    let notes = entitled
        .iter()
        .map(|owed| Note {
            fair: owed.fair,
            ..Note::default()
        })
        .collect();
    Opening {
        entitled,
        accounts,
        notes,
        situation: if changed {
            Situation::Changed
        } else {
            Situation::Same
        },
    }
}
