//! Inputs that the models refuse; every message names the value and the fix.

use thiserror::Error;

/// An input for which the model has no answer.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A request rate that is negative, infinite or not a number.
    #[error("request rate {0} per cycle: give a finite number of 0 or more")]
    Rate(f64),
    /// A time that is negative, infinite or not a number.
    #[error("time {0} cycles: give a finite number of 0 or more")]
    Time(f64),
    /// A share outside 0 to 1.
    #[error("share {value} of the requests to {of}: give a number from 0 to 1")]
    Share {
        /// What the share is of.
        of: &'static str,
        /// The share as given.
        value: f64,
    },
    /// Shares over the memory nodes that do not add up to 1.
    #[error("shares over the memory nodes add up to {0}: make them add up to 1")]
    ShareSum(f64),
    /// A list whose length does not fit the machine.
    #[error("{what} has {got} entries, expected {expected}")]
    Length {
        /// Which list.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The length that fits.
        expected: usize,
    },
    /// A machine without what the model needs.
    #[error("the machine has no {0}: the model needs at least one")]
    Empty(&'static str),
    /// Cores handed out twice.
    #[error("{got} cores handed out of {available} on {place}: hand out at most {available}")]
    TooManyCores {
        /// Where.
        place: String,
        /// Cores handed out.
        got: u64,
        /// Cores there are.
        available: u64,
    },
    /// A measured request rate that the modelled controller cannot serve.
    #[error(
        "measured {measured} requests per unhalted cycle and core, but the modelled memory serves \
         less than {limit}: measure the service time again"
    )]
    Saturated {
        /// The measured rate.
        measured: f64,
        /// The rate at which the modelled memory saturates.
        limit: f64,
    },
    /// An exact solution whose state space is too large.
    #[error(
        "the exact solution needs {states} states for these core counts, limit {limit}: use \
         reading C"
    )]
    TooManyStates {
        /// States needed.
        states: u128,
        /// Most states that are computed.
        limit: u128,
    },
    /// A policy that reserves a unit for each application, with fewer units than applications.
    #[error("{workloads} workloads for {units} {unit}: share {unit} between workloads first")]
    MoreWorkloadsThan {
        /// Which unit.
        unit: &'static str,
        /// Workloads.
        workloads: usize,
        /// Units there are.
        units: usize,
    },
}
