//! A stand-in for the daemon whose mind changes every 300 µs.
//!
//! It publishes a new number of CPUs, from 1 to twice those of the machine, in the page, and confines
//! the program's threads to as many of the machine's as that comes to. The numbers are a fixed
//! sequence for each seed; when they take effect is up to the scheduler.

use std::os::fd::{AsFd as _, AsRawFd as _};

use anyhow::Context as _;
use mapper_abi::{Allocation, CpuMask, PageReader, PageWriter, RuntimeReport, TeamMode};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Changes the allocation of one run.
pub(crate) struct Flapper {
    writer: PageWriter,
    reader: PageReader,
    mode: TeamMode,
    /// CPUs that programs may be confined to.
    cpus: Vec<usize>,
    random: u64,
}

impl Flapper {
    /// A page for a program under `mode`; it begins with all there is.
    pub(crate) fn new(mode: TeamMode, cpus: &[usize], seed: u64) -> anyhow::Result<Self> {
        let writer = PageWriter::create().context("make a page")?;
        let reader = writer.reader().context("map the page")?;
        let mut flapper = Self {
            writer,
            reader,
            mode,
            cpus: cpus.to_owned(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        };
        flapper.publish(flapper.most())?;
        Ok(flapper)
    }

    /// The variables by which the program finds the page.
    pub(crate) fn environment(&self) -> [(&'static str, String); 3] {
        let descriptor = self.writer.as_fd().as_raw_fd();
        [
            (
                mapper_abi::PAGE_ENV,
                format!("/proc/{}/fd/{descriptor}", std::process::id()),
            ),
            (mapper_abi::TOKEN_ENV, self.writer.token().to_string()),
            (mapper_abi::TEAMS_ENV, self.mode.as_str().to_owned()),
        ]
    }

    /// The most CPUs it ever says: twice those there are.
    fn most(&self) -> u32 {
        u32::try_from(2 * self.cpus.len()).unwrap_or(u32::MAX)
    }

    /// Changes the allocation of the running program.
    pub(crate) fn flap(&mut self, program: Pid) -> anyhow::Result<()> {
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let span = u64::from(self.most());
        let count = 1 + u32::try_from((self.random >> 16) % span).unwrap_or(0);
        self.publish(count)?;
        self.confine(program, count);
        Ok(())
    }

    fn publish(&mut self, count: u32) -> anyhow::Result<()> {
        self.writer.publish(&Allocation {
            cpu_count: count,
            team_mode: self.mode,
            cpus: CpuMask::from_cpus(0..count).context("make a CPU mask")?,
            node_mask: 1,
            ..Allocation::default()
        });
        Ok(())
    }

    /// Confines all threads that the program has at the moment. Those that come inherit, those that
    /// go do not matter.
    fn confine(&self, program: Pid, count: u32) {
        let mut set = CpuSet::new();
        for &cpu in self.cpus.iter().take(count as usize) {
            // A CPU beyond what the kernel's set can name is left out.
            let _ = set.set(cpu);
        }
        for thread in threads(program) {
            let _ = sched_setaffinity(thread, &set);
        }
    }

    /// What the shim says about the program.
    pub(crate) fn report(&self) -> RuntimeReport {
        self.reader.report()
    }
}

/// The threads of a process; none when it has ended.
pub(crate) fn threads(process: Pid) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .map(Pid::from_raw)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_everything_from_one_to_twice_the_cpus() {
        let mut flapper = Flapper::new(TeamMode::Follow, &[0], 7).unwrap();
        let [(_, page), (_, token), _] = flapper.environment();
        let client = mapper_abi::ClientPage::open(page.as_ref(), token.parse().unwrap()).unwrap();
        // A process that does not exist: only the page changes.
        let nobody = Pid::from_raw(i32::MAX);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            flapper.flap(nobody).unwrap();
            seen.insert(client.allocation().unwrap().fields.cpu_count);
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2]);
    }
}
