//! What each application is owed: its fair share within its own limits.
//!
//! Limits are those of the specification (`--min-cpus`, `--max-cpus`), the CPUs that an application may
//! use ([`allowed`](crate::allowed)), the policy's own minimum, and
//! `--no-resize`: an application that must not be resized is owed exactly what it holds. It gives
//! way only when the others could not have one CPU each [readings R3.17, R3.18].

use crate::allowed;
use crate::shares::{self, Claim};
use mapper_model::{Resizing, Snapshot};
use serde::{Deserialize, Serialize};

/// What one application is owed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Entitlement {
    /// Its weight.
    pub weight: f64,
    /// Its fair share within the limits.
    pub fair: u32,
    /// The fewest CPUs it is to have, as far as the lower limits of all fit together.
    pub min: u32,
    /// The most CPUs it can use.
    pub max: u32,
    /// It keeps the count it has.
    pub fixed: bool,
}

impl Entitlement {
    /// As a claim to a share.
    #[must_use]
    pub const fn claim(&self) -> Claim {
        Claim {
            weight: self.weight,
            min: self.min,
            max: self.max,
        }
    }
}

/// What every application is owed, in the order of the snapshot. For at most as many applications as CPUs.
#[must_use]
pub fn entitlements(snapshot: &Snapshot<'_>, min_cpus: u32) -> Vec<Entitlement> {
    let usable = snapshot.usable.len();
    let room = allowed::room(snapshot);
    let mut entitlements: Vec<Entitlement> = snapshot
        .apps
        .iter()
        .enumerate()
        .map(|(place, app)| {
            let room = room.get(place).copied().unwrap_or(u32::MAX);
            let held = app.held.len().min(room);
            let fixed = app.spec.resizing == Resizing::Never && held > 0;
            let range = app.spec.cpus;
            let max = range.max().unwrap_or(u32::MAX).min(room);
            Entitlement {
                weight: app.spec.weight.get(),
                fair: 0,
                // What the application can use goes before what the policy would like it to have.
                min: if fixed {
                    held
                } else {
                    range.min().max(min_cpus).clamp(1, max)
                },
                max: if fixed { held } else { max },
                fixed,
            }
        })
        .collect();
    let total = |entitlements: &[Entitlement], fixed: bool| {
        entitlements
            .iter()
            .filter(|e| e.fixed == fixed)
            .fold(0u32, |sum, e| sum.saturating_add(e.min))
    };
    let held = total(&entitlements, true);
    let others = entitlements.iter().filter(|e| !e.fixed).count() as u32;
    if held.saturating_add(others) > usable {
        // Those who must not be resized share, in proportion to what they hold, what is left when
        // the others have one CPU each.
        for entitled in &mut entitlements {
            if entitled.fixed {
                entitled.weight = f64::from(entitled.max);
                entitled.min = 1;
            } else {
                entitled.min = 1;
                entitled.max = 1;
            }
        }
        share_out(&mut entitlements, false, others);
        share_out(&mut entitlements, true, usable.saturating_sub(others));
        return entitlements;
    }
    if held.saturating_add(total(&entitlements, false)) > usable {
        // The policy's own minimum gives way before what the applications ask for.
        for (entitled, app) in entitlements.iter_mut().zip(snapshot.apps) {
            if !entitled.fixed {
                entitled.min = app.spec.cpus.min().min(entitled.max);
            }
        }
    }
    share_out(&mut entitlements, true, held);
    share_out(&mut entitlements, false, usable - held);
    entitlements
}

/// Shares CPUs out among those that are fixed, or those that are not.
fn share_out(entitlements: &mut [Entitlement], fixed: bool, cpus: u32) {
    let claims: Vec<Claim> = entitlements
        .iter()
        .filter(|e| e.fixed == fixed)
        .map(Entitlement::claim)
        .collect();
    let shares = shares::bounded_shares(cpus, &claims);
    let group = entitlements.iter_mut().filter(|e| e.fixed == fixed);
    for (entitled, fair) in group.zip(shares) {
        entitled.fair = fair;
        entitled.min = entitled.min.min(fair);
        entitled.max = entitled.max.max(fair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::topology::Shape;
    use mapper_model::{
        AppId, AppName, AppSpec, AppView, CpuRange, CpuSet, MachineProfile, Profile, Topology,
        Trigger,
    };

    /// Fair shares on 8 CPUs of applications given by what they hold, their limits, and whether
    /// they may be resized.
    fn fair(apps: &[(u32, u32, Option<u32>, Resizing)], min_cpus: u32) -> Vec<u32> {
        let topology = Topology::regular(Shape {
            sockets: 1,
            cores_per_socket: 8,
            threads_per_core: 1,
        });
        let specs: Vec<AppSpec> = apps
            .iter()
            .map(|&(_, min, max, resizing)| AppSpec {
                cpus: CpuRange::new(min, max).unwrap(),
                resizing,
                ..AppSpec::named(AppName::new("a").unwrap())
            })
            .collect();
        let held: Vec<CpuSet> = apps.iter().map(|app| CpuSet::first(app.0)).collect();
        let profile = Profile::unknown(AppId(1));
        let views: Vec<AppView<'_>> = specs
            .iter()
            .zip(&held)
            .map(|(spec, held)| AppView {
                app: AppId(1),
                spec,
                profile: &profile,
                held,
                allowed: None,
            })
            .collect();
        let snapshot = Snapshot {
            tick: 1,
            now_ns: 1,
            trigger: Trigger::Interval,
            topology: &topology,
            usable: topology.cpus(),
            machine: &MachineProfile::default(),
            apps: &views,
        };
        entitlements(&snapshot, min_cpus)
            .iter()
            .map(|e| e.fair)
            .collect()
    }

    use Resizing::{Allowed, Never};

    #[test]
    fn who_must_not_be_resized_is_owed_what_it_holds() {
        assert_eq!(
            fair(&[(5, 1, None, Never), (0, 1, None, Allowed)], 1),
            [5, 3]
        );
        // Even when the others would like to have more.
        assert_eq!(
            fair(&[(5, 1, None, Never), (0, 6, None, Allowed)], 1),
            [5, 3]
        );
    }

    #[test]
    fn who_must_not_be_resized_gives_way_to_one_cpu_each() {
        assert_eq!(
            fair(
                &[
                    (6, 1, None, Never),
                    (2, 1, None, Never),
                    (0, 1, None, Allowed)
                ],
                1
            ),
            [5, 1, 1]
        );
    }

    #[test]
    fn the_wish_of_the_policy_gives_way_before_that_of_an_application() {
        let apps = [
            (0, 5, None, Allowed),
            (0, 1, None, Allowed),
            (0, 1, Some(1), Allowed),
        ];
        assert_eq!(fair(&apps, 1), [5, 2, 1]);
        assert_eq!(fair(&apps, 4), [5, 2, 1]);
    }
}
