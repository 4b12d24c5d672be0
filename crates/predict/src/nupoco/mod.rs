//! NuPoCo's models and its two algorithms [NuPoCo §3-5].
//!
//! ```text
//! queue ── smp ── colocation ── smp_policy      one memory controller (§3)
//!   └─ numa ── network ── dop                   a NUMA machine (§4), Algorithm 1 (§5.2)
//!          profile                              measured rates → model rates [readings N8]
//!          swap                                 Algorithm 2 (§5.3)
//! ```

pub mod colocation;
pub mod dop;
pub mod network;
pub mod numa;
pub mod profile;
pub mod queue;
pub mod smp;
pub mod smp_policy;
pub mod swap;
