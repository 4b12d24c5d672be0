//! The quantities of the models, each with its unit in the type.
//!
//! The papers mix rates and times under one letter ([readings N1]); a type for each keeps them
//! apart. Inputs are checked once: an existing rate or time is finite and not negative.

use crate::error::ModelError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Memory requests of one core in a cycle in which it does not wait for memory (the papers' MRR).
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct RequestsPerCycle(f64);

impl RequestsPerCycle {
    /// No request at all.
    pub const ZERO: Self = Self(0.0);

    /// Takes a finite rate of zero or more.
    ///
    /// # Errors
    /// [`ModelError::Rate`] for anything else.
    pub fn new(requests_per_cycle: f64) -> Result<Self, ModelError> {
        if requests_per_cycle.is_finite() && requests_per_cycle >= 0.0 {
            // `+ 0.0` turns a negative zero into zero.
            Ok(Self(requests_per_cycle + 0.0))
        } else {
            Err(ModelError::Rate(requests_per_cycle))
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// For results of arithmetic on checked rates.
    pub(crate) const fn known(requests_per_cycle: f64) -> Self {
        Self(requests_per_cycle)
    }
}

/// A time in clock cycles: of service, or of response.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Cycles(f64);

impl Cycles {
    /// No time.
    pub const ZERO: Self = Self(0.0);

    /// Takes a finite time of zero or more.
    ///
    /// # Errors
    /// [`ModelError::Time`] for anything else.
    pub fn new(cycles: f64) -> Result<Self, ModelError> {
        if cycles.is_finite() && cycles >= 0.0 {
            Ok(Self(cycles + 0.0))
        } else {
            Err(ModelError::Time(cycles))
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// For results of arithmetic on checked times.
    pub(crate) const fn known(cycles: f64) -> Self {
        Self(cycles)
    }
}

macro_rules! result_quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, PartialOrd, Debug, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub f64);

        impl $name {
            /// The number.
            #[must_use]
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

result_quantity! {
    /// The busy share of a resource, 0 to 1; sums over several resources may exceed 1
    /// ([NuPoCo §3.3 eq. 6] adds CPU and memory controller, eq. 7 adds nodes).
    Utilisation
}
result_quantity! {
    /// How many times faster than alone on one core ([NuPoCo §3.3 eq. 1], [readings N3]).
    Speedup
}
result_quantity! {
    /// Memory bandwidth in gigabytes per second.
    GbPerSecond
}

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize,
            Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub usize);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

index! {
    /// A workload by its place in the list given to the model (arrival order).
    WorkloadIndex
}
index! {
    /// A node by its place in the machine given to the model (not the number Linux gives it).
    NodeIndex
}
