//! The entry points that clang emits, as libomp has them.

pub(crate) mod barrier;
pub(crate) mod dispatch;
pub(crate) mod location;
pub(crate) mod regions;
pub(crate) mod static_loops;
