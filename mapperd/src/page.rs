//! What an application is told through its page.

use mapper_abi::{Allocation, CpuMask, PageReader, PageWriter, TeamMode as PageTeamMode, Token};
use mapper_model::{AppSpec, CpuSet, TeamMode, Topology};
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
}

/// An allocation as the page holds it. `most` is how many CPUs the daemon has to give.
pub(crate) fn allocation(
    cpus: &CpuSet,
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
        cpu_count: cpus.len(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::topology::Shape;
    use mapper_model::{AppName, CpuRange};

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
        let told = allocation(&"1-2,7".parse().unwrap(), &spec, &topology, 8);
        assert_eq!(told.cpu_count, 3);
        assert_eq!(told.cpus.iter().collect::<Vec<_>>(), [1, 2, 7]);
        assert_eq!(told.node_mask, 0b1011);
        assert_eq!(told.max_team, 3);
        assert_eq!(told.team_mode, PageTeamMode::Follow);
    }
}
