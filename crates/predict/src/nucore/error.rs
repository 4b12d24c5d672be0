//! Inputs that the bandwidth program refuses; every message names the place, the value and the fix.

use crate::nucore::pair::Pair;
use thiserror::Error;

/// A machine, a demand or an allocation that is invalid.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum NuCoreError {
    /// A list whose length does not fit.
    #[error("{what} has {got} entries, expected {expected}")]
    Length {
        /// Which list.
        what: String,
        /// Its length.
        got: usize,
        /// The length that fits.
        expected: usize,
    },
    /// A node that the machine does not have.
    #[error("{place}: there is no node {node}, the machine has nodes 0 to {last}")]
    NoSuchNode {
        /// Where it is named.
        place: String,
        /// The node as named.
        node: usize,
        /// The last node that there is.
        last: usize,
    },
    /// A number that is negative, infinite or not a number.
    #[error("{place} is {value}: give a finite number of 0 or more")]
    BadNumber {
        /// Where it stands.
        place: String,
        /// The number as given.
        value: f64,
    },
    /// A local demand table that does not start at 0.
    #[error("{place} starts with {value}: no core asks for nothing, start with 0")]
    DemandOfNoCore {
        /// Which table.
        place: String,
        /// Its first entry.
        value: f64,
    },
    /// A link or a demand from a node to itself.
    #[error("{place} names pair {pair}: a node does not reach itself over a link")]
    SelfPair {
        /// Where it is named.
        place: String,
        /// The pair.
        pair: Pair,
    },
    /// Both directions of an unordered pair, with different values.
    #[error("{place} gives {pair} as {one} and as {other}: give one value")]
    TwoValues {
        /// Where they are given.
        place: String,
        /// The pair.
        pair: Pair,
        /// One value.
        one: f64,
        /// The other.
        other: f64,
    },
    /// A route that is not a path of links from the one node to the other.
    #[error("route {pair} is {route:?}: give a path of physical links from {} to {}", pair.from, pair.to)]
    BadRoute {
        /// The pair.
        pair: Pair,
        /// The route as given.
        route: Vec<usize>,
    },
    /// Demand between nodes that nothing connects.
    #[error("{place} asks for {pair}, which has neither a physical link nor a route: add one")]
    Unconnected {
        /// Where the demand stands.
        place: String,
        /// The pair.
        pair: Pair,
    },
    /// More cores asked for than there are.
    #[error("{place} needs {wanted} cores of {available}: ask for at most {available}")]
    TooManyCores {
        /// Where.
        place: String,
        /// Cores asked for.
        wanted: u64,
        /// Cores there are.
        available: u64,
    },
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
