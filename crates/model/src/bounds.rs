//! The error of values that are checked when they are made.

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

/// A number that is checked when it is made, and is written and read as a plain number; `$parse` reads what users type.
#[macro_export]
macro_rules! checked_f64 {
    ($(#[$doc:meta])* $name:ident, $what:literal, $ok:expr, $hint:literal) => {
        $crate::checked_f64! { $(#[$doc])* $name, $what, $ok, $hint, |text| text.parse().ok() }
    };
    ($(#[$doc:meta])* $name:ident, $what:literal, $ok:expr, $hint:literal, $parse:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, PartialOrd, Debug, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "f64", into = "f64")]
        pub struct $name(f64);

        impl $name {
            /// Checks the value.
            ///
            /// # Errors
            /// [`OutOfRange`]($crate::bounds::OutOfRange) for any other value.
            pub fn new(value: f64) -> Result<Self, $crate::bounds::OutOfRange> {
                let ok: fn(f64) -> bool = $ok;
                if ok(value) {
                    Ok(Self(value))
                } else {
                    Err($crate::bounds::OutOfRange { what: $what, value: value.to_string(), hint: $hint })
                }
            }

            /// The plain number.
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        impl TryFrom<f64> for $name {
            type Error = $crate::bounds::OutOfRange;
            fn try_from(value: f64) -> Result<Self, $crate::bounds::OutOfRange> {
                Self::new(value)
            }
        }

        impl From<$name> for f64 {
            fn from(value: $name) -> f64 {
                value.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::bounds::OutOfRange;
            fn from_str(text: &str) -> Result<Self, $crate::bounds::OutOfRange> {
                let parse: fn(&str) -> Option<f64> = $parse;
                match parse(text.trim()) {
                    Some(value) => Self::new(value),
                    None => Err($crate::bounds::OutOfRange { what: $what, value: format!("{text:?}"), hint: $hint }),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}
