//! From the runs to the figures of the report: pure functions.

pub(crate) mod judge;
pub(crate) mod mix;
pub(crate) mod results;
pub(crate) mod speed;
pub(crate) mod summary;
