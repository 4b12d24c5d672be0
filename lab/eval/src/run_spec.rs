//! One run of the simulator: everything it depends on, and what came of it.

use super::mix::Member;
use super::policies::{self, Kind, Pace};
use super::protocol::{Mean, MethodName};
use anyhow::{Context as _, bail};
use mapper_model::{CpuRange, CpuSet, Qos, Topology};
use mapper_pipeline::OverheadBudget;
use mapper_sim::nucore::BandwidthError;
use mapper_sim::{
    Aim, Constants, Job, Lending, Machine, MachineSpec, Method, Outcome, Scenario, Teams,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything a run depends on besides the code.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct RunSpec {
    pub(super) machine_name: String,
    pub(super) machine: MachineSpec,
    pub(super) members: Vec<Member>,
    pub(super) policy: String,
    pub(super) method: MethodName,
    pub(super) longest_times: u32,
    pub(super) speed_run_s: f64,
    pub(super) teams: Teams,
    pub(super) qos: f64,
    pub(super) interval_s: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) overhead_budget: Option<OverheadBudget>,
    pub(super) ipc_high: Option<f64>,
    pub(super) sharing_high: Option<f64>,
    pub(super) seed: u64,
    pub(super) constants: Constants,
    pub(super) timeline: bool,
    /// What a search for the best is to make great.
    pub(super) mean: Mean,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct AppResult {
    pub(super) name: String,
    /// Relative to the run alone on the whole machine.
    pub(super) speed: f64,
    pub(super) first_end_s: Option<f64>,
    /// From when on it could have started.
    pub(super) arrives_s: f64,
    pub(super) p99_s: Option<f64>,
    pub(super) mean_cpus: f64,
    /// Cores of each node that it was given last; under plain Linux all.
    pub(super) cores_by_node: Vec<u32>,
    pub(super) intra_socket_per_cycle: f64,
    pub(super) inter_socket_per_cycle: f64,
}

/// The CPUs of each program from a moment on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) at_s: f64,
    pub(super) cpus: Vec<CpuSet>,
}

pub(super) type Results = BTreeMap<String, RunResult>;

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct RunResult {
    pub(super) apps: Vec<AppResult>,
    pub(super) elapsed_s: f64,
    pub(super) rewrites_per_s: f64,
    pub(super) moves_per_s: f64,
    /// How far off the bandwidth is that the policy predicts, where it predicts one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bandwidth_error: Option<BandwidthError>,
    /// Who held which CPUs when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) timeline: Vec<Held>,
}

/// How many cores of each node a set is on.
fn cores_by_node(topology: &Topology, held: Option<&CpuSet>) -> Vec<u32> {
    let on = |core: &&CpuSet| held.is_none_or(|held| !held.is_disjoint(core));
    let of = |socket: &CpuSet| {
        let cores = topology.cores().iter().filter(on);
        cores.filter(|core| !socket.is_disjoint(core)).count() as u32
    };
    topology.sockets().iter().map(of).collect()
}

impl RunSpec {
    /// A short run under plain Linux, by which others differ.
    pub(super) fn plain(
        machine_name: &str,
        machine: MachineSpec,
        members: Vec<Member>,
        constants: Constants,
    ) -> Self {
        Self {
            machine_name: machine_name.into(),
            machine,
            members,
            policy: "linux".into(),
            method: MethodName::Time,
            longest_times: 1,
            speed_run_s: 5.0,
            teams: Teams::Fixed,
            qos: 0.85,
            interval_s: 1.0,
            overhead_budget: None,
            ipc_high: None,
            sharing_high: None,
            seed: 1,
            constants,
            timeline: false,
            mean: Mean::Geometric,
        }
    }

    /// The same run with what does not matter to its policy set to one value, so that it is computed
    /// once for all.
    pub(super) fn canonical(mut self) -> anyhow::Result<Self> {
        let policy = policies::find(&self.policy)?;
        if policy.pace == Pace::Once {
            // Counters are not looked at, and nothing else is random.
            self.seed = 1;
            self.interval_s = 1.0;
            self.qos = 0.85;
            self.ipc_high = None;
            self.sharing_high = None;
        }
        if policy.kind != Kind::Oracle {
            self.mean = Mean::Geometric;
        }
        if !policy.budget {
            self.overhead_budget = None;
        }
        if policy.pace == Pace::Placement {
            self.qos = 0.85;
        }
        if policy.kind == Kind::Linux {
            self.teams = Teams::Fixed;
        }
        Ok(self)
    }

    /// Refuses to make numbers of a run that did not come to its end, or that ended without some.
    pub(super) fn check_done(&self, outcome: &Outcome) -> anyhow::Result<()> {
        if let Some(given_up) = &outcome.given_up {
            bail!(
                "given up after {} steps, {:.3e} s in the model: {} was still not done, at {:.3e} of its speed \
                 alone. Make it shorter (standalone_s) or undo what slows it down; short intervals and cycles \
                 (--interval, cycle_s) and late arrivals take more steps",
                given_up.steps,
                outcome.elapsed_s,
                given_up.program,
                given_up.speed
            );
        }
        let mut ends = outcome.apps.iter().zip(&self.members);
        if let Some((_, member)) = ends.find(|(app, _)| app.begin_s.is_none()) {
            bail!(
                "{} arrives after {} s, when the run had ended, after {:.1} s: let it arrive earlier, or leave it \
                 out",
                member.name,
                member.arrives_s,
                outcome.elapsed_s
            );
        }
        Ok(())
    }

    /// The sum of speeds has no aim of its own: it is compared by suites that do not ask for the best.
    pub(super) const fn aim(&self) -> Aim {
        match self.mean {
            Mean::Harmonic => Aim::Harmonic,
            Mean::Geometric | Mean::Sum => Aim::Geometric,
        }
    }

    pub(super) fn scenario(
        &self,
        machine: Machine,
        kind: &Kind,
        pace: Pace,
    ) -> anyhow::Result<Scenario> {
        let contexts = machine.contexts();
        let job = |member: &Member| {
            let threads = member.threads.or(member.app.threads).unwrap_or(contexts);
            // Policies that place threads take their number as the share.
            let cpus = match pace {
                Pace::Placement => CpuRange::new(threads, Some(threads))?,
                _ => CpuRange::default(),
            };
            Ok(Job {
                name: member.name.clone(),
                app: member.app.clone(),
                threads: member.threads,
                qos: Qos::new(self.qos)?,
                cpus,
                arrives_s: member.arrives_s,
            })
        };
        let jobs: anyhow::Result<Vec<Job>> = self.members.iter().map(job).collect();
        let seconds = self.speed_run_s;
        Ok(Scenario {
            jobs: jobs.with_context(|| format!("set up {}", self.policy))?,
            machine,
            constants: self.constants,
            method: match (self.method, kind) {
                (_, Kind::Batch) => Method::InTurn,
                (MethodName::Longest, _) => Method::LongestTimes(self.longest_times),
                (MethodName::Once, _) => Method::EachOnce,
                (MethodName::Time, _) => Method::For(seconds),
            },
            teams: self.teams,
            lending: match kind {
                Kind::Next { lends, .. } => *lends,
                _ => Lending::Never,
            },
            traffic_by_node: matches!(kind, Kind::NucoreByNode),
            seed: self.seed,
            longest_step_s: None,
            timeline: self.timeline,
        })
    }

    pub(super) fn result(&self, outcome: &Outcome, topology: &Topology) -> RunResult {
        let apps = outcome.apps.iter().zip(&self.members);
        let apps = apps.map(|(app, member)| AppResult {
            name: app.name.clone(),
            speed: app.speed,
            first_end_s: app.first_end_s,
            arrives_s: member.arrives_s,
            p99_s: app.p99_s,
            mean_cpus: app.mean_cpus,
            cores_by_node: cores_by_node(topology, app.held.as_ref()),
            intra_socket_per_cycle: app.intra_socket_per_cycle,
            inter_socket_per_cycle: app.inter_socket_per_cycle,
        });
        let timeline = outcome.timeline.iter().map(|sample| Held {
            at_s: sample.at_s,
            cpus: sample.sets.clone(),
        });
        let elapsed_s = outcome.elapsed_s;
        RunResult {
            apps: apps.collect(),
            elapsed_s,
            rewrites_per_s: outcome.rewrites as f64 / elapsed_s.max(1e-9),
            moves_per_s: outcome.moved_contexts as f64 / elapsed_s.max(1e-9),
            bandwidth_error: None,
            timeline: timeline.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples;
    use super::*;

    fn spec(mix: &str, policy: &str) -> RunSpec {
        let mut spec = examples::run("ivb40", mix, policy);
        (spec.qos, spec.interval_s, spec.seed, spec.timeline) = (0.7, 0.25, 7, true);
        (spec.teams, spec.mean) = (Teams::Follow, Mean::Harmonic);
        (spec.ipc_high, spec.sharing_high) = (Some(1.08), Some(1e-3));
        spec.overhead_budget = Some(OverheadBudget::default());
        spec
    }

    fn canonical(policy: &str) -> RunSpec {
        spec("SGD, ALS", policy).canonical().unwrap()
    }

    #[test]
    fn what_a_policy_does_not_depend_on_is_the_same_for_all_its_runs_and_the_rest_stays() {
        let once = canonical("fair");
        assert_eq!((once.seed, once.interval_s, once.qos), (1, 1.0, 0.85));
        assert_eq!((once.ipc_high, once.sharing_high), (None, None));
        // Teams follow a fixed share, too, but not plain Linux.
        assert_eq!(once.teams, Teams::Follow);
        assert_eq!(canonical("linux").teams, Teams::Fixed);
        let mapper = canonical("mapper");
        assert_eq!((mapper.seed, mapper.interval_s, mapper.qos), (7, 0.25, 0.7));
        assert_eq!(mapper.overhead_budget, Some(OverheadBudget::default()));
        assert_eq!(mapper.mean, Mean::Geometric);
        assert_eq!(canonical("oracle").mean, Mean::Harmonic, "its aim");
        // As published, without a budget.
        assert_eq!(canonical("mapper-paper").overhead_budget, None);
        // Places threads, whatever is promised.
        let sam = canonical("sam_mph");
        assert_eq!((sam.seed, sam.interval_s, sam.qos), (7, 0.25, 0.85));
        assert_eq!((sam.ipc_high, sam.sharing_high), (Some(1.08), Some(1e-3)));
        for policy in ["linux", "fair", "oracle", "mapper", "sam_mph", "nucore"] {
            let once = canonical(policy);
            assert_eq!(once.clone().canonical().unwrap(), once, "{policy}");
        }
        let error = spec("SGD", "linus").canonical().unwrap_err().to_string();
        assert!(error.contains("\"linus\""), "{error}");
    }

    #[test]
    fn the_same_run_comes_out_the_same_and_is_read_back_so_and_another_seed_another() {
        let mut spec = spec("SGD, ALS", "mapper");
        spec.speed_run_s = 20.0;
        let mut run = |seed, timeline| {
            (spec.seed, spec.timeline) = (seed, timeline);
            spec.run().unwrap()
        };
        let first = run(1, true);
        assert_eq!(run(1, true), first);
        // Counters are read with noise, which a seed decides, but not every noise changes a decision.
        assert!((2..6).any(|seed| run(seed, true) != first));
        let text = serde_json::to_string(&first).unwrap();
        assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), first);
        assert!(!first.timeline.is_empty() && run(1, false).timeline.is_empty());
    }

    #[test]
    fn programs_come_out_in_the_order_of_the_mix_with_the_cpus_they_held() {
        for (mix, policy, expected) in [
            ("SGD, ALS", "one-core", 1.0),
            ("ALS, SGD", "fair-packed", 20.0),
        ] {
            let apps = spec(mix, policy).run().unwrap().apps;
            let names: Vec<&str> = apps.iter().map(|app| app.name.as_str()).collect();
            assert_eq!(names.join(", "), mix);
            let off = (apps[0].mean_cpus - expected).abs();
            assert!(off < 0.1 || off < 0.025 * expected, "{policy}: {off}");
        }
    }

    #[test]
    fn a_run_without_all_programs_or_without_end_in_sight_gives_no_numbers_but_says_so() {
        let run = |mix| {
            let mut late = spec(mix, "linux");
            (late.method, late.longest_times) = (MethodName::Longest, 1);
            late.run().map_err(|error| error.to_string())
        };
        let shown = run("SGD, memcached@500").unwrap_err();
        let expected = "memcached arrives after 500 s, when the run had ended";
        assert!(shown.contains(expected), "{shown}");
        // A program is waited for, and a service alone.
        for mix in ["SGD, canneal@190", "memcached@500"] {
            let apps = run(mix).unwrap().apps;
            assert!(apps.iter().all(|app| app.speed > 0.01));
        }
        let mut slow = spec("SGD, ALS", "linux");
        slow.method = MethodName::Once;
        slow.members[1].app.standalone_s = 1e5;
        slow.constants.cycle_s = 1e-3;
        let shown = slow.run().unwrap_err().to_string();
        assert!(shown.contains("ALS was still not done, at"), "{shown}");
        assert!(shown.contains(" steps, "), "{shown}");
    }
}
