//! Whether what is said of this project's own policy rests on the values of the parameters: each is moved by a
//! quarter, and the policy is held against MAPPER as printed, the best fixed sets and its promises.
//!
//! On MAPPER's Figure 2 and SAM-MPH's Figure 4, where most is to be gained, with all three; on MAPPER's Figure 7
//! and SAM-MPH's Figure 5, where the margin is small, against MAPPER only.

use super::catalogue::Catalogue;
use super::execute;
use super::plan::{Changes, Plan};
use super::protocol::{Protocol, Suite};
use super::setting::Setting;
use super::standing::{self, Standing};
use super::tables;
use super::validity::{Checked, Finding, Variation, quarters};

/// The suites, and whether the best fixed sets are searched for.
const SUITES: [(&str, Ceiling); 4] = [
    ("mapper-fig2", Ceiling::Searched),
    ("sam-fig4", Ceiling::Searched),
    ("sam-fig5", Ceiling::LeftOut),
    ("mapper-fig7", Ceiling::LeftOut),
];
const SEEDS: u32 = 2;
/// What the policy is to reach of the best fixed sets.
const SHARE: f64 = 0.95;
/// Promises that may be broken.
const BROKEN: f64 = 0.01;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ceiling {
    Searched,
    LeftOut,
}

/// Runs all checks of the own policy.
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
    let variations = quarters();
    let mut plan = Plan::default();
    let mut names = Vec::new();
    for (name, ceiling) in SUITES {
        let Some(suite) = protocol.suites.iter().find(|s| s.name == name) else {
            anyhow::bail!("the protocol has no suite {name}, on which validity is checked");
        };
        let mut policies = vec!["mapper-next".to_owned(), "mapper-paper".to_owned()];
        if ceiling == Ceiling::Searched {
            policies.push("oracle".to_owned());
        }
        let suite = Suite {
            policies,
            ..suite.clone()
        };
        for variation in &variations {
            plan.add_varied(&suite, protocol, catalogue, &changes, &*variation.change)?;
            names.push((name, variation));
        }
    }
    let done = execute::execute(&plan, fresh)?;
    if done.left_out > 0 {
        return Ok(Checked {
            findings: Vec::new(),
            done: done.results.len(),
            left_out: done.left_out,
        });
    }
    let tables: Vec<tables::SuiteTable> = plan
        .suites
        .iter()
        .map(|planned| tables::table(planned, &done.results))
        .collect();
    let standings = standing::standings(&tables);
    Ok(Checked {
        findings: standings
            .iter()
            .zip(names)
            .flat_map(|(standing, (suite, variation))| judge(suite, variation, standing))
            .collect(),
        done: done.results.len(),
        left_out: 0,
    })
}

fn judge(suite: &str, variation: &Variation, standing: &Standing) -> Vec<Finding> {
    let check = format!("mapper-next on {suite}, {}", variation.name);
    let mut findings = Vec::new();
    let mut add = |expected, found, held| {
        findings.push(Finding {
            check: check.clone(),
            expected,
            found,
            held,
        });
    };
    if let Some(gain) = standing.gain() {
        add(
            "not below MAPPER as printed",
            format!("{:+.1} %", 100.0 * gain),
            gain >= 0.0,
        );
    }
    if let Some(share) = standing.of_ceiling() {
        add(
            "95 % of the best fixed sets",
            format!("{:.1} %", 100.0 * share),
            share >= SHARE,
        );
    }
    let own = standing.policies.first();
    if let Some(of) = own.and_then(|own| own.promises) {
        add(
            "at most 1 % of the promises broken",
            format!("{} of {}", of.broken, of.given),
            of.broken as f64 <= BROKEN * of.given as f64,
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standing::{Promises, Stand};

    fn standing(own: f64, broken: usize) -> Standing {
        let stand = |policy: &str, value| Stand {
            policy: policy.into(),
            value,
            promises: Some(Promises {
                given: 100,
                broken,
                runs: 100,
                runs_broken: broken,
                worst_of_fair: 0.8,
            }),
        };
        Standing {
            suite: "s".into(),
            policies: vec![
                stand("mapper-next", own),
                stand("mapper-paper", 0.9),
                stand("oracle", 1.0),
            ],
            best_known: None,
        }
    }

    #[test]
    fn each_of_the_three_claims_can_fail_by_itself() {
        let variation = quarters().remove(0);
        let held = |own, broken| -> Vec<bool> {
            let findings = judge("s", &variation, &standing(own, broken));
            findings.iter().map(|finding| finding.held).collect()
        };
        assert_eq!(held(0.96, 1), [true, true, true]);
        assert_eq!(held(0.93, 1), [true, false, true]);
        assert_eq!(held(0.89, 2), [false, false, false]);
    }
    #[test]
    fn without_the_search_for_the_best_sets_nothing_is_said_of_them() {
        let variation = quarters().remove(0);
        let mut standing = standing(0.96, 0);
        standing.policies.retain(|stand| stand.policy != "oracle");
        let findings = judge("s", &variation, &standing);
        let expected: Vec<&str> = findings.iter().map(|finding| finding.expected).collect();
        assert_eq!(
            expected,
            [
                "not below MAPPER as printed",
                "at most 1 % of the promises broken"
            ]
        );
    }

    #[test]
    fn a_finding_names_the_suite_and_what_was_changed() {
        let variation = quarters().remove(1);
        for finding in judge("sam-fig4", &variation, &standing(0.96, 0)) {
            assert!(
                finding.check.contains("sam-fig4") && finding.check.contains(&variation.name),
                "{}",
                finding.check
            );
        }
    }
}
