//! Allocation policies: how many CPUs each application may use.
//!
//! A policy ([`AllocationPolicy`]) turns a snapshot of the applications into one share each. Policies are
//! pure state machines, selected by name from one table ([`POLICIES`]); one property test takes every
//! entry through the shared invariants.
//!
//! | module | policy | source |
//! |---|---|---|
//! | `mapper` | normalized efficiency under a promise, with stealing and tests | MAPPER §3.3 |
//! | [`mapper_paper`] | the same as printed | MAPPER §3.3 |
//! | [`mapper_next`] | the greatest predicted geometric mean under the promises | this project |
//! | `fair` | weighted fair shares | MAPPER §4.3 |
//! | `equal` | the same number each | NuPoCo §7.3 |
//! | [`hill_climb`] | hill climbing on performance alone | MAPPER §4.3 |
//! | `nupoco` | whole nodes for the highest system utilisation | NuPoCo §5.2 |
//! | `max_speedup` | clusters for the greatest sum of speedups | Cooperative §4.3 |
//! | `nucore` | per node as many cores as its memory can feed | NuCore §5 |
//! | [`scalability`] | hill climbing on CPU utilisation | C3PO as in NuPoCo §7.3 |
//!
//! Those that decide by a model share the frame `model_driven`, those that climb the rules in [`efficiency`].

pub mod accounting;
mod allowed;
mod chance;
pub mod config;
pub mod efficiency;
mod entitlement;
mod equal;
mod fair;
mod former;
pub mod hill_climb;
mod mapper;
pub mod mapper_next;
pub mod mapper_paper;
mod max_speedup;
mod model_driven;
mod nucore;
mod nupoco;
mod opening;
mod policy;
mod registry;
pub mod scalability;
mod section;
pub mod shares;
mod table;

pub use chance::{AtRandom, Probability};
pub use config::{Acceptance, AllocationConfig, ProfiledOn};
pub use policy::{AllocationPolicy, KnownProgram, PolicyState, RestoreError};
pub use registry::{DEFAULT, POLICIES, PolicyEntry, UnknownPolicy, find};
