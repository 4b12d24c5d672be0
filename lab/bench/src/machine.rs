//! The machine the figures come from, and what else it was doing.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};
use procfs::{CpuInfo, Current as _, CurrentSI as _, KernelStats, LoadAverage, Meminfo};
use serde::Serialize;

use mapper_report::workspace;

/// A description of the machine and of the software that was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    /// CPUs this task may use.
    pub(crate) cpus: usize,
    pub(crate) l3_kib: Option<u64>,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
    /// Under a hypervisor, as far as the CPU tells.
    pub(crate) virtual_machine: bool,
    pub(crate) compilers: Vec<String>,
    pub(crate) revision: String,
    pub(crate) date: String,
    /// Load average of the minute before the measuring began.
    pub(crate) load_average_before: f64,
}

impl Machine {
    /// One whose names need care in markup.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        Self {
            cpu: "A CPU <with> \"marks\" & signs".to_owned(),
            cpus: 2,
            compilers: vec!["gcc 12".to_owned()],
            date: "2025-01-01 00:00 UTC".to_owned(),
            ..Self::default()
        }
    }

    /// This machine, of which the task may use so many CPUs.
    pub(crate) fn describe(cpus: usize, compilers: &[&str]) -> Self {
        let cpu = CpuInfo::current().ok();
        let field = |name: &str| cpu.as_ref().and_then(|cpu| cpu.get_field(0, name));
        let mut flags = field("flags").unwrap_or_default().split(' ');
        let version = |compiler: &&str| first_line(Command::new(compiler).arg("--version"));
        let mut git = Command::new("git");
        git.current_dir(workspace::root());
        Self {
            cpu: field("model name").unwrap_or("unknown").to_owned(),
            cpus,
            l3_kib: l3_kib(&read("/sys/devices/system/cpu/cpu0/cache/index3/size")),
            memory_mib: Meminfo::current().map_or(0, |memory| memory.mem_total >> 20),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            virtual_machine: flags.any(|flag| flag == "hypervisor"),
            compilers: compilers.iter().map(version).collect(),
            revision: first_line(git.args(["describe", "--always", "--dirty"])),
            date: first_line(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])),
            load_average_before: LoadBefore::now().map_or(0.0, |load| load.load_average),
        }
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn first_line(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout);
    let text = String::from_utf8(output.unwrap_or_default()).unwrap_or_default();
    let line = text.lines().next().filter(|line| !line.is_empty());
    line.unwrap_or("unknown").to_owned()
}

fn l3_kib(size: &str) -> Option<u64> {
    size.trim().strip_suffix('K')?.parse().ok()
}

/// How busy the machine was just before a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct LoadBefore {
    /// Load average of the minute, of which earlier runs are a part.
    pub(crate) load_average: f64,
    /// Threads on a CPU or waiting for one, but for the one that asks.
    pub(crate) runnable: u32,
}

impl LoadBefore {
    pub(crate) fn now() -> anyhow::Result<Self> {
        let load = LoadAverage::current();
        load.map(|of| Self::of(&of)).context("read /proc/loadavg")
    }

    fn of(load: &LoadAverage) -> Self {
        Self {
            // The kernel writes two places.
            load_average: f64::from((load.one * 100.0).round()) / 100.0,
            runnable: load.cur.saturating_sub(1),
        }
    }
}

/// What else used the CPUs during the measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Disturbance {
    /// CPUs that processes other than the measured ones kept busy, on average.
    pub(crate) other_processes_cpus: f64,
    /// CPUs' worth of time that the hypervisor gave to other machines, on average.
    pub(crate) stolen_cpus: f64,
}

/// The state of the machine's clocks at the beginning, to compare with the end.
pub(crate) struct DisturbanceMeter {
    begun: Instant,
    busy: Duration,
    stolen: Duration,
    own: Duration,
}

impl DisturbanceMeter {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let (busy, stolen) = machine_time(&KernelStats::current().context("read /proc/stat")?);
        Ok(Self {
            begun: Instant::now(),
            busy,
            stolen,
            own: own_time()?,
        })
    }

    /// What was not ours since the start. Everything we started must have been reaped.
    pub(crate) fn finish(self) -> anyhow::Result<Disturbance> {
        let now = Self::start()?;
        let elapsed_s = (now.begun - self.begun).as_secs_f64().max(1e-3);
        let since = |now: Duration, then| now.saturating_sub(then);
        let others = since(since(now.busy, self.busy), since(now.own, self.own));
        Ok(Disturbance {
            other_processes_cpus: others.as_secs_f64() / elapsed_s,
            stolen_cpus: since(now.stolen, self.stolen).as_secs_f64() / elapsed_s,
        })
    }
}

/// CPU time of this task and of all its children that have been reaped.
fn own_time() -> anyhow::Result<Duration> {
    let mut total = TimeVal::zero();
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who).context("ask for the CPU time used")?;
        total = total + usage.user_time() + usage.system_time();
    }
    let total_us = total.num_microseconds().unsigned_abs();
    Ok(Duration::from_micros(total_us))
}

/// How long the machine's CPUs were busy, and how long the hypervisor took them.
fn machine_time(stat: &KernelStats) -> (Duration, Duration) {
    let total = &stat.total;
    let interrupts = [total.irq_duration(), total.softirq_duration()];
    let of_programs = total.user_duration() + total.nice_duration() + total.system_duration();
    let busy = of_programs + interrupts.into_iter().flatten().sum();
    (busy, total.steal_duration().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::{FromBufReadSI as _, FromRead as _, current_system_info};

    #[test]
    fn idle_time_is_not_busy_time() {
        let stat = "cpu  100 0 50 9000 10 0 0 25 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\nctxt 1\nbtime 1\n\
                    processes 1\n";
        let stat = KernelStats::from_buf_read(stat.as_bytes(), current_system_info()).unwrap();
        let tick = Duration::from_secs(1) / u32::try_from(procfs::ticks_per_second()).unwrap();
        assert_eq!(machine_time(&stat), (150 * tick, 25 * tick));
    }

    #[test]
    fn the_load_leaves_out_the_asking_thread_and_a_cache_has_its_unit() {
        let load = LoadAverage::from_read(&b"0.20 0.18 0.12 3/80 11206\n"[..]).unwrap();
        let load = LoadBefore::of(&load);
        assert_eq!((load.load_average, load.runnable), (0.2, 2));
        assert_eq!(l3_kib("32768K\n"), Some(32768));
        assert_eq!(l3_kib(""), None);
    }
}
