//! What is measured, as data: programs, settings, experiments, and what is expected of them.
//!
//! The files are `programs.toml`, `settings.toml` and `experiments/*.toml` of this package, and are compiled in.
//! Everything here is plain data and is checked when it is read; an error names the file, the entry and the key.

pub(crate) mod bound;
pub(crate) mod experiment;
pub(crate) mod figures;
pub(crate) mod program;
pub(crate) mod reader;
pub(crate) mod setting;
