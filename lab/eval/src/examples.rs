//! Suites and results made up for tests, without a run of the simulator.

use super::arguments::Args;
use super::catalogue::Catalogue;
use super::evaluation::Evaluation;
use super::mix;
use super::plan::{self, Plan, PlannedMix, PlannedSuite};
use super::protocol::{self, Protocol, Relative, Suite};
use super::run_spec::{AppResult, Results, RunResult, RunSpec};
use super::tables::{self, SuiteTable};
use super::targets::{self, Book, Line, Model};
use clap::Parser;
use mapper_report::table::texts;
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

/// What a command line says.
pub(super) fn args(given: &[&str]) -> Result<Args, clap::Error> {
    #[derive(Parser)]
    struct Eval {
        #[command(flatten)]
        args: Args,
    }
    let all = ["eval"].iter().chain(given);
    Eval::try_parse_from(all).map(|eval| eval.args)
}

/// The runs that a command line means.
pub(super) fn plan(given: &[&str]) -> anyhow::Result<Plan> {
    let args = args(given).unwrap();
    args.check_together()?;
    args.planned(protocol(), catalogue())
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
    targets::judge(&book, Some(protocol().version)).unwrap()
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
    Suite {
        name: name.into(),
        title: format!("Title of {name}"),
        ..plan::ad_hoc(texts(mixes), "hsw80", texts(policies))
    }
}

/// What became of programs that ran at these speeds, the first one for 100 s.
pub(super) fn ran(programs: &[(&str, f64)]) -> RunResult {
    let apps = programs.iter().map(|&(name, speed)| AppResult {
        name: name.into(),
        speed,
        first_end_s: Some(100.0 / speed),
        mean_cpus: 10.0,
        cores_by_node: vec![10, 0, 0, 0],
        ..AppResult::default()
    });
    RunResult {
        apps: apps.collect(),
        elapsed_s: 100.0,
        ..RunResult::default()
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

/// Suites of which everything is said by rows such as `s | SGD, ALS | own 0.9 0.4 | linux 0.5`: the speed of each
/// program of a mix, or of all, under each policy, or `linux 80s`, how long the mix takes, and every program.
pub(super) fn tables_of(rows: &[&str]) -> Vec<SuiteTable> {
    changed_tables_of(rows, &|_, _, _| {})
}

/// The same after a change of every run, by mix and policy.
pub(super) fn changed_tables_of(
    rows: &[&str],
    change: &dyn Fn(&str, &str, &mut RunResult),
) -> Vec<SuiteTable> {
    let rows: Vec<Vec<&str>> = rows.iter().map(|row| row.split(" | ").collect()).collect();
    let tables = rows.chunk_by(|one, next| one[0] == next[0]).map(|rows| {
        let mixes: Vec<&str> = rows.iter().map(|row| row[1]).collect();
        let policies = rows[0][2..].iter().map(|of| of.split_once(' ').unwrap().0);
        let suite = suite(rows[0][0], &mixes, &policies.collect::<Vec<_>>());
        table(&suite, &|mix, policy| {
            let mut parts = rows.iter().find(|row| row[1] == mix).unwrap()[2..].iter();
            let came = parts.find_map(|of| of.strip_prefix(policy)?.strip_prefix(' '));
            let mut run = came_to(mix, came.unwrap());
            change(mix, policy, &mut run);
            run
        })
    });
    tables.collect()
}

/// A suite of forty mixes, too many for one plot.
pub(super) fn many_mixes() -> SuiteTable {
    let rows = (1..=40).map(|at| format!("s | {at} SGD, 1 ALS | linux 0.75 | mapper 0.75"));
    let rows: Vec<String> = rows.collect();
    tables_of(&rows.iter().map(String::as_str).collect::<Vec<_>>()).remove(0)
}

fn came_to(mix: &str, came: &str) -> RunResult {
    if let Some(seconds) = came.strip_suffix('s') {
        let elapsed_s = seconds.parse().unwrap();
        let run = at_speed(mix, 100.0 / elapsed_s);
        return RunResult { elapsed_s, ..run };
    }
    let speeds = came.split(' ').map(|speed| speed.parse().unwrap());
    let programs = mix.split(", ").map(program).zip(speeds.cycle());
    ran(&programs.collect::<Vec<_>>())
}
