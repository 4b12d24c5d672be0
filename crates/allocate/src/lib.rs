//! Allocation policies: how many CPUs each application may use.
//!
//! A policy ([`policy::AllocationPolicy`]) turns a snapshot of the applications into one share each.
//! They are all pure state machines behind one trait and are selected by name from one table
//! ([`registry::POLICIES`]); one property test takes every entry of that table through the shared
//! invariants.
//!
//! | module | policy | source |
//! |---|---|---|
//! | [`mapper`] | normalized efficiency under a promise, with stealing and tests | MAPPER §3.3 |
//! | [`mapper_paper`] | the same as printed | MAPPER §3.3 |
//! | [`mapper_next`] | the greatest predicted geometric mean under the promises | this project |
//! | [`fair`] | weighted fair shares | MAPPER §4.3 |
//! | [`equal`] | the same number each | NuPoCo §7.3 |
//! | [`hill_climb`] | hill climbing on performance alone | MAPPER §4.3 |
//! | [`nupoco`] | whole nodes for the highest system utilisation | NuPoCo §5.2 |
//! | [`max_speedup`] | clusters for the greatest sum of speedups | Cooperative §4.3 |
//! | [`nucore`] | per node as many cores as its memory can feed | NuCore §5 |
//! | [`scalability`] | hill climbing on CPU utilisation | C3PO as in NuPoCo §7.3 |
//!
//! The three that decide by a model share the frame [`model_driven`], those that climb the rules in
//! [`efficiency`]. [`shares`] holds the arithmetic of fair shares, [`allowed`] the limits of applications
//! that may not use every CPU, [`entitlement`] what each application is owed, [`accounting`] who holds how
//! many CPUs within a decision, [`table`] what is remembered of each.

pub mod accounting;
pub mod allowed;
pub mod chance;
pub mod config;
pub mod efficiency;
pub mod entitlement;
pub mod equal;
pub mod fair;
mod former;
pub mod hill_climb;
pub mod mapper;
pub mod mapper_next;
pub mod mapper_paper;
pub mod max_speedup;
pub mod model_driven;
pub mod nucore;
pub mod nupoco;
mod opening;
pub mod policy;
pub mod registry;
pub mod scalability;
pub mod section;
pub mod shares;
pub mod table;

pub use chance::{AtRandom, Probability};
pub use config::{Acceptance, AllocationConfig, ProfiledOn};
pub use policy::{AllocationPolicy, PolicyState, RestoreError};
pub use registry::{POLICIES, PolicyEntry, UnknownPolicy, find};
