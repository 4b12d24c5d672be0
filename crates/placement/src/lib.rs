//! Placement policies: which CPUs each application may use, given how many.
//!
//! The machine is not uniform: threads that share data are fast within one last-level cache and
//! slow across sockets, threads that stream want several memory controllers, busy threads do not
//! want to share a core. A policy ([`PlacementPolicy`]) turns an [`Allocation`](mapper_model::Allocation)
//! into CPU sets that respect this, and leaves everybody where it is as long as that is good enough.
//!
//! ```text
//! topology, usable ─► layout ──┐                                        (layout)
//! shares, profiles ─► demands ─┴► keep ─► afresh? ─► placement          (demand, order, place, result)
//!                                  │        │
//!           trim, domains, free_cpus        contention
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
pub mod config;
mod contention;
mod demand;
mod domains;
mod free_cpus;
mod layout;
pub mod linear;
mod machine_view;
pub mod nupoco_swap;
pub mod order;
mod place;
pub mod policy;
pub mod registry;
pub mod residency;
mod result;
pub mod sam_mph;
pub mod spread;
mod trim;

pub use allowed::place;
pub use config::PlacementConfig;
pub use policy::PlacementPolicy;
pub use registry::{POLICIES, PolicyEntry, UnknownPolicy, find};
