//! Placement policies: which CPUs each application may use, given how many.
//!
//! Threads that share data are fast within one last-level cache and slow across sockets, threads that
//! stream need several memory controllers, busy threads should not share a core. A policy
//! ([`PlacementPolicy`]) turns an [`Allocation`](mapper_model::Allocation) into CPU sets that respect this,
//! and moves applications only where that pays.
//!
//! ```text
//! topology, usable ─► layout ──┐                                        (layout)
//! shares, profiles ─► demands ─┴► keep ─► afresh? ─► placement          (demand, order, place, result)
//!                                  │        │
//!           trim, domains, free_cpus        contention
//! ```
//!
//! [`place`] asks a policy and keeps every application within the CPUs that it may use. `sam_mph` and its
//! ablations use all of this, `spread`, `nupoco_swap` and `linear` parts of it. The papers' building blocks
//! are public, pure functions: [`order::priority`] and [`residency`].

mod allowed;
mod config;
mod contention;
mod demand;
mod domains;
mod free_cpus;
mod layout;
mod linear;
mod machine_view;
mod nupoco_swap;
pub mod order;
mod place;
pub mod policy;
mod registry;
pub mod residency;
mod result;
mod sam_mph;
mod spread;
mod trim;

pub use allowed::place;
pub use config::PlacementConfig;
pub use policy::PlacementPolicy;
pub use registry::{POLICIES, PolicyEntry, UnknownPolicy, find};
