//! The partition of one group: whether it is to be one, whether it is, and the writes that make or end it.

use super::asked::{EXCLUSIVE, or_later};
use super::group_dir::GroupDir;
use crate::HostError;
use crate::enforce::Standing;
use mapper_model::CpuSet;

pub(super) const PARTITION: &str = "cpuset.cpus.partition";
pub(super) const ISOLATED: &str = "isolated";
pub(super) const MEMBER: &str = "member";

#[derive(Debug)]
pub(super) enum Partition {
    Member,
    Asked(Isolation),
}

#[derive(Debug, Default)]
pub(super) struct Isolation {
    pub(super) cpus: CpuSet,
    pub(super) why_not: Option<String>,
    pub(super) looks: u32,
}

impl Partition {
    pub(super) fn found(dir: &GroupDir) -> Self {
        match dir.read(PARTITION) {
            Ok(text) if text.starts_with(ISOLATED) => Self::Asked(Isolation {
                cpus: dir.read_cpus(EXCLUSIVE).unwrap_or_default(),
                ..Isolation::default()
            }),
            _ => Self::Member,
        }
    }

    pub(super) fn exclusive(&self) -> Option<&CpuSet> {
        match self {
            Self::Asked(isolation) if !isolation.cpus.is_empty() => Some(&isolation.cpus),
            _ => None,
        }
    }

    pub(super) fn falls(&mut self, why: Option<String>) {
        if let Self::Asked(isolation) = self {
            isolation.cpus = CpuSet::new();
            isolation.why_not = why;
            isolation.looks = 0;
        }
    }

    pub(super) fn standing(&self) -> Standing {
        match self {
            Self::Member => Standing::Member,
            Self::Asked(isolation) if !isolation.cpus.is_empty() => Standing::Isolated,
            Self::Asked(isolation) => {
                let why = isolation.why_not.as_deref();
                Standing::NotIsolated(why.unwrap_or("it has no CPUs yet").to_owned())
            }
        }
    }
}

pub(super) fn enter(dir: &GroupDir, cpus: &CpuSet) -> Result<(), HostError> {
    write_list(dir, cpus)?;
    dir.set_cpus(cpus)?;
    if dir.read(PARTITION)?.trim_end() != ISOLATED {
        dir.write(PARTITION, ISOLATED)?;
    }
    let text = dir.read(PARTITION)?;
    match text.trim_end() {
        ISOLATED => Ok(()),
        message => {
            let message = message.chars().take(120).collect();
            Err(HostError::Partition(
                dir.file(PARTITION),
                cpus.clone(),
                message,
            ))
        }
    }
}

pub(super) fn become_member(dir: &GroupDir) -> Result<(), HostError> {
    or_later(dir.write(PARTITION, MEMBER))?;
    or_later(write_list(dir, &CpuSet::new()))
}

pub(super) fn write_list(dir: &GroupDir, cpus: &CpuSet) -> Result<(), HostError> {
    // Writing nothing is no write at all.
    dir.write(EXCLUSIVE, &format!("{cpus}\n"))
}
