//! Whether the model's answers rest on what they are said to rest on.
//!
//! * Ablations: without sharing of data between threads, and without serial parts, the advantages
//!   that are explained by them have to shrink.
//! * Null checks: programs without sharing, saturation or barriers gain nothing by mapping, and a
//!   program or a service alone gains and loses nothing by a policy or by being in a set of all CPUs.
//! * Order: MAPPER > Linux > fair, the same with hill climbing before fair, and SAM-MPH > SAM > Linux
//!   survive moving each parameter by a quarter, the calibrated one (`time_sharing`) among them.

use super::catalogue::Catalogue;
use super::execute;
use super::plan::{Changes, Plan};
use super::protocol::{Protocol, Suite};
use super::run_spec::{Results, RunSpec};
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

/// Programs that neither share, saturate nor wait for each other, together and alone; and services alone, which a
/// set of all CPUs costs nothing either.
const NULLS: [&str; 5] = [
    "swaptions, CPU",
    "swaptions",
    "CPU",
    "memcached",
    "Mediastreaming",
];

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
        &NULLS.map(String::from),
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

/// What of [`NULLS`] is as it should be.
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
            for (policy, relative) in [("mapper", "mapper"), ("fair", "a set of all CPUs")] {
                let gain = of(policy) / of("linux") - 1.0;
                add(
                    format!("{} alone: {relative} against Linux", row.mix),
                    "less than 2 %",
                    gain,
                );
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::examples;
    use super::super::mix;
    use super::super::protocol::{Mean, MethodName, TeamsName};
    use super::*;
    use mapper_sim::{Constants, presets};

    fn spec() -> RunSpec {
        RunSpec {
            machine_name: "hsw80".into(),
            machine: presets::machines().unwrap()["hsw80"].clone(),
            members: mix::parse("SGD, canneal", &Catalogue::presets().unwrap()).unwrap(),
            policy: "linux".into(),
            method: MethodName::Time,
            longest_times: 3,
            speed_run_s: 10.0,
            teams: TeamsName::Fixed,
            qos: 0.85,
            interval_s: 1.0,
            overhead_budget: None,
            ipc_high: None,
            sharing_high: None,
            seed: 1,
            constants: Constants::default(),
            timeline: false,
            mean: Mean::Geometric,
        }
    }

    #[test]
    fn every_variation_but_the_first_changes_the_model_and_no_two_change_the_same() {
        let mut seen: Vec<(String, RunSpec)> = Vec::new();
        for variation in variations() {
            let mut changed = spec();
            (variation.change)(&mut changed);
            for (name, other) in &seen {
                assert_ne!(*other, changed, "{name} and {}", variation.name);
            }
            seen.push((variation.name, changed));
        }
        assert_eq!(seen[0].1, spec(), "the first is the model as it is");
    }

    #[test]
    fn each_parameter_is_moved_by_a_quarter_up_and_down() {
        let moved = |name: &str| {
            let mut spec = spec();
            let all = quarters();
            let variation = all.iter().find(|variation| variation.name == name).unwrap();
            (variation.change)(&mut spec);
            spec
        };
        let usual = spec();
        let ratio = |new: f64, old: f64| (new / old * 1e6).round() / 1e6;
        for (sign, factor) in [("-25 %", 0.75), ("+25 %", 1.25)] {
            let spec = moved(&format!("time sharing {sign}"));
            let of = |spec: &RunSpec| spec.constants.time_sharing;
            assert_eq!(ratio(of(&spec), of(&usual)), factor);
            let spec = moved(&format!("sharing {sign}"));
            let of = |spec: &RunSpec| spec.members[0].app.sharing_stalls;
            assert_eq!(ratio(of(&spec), of(&usual)), factor);
            let spec = moved(&format!("memory bandwidth {sign}"));
            let of = |spec: &RunSpec| spec.machine.memory_bytes_per_s;
            assert_eq!(ratio(of(&spec), of(&usual)), factor);
        }
        assert_eq!(quarters().len(), 16);
    }

    #[test]
    fn a_program_never_becomes_all_serial() {
        let mut spec = spec();
        spec.members[0].app.serial_share = 0.9;
        for variation in quarters() {
            (variation.change)(&mut spec);
            assert!(
                spec.members[0].app.serial_share <= 0.95,
                "{}",
                variation.name
            );
        }
    }

    /// What is found of a variation when the policies come to these means.
    fn found(kind: VariationKind, speeds: [f64; 4]) -> Vec<bool> {
        let variation = |kind| Variation {
            name: "v".into(),
            kind,
            change: Box::new(|_| {}),
        };
        let suite = examples::suite("mapper-fig2", &["SGD, ALS"], &POLICIES);
        let mut plan = Plan::default();
        let mut results = Results::new();
        // First the model as it is: 0.9, 0.8, 0.6 and between them 0.7.
        for (at, speeds) in [[0.9, 0.8, 0.6, 0.7], speeds].into_iter().enumerate() {
            let mut planned = examples::planned(&suite, 1);
            for (policy, keys) in &mut planned.mixes[0].policies {
                keys[0] = format!("{at}/{policy}");
                let which = POLICIES.iter().position(|name| name == policy).unwrap();
                results.insert(
                    keys[0].clone(),
                    examples::at_speed("SGD, ALS", speeds[which]),
                );
            }
            planned.mixes[0].fair = None;
            plan.suites.push(planned);
        }
        let variations = [variation(VariationKind::Baseline), variation(kind)];
        let findings = judge(&variations, &plan, &results);
        // Two of the model as it is.
        assert!(findings[..2].iter().all(|finding| finding.held));
        findings[2..].iter().map(|finding| finding.held).collect()
    }

    #[test]
    fn an_order_holds_only_where_each_is_ahead_of_the_next() {
        let moved = |speeds| found(VariationKind::Moved, speeds);
        assert_eq!(moved([0.9, 0.8, 0.6, 0.7]), [true, true]);
        assert_eq!(moved([0.8, 0.9, 0.6, 0.7]), [false, true]);
        assert_eq!(moved([0.9, 0.8, 0.6, 0.5]), [true, false]);
        assert_eq!(
            moved([0.8, 0.8, 0.8, 0.8]),
            [false, false],
            "a tie is no order"
        );
        assert_eq!(
            moved([f64::NAN, 0.8, 0.6, 0.7]),
            [false, false],
            "a mix without all of its policies says nothing"
        );
    }

    #[test]
    fn an_ablation_holds_where_the_advantage_that_it_explains_shrinks() {
        let sharing = |speeds| found(VariationKind::NoSharing, speeds);
        assert_eq!(sharing([0.81, 0.8, 0.6, 0.7]), [true]);
        assert_eq!(sharing([0.95, 0.8, 0.6, 0.7]), [false]);
        let serial = |speeds| found(VariationKind::NoSerial, speeds);
        assert_eq!(serial([0.9, 0.7, 0.6, 0.7]), [true]);
        assert_eq!(serial([0.9, 0.9, 0.6, 0.7]), [false]);
    }

    #[test]
    fn the_order_of_placements_needs_both_steps() {
        let variation = quarters().remove(0);
        let held = |speeds: [f64; 3]| {
            let suite = examples::suite(PLACED, &["SGD, ALS"], &PLACEMENTS);
            let table = examples::table_of(&suite, &|_, policy| {
                speeds[PLACEMENTS.iter().position(|name| *name == policy).unwrap()]
            });
            placement_order(&variation, &table).held
        };
        assert!(held([0.9, 0.8, 0.7]));
        assert!(!held([0.8, 0.8, 0.7]));
        assert!(!held([0.9, 0.7, 0.8]));
    }

    #[test]
    fn nothing_happens_where_nothing_should_within_two_percent_either_way() {
        let policies = ["fair-packed", "linux", "mapper"];
        let held = |own: f64| -> Vec<bool> {
            let suite = examples::suite("mix", &["swaptions, CPU", "CPU"], &policies);
            let table = examples::table_of(&suite, &|_, policy| match policy {
                "linux" => 1.0,
                _ => own,
            });
            // The suite's own column of the static fair share.
            let mut table = table;
            for row in &mut table.mixes {
                let fair = tables::Cell {
                    value: 1.0,
                    ..row.policies["linux"].clone()
                };
                row.policies.insert("fair".into(), fair);
            }
            let findings = null_findings(&table);
            findings.iter().map(|finding| finding.held).collect()
        };
        assert_eq!(held(1.01), [true, true, true]);
        assert_eq!(held(0.99), [true, true, true]);
        // The static fair share is at 1.
        assert_eq!(held(1.03), [false, false, true]);
        assert_eq!(held(0.97), [false, false, true]);
    }

    #[test]
    fn a_service_that_loses_speed_by_being_in_a_set_of_all_cpus_is_found() {
        let policies = ["fair-packed", "linux", "mapper"];
        let suite = examples::suite("mix", &["memcached"], &policies);
        let mut table = examples::table_of(&suite, &|_, _| 1.0);
        for row in &mut table.mixes {
            let fair = tables::Cell {
                value: 0.955,
                ..row.policies["linux"].clone()
            };
            row.policies.insert("fair".into(), fair);
        }
        let findings = null_findings(&table);
        let of = |told: &str| findings.iter().find(|f| f.check.contains(told)).unwrap();
        assert!(of("mapper").held);
        assert!(!of("a set of all CPUs").held);
    }

    #[test]
    fn runs_of_both_kinds_of_checks_are_added_up() {
        let checked = |done, left_out| Checked {
            findings: Vec::new(),
            done,
            left_out,
        };
        let sum = checked(3, 1).and(checked(4, 2));
        assert_eq!((sum.done, sum.left_out), (7, 3));
    }
}
