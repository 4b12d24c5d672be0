//! What a source of readings is, and what it reads.

use crate::enforce::Tasks;
use mapper_abi::PageReader;
use mapper_model::{AppId, CpuSet, Reading};
use std::fmt;
use std::path::Path;

/// Adds what it knows of an application to its readings.
pub trait CounterSource: fmt::Debug {
    /// What it reads, for logs and status.
    fn describe(&self) -> String;

    /// Reads one application.
    fn read(&mut self, subject: &Subject<'_>, reading: &mut Reading);

    /// Forgets an application.
    fn forget(&mut self, app: AppId);
}

/// The application to be read.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its id.
    pub app: AppId,
    /// Whose part of an interval it takes.
    pub account: u32,
    /// Its processes and threads.
    pub tasks: &'a Tasks,
    /// The CPUs in force for it.
    pub cpus: &'a CpuSet,
    /// The directory of its control group, if it has one of its own.
    pub group: Option<&'a Path>,
    /// The page it reports to.
    pub page: Option<&'a PageReader>,
    /// The CPU time of its group, where the kernel sums it up.
    pub group_cpu_time_ns: Option<u64>,
    /// Monotonic time at which the pass over all applications began.
    pub now_ns: u64,
    /// Monotonic time at which this one is read.
    pub read_ns: u64,
}

#[cfg(test)]
impl<'a> Subject<'a> {
    pub(super) fn of(app: AppId, tasks: &'a Tasks) -> Self {
        static NO_CPUS: std::sync::LazyLock<CpuSet> = std::sync::LazyLock::new(CpuSet::new);
        Self {
            app,
            account: 0,
            tasks,
            cpus: &NO_CPUS,
            group: None,
            page: None,
            group_cpu_time_ns: None,
            now_ns: 0,
            read_ns: 0,
        }
    }
}
