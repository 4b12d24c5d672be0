//! Runs the simulator as a run is described.

use super::governors::governor;
use super::policies::{self, Kind};
use super::run_spec::{RunResult, RunSpec};
use mapper_model::{CpuId, CpuSet};
use mapper_sim::{Governor, Machine, approximations, layouts, nucore, on_sets, oracle};

impl RunSpec {
    pub(super) fn run(&self) -> anyhow::Result<RunResult> {
        let policy = policies::find(&self.policy)?;
        let machine = Machine::new(&self.machine_name, self.machine.clone())?;
        let scenario = self.scenario(machine, &policy.kind, policy.pace)?;
        let outcome = match &policy.kind {
            Kind::Oracle => oracle::best_fixed(&scenario, self.aim()),
            Kind::BestStatic => oracle::best_mapping_alone(&scenario),
            Kind::Scaf => approximations::scaf(&scenario),
            Kind::NucorePredicted => nucore::run_predicted(&scenario)?,
            Kind::NucoreAdjacent => nucore::run_best_adjacent(&scenario)?,
            Kind::Varuna => approximations::varuna(&scenario),
            Kind::Crust => approximations::crust(&scenario),
            Kind::OneCore => {
                let first: CpuSet = std::iter::once(CpuId(0)).collect();
                on_sets(&scenario, vec![first; scenario.jobs.len()])
            }
            Kind::Packed => {
                let programs = scenario.jobs.len();
                let share = scenario.machine.contexts() / programs.max(1) as u32;
                let sets = layouts::packed(&scenario.machine, &vec![share.max(1); programs]);
                on_sets(&scenario, sets)
            }
            _ => {
                let mut governor = governor(policy, self, &scenario.machine)?;
                let governor = governor.as_mut().map(|g| g.as_mut() as &mut dyn Governor);
                mapper_sim::run(&scenario, governor)
            }
        };
        self.check_done(&outcome)?;
        let bandwidth_error = match (&policy.kind, &*scenario.jobs) {
            (Kind::NucorePredicted, [job]) => {
                let (machine, constants) = (&scenario.machine, &scenario.constants);
                Some(nucore::bandwidth_error(
                    machine, constants, &job.app, self.seed,
                )?)
            }
            _ => None,
        };
        Ok(RunResult {
            bandwidth_error,
            ..self.result(&outcome, scenario.machine.topology())
        })
    }
}
