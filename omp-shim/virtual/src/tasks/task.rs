//! Explicit tasks that are deferred: their data, their relations, what they wait for.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mapper_shim_core::construct::Outlined;

/// Copies a task's data from where its maker has them.
pub(super) type CopyData = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The deferred tasks that one task has made.
#[derive(Default)]
pub(super) struct Children {
    unfinished: AtomicU32,
}

impl Children {
    pub(super) fn are_finished(&self) -> bool {
        self.unfinished.load(Ordering::Acquire) == 0
    }
}

/// The tasks made within a task group, and by them.
pub(super) struct Group {
    unfinished: AtomicU32,
    pub(super) outer: Option<Arc<Group>>,
}

impl Group {
    pub(super) fn within(outer: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self {
            unfinished: AtomicU32::new(0),
            outer,
        })
    }

    pub(super) fn is_finished(&self) -> bool {
        self.unfinished.load(Ordering::Acquire) == 0
    }
}

/// A task's data, in memory of its own.
pub(super) struct Argument {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the program makes the data for whichever thread executes the task.
unsafe impl Send for Argument {}
// SAFETY: only who executes the task uses them.
unsafe impl Sync for Argument {}

impl Argument {
    /// Copied from `data`, by `copy` if there is one. Safety: as gcc passes them for a task.
    pub(super) unsafe fn copied(data: *mut c_void, copy: Option<CopyData>, layout: Layout) -> Self {
        let start = match layout.size() {
            0 => Some(NonNull::dangling()),
            // SAFETY: the size is not zero.
            _ => NonNull::new(unsafe { alloc(layout) }),
        };
        let Some(start) = start else {
            handle_alloc_error(layout);
        };
        let to = start.as_ptr();
        match copy {
            // SAFETY: as the caller promises; there is room as it asks for.
            Some(copy) => unsafe { copy(to.cast(), data) },
            None if layout.size() == 0 => {}
            // SAFETY: likewise.
            None => unsafe { to.copy_from_nonoverlapping(data.cast(), layout.size()) },
        }
        Self { start, layout }
    }

    pub(super) fn address(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }
}

impl Drop for Argument {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: allocated with that layout, and the task is over.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

/// What a task waits for before it is ready, and what waits for it.
#[derive(Default)]
struct Order {
    is_finished: bool,
    predecessors: u32,
    successors: Vec<Arc<Task>>,
}

/// A task that is deferred.
pub(super) struct Task {
    body: Outlined,
    /// Until it is executed.
    argument: Mutex<Option<Argument>>,
    pub(super) siblings: Arc<Children>,
    pub(super) group: Option<Arc<Group>>,
    pub(super) is_final: bool,
    order: Mutex<Order>,
}

impl Task {
    pub(super) fn new(
        siblings: Arc<Children>,
        group: Option<Arc<Group>>,
        body: Outlined,
        argument: Argument,
        is_final: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            body,
            argument: Mutex::new(Some(argument)),
            siblings,
            group,
            is_final,
            order: Mutex::default(),
        })
    }

    /// Executes it. Safety: once, for a member.
    pub(super) unsafe fn call(&self) {
        let argument = lock(&self.argument).take();
        if let Some(argument) = argument {
            // SAFETY: the data are those that the program made for it.
            unsafe { (self.body)(argument.address()) };
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        lock(&self.order).is_finished
    }

    /// It exists from now on.
    pub(super) fn count(&self) {
        self.siblings.unfinished.fetch_add(1, Ordering::Relaxed);
        if let Some(group) = &self.group {
            group.unfinished.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Has it wait for `others`; returns whether it need not. Under the pool's lock.
    pub(super) fn follow(self: &Arc<Self>, others: &[Arc<Self>]) -> bool {
        let mut unfinished = 0;
        for other in others {
            let mut order = lock(&other.order);
            if !order.is_finished {
                order.successors.push(Arc::clone(self));
                unfinished += 1;
            }
        }
        lock(&self.order).predecessors = unfinished;
        unfinished == 0
    }

    /// It has been executed; returns those that are ready now. Under the pool's lock.
    pub(super) fn finish(&self) -> Vec<Arc<Self>> {
        let mut successors = {
            let mut order = lock(&self.order);
            order.is_finished = true;
            core::mem::take(&mut order.successors)
        };
        successors.retain(|successor| {
            let mut order = lock(&successor.order);
            order.predecessors -= 1;
            order.predecessors == 0
        });
        self.siblings.unfinished.fetch_sub(1, Ordering::Release);
        if let Some(group) = &self.group {
            group.unfinished.fetch_sub(1, Ordering::Release);
        }
        successors
    }
}
