//! A change that the kernel does not finish.

use std::time::Duration;

/// What the kernel holds up, and what that stops. See [`cgroup`](super::cgroup).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldUp {
    /// The change: what was written, and where.
    pub change: String,
    /// For how long.
    pub lasting: Duration,
    /// Whether processes can join and leave groups meanwhile.
    pub moves: Moves,
}

impl HeldUp {
    /// What lasts longer is reported. Ordinary moves take some 20 to 60 ms where control groups are mounted without
    /// `favordynmods`.
    pub(crate) const LONG: Duration = Duration::from_millis(100);

    /// Whether it lasts longer than an ordinary change.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.lasting >= Self::LONG
    }
}

/// Whether processes can join and leave groups while a change is held up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moves {
    /// They can.
    Go,
    /// The kernel would hold them up, too, and with them all groups of the machine.
    Wait,
}
