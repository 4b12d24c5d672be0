//! What a check of the team modes needs.

use crate::catalogue::Catalogue;
use crate::environment::Environment;
use mapper_control::schema::Wishes;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What is to be checked, and with what.
#[derive(Debug)]
pub(crate) struct Check<'a> {
    pub(crate) program: &'a Path,
    pub(crate) command: &'a [OsString],
    pub(crate) shim: PathBuf,
    /// Where the result goes.
    pub(crate) catalogue: Catalogue,
    /// The launcher's own.
    pub(crate) environment: &'a Environment,
    /// Threads, loops and CPUs as the user wants them.
    pub(crate) wishes: &'a Wishes,
}
