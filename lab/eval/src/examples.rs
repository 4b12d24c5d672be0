//! Suites and results made up for tests, without a run of the simulator.

use super::catalogue::Catalogue;
use super::evaluation::Evaluation;
use super::mix;
use super::plan::{self, PlannedMix, PlannedSuite};
use super::protocol::{self, Protocol, Relative, Suite, TeamsName};
use super::run_spec::{AppResult, Results, RunResult, RunSpec};
use super::tables::{self, SuiteTable};
use super::targets::{self, Book, Line, Model};
use mapper_sim::Constants;
use std::sync::LazyLock;

static READ: LazyLock<(Protocol, Catalogue)> =
    LazyLock::new(|| Protocol::read(&protocol::newest()).expect("the newest protocol"));

pub(super) fn protocol() -> &'static Protocol {
    &READ.0
}

pub(super) fn catalogue() -> &'static Catalogue {
    &READ.1
}

/// The model as it is, with nothing set.
pub(super) fn model() -> Model<'static> {
    Model {
        constants: Constants::default(),
        catalogue: catalogue(),
        settings: &[],
    }
}

/// An evaluation of which nothing came out yet.
pub(super) fn evaluation() -> Evaluation<'static> {
    Evaluation {
        protocol: protocol(),
        protocol_sha256: &protocol().sha256,
        settings: &[],
        suites: &[],
        nucore_table1: Vec::new(),
        targets: &[],
        unjudged: &[],
        standings: &[],
        validity: &[],
        left_out: 0,
    }
}

/// Published numbers beside these results, made as their causes were found.
pub(super) fn judged(tables: &[SuiteTable]) -> Vec<Line> {
    let book = Book {
        tables,
        model: model(),
    };
    targets::judge(&book, targets::Explained::of_newest()).unwrap()
}

/// A short run of these programs on a machine.
pub(super) fn run(machine: &str, programs: &str, policy: &str) -> RunSpec {
    let spec = catalogue().machine(machine).unwrap().clone();
    let members = mix::parse(programs, catalogue()).unwrap();
    RunSpec {
        policy: policy.into(),
        ..RunSpec::plain(machine, spec, members, Constants::default())
    }
}

/// A suite on the usual machine.
pub(super) fn suite(name: &str, mixes: &[&str], policies: &[&str]) -> Suite {
    let strings = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    Suite {
        name: name.into(),
        title: format!("Title of {name}"),
        ..plan::ad_hoc(
            &strings(mixes),
            "hsw80",
            &strings(policies),
            TeamsName::Fixed,
        )
    }
}

/// What became of programs that ran at these speeds, the first one for 100 s.
pub(super) fn ran(programs: &[(&str, f64)]) -> RunResult {
    let apps = programs.iter().map(|&(name, speed)| AppResult {
        name: name.into(),
        speed,
        runs: 1,
        first_end_s: Some(100.0 / speed),
        begin_s: 0.0,
        arrives_s: 0.0,
        p99_s: None,
        mean_cpus: 10.0,
        cores_by_node: vec![10, 0, 0, 0],
        standalone_s: 100.0,
        intra_socket_per_cycle: 0.0,
        inter_socket_per_cycle: 0.0,
    });
    RunResult {
        apps: apps.collect(),
        elapsed_s: 100.0,
        rewrites_per_s: 0.0,
        moves_per_s: 0.0,
        bandwidth_error: None,
        timeline: Vec::new(),
    }
}

/// A run in which all programs of a mix have the same speed.
pub(super) fn at_speed(mix: &str, speed: f64) -> RunResult {
    let names: Vec<&str> = mix.split(", ").map(program).collect();
    let programs: Vec<(&str, f64)> = names.into_iter().map(|name| (name, speed)).collect();
    ran(&programs)
}

fn program(part: &str) -> &str {
    part.rsplit(' ').next().unwrap_or(part)
}

pub(super) fn key(mix: &str, policy: &str, seed: usize) -> String {
    format!("{mix}/{policy}/{seed}")
}

/// A suite with the keys of so many seeds.
pub(super) fn planned(suite: &Suite, seeds: usize) -> PlannedSuite {
    let mixes = suite.mixes.iter().map(|mix| PlannedMix {
        text: mix.clone(),
        policies: suite
            .policies
            .iter()
            .map(|policy| {
                let keys = (0..seeds).map(|seed| key(mix, policy, seed));
                (policy.clone(), keys.collect())
            })
            .collect(),
        fair: Some(key(mix, "fair", 0)),
        alone: match suite.relative {
            Relative::BestStatic | Relative::OneCore => {
                let programs = mix.split(", ").map(program);
                programs.map(|of| key(of, "alone", 0)).collect()
            }
            _ => Vec::new(),
        },
    });
    PlannedSuite {
        suite: suite.clone(),
        promised: 0.85,
        cpus: 80,
        mixes: mixes.collect(),
    }
}

/// The table of a suite whose runs came out as `run` says of a mix under a policy. Under the static fair share
/// and alone every program has a speed of 1.
pub(super) fn table(suite: &Suite, run: &dyn Fn(&str, &str) -> RunResult) -> SuiteTable {
    let mut results = Results::new();
    for mix in &suite.mixes {
        results.insert(key(mix, "fair", 0), at_speed(mix, 1.0));
        for part in mix.split(", ").map(program) {
            results.insert(key(part, "alone", 0), at_speed(part, 1.0));
        }
        for policy in suite.policies.iter().filter(|policy| *policy != "fair") {
            results.insert(key(mix, policy, 0), run(mix, policy));
        }
    }
    tables::table(&planned(suite, 1), &results)
}

/// The same with one speed for all programs of a mix under a policy.
pub(super) fn table_of(suite: &Suite, speed: &dyn Fn(&str, &str) -> f64) -> SuiteTable {
    table(suite, &|mix, policy| at_speed(mix, speed(mix, policy)))
}
