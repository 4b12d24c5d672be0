//! The view a policy decides from: borrowed, read-only, complete.

use crate::{AppId, AppSpec, CpuSet, MachineProfile, Profile, Topology, Trigger};

/// What allocation and placement policies see.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// Counts the decisions, from 1.
    pub tick: u64,
    /// Monotonic time of the readings.
    pub now_ns: u64,
    /// Why the decision is taken.
    pub trigger: Trigger,
    /// The machine.
    pub topology: &'a Topology,
    /// CPUs that may be given out; a subset of the topology's.
    pub usable: &'a CpuSet,
    /// Thresholds of the machine.
    pub machine: &'a MachineProfile,
    /// The applications in order of arrival.
    pub apps: &'a [AppView<'a>],
}

/// One application as a policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct AppView<'a> {
    /// The application.
    pub app: AppId,
    /// Its wishes and its promise.
    pub spec: &'a AppSpec,
    /// What is known of it.
    pub profile: &'a Profile,
    /// The CPUs it holds by the last plan, less those not usable or allowed; empty for a newcomer.
    pub held: &'a CpuSet,
    /// The usable CPUs that it may use, if not all; never empty. All applications of a snapshot can
    /// have one each ([`Assignment`](crate::Assignment)).
    pub allowed: Option<&'a CpuSet>,
}
