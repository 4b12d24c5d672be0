//! The entry points that gcc emits, as libgomp has them.

pub(crate) mod cancel;
pub(crate) mod legacy;
pub(crate) mod loops;
pub(crate) mod regions;
