//! Inputs that the models refuse.

use thiserror::Error;

/// An input for which the model has no answer.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// An invalid input; the text names the place, the value and the fix.
    #[error("{0}")]
    Invalid(String),
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
}

pub(crate) fn check_length(what: &str, got: usize, expected: usize) -> Result<(), ModelError> {
    if got == expected {
        return Ok(());
    }
    Err(ModelError::Invalid(format!(
        "{what} has {got} entries, expected {expected}"
    )))
}

pub(crate) fn check_cores(place: &str, got: u64, available: u32) -> Result<(), ModelError> {
    if got <= available.into() {
        return Ok(());
    }
    Err(ModelError::Invalid(format!(
        "{got} cores handed out of {available} on {place}: hand out at most {available}"
    )))
}

pub(crate) fn lacks(what: &str) -> ModelError {
    ModelError::Invalid(format!(
        "the machine has no {what}: the model needs at least one"
    ))
}

/// For a policy that reserves a unit for each workload.
pub(crate) fn check_workloads(workloads: usize, units: u64, unit: &str) -> Result<(), ModelError> {
    if workloads as u64 <= units {
        return Ok(());
    }
    Err(ModelError::Invalid(format!(
        "{workloads} workloads for {units} {unit}: share {unit} between workloads first"
    )))
}
