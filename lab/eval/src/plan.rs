//! From suites to runs: which runs a suite needs, each once, whoever else needs it too.

use super::catalogue::{Catalogue, sha256};
use super::mix::{self, Member};
use super::policies::{self, Kind, Pace};
use super::protocol::{MethodName, Protocol, Relative, Suite};
use super::run_spec::RunSpec;
use super::setting::Setting;
use anyhow::{Context as _, ensure};
use mapper_report::table::texts;
use mapper_sim::Machine;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Plan {
    pub(super) runs: BTreeMap<String, Arc<RunSpec>>,
    pub(super) suites: Vec<PlannedSuite>,
}

pub(super) struct PlannedSuite {
    pub(super) suite: Suite,
    pub(super) promised: f64,
    /// Of the machine, as it is after all changes.
    pub(super) cpus: u32,
    pub(super) mixes: Vec<PlannedMix>,
}

/// A mix with the keys of its runs.
pub(super) struct PlannedMix {
    pub(super) text: String,
    /// By policy: one run for each seed.
    pub(super) policies: Vec<(String, Vec<String>)>,
    /// The static fair share in the same mix.
    pub(super) fair: Option<String>,
    /// What each program is related to when that is a run of its own.
    pub(super) alone: Vec<String>,
}

impl PlannedMix {
    pub(super) fn keys(&self) -> impl Iterator<Item = &String> {
        let policies = self.policies.iter().flat_map(|(_, keys)| keys);
        policies.chain(&self.fair).chain(&self.alone)
    }
}

/// What an evaluation changes in the protocol.
#[derive(Clone, Default)]
pub(super) struct Changes<'a> {
    pub(super) seeds: Option<u32>,
    pub(super) qos: Option<f64>,
    pub(super) interval_s: Option<f64>,
    pub(super) settings: &'a [Setting],
    /// What is changed in every run, before the settings.
    pub(super) vary: Option<&'a dyn Fn(&mut RunSpec)>,
}

impl Plan {
    pub(super) fn add(
        &mut self,
        suite: &Suite,
        protocol: &Protocol,
        catalogue: &Catalogue,
        changes: &Changes<'_>,
    ) -> anyhow::Result<()> {
        let (name, machine) = (&suite.name, catalogue.machine(&suite.machine));
        let machine = machine.with_context(|| format!("suite {name}"))?;
        let mut cpus = Machine::new(&suite.machine, machine.clone())?.contexts();
        let mut seen = BTreeSet::new();
        for policy in &suite.policies {
            let once = seen.insert(policy);
            ensure!(
                once,
                "suite {name} names policy {policy} twice: leave one out"
            );
        }
        let promised = changes.qos.or(suite.qos).unwrap_or(protocol.qos);
        let mut mixes = Vec::new();
        for text in &suite.mixes {
            let mut members = mix::parse(text, catalogue)?;
            for member in &mut members {
                if suite.home.contains(&member.name) {
                    member.app.home_node = Some(0);
                }
            }
            let mut base = RunSpec {
                method: suite.method,
                longest_times: protocol.longest_times,
                speed_run_s: protocol.speed_run_s,
                teams: suite.teams,
                qos: promised,
                overhead_budget: protocol.overhead_budget,
                ipc_high: suite.ipc_high,
                sharing_high: suite.sharing_high,
                mean: suite.mean,
                ..RunSpec::plain(&suite.machine, machine.clone(), members, protocol.constants)
            };
            if let Some(vary) = changes.vary {
                vary(&mut base);
            }
            for setting in changes.settings {
                setting.apply(&mut base)?;
            }
            // As the settings have made it.
            let machine = Machine::new(&suite.machine, base.machine.clone())?;
            cpus = machine.contexts();
            let mut policies = Vec::new();
            for name in &suite.policies {
                let policy = policies::find(name)?;
                let can = mix::check(&base.members, &machine, policy);
                let can = can.with_context(|| format!("mix {text:?}"));
                match changes.settings {
                    [] => can?,
                    all => can.with_context(|| format!("with --set {}", texts(all).join(", ")))?,
                }
                let usual_s = protocol.interval_of_s(policy.pace);
                let interval_s = changes.interval_s.or(suite.interval_s).or(usual_s);
                let interval_s = interval_s.unwrap_or(protocol.interval_s);
                let seeds: Vec<u64> = match changes.seeds {
                    Some(count) => (1..=u64::from(count)).collect(),
                    None => protocol.seeds.clone(),
                };
                let shows = matches!(
                    policy.kind,
                    Kind::Core { .. }
                        | Kind::Next { .. }
                        | Kind::Shipped
                        | Kind::SamPerTask
                        | Kind::PlainScalability
                        | Kind::Linux
                );
                let mut keys = Vec::new();
                for seed in seeds {
                    let spec = RunSpec {
                        policy: name.clone(),
                        interval_s,
                        seed,
                        // What decides once is one run for all seeds.
                        timeline: shows && (seed == 1 || policy.pace == Pace::Once),
                        ..base.clone()
                    };
                    let key = self.enter(spec)?;
                    if !keys.contains(&key) {
                        keys.push(key);
                    }
                }
                policies.push((name.clone(), keys));
            }
            // Promises are shares of what the static fair share gives.
            let promises = |policy: &String| policy == "fair" || policy.starts_with("mapper");
            let wants_fair =
                suite.relative == Relative::Fair || suite.policies.iter().any(promises);
            let fair = RunSpec {
                policy: "fair".into(),
                // As where it is one of the policies, so that it is run once.
                timeline: suite.policies.iter().any(|p| p == "fair"),
                ..base.clone()
            };
            let fair = wants_fair.then(|| self.enter(fair)).transpose()?;
            let alone = match suite.relative {
                Relative::BestStatic => self.enter_alone(&base, "best-static")?,
                Relative::OneCore => self.enter_alone(&base, "one-core")?,
                _ => Vec::new(),
            };
            mixes.push(PlannedMix {
                text: text.clone(),
                policies,
                fair,
                alone,
            });
        }
        self.suites.push(PlannedSuite {
            suite: suite.clone(),
            promised,
            cpus,
            mixes,
        });
        Ok(())
    }

    /// Each program of a run alone.
    fn enter_alone(&mut self, base: &RunSpec, policy: &str) -> anyhow::Result<Vec<String>> {
        let alone = base.members.iter().map(|member| RunSpec {
            policy: policy.into(),
            members: vec![Member {
                arrives_s: 0.0,
                ..member.clone()
            }],
            method: MethodName::Time,
            ..base.clone()
        });
        alone.map(|run| self.enter(run)).collect()
    }

    fn enter(&mut self, spec: RunSpec) -> anyhow::Result<String> {
        let spec = spec.canonical()?;
        let key = sha256(&serde_json::to_vec(&spec)?);
        self.runs.insert(key.clone(), Arc::new(spec));
        Ok(key)
    }
}

/// The suite of a mix given on the command line.
pub(super) fn ad_hoc(mixes: Vec<String>, machine: &str, policies: Vec<String>) -> Suite {
    Suite {
        name: "mix".into(),
        title: "Given on the command line".into(),
        machine: machine.into(),
        mixes,
        policies,
        ..Suite::default()
    }
}

#[cfg(test)]
mod tests;
