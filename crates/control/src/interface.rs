//! The interfaces in Varlink's own language.

/// The name of mapper's interface.
pub const INTERFACE: &str = "org.mapper.Control";

/// What [`INTERFACE`] offers.
pub const INTERFACE_DESCRIPTION: &str = include_str!("org.mapper.Control.varlink");

/// The name of the interface that every Varlink service has.
pub const SERVICE_INTERFACE: &str = "org.varlink.service";

/// What [`SERVICE_INTERFACE`] offers.
pub const SERVICE_DESCRIPTION: &str = include_str!("org.varlink.service.varlink");

/// The full names of the methods.
pub(crate) mod method {
    pub(crate) const LAUNCH: &str = "org.mapper.Control.Launch";
    pub(crate) const EXITED: &str = "org.mapper.Control.Exited";
    pub(crate) const STATUS: &str = "org.mapper.Control.Status";
    pub(crate) const EXPLAIN: &str = "org.mapper.Control.Explain";
    pub(crate) const POLICIES: &str = "org.mapper.Control.Policies";
    pub(crate) const REPORT: &str = "org.mapper.Control.Report";
    pub(crate) const ADVISE: &str = "org.mapper.Control.Advise";
    pub(crate) const HISTORY: &str = "org.mapper.Control.History";
    pub(crate) const ADOPT: &str = "org.mapper.Control.Adopt";
    pub(crate) const RELEASE: &str = "org.mapper.Control.Release";
    pub(crate) const PROMISE: &str = "org.mapper.Control.Promise";
    pub(crate) const RELOAD: &str = "org.mapper.Control.Reload";
    pub(crate) const GET_INFO: &str = "org.varlink.service.GetInfo";
    pub(crate) const GET_INTERFACE_DESCRIPTION: &str =
        "org.varlink.service.GetInterfaceDescription";
}
