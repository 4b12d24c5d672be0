//! Choosing topology, counters and enforcer, and saying why better ones are not available.

use crate::config::settings::Settings;
use crate::config::types::EnforcerChoice;
use anyhow::Context;
use mapper_control::schema::Selection;
use mapper_host::enforce::cgroup;
use mapper_host::enforce::{AffinityEnforcer, CgroupEnforcer, Enforcer};
use mapper_host::observe::{self, Choice, CounterSource};
use mapper_host::topology::{HwlocSource, TopologySource};
use mapper_host::{HostError, chain};
use mapper_model::Topology;

/// The topology in use.
pub(crate) struct FoundTopology {
    pub(crate) value: Topology,
    pub(crate) source: Box<dyn TopologySource>,
}

/// The counters in use.
pub(crate) struct FoundCounters {
    pub(crate) value: Vec<Box<dyn CounterSource>>,
    pub(crate) selection: Selection,
}

/// The enforcer in use.
pub(crate) struct FoundEnforcer {
    pub(crate) value: Box<dyn Enforcer>,
    pub(crate) selection: Selection,
}

pub(crate) fn topology() -> anyhow::Result<FoundTopology> {
    let source = HwlocSource::ThisMachine;
    let value = source.read().context("read the topology")?;
    tracing::info!(
        cpus = value.cpus().len(),
        cores = value.cores().len(),
        sockets = value.sockets().len(),
        nodes = value.nodes().len(),
        "topology from {}",
        source.describe()
    );
    Ok(FoundTopology {
        value,
        source: Box::new(source),
    })
}

pub(crate) fn counters(choice: Choice) -> anyhow::Result<FoundCounters> {
    let probed = observe::probe(choice).context("counters")?;
    let names: Vec<String> = probed.sources.iter().map(|s| s.describe()).collect();
    let selection = Selection {
        name: names.join(", "),
        not_better: probed.missing.iter().map(ToString::to_string).collect(),
    };
    log("counters", &selection);
    Ok(FoundCounters {
        value: probed.sources,
        selection,
    })
}

pub(crate) fn enforcer(settings: &Settings) -> anyhow::Result<FoundEnforcer> {
    let groups = match settings.enforcer {
        EnforcerChoice::Affinity => Err("control groups: not requested".to_owned()),
        choice => match open_groups(settings) {
            Ok(groups) => Ok(groups),
            Err(error) if choice == EnforcerChoice::Cgroup => {
                return Err(error).context("enforcer cgroup");
            }
            Err(error) => Err(chain(&error)),
        },
    };
    let found = match groups {
        Ok(groups) => FoundEnforcer {
            selection: Selection {
                name: groups.describe(),
                not_better: Vec::new(),
            },
            value: Box::new(groups),
        },
        Err(why) => {
            let affinity = AffinityEnforcer::new().context("enforcer affinity")?;
            FoundEnforcer {
                selection: Selection {
                    name: affinity.describe(),
                    not_better: vec![why],
                },
                value: Box::new(affinity),
            }
        }
    };
    log("enforcer", &found.selection);
    Ok(found)
}

fn open_groups(settings: &Settings) -> Result<CgroupEnforcer, HostError> {
    match &settings.cgroup_root {
        Some(root) => CgroupEnforcer::open(root),
        None => CgroupEnforcer::open(&cgroup::find_root()?),
    }
}

fn log(what: &str, selection: &Selection) {
    tracing::info!("{what}: {}", selection.name);
    for better in &selection.not_better {
        tracing::info!("{what}: not available: {better}");
    }
}
