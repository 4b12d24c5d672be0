//! Measurements of a running system: what the daemon costs, and how programs take a change of their CPUs.

pub(crate) mod crowd;
pub(crate) mod lending;
pub(crate) mod overhead;
pub(crate) mod process;
pub(crate) mod resize;
