//! Weights of applications whose owners count alike, however many applications each of them has.
//!
//! The applications of an owner weigh together as much as the heaviest of them, times the weight of the owner, and divide
//! that by their own weights. So forty programs of one user do not outweigh one of another. All weights together stay what they were, since policies
//! compare gains times weights with constants.

use mapper_model::Weight;
use std::collections::BTreeMap;

/// What an application counts, and for whom.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Owned {
    /// Its owner; one without counts for itself.
    pub owner: Option<Owner>,
    /// Its own weight.
    pub weight: Weight,
}

/// For whom applications count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Owner {
    /// The user's number.
    pub account: u32,
    /// What its applications weigh together against those of others: the same for each of them.
    pub weight: Weight,
}

/// Of the applications of an owner.
#[derive(Clone, Copy, Default)]
struct Together {
    sum: f64,
    most: f64,
    owner: f64,
}

/// The weights with which fair shares are computed, in the order of the applications.
pub fn weights_by_owner(apps: &[Owned]) -> Vec<Weight> {
    let mut owners: BTreeMap<u32, Together> = BTreeMap::new();
    for app in apps {
        if let Some(owner) = app.owner {
            let together = owners.entry(owner.account).or_default();
            together.owner = owner.weight.get();
            together.sum += app.weight.get();
            together.most = together.most.max(app.weight.get());
        }
    }
    let divide = |app: &Owned| match app.owner.and_then(|owner| owners.get(&owner.account)) {
        Some(all) => app.weight.get() * all.owner * all.most / all.sum,
        None => app.weight.get(),
    };
    let divided: Vec<f64> = apps.iter().map(divide).collect();
    let before: f64 = apps.iter().map(|app| app.weight.get()).sum();
    let scale = before / divided.iter().sum::<f64>();
    let weight = |value: f64| Weight::new((value * scale).clamp(LEAST, MOST)).unwrap_or_default();
    divided.into_iter().map(weight).collect()
}

/// The bounds of a weight.
const LEAST: f64 = 0.01;
const MOST: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owned(apps: &[(Option<u32>, f64)]) -> Vec<Owned> {
        let one = |&(owner, weight): &(Option<u32>, f64)| Owned {
            owner: owner.map(|account| Owner {
                account,
                weight: Weight::default(),
            }),
            weight: Weight::new(weight).unwrap(),
        };
        apps.iter().map(one).collect()
    }

    fn weights(apps: &[(Option<u32>, f64)]) -> Vec<f64> {
        let weights = weights_by_owner(&owned(apps));
        weights.into_iter().map(Weight::get).collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * a.max(b)
    }

    #[test]
    fn many_programs_of_one_user_weigh_as_much_as_one_of_another() {
        let mut apps = vec![(Some(1), 1.0); 40];
        apps.push((Some(2), 1.0));
        let weights = weights(&apps);
        assert!(
            close(weights[..40].iter().sum(), weights[40]),
            "{weights:?}"
        );
    }

    #[test]
    fn a_heavier_program_weighs_more_and_makes_its_user_weigh_more() {
        let found = weights(&[(Some(1), 2.0), (Some(1), 1.0), (Some(2), 1.0)]);
        assert!(close(found[0], 2.0 * found[1]), "{found:?}");
        assert!(close(found[0] + found[1], 2.0 * found[2]), "{found:?}");
    }

    #[test]
    fn the_weight_of_an_owner_counts_for_all_applications_together() {
        let mut apps = owned(&[(Some(1), 1.0), (Some(1), 1.0), (Some(2), 1.0)]);
        for heavy in &mut apps[..2] {
            heavy.owner.as_mut().unwrap().weight = Weight::new(3.0).unwrap();
        }
        let found: Vec<f64> = weights_by_owner(&apps)
            .into_iter()
            .map(Weight::get)
            .collect();
        assert!(close(found[0], found[1]), "{found:?}");
        assert!(close(found[0] + found[1], 3.0 * found[2]), "{found:?}");
    }

    #[test]
    fn what_belongs_to_nobody_counts_for_itself() {
        let found = weights(&[(None, 1.0), (None, 1.0), (Some(2), 1.0)]);
        assert_eq!(found, [1.0, 1.0, 1.0]);
        assert!(weights(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn where_nobody_has_more_than_another_weights_stay(
            each in prop::collection::vec(0.01..=100.0, 1..8),
            alone in any::<bool>(),
        ) {
            let owner = |place: usize| Some(if alone { 1 } else { place as u32 });
            let apps: Vec<_> = each.iter().enumerate().map(|(i, &w)| (owner(i), w)).collect();
            for (found, given) in weights(&apps).into_iter().zip(each) {
                prop_assert!(close(found, given), "{found} for {given}");
            }
        }

        #[test]
        fn all_together_weigh_what_they_did(
            apps in prop::collection::vec((prop::option::of(0u32..3), 0.5..=2.0), 1..20),
        ) {
            let before: f64 = apps.iter().map(|(_, weight)| weight).sum();
            prop_assert!(close(weights(&apps).into_iter().sum(), before));
        }
    }
}
