//! Most calls of clients, a file each, and the permission checks.
//!
//! The signature of a handler names the state that it touches. What has to follow comes back as an
//! [`Effect`](effect::Effect), on which the loop acts.

pub(crate) mod adopt;
pub(crate) mod advise;
pub(crate) mod effect;
pub(crate) mod explain;
pub(crate) mod history;
pub(crate) mod launch;
pub(crate) mod permit;
pub(crate) mod policies;
pub(crate) mod promise;
pub(crate) mod release;
pub(crate) mod reload;
pub(crate) mod reloads;
pub(crate) mod report;
pub(crate) mod terms;
