//! A fake daemon to try programs out: for `mapper-launch --check-teams` and the conformance suite, with the feature
//! `stand-in`.
//!
//! It publishes a number of CPUs in a page of its own and confines the program's threads to as many of the machine's. The
//! number is always 1, or another one from 1 to twice the CPUs of the machine at each [step](StandIn::step): a fixed
//! sequence for each seed. When it takes effect depends on the scheduler. The program with all that it forks is a
//! [`Running`].

use std::os::fd::{AsFd as _, AsRawFd as _};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::{
    Allocation, CpuMask, PAGE_ENV, PageError, PageReader, PageWriter, RuntimeReport, Runtimes,
    TEAMS_ENV, TOKEN_ENV, TeamMode,
};

mod program;

pub use program::Running;

/// The allocations of a program while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocations {
    /// One CPU all the time.
    OneCpu,
    /// From one CPU to twice the machine's, by this seed.
    Changing(u64),
}

/// A fake daemon for one program; see the [module](self).
#[derive(Debug)]
pub struct StandIn {
    writer: PageWriter,
    reader: PageReader,
    mode: TeamMode,
    allocations: Allocations,
    /// CPUs that the program may be confined to.
    cpus: Vec<usize>,
    random: u64,
}

impl StandIn {
    /// A page for one run of a program under `mode` on these CPUs. Changing allocations begin with all CPUs.
    ///
    /// # Errors
    /// When no page can be created or mapped.
    /// [`PageError`] when no page can be made or mapped.
    pub fn new(
        mode: TeamMode,
        cpus: &[usize],
        allocations: Allocations,
    ) -> Result<Self, PageError> {
        let writer = PageWriter::create()?;
        let reader = writer.reader()?;
        let seed = match allocations {
            Allocations::OneCpu => 0,
            Allocations::Changing(seed) => seed,
        };
        let mut stand_in = Self {
            writer,
            reader,
            mode,
            allocations,
            cpus: cpus.to_owned(),
            random: seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        };
        stand_in.publish(match allocations {
            Allocations::OneCpu => 1,
            Allocations::Changing(_) => stand_in.most(),
        });
        Ok(stand_in)
    }

    /// The variables by which the program finds the page.
    pub fn environment(&self) -> [(&'static str, String); 3] {
        let descriptor = self.writer.as_fd().as_raw_fd();
        let page = format!("/proc/{}/fd/{descriptor}", std::process::id());
        [
            (PAGE_ENV, page),
            (TOKEN_ENV, self.writer.token().to_string()),
            (TEAMS_ENV, self.mode.as_str().to_owned()),
        ]
    }

    /// Applies the present allocation to the running program.
    pub fn step(&mut self, program: u32) {
        let count = match self.allocations {
            Allocations::OneCpu => 1,
            Allocations::Changing(_) => {
                // xorshift64
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                let span = u64::from(self.most());
                let count = 1 + u32::try_from((self.random >> 16) % span).unwrap_or(0);
                self.publish(count);
                count
            }
        };
        self.confine(program, count);
    }

    /// Why the program did not run in the mode, if so.
    pub fn real_teams_because(&self) -> Option<String> {
        let report = self.report();
        match report.teams_off {
            Some(why) => Some(why.to_string()),
            None if self.mode == TeamMode::Virtual && report.runtimes == Runtimes::LIBOMP => {
                Some("its OpenMP runtime is not libgomp".to_owned())
            }
            None => None,
        }
    }

    /// What the shim reports about the program.
    pub fn report(&self) -> RuntimeReport {
        self.reader.report()
    }

    /// The most CPUs it ever publishes: twice the machine's.
    fn most(&self) -> u32 {
        u32::try_from(2 * self.cpus.len().max(1)).unwrap_or(u32::MAX)
    }

    fn publish(&mut self, count: u32) {
        // Beyond what a mask can name, only the number is published.
        let cpus = CpuMask::from_cpus(0..count).unwrap_or_default();
        self.writer.publish(&Allocation {
            cpu_count: count,
            team_mode: self.mode,
            cpus,
            node_mask: 1,
            ..Allocation::default()
        });
    }

    /// Confines all present threads of the program. New threads inherit that, ending ones do not matter.
    fn confine(&self, program: u32, count: u32) {
        let mut set = CpuSet::new();
        // A CPU beyond what the kernel's set can name is left out.
        let nameable = |cpu: &&usize| **cpu < CpuSet::MAX_CPU;
        for &cpu in self.cpus.iter().take(count as usize).filter(nameable) {
            set.set(cpu);
        }
        for thread in threads(program) {
            let _ = sched_setaffinity(Some(thread), &set);
        }
    }
}

/// The threads of a process; none when it has ended.
#[must_use]
pub fn threads(process: u32) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientPage;
    use std::collections::BTreeSet;

    /// The CPU counts that a program sees in 200 steps.
    fn seen(allocations: Allocations) -> Vec<u32> {
        let mut stand_in = StandIn::new(TeamMode::Follow, &[0], allocations).unwrap();
        let [(_, page), (_, token), (_, mode)] = stand_in.environment();
        assert_eq!(mode, "follow");
        let client = ClientPage::open(page.as_ref(), token.parse().unwrap()).unwrap();
        let mut seen = BTreeSet::new();
        for _ in 0..200 {
            // A process that does not exist: only the page changes.
            stand_in.step(i32::MAX.unsigned_abs());
            seen.insert(client.allocation().unwrap().fields.cpu_count);
        }
        seen.into_iter().collect()
    }

    #[test]
    fn it_says_everything_from_one_to_twice_the_cpus_or_one_only() {
        assert_eq!(seen(Allocations::Changing(7)), [1, 2]);
        assert_eq!(seen(Allocations::OneCpu), [1]);
    }
}
