//! A key of the configuration file that is given where it stood in earlier versions.

use std::fmt;

/// A key or table that the file gives at its former place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moved {
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(f, "{from} is now {to}; the former place still works")
    }
}
