//! What is measured, as data: programs, settings, experiments, and what is expected of them.
//!
//! The files are `programs.toml`, `real.toml`, `settings.toml` and `experiments/*.toml` of this package, and are
//! compiled in.
//! Everything here is plain data and is checked when it is read; an error names the file, the entry and the key.

pub(crate) mod experiment;
mod figures;
mod program;
mod reader;
mod real;
mod setting;

pub(crate) use experiment::*;
pub(crate) use figures::*;
pub(crate) use program::*;
pub(crate) use reader::*;
pub(crate) use real::Recipe;
pub(crate) use setting::*;
