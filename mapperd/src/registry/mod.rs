//! Which applications are managed, as plain data.

pub(crate) mod accounting;
pub(crate) mod page;
