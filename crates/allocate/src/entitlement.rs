//! What each application is owed: its fair share within its own limits.
//!
//! Limits are those of the specification (`--min-cpus`, `--max-cpus`), the policy's own minimum, and
//! `--no-resize`: an application that must not be resized is owed exactly what it holds. It gives
//! way only when the others could not have one CPU each [readings R3.17, R3.18].

use crate::shares::{self, Claim};
use mapper_model::{Resizing, Snapshot};

/// What one application is owed.
#[derive(Clone, Copy, PartialEq, Debug)]
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

/// What everybody is owed, in the order of the snapshot. For at most as many applications as CPUs.
#[must_use]
pub fn entitlements(snapshot: &Snapshot<'_>, min_cpus: u32) -> Vec<Entitlement> {
    let usable = snapshot.usable.len();
    let fixed = |held: u32, resizing: Resizing| resizing == Resizing::Never && held > 0;
    let mut others = 0u32;
    let mut held_fixed = 0u32;
    let mut entitlements: Vec<Entitlement> = snapshot
        .apps
        .iter()
        .map(|app| {
            let held = app.held.len();
            let fixed = fixed(held, app.spec.resizing);
            let range = app.spec.cpus;
            if fixed {
                held_fixed = held_fixed.saturating_add(held);
            } else {
                others += 1;
            }
            Entitlement {
                weight: app.spec.weight.get(),
                fair: 0,
                min: if fixed {
                    held
                } else {
                    range.min().max(min_cpus).max(1)
                },
                max: if fixed {
                    held
                } else {
                    range.max().unwrap_or(u32::MAX)
                },
                fixed,
            }
        })
        .collect();
    if held_fixed.saturating_add(others) > usable {
        // Those who must not be resized share, in proportion to what they hold, what is left when
        // the others have one CPU each.
        for entitled in entitlements.iter_mut().filter(|e| e.fixed) {
            entitled.weight = f64::from(entitled.max);
            entitled.min = 1;
        }
        for entitled in entitlements.iter_mut().filter(|e| !e.fixed) {
            entitled.max = entitled.max.min(1);
            entitled.min = 1;
        }
    }
    let claims: Vec<Claim> = entitlements.iter().map(Entitlement::claim).collect();
    let shares = shares::bounded_shares(usable, &claims);
    for (entitled, fair) in entitlements.iter_mut().zip(shares) {
        entitled.fair = fair;
        entitled.min = entitled.min.min(fair);
        entitled.max = entitled.max.max(fair);
    }
    entitlements
}
