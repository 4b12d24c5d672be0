//! The machine: what is measured on it, what is put in force on it, and what changes on it.

pub(crate) mod limited;
pub(crate) mod profile;
pub(crate) mod selection;
pub(crate) mod surroundings;
pub(crate) mod watch;
