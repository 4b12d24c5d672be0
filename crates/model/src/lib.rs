//! The vocabulary of mapper.
//!
//! Identifiers of hardware and applications ([`ids`]), sets of hardware threads ([`CpuSet`]), the
//! machine ([`Topology`]), what was read in one interval ([`Observation`]), what that says about an
//! application ([`Profile`]), what was decided ([`Allocation`], [`Placement`], [`Plan`]) and why
//! ([`Reason`]). No I/O, no clock, no global state; all types serialise.
//!
//! *CPU* means one hardware thread (what Linux numbers), *core* a physical core, *socket* a package,
//! *node* a NUMA node.

pub mod activity;
pub mod allocation;
pub mod app;
pub mod assignment;
pub mod bounds;
pub mod cpuset;
pub mod curve;
pub mod ids;
pub mod machine_profile;
pub mod observation;
pub mod placement;
pub mod plan;
pub mod profile;
pub mod random;
pub mod reason;
pub mod snapshot;
pub mod statistics;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod topology;

pub use activity::Activity;
pub use allocation::{Allocation, NodeShare, Placing, Share, Sharing, Transfer};
pub use app::{
    AppName, AppSpec, BuildKey, CpuRange, IdleTimeUse, Lending, ProgramKey, Qos, Resizing,
    TeamMode, Weight,
};
pub use assignment::{Assignment, Shortage};
pub use cpuset::CpuSet;
pub use curve::{CurvePoint, PerformanceCurve};
pub use ids::{AppId, CacheId, CoreId, CpuId, NodeId, SocketId, ThreadId};
pub use machine_profile::MachineProfile;
pub use observation::{
    AppObservation, CounterValue, Counters, Event, Fixed, MemoryTraffic, NodeTraffic, Observation,
    Reading, ReportedProgress, RuntimeProgress, SerialPhase, Spinning, ThreadReading, Trigger,
};
pub use placement::{AppPlacement, Placement, Strategy};
pub use plan::{Action, IdleTime, Loan, Plan, PlannedApp};
pub use profile::{
    Bottleneck, MemoryRate, NodeRate, Performance, PerformanceSource, PhaseChange, Profile, Rates,
    RegionPhase, SharingClass,
};
pub use reason::{Explanation, Reason};
pub use snapshot::{AppView, Snapshot};
pub use statistics::{Confidence, Estimate, Noise};
pub use topology::Topology;
