//! Copies of libomp whose calls do not pass the shim: heard by OMPT.

pub(crate) mod abi;
pub(crate) mod copies;
pub(crate) mod events;
pub(crate) mod reach;
pub(crate) mod team;
pub(crate) mod tool;
