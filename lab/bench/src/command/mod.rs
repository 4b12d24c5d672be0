//! The commands: what the arguments ask for, checked before anything takes time, and then done.

pub(crate) mod corun;
pub(crate) mod measure;
pub(crate) mod presets;
