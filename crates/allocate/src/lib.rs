//! Allocation policies: how many CPUs each application may use.
//!
//! A policy ([`policy::AllocationPolicy`]) turns a snapshot of the applications into one share each.
//! They are all pure state machines behind one trait and are selected by name from one table
//! ([`registry::POLICIES`]); one property test takes every entry of that table through the shared
//! invariants.
//!
//! | module | policy | source |
//! |---|---|---|
//! | [`mapper`] | normalized efficiency under a promise, with stealing | MAPPER §3.3 |
//! | [`fair`] | weighted fair shares | MAPPER §4.3 |
//! | [`equal`] | the same number each | NuPoCo §7.3 |
//! | [`hill_climb`] | hill climbing on performance alone | MAPPER §4.3 |
//! | [`scalability`] | hill climbing on CPU utilisation | C3PO as in NuPoCo §7.3 |
//!
//! [`shares`] holds the arithmetic of fair shares, [`entitlement`] what each application is owed,
//! [`ledger`] the books in which CPUs change hands.

pub mod config;
pub mod entitlement;
pub mod equal;
pub mod fair;
pub mod hill_climb;
pub mod ledger;
pub mod mapper;
pub mod policy;
pub mod registry;
pub mod roll;
pub mod scalability;
pub mod section;
pub mod shares;

pub use config::{Acceptance, AllocationConfig};
pub use policy::{AllocationPolicy, PolicyState, RestoreError};
pub use registry::{POLICIES, PolicyEntry, UnknownPolicy, find};
