//! How a decision of the policies that climb begins.
//!
//! A climber compares what it measures with what it measured before, which means something only as
//! long as every application's count is the one that was decided last, the machine is the same, and nobody
//! came or left. Everything that has to be looked at for this is done here, for all such policies:
//! the table is called, what each is owed is computed, the books are opened.

use crate::accounting::{CpuAccounting, Note};
use crate::entitlement::{self, Entitlement};
use crate::table::AppTable;
use mapper_model::Snapshot;

/// What a climber remembers, as far as it matters for the begin of a decision.
pub(crate) trait Remembered {
    /// What is remembered of a newcomer.
    fn newcomer() -> Self;
    /// The count decided last.
    fn decided(&self) -> u32;
}

/// Whether this decision goes on from the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Situation {
    /// It does.
    Same,
    /// An application came or left, holds another count than was decided or is owed another one, or the
    /// usable CPUs are others.
    Changed,
}

/// The begin of a decision.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) entitled: Vec<Entitlement>,
    pub(crate) accounts: CpuAccounting,
    /// A note for each application with its fair share and nothing else.
    pub(crate) notes: Vec<Note>,
    pub(crate) situation: Situation,
}

/// Begins a decision. `entitled_before` is what every application was owed in the last one, and is brought
/// up to date.
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
