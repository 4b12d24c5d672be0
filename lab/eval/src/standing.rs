//! How this project's own policy stands beside MAPPER as printed and the best fixed sets, suite by
//! suite, with the promises that each of them breaks. With forms of the policy that lack a part it is
//! the table of what each part brings.

use super::tables::{MixRow, SuiteTable, geometric};
use serde::Serialize;

/// The policy, and how the names of its forms begin.
const OWN: &str = "mapper-next";
const PRINTED: &str = "mapper-paper";
const CEILING: &str = "oracle";

#[derive(Clone, Debug, Serialize)]
pub(super) struct Standing {
    pub(super) suite: String,
    /// Those that are compared, in the order of the suite; the own policy first.
    pub(super) policies: Vec<Stand>,
    /// The mean over the mixes of the best that any policy of the suite or the search came to.
    pub(super) best_known: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Stand {
    pub(super) policy: String,
    /// Mean of the suite, in its unit.
    pub(super) value: f64,
    /// Programs that were promised something, and those of them below it; nothing where the static
    /// fair share was not run.
    pub(super) promises: Option<Promises>,
}

/// Promises: shares of the speed under the static fair share.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(super) struct Promises {
    pub(super) given: usize,
    /// By the mean of the running times over the seeds.
    pub(super) broken: usize,
    /// Every seed by itself.
    pub(super) runs: usize,
    pub(super) runs_broken: usize,
    /// The lowest speed of any program with any seed, of that under the static fair share.
    pub(super) worst_of_fair: f64,
}

impl Standing {
    fn value(&self, policy: &str) -> Option<f64> {
        let stand = self.policies.iter().find(|stand| stand.policy == policy)?;
        Some(stand.value)
    }

    /// The own policy over MAPPER as printed.
    pub(super) fn gain(&self) -> Option<f64> {
        Some(self.value(OWN)? / self.value(PRINTED)? - 1.0)
    }

    /// The own policy as a share of the best fixed sets.
    pub(super) fn of_ceiling(&self) -> Option<f64> {
        Some(self.value(OWN)? / self.value(CEILING)?)
    }

    /// The own policy as a share of the best that is known of each mix, which nothing exceeds.
    pub(super) fn of_best_known(&self) -> Option<f64> {
        Some(self.value(OWN)? / self.best_known?)
    }
}

impl Stand {
    /// The mean, with the promises where they were given.
    pub(super) fn shown(&self) -> String {
        match self.promises {
            Some(Promises { given, broken, .. }) => format!("{:.3} ({broken}/{given})", self.value),
            None => format!("{:.3}", self.value),
        }
    }

    /// What was promised and missed, if anything was.
    pub(super) fn missed(&self) -> Option<String> {
        let of = self.promises.filter(|of| of.runs_broken + of.broken > 0)?;
        Some(format!(
            "missed by {}: {} of {} promises by the mean of the seeds, {} of {} seed by seed, the worst at \
             {:.3} of the static fair share",
            self.policy, of.broken, of.given, of.runs_broken, of.runs, of.worst_of_fair
        ))
    }
}

/// The promises that the own policy was given and broke in all of these suites; nothing without any.
pub(super) fn kept_in_all(standings: &[Standing]) -> Option<String> {
    let own = |standing: &Standing| {
        let stand = standing.policies.iter().find(|stand| stand.policy == OWN)?;
        stand.promises
    };
    let add = |sum: Promises, next: Promises| Promises {
        given: sum.given + next.given,
        broken: sum.broken + next.broken,
        runs: sum.runs + next.runs,
        runs_broken: sum.runs_broken + next.runs_broken,
        worst_of_fair: sum.worst_of_fair.min(next.worst_of_fair),
    };
    let all = standings.iter().filter_map(own).reduce(add)?;
    Some(format!(
        "{OWN} in all of them: {} of {} promises broken by the mean of the seeds, {} of {} seed by seed; the \
         lowest speed is {:.3} of the static fair share",
        all.broken, all.given, all.runs_broken, all.runs, all.worst_of_fair
    ))
}

/// The suites in which the own policy was run, each with what it promised.
pub(super) fn standings(tables: &[SuiteTable]) -> Vec<Standing> {
    let is_own = |policy: &&String| policy.starts_with(OWN);
    let is_other = |policy: &&String| [PRINTED, CEILING].contains(&policy.as_str());
    let standing = |table: &SuiteTable| {
        let policies = || table.suite.policies.iter();
        let stand = |policy: &String| {
            let promises = || promises(table, policy);
            Some(Stand {
                policy: policy.clone(),
                value: *table.overall.get(policy)?,
                promises: (policy != CEILING).then(promises).flatten(),
            })
        };
        policies().find(is_own)?;
        let ordered = policies().filter(is_own).chain(policies().filter(is_other));
        Some(Standing {
            suite: table.suite.name.clone(),
            policies: ordered.filter_map(stand).collect(),
            best_known: best_known(table),
        })
    };
    tables.iter().filter_map(standing).collect()
}

fn best_known(table: &SuiteTable) -> Option<f64> {
    let best = |row: &MixRow| row.policies.values().map(|c| c.value).reduce(f64::max);
    geometric(table.mixes.iter().filter_map(best))
}

fn promises(table: &SuiteTable, policy: &str) -> Option<Promises> {
    let promised = table.promised;
    let mut promises = Promises {
        worst_of_fair: f64::INFINITY,
        ..Promises::default()
    };
    for row in &table.mixes {
        for app in &row.policies.get(policy)?.apps {
            promises.given += 1;
            promises.broken += usize::from(app.of_fair? < promised);
            for &of_fair in &app.of_fair_seeds {
                promises.runs += 1;
                promises.runs_broken += usize::from(of_fair < promised);
                promises.worst_of_fair = promises.worst_of_fair.min(of_fair);
            }
        }
    }
    Some(promises)
}

#[cfg(test)]
mod tests {
    use super::super::examples::{self, tables_of};
    use super::super::tables;
    use super::*;
    use std::collections::BTreeMap;

    const PROMISES: Promises = Promises {
        given: 30,
        broken: 1,
        runs: 150,
        runs_broken: 7,
        worst_of_fair: 0.119,
    };

    /// The own policy with these promises.
    fn stand(promises: Promises) -> Stand {
        Stand {
            policy: OWN.into(),
            value: 0.9,
            promises: Some(promises),
        }
    }

    /// That of a suite with this row of a mix.
    fn standing(row: &str) -> Standing {
        standings(&tables_of(&[row])).remove(0)
    }

    #[test]
    fn a_missed_promise_shows_every_seed_and_the_worst_of_them() {
        assert_eq!(stand(PROMISES).shown(), "0.900 (1/30)");
        let missed = stand(PROMISES).missed().unwrap();
        for part in ["1 of 30", "7 of 150", "0.119"] {
            assert!(missed.contains(part), "{missed}");
        }
        let mut kept = PROMISES;
        (kept.broken, kept.runs_broken) = (0, 0);
        assert_eq!(stand(kept).missed(), None);
    }

    #[test]
    fn a_promise_is_broken_below_what_was_promised_and_kept_at_it() {
        // With a stricter promise, as --qos gives it, the same speeds break both.
        for (promised, speed, broken) in [(0.85, 0.85, 0), (0.85, 0.849, 1), (0.95, 0.85, 2)] {
            let mut tables = tables_of(&[&format!("s | SGD, ALS | mapper-next {speed} 0.9")]);
            tables[0].promised = promised;
            let of = standings(&tables)[0].policies[0].promises.unwrap();
            assert_eq!((of.given, of.broken, of.runs_broken), (2, broken, broken));
            assert!((of.worst_of_fair - speed).abs() < 1e-9);
        }
    }

    #[test]
    fn only_suites_with_the_own_policy_stand_which_comes_first_and_nothing_is_promised_by_a_search()
    {
        let standings = standings(&tables_of(&[
            "t | SGD, ALS | linux 0.9 | mapper-paper 0.9",
            "s | SGD, ALS | linux 0.9 | oracle 0.9 | mapper-paper 0.9 | mapper-next 0.9",
        ]));
        assert_eq!(standings.len(), 1);
        let stands = standings[0].policies.iter();
        let found = stands.map(|of| (of.policy.as_str(), of.promises.is_some()));
        let found: Vec<_> = found.collect();
        assert_eq!(found, [(OWN, true), (CEILING, false), (PRINTED, true)]);
    }

    #[test]
    fn the_gain_and_the_shares_are_of_means_and_nothing_exceeds_the_best_known_of_each_mix() {
        let of = standing("s | SGD | mapper-next 0.9 | mapper-paper 0.75 | oracle 1 | linux 1.2");
        let found = [of.gain(), of.of_ceiling(), of.of_best_known()].map(Option::unwrap);
        for (found, expected) in found.into_iter().zip([0.2, 0.9, 0.75]) {
            assert!((found - expected).abs() < 1e-9);
        }
        // The own policy is best in one mix, plain Linux in the other.
        let tables = tables_of(&[
            "s | SGD | mapper-next 0.9 | linux 0.6 | oracle 0.6",
            "s | ALS | mapper-next 0.6 | linux 0.9 | oracle 0.6",
        ]);
        let standing = &standings(&tables)[0];
        assert!((standing.best_known.unwrap() - 0.9).abs() < 1e-9);
        assert!(standing.of_best_known().unwrap() < 1.0);
        assert!(standing.of_ceiling().unwrap() > 1.0);
    }

    #[test]
    fn a_suite_of_which_nothing_is_finished_has_nothing_to_say() {
        let suite = examples::suite("s", &["SGD"], &[OWN, PRINTED]);
        let nothing = tables::table(&examples::planned(&suite, 1), &BTreeMap::new());
        let standing = &standings(&[nothing])[0];
        assert!(standing.policies.is_empty());
        assert_eq!((standing.gain(), standing.of_best_known()), (None, None));
    }

    #[test]
    fn promises_are_added_up_over_the_suites_and_the_lowest_speed_is_that_of_any() {
        let suites = [0.9, 0.8].map(|worst_of_fair| {
            let mut of = standing("s | SGD | mapper-next 1");
            of.policies = vec![stand(Promises {
                worst_of_fair,
                ..PROMISES
            })];
            of
        });
        let text = kept_in_all(&suites).unwrap();
        for part in ["2 of 60", "14 of 300", "0.800"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(kept_in_all(&[]), None);
    }
}
