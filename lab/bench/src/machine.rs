//! The machine the figures come from, and what else it was doing.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;

use mapper_report::workspace;

/// A description of the machine and of the software that was measured.
#[derive(Clone, Debug, Serialize)]
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
    /// Commit of the checkout.
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
            l3_kib: Some(32768),
            memory_mib: 24000,
            kernel: "6.1".to_owned(),
            virtual_machine: true,
            compilers: vec!["gcc 12".to_owned()],
            revision: "abc".to_owned(),
            date: "2025-01-01 00:00 UTC".to_owned(),
            load_average_before: 0.1,
        }
    }

    pub(crate) fn describe(cpus: usize, compilers: &[&str]) -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        Self {
            cpu: cpuinfo_field(&cpuinfo, "model name")
                .unwrap_or("unknown")
                .to_owned(),
            cpus,
            l3_kib: l3_kib(&read("/sys/devices/system/cpu/cpu0/cache/index3/size")),
            memory_mib: memory_mib(&read("/proc/meminfo")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            virtual_machine: cpuinfo_field(&cpuinfo, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            compilers: compilers
                .iter()
                .map(|compiler| first_line(Command::new(compiler).arg("--version")))
                .collect(),
            revision: first_line(
                Command::new("git")
                    .args(["describe", "--always", "--dirty"])
                    .current_dir(workspace::root()),
            ),
            date: first_line(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])),
            load_average_before: load_average(),
        }
    }
}

/// The load average of the last minute.
pub(crate) fn load_average() -> f64 {
    read("/proc/loadavg")
        .split(' ')
        .next()
        .and_then(|one| one.parse().ok())
        .unwrap_or(0.0)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn first_line(command: &mut Command) -> String {
    let output = command
        .output()
        .map(|output| output.stdout)
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    text.lines()
        .next()
        .filter(|line| !line.is_empty())
        .unwrap_or("unknown")
        .to_owned()
}

fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find_map(|(field, value)| (field.trim() == name).then(|| value.trim()))
}

fn memory_mib(meminfo: &str) -> u64 {
    cpuinfo_field(meminfo, "MemTotal")
        .and_then(|total| total.strip_suffix(" kB"))
        .and_then(|kib| kib.trim().parse::<u64>().ok())
        .map_or(0, |kib| kib / 1024)
}

fn l3_kib(size: &str) -> Option<u64> {
    size.trim().strip_suffix('K')?.parse().ok()
}

/// How busy the machine was just before a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct LoadBefore {
    /// Load average of the minute, of which earlier runs are a part.
    pub(crate) load_average: f64,
    /// Threads on a CPU or waiting for one, but for the one that asks.
    pub(crate) runnable: u32,
}

impl LoadBefore {
    /// The load now.
    pub(crate) fn now() -> anyhow::Result<Self> {
        let loadavg = fs::read_to_string("/proc/loadavg").context("read /proc/loadavg")?;
        Self::parse(&loadavg).with_context(|| format!("/proc/loadavg reads {loadavg:?}"))
    }

    /// The line `0.20 0.18 0.12 1/80 11206`.
    fn parse(loadavg: &str) -> Option<Self> {
        let mut fields = loadavg.split_whitespace();
        let load_average = fields.next()?.parse().ok()?;
        let runnable: u32 = fields.nth(2)?.split_once('/')?.0.parse().ok()?;
        Some(Self {
            load_average,
            runnable: runnable.saturating_sub(1),
        })
    }
}

/// What else used the CPUs during the measuring.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Disturbance {
    /// CPUs that processes other than the measured ones kept busy, on average.
    pub(crate) other_processes_cpus: f64,
    /// CPUs' worth of time that the hypervisor gave to other machines, on average.
    pub(crate) stolen_cpus: f64,
}

/// The state of the machine's clocks at the beginning, to compare with the end.
pub(crate) struct DisturbanceMeter {
    begun: Instant,
    machine: MachineTime,
    own: Duration,
}

impl DisturbanceMeter {
    pub(crate) fn start() -> anyhow::Result<Self> {
        Ok(Self {
            begun: Instant::now(),
            machine: MachineTime::now()?,
            own: own_time()?,
        })
    }

    /// What was not ours since the start. Everything we started must have been reaped.
    pub(crate) fn finish(self) -> anyhow::Result<Disturbance> {
        let machine = MachineTime::now()?;
        let own = own_time()?.saturating_sub(self.own);
        let elapsed_s = self.begun.elapsed().as_secs_f64().max(1e-3);
        let busy = machine.busy.saturating_sub(self.machine.busy);
        let stolen = machine.stolen.saturating_sub(self.machine.stolen);
        Ok(Disturbance {
            other_processes_cpus: busy.saturating_sub(own).as_secs_f64() / elapsed_s,
            stolen_cpus: stolen.as_secs_f64() / elapsed_s,
        })
    }
}

/// CPU time of this task and of all its children that have been reaped.
fn own_time() -> anyhow::Result<Duration> {
    let mut total = Duration::ZERO;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who).context("ask for the CPU time used")?;
        for time in [usage.user_time(), usage.system_time()] {
            total += Duration::from_secs(u64::try_from(time.tv_sec()).unwrap_or(0));
            total += Duration::from_micros(u64::try_from(time.tv_usec()).unwrap_or(0));
        }
    }
    Ok(total)
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct MachineTime {
    busy: Duration,
    stolen: Duration,
}

impl MachineTime {
    fn now() -> anyhow::Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("read /proc/stat")?;
        Self::parse(&stat, rustix::param::clock_ticks_per_second())
            .context("/proc/stat has no line of totals")
    }

    /// The line `cpu  user nice system idle iowait irq softirq steal …`, in ticks.
    fn parse(stat: &str, ticks_per_second: u64) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else {
            return None;
        };
        let time = |ticks: u64| Duration::from_millis(ticks * 1000 / ticks_per_second.max(1));
        Some(Self {
            busy: time(user + nice + system + irq + softirq),
            stolen: time(steal),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_not_busy_time() {
        let stat = "cpu  100 0 50 9000 10 0 0 25 0 0\ncpu0 1 2 3\n";
        let time = MachineTime::parse(stat, 100).unwrap();
        assert_eq!(time.busy, Duration::from_millis(1500));
        assert_eq!(time.stolen, Duration::from_millis(250));
    }

    #[test]
    fn a_stat_file_without_totals_is_not_guessed_at() {
        assert_eq!(MachineTime::parse("cpu0 1 2 3 4 5 6 7 8\n", 100), None);
        assert_eq!(MachineTime::parse("cpu  1 2 x\n", 100), None);
    }

    #[test]
    fn the_load_before_a_run_leaves_out_who_asks() {
        let load = LoadBefore::parse("0.20 0.18 0.12 3/80 11206\n").unwrap();
        assert_eq!(load.load_average, 0.2);
        assert_eq!(load.runnable, 2);
        assert_eq!(LoadBefore::parse("0.20 0.18"), None);
    }

    #[test]
    fn memory_and_cache_sizes_are_read_in_their_units() {
        assert_eq!(memory_mib("MemTotal:       24576000 kB\n"), 24000);
        assert_eq!(l3_kib("32768K\n"), Some(32768));
        assert_eq!(l3_kib(""), None);
    }
}
