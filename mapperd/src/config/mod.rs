//! The command line, the configuration file and their defaults. A value that was read is valid.

pub(crate) mod access;
pub(crate) mod accounts;
pub(crate) mod adopt_rules;
pub(crate) mod args;
pub(crate) mod file;
pub(crate) mod former_places;
mod hints;
pub(crate) mod interval;
pub(crate) mod moved;
pub(crate) mod parse;
mod pattern;
pub(crate) mod peer;
pub(crate) mod program_rules;
pub(crate) mod ranges;
pub(crate) mod settings;
pub(crate) mod types;
