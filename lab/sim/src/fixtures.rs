//! What tests of several modules start from.

use crate::application::AppModel;
use crate::constants::Constants;
use crate::machine::Machine;
use crate::presets;
use crate::scenario::{Job, Lending, Method, Scenario, Teams};
use mapper_model::{CpuRange, CpuSet, Qos};

pub(crate) fn machine(name: &str) -> Machine {
    presets::machine(name).unwrap()
}

pub(crate) fn hsw80() -> Machine {
    machine("hsw80")
}

pub(crate) fn app(name: &str) -> AppModel {
    presets::app(name).unwrap()
}

pub(crate) fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

/// One instruction a cycle, and nothing else.
pub(crate) fn computing() -> AppModel {
    AppModel {
        ipc0: 1.0,
        smt_slowdown: 0.6,
        misses_per_kilo: [0.0, 0.0],
        working_set_mb: 0.0,
        shared_set_mb: 0.0,
        sharing_stalls: 0.0,
        serial_share: 0.0,
        phases: Vec::new(),
        ..app("swaptions")
    }
}

/// A program that is there from the beginning.
pub(crate) fn job(name: &str, app: AppModel, threads: Option<u32>) -> Job {
    Job {
        name: name.to_owned(),
        app,
        threads,
        qos: Qos::default(),
        cpus: CpuRange::default(),
        arrives_s: 0.0,
    }
}

/// 20 seconds of these programs on hsw80, in teams of fixed size.
pub(crate) fn scenario(jobs: Vec<Job>) -> Scenario {
    Scenario {
        machine: hsw80(),
        constants: Constants::default(),
        jobs,
        method: Method::For(20.0),
        teams: Teams::Fixed,
        lending: Lending::Never,
        traffic_by_node: false,
        seed: 1,
        longest_step_s: None,
        timeline: false,
    }
}

/// The two differ relatively by less than `within`.
#[track_caller]
pub(crate) fn close(found: f64, expected: f64, within: f64) {
    let off = found / expected - 1.0;
    assert!(off.abs() < within, "{found} instead of {expected}");
}
