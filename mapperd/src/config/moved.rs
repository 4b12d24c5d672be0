use std::fmt;

/// A key or table that the file gives at its place in earlier versions.
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
