//! Choosing topology, counters and enforcer, with the reasons why better ones are not available.

use crate::config::accounts::Accounts;
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

/// What was chosen, and why.
pub(crate) struct Found<T> {
    pub(crate) value: T,
    pub(crate) selection: Selection,
}

pub(crate) fn topology() -> anyhow::Result<Topology> {
    let source = HwlocSource::ThisMachine;
    let topology = source.read().context("read the topology")?;
    tracing::info!(
        cpus = topology.cpus().len(),
        cores = topology.cores().len(),
        sockets = topology.sockets().len(),
        nodes = topology.nodes().len(),
        "topology from {}",
        source.describe()
    );
    Ok(topology)
}

pub(crate) fn counters(choice: Choice) -> anyhow::Result<Found<Vec<Box<dyn CounterSource>>>> {
    let probed = observe::probe(choice).context("counters")?;
    let names: Vec<String> = probed.sources.iter().map(|s| s.describe()).collect();
    let selection = Selection {
        name: names.join(", "),
        not_better: probed.missing.iter().map(ToString::to_string).collect(),
    };
    log("counters", &selection);
    let value = probed.sources;
    Ok(Found { value, selection })
}

pub(crate) fn enforcer(
    settings: &Settings,
    accounts: Accounts,
) -> anyhow::Result<Found<Box<dyn Enforcer>>> {
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
    let not_better = groups.as_ref().err().cloned().into_iter().collect();
    let value: Box<dyn Enforcer> = match groups {
        Ok(groups) => Box::new(groups),
        Err(_) => {
            let affinity = AffinityEnforcer::new().context("enforcer affinity")?;
            Box::new(affinity.with_accounts(move |uid| accounts.of(uid)))
        }
    };
    let name = value.describe();
    let found = Found {
        value,
        selection: Selection { name, not_better },
    };
    log("enforcer", &found.selection);
    Ok(found)
}

/// How this enforcer isolates CPUs. Asked at the start only, since the answer takes several system calls, and depends on the
/// kernel and on the daemon's rights and mounts. A launch in isolation asks anew.
pub(crate) fn isolation(enforcer: &dyn Enforcer) -> Selection {
    let refusal = enforcer.may_isolate().err();
    let name = match refusal {
        None => "remote partitions",
        Some(_) => "none",
    };
    Selection {
        name: name.to_owned(),
        not_better: refusal.iter().map(|error| chain(error)).collect(),
    }
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
