//! NuCore: the cores of each node that use the memory bandwidth fully, and no more.
//!
//! Unknown are whole core counts a for each node (and application), local bandwidth L_i, and reads and
//! writes between nodes D_{j→i}, in GB/s [readings, NuCore]:
//!
//! ```text
//! L_i ≤ b_i(a_i)                     Ir_{j→i} ≤ a_i·r_{ji}     Iw_{j→i} ≤ a_j·w_{ji}
//! Σ_j D_{i→j} + β_i b_i(a_i) ≤ α_i   Σ_j D_{i→j} + L_i ≤ α_i
//! load of each physical link ≤ its limit, one way and both ways; the same for routes
//! 1  maximise Σ L + Σ D    2  fewest cores within 1e-4 of that    3  lexicographically largest a
//! ```
//!
//! Ties are broken node by node, and within a node application by application. [`DramCharge`]
//! selects the printed model or the corrected one [readings, issue 5].
//!
//! `problem` compiles it to flows, rows and tables by core count; `simplex` solves the linear
//! program for fixed core counts; `cut` turns each solution into a bound for all other core counts;
//! `search` walks the core counts and leaves every branch that the bounds exclude.
//!
//! Invariants: no node hands out more cores than it has; the bandwidth of a solution is that of
//! [`Program::bandwidth`]; no allocation of fewer cores comes within 1e-4 of the maximum.

mod build;
mod completion;
mod cut;
mod demand;
mod error;
mod lookahead;
mod machine;
mod pair;
mod parts;
mod problem;
mod search;
mod simplex;
mod solve;

pub use demand::Demand;
pub use error::NuCoreError;
pub use machine::{DramCharge, Machine, MachineSpec};
pub use pair::{Pair, PairSyntax};
pub use search::{Effort, EffortLimit};
pub use solve::{BandwidthPrediction, NodeAllocation, Program, RemoteFlow, Solution};
