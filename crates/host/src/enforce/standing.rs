//! Whether the CPUs of an application are its alone.

use std::fmt;

/// How an application's CPUs stand to the rest of the machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Its CPUs are given to no other application, but the rest of the system may run there.
    Member,
    /// Nothing else runs there: its CPUs are an isolated partition of the machine.
    Isolated,
    /// It was to be isolated, and is a member, for this reason.
    NotIsolated(String),
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member => f.pad("member"),
            Self::Isolated => f.pad("isolated"),
            Self::NotIsolated(why) => write!(f, "not isolated: {why}"),
        }
    }
}
