//! The `depend` clauses of the tasks that one task makes.
//!
//! *Bounds.* `mutexinoutset` and `inoutset` are taken as `inout`: right, with fewer tasks at once.

use core::ffi::c_void;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::task::Task;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    Reads,
    Writes,
}

/// An item of a `depend` clause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Dependence {
    address: usize,
    access: Access,
}

impl Dependence {
    /// `omp_all_memory`.
    fn is_on_everything(self) -> bool {
        self.address == 0 && self.access == Access::Writes
    }
}

/// How a dependence object says that its task only reads.
const READS: usize = 1;

/// The list that gcc passes: its length and how many items write, then these, then those that read; or 0, the length, how
/// many write, exclude one another and read, then these and the dependence objects. Safety: it is such a list.
pub(super) unsafe fn read(list: *const *const c_void) -> Vec<Dependence> {
    // SAFETY: as the caller promises, for all places below.
    let at = |place: usize| unsafe { *list.add(place) } as usize;
    let (length, writers, plain, first) = match at(0) {
        0 => {
            let writers = at(2) + at(3);
            (at(1), writers, writers + at(4), 5)
        }
        length => (length, at(1), length, 2),
    };
    let item = |place: usize| {
        let address = at(first + place);
        let access = match place < writers {
            true => Access::Writes,
            false => Access::Reads,
        };
        if place < plain {
            return Dependence { address, access };
        }
        // SAFETY: a dependence object: an address and a kind.
        let [address, kind] = unsafe { *(address as *const [usize; 2]) };
        let access = match kind {
            READS => Access::Reads,
            _ => Access::Writes,
        };
        Dependence { address, access }
    };
    (0..length).map(item).collect()
}

/// Who writes and reads at one address, since it was last written.
#[derive(Default)]
struct Place {
    writer: Option<Arc<Task>>,
    readers: Vec<Arc<Task>>,
}

impl Place {
    fn tasks(&self) -> impl Iterator<Item = &Arc<Task>> {
        self.writer.iter().chain(&self.readers)
    }
}

/// So many places of finished tasks may be kept.
const MOST_STALE: usize = 256;

/// Which tasks were made with which dependences.
#[derive(Default)]
pub(super) struct Dependences {
    places: BTreeMap<usize, Place>,
    /// How many places were left when those of finished tasks were last removed.
    left: usize,
    on_everything: Option<Arc<Task>>,
}

impl Dependences {
    /// The tasks that have to be finished before one with these may begin; some more than once.
    pub(super) fn predecessors(&self, list: &[Dependence]) -> Vec<Arc<Task>> {
        let mut found: Vec<_> = self.on_everything.iter().cloned().collect();
        for dependence in list {
            if dependence.is_on_everything() {
                found.extend(self.places.values().flat_map(Place::tasks).cloned());
            }
            let Some(place) = self.places.get(&dependence.address) else {
                continue;
            };
            match dependence.access {
                Access::Reads => found.extend(place.writer.clone()),
                Access::Writes => found.extend(place.tasks().cloned()),
            }
        }
        found
    }

    /// Notes a task that is made with these.
    pub(super) fn note(&mut self, list: &[Dependence], task: &Arc<Task>) {
        if self.places.len() > MOST_STALE.max(2 * self.left) {
            let is_unfinished = |task: &Arc<Task>| !task.is_finished();
            self.places
                .retain(|_, place| place.tasks().any(is_unfinished));
            self.left = self.places.len();
        }
        for dependence in list {
            if dependence.is_on_everything() {
                self.places.clear();
                self.on_everything = Some(Arc::clone(task));
                continue;
            }
            let place = self.places.entry(dependence.address).or_default();
            match dependence.access {
                Access::Reads => {
                    if place.readers.len().is_power_of_two() {
                        place.readers.retain(|reader| !reader.is_finished());
                    }
                    place.readers.push(Arc::clone(task));
                }
                Access::Writes => {
                    place.readers.clear();
                    place.writer = Some(Arc::clone(task));
                }
            }
        }
    }

    /// All tasks that were noted are finished.
    pub(super) fn forget(&mut self) {
        self.places.clear();
        self.on_everything = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::task::Argument;
    use std::alloc::Layout;

    const OUT: Access = Access::Writes;
    const IN: Access = Access::Reads;

    fn on(address: usize, access: Access) -> Dependence {
        Dependence { address, access }
    }

    fn task() -> Arc<Task> {
        // SAFETY: no data.
        let argument =
            unsafe { Argument::copied(core::ptr::null_mut(), None, Layout::new::<()>()) };
        unsafe extern "C-unwind" fn body(_: *mut c_void) {}
        Task::new(Arc::default(), None, body, argument, false)
    }

    /// Which of the tasks made before each has to wait for.
    fn orders(lists: &[&[Dependence]]) -> Vec<Vec<usize>> {
        let mut dependences = Dependences::default();
        let mut made: Vec<Arc<Task>> = Vec::new();
        let number = |made: &[Arc<Task>], task: &Arc<Task>| {
            made.iter().position(|it| Arc::ptr_eq(it, task)).unwrap()
        };
        let mut orders = Vec::new();
        for list in lists {
            let mut order: Vec<usize> = dependences
                .predecessors(list)
                .iter()
                .map(|it| number(&made, it))
                .collect();
            order.sort_unstable();
            order.dedup();
            orders.push(order);
            let new = task();
            dependences.note(list, &new);
            made.push(new);
        }
        orders
    }

    #[test]
    fn readers_wait_for_the_last_writer_and_writers_for_all_since() {
        let lists: [&[Dependence]; 6] = [
            &[on(8, OUT)],
            &[on(8, IN)],
            &[on(8, IN), on(16, OUT)],
            &[on(8, OUT), on(8, IN)],
            &[on(24, IN)],
            &[on(16, IN), on(8, OUT)],
        ];
        let expected: [&[usize]; 6] = [&[], &[0], &[0], &[0, 1, 2], &[], &[2, 3]];
        assert_eq!(orders(&lists), expected);
    }

    #[test]
    fn what_depends_on_all_memory_comes_between_all_before_and_all_after() {
        let lists: [&[Dependence]; 5] = [
            &[on(8, OUT)],
            &[on(16, IN)],
            &[on(0, OUT)],
            &[on(24, IN)],
            &[on(0, OUT)],
        ];
        let expected: [&[usize]; 5] = [&[], &[], &[0, 1], &[2], &[2, 3]];
        assert_eq!(orders(&lists), expected);
    }

    #[test]
    fn both_forms_of_gcc_s_lists_are_read() {
        let address = |value: usize| value as *const c_void;
        let old = [3, 1, 8, 16, 24].map(address);
        let expected = [on(8, OUT), on(16, IN), on(24, IN)];
        // SAFETY: such a list.
        assert_eq!(unsafe { read(old.as_ptr()) }, expected);
        let object = [40_usize, READS];
        let new = [0, 4, 1, 1, 1, 8, 16, 24, object.as_ptr() as usize].map(address);
        let expected = [on(8, OUT), on(16, OUT), on(24, IN), on(40, IN)];
        // SAFETY: likewise.
        assert_eq!(unsafe { read(new.as_ptr()) }, expected);
    }
}
