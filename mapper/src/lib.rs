//! What `mapper` does beside starting programs (mapper-launch) and asking the daemon (mapperctl).

pub mod compare;
mod document;
pub mod page;
