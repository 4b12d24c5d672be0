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
use super::plan::{self, Changes, Plan};
use super::protocol::{Protocol, Suite};
use super::run_spec::RunSpec;
use super::setting::Setting;
use super::tables::{self, SuiteTable};
use anyhow::Context as _;
use mapper_report::table::texts;
use mapper_sim::AppModel;
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    pub(super) check: String,
    pub(super) expected: &'static str,
    pub(super) found: String,
    pub(super) held: bool,
}

pub(super) struct Variation {
    pub(super) name: String,
    kind: VariationKind,
    set: Set,
    to: f64,
}

/// Changes a parameter by a factor or to a value.
type Set = fn(&mut RunSpec, f64);

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

fn programs(spec: &mut RunSpec, change: impl Fn(&mut AppModel)) {
    let members = spec.members.iter_mut();
    members.for_each(|member| change(&mut member.app));
}

/// The parameters that are moved by a quarter.
pub(super) fn quarters() -> Vec<Variation> {
    let parameters: [(&str, Set); 8] = [
        ("SMT slowdown", |s, x| {
            programs(s, |app| app.smt_slowdown *= x);
        }),
        ("cost within a socket", |s, x| s.constants.intra_socket *= x),
        ("sharing", |s, x| programs(s, |app| app.sharing_stalls *= x)),
        ("serial share", |s, x| {
            programs(s, |app| app.serial_share = (app.serial_share * x).min(0.95));
        }),
        ("cost of spinning", |s, x| s.constants.spin_wait *= x),
        ("own oversubscription", |s, x| {
            s.constants.own_oversubscription *= x;
        }),
        ("time sharing", |s, x| s.constants.time_sharing *= x),
        ("memory bandwidth", |s, x| s.machine.memory_bytes_per_s *= x),
    ];
    let both = |(name, set): (&str, Set)| {
        let of = |sign, to| variation(format!("{name} {sign}"), VariationKind::Moved, set, to);
        [of("-25 %", 0.75), of("+25 %", 1.25)]
    };
    parameters.into_iter().flat_map(both).collect()
}

fn variation(name: impl Into<String>, kind: VariationKind, set: Set, to: f64) -> Variation {
    let name = name.into();
    Variation {
        name,
        kind,
        set,
        to,
    }
}

fn variations() -> Vec<Variation> {
    use VariationKind::{Baseline, Moved, NoSerial, NoSharing};
    let no_sharing: Set = |s, x| programs(s, |app| app.sharing_stalls = x);
    let no_serial: Set = |s, x| programs(s, |app| app.serial_share = x);
    let first: Set = |s, x| s.constants.time_sharing = x;
    let first_name = format!("time sharing {FIRST_TIME_SHARING}, as before it was calibrated");
    let mut all = vec![
        variation("as it is", Baseline, |_, _| {}, 0.0),
        variation("no sharing of data", NoSharing, no_sharing, 0.0),
        variation("no serial parts", NoSerial, no_serial, 0.0),
    ];
    all.extend(quarters());
    all.push(variation(first_name, Moved, first, FIRST_TIME_SHARING));
    all
}

#[derive(Default)]
pub(super) struct Checked {
    /// None of those that were stopped: half of them say nothing.
    pub(super) findings: Vec<Finding>,
    pub(super) done: usize,
    pub(super) left_out: usize,
}

impl Checked {
    /// Computes the suites of a plan; nothing when the user stops it.
    pub(super) fn tables(
        &mut self,
        plan: &Plan,
        fresh: bool,
    ) -> anyhow::Result<Option<Vec<SuiteTable>>> {
        let done = execute::execute(plan, fresh)?;
        self.done += done.results.len();
        self.left_out += done.left_out;
        let planned = plan.suites.iter();
        let tables = planned.map(|planned| tables::table(planned, &done.results));
        Ok((done.left_out == 0).then(|| tables.collect()))
    }
}

pub(super) struct Checks<'a> {
    pub(super) protocol: &'a Protocol,
    pub(super) catalogue: &'a Catalogue,
    pub(super) settings: &'a [Setting],
    pub(super) fresh: bool,
}

impl Checks<'_> {
    pub(super) fn suite(&self, name: &str, policies: &[&str]) -> anyhow::Result<Suite> {
        let mut suites = self.protocol.suites.iter();
        let suite = suites.find(|suite| suite.name == name);
        let missing = || format!("the protocol has no suite {name}, on which validity is checked");
        Ok(Suite {
            policies: texts(policies),
            ..suite.with_context(missing)?.clone()
        })
    }

    pub(super) fn add(
        &self,
        plan: &mut Plan,
        suite: &Suite,
        seeds: u32,
        variation: &Variation,
    ) -> anyhow::Result<()> {
        let changes = Changes {
            seeds: Some(seeds),
            settings: self.settings,
            vary: Some(&|spec| (variation.set)(spec, variation.to)),
            ..Changes::default()
        };
        plan.add(suite, self.protocol, self.catalogue, &changes)
    }

    pub(super) fn check(&self, checked: &mut Checked) -> anyhow::Result<()> {
        let suite = self.suite("mapper-fig2", &POLICIES)?;
        let mut placed = self.suite(PLACED, &PLACEMENTS)?;
        placed.mixes = placed.mixes.into_iter().step_by(EVERY).collect();
        let variations = variations();
        let mut plan = Plan::default();
        for variation in &variations {
            self.add(&mut plan, &suite, SEEDS, variation)?;
        }
        let ordered: Vec<&Variation> = variations.iter().filter(|v| v.keeps_order()).collect();
        for variation in &ordered {
            self.add(&mut plan, &placed, SEEDS, variation)?;
        }
        let policies = texts(["fair", "fair-packed", "linux", "mapper"]);
        let nulls = plan::ad_hoc(texts(NULLS), "hsw80", policies);
        let Some(as_it_is) = variations.first() else {
            return Ok(());
        };
        self.add(&mut plan, &nulls, SEEDS, as_it_is)?;
        let Some(tables) = checked.tables(&plan, self.fresh)? else {
            return Ok(());
        };
        let findings = &mut checked.findings;
        findings.extend(judge(&variations, &tables));
        let placements = tables.iter().skip(variations.len());
        let placements = ordered.iter().zip(placements);
        let orders = placements.map(|(variation, table)| placement_order(variation, table));
        findings.extend(orders);
        findings.extend(tables.last().into_iter().flat_map(null_findings));
        Ok(())
    }
}

impl Variation {
    /// Whether the published orders are expected to stay.
    fn keeps_order(&self) -> bool {
        matches!(self.kind, VariationKind::Baseline | VariationKind::Moved)
    }
}

fn means<const N: usize>(table: &SuiteTable, policies: [&str; N]) -> [f64; N] {
    policies.map(|policy| table.overall.get(policy).copied().unwrap_or(f64::NAN))
}

/// SAM-MPH > SAM > Linux [SAM-MPH Figure 5].
fn placement_order(variation: &Variation, table: &SuiteTable) -> Finding {
    let [sam_mph, sam, linux] = means(table, PLACEMENTS);
    Finding {
        check: format!("{PLACED}, one mix of {EVERY}, {}", variation.name),
        expected: "SAM-MPH > SAM > Linux",
        found: format!("SAM-MPH {sam_mph:.3}, SAM {sam:.3}, Linux {linux:.3}"),
        held: sam_mph > sam && sam > linux,
    }
}

fn judge(variations: &[Variation], tables: &[SuiteTable]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |variation: &Variation, expected, found, held| {
        let check = format!("Figure 2, {}", variation.name);
        findings.push(Finding {
            check,
            expected,
            found,
            held,
        });
    };
    let usual = tables.first().map(|table| means(table, POLICIES));
    let [usual_mapper, usual_linux, usual_fair, _] = usual.unwrap_or([f64::NAN; 4]);
    for (variation, table) in variations.iter().zip(tables) {
        let [mapper, linux, fair, climbing] = means(table, POLICIES);
        let (expected, held) = match variation.kind {
            VariationKind::Baseline | VariationKind::Moved => {
                ("MAPPER > Linux > fair", mapper > linux && linux > fair)
            }
            VariationKind::NoSharing => (
                "MAPPER's advantage over Linux shrinks",
                mapper / linux < usual_mapper / usual_linux,
            ),
            VariationKind::NoSerial => (
                "Linux's advantage over fair shrinks",
                linux / fair < usual_linux / usual_fair,
            ),
        };
        let found = format!("MAPPER {mapper:.3}, Linux {linux:.3}, fair {fair:.3}");
        add(variation, expected, found, held);
        if variation.keeps_order() {
            let found = format!("Linux {linux:.3}, hill climbing {climbing:.3}, fair {fair:.3}");
            let held = linux > climbing && climbing > fair;
            add(variation, "Linux > hill climbing > fair", found, held);
        }
    }
    findings
}

/// What of [`NULLS`] is as it should be.
fn null_findings(table: &SuiteTable) -> Vec<Finding> {
    let mut findings = Vec::new();
    for row in &table.mixes {
        let of = |policy: &str| row.policies.get(policy).map_or(f64::NAN, |cell| cell.value);
        let mut add = |check: String, gain: f64| {
            findings.push(Finding {
                check,
                expected: "less than 2 %",
                found: format!("{:+.1} %", 100.0 * gain),
                held: gain.abs() < 0.02,
            });
        };
        let mix = &row.mix;
        if mix.contains(',') {
            let gain = of("fair-packed") / of("fair") - 1.0;
            add(format!("{mix}: packed against spread"), gain);
        } else {
            for (policy, relative) in [("mapper", "mapper"), ("fair", "a set of all CPUs")] {
                let gain = of(policy) / of("linux") - 1.0;
                add(format!("{mix} alone: {relative} against Linux"), gain);
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::examples::{run, tables_of};
    use super::*;

    fn spec() -> RunSpec {
        run("hsw80", "SGD, canneal", "linux")
    }

    fn varied(variation: &Variation) -> RunSpec {
        let mut spec = spec();
        (variation.set)(&mut spec, variation.to);
        spec
    }

    #[test]
    fn every_variation_but_the_first_changes_the_model_and_no_two_change_the_same() {
        let mut seen: Vec<(String, RunSpec)> = Vec::new();
        for variation in variations() {
            let changed = varied(&variation);
            for (name, other) in &seen {
                assert_ne!(*other, changed, "{name} and {}", variation.name);
            }
            seen.push((variation.name, changed));
        }
        assert_eq!(seen[0].1, spec(), "the first is the model as it is");
    }

    type Of = fn(&RunSpec) -> f64;

    #[test]
    fn each_parameter_is_moved_by_a_quarter_up_and_down() {
        let all = quarters();
        assert_eq!(all.len(), 16);
        let of: [(&str, Of); 3] = [
            ("time sharing", |spec| spec.constants.time_sharing),
            ("sharing", |spec| spec.members[0].app.sharing_stalls),
            ("memory bandwidth", |spec| spec.machine.memory_bytes_per_s),
        ];
        for (name, of) in of {
            for (sign, factor) in [("-25 %", 0.75), ("+25 %", 1.25)] {
                let name = format!("{name} {sign}");
                let variation = all.iter().find(|variation| variation.name == name);
                let ratio = of(&varied(variation.unwrap())) / of(&spec());
                assert!((ratio / factor - 1.0).abs() < 1e-6, "{name}: {ratio}");
            }
        }
    }

    #[test]
    fn a_program_never_becomes_all_serial() {
        let mut spec = spec();
        spec.members[0].app.serial_share = 0.9;
        for Variation { name, set, to, .. } in quarters() {
            set(&mut spec, to);
            assert!(spec.members[0].app.serial_share <= 0.95, "{name}");
        }
    }

    const MISSING: f64 = -1.0;

    /// What is found of a variation when the policies come to these means; before, with the model as it is, to 0.9,
    /// 0.8, 0.6 and between them 0.7. A mean of `MISSING` is left out.
    fn found(kind: VariationKind, speeds: [f64; 4]) -> Vec<bool> {
        let tables = [[0.9, 0.8, 0.6, 0.7], speeds].map(|speeds| {
            let mut table = tables_of(&["mapper-fig2 | SGD, ALS | linux 1"]).remove(0);
            let means = POLICIES.map(String::from).into_iter().zip(speeds);
            table.overall = means.filter(|(_, speed)| *speed != MISSING).collect();
            table
        });
        let kinds = [VariationKind::Baseline, kind];
        let variations = kinds.map(|kind| variation("v", kind, |_, _| {}, 0.0));
        let findings = judge(&variations, &tables);
        // Two of the model as it is.
        assert!(findings[..2].iter().all(|finding| finding.held));
        findings[2..].iter().map(|finding| finding.held).collect()
    }

    #[test]
    fn an_order_holds_only_where_each_is_ahead_of_the_next_and_an_ablation_where_an_advantage_shrinks()
     {
        use VariationKind::{Moved, NoSerial, NoSharing};
        // A tie is no order, and a mix without all of its policies says nothing.
        for (kind, speeds, held) in [
            (Moved, [0.9, 0.8, 0.6, 0.7], &[true, true][..]),
            (Moved, [0.8, 0.9, 0.6, 0.7], &[false, true]),
            (Moved, [0.9, 0.8, 0.6, 0.5], &[true, false]),
            (Moved, [0.8, 0.8, 0.8, 0.8], &[false, false]),
            (Moved, [MISSING, 0.8, 0.6, 0.7], &[false, true]),
            (Moved, [0.9, 0.8, 0.6, MISSING], &[true, false]),
            (NoSharing, [0.81, 0.8, 0.6, 0.7], &[true]),
            (NoSharing, [0.95, 0.8, 0.6, 0.7], &[false]),
            (NoSerial, [0.9, 0.7, 0.6, 0.7], &[true]),
            (NoSerial, [0.9, 0.9, 0.6, 0.7], &[false]),
        ] {
            assert_eq!(found(kind, speeds), held, "{speeds:?}");
        }
    }

    #[test]
    fn the_order_of_placements_needs_both_steps() {
        let variation = quarters().remove(0);
        for (speeds, held) in [
            ("sam_mph 0.9 | sam-per-task 0.8 | linux 0.7", true),
            ("sam_mph 0.8 | sam-per-task 0.8 | linux 0.7", false),
            ("sam_mph 0.9 | sam-per-task 0.7 | linux 0.8", false),
        ] {
            let table = &tables_of(&[&format!("{PLACED} | SGD, ALS | {speeds}")])[0];
            assert_eq!(placement_order(&variation, table).held, held);
        }
    }

    #[test]
    fn nothing_happens_where_nothing_should_within_two_percent_either_way() {
        for (own, fair, expected) in [
            (1.01, 1.0, [true, true, true]),
            (0.99, 1.0, [true, true, true]),
            (1.03, 1.0, [false, false, true]),
            (0.97, 1.0, [false, false, true]),
            // A program that loses speed by being in a set of all CPUs.
            (1.0, 0.955, [false, true, false]),
        ] {
            let of =
                |mix| format!("mix | {mix} | fair 1 | fair-packed {own} | linux 1 | mapper {own}");
            let mut table = tables_of(&[&of("swaptions, CPU"), &of("CPU")]).remove(0);
            for row in &mut table.mixes {
                row.policies.get_mut("fair").unwrap().value = fair;
            }
            let findings = null_findings(&table);
            let held: Vec<bool> = findings.iter().map(|finding| finding.held).collect();
            assert_eq!(held, expected);
        }
    }
}
