//! The memory of a policy for each application, in the order of the snapshot.

use mapper_model::AppId;
use serde::{Deserialize, Serialize};

/// One entry for each application.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct AppTable<T> {
    entries: Vec<Entry<T>>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Entry<T> {
    app: AppId,
    memory: T,
}

/// How many applications came and left in a sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Changes {
    came: usize,
    left: usize,
}

impl Changes {
    /// Whether an application came or left.
    pub(crate) const fn changed(self) -> bool {
        self.came + self.left > 0
    }
}

impl<T> Default for AppTable<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
        }
    }
}

impl<T> AppTable<T> {
    /// Brings the entries into the order of `apps`: adds new ones, drops those that left.
    pub(crate) fn sync(
        &mut self,
        apps: impl ExactSizeIterator<Item = AppId>,
        newcomer: impl Fn() -> T,
    ) -> Changes {
        let count = apps.len();
        let mut came = 0;
        let entries = &mut self.entries;
        for (place, app) in apps.enumerate() {
            if entries.get(place).is_some_and(|e| e.app == app) {
                continue;
            }
            // After one has left, all that follow are found one place behind.
            match (place..entries.len()).find(|&i| entries[i].app == app) {
                Some(found) => entries.swap(place, found),
                None => {
                    came += 1;
                    let memory = newcomer();
                    entries.insert(place, Entry { app, memory });
                }
            }
        }
        let left = entries.len() - count;
        entries.truncate(count);
        Changes { came, left }
    }

    pub(crate) fn at(&self, place: usize) -> &T {
        &self.entries[place].memory
    }

    pub(crate) fn at_mut(&mut self, place: usize) -> &mut T {
        &mut self.entries[place].memory
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.entries.iter().map(|e| &e.memory)
    }

    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = (AppId, &T)> {
        self.entries.iter().map(|e| (e.app, &e.memory))
    }

    pub(crate) fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut T> {
        self.entries.iter_mut().map(|e| &mut e.memory)
    }

    pub(crate) fn place_of(&self, app: AppId) -> Option<usize> {
        self.entries.iter().position(|e| e.app == app)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_application_keeps_its_entry_when_others_come_and_leave() {
        let mut table: AppTable<u64> = AppTable::default();
        let sync = |table: &mut AppTable<u64>, ids: &[u64]| {
            table.sync(ids.iter().map(|&id| AppId(id)), || 0)
        };
        assert_eq!(sync(&mut table, &[1, 2, 3, 4]).came, 4);
        for (memory, value) in table.iter_mut().zip([10, 20, 30, 40]) {
            *memory = value;
        }
        let changes = sync(&mut table, &[2, 4, 5]);
        assert_eq!(changes, Changes { came: 1, left: 2 });
        assert!(table.iter().eq(&[20, 40, 0]));
        sync(&mut table, &[5, 4, 2]);
        assert!(table.iter().eq(&[0, 40, 20]));
        assert_eq!(table.place_of(AppId(4)), Some(1));
    }
}
