//! A direction between two nodes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A direction that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("node pair \"{0}\": write two node numbers as in \"0-1\"")]
pub struct PairSyntax(String);

/// A direction between two nodes; written `from-to`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pair {
    /// The node that the data leave.
    pub from: usize,
    /// The node that the data reach.
    pub to: usize,
}

impl Pair {
    /// The direction from one node to another.
    pub const fn new(from: usize, to: usize) -> Self {
        Self { from, to }
    }

    /// The other direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self {
            from: self.to,
            to: self.from,
        }
    }

    /// The pair whatever the direction: the lower node first.
    #[must_use]
    pub fn unordered(self) -> Self {
        if self.from <= self.to {
            self
        } else {
            self.reversed()
        }
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.from, self.to)
    }
}

impl From<Pair> for String {
    fn from(pair: Pair) -> Self {
        pair.to_string()
    }
}

impl TryFrom<String> for Pair {
    type Error = PairSyntax;

    fn try_from(text: String) -> Result<Self, PairSyntax> {
        let parsed = text
            .split_once('-')
            .and_then(|(from, to)| Some(Self::new(from.parse().ok()?, to.parse().ok()?)));
        parsed.ok_or(PairSyntax(text))
    }
}
