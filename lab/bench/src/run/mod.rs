//! Runs programs side by side.

pub(crate) mod calibration;
pub(crate) mod daemon;
pub(crate) mod launch;
pub(crate) mod observe;
pub(crate) mod processes;
pub(crate) mod schedule;
pub(crate) mod shares;
pub(crate) mod stage;
