//! The order in which applications choose their CPUs, and what each of them wants.
//!
//! First high coherence activity, the most stalled cycles per event first; then medium activity, the lowest
//! instructions per cycle first [SAM-MPH §4.4]; then memory bandwidth, compute and the rest, within each
//! the most severe first [MAPPER §3.4]. While the history is not full, an application with the sharing
//! bottleneck counts as of medium activity.

use mapper_model::{Bottleneck, MachineProfile, Profile, SharingClass};
use std::cmp::Ordering;

/// What the placing rules look at.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Traits {
    /// Class of coherence activity.
    pub class: SharingClass,
    /// Critical bottleneck, used where the class is low.
    pub bottleneck: Bottleneck,
    /// How much it contributes to the bottleneck.
    pub severity: f64,
    /// Stalled cycles per inter-socket coherence event, where known.
    pub spc: Option<f64>,
    /// Instructions per cycle, where known.
    pub ipc: Option<f64>,
    /// Whether it keeps its cores busy.
    pub ipc_high: bool,
}

impl Traits {
    /// The traits in a profile, with the class that the history asserts.
    pub fn of(profile: &Profile) -> Self {
        let class = match (profile.class, profile.bottleneck) {
            (SharingClass::Low, Bottleneck::Sharing) => SharingClass::Medium,
            (class, _) => class,
        };
        Self {
            class,
            bottleneck: profile.bottleneck,
            severity: profile.severity,
            spc: profile.spc,
            ipc: profile.ipc,
            ipc_high: profile.ipc_high,
        }
    }

    /// The traits in the rates of the last interval alone, without history.
    #[must_use]
    pub fn of_interval(profile: &Profile, machine: &MachineProfile) -> Self {
        let rates = profile.rates.unwrap_or_default();
        let sharing = rates.sharing_per_cycle.unwrap_or(0.0);
        let class = if sharing > machine.sharing_high_per_cycle {
            SharingClass::High
        } else if sharing > machine.sharing_medium_per_cycle {
            SharingClass::Medium
        } else {
            SharingClass::Low
        };
        Self {
            class,
            bottleneck: match profile.bottleneck {
                Bottleneck::Sharing => Bottleneck::None,
                other => other,
            },
            severity: profile.severity,
            spc: profile.spc,
            ipc: rates.ipc,
            ipc_high: rates.ipc.is_some_and(|ipc| ipc > machine.ipc_high),
        }
    }

    /// Place in the order: the lower, the earlier.
    fn rank(&self) -> u8 {
        match (self.class, self.bottleneck) {
            (SharingClass::High, _) => 0,
            (SharingClass::Medium, _) => 1,
            (SharingClass::Low, Bottleneck::Sharing | Bottleneck::Memory) => 2,
            (SharingClass::Low, Bottleneck::Compute) => 3,
            (SharingClass::Low, Bottleneck::None) => 4,
        }
    }
}

/// The indices of the applications in the order in which they choose. Equal ones keep their order.
pub fn priority(apps: &[Traits]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..apps.len()).collect();
    order.sort_by(|&a, &b| before(&apps[a], &apps[b]));
    order
}

fn before(a: &Traits, b: &Traits) -> Ordering {
    a.rank().cmp(&b.rank()).then_with(|| match a.class {
        SharingClass::High => descending(a.spc, b.spc),
        SharingClass::Medium => ascending(a.ipc, b.ipc),
        SharingClass::Low => b.severity.total_cmp(&a.severity),
    })
}

/// Unknown values last.
fn descending(a: Option<f64>, b: Option<f64>) -> Ordering {
    let key = |v: Option<f64>| v.unwrap_or(f64::NEG_INFINITY);
    key(b).total_cmp(&key(a))
}

/// Unknown values last.
fn ascending(a: Option<f64>, b: Option<f64>) -> Ordering {
    let key = |v: Option<f64>| v.unwrap_or(f64::INFINITY);
    key(a).total_cmp(&key(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::AppId;

    fn app(class: SharingClass, spc: Option<f64>, ipc: f64) -> Traits {
        Traits {
            class,
            bottleneck: Bottleneck::None,
            severity: 0.0,
            spc,
            ipc: Some(ipc),
            ipc_high: ipc > 0.9,
        }
    }

    #[test]
    fn those_that_tolerate_latency_least_choose_first() {
        use SharingClass::{High, Low, Medium};
        let apps = [
            app(Medium, None, 1.15),
            app(High, Some(398.0), 0.62),
            app(Low, None, 1.9),
            app(High, None, 0.3),
            app(High, Some(455.0), 0.58),
            app(Medium, None, 1.10),
        ];
        assert_eq!(priority(&apps), [4, 1, 3, 5, 0, 2]);
    }

    #[test]
    fn memory_comes_before_compute_and_the_severe_before_the_mild() {
        let low = |bottleneck, severity| Traits {
            bottleneck,
            severity,
            ..app(SharingClass::Low, None, 0.5)
        };
        let apps = [
            low(Bottleneck::None, 99.0),
            low(Bottleneck::Compute, 9.0),
            low(Bottleneck::Memory, 1.0),
            low(Bottleneck::Memory, 8.0),
        ];
        assert_eq!(priority(&apps), [3, 2, 1, 0]);
    }

    #[test]
    fn a_sharing_bottleneck_counts_before_the_history_is_full() {
        let profile = Profile {
            bottleneck: Bottleneck::Sharing,
            ..Profile::unknown(AppId(1))
        };
        assert_eq!(Traits::of(&profile).class, SharingClass::Medium);
    }
}
