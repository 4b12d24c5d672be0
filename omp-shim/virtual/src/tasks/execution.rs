//! What a member keeps of the task that it executes.

use core::cell::{OnceCell, RefCell};
use std::sync::Arc;

use super::dependences::Dependences;
use super::task::{Children, Group, Task};

/// A task that is executed, implicit or explicit.
#[derive(Default)]
pub(crate) struct Execution {
    children: OnceCell<Arc<Children>>,
    /// The innermost task group that it is in.
    pub(super) group: RefCell<Option<Arc<Group>>>,
    /// Tasks that it makes are executed at once.
    pub(super) is_final: bool,
    pub(super) dependences: RefCell<Dependences>,
}

impl Execution {
    /// Of a task that `maker` executes at once.
    pub(super) fn within(maker: &Self, is_final: bool) -> Self {
        let group = maker.group.borrow().clone();
        Self::new(group, is_final || maker.is_final)
    }

    pub(super) fn of(task: &Task) -> Self {
        Self::new(task.group.clone(), task.is_final)
    }

    fn new(group: Option<Arc<Group>>, is_final: bool) -> Self {
        Self {
            group: RefCell::new(group),
            is_final,
            ..Self::default()
        }
    }

    pub(super) fn children(&self) -> &Arc<Children> {
        self.children.get_or_init(Arc::default)
    }

    pub(super) fn has_unfinished_children(&self) -> bool {
        self.children
            .get()
            .is_some_and(|children| !children.are_finished())
    }

    /// Whether it has made that task, and that one was deferred.
    pub(super) fn has_made(&self, task: &Task) -> bool {
        let children = self.children.get();
        children.is_some_and(|children| Arc::ptr_eq(children, &task.siblings))
    }
}
