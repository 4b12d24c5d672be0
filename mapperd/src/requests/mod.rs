//! What clients ask for: one file for each call, and the permission checks.
//!
//! A handler takes the owners that it reads or changes, so that its signature says what it touches. What
//! has to follow is returned as an [`Effect`](effect::Effect), on which the loop acts.

pub(crate) mod adopt;
pub(crate) mod effect;
pub(crate) mod explain;
pub(crate) mod launch;
pub(crate) mod permit;
pub(crate) mod policies;
pub(crate) mod release;
pub(crate) mod reload;
pub(crate) mod report;
pub(crate) mod terms;
