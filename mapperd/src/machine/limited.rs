//! Applications that limits around them keep off some of the CPUs that are given out.
//!
//! What was adopted in its place (a unit, a group) stays within what the groups around it leave to it, and that
//! may change at any time: `systemctl set-property user-1000.slice AllowedCPUs=0-3`. Policies decide over CPUs that
//! anybody may have; one that may not would be planned, and counted, where it does not run. So an application takes
//! no part in decisions while a limit keeps it off CPUs that are given out. It has a fair share of the machine,
//! as far as its limit has so many, and nobody else is given these; what others have is decided over the rest.
//! Once the limit is gone it comes back as a newcomer.
//!
//! Invariant: no application is given a CPU that a limit keeps it off.

use crate::machine::Machine;
use crate::machine::surroundings::Surroundings;
use crate::registry::Registry;
use crate::registry::app::{App, Standing};
use mapper_host::chain;
use mapper_model::{AppId, CpuId, CpuRange, CpuSet, Weight};

/// A limit that binds, and what comes of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Limited {
    /// The CPUs that are given out and that the limit leaves; empty if there are none.
    pub(crate) to: CpuSet,
    /// Those that it is given.
    pub(crate) given: CpuSet,
    /// The set that was last written for it. The limit cuts whatever stands there, so that what is in force does not
    /// tell; once the limit is gone it would have all of it.
    written: CpuSet,
}

/// What there is to know of an application for its share.
#[derive(Clone, PartialEq, Debug)]
struct Claim {
    app: AppId,
    limit: CpuSet,
    /// What it has now.
    held: CpuSet,
    weight: Weight,
    cpus: CpuRange,
}

/// What is to be divided, and among how many.
#[derive(Clone, PartialEq, Debug)]
struct Whole<'a> {
    usable: &'a CpuSet,
    /// The weights of all applications together.
    weights: f64,
}

/// Gives each its fair share within its limit, the narrowest limit first. Each keeps what it has as far as that
/// goes. Those whose limit has nothing left share one CPU of it with others so limited.
fn divide(machine: &Whole<'_>, mut claims: Vec<Claim>) -> Vec<(AppId, CpuSet)> {
    claims.sort_by_key(|claim| (claim.limit.len(), claim.app));
    let mut taken = CpuSet::new();
    let mut given = Vec::new();
    for claim in claims {
        let share = f64::from(machine.usable.len()) * claim.weight.get() / machine.weights;
        // Of a positive number; a share of more CPUs than there are is cut by the limit.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to the number of CPUs"
        )]
        let wanted = claim.cpus.clamp((share.floor() as u32).max(1));
        let left = claim.limit.difference(&taken);
        let kept = left.intersection(&claim.held);
        let others = left.difference(&kept);
        let chosen: Vec<CpuId> = kept.iter().chain(others.iter()).collect();
        let mut cpus: CpuSet = chosen.into_iter().take(wanted as usize).collect();
        if cpus.is_empty() {
            cpus.extend(claim.limit.first_cpu());
        }
        taken.insert_all(&cpus);
        given.push((claim.app, cpus));
    }
    given
}

/// Checks which limits bind, and divides the CPUs within them.
pub(crate) fn check(registry: &mut Registry, machine: &Machine) -> Surroundings {
    let mut surroundings = Surroundings::AsBefore;
    let mut claims = Vec::new();
    let weights = registry
        .apps
        .iter()
        .map(|app| app.record.spec.weight.get())
        .sum();
    for app in &mut registry.apps {
        if app.record.origin.adoption().is_none() || app.record.standing.set_by_operator().is_some()
        {
            app.limited = None;
            continue;
        }
        let limit = match machine.enforcer.limit_of(app.record.id) {
            Ok(limit) => limit.filter(|limit| !machine.usable.is_subset(limit)),
            Err(error) => {
                // It has just ended, or the limit stays as it was last seen.
                tracing::debug!(
                    app = app.record.id.0,
                    "limit not looked at: {}",
                    chain(&error)
                );
                app.limited.as_ref().map(|limited| limited.to.clone())
            }
        };
        let limit = limit.map(|limit| limit.intersection(&machine.usable));
        if app.limited.as_ref().map(|limited| &limited.to) != limit.as_ref() {
            surroundings = Surroundings::Changed;
            app.record.planned = None;
            app.record.standing = Standing::Pending;
            tell(app, limit.as_ref());
        }
        match limit {
            Some(limit) if !limit.is_empty() => claims.push(Claim {
                app: app.record.id,
                held: app.effective.clone(),
                weight: app.record.spec.weight,
                cpus: app.record.spec.cpus,
                limit,
            }),
            Some(_) => app.limited = Some(Limited::default()),
            None => {
                if app.limited.take().is_some() {
                    app.effective = CpuSet::new();
                }
            }
        }
    }
    let whole = Whole {
        usable: &machine.usable,
        weights,
    };
    let limits: Vec<(AppId, CpuSet)> = claims
        .iter()
        .map(|claim| (claim.app, claim.limit.clone()))
        .collect();
    for (id, given) in divide(&whole, claims) {
        let limit = limits.iter().find(|(app, _)| *app == id);
        if let (Some(app), Some((_, limit))) = (registry.get_mut(id), limit) {
            let before = app.limited.take();
            app.limited = Some(Limited {
                to: limit.clone(),
                given,
                written: before.map(|before| before.written).unwrap_or_default(),
            });
        }
    }
    surroundings
}

/// Has those that lose CPUs let go of them, before others get them.
pub(crate) fn shrink(registry: &mut Registry, machine: &mut Machine) {
    set(registry, machine, |limited, held| {
        held.intersection(&limited.given)
    });
}

/// Gives each what it is to have, after others have left it.
pub(crate) fn place(registry: &mut Registry, machine: &mut Machine) {
    set(registry, machine, |limited, _| limited.given.clone());
}

fn set(
    registry: &mut Registry,
    machine: &mut Machine,
    choose: impl Fn(&Limited, &CpuSet) -> CpuSet,
) {
    for app in &mut registry.apps {
        let Some(limited) = &mut app.limited else {
            continue;
        };
        let (id, name) = (app.record.id, &app.record.spec.name);
        let enforcer = &mut machine.enforcer;
        if let Ok(effective) = enforcer.effective(id) {
            app.effective = effective;
        }
        let cpus = choose(limited, &app.effective);
        if cpus.is_empty() || cpus == limited.written {
            continue;
        }
        match enforcer.apply(id, &cpus) {
            Ok(()) => {
                limited.written = cpus.clone();
                app.record.accounting.moved(cpus.len());
                tracing::info!(app = id.0, %name, %cpus, "limited to {}", limited.to);
            }
            Err(error) if error.is_gone() => {}
            Err(error) => {
                tracing::warn!(app = id.0, "not confined: {}", chain(&error));
            }
        }
        if let Ok(effective) = enforcer.effective(id) {
            app.effective = effective;
        }
    }
}

fn tell(app: &App, limit: Option<&CpuSet>) {
    let (id, name) = (app.record.id.0, &app.record.spec.name);
    match limit {
        Some(limit) if limit.is_empty() => tracing::warn!(
            app = id,
            %name,
            "limits around it leave it none of the CPUs that are given out; it is left where it is"
        ),
        Some(limit) => tracing::warn!(
            app = id,
            %name,
            "limits around it leave it CPUs {limit} only; it has its share of them and takes no part in decisions"
        ),
        None => tracing::info!(app = id, %name, "no limit keeps it off any CPU any more"),
    }
}

/// What people are told of a limited application instead of a decision.
pub(crate) fn sentence(limited: &Limited) -> String {
    match limited.to.is_empty() {
        true => {
            "limits around it leave it none of the CPUs that are given out; it is left where it is"
                .to_owned()
        }
        false => format!(
            "limits around it leave it CPUs {} only; it has {} of them, its share, and takes no part in decisions",
            limited.to,
            limited.given.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn claim(app: u64, limit: &str, held: &str) -> Claim {
        Claim {
            app: AppId(app),
            limit: cpus(limit),
            held: cpus(held),
            weight: Weight::default(),
            cpus: CpuRange::default(),
        }
    }

    fn given(usable: &str, apps: u32, claims: &[Claim]) -> Vec<(u64, String)> {
        let machine = Whole {
            usable: &cpus(usable),
            weights: f64::from(apps),
        };
        divide(&machine, claims.to_vec())
            .into_iter()
            .map(|(app, cpus)| (app.0, cpus.to_string()))
            .collect()
    }

    fn is(app: u64, cpus: &str) -> (u64, String) {
        (app, cpus.to_owned())
    }

    #[test]
    fn each_has_its_fair_share_as_far_as_its_limit_goes() {
        let two = [claim(1, "0", "0-7"), claim(2, "0-7", "2-9")];
        assert_eq!(given("0-15", 4, &two), [is(1, "0"), is(2, "2-5")]);
        let heavy = Claim {
            weight: Weight::new(2.0).unwrap(),
            ..claim(1, "0-11", "")
        };
        assert_eq!(given("0-15", 4, &[heavy]), [is(1, "0-7")]);
        let bounded = Claim {
            cpus: CpuRange::new(1, Some(2)).unwrap(),
            ..claim(1, "0-7", "3-6")
        };
        assert_eq!(given("0-15", 2, &[bounded]), [is(1, "3-4")]);
    }

    #[test]
    fn those_with_the_same_single_cpu_share_it() {
        let both = [claim(1, "3", ""), claim(2, "3", "")];
        assert_eq!(given("0-3", 3, &both), [is(1, "3"), is(2, "3")]);
    }

    proptest! {
        #[test]
        fn every_application_gets_cpus_within_its_limit(
            limits in proptest::collection::vec(proptest::collection::vec(0u32..16, 1..16), 1..8),
            held in proptest::collection::vec(0u32..16, 0..16),
        ) {
            let held: CpuSet = held.into_iter().map(CpuId).collect();
            let claims: Vec<Claim> = limits.iter().zip(1..).map(|(limit, app)| Claim {
                limit: limit.iter().copied().map(CpuId).collect(),
                held: held.clone(),
                ..claim(app, "", "")
            }).collect();
            let usable = CpuSet::first(16);
            let machine = Whole { usable: &usable, weights: claims.len() as f64 };
            for (app, cpus) in divide(&machine, claims.clone()) {
                let claim = claims.iter().find(|claim| claim.app == app).unwrap();
                prop_assert!(!cpus.is_empty() && cpus.is_subset(&claim.limit));
            }
        }
    }
}
