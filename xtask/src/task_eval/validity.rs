//! Whether the model's answers rest on what they are said to rest on.
//!
//! * Ablations: without sharing of data between threads, and without serial parts, the advantages
//!   that are explained by them have to shrink.
//! * Null checks: programs without sharing, saturation or barriers gain nothing by mapping, and a
//!   program alone gains nothing by a policy.
//! * Order: MAPPER > Linux > fair, the same with hill climbing before fair, and SAM-MPH > SAM > Linux
//!   survive moving each parameter by a quarter, the calibrated one (`time_sharing`) among them.

use super::catalogue::Catalogue;
use super::execute::{self, Results};
use super::plan::{Changes, Plan};
use super::protocol::{Protocol, Suite};
use super::run_spec::RunSpec;
use super::setting::Setting;
use super::tables;
use serde::Serialize;

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    pub(super) check: String,
    pub(super) expected: &'static str,
    pub(super) found: String,
    pub(super) held: bool,
}

/// What is changed in the model.
pub(super) struct Variation {
    pub(super) name: String,
    kind: VariationKind,
    pub(super) change: Box<dyn Fn(&mut RunSpec)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum VariationKind {
    Baseline,
    NoSharing,
    NoSerial,
    Moved,
}

const POLICIES: [&str; 4] = ["mapper-paper", "linux", "fair", "hill_climb"];
const SEEDS: u32 = 3;

/// The suite on which the order of placements is checked, its policies, and every which of its mixes:
/// they are many and alike.
const PLACED: &str = "sam-fig5";
const PLACEMENTS: [&str; 3] = ["sam_mph", "sam-per-task", "linux"];
const EVERY: usize = 3;

/// The cost of time sharing before Figure 2 calibrated it.
const FIRST_TIME_SHARING: f64 = 0.03;

/// The parameters that are moved by a quarter.
pub(super) fn quarters() -> Vec<Variation> {
    type Set = fn(&mut RunSpec, f64);
    let parameters: [(&str, Set); 8] = [
        ("SMT slowdown", |s, x| {
            s.members.iter_mut().for_each(|m| m.app.smt_slowdown *= x);
        }),
        ("cost within a socket", |s, x| s.constants.intra_socket *= x),
        ("sharing", |s, x| {
            s.members.iter_mut().for_each(|m| m.app.sharing_stalls *= x);
        }),
        ("serial share", |s, x| {
            s.members
                .iter_mut()
                .for_each(|m| m.app.serial_share = (m.app.serial_share * x).min(0.95));
        }),
        ("cost of spinning", |s, x| s.constants.spin_wait *= x),
        ("own oversubscription", |s, x| {
            s.constants.own_oversubscription *= x;
        }),
        ("time sharing", |s, x| s.constants.time_sharing *= x),
        ("memory bandwidth", |s, x| s.machine.memory_bytes_per_s *= x),
    ];
    let mut all = Vec::new();
    for (name, set) in parameters {
        for (sign, factor) in [("-25 %", 0.75), ("+25 %", 1.25)] {
            all.push(Variation {
                name: format!("{name} {sign}"),
                kind: VariationKind::Moved,
                change: Box::new(move |spec| set(spec, factor)),
            });
        }
    }
    all
}

fn variations() -> Vec<Variation> {
    let mut all = vec![
        Variation {
            name: "as it is".into(),
            kind: VariationKind::Baseline,
            change: Box::new(|_| {}),
        },
        Variation {
            name: "no sharing of data".into(),
            kind: VariationKind::NoSharing,
            change: Box::new(|s| {
                s.members
                    .iter_mut()
                    .for_each(|m| m.app.sharing_stalls = 0.0);
            }),
        },
        Variation {
            name: "no serial parts".into(),
            kind: VariationKind::NoSerial,
            change: Box::new(|s| s.members.iter_mut().for_each(|m| m.app.serial_share = 0.0)),
        },
    ];
    all.extend(quarters());
    all.push(Variation {
        name: format!("time sharing {FIRST_TIME_SHARING}, as before it was calibrated"),
        kind: VariationKind::Moved,
        change: Box::new(|s| s.constants.time_sharing = FIRST_TIME_SHARING),
    });
    all
}

/// What came of all checks.
#[derive(Default)]
pub(super) struct Checked {
    /// None when they were stopped: half of them say nothing.
    pub(super) findings: Vec<Finding>,
    /// Runs that are finished.
    pub(super) done: usize,
    /// Runs left out after Ctrl-C.
    pub(super) left_out: usize,
}

impl Checked {
    /// These and those.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.findings.extend(other.findings);
        self.done += other.done;
        self.left_out += other.left_out;
        self
    }
}

/// Runs all checks.
pub(super) fn check(
    protocol: &Protocol,
    catalogue: &Catalogue,
    settings: &[Setting],
    fresh: bool,
) -> anyhow::Result<Checked> {
    let changes = Changes {
        seeds: Some(SEEDS),
        settings: settings.to_vec(),
        ..Changes::default()
    };
    let suite = Suite {
        policies: POLICIES.map(String::from).to_vec(),
        ..of_protocol(protocol, "mapper-fig2")?.clone()
    };
    let placed = of_protocol(protocol, PLACED)?;
    let placed = Suite {
        policies: PLACEMENTS.map(String::from).to_vec(),
        mixes: placed.mixes.iter().step_by(EVERY).cloned().collect(),
        ..placed.clone()
    };
    let variations = variations();
    let mut plan = Plan::default();
    for variation in &variations {
        plan.add_varied(&suite, protocol, catalogue, &changes, &*variation.change)?;
    }
    let ordered: Vec<&Variation> = variations.iter().filter(|v| v.keeps_order()).collect();
    for variation in &ordered {
        plan.add_varied(&placed, protocol, catalogue, &changes, &*variation.change)?;
    }
    let nulls = super::plan::ad_hoc(
        &["swaptions, CPU".into(), "swaptions".into(), "CPU".into()],
        "hsw80",
        &["fair", "fair-packed", "linux", "mapper"].map(String::from),
        super::protocol::TeamsName::Fixed,
    );
    plan.add(&nulls, protocol, catalogue, &changes)?;
    let done = execute::execute(&plan, fresh)?;
    if done.left_out > 0 {
        return Ok(Checked {
            findings: Vec::new(),
            done: done.results.len(),
            left_out: done.left_out,
        });
    }
    let mut findings = judge(&variations, &plan, &done.results);
    let placements = plan.suites.iter().skip(variations.len());
    for (variation, planned) in ordered.iter().zip(placements) {
        let table = tables::table(planned, &done.results);
        findings.push(placement_order(variation, &table));
    }
    if let Some(planned) = plan.suites.last() {
        findings.extend(null_findings(&tables::table(planned, &done.results)));
    }
    Ok(Checked {
        findings,
        done: done.results.len(),
        left_out: 0,
    })
}

fn of_protocol<'a>(protocol: &'a Protocol, name: &str) -> anyhow::Result<&'a Suite> {
    match protocol.suites.iter().find(|suite| suite.name == name) {
        Some(suite) => Ok(suite),
        None => anyhow::bail!("the protocol has no suite {name}, on which validity is checked"),
    }
}

impl Variation {
    /// Whether the published orders are expected to stay.
    fn keeps_order(&self) -> bool {
        matches!(self.kind, VariationKind::Baseline | VariationKind::Moved)
    }
}

/// SAM-MPH > SAM > Linux [SAM-MPH Figure 5].
fn placement_order(variation: &Variation, table: &tables::SuiteTable) -> Finding {
    let of = |policy: &str| table.overall.get(policy).copied().unwrap_or(f64::NAN);
    let [sam_mph, sam, linux] = PLACEMENTS.map(of);
    Finding {
        check: format!("{PLACED}, one mix of {EVERY}, {}", variation.name),
        expected: "SAM-MPH > SAM > Linux",
        found: format!("SAM-MPH {sam_mph:.3}, SAM {sam:.3}, Linux {linux:.3}"),
        held: sam_mph > sam && sam > linux,
    }
}

fn judge(variations: &[Variation], plan: &Plan, results: &Results) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut usual = None;
    for (variation, planned) in variations.iter().zip(&plan.suites) {
        let table = tables::table(planned, results);
        let of = |policy: &str| table.overall.get(policy).copied().unwrap_or(f64::NAN);
        let [mapper, linux, fair, climbing] = POLICIES.map(of);
        let found = format!("MAPPER {mapper:.3}, Linux {linux:.3}, fair {fair:.3}");
        let (expected, held) = match variation.kind {
            VariationKind::Baseline => {
                usual = Some((mapper / linux, linux / fair));
                ("MAPPER > Linux > fair", mapper > linux && linux > fair)
            }
            VariationKind::Moved => ("MAPPER > Linux > fair", mapper > linux && linux > fair),
            VariationKind::NoSharing => (
                "MAPPER's advantage over Linux shrinks",
                usual.is_some_and(|(gain, _)| mapper / linux < gain),
            ),
            VariationKind::NoSerial => (
                "Linux's advantage over fair shrinks",
                usual.is_some_and(|(_, gain)| linux / fair < gain),
            ),
        };
        findings.push(Finding {
            check: format!("Figure 2, {}", variation.name),
            expected,
            found,
            held,
        });
        if variation.keeps_order() {
            findings.push(Finding {
                check: format!("Figure 2, {}", variation.name),
                expected: "Linux > hill climbing > fair",
                found: format!("Linux {linux:.3}, hill climbing {climbing:.3}, fair {fair:.3}"),
                held: linux > climbing && climbing > fair,
            });
        }
    }
    findings
}

/// Programs that do not share, saturate or wait for each other.
fn null_findings(table: &tables::SuiteTable) -> Vec<Finding> {
    let mut findings = Vec::new();
    for row in &table.mixes {
        let of = |policy: &str| row.policies.get(policy).map_or(f64::NAN, |cell| cell.value);
        let mut add = |check: String, expected, gain: f64| {
            findings.push(Finding {
                check,
                expected,
                found: format!("{:+.1} %", 100.0 * gain),
                held: gain.abs() < 0.02,
            });
        };
        if row.mix.contains(',') {
            let gain = of("fair-packed") / of("fair") - 1.0;
            add(
                format!("{}: packed against spread", row.mix),
                "less than 2 %",
                gain,
            );
        } else {
            let gain = of("mapper") / of("linux") - 1.0;
            add(
                format!("{} alone: mapper against Linux", row.mix),
                "less than 2 %",
                gain,
            );
        }
    }
    findings
}
