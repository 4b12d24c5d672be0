//! The quantities of the models, each with its unit in the type.
//!
//! The papers mix rates and times under one letter ([readings N1]); a type for each keeps them
//! apart. Inputs are checked once: an existing rate or time is finite and not negative.

use crate::error::ModelError;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! input_quantity {
    ($(#[$doc:meta])* $name:ident, $message:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default, Serialize)]
        #[serde(transparent)]
        pub struct $name(f64);

        impl $name {
            /// None at all.
            pub const ZERO: Self = Self(0.0);

            /// Takes a finite number of zero or more.
            ///
            /// # Errors
            /// For any other number.
            pub fn new(value: f64) -> Result<Self, ModelError> {
                if value.is_finite() && value >= 0.0 {
                    // `+ 0.0` turns a negative zero into zero.
                    Ok(Self(value + 0.0))
                } else {
                    Err(ModelError::Invalid(format!(
                        concat!($message, ": give a finite number of 0 or more"),
                        value
                    )))
                }
            }

            /// The number.
            pub const fn get(self) -> f64 {
                self.0
            }

            /// For results of arithmetic on checked numbers.
            pub(crate) const fn known(value: f64) -> Self {
                Self(value)
            }
        }
    };
}

input_quantity! {
    /// Memory requests of one core in a cycle in which it does not wait for memory (the papers' MRR).
    RequestsPerCycle, "request rate {} per cycle"
}
input_quantity! {
    /// A time in clock cycles: of service, or of response.
    Cycles, "time {} cycles"
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
