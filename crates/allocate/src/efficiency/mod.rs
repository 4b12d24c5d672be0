//! Normalized efficiency under a promise: the rules of MAPPER that several policies build on.
//!
//! Problem: applications scale differently, and nothing tells how until they are seen at different CPU
//! counts; yet each is promised a share (85 %) of the performance it would have with a fair share of the
//! machine. Unit: CPUs; performance in the unit of each application's source, never compared across
//! applications. What is compared is *normalized efficiency*: performance per CPU over the best
//! performance per CPU ever seen of that application, 1 at its most efficient count.
//!
//! Approach [MAPPER §3.3, readings "MAPPER allocation"]: an application is measured at its fair share for
//! some intervals; then it tries other counts, one step at a time, in a direction that its bottleneck
//! suggests. CPUs for a larger count come from the free pool, then from less efficient applications, as
//! far as those can spare them without falling below their promises. What turns out to bring nothing is
//! undone, and so is a gift that breaks the giver's promise.
//!
//! | module | holds |
//! |---|---|
//! | [`metrics`] | equations 2 to 6 |
//! | [`exploration`] | direction, step and verdict of trying another count |
//! | [`evidence`] | the verdict where samples scatter |
//! | [`fit`] | what a scattering curve says around one count |
//! | [`stealing`] | one round of CPUs changing hands |
//! | [`membership`] | arrival and departure |
//! | `loans` | gifts, loans and how they come back |
//! | `member` | what is remembered of an application |
//! | `decision`, `changes`, `promise`, `growth` | one decision while it is being made |
//!
//! Types stand below behaviour: a policy opens a `Decision` and calls its steps in its own order.

pub(crate) mod changes;
pub(crate) mod decision;
pub mod evidence;
pub mod exploration;
pub mod fit;
pub(crate) mod growth;
pub(crate) mod loans;
pub(crate) mod member;
pub mod membership;
pub mod metrics;
pub(crate) mod promise;
pub mod stealing;
