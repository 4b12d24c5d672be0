//! What clients ask for: one file for each call, and the permission checks.

pub(crate) mod adopt;
pub(crate) mod launch;
pub(crate) mod reload;
pub(crate) mod settling;
