//! Real regions within a region of logical threads: what a thread leaves for one, and takes up again behind it.

use core::cell::Cell;
use core::ffi::c_void;

use crate::construct::Body;
use crate::logical::{self, Life};
use crate::runtime::Runtime;
use crate::symbols::Symbol;
use crate::thread_state::{self, Logical, ThreadState};

struct Nested {
    body: Body,
    outer: Logical,
}

unsafe extern "C-unwind" fn run_nested(nested: *mut c_void) {
    // SAFETY: it lies with the member that began the region until that has ended, and is not written meanwhile.
    let Nested { body, outer } = unsafe { nested.cast::<Nested>().read() };
    let thread = thread_state::current();
    let left = Left::now(thread, outer);
    // SAFETY: as the runtime would have called it.
    unsafe { (body.function)(body.data) };
    left.put_back(thread);
}

#[derive(Clone, Copy)]
struct Left {
    member: Option<Logical>,
    outer: Option<Logical>,
    life: Life,
}

impl Left {
    fn now(thread: &ThreadState, outer: Logical) -> Self {
        Self {
            member: thread.member.take(),
            outer: thread.outer.replace(Some(outer)),
            life: Life::now(),
        }
    }

    /// It is back. In the child of a fork within the region there is no team to come back to.
    fn put_back(self, thread: &ThreadState) {
        let same = self.life == Life::now();
        thread.member.set(self.member.filter(|_| same));
        thread.outer.set(self.outer.filter(|_| same));
    }
}

/// A real region within a virtual one that is begun by one call and ended by another.
pub struct OpenNested {
    nested: Nested,
    left: Cell<Option<Left>>,
}

impl OpenNested {
    /// With this body, if the calling thread is in a virtual region of that runtime's.
    pub fn within(thread: &ThreadState, runtime: &Runtime, body: Body) -> Option<Self> {
        let outer = thread.member.get().or(thread.outer.get())?;
        if !logical::is_of_runtime(runtime, Symbol::GOMP_parallel) {
            return None;
        }
        let nested = Nested { body, outer };
        let left = Cell::new(None);
        Some(Self { nested, left })
    }

    /// The team size to request from the runtime, which does not know that the virtual region is an active level.
    pub fn team(runtime: &Runtime, asked: u32) -> u32 {
        let levels = runtime.ask(Symbol::omp_get_active_level).saturating_add(1);
        match levels >= runtime.ask(Symbol::omp_get_max_active_levels) {
            true => 1,
            false => asked,
        }
    }

    /// What to start the threads with. It must not move from here on until the region has ended.
    pub fn body(&self) -> Body {
        Body {
            function: run_nested,
            data: (&raw const self.nested).cast_mut().cast(),
        }
    }

    /// The thread that began the region runs its own share, without [`body`](Self::body).
    pub fn enter(&self, thread: &ThreadState) {
        self.left.set(Some(Left::now(thread, self.nested.outer)));
    }

    /// The region has ended.
    pub fn leave(&self, thread: &ThreadState) {
        if let Some(left) = self.left.get() {
            left.put_back(thread);
        }
    }
}

/// Runs a region within a virtual one as a real one: `run` gets the team size and what to start.
pub fn nest<T>(
    thread: &ThreadState,
    runtime: &Runtime,
    body: Body,
    asked: u32,
    run: impl FnOnce(u32, Body) -> T,
) -> T {
    match OpenNested::within(thread, runtime, body) {
        Some(nested) => run(OpenNested::team(runtime, asked), nested.body()),
        None => run(asked, body),
    }
}
