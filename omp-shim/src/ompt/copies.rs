//! The copies of libomp that are observed through OMPT.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::ompt::abi::{AnyFunction, Data, GetParallelInfo, GetTaskInfo, GetThreadData};
use crate::ompt::team::Sizing;

pub(crate) const ROOM: usize = 4;

#[derive(Debug)]
pub(crate) struct Copy {
    pub(super) get_thread_data: AtomicPtr<c_void>,
    pub(super) get_parallel_info: AtomicPtr<c_void>,
    pub(super) get_task_info: AtomicPtr<c_void>,
    pub(crate) sizing: Sizing,
}

impl Copy {
    const fn new() -> Self {
        Self {
            get_thread_data: AtomicPtr::new(null_mut()),
            get_parallel_info: AtomicPtr::new(null_mut()),
            get_task_info: AtomicPtr::new(null_mut()),
            sizing: Sizing::new(),
        }
    }

    pub(crate) fn thread_data(&self) -> Option<&'static Data> {
        let function = self.get_thread_data.load(Ordering::Relaxed);
        // SAFETY: a function of that name has this type; null becomes `None`.
        let get = unsafe { core::mem::transmute::<AnyFunction, Option<GetThreadData>>(function) }?;
        // SAFETY: it takes nothing; the word, which only the calling thread uses, stays as long as the thread.
        unsafe { get().as_ref() }
    }

    /// Whether the calling thread, which is about to begin a region, is in none.
    pub(crate) fn is_outside_regions(&self) -> bool {
        let function = self.get_parallel_info.load(Ordering::Relaxed);
        // SAFETY: as above.
        let get = unsafe { core::mem::transmute::<AnyFunction, Option<GetParallelInfo>>(function) };
        // Level 0 is the thread's own team; there is another one around it only within a region.
        // SAFETY: only whether there is one is requested.
        get.is_some_and(|get| unsafe { get(1, null_mut(), null_mut()) } == 0)
    }

    pub(crate) fn thread_num(&self) -> u32 {
        let function = self.get_task_info.load(Ordering::Relaxed);
        // SAFETY: as above.
        let get = unsafe { core::mem::transmute::<AnyFunction, Option<GetTaskInfo>>(function) };
        let mut number = 0;
        let nothing = null_mut();
        if let Some(get) = get {
            // SAFETY: `number` is a place for the answer; the others are not asked for.
            unsafe { get(0, null_mut(), nothing, null_mut(), nothing, &raw mut number) };
        }
        u32::try_from(number).unwrap_or(0)
    }
}

pub(super) static COPIES: [Copy; ROOM] = [const { Copy::new() }; ROOM];

#[inline(always)]
pub(crate) fn copy<const N: usize>() -> &'static Copy {
    const {
        assert!(N < ROOM);
    }
    #[expect(clippy::indexing_slicing, reason = "N is within, by the assertion")]
    &COPIES[N]
}
