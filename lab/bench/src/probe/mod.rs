//! Measurements of a running system: what the daemon costs, and how programs take a change of their CPUs.

pub(crate) mod crowd;
pub(crate) mod idle;
pub(crate) mod launch;
pub(crate) mod process;
pub(crate) mod resize;
pub(crate) mod slowdown;
