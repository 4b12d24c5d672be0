//! What outlives the daemon.

pub(crate) mod kept_pages;
pub(crate) mod saved;
pub(crate) mod saver;
pub(crate) mod takeover;
pub(crate) mod trusted_directory;
