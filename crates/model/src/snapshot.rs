//! The view a policy decides from: borrowed, read-only, complete.

use crate::{AppId, AppSpec, CpuSet, MachineProfile, Profile, Topology, Trigger};

/// What allocation and placement policies see.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// Counts the decisions, from 1.
    pub tick: u64,
    /// Monotonic time of the readings.
    pub now_ns: u64,
    /// Why a decision is asked for.
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
    /// What it was promised.
    pub spec: &'a AppSpec,
    /// What the monitor knows of it.
    pub profile: &'a Profile,
    /// The CPUs it holds now by the last plan, less those that are no longer usable or allowed; empty
    /// for a newcomer.
    pub held: &'a CpuSet,
    /// The usable CPUs that it may use, if it may not use all: never empty. All applications of a
    /// snapshot can have one each at the same time ([`Assignment`](crate::Assignment)).
    pub allowed: Option<&'a CpuSet>,
}
