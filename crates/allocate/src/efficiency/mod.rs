//! Normalized efficiency under a promise: the rules of MAPPER that several policies build on.
//!
//! Applications scale differently, which shows only at different CPU counts; yet each is promised a share
//! (85 %) of the performance it would have with a fair share of the machine. Performance is in the unit
//! of each application's source and never compared across applications; *normalized efficiency* is:
//! performance per CPU over the best ever seen of that application.
//!
//! An application is measured at its fair share for some intervals; then it tries other counts, one step
//! at a time, in a direction by its bottleneck [MAPPER §3.3, readings "MAPPER allocation"]. CPUs for a
//! larger count come from the free pool, then from less efficient applications, as far as those can spare
//! them. What brings nothing is undone, and so is a gift that breaks the giver's promise.
//!
//! A policy opens a `Decision` and calls its steps (`changes`, `promise`, `growth`) in its own order.

pub(crate) mod changes;
pub(crate) mod decision;
pub(crate) mod evidence;
pub mod exploration;
pub(crate) mod fit;
pub(crate) mod growth;
pub(crate) mod loans;
pub(crate) mod member;
pub mod membership;
pub mod metrics;
pub(crate) mod promise;
pub mod stealing;
