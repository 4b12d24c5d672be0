//! The control socket: connections, calls, quotas, and the messages that reach the daemon.

pub(crate) mod arrivals;
pub(crate) mod message;
pub(crate) mod paths;
pub(crate) mod quota;
pub(crate) mod server;
