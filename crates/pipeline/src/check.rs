//! Whether a plan may be enforced.
//!
//! The checker knows nothing of how a plan was made. It states what must hold for any plan of any
//! policy and reports what does not, with a severity: an [`Severity::Error`] must not be enforced, a
//! [`Severity::Warning`] deserves to be seen. It runs in every debug build and test, and in the
//! daemon before every enforcement.

use mapper_model::{Action, AppId, CpuSet, Observation, Plan, Reason, Sharing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It may be enforced, but something is odd.
    Warning,
    /// It must not be enforced.
    Error,
}

/// Something that does not hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The application concerned, if it is one.
    pub app: Option<AppId>,
    /// What does not hold, with the values.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(app) = self.app {
            write!(f, "app {app}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// Checks a plan against the observation it was made from. `usable` is what of the observation's
/// CPUs the machine really has.
#[must_use]
pub fn check(plan: &Plan, observation: &Observation, usable: &CpuSet) -> Vec<Finding> {
    let mut findings = Findings::default();
    if usable.is_empty() {
        if !plan.actions.is_empty() {
            findings.error(None, "actions although no CPU is usable");
        }
        return findings.0;
    }
    check_apps(plan, observation, usable, &mut findings);
    check_owners(plan, usable, &mut findings);
    check_actions(plan, observation, &mut findings);
    findings.0
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn error(&mut self, app: Option<AppId>, what: impl Into<String>) {
        self.0.push(Finding {
            severity: Severity::Error,
            app,
            what: what.into(),
        });
    }

    fn warning(&mut self, app: Option<AppId>, what: impl Into<String>) {
        self.0.push(Finding {
            severity: Severity::Warning,
            app,
            what: what.into(),
        });
    }
}

/// One entry for each application, with CPUs that are usable and as many as its share says.
fn check_apps(plan: &Plan, observation: &Observation, usable: &CpuSet, findings: &mut Findings) {
    if !plan
        .apps
        .iter()
        .map(|a| a.app)
        .eq(observation.apps.iter().map(|a| a.app))
    {
        findings.error(
            None,
            "the applications of the plan are not those of the observation",
        );
    }
    for (planned, observed) in plan.apps.iter().zip(&observation.apps) {
        let (app, cpus, share) = (Some(planned.app), &planned.cpus, &planned.share);
        if cpus.is_empty() {
            findings.error(app, "has no CPU");
        }
        if !cpus.is_subset(usable) {
            findings.error(
                app,
                format!("has CPUs {} that are not usable", cpus.difference(usable)),
            );
        }
        if share.cpus != cpus.len() {
            findings.error(
                app,
                format!("has {} CPUs, its share says {}", cpus.len(), share.cpus),
            );
        }
        if let Some(nodes) = &share.by_node {
            let sum: u32 = nodes.iter().map(|n| n.cpus).sum();
            if sum != share.cpus {
                findings.error(
                    app,
                    format!(
                        "its CPUs by node add up to {sum}, its share says {}",
                        share.cpus
                    ),
                );
            }
        }
        let most = observed.spec.cpus.max().unwrap_or(u32::MAX);
        if share.sharing == Sharing::Exclusive && cpus.len() > most {
            findings.warning(
                app,
                format!("has {} CPUs and asked for at most {most}", cpus.len()),
            );
        }
        for reason in &share.explanation.reasons {
            if let Reason::GaveTo { floor: Some(floor), expected: Some(expected), .. } = reason
                // The expectation is computed from the same numbers as the floor, so only rounding
                // may put it below.
                && *expected < floor * (1.0 - 1e-9)
            {
                findings.error(
                    app,
                    format!("gives CPUs and is expected at {expected}, below its floor {floor}"),
                );
            }
        }
    }
}

/// No CPU belongs to two applications unless both share the same slot, and the free CPUs are those
/// that nobody has.
fn check_owners(plan: &Plan, usable: &CpuSet, findings: &mut Findings) {
    let mut owned = CpuSet::new();
    let mut slots: BTreeMap<u32, &CpuSet> = BTreeMap::new();
    for planned in &plan.apps {
        let app = Some(planned.app);
        if let Sharing::Slot(slot) = planned.share.sharing {
            match slots.get(&slot) {
                Some(cpus) if **cpus == planned.cpus => continue,
                Some(cpus) => {
                    findings.error(
                        app,
                        format!("is on {} and others of slot {slot} on {cpus}", planned.cpus),
                    );
                }
                None => {
                    slots.insert(slot, &planned.cpus);
                }
            }
        }
        if !planned.cpus.is_disjoint(&owned) {
            findings.error(
                app,
                format!(
                    "has CPUs {} of another application",
                    planned.cpus.intersection(&owned)
                ),
            );
        }
        owned.insert_all(&planned.cpus);
    }
    let free = usable.difference(&owned);
    if free != plan.free {
        findings.error(
            None,
            format!("CPUs {free} are free, the plan says {}", plan.free),
        );
    }
}

/// The actions lead from what is in force to what is planned, and promise no CPU twice on the way
/// unless somebody has to jump.
fn check_actions(plan: &Plan, observation: &Observation, findings: &mut Findings) {
    let mut now: BTreeMap<AppId, CpuSet> = observation
        .apps
        .iter()
        .map(|a| (a.app, a.effective.clone()))
        .collect();
    let slots = plan
        .apps
        .iter()
        .any(|a| a.share.sharing != Sharing::Exclusive);
    let overlapped = overlap(&now);
    for action in &plan.actions {
        let (Action::Shrink { app, from, to } | Action::Set { app, from, to }) = action;
        if now.get(app) != Some(from) {
            findings.error(
                Some(*app),
                format!("an action takes it from {from}, where it is not"),
            );
        }
        if to.is_empty() {
            findings.error(Some(*app), "an action takes its last CPU");
        }
        if matches!(action, Action::Shrink { .. }) && !to.is_subset(from) {
            findings.error(
                Some(*app),
                format!("an action that shrinks goes from {from} to {to}"),
            );
        }
        now.insert(*app, to.clone());
        let jumps = from.is_disjoint(to) && !from.is_empty();
        if !slots && !jumps && !overlapped && overlap(&now) {
            findings.warning(
                Some(*app),
                format!("on the way to {to} a CPU is promised twice"),
            );
        }
    }
    for planned in &plan.apps {
        if now.get(&planned.app) != Some(&planned.cpus) {
            findings.error(
                Some(planned.app),
                format!("the actions do not lead to {}", planned.cpus),
            );
        }
    }
}

fn overlap(sets: &BTreeMap<AppId, CpuSet>) -> bool {
    let mut all = CpuSet::new();
    sets.values().any(|set| {
        let twice = !set.is_disjoint(&all);
        all.insert_all(set);
        twice
    })
}
