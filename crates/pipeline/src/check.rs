//! Whether a plan may be enforced.
//!
//! The checker states what must hold for any plan of any policy and reports what does not: an
//! [`Severity::Error`] must not be enforced, a [`Severity::Warning`] is only odd. It runs in every debug
//! build and test, and in the daemon before every enforcement.

use mapper_model::{
    Action, AppId, CpuSet, IdleTime, IdleTimeUse, Lending, Loan, Observation, Plan, Reason, Sharing,
};
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

/// Checks a plan; `usable` is what of the observation's CPUs the machine really has.
pub fn check(plan: &Plan, observation: &Observation, usable: &CpuSet) -> Vec<Finding> {
    let mut findings = Findings::default();
    if usable.is_empty() {
        if !plan.actions.is_empty() {
            findings.error("actions although no CPU is usable");
        }
        return findings.list;
    }
    check_apps(plan, observation, usable, &mut findings);
    check_owners(plan, observation, usable, &mut findings);
    check_idle_time(plan, observation, &mut findings);
    check_transfers(plan, &mut findings);
    check_actions(plan, observation, &mut findings);
    findings.list
}

#[derive(Default)]
struct Findings {
    /// The application under consideration.
    app: Option<AppId>,
    list: Vec<Finding>,
}

impl Findings {
    fn error(&mut self, what: impl Into<String>) {
        self.add(Severity::Error, what.into());
    }

    fn warning(&mut self, what: impl Into<String>) {
        self.add(Severity::Warning, what.into());
    }

    fn add(&mut self, severity: Severity, what: String) {
        let app = self.app;
        self.list.push(Finding {
            severity,
            app,
            what,
        });
    }
}

/// One entry for each application, with CPUs that are usable and as many as its share says, or more
/// if it shares them.
fn check_apps(plan: &Plan, observation: &Observation, usable: &CpuSet, findings: &mut Findings) {
    if !plan
        .apps
        .iter()
        .map(|a| a.app)
        .eq(observation.apps.iter().map(|a| a.app))
    {
        findings.error("the applications of the plan are not those of the observation");
    }
    let lenders = plan.apps.iter().filter(|app| app.loan == Loan::Lends);
    let lent = lenders.fold(CpuSet::new(), |all, app| all.union(&app.cpus));
    for (planned, observed) in plan.apps.iter().zip(&observation.apps) {
        findings.app = Some(planned.app);
        let (cpus, share) = (&planned.cpus, &planned.share);
        if observed.fixed.is_some() {
            if *cpus != observed.effective {
                findings.error(format!(
                    "has CPUs {}, but is to stay on {}",
                    listed(cpus),
                    listed(&observed.effective)
                ));
            }
            continue;
        }
        if planned.loan == Loan::Lends && *cpus != observed.effective {
            findings.error(format!(
                "lends CPUs {}, but has {}",
                listed(cpus),
                listed(&observed.effective)
            ));
        }
        if let Loan::Borrows { cpus: borrowed } = &planned.loan
            && !borrowed.is_subset(&cpus.intersection(&lent))
        {
            findings.error(format!(
                "borrows CPUs {borrowed}, of which it has {cpus}, and {} are lent",
                listed(&lent)
            ));
        }
        if cpus.is_empty() {
            findings.error("has no CPU");
        }
        if !cpus.is_subset(usable) {
            findings.error(format!(
                "has CPUs {} that are not usable",
                cpus.difference(usable)
            ));
        }
        if let Some(allowed) = &observed.allowed
            && !allowed.is_disjoint(usable)
            && !cpus.is_subset(allowed)
        {
            findings.error(format!(
                "has CPUs {} that it may not use",
                cpus.difference(allowed)
            ));
        }
        let is_exclusive = share.sharing == Sharing::Exclusive;
        if share.cpus > cpus.len() || is_exclusive && share.cpus != cpus.len() {
            findings.error(format!(
                "has {} CPUs, its share says {}",
                cpus.len(),
                share.cpus
            ));
        }
        if let Some(nodes) = &share.by_node {
            let sum: u32 = nodes.iter().map(|n| n.cpus).sum();
            if sum != share.cpus {
                findings.error(format!(
                    "its CPUs by node add up to {sum}, its share says {}",
                    share.cpus
                ));
            }
        }
        let most = observed.spec.cpus.max().unwrap_or(u32::MAX);
        if planned.loan != Loan::Lends && cpus.len() > most {
            findings.warning(format!(
                "has {} CPUs and asked for at most {most}",
                cpus.len()
            ));
        }
        for reason in &share.explanation.reasons {
            if let Reason::GaveTo { floor: Some(floor), expected: Some(expected), .. } = reason
                // The expectation is computed from the same numbers as the floor, so only rounding
                // may put it below.
                && *expected < floor * (1.0 - 1e-9)
            {
                findings.error(format!(
                    "gives CPUs and is expected at {expected}, below its floor {floor}"
                ));
            }
        }
    }
}

/// No CPU belongs to two applications that are placed unless both have slots or one lends, and the free CPUs are those
/// that no application has.
fn check_owners(plan: &Plan, observation: &Observation, usable: &CpuSet, findings: &mut Findings) {
    let mut owned = CpuSet::new();
    // Those of applications that decisions leave where they are.
    let mut fixed = CpuSet::new();
    let mut slots = CpuSet::new();
    for (planned, observed) in plan.apps.iter().zip(&observation.apps) {
        findings.app = Some(planned.app);
        if observed.fixed.is_some() || planned.loan == Loan::Lends {
            fixed.insert_all(&planned.cpus);
            continue;
        }
        let (others, same_kind) = match planned.share.sharing {
            Sharing::Exclusive => (owned.union(&slots), &mut owned),
            Sharing::Slot(_) => (owned.clone(), &mut slots),
        };
        if !planned.cpus.is_disjoint(&others) {
            findings.error(format!(
                "has CPUs {} of another application",
                planned.cpus.intersection(&others)
            ));
        }
        same_kind.insert_all(&planned.cpus);
    }
    owned.insert_all(&slots);
    let free = usable.difference(&owned).difference(&fixed);
    findings.app = None;
    if free != plan.free {
        findings.error(format!(
            "the free CPUs are {}, the plan says {}",
            listed(&free),
            listed(&plan.free)
        ));
    }
}

/// Idle time is that of CPUs whose owners permit it, have them alone and use no idle time of others; and no CPU's goes
/// to two.
fn check_idle_time(plan: &Plan, observation: &Observation, findings: &mut Findings) {
    let mut left = CpuSet::new();
    for (planned, observed) in plan.apps.iter().zip(&observation.apps) {
        if observed.fixed.is_none()
            && observed.spec.lending == Lending::WhenIdle
            && observed.spec.idle_time == IdleTimeUse::WhileLeft
            && planned.idle_time.is_none()
            && planned.loan.is_none()
            && planned.share.sharing == Sharing::Exclusive
        {
            left.insert_all(&planned.cpus);
        }
    }
    for (planned, observed) in plan.apps.iter().zip(&observation.apps) {
        findings.app = Some(planned.app);
        let IdleTime { cpus, count } = &planned.idle_time;
        if !cpus.is_subset(&left) {
            findings.error(format!(
                "is to use idle time of CPUs {cpus}, but {} leave none to it",
                cpus.difference(&left)
            ));
        }
        left.remove_all(cpus);
        if *count > cpus.len() || (*count == 0) != cpus.is_empty() {
            findings.error(format!(
                "is to use idle time of CPUs {}, but of {count} of them",
                listed(cpus)
            ));
        }
        if !cpus.is_empty()
            && (observed.spec.idle_time == IdleTimeUse::Never
                || planned.share.sharing != Sharing::Exclusive
                || (observed.allowed.as_ref()).is_some_and(|allowed| !cpus.is_subset(allowed))
                || (observed.spec.cpus.max())
                    .is_some_and(|max| planned.cpus.len() + cpus.len() > max))
        {
            findings.error(format!("may not use idle time of CPUs {cpus}"));
        }
    }
    findings.app = None;
}

fn listed(cpus: &CpuSet) -> String {
    if cpus.is_empty() {
        "none".to_owned()
    } else {
        cpus.to_string()
    }
}

/// CPUs that changed hands add up, and nobody both gives to and takes from others in one decision.
fn check_transfers(plan: &Plan, findings: &mut Findings) {
    if plan.transfers.is_empty() {
        return;
    }
    // What each application got less what it gave, and whether it gave or took between applications.
    let mut books: BTreeMap<AppId, Book> = BTreeMap::new();
    for transfer in &plan.transfers {
        let cpus = i64::from(transfer.cpus);
        let between_apps = transfer.from.is_some() && transfer.to.is_some();
        if let Some(giver) = transfer.from {
            let book = books.entry(giver).or_default();
            book.balance -= cpus;
            book.gave |= between_apps;
        }
        if let Some(taker) = transfer.to {
            let book = books.entry(taker).or_default();
            book.balance += cpus;
            book.took |= between_apps;
        }
    }
    for planned in &plan.apps {
        findings.app = Some(planned.app);
        let Some(book) = books.get(&planned.app) else {
            continue;
        };
        let explained = &planned.share.explanation;
        if i64::from(explained.before) + book.balance != i64::from(explained.after) {
            findings.warning(format!(
                "goes from {} to {} CPUs, the transfers say {:+}",
                explained.before, explained.after, book.balance
            ));
        }
        if book.gave && book.took {
            findings.warning("gives to and takes from others in one decision");
        }
    }
}

#[derive(Default)]
struct Book {
    balance: i64,
    gave: bool,
    took: bool,
}

/// The actions lead to the plan, and promise no CPU twice on the way unless an application has to jump.
fn check_actions(plan: &Plan, observation: &Observation, findings: &mut Findings) {
    let mut now: BTreeMap<AppId, &CpuSet> = observation
        .apps
        .iter()
        .map(|a| (a.app, &a.effective))
        .collect();
    let slots = plan
        .apps
        .iter()
        .any(|a| a.share.sharing != Sharing::Exclusive || !a.loan.is_none());
    let mut promises = Promises::default();
    for set in now.values() {
        promises.add(set);
    }
    let overlapped = promises.doubled > 0;
    for action in &plan.actions {
        let (Action::Shrink { app, from, to } | Action::Set { app, from, to }) = action;
        findings.app = Some(*app);
        if now.get(app) != Some(&from) {
            findings.error(format!(
                "an action takes it from {}, where it is not",
                listed(from)
            ));
        }
        if to.is_empty() {
            findings.error("an action takes its last CPU");
        }
        if matches!(action, Action::Shrink { .. }) && !to.is_subset(from) {
            findings.error(format!("an action that shrinks goes from {from} to {to}"));
        }
        if let Some(before) = now.insert(*app, to) {
            promises.remove(before);
        }
        promises.add(to);
        let jumps = from.is_disjoint(to) && !from.is_empty();
        if !slots && !jumps && !overlapped && promises.doubled > 0 {
            findings.warning(format!("on the way to {to} a CPU is promised twice"));
        }
    }
    for planned in &plan.apps {
        findings.app = Some(planned.app);
        if now.get(&planned.app) != Some(&&planned.cpus) {
            findings.error(format!("the actions do not lead to {}", planned.cpus));
        }
    }
}

/// How many applications each CPU is promised to.
#[derive(Default)]
struct Promises {
    of_cpu: Vec<u32>,
    /// CPUs promised to more than one.
    doubled: u32,
}

impl Promises {
    fn add(&mut self, set: &CpuSet) {
        for cpu in set {
            if self.of_cpu.len() <= cpu.index() {
                self.of_cpu.resize(cpu.index() + 1, 0);
            }
            let count = &mut self.of_cpu[cpu.index()];
            *count += 1;
            self.doubled += u32::from(*count == 2);
        }
    }

    fn remove(&mut self, set: &CpuSet) {
        for cpu in set {
            let count = &mut self.of_cpu[cpu.index()];
            *count -= 1;
            self.doubled -= u32::from(*count == 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::{
        AppName, AppObservation, AppSpec, Explanation, PlannedApp, Reading, Share, Strategy,
        Transfer, Trigger,
    };

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn situation() -> (Plan, Observation) {
        let name = |id| AppName::new(&format!("app{id}")).unwrap();
        let app = |id: u64, cpus: &str| PlannedApp {
            app: AppId(id),
            name: name(id),
            cpus: set(cpus),
            loan: Loan::None,
            idle_time: IdleTime::default(),
            strategy: Strategy::Linear,
            share: Share {
                app: AppId(id),
                cpus: set(cpus).len(),
                explanation: Explanation {
                    before: 2,
                    after: 2,
                    reasons: vec![Reason::Steady],
                },
                ..Share::default()
            },
            sentence: "2 CPUs: steady".into(),
        };
        let observed = |id: u64, cpus: &str| AppObservation {
            app: AppId(id),
            spec: AppSpec::named(name(id)),
            effective: set(cpus),
            allowed: None,
            fixed: None,
            reading: Reading::default(),
        };
        let plan = Plan {
            tick: 1,
            apps: vec![app(1, "0-1"), app(2, "2-3")],
            ..Plan::default()
        };
        let observation = Observation {
            tick: 1,
            now_ns: 0,
            trigger: Trigger::Interval,
            usable: set("0-3"),
            apps: vec![observed(1, "0-1"), observed(2, "2-3")],
        };
        (plan, observation)
    }

    /// Breaks the plan and returns what the checker says of the worst finding.
    fn worst(spoil: impl FnOnce(&mut Plan)) -> String {
        let (mut plan, observation) = situation();
        spoil(&mut plan);
        let findings = check(&plan, &observation, &observation.usable);
        let worst = findings.iter().max_by_key(|f| f.severity);
        worst.map_or_else(String::new, |f| format!("{:?} {f}", f.severity))
    }

    #[test]
    fn a_sound_plan_has_no_findings() {
        assert_eq!(worst(|_| {}), "");
    }

    #[test]
    fn an_application_that_stays_where_it_is_may_be_anywhere_but_not_be_moved() {
        let (mut plan, mut observation) = situation();
        observation.apps[0].fixed = Some(mapper_model::Fixed::ByOperator);
        for outside in ["0-1", "1-2", "7"] {
            observation.apps[0].effective = set(outside);
            plan.apps[0].cpus = set(outside);
            plan.free = set("0-1").difference(&set(outside));
            assert_eq!(check(&plan, &observation, &observation.usable), []);
        }
        plan.apps[0].cpus = set("6");
        let findings = check(&plan, &observation, &observation.usable);
        assert_eq!(findings[0].what, "has CPUs 6, but is to stay on 7");
    }

    #[test]
    fn only_cpus_of_one_that_lends_and_stays_where_it_is_may_be_anothers_too() {
        let (mut plan, mut observation) = situation();
        observation.apps[0].effective = set("0-3");
        plan.apps[0].cpus = set("0-3");
        plan.apps[0].share.cpus = 4;
        let error = |plan: &Plan, observation: &Observation| {
            let findings = check(plan, observation, &observation.usable);
            findings.iter().any(|f| f.severity == Severity::Error)
        };
        assert!(error(&plan, &observation));
        plan.apps[1].loan = Loan::Lends;
        assert!(!error(&plan, &observation));
        plan.apps[0].loan = Loan::Borrows { cpus: set("2-3") };
        assert!(!error(&plan, &observation));
        observation.apps[1].effective = set("1-2");
        assert!(error(&plan, &observation));
    }

    #[test]
    fn a_plan_that_may_not_be_enforced_is_reported_with_the_values() {
        type Spoil = fn(&mut Plan);
        let cases: [(Spoil, &str); 9] = [
            (|p| p.apps[0].cpus = CpuSet::new(), "app 1: has no CPU"),
            (|p| p.apps[0].cpus = set("1-2"), "has CPUs 2 of another"),
            (
                |p| p.apps[1].cpus = set("3-4"),
                "CPUs 4 that are not usable",
            ),
            (|p| p.apps[1].share.cpus = 3, "has 2 CPUs, its share says 3"),
            (
                |p| p.apps[0].loan = Loan::Borrows { cpus: set("1") },
                "borrows CPUs 1, of which it has 0-1, and none are lent",
            ),
            (
                |p| p.free = set("1"),
                "the free CPUs are none, the plan says 1",
            ),
            (|p| drop(p.apps.pop()), "not those of the observation"),
            (
                |p| p.apps[0].cpus = set("0"),
                "the actions do not lead to 0",
            ),
            (
                |p| {
                    p.apps[0].share.explanation.reasons = vec![Reason::GaveTo {
                        taker: AppId(2),
                        cpus: 1,
                        taker_eff: 1.0,
                        own_eff: 0.5,
                        floor: Some(10.0),
                        expected: Some(9.0),
                    }];
                },
                "expected at 9, below its floor 10",
            ),
        ];
        for (spoil, expected) in cases {
            let (mut plan, observation) = situation();
            spoil(&mut plan);
            let findings = check(&plan, &observation, &observation.usable);
            assert!(
                findings
                    .iter()
                    .any(|f| f.severity == Severity::Error && f.to_string().contains(expected)),
                "{expected}: {findings:#?}"
            );
        }
    }

    #[test]
    fn giving_and_taking_in_one_decision_is_reported() {
        let message = worst(|p| {
            let give = |from, to| Transfer {
                from: Some(AppId(from)),
                to: Some(AppId(to)),
                cpus: 1,
            };
            p.transfers = vec![give(1, 2), give(2, 1)];
        });
        assert!(
            message.starts_with("Warning") && message.contains("gives to and takes"),
            "{message}"
        );
    }

    #[test]
    fn a_cpu_promised_twice_on_the_way_is_reported() {
        let (mut plan, observation) = situation();
        plan.apps[0].cpus = set("0,2");
        plan.apps[1].cpus = set("1,3");
        let go = |app, from: &str, to: &str| Action::Set {
            app: AppId(app),
            from: set(from),
            to: set(to),
        };
        plan.actions = vec![go(1, "0-1", "0,2"), go(2, "2-3", "1,3")];
        let findings = check(&plan, &observation, &observation.usable);
        assert_eq!(findings.len(), 1, "{findings:#?}");
        assert!(findings[0].what.contains("promised twice"));
    }
}
