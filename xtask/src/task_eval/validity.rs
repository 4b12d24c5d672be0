//! Whether the model's answers rest on what they are said to rest on.
//!
//! * Ablations: without sharing of data between threads, and without serial parts, the advantages
//!   that are explained by them have to shrink.
//! * Null checks: programs without sharing, saturation or barriers gain nothing by mapping, and a
//!   program alone gains nothing by a policy.
//! * Order: MAPPER > Linux > fair survives moving each parameter by a quarter.

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
struct Variation {
    name: String,
    kind: VariationKind,
    change: Box<dyn Fn(&mut RunSpec)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum VariationKind {
    Baseline,
    NoSharing,
    NoSerial,
    Quarter,
}

const POLICIES: [&str; 3] = ["mapper-paper", "linux", "fair"];
const SEEDS: u32 = 3;

/// The parameters that are moved by a quarter.
fn quarters() -> Vec<Variation> {
    type Set = fn(&mut RunSpec, f64);
    let parameters: [(&str, Set); 7] = [
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
        ("memory bandwidth", |s, x| s.machine.memory_bytes_per_s *= x),
    ];
    let mut all = Vec::new();
    for (name, set) in parameters {
        for (sign, factor) in [("-25 %", 0.75), ("+25 %", 1.25)] {
            all.push(Variation {
                name: format!("{name} {sign}"),
                kind: VariationKind::Quarter,
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
    all
}

/// What came of all checks.
#[derive(Default)]
pub(super) struct Checked {
    /// None when they were stopped: half of them say nothing.
    pub(super) findings: Vec<Finding>,
    /// Runs left out after Ctrl-C.
    pub(super) left_out: usize,
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
    let Some(fig2) = protocol.suites.iter().find(|s| s.name == "mapper-fig2") else {
        anyhow::bail!("the protocol has no suite mapper-fig2, on which validity is checked");
    };
    let suite = Suite {
        policies: POLICIES.map(String::from).to_vec(),
        ..fig2.clone()
    };
    let variations = variations();
    let mut plan = Plan::default();
    for variation in &variations {
        plan.add_varied(&suite, protocol, catalogue, &changes, &*variation.change)?;
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
            left_out: done.left_out,
        });
    }
    let mut findings = judge(&variations, &plan, &done.results);
    if let Some(planned) = plan.suites.last() {
        findings.extend(null_findings(&tables::table(planned, &done.results)));
    }
    Ok(Checked {
        findings,
        left_out: 0,
    })
}

fn judge(variations: &[Variation], plan: &Plan, results: &Results) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut usual = None;
    for (variation, planned) in variations.iter().zip(&plan.suites) {
        let table = tables::table(planned, results);
        let of = |policy: &str| table.overall.get(policy).copied().unwrap_or(f64::NAN);
        let [mapper, linux, fair] = POLICIES.map(of);
        let found = format!("MAPPER {mapper:.3}, Linux {linux:.3}, fair {fair:.3}");
        let (expected, held) = match variation.kind {
            VariationKind::Baseline => {
                usual = Some((mapper / linux, linux / fair));
                ("MAPPER > Linux > fair", mapper > linux && linux > fair)
            }
            VariationKind::Quarter => ("MAPPER > Linux > fair", mapper > linux && linux > fair),
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
