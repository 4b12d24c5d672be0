//! What each application is owed: its fair share within its own limits.
//!
//! Limits are those of the specification (`--min-cpus`, `--max-cpus`), the CPUs that an application may
//! use ([`allowed`](crate::allowed)), the policy's own minimum, and `--no-resize`: such an application
//! is owed what it holds, unless the others could not have one CPU each [readings R3.17, R3.18].

use crate::allowed;
use crate::shares::{self, Claim};
use mapper_model::{Resizing, Snapshot};
use serde::{Deserialize, Serialize};

/// What one application is owed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Entitlement {
    pub(crate) weight: f64,
    /// Its fair share within the limits.
    pub(crate) fair: u32,
    /// The fewest CPUs it is to have, as far as the lower limits of all fit together.
    pub(crate) min: u32,
    pub(crate) max: u32,
    /// It keeps the count it has.
    pub(crate) fixed: bool,
}

impl Entitlement {
    pub(crate) const fn claim(&self) -> Claim {
        Claim {
            weight: self.weight,
            min: self.min,
            max: self.max,
        }
    }
}

/// What every application is owed, in the order of the snapshot; for at most one application a CPU.
pub(crate) fn entitlements(snapshot: &Snapshot<'_>, min_cpus: u32) -> Vec<Entitlement> {
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
                // Its own maximum wins over the policy's minimum.
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
        // Those that must not be resized share, by what they hold, what the others leave with one CPU each.
        for entitled in &mut entitlements {
            entitled.min = 1;
            if entitled.fixed {
                entitled.weight = f64::from(entitled.max);
            } else {
                entitled.max = 1;
            }
        }
        share_out(&mut entitlements, false, others);
        share_out(&mut entitlements, true, usable.saturating_sub(others));
        return entitlements;
    }
    if held.saturating_add(total(&entitlements, false)) > usable {
        // The policy's own minimum yields before those of the applications.
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

    /// Fair shares on 8 CPUs of applications given by what they hold, limits and resizing.
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
        let view = |(spec, held)| AppView {
            app: AppId(1),
            spec,
            profile: &profile,
            held,
            allowed: None,
        };
        let views: Vec<AppView<'_>> = specs.iter().zip(&held).map(view).collect();
        let snapshot = Snapshot {
            tick: 1,
            now_ns: 1,
            trigger: Trigger::Interval,
            topology: &topology,
            usable: topology.cpus(),
            machine: &MachineProfile::default(),
            apps: &views,
        };
        let entitled = entitlements(&snapshot, min_cpus);
        entitled.iter().map(|e| e.fair).collect()
    }

    use Resizing::{Allowed, Never};

    #[test]
    fn an_application_that_must_not_be_resized_is_owed_what_it_holds() {
        let (fixed, other) = ((5, 1, None, Never), (0, 1, None, Allowed));
        assert_eq!(fair(&[fixed, other], 1), [5, 3]);
        // Even when the others need more.
        assert_eq!(fair(&[fixed, (0, 6, None, Allowed)], 1), [5, 3]);
        // But not when the others could not have one CPU each.
        let (six, two) = ((6, 1, None, Never), (2, 1, None, Never));
        assert_eq!(fair(&[six, two, other], 1), [5, 1, 1]);
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
