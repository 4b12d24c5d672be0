//! Inputs that the bandwidth program refuses.

use thiserror::Error;

/// A machine, a demand or an allocation that is invalid.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum NuCoreError {
    /// An invalid entry; the text names the place, the value and the fix.
    #[error("{0}")]
    Invalid(String),
    /// No allocation meets the memory limits and every application's least cores.
    #[error("no allocation satisfies all constraints: lower the least cores or the local demand")]
    Infeasible,
    /// An allocation whose local demand alone exceeds the memory of a node (eq. 11).
    #[error(
        "node {node}: local demand {demand} times its share {beta} exceeds the memory bandwidth \
         {alpha}: allocate fewer cores there"
    )]
    Overload {
        /// The node.
        node: usize,
        /// Local demand of the allocation.
        demand: f64,
        /// β of the node.
        beta: f64,
        /// α of the node.
        alpha: f64,
    },
    /// The effort limit ended the search before any allocation was found.
    #[error(
        "no allocation found within {programs} programs and {cut_tests} cut tests: allow more effort"
    )]
    Undecided {
        /// Programs allowed.
        programs: u64,
        /// Cut tests allowed.
        cut_tests: u64,
    },
    /// The linear program did not converge after so many pivots; never seen.
    #[error("the linear program did not settle after {0} steps: scale the bandwidths to GB/s")]
    Numerics(u64),
}
