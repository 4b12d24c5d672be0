//! What all features build on: the calling thread, the page, the runtimes and the team of a region.

pub(crate) mod adaptive_schedule;
pub(crate) mod attachment;
pub(crate) mod by_handle;
pub(crate) mod crew;
pub(crate) mod elf;
pub(crate) mod environment;
pub(crate) mod pass_on;
pub(crate) mod patience;
pub(crate) mod progress;
pub(crate) mod runtime;
pub(crate) mod shield;
pub(crate) mod symbols;
pub(crate) mod thread_state;
pub(crate) mod waits;
