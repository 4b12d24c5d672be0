//! What the daemon reports about itself and the applications.

pub(crate) mod logging;
pub(crate) mod metrics;
pub(crate) mod metrics_server;
pub(crate) mod record;
pub(crate) mod service;
pub(crate) mod status;
