//! What an application reads on its page.

use mapper_abi::{
    Allocation, CpuMask, CpuWish, PageReader, PageWriter, TeamMode as PageTeamMode, Token,
};
use mapper_model::{AppSpec, CpuId, CpuRange, CpuSet, TeamMode, Topology};
use std::os::fd::OwnedFd;

/// Both ends of the page of one application.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) writer: PageWriter,
    pub(crate) reader: PageReader,
}

impl Page {
    pub(crate) fn create() -> Result<Self, mapper_abi::PageError> {
        let writer = PageWriter::create()?;
        let reader = writer.reader()?;
        Ok(Self { writer, reader })
    }

    /// A page that an earlier daemon made, if it has this token.
    pub(crate) fn adopt(memory: OwnedFd, token: Token) -> Result<Self, mapper_abi::PageError> {
        let writer = PageWriter::adopt(memory, token)?;
        let reader = writer.reader()?;
        Ok(Self { writer, reader })
    }

    /// The CPUs that were published last: after the application was given them, and before its state was saved.
    pub(crate) fn cpus(&self) -> Option<CpuSet> {
        let allocation = self.reader.allocation()?;
        Some(allocation.cpus.iter().map(CpuId).collect())
    }
}

/// An allocation as the page holds it. `counted` of the CPUs count for its teams; `most` is how many the daemon has to
/// give.
pub(crate) fn allocation(
    cpus: &CpuSet,
    counted: u32,
    spec: &AppSpec,
    topology: &Topology,
    most: u32,
) -> Allocation {
    let node_mask = cpus
        .iter()
        .filter_map(|cpu| topology.thread(cpu))
        .filter_map(|thread| 1u64.checked_shl(thread.node.0))
        .fold(0, |mask, bit| mask | bit);
    Allocation {
        cpu_count: counted,
        team_mode: match spec.teams {
            TeamMode::Follow => PageTeamMode::Follow,
            TeamMode::Virtual => PageTeamMode::Virtual,
            TeamMode::Fixed => PageTeamMode::Fixed,
        },
        max_team: spec.cpus.max().unwrap_or(most).min(most),
        // CPUs beyond what the page can name are counted but not named.
        cpus: CpuMask::from_cpus(
            cpus.iter()
                .map(|cpu| cpu.0)
                .filter(|cpu| (*cpu as usize) < mapper_abi::layout::MAX_CPUS),
        )
        .unwrap_or_default(),
        node_mask,
    }
}

/// The CPUs an application can use: those of its launch, narrowed to what its own code declares. Its code gains
/// nothing by that: the least grows to an equal share at most, and neither bound leaves the range of the launch.
pub(crate) fn narrowed(range: CpuRange, wish: Option<CpuWish>, equal_share: u32) -> CpuRange {
    let Some(wish) = wish else {
        return range;
    };
    let most = range.max().unwrap_or(u32::MAX).min(wish.most.get());
    let most = most.max(range.min());
    let least = wish.least.get().min(equal_share);
    let least = least.min(most).max(range.min());
    CpuRange::new(least, Some(most)).unwrap_or(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::AppName;
    use mapper_model::topology::Shape;

    #[test]
    fn a_declared_range_only_narrows_the_range_of_the_launch() {
        let wish = |least, most| {
            let count = |cpus| std::num::NonZeroU32::new(cpus).unwrap();
            Some(CpuWish::new(count(least), count(most)))
        };
        let range = |min, max| CpuRange::new(min, max).unwrap();
        for (launched, wished, narrow) in [
            (range(1, None), None, range(1, None)),
            (range(1, None), wish(2, 6), range(2, Some(6))),
            (range(2, Some(5)), wish(1, 8), range(2, Some(5))),
            (range(3, None), wish(1, 1), range(3, Some(3))),
            // An equal share is four CPUs.
            (range(1, None), wish(64, 64), range(4, Some(64))),
        ] {
            assert_eq!(narrowed(launched, wished, 4), narrow, "{wished:?}");
        }
    }

    #[test]
    fn an_application_learns_its_cpus_their_nodes_and_its_largest_team() {
        let topology = Topology::regular(Shape {
            sockets: 4,
            cores_per_socket: 2,
            threads_per_core: 1,
        });
        let mut spec = AppSpec::named(AppName::new("a").unwrap());
        spec.cpus = CpuRange::new(1, Some(3)).unwrap();
        spec.teams = TeamMode::Follow;
        let read = allocation(&"1-2,7".parse().unwrap(), 3, &spec, &topology, 8);
        assert_eq!((read.cpu_count, read.max_team), (3, 3));
        assert_eq!(read.cpus.iter().collect::<Vec<_>>(), [1, 2, 7]);
        assert_eq!(read.node_mask, 0b1011);
        assert_eq!(read.team_mode, PageTeamMode::Follow);
        // Of one that shares its CPUs fewer count.
        let read = allocation(&"1-2,7".parse().unwrap(), 1, &spec, &topology, 8);
        assert_eq!((read.cpu_count, read.cpus.count()), (1, 3));
    }
}
