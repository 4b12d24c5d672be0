//! NuCore: the cores of each node that use the memory bandwidth fully, and no more.
//!
//! The problem: on a NUMA machine a memory-bound application stops speeding up long before it has
//! all cores, and which cores it has decides what it gets. The unknowns are whole core counts for
//! each node (and application); bandwidths are GB/s.
//!
//! The program, in the clean reading [readings, NuCore]: core counts a, local bandwidth L_i, reads
//! and writes between nodes D_{j→i},
//!
//! ```text
//! L_i ≤ b_i(a_i)                     Ir_{j→i} ≤ a_i·r_{ji}     Iw_{j→i} ≤ a_j·w_{ji}
//! Σ_j D_{i→j} + β_i b_i(a_i) ≤ α_i   Σ_j D_{i→j} + L_i ≤ α_i
//! load of each physical link ≤ its limit, one way and both ways; the same for routes
//! 1  maximise Σ L + Σ D    2  fewest cores within 1e-4 of that    3  lexicographically largest a
//! ```
//!
//! [`DramCharge`] selects the printed model, which charges a write to the node it comes from, or
//! the corrected one, which charges it to the memory it goes to [readings, issue 5].
//!
//! The approach: `problem` compiles it to flows, rows and tables by core count and splits what is
//! independent; `simplex` solves the linear program that remains for fixed core counts; `cut` turns
//! each solution into a bound for all other core counts; `search` walks the core counts and leaves
//! every branch that the bounds exclude. No generic solver is near fast enough for a decision in
//! every interval.
//!
//! Several applications share the nodes; ties are then broken node by node, and within a node
//! application by application.
//!
//! Invariants: no node hands out more cores than it has; the predicted bandwidth of the solution
//! is that of [`Program::bandwidth`] for its allocation; no allocation of fewer cores comes within
//! 1e-4 of the maximum.

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
