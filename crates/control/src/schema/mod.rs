//! Every call and every reply of `org.mapper.Control`.
//!
//! Field names are those on the wire, and of `mapperctl status --json`. A reply may gain fields; a field changes its
//! meaning or unit only with [`PROTOCOL`](crate::PROTOCOL). Times are in nanoseconds, CPU sets are kernel lists
//! (`0-3,8`), and what is unknown is absent or null.
//!
//! Requests are checked while they are read, by the types that check the command line.

mod adopt;
mod advice;
mod explain;
mod launch;
mod memory;
mod partition;
mod policies;
mod program;
mod promise;
mod reload;
mod report;
mod service;
mod status;
mod terms;

pub use adopt::{AdoptReply, AdoptRequest, AdoptTarget, ReleaseReply, ReleaseRequest};
pub use advice::{AdviseReply, PairAdvice, ProgramAdvice};
pub use explain::{CurveEntry, DecisionEntry, ExplainReply, ExplainRequest};
pub use launch::{ExitedRequest, LaunchReply, LaunchRequest, ShimFile};
pub use memory::{MemoryPolicy, NotAMemoryPolicy};
pub use partition::{Partition, PartitionStatus};
pub use policies::{PoliciesReply, PolicyEntry, PolicyKind};
pub use program::{LinkedOpenMp, NotASchedule, NotThreads, Program, Schedule, Threads};
pub use promise::{PromiseReply, PromiseRequest};
pub use reload::ReloadReply;
pub use report::{Account, EndedApp, HistoryReply, ReportReply, ReportRequest};
pub use service::{GetInterfaceDescription, InterfaceDescription, ServiceInfo};
#[cfg(feature = "schema")]
pub use status::status_schema;
pub use status::{
    AppStatus, DaemonStatus, GivenReason, HeldUpChange, PerformanceStatus, RuntimeState,
    RuntimeStatus, Selection, SocketLayout, Status, StretchedInterval, TopologyStatus,
};
pub use terms::{BY_DEFAULT, RuntimeChoice, TeamsWish, Terms, Wish, Wishes};

use mapper_model::bounds::OutOfRange;

/// The default of `min_cpus`.
const fn one() -> u32 {
    1
}

fn out_of_range(what: &'static str, value: impl Into<String>, hint: &'static str) -> OutOfRange {
    let value = value.into();
    OutOfRange { what, value, hint }
}

fn check_pid(pid: u32, hint: &'static str) -> Result<u32, OutOfRange> {
    match i32::try_from(pid) {
        Ok(1..) => Ok(pid),
        _ => Err(out_of_range("pid", pid.to_string(), hint)),
    }
}
