//! Every call and every reply of `org.mapper.Control`.
//!
//! Field names here are the names on the wire, and those of `mapperctl status --json`. A reply may
//! gain fields without notice; a field never changes its meaning or unit without
//! [`PROTOCOL`](crate::PROTOCOL) growing. Times are in nanoseconds and say so; CPU sets are kernel
//! lists (`0-3,8`); what is not known is absent or null.
//!
//! What a request asks for is checked while it is read (a promise of 1.5 never gets as far as the
//! daemon's state), by the same types that check the command line.

mod adopt;
mod explain;
mod launch;
mod memory;
mod partition;
mod policies;
mod program;
mod reload;
mod report;
mod service;
mod status;
mod terms;

pub use adopt::{AdoptReply, AdoptRequest, AdoptTarget, ReleaseReply, ReleaseRequest};
pub use explain::{CurveEntry, DecisionEntry, ExplainReply, ExplainRequest};
pub use launch::{ExitedRequest, LaunchReply, LaunchRequest, ShimFile};
pub use memory::{MemoryPolicy, NotAMemoryPolicy};
pub use partition::{Partition, PartitionStatus};
pub use policies::{PoliciesReply, PolicyEntry, PolicyKind};
pub use program::{LinkedOpenMp, NotASchedule, NotThreads, Program, Schedule, Threads};
pub use reload::ReloadReply;
pub use report::{Account, ReportReply, ReportRequest};
pub use service::{GetInterfaceDescription, InterfaceDescription, ServiceInfo};
#[cfg(feature = "schema")]
pub use status::status_schema;
pub use status::{
    AppStatus, DaemonStatus, GivenReason, PerformanceStatus, RuntimeState, RuntimeStatus,
    Selection, SocketLayout, Status, StretchedInterval, TopologyStatus,
};
pub use terms::{BY_DEFAULT, RuntimeChoice, TeamsWish, Terms, Wish, Wishes};
