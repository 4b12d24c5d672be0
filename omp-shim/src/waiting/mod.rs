//! Threads that wait: parked without a CPU, or spinning for as long as it pays.

pub(crate) mod libgomp_spin;
pub(crate) mod loop_length;
pub(crate) mod parking;
pub(crate) mod spin_counts;
pub(crate) mod tasks;
