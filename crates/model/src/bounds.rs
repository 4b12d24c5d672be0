//! Values that are checked once, when they are made.

/// A value outside the range its type allows.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{what} {value}: {hint}")]
pub struct OutOfRange {
    /// What the value is for.
    pub what: &'static str,
    /// The value as given.
    pub value: String,
    /// What would be accepted.
    pub hint: &'static str,
}
