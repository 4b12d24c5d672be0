//! One decision after another: the state of the loop and its step.

use crate::actions::{self, Move};
use crate::allowed::Allowed;
use crate::check::{Severity, check};
use crate::division::{Division, Policies};
use crate::explain::{AppExplanation, Decision, History};
use crate::idle_time::{Candidate, IdleTimes, basis};
use crate::lending::{self, Idleness, Lenders};
use mapper_allocate::{AllocationConfig, AllocationPolicy, KnownProgram, PolicyState};
use mapper_characterise::{Characteriser, CharacteriserConfig, CharacteriserState};
use mapper_model::{
    AppId, AppName, AppObservation, AppPlacement, AppView, CpuSet, Explanation, Fixed, IdleTime,
    Lending, Loan, MachineProfile, NodeShare, Observation, Plan, PlannedApp, Profile, Reason,
    Share, Sharing, Snapshot, Strategy, Topology, Trigger,
};
use mapper_placement::{PlacementConfig, PlacementPolicy};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which policies decide, and with which settings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PipelineConfig {
    /// The allocation policy, by name.
    pub allocation: String,
    /// The placement policy, by name.
    pub mapping: String,
    /// How readings are judged.
    pub monitor: CharacteriserConfig,
    /// Settings of the allocation policy.
    pub allocate: AllocationConfig,
    /// Settings of the placement policy.
    pub map: PlacementConfig,
    /// Thresholds of the machine.
    pub machine: MachineProfile,
    /// Whether others may use the CPUs of idle applications.
    #[serde(default = "lending_of_earlier_versions")]
    pub lending: Lending,
}

/// What a recording of an earlier version was made with.
const fn lending_of_earlier_versions() -> Lending {
    Lending::Never
}

impl Default for PipelineConfig {
    fn default() -> Self {
        Self {
            allocation: mapper_allocate::DEFAULT.into(),
            mapping: "sam_mph".into(),
            monitor: CharacteriserConfig::default(),
            allocate: AllocationConfig::default(),
            map: PlacementConfig::default(),
            machine: MachineProfile::default(),
            lending: Lending::default(),
        }
    }
}

/// A configuration that names no policy.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// No such allocation policy.
    #[error(transparent)]
    Allocation(#[from] mapper_allocate::UnknownPolicy),
    /// No such placement policy.
    #[error(transparent)]
    Mapping(#[from] mapper_placement::UnknownPolicy),
}

/// A saved state that cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It was saved in another format.
    #[error(
        "saved state has version {found}, this mapper reads version {}; start without it",
        ControllerState::VERSION
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// The allocation policy cannot read its part.
    #[error(transparent)]
    Allocation(#[from] mapper_allocate::RestoreError),
}

/// Everything a controller remembers, as data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ControllerState {
    version: u32,
    monitor: CharacteriserState,
    allocation: PolicyState,
    apps: BTreeMap<AppId, Arc<Remembered>>,
    #[serde(default)]
    idleness: Idleness,
    #[serde(default)]
    idle_times: IdleTimes,
}

impl ControllerState {
    /// The format written by this version.
    pub const VERSION: u32 = 1;

    const fn check_version(&self) -> Result<(), RestoreError> {
        match self.version {
            Self::VERSION => Ok(()),
            found => Err(RestoreError::Version { found }),
        }
    }
}

/// What is remembered of one application from plan to plan.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Remembered {
    planned: PlannedApp,
    history: History,
}

/// Takes decisions. See the [crate].
#[derive(Debug)]
pub struct Controller {
    config: PipelineConfig,
    topology: Topology,
    monitor: Characteriser,
    allocation: Box<dyn AllocationPolicy>,
    mapping: Box<dyn PlacementPolicy>,
    apps: BTreeMap<AppId, Arc<Remembered>>,
    idleness: Idleness,
    idle_times: IdleTimes,
}

impl Controller {
    /// A controller that has seen nothing.
    ///
    /// # Errors
    /// When the configuration names a policy that does not exist; the error lists those that do.
    pub fn new(config: PipelineConfig, topology: Topology) -> Result<Self, PipelineError> {
        let allocation = (mapper_allocate::find(&config.allocation)?.build)(&config.allocate);
        let mapping = (mapper_placement::find(&config.mapping)?.build)(&config.map);
        Ok(Self {
            monitor: Characteriser::new(config.monitor.clone()),
            allocation,
            mapping,
            apps: BTreeMap::new(),
            idleness: Idleness::default(),
            idle_times: IdleTimes::default(),
            config,
            topology,
        })
    }

    /// The same with this allocation policy in place of the one that its configuration names: for
    /// forms of a policy that cannot be selected, such as one with a part left out.
    #[must_use]
    pub fn with_allocation(self, allocation: Box<dyn AllocationPolicy>) -> Self {
        Self { allocation, ..self }
    }

    /// The machine it decides for.
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Its settings.
    pub const fn config(&self) -> &PipelineConfig {
        &self.config
    }

    /// Goes on with another machine: CPUs came or went. What is known of applications stays.
    pub fn set_topology(&mut self, topology: Topology) {
        self.topology = topology;
    }

    /// The CPUs that a plan for this observation may use.
    pub fn usable(&self, observation: &Observation) -> CpuSet {
        observation.usable.intersection(self.topology.cpus())
    }

    /// Takes one decision.
    pub fn step(&mut self, observation: &Observation) -> Plan {
        let all = without_repeated_apps(observation);
        let observation = without(&all, |observed| observed.fixed.is_some());
        let usable = self.usable(&observation);
        let (machine, apps) = (&self.config.machine, &self.apps);
        let basis = |app| {
            let planned = apps.get(&app).map(|remembered| &remembered.planned);
            planned.map(basis).unwrap_or_default()
        };
        self.monitor
            .observe(&observation, &self.topology, machine, basis);
        let monitor = &self.monitor;
        self.idle_times
            .observe(&observation, basis, |app| monitor.profile(app));
        self.forget_those_that_left(&observation);
        self.idleness.observe(&observation);
        let plan = if usable.is_empty() {
            self.stay(&observation)
        } else {
            self.decide_without_lenders(&observation, &usable)
        };
        self.remember(&plan, observation.now_ns);
        let plan = with(plan, &all, stays);
        if cfg!(any(debug_assertions, feature = "checks")) {
            let errors: Vec<String> = check(&plan, &all, &usable)
                .iter()
                .filter(|f| f.severity == Severity::Error)
                .map(ToString::to_string)
                .collect();
            assert!(
                errors.is_empty(),
                "{} with {}: {errors:#?}",
                self.config.allocation,
                self.config.mapping
            );
        }
        plan
    }

    /// Decides for those that have something to do, on the CPUs of all.
    fn decide_without_lenders(&mut self, observation: &Observation, usable: &CpuSet) -> Plan {
        let planned = self.apps.values().map(|remembered| &remembered.planned);
        let before = Lenders::before(planned);
        let is_planned = |app| self.apps.contains_key(&app);
        let lenders = match self.config.lending {
            Lending::WhenIdle => {
                Lenders::of(observation, usable, &self.idleness, &before, is_planned)
            }
            Lending::Never => Lenders::default(),
        };
        let lent = Lent {
            cpus: lenders.cpus_of_others(observation, &Lenders::default()),
            returned: before.cpus_of_others(observation, &lenders),
        };
        let mut active = without(observation, |observed| lenders.contains(observed.app));
        if lenders != before && active.trigger == Trigger::Interval {
            // What was measured before the change is no sample of what follows.
            active.to_mut().trigger = Trigger::Membership;
        }
        let plan = self.decide(&active, usable, &lent);
        with(plan, observation, |observed| {
            let remembered = self.apps.get(&observed.app)?;
            let lends = lenders.contains(observed.app);
            lends.then(|| lending::lent(observed, &remembered.planned))
        })
    }

    fn decide(&mut self, observation: &Observation, usable: &CpuSet, lent: &Lent) -> Plan {
        let allowed = Allowed::of(observation, usable, &self.topology);
        let held = self.held_without_loans(observation, &allowed, usable, lent);
        // The monitor keeps its profiles in the order of the observation it has just taken in.
        let mut profiles = Vec::with_capacity(observation.apps.len());
        let mut apps = observation.apps.iter().peekable();
        for profile in self.monitor.profiles() {
            if apps.next_if(|app| app.app == profile.app).is_some() {
                profiles.push(profile);
            }
        }
        let views: Vec<AppView<'_>> = observation
            .apps
            .iter()
            .zip(&profiles)
            .zip(held.iter().zip(&allowed.sets))
            .map(|((observed, profile), (held, set))| AppView {
                app: observed.app,
                spec: &observed.spec,
                profile,
                held,
                allowed: set.as_ref(),
            })
            .collect();
        let snapshot = Snapshot {
            tick: observation.tick,
            now_ns: observation.now_ns,
            trigger: observation.trigger,
            topology: &self.topology,
            usable: &allowed.usable,
            machine: &self.config.machine,
            apps: &views,
        };
        let mut policies = Policies {
            allocation: self.allocation.as_mut(),
            mapping: self.mapping.as_ref(),
        };
        let mut decided = if allowed.has_sharing() {
            policies.decide_for_others(&snapshot, &allowed, observation, usable)
        } else {
            policies.decide(&snapshot)
        };
        decided.share_all(observation, usable);
        let Division {
            shares,
            placed,
            transfers,
        } = decided;

        let idle_times = self.idle_times_beside(observation, &profiles, &shares, &placed, lent);

        // Names are asked for only where CPUs changed hands.
        let names: OnceCell<BTreeMap<AppId, &AppName>> = OnceCell::new();
        let name = |app: AppId| -> Option<&AppName> {
            let apps = observation.apps.iter();
            let names = names.get_or_init(|| apps.map(|a| (a.app, &a.spec.name)).collect());
            names.get(&app).copied()
        };
        let mut free = usable.clone();
        let apps: Vec<PlannedApp> = shares
            .into_iter()
            .zip(placed)
            .zip(&observation.apps)
            .zip(&profiles)
            .zip(idle_times)
            .map(|((((share, place), observed), profile), idle_time)| {
                free.remove_all(&place.cpus);
                let mut share = share.with_reasons_of(&observed.spec, profile.activity);
                share
                    .explanation
                    .reasons
                    .extend(reason_of_allowed(observed, usable));
                let last = self.apps.get(&share.app).map(|last| &last.planned);
                let own = last.map(PlannedApp::own).unwrap_or_default();
                let loan = lending::borrowed(&place.cpus, &lent.cpus, &own);
                let reasons = &mut share.explanation.reasons;
                if let Some(ended) = lending::ended(last, &lent.returned) {
                    reasons.retain(|reason| !matches!(reason, Reason::UsableChanged { .. }));
                    reasons.push(ended);
                }
                if let Loan::Borrows { cpus } = &loan {
                    reasons.retain(|reason| !matches!(reason, Reason::TookFree { .. }));
                    let cpus = cpus.clone();
                    reasons.push(Reason::Borrows { cpus });
                }
                if !idle_time.is_none() {
                    let cpus = idle_time.cpus.clone();
                    reasons.push(Reason::UsesIdleTime { cpus });
                }
                if allowed.confines() && !self.lies_by_node(&share, &place.cpus) {
                    share.by_node = None;
                }
                PlannedApp {
                    app: share.app,
                    name: observed.spec.name.clone(),
                    cpus: place.cpus,
                    loan,
                    idle_time,
                    strategy: place.strategy,
                    sentence: share.explanation.sentence(&name),
                    share,
                }
            })
            .collect();
        let moves: Vec<Move<'_>> = apps
            .iter()
            .zip(&observation.apps)
            .map(|(planned, observed)| Move {
                app: planned.app,
                from: &observed.effective,
                to: &planned.cpus,
            })
            .collect();
        let actions = actions::order(&moves);
        Plan {
            tick: observation.tick,
            apps,
            transfers,
            free,
            actions,
        }
    }

    /// Whose idle time each application may use besides the CPUs it has been placed on.
    fn idle_times_beside(
        &self,
        observation: &Observation,
        profiles: &[&Profile],
        shares: &[Share],
        placed: &[AppPlacement],
        lent: &Lent,
    ) -> Vec<IdleTime> {
        let last = |app| self.apps.get(&app).map(|last| &last.planned);
        let candidate = |((share, place), profile): ((&Share, &AppPlacement), &&Profile)| {
            let floor = last(share.app).and_then(|planned| planned.share.floor);
            match self.config.lending {
                Lending::Never => Candidate::Neither,
                Lending::WhenIdle => Candidate::of(share, &place.cpus, profile, floor, &lent.cpus),
            }
        };
        let candidates: Vec<Candidate> = (shares.iter().zip(placed).zip(profiles))
            .map(candidate)
            .collect();
        self.idle_times.divide(observation, &candidates, |app| {
            last(app).is_some_and(|planned| !planned.idle_time.is_none())
        })
    }

    /// Whether an application has on each node what its share says, where it says that.
    fn lies_by_node(&self, share: &Share, cpus: &CpuSet) -> bool {
        let here = |part: &NodeShare| self.topology.node_cpus(part.node).overlap(cpus);
        let mut parts = share.by_node.iter().flatten();
        parts.all(|part| here(part) == part.cpus)
    }

    /// The plan when no CPU is usable: everybody stays where it is.
    fn stay(&self, observation: &Observation) -> Plan {
        let none = Reason::UsableChanged { usable: 0 };
        let apps = observation.apps.iter().map(|observed| PlannedApp {
            strategy: Strategy::LeastContention,
            ..in_place(observed, "no usable CPU", none.clone())
        });
        Plan {
            tick: observation.tick,
            apps: apps.collect(),
            ..Plan::default()
        }
    }

    /// What an application holds: what is in force as far as it is usable, else what was planned.
    fn held(&self, observed: &AppObservation, usable: &CpuSet) -> CpuSet {
        let Some(remembered) = self.apps.get(&observed.app) else {
            return CpuSet::new();
        };
        let planned = &remembered.planned;
        let held = if observed.effective.is_empty() {
            planned.cpus.intersection(usable)
        } else {
            observed.effective.intersection(usable)
        };
        match planned.share.sharing {
            Sharing::Exclusive => held,
            // Policies count fewer for each slot, mostly one.
            Sharing::Slot(slot) => {
                let nth = slot.checked_rem(held.len()).unwrap_or_default();
                let counted = planned.share.cpus.min(held.len());
                let from_nth = held.iter().cycle().skip(nth as usize);
                from_nth.take(counted as usize).collect()
            }
        }
    }

    /// What each application holds, less what it had borrowed from those that are back.
    fn held_without_loans(
        &self,
        observation: &Observation,
        allowed: &Allowed,
        usable: &CpuSet,
        lent: &Lent,
    ) -> Vec<CpuSet> {
        let planned = |app| self.apps.get(&app).map(|remembered| &remembered.planned);
        // CPUs that are some application's own already.
        let mut taken = CpuSet::new();
        for observed in &observation.apps {
            if let Some(planned) = planned(observed.app).filter(|p| p.loan != Loan::Lends) {
                taken.insert_all(&planned.own());
            }
        }
        let apps = observation.apps.iter().zip(&allowed.sets);
        let held = apps.map(|(observed, set)| {
            let held = self.held(observed, set.as_ref().unwrap_or(usable));
            let Some(planned) = planned(observed.app) else {
                return held;
            };
            match &planned.loan {
                // Several may have lent the same CPUs: the first that is back has them.
                Loan::Lends => {
                    let back = held.difference(&taken);
                    taken.insert_all(&back);
                    back
                }
                Loan::Borrows { cpus } => held.difference(&cpus.intersection(&lent.returned)),
                // It may not have left what it returned before.
                Loan::None => held.difference(&taken.difference(&planned.cpus)),
            }
        });
        held.collect()
    }

    fn remember(&mut self, plan: &Plan, now_ns: u64) {
        for planned in &plan.apps {
            let remembered = self.apps.entry(planned.app).or_insert_with(|| {
                Arc::new(Remembered {
                    planned: planned.clone(),
                    history: History::default(),
                })
            });
            // It is copied only if a state that is being saved has it, too.
            let remembered = Arc::make_mut(remembered);
            if !remembered.history.repeat(&planned.sentence, &planned.cpus) {
                remembered.history.add(Decision {
                    tick: plan.tick,
                    now_ns,
                    cpus: planned.cpus.clone(),
                    explanation: planned.share.explanation.clone(),
                    sentence: planned.sentence.clone(),
                    times: 1,
                });
            }
            if remembered.planned != *planned {
                remembered.planned.clone_from(planned);
            }
        }
    }

    fn forget_those_that_left(&mut self, observation: &Observation) {
        let here: BTreeSet<AppId> = observation.apps.iter().map(|a| a.app).collect();
        self.apps.retain(|app, _| here.contains(app));
    }

    /// What the monitor knows of an application.
    pub fn profile(&self, app: AppId) -> Option<&Profile> {
        self.monitor.profile(app)
    }

    /// Everything there is to tell of an application; `None` when it is not known.
    pub fn explain(&self, app: AppId) -> Option<AppExplanation> {
        let Remembered { planned, history } = self.apps.get(&app)?.as_ref();
        let profile = self.monitor.profile(app)?;
        let floor = planned.share.floor;
        Some(AppExplanation {
            app,
            name: planned.name.clone(),
            cpus: planned.cpus.clone(),
            strategy: planned.strategy,
            state: planned.share.state.clone(),
            fair: planned.share.fair,
            performance: profile.performance,
            floor,
            slack: profile
                .performance
                .zip(floor)
                .map(|(p, floor)| p.value - floor),
            spare: planned.share.spare,
            norm_eff: planned.share.norm_eff,
            bottleneck: profile.bottleneck,
            class: profile.class,
            region_phase: profile.region_phase,
            spun: profile.spun,
            curve: profile.curve.points().to_vec(),
            decisions: history.iter().cloned().collect(),
        })
    }

    /// The speeds that the allocation policy expects of a program on one CPU, on two and so on up to `cpus`, as shares of
    /// the last; `None` if it does not know.
    pub fn expected(&self, program: KnownProgram, cpus: u32) -> Option<Vec<f64>> {
        let mut speeds = self.allocation.expected(program, cpus)?;
        let all = *speeds.last()?;
        speeds.iter_mut().for_each(|speed| *speed /= all);
        speeds
            .iter()
            .all(|speed| speed.is_finite())
            .then_some(speeds)
    }

    /// Everything it remembers.
    pub fn save(&self) -> ControllerState {
        ControllerState {
            version: ControllerState::VERSION,
            monitor: self.monitor.state().clone(),
            allocation: self.allocation.save(),
            apps: self.apps.clone(),
            idleness: self.idleness.clone(),
            idle_times: self.idle_times.clone(),
        }
    }

    /// Continues from a saved state.
    ///
    /// # Errors
    /// When the state is of another version or policy; the controller is then unchanged.
    pub fn restore(&mut self, state: ControllerState) -> Result<(), RestoreError> {
        state.check_version()?;
        self.allocation.restore(&state.allocation)?;
        self.restore_without_policy(state)
    }

    /// Continues from a saved state of another allocation policy; that of this one starts anew.
    ///
    /// # Errors
    /// When the state is of another version; the controller is then unchanged.
    pub fn restore_without_policy(&mut self, state: ControllerState) -> Result<(), RestoreError> {
        state.check_version()?;
        self.monitor.restore(state.monitor);
        self.apps = state.apps;
        self.idleness = state.idleness;
        self.idle_times = state.idle_times;
        Ok(())
    }
}

/// What is to be said of the CPUs that an application may use, if these are not all.
fn reason_of_allowed(observed: &AppObservation, usable: &CpuSet) -> Option<Reason> {
    let allowed = observed.allowed.as_ref()?;
    let cpus = || allowed.clone();
    if allowed.is_disjoint(usable) {
        return Some(Reason::NoneAllowed { cpus: cpus() });
    }
    (!usable.is_subset(allowed)).then(|| Reason::Allowed { cpus: cpus() })
}

/// CPUs that are, or were, another's for a while.
struct Lent {
    /// Those of applications that lend now.
    cpus: CpuSet,
    /// Those of applications that have lent until now, which are theirs alone again.
    returned: CpuSet,
}

/// The observation without these applications.
fn without(
    observation: &Observation,
    leave_out: impl Fn(&AppObservation) -> bool,
) -> Cow<'_, Observation> {
    if !observation.apps.iter().any(&leave_out) {
        return Cow::Borrowed(observation);
    }
    let apps = observation.apps.iter().filter(|app| !leave_out(app));
    Cow::Owned(Observation {
        apps: apps.cloned().collect(),
        usable: observation.usable.clone(),
        ..*observation
    })
}

/// The plan with the applications that were left out, each in its place.
fn with(
    mut plan: Plan,
    observation: &Observation,
    entry: impl Fn(&AppObservation) -> Option<PlannedApp>,
) -> Plan {
    if plan.apps.len() == observation.apps.len() {
        return plan;
    }
    let mut decided = plan.apps.into_iter();
    let free = &mut plan.free;
    let apps = observation.apps.iter().filter_map(|observed| {
        let Some(planned) = entry(observed) else {
            return decided.next();
        };
        free.remove_all(&planned.cpus);
        Some(planned)
    });
    plan.apps = apps.collect();
    plan
}

/// The entry of an application that nobody moves, if it is one.
fn stays(observed: &AppObservation) -> Option<PlannedApp> {
    let reason = match observed.fixed? {
        Fixed::ByOperator => Reason::SetByOperator,
        Fixed::ByLimit => Reason::OutsideLimit,
    };
    Some(in_place(observed, "left in place", reason))
}

/// The entry of an application that keeps what it has.
fn in_place(observed: &AppObservation, state: &str, reason: Reason) -> PlannedApp {
    let cpus = observed.effective.clone();
    let explanation = Explanation {
        before: cpus.len(),
        after: cpus.len(),
        reasons: vec![reason],
    };
    PlannedApp {
        app: observed.app,
        name: observed.spec.name.clone(),
        strategy: Strategy::Fixed,
        sentence: explanation.sentence(&|_| None),
        share: Share {
            app: observed.app,
            cpus: cpus.len(),
            state: state.into(),
            explanation,
            ..Share::default()
        },
        cpus,
        loan: Loan::None,
        idle_time: IdleTime::default(),
    }
}

/// An observation with each application once, in case a broken one lists it twice.
fn without_repeated_apps(observation: &Observation) -> Cow<'_, Observation> {
    let apps = &observation.apps;
    // Ids are given in ascending order, so that this is all there is to do.
    if apps.is_sorted_by(|a, b| a.app < b.app) {
        return Cow::Borrowed(observation);
    }
    let mut seen = BTreeSet::new();
    if apps.iter().all(|a| seen.insert(a.app)) {
        return Cow::Borrowed(observation);
    }
    let mut observation = observation.clone();
    seen.clear();
    observation.apps.retain(|a| seen.insert(a.app));
    Cow::Owned(observation)
}
