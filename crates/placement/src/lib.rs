//! Mapping policies: which CPUs each application may use, given how many.
//!
//! The machine is not uniform: threads that share data are fast within one last-level cache and
//! slow across sockets, threads that stream want several memory controllers, busy threads do not
//! want to share a core. A policy ([`MappingPolicy`]) turns an [`Allocation`](mapper_model::Allocation)
//! into CPU sets that respect this, and leaves everybody where it is as long as that is good enough.
//!
//! ```text
//! topology, usable ─► layout ─┐                                        (layout)
//! shares, profiles ─► units ──┴► keep ─► afresh? ─► placement          (unit, order, place, result)
//!                                 │        │
//!                    trim, regions, seats  contention
//! ```
//!
//! [`place`] asks a policy and keeps every application within the CPUs that it may use.
//!
//! `sam_mph` and its ablations use all of this, `spread`, `nupoco_swap` and `linear` parts of it.
//! The papers' building blocks are public, pure functions: [`order::priority`] and
//! [`residency`].
//!
//! Invariants, checked by one property test for every policy: see [`policy`].

pub mod allowed;
mod board;
pub mod config;
mod contention;
mod layout;
pub mod linear;
pub mod nupoco_swap;
pub mod order;
mod place;
pub mod policy;
mod regions;
pub mod registry;
pub mod residency;
mod result;
pub mod sam_mph;
mod seats;
pub mod spread;
mod trim;
mod unit;

pub use allowed::place;
pub use config::MappingConfig;
pub use policy::MappingPolicy;
pub use registry::{POLICIES, PolicyEntry, UnknownPolicy, find};
