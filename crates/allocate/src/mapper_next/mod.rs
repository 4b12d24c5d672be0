//! `mapper-next`: this project's own policy. Every application's speed at every count is predicted from
//! the few counts it was measured at, and the CPUs are divided so that the weighted geometric mean of the
//! predicted speeds is greatest while every application keeps its promise.
//!
//! 1. Each interval is split into its serial and parallel part by the busy CPUs, so that a count is known
//!    after two intervals where the mix is steady ([`tally`], [`learner`]).
//! 2. The parallel rates and the serial time give the expected speed at any count; what was measured is believed as far
//!    as it is sure ([`outlook`]).
//! 3. The best division follows exactly ([`division`], [`plan`]). It is adopted when it is expected to
//!    gain enough; then the new counts are measured, and wrong expectations are corrected.
//! 4. Where nothing shows how an application scales, a trial moves CPUs from one application to one other.
//! 5. Threads that wait for each other's data are put on one node where they fit ([`regions`]).
//!
//! An application of a known program starts with what was known of it. An unknown one gets its fair share and
//! is measured there first. One that says that it is serial, or has CPUs to spare, gets what it says it needs.
//!
//! Invariants: no application is planned below its promise, which is a share of the speed expected at its fair share,
//! but in a trial by a few CPUs; with unchanged readings the counts come to rest, since every change asks for more gain
//! than the one before and trials get rarer.

mod division;
mod learner;
mod outlook;
mod plan;
mod reference;
mod regions;
pub mod rules;
mod tally;
mod universal;

use crate::accounting::{self, CpuAccounting, Note};
use crate::config::AllocationConfig;
use crate::entitlement::{self, Entitlement};
use crate::policy::{AllocationPolicy, KnownProgram, PolicyState, RestoreError};
use crate::shares::{self, Claim};
use crate::table::AppTable;
use learner::{Company, Earlier, Knowledge, Learner};
use mapper_model::{
    Activity, Allocation, AppId, AppView, Bottleneck, Placing, ProgramKey, Reason, SerialPhase,
    Snapshot, Trigger,
};
use outlook::{Hints, Outlook};
use plan::{Candidate, Plan};
use reference::{Mixes, Stage};
use rules::Rules;
use serde::{Deserialize, Serialize};
use tally::{Placed, RatePoint, Split};

/// The name it is selected by.
pub const NAME: &str = "mapper-next";

/// Programs that are remembered after they have left.
const REMEMBERED: usize = 64;
/// Commands that are remembered of one program, so that one with ever new ones pushes no other out.
const COMMANDS: usize = 4;
/// Part of the threshold that is to be hoped for where a trial begins, so that what exceeds it is found.
const HOPED: f64 = 0.75;
/// The longest that an interval counts, in seconds.
const LONGEST_S: f64 = 60.0;
/// An interval whose start is not known, in seconds.
const ASSUMED_S: f64 = 1.0;

/// The policy. See the [module](self).
#[derive(Clone, Debug)]
pub struct MapperNext {
    config: AllocationConfig,
    rules: Rules,
    state: State,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct State {
    learners: AppTable<Learner>,
    usable: u32,
    entitled: Vec<Entitlement>,
    /// Programs that have left, the latest last.
    earlier: Vec<Earlier>,
    /// Times [`Rules::gain`] that the next change must bring.
    caution: f64,
    #[serde(alias = "names")]
    programs: Vec<ProgramKey>,
    stage: Stage,
    /// Whether the counts are those of a trial.
    trying: bool,
    mixes: Mixes,
    /// Whether they were measured under the static fair share, now or before.
    inspected: bool,
    /// For how long they have run together.
    together_s: f64,
    read_ns: Option<u64>,
}

impl MapperNext {
    /// A policy that has decided nothing yet.
    pub fn new(config: AllocationConfig) -> Self {
        Self::with(config, Rules::default())
    }

    /// The same by other rules.
    pub fn with(config: AllocationConfig, rules: Rules) -> Self {
        Self {
            config,
            rules,
            state: State::default(),
        }
    }

    /// Keeps what is known of those that left and recalls those that come; returns whether there were any.
    fn sync(&mut self, snapshot: &Snapshot<'_>) -> bool {
        let state = &mut self.state;
        let here = |app: AppId| snapshot.apps.iter().any(|a| a.app == app);
        if self.rules.parts.recalls() {
            let gone = state.learners.entries().filter(|(app, _)| !here(*app));
            for earlier in gone.filter_map(|(_, learner)| learner.leave()) {
                state.earlier.retain(|e| e.program != earlier.program);
                let same = |e: &Earlier| e.program.is_same_program(&earlier.program);
                if state.earlier.iter().filter(|e| same(e)).count() >= COMMANDS {
                    let oldest = state.earlier.iter().position(same);
                    oldest.map(|oldest| state.earlier.remove(oldest));
                }
                state.earlier.push(earlier);
            }
            let surplus = state.earlier.len().saturating_sub(REMEMBERED);
            state.earlier.drain(..surplus);
        }
        let apps = snapshot.apps.iter().map(|a| a.app);
        let changes = state.learners.sync(apps, Learner::default);
        for (learner, app) in state.learners.iter_mut().zip(snapshot.apps) {
            learner.meet(app, &state.earlier);
        }
        let changed = changes.changed();
        if changed {
            self.meet_mix(snapshot);
        }
        changed
    }

    /// Recalls the rates under the static fair share, if others run than before.
    fn meet_mix(&mut self, snapshot: &Snapshot<'_>) {
        let state = &mut self.state;
        let programs = snapshot.apps.iter();
        let programs = programs.map(|app| app.spec.program().of_any_command());
        let programs: Vec<ProgramKey> = programs.collect();
        let mut same = [programs.clone(), state.programs.clone()];
        same.iter_mut().for_each(|programs| programs.sort());
        state.programs = programs;
        if same[0] == same[1] && self.rules.parts.recalls() {
            return;
        }
        let known = state.mixes.find(&state.programs);
        let known = known.filter(|_| self.rules.parts.recalls());
        let known_before = known.is_some();
        let (references, stage) = match known {
            Some((references, stage)) => (references, stage),
            None => (vec![None; state.programs.len()], Stage::Dividing),
        };
        state.inspected = known_before;
        state.together_s = 0.0;
        state.stage = stage;
        for (learner, reference) in state.learners.iter_mut().zip(references) {
            learner.join(reference);
        }
    }

    /// Whether those that run, all known where they are, are to be measured under the static fair share:
    /// not where all leave so much of their fair share idle that the result would not count.
    fn is_to_inspect(&self, candidates: &[Candidate], region: u32) -> bool {
        let state = &self.state;
        let counts = |(learner, candidate): (&Learner, &Candidate)| {
            let fair = candidate.owed.fair;
            let split = learner.split();
            let busy = split.points.iter().find(|p| p.cpus == fair);
            busy.is_none_or(|p| p.width * self.rules.expected.headroom >= f64::from(fair))
        };
        if !state.learners.iter().zip(candidates).any(counts) {
            return false;
        }
        self.rules.parts.refers()
            // Where all CPUs share a cache, a count is as good anywhere.
            && region < state.usable
            && !state.inspected
            && state.programs.len() > 1
            && state.together_s >= self.rules.reference_after_s
    }

    /// Keeps the results under the static fair share.
    fn keep_references(&mut self) {
        let state = &mut self.state;
        state.inspected = true;
        let references: Vec<Option<RatePoint>> = state
            .learners
            .iter()
            .map(|learner| learner.split().reference)
            .collect();
        state.mixes.keep(&state.programs, &references, state.stage);
    }

    /// Ingests the interval that has ended.
    fn observe(&mut self, snapshot: &Snapshot<'_>) {
        let state = &mut self.state;
        let seconds = state.read_ns.map_or(ASSUMED_S, |at| {
            (snapshot.now_ns.saturating_sub(at) as f64 / 1e9).min(LONGEST_S)
        });
        state.read_ns = Some(snapshot.now_ns);
        state.together_s += seconds;
        state.caution =
            1.0 + (state.caution - 1.0).max(0.0) * (1.0 - self.rules.calming_per_s).powf(seconds);
        let learners = state.learners.iter_mut().zip(snapshot.apps);
        for ((learner, app), owed) in learners.zip(&state.entitled) {
            learner.rests_s -= seconds;
            // What it lends or is lent in a serial phase is no fair share.
            if state.stage.is_fair() && learner.cpus != owed.fair {
                continue;
            }
            learner.observe(app, seconds, placed(state.stage), &self.rules);
        }
    }

    /// CPUs of a region, if the program's threads are to be on one node once it has no more than that.
    fn together_within(&self, learner: &Learner, split: &Split, region: u32) -> Option<u32> {
        // With some waiting, nearness helps only where they need no more CPUs.
        let few = split
            .points
            .last()
            .is_some_and(|p| p.width * self.rules.expected.headroom <= f64::from(region));
        let near = match learner.company {
            Company::Indifferent => false,
            Company::Near => few,
            Company::Together => true,
        };
        Some(region).filter(|_| near && self.rules.parts.brings_together())
    }

    /// The outlook of a program whose threads are to be in a region of so many CPUs, or anywhere.
    fn outlook(&self, split: &Split, region: Option<u32>) -> Option<Outlook> {
        let hints = Hints {
            together_within: region,
            law: self.rules.parts.law(),
        };
        Outlook::new(split, hints, &self.rules.expected)
    }

    /// The counts to have, with the reasons noted; `None` when every application stays.
    fn choose(
        &mut self,
        plan: &Plan<'_>,
        lent: impl FnOnce() -> Vec<u32>,
        notes: &mut [Note],
    ) -> Option<Vec<u32>> {
        let best = plan.best()?;
        if plan
            .reference()
            .is_some_and(|fair| fair > plan.value(&best) + self.rules.falls_for)
        {
            self.state.stage = Stage::Fallen;
            return Some(lent());
        }
        let gain = plan.gain(&best);
        // A trial that shows nothing ends.
        let tried = std::mem::take(&mut self.state.trying);
        if gain <= self.rules.gain * self.state.caution && !tried || best == plan.now() {
            return None;
        }
        if !tried {
            self.state.caution *= self.rules.caution;
        }
        for ((note, candidate), &to) in notes.iter_mut().zip(plan.candidates).zip(&best) {
            if let (Some(outlook), true) = (&candidate.outlook, to != candidate.now) {
                let own = outlook.ln_speed(to) - outlook.ln_speed(candidate.now);
                note.reasons.push(Reason::Model {
                    rule: format!(
                        "the best division of all: {:+.1} % is expected of it",
                        100.0 * own.exp_m1()
                    ),
                });
            }
        }
        Some(best)
    }

    /// A trial, where it may be worth it: CPUs go from one application to one other, so that none is left idle, as
    /// towards the division that would be best if one of them scaled as well as may be.
    fn explore(&mut self, plan: &Plan<'_>, notes: &mut [Note]) -> Option<Vec<u32>> {
        let least = plan.value(&plan.now()) + (HOPED * self.config.threshold).ln_1p();
        // One that is faster with fewer CPUs is tried with fewer still at once.
        let falls = |place: usize| {
            let outlook = plan.candidates[place].outlook.as_ref();
            outlook.is_some_and(Outlook::falls)
        };
        let rested = |place: &usize| self.state.learners.at(*place).rests_s <= 0.0 || falls(*place);
        let hopes = (0..notes.len()).filter(rested);
        let hopes = hopes.filter_map(|place| plan.hope(place));
        let hope = hopes.max_by(|a, b| a.value.total_cmp(&b.value))?;
        let worthwhile = Some(hope).filter(|hope| hope.value > least);
        let transfer = plan.towards(worthwhile?)?;
        self.state.trying = true;
        let least_s = self.config.reexplore_every.map_or(0.0, f64::from);
        self.state.learners.at_mut(hope.place).begin_trial(least_s);
        let mut counts = plan.now();
        for (place, to) in [
            (transfer.giver, counts[transfer.giver] - transfer.cpus),
            (transfer.taker, counts[transfer.taker] + transfer.cpus),
        ] {
            notes[place].reasons.push(Reason::Exploring {
                from: counts[place],
                to,
                bottleneck: Bottleneck::None,
            });
            counts[place] = to;
        }
        Some(counts)
    }
}

/// The fair shares; of one in a serial phase, others have what it does not need, as far as they can use it.
fn fair_shares(snapshot: &Snapshot<'_>, entitled: &[Entitlement]) -> Vec<u32> {
    let fair = entitled.iter().map(|owed| owed.fair);
    let is_serial = |app: &AppView<'_>| !app.profile.serial_phase.is_none();
    if !snapshot.apps.iter().any(is_serial) {
        return fair.collect();
    }
    let claims = snapshot.apps.iter().zip(entitled).map(|(app, owed)| {
        let serial = is_serial(app) && !owed.fixed;
        let (min, max) = match serial {
            true => (least(owed), least(owed)),
            false => (owed.fair, owed.max),
        };
        let weight = owed.weight;
        Claim { weight, min, max }
    });
    let mut shares = shares::bounded_shares(snapshot.usable.len(), &claims.collect::<Vec<Claim>>());
    let given = shares
        .iter()
        .fold(0_u32, |sum, share| sum.saturating_add(*share));
    let mut left = snapshot.usable.len().saturating_sub(given);
    for (share, owed) in shares.iter_mut().zip(entitled) {
        let back = left.min(owed.fair.saturating_sub(*share));
        *share += back;
        left -= back;
    }
    shares
}

/// The fewest CPUs that it is to have whatever it says.
fn least(owed: &Entitlement) -> u32 {
    owed.min.min(owed.fair).max(1)
}

/// The CPUs that an application says it needs, if fewer than it holds would do.
fn needs(app: &AppView<'_>, owed: &Entitlement, held: u32) -> Option<u32> {
    let least = least(owed);
    match (app.profile.serial_phase, app.profile.spare_cpus) {
        (SerialPhase::Open, _) => Some(least),
        (SerialPhase::None, Some(spare)) if spare > 0 && held > least => {
            Some(held.saturating_sub(spare).max(least))
        }
        (SerialPhase::None, _) => None,
    }
}

/// The promised share of its speed at the fair share, in the unit of its performance: from the count that was measured
/// most, by what is expected of the fair one; while nothing is expected yet, from what was measured at the fair one.
fn floor(app: &AppView<'_>, candidate: &Candidate) -> Option<f64> {
    let Some(outlook) = &candidate.outlook else {
        let fair = app.profile.curve.at(candidate.owed.fair)?;
        return Some(app.spec.qos.get() * fair.mean);
    };
    let points = app.profile.curve.points().iter();
    let surest = points.max_by(|a, b| a.samples.total_cmp(&b.samples))?;
    let fair = candidate
        .ln_reference
        .unwrap_or_else(|| outlook.ln_speed(candidate.owed.fair));
    let of_fair = (fair - outlook.ln_speed(surest.cpus)).exp();
    let floor = app.spec.qos.get() * surest.mean * of_fair;
    Some(floor).filter(|floor| floor.is_finite())
}

/// How the CPUs are placed in a stage.
const fn placed(stage: Stage) -> Placed {
    if stage.is_fair() {
        Placed::AsFair
    } else {
        Placed::Usually
    }
}

impl AllocationPolicy for MapperNext {
    fn name(&self) -> &'static str {
        NAME
    }

    fn expected(&self, program: KnownProgram, cpus: u32) -> Option<Vec<f64>> {
        let split = match program {
            KnownProgram::Running(app) => {
                let place = self.state.learners.place_of(app)?;
                self.state.learners.at(place).split()
            }
            KnownProgram::Ended(build) => {
                let program = ProgramKey::Build(build);
                let earlier = self.state.earlier.iter().find(|e| e.program == program);
                earlier?.split.clone()
            }
        };
        // From one count alone, the others would be what is expected of any program.
        let outlook = self
            .outlook(&split, None)
            .filter(|_| split.points.len() > 1)?;
        Some(
            (1..=cpus)
                .map(|cpus| outlook.ln_speed(cpus).exp())
                .collect(),
        )
    }

    fn allocate(&mut self, snapshot: &Snapshot<'_>) -> Allocation {
        if !accounting::fits(snapshot) {
            self.state = State {
                earlier: std::mem::take(&mut self.state.earlier),
                ..State::default()
            };
            return accounting::pool(snapshot);
        }
        let came_or_went = self.sync(snapshot);
        let entitled = entitlement::entitlements(snapshot, self.config.min_cpus);
        let mut accounts = CpuAccounting::open(snapshot);
        let usable = snapshot.usable.len();
        let learners = self.state.learners.iter().enumerate();
        let moved = learners.fold(false, |any, (place, learner)| {
            any || learner.cpus != accounts.count(place)
        });
        // The count before a serial phase that has begun or ended.
        let learners = self.state.learners.iter_mut().zip(snapshot.apps);
        let turns: Vec<Option<u32>> = learners
            .map(|(learner, app)| learner.follow(app.profile.serial_phase))
            .collect();
        let turned = turns.iter().any(Option::is_some);
        let changed = came_or_went
            || moved
            || turned
            || self.state.usable != usable
            || self.state.entitled != entitled;
        self.state.usable = usable;
        self.state.entitled.clone_from(&entitled);
        if changed {
            self.state.caution = 1.0;
            self.state.trying = false;
        }
        if snapshot.trigger == Trigger::Interval {
            self.observe(snapshot);
        }

        let region = regions::size(snapshot);
        let mut knowledge = Vec::with_capacity(entitled.len());
        let mut candidates = Vec::with_capacity(entitled.len());
        let mut together_within = Vec::with_capacity(entitled.len());
        for (place, (learner, app)) in self.state.learners.iter().zip(snapshot.apps).enumerate() {
            let split = learner.split();
            let together = self.together_within(learner, &split, region);
            together_within.push(together);
            let outlook = self.outlook(&split, together);
            let reference = split
                .reference
                .filter(|p| p.cpus == entitled[place].fair && self.rules.parts.refers())
                .filter(|p| p.width * self.rules.expected.headroom >= f64::from(p.cpus));
            let ln_reference = outlook
                .as_ref()
                .zip(reference)
                .map(|(outlook, p)| outlook.ln_speed_at(p.rate));
            let margin = match app.profile.bottleneck {
                Bottleneck::None | Bottleneck::Compute if learner.reports_progress() => {
                    self.rules.margin
                }
                _ => self.rules.doubtful_margin,
            };
            let mut owed = entitled[place];
            if learner.may_turn_parallel() {
                // Nothing would tell that its promise is broken, so it keeps that share of its CPUs.
                let kept = (app.spec.qos.get() * f64::from(owed.fair)).ceil() as u32;
                owed.min = owed.min.max(kept.min(owed.max));
            }
            let candidate = Candidate {
                outlook,
                ln_reference,
                needs: needs(app, &entitled[place], accounts.count(place)),
                owed,
                now: accounts.count(place),
                ln_promise: (app.spec.qos.get().ln() + margin).min(0.0),
                ln_kept: (app.spec.qos.get().ln() + 0.5 * margin).min(0.0),
            };
            // One that is idle, or says what it needs, is not waited for.
            let idle = app.profile.activity == Activity::Idle;
            knowledge.push(
                if candidate.owed.fixed || idle || candidate.needs.is_some() {
                    Knowledge::Known
                } else {
                    learner.knowledge(&split, placed(self.state.stage), &self.rules)
                },
            );
            candidates.push(candidate);
        }
        let ready = knowledge.iter().all(|k| *k == Knowledge::Known);

        let ended = |app: &AppView<'_>, had: Option<u32>| {
            let had = had.filter(|_| app.profile.serial_phase.is_none())?;
            Some(Reason::SerialPhaseEnded { had })
        };
        let mut notes: Vec<Note> = candidates
            .iter()
            .zip(snapshot.apps)
            .zip(turns)
            .map(|((candidate, app), had)| Note {
                fair: candidate.owed.fair,
                reasons: accounting::begin(app, candidate.owed.fair, usable)
                    .into_iter()
                    .chain(ended(app, had))
                    .collect(),
                ..Note::default()
            })
            .collect();
        let plan = Plan {
            cpus: usable,
            candidates: &candidates,
            dividing: self.rules.parts.dividing(),
        };
        let before = self.state.stage;
        let fair = || entitled.iter().map(|e| e.fair).collect::<Vec<u32>>();
        let lent = || fair_shares(snapshot, &entitled);
        let decides = ready && snapshot.trigger == Trigger::Interval;
        let targets = if changed {
            Some(match before {
                Stage::Dividing => plan.best().unwrap_or_else(fair),
                Stage::Reference => fair(),
                Stage::Fallen => lent(),
            })
        } else if decides && before == Stage::Dividing && self.is_to_inspect(&candidates, region) {
            self.state.stage = Stage::Reference;
            Some(fair())
        } else if decides && before == Stage::Reference {
            self.state.stage = Stage::Dividing;
            Some(plan.best().unwrap_or_else(fair))
        } else if decides && before == Stage::Dividing {
            self.choose(&plan, lent, &mut notes)
                .or_else(|| self.explore(&plan, &mut notes))
        } else {
            None
        };
        let stage = self.state.stage;
        if before != stage {
            self.state.learners.iter_mut().for_each(Learner::begin);
            if stage != Stage::Reference {
                self.keep_references();
            }
        }
        if let Some(targets) = targets {
            accounts.settle(&targets);
            accounts.explain_transfers(&mut notes);
        }

        let wants: Vec<Option<u32>> = together_within
            .iter()
            .enumerate()
            .map(|(place, together)| {
                let count = accounts.count(place);
                together
                    .filter(|region| count <= *region && !stage.is_fair())
                    .map(|_| count)
            })
            .collect();
        let nodes = regions::nodes(snapshot, &wants);
        for (place, (note, by_node)) in notes.iter_mut().zip(nodes).enumerate() {
            let count = accounts.count(place);
            let learner = self.state.learners.at_mut(place);
            learner.decide(count);
            note.by_node = by_node;
            let tries = |r: &Reason| matches!(r, Reason::Exploring { .. });
            note.state = match knowledge[place] {
                _ if note.reasons.iter().any(tries) => "exploring",
                Knowledge::Measuring if self.state.trying => "exploring",
                Knowledge::Known => "steady",
                Knowledge::Measuring => "measuring",
            };
            let needs = candidates[place].needs;
            note.spare = needs.map_or(0, |needs| count.saturating_sub(needs));
            note.floor = floor(&snapshot.apps[place], &candidates[place]);
            if let Some(outlook) = &candidates[place].outlook {
                let fair = outlook.ln_speed(candidates[place].owed.fair);
                note.norm_eff =
                    Some((outlook.ln_speed(count) - fair).exp()).filter(|ratio| ratio.is_finite());
            }
            let app = &snapshot.apps[place];
            if app.held.len() != count {
                note.reasons.extend(accounting::own_limit(app, count));
            }
            if note.reasons.is_empty() {
                note.reasons.push(match knowledge[place] {
                    _ if candidates[place].owed.fixed => Reason::NeverResized,
                    Knowledge::Known => Reason::Steady,
                    Knowledge::Measuring => Reason::Measuring {
                        done: learner.here,
                        wanted: self.config.initial_intervals,
                    },
                });
            }
        }
        Allocation {
            placing: match (before.is_fair(), stage.is_fair()) {
                (_, false) => Placing::Policy,
                (true, true) => Placing::FairShare,
                (false, true) => Placing::FairShareAfresh,
            },
            ..accounts.close(notes)
        }
    }

    fn save(&self) -> PolicyState {
        PolicyState::of(NAME, &self.state)
    }

    fn restore(&mut self, state: &PolicyState) -> Result<(), RestoreError> {
        self.state = state.read(NAME)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::{AppName, BuildKey};

    #[test]
    fn what_is_expected_of_programs_that_left_is_known_by_their_build_alone() {
        let mut policy = MapperNext::new(AllocationConfig::default());
        let key = |build| BuildKey { build, command: 1 };
        let split = |serial| Split::of(&[(2, 2.0), (4, 4.0)], 0.0, serial);
        let named = ProgramKey::Name(AppName::new("named").unwrap());
        policy.state.earlier = vec![
            Earlier::of(ProgramKey::Build(key(1)), split(0.0)),
            Earlier::of(ProgramKey::Build(key(2)), split(10.0)),
            Earlier::of(named, split(0.0)),
            Earlier::of(ProgramKey::Build(key(4)), Split::of(&[(4, 4.0)], 0.0, 0.0)),
        ];
        let of_all = |build| {
            let speeds = policy.expected(KnownProgram::Ended(key(build)), 8).unwrap();
            assert!(speeds.len() == 8 && speeds.is_sorted(), "{speeds:?}");
            speeds[0] / speeds[7]
        };
        assert!(of_all(1) < 0.3 && of_all(2) > 0.9);
        for unknown in [3, 4] {
            assert_eq!(policy.expected(KnownProgram::Ended(key(unknown)), 8), None);
        }
        assert_eq!(policy.expected(KnownProgram::Running(AppId(1)), 8), None);
    }
}
