//! CPU time of an application: shows activity where nothing shows speed.
//!
//! The kernel's clock of a process has the CPU time of all its threads, ended ones included. What a process had used
//! when it ended is kept in the sum. Processes that start and end between two readings are missed, unless the
//! application has a control group, whose own sum is exact.

use super::source::{CounterSource, Subject};
use mapper_model::{AppId, Reading};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct CpuTime {
    apps: BTreeMap<AppId, Used>,
}

#[derive(Debug, Default)]
struct Used {
    processes: BTreeMap<u32, u64>,
    ended_ns: u64,
}

impl CounterSource for CpuTime {
    fn describe(&self) -> String {
        "CPU time".to_owned()
    }

    fn read(&mut self, subject: &Subject<'_>, reading: &mut Reading) {
        if let Some(used_ns) = subject.group_cpu_time_ns {
            reading.cpu_time_ns = Some(used_ns);
            return;
        }
        let used = self.apps.entry(subject.app).or_default();
        used.update(&subject.tasks.processes, process_cpu_time_ns);
        reading.cpu_time_ns = Some(used.total_ns());
    }

    fn forget(&mut self, app: AppId) {
        self.apps.remove(&app);
    }
}

impl Used {
    fn update(&mut self, live: &[u32], clock_ns: impl Fn(u32) -> Option<u64>) {
        let read = |pid: &u32| Some((*pid, clock_ns(*pid)?));
        let now: BTreeMap<u32, u64> = live.iter().filter_map(read).collect();
        for (pid, before) in &self.processes {
            // Gone, or its number is used by another process, which started from zero.
            if now.get(pid).is_none_or(|value| value < before) {
                self.ended_ns = self.ended_ns.saturating_add(*before);
            }
        }
        self.processes = now;
    }

    fn total_ns(&self) -> u64 {
        self.processes
            .values()
            .fold(self.ended_ns, |sum, value| sum.saturating_add(*value))
    }
}

/// The CPU time of all threads of a process so far; `None` if there is no such process.
pub fn process_cpu_time_ns(pid: u32) -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is valid for writing one clock id; the function keeps no reference to it.
    if unsafe { libc::clock_getcpuclockid(pid.try_into().ok()?, &raw mut clock) } != 0 {
        return None;
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing one timespec; an invalid clock id makes the call fail.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let rest = u64::try_from(time.tv_nsec).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_never_falls_when_processes_end_or_numbers_are_used_again() {
        let mut used = Used::default();
        let mut totals = Vec::new();
        for (live, values) in [
            (vec![1, 2], vec![(1, 100), (2, 50)]),
            (vec![1], vec![(1, 130)]),
            (vec![1], vec![(1, 10)]),
            (vec![], vec![]),
        ] {
            let values: BTreeMap<u32, u64> = values.into_iter().collect();
            used.update(&live, |pid| values.get(&pid).copied());
            totals.push(used.total_ns());
        }
        // 100+50, 130+50, another process with number 1: 130+50+10, all gone.
        assert_eq!(totals, [150, 180, 190, 190]);
    }

    #[test]
    fn this_process_has_used_cpu_time_and_a_missing_one_has_none() {
        let before = process_cpu_time_ns(std::process::id()).unwrap();
        assert!(before > 0);
        let spin: u64 = (0..2_000_000u64).map(std::hint::black_box).sum();
        assert!(spin > 0 && process_cpu_time_ns(std::process::id()).unwrap() > before);
        assert_eq!(process_cpu_time_ns(u32::MAX), None);
    }
}
