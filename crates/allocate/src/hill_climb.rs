//! Hill climbing: each application seeks its own best count by trying, whatever its bottleneck and the
//! efficiency of others [MAPPER §4.3].
//!
//! From its fair share an application tries a few CPUs more, if there are free ones, else fewer; a count
//! that is better by the threshold is kept and the search goes on the same way, any other is undone and the
//! other way is tried; at a peak it rests, until it is perturbed ([`AllocationConfig::reexplore_at_random`]
//! as in the paper, [`AllocationConfig::reexplore_every`]).
//!
//! Growth takes only free CPUs. CPUs beyond its fair share go back when another application is owed them.

use crate::accounting::{self, CpuAccounting, Note};
use crate::config::{Acceptance, AllocationConfig};
use crate::efficiency::evidence::{self, SampledTrial, TestRules};
use crate::efficiency::exploration::{self, Direction, PlainTrial, Reference, Verdict};
use crate::efficiency::membership;
use crate::efficiency::stealing::Bidder;
use crate::entitlement::Entitlement;
use crate::opening::{self, Opening, Remembered, Situation};
use crate::policy::{AllocationPolicy, PolicyState, RestoreError};
use crate::table::AppTable;
use mapper_model::{
    Allocation, AppView, Bottleneck, Estimate, PhaseChange, Reason, Snapshot, Trigger,
};
use serde::{Deserialize, Serialize};

/// The name it is selected by.
pub const NAME: &str = "hill_climb";
/// The name by which it is selected with the rules as printed.
pub const PAPER_NAME: &str = "hill_climb-paper";

/// How a count is found to be better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comparison {
    /// By a sequential test.
    Test,
    /// By the mean of the last two samples [MAPPER §3.3].
    AsPrinted,
}

/// The policy.
#[derive(Clone, Debug)]
pub struct HillClimb {
    config: AllocationConfig,
    comparison: Comparison,
    state: State,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct State {
    climbers: AppTable<Climber>,
    usable: u32,
    entitled: Vec<Entitlement>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Climber {
    cpus: u32,
    epoch: u64,
    mode: Mode,
    heading: Direction,
    /// More CPUs are known to bring nothing; fewer are.
    up_in_vain: bool,
    down_in_vain: bool,
    /// Samples at the present count.
    here: Estimate,
    rested: u32,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Measuring,
    Trying {
        before: Reference,
    },
    Resting,
}

impl Remembered for Climber {
    fn newcomer() -> Self {
        Self {
            heading: Direction::More,
            ..Self::default()
        }
    }

    fn decided(&self) -> u32 {
        self.cpus
    }
}

impl Climber {
    /// Begins to be measured, as for the first time.
    fn start_over(&mut self) {
        self.mode = Mode::Measuring;
        self.here = Estimate::default();
        self.forget();
    }

    /// Both ways may be tried again.
    fn forget(&mut self) {
        self.heading = Direction::More;
        self.up_in_vain = false;
        self.down_in_vain = false;
    }

    /// The way to try next, given whether there are CPUs to grow by; `Stay` at a peak.
    fn next_heading(&self, can_grow: bool) -> Direction {
        let up = can_grow && !self.up_in_vain;
        match (up, !self.down_in_vain) {
            (true, true) => self.heading,
            (true, false) => Direction::More,
            (false, true) => Direction::Fewer,
            (false, false) => Direction::Stay,
        }
    }
}

impl HillClimb {
    /// A policy that has decided nothing yet.
    pub fn new(config: AllocationConfig) -> Self {
        Self {
            config,
            comparison: Comparison::Test,
            state: State::default(),
        }
    }

    /// The same with the rules as printed.
    pub fn as_printed(config: AllocationConfig) -> Self {
        Self {
            comparison: Comparison::AsPrinted,
            ..Self::new(config.with_published())
        }
    }

    fn resolve_membership(
        &mut self,
        snapshot: &Snapshot<'_>,
        accounts: &mut CpuAccounting,
        entitled: &[Entitlement],
        notes: &mut [Note],
    ) {
        for (place, owed) in entitled.iter().enumerate() {
            let begin = accounting::begin(&snapshot.apps[place], owed.fair, snapshot.usable.len());
            notes[place].reasons.extend(begin);
            let app = &snapshot.apps[place];
            let limited = membership::cut_to_limit(accounts, place, app, owed.max);
            notes[place].reasons.extend(limited);
        }
        let bidders: Vec<Bidder> = entitled
            .iter()
            .enumerate()
            .map(|(place, owed)| Bidder {
                cur: accounts.count(place),
                fair: owed.fair,
                want: owed.fair.saturating_sub(accounts.count(place)),
                ..Bidder::default()
            })
            .collect();
        let newcomers: Vec<bool> = (0..bidders.len())
            .map(|place| accounts.before(place) == 0)
            .collect();
        membership::reclaim(
            accounts,
            snapshot.apps,
            &bidders,
            |place| newcomers[place],
            |place, reason| notes[place].reasons.push(reason),
        );
        for (place, climber) in self.state.climbers.iter_mut().enumerate() {
            if accounts.count(place) != climber.cpus {
                climber.start_over();
            }
        }
    }

    fn judge(
        &mut self,
        place: usize,
        app: &AppView<'_>,
        accounts: &mut CpuAccounting,
        note: &mut Note,
    ) {
        let cpus = accounts.count(place);
        let climber = self.state.climbers.at_mut(place);
        let Mode::Trying { before } = climber.mode.clone() else {
            return;
        };
        let curve = &app.profile.curve;
        let Acceptance::Welch {
            confidence,
            max_samples,
        } = self.config.acceptance;
        let judged = match self.comparison {
            Comparison::AsPrinted => exploration::judge_plain(&PlainTrial {
                prev_cpus: before.cpus,
                prev_perf: before.estimate.mean,
                cpus,
                perf: climber.here.mean,
                best: f64::INFINITY,
                min_guaranteed: None,
                threshold: self.config.threshold,
            }),
            Comparison::Test => evidence::judge_significant(
                &SampledTrial {
                    before,
                    fit: None,
                    tried: Reference {
                        cpus,
                        estimate: climber.here,
                    },
                    // It seeks the best count, not the smallest good one.
                    best: f64::INFINITY,
                    best_error: 0.0,
                    min_guaranteed: None,
                },
                curve.noise(),
                &TestRules {
                    threshold: self.config.threshold,
                    confidence,
                    max_samples,
                },
            ),
        };
        let gain = judged.gain;
        match judged.verdict {
            Verdict::Undecided => note.reasons.push(Reason::Undecided { gain }),
            Verdict::Continue | Verdict::Keep => {
                climber.mode = Mode::Resting;
                // The other way was just found to be worse.
                climber.up_in_vain = cpus < before.cpus;
                climber.down_in_vain = cpus > before.cpus;
                note.reasons.push(Reason::Kept { gain });
            }
            Verdict::Revert => {
                climber.mode = Mode::Resting;
                if cpus > before.cpus {
                    climber.up_in_vain = true;
                } else {
                    climber.down_in_vain = true;
                }
                climber.here = Estimate::default();
                let from = before.cpus;
                accounts.resize(place, from);
                note.reasons.push(Reason::Returned { to: from, gain });
            }
        }
    }

    /// CPUs that those which try fewer may need back.
    fn reserved(&self, accounts: &CpuAccounting) -> u32 {
        self.state
            .climbers
            .iter()
            .enumerate()
            .map(|(place, climber)| match climber.mode {
                Mode::Trying { before } => before.cpus.saturating_sub(accounts.count(place)),
                Mode::Measuring | Mode::Resting => 0,
            })
            .sum()
    }

    fn try_next(
        &mut self,
        place: usize,
        snapshot: &Snapshot<'_>,
        owed: &Entitlement,
        accounts: &mut CpuAccounting,
        note: &mut Note,
    ) {
        let app = &snapshot.apps[place];
        let free = accounts.free().saturating_sub(self.reserved(accounts));
        let cpus = accounts.count(place);
        let period = self.config.reexplore_every;
        let can_grow = free > 0 && cpus < owed.max;
        let step = self.config.step_for(snapshot.usable.len(), owed.fair);
        let climber = self.state.climbers.at_mut(place);
        if climber.mode != Mode::Resting || owed.fixed {
            return;
        }
        climber.rested += 1;
        let at_peak = climber.next_heading(can_grow) == Direction::Stay;
        let at_random = self.config.reexplore_at_random;
        if at_peak && at_random.is_some_and(|chance| chance.happens(app.app, snapshot))
            || period.is_some_and(|p| climber.rested >= p.max(1))
            || app.profile.phase != PhaseChange::Same
        {
            climber.forget();
            climber.rested = 0;
        }
        let heading = climber.next_heading(can_grow);
        let target = match heading {
            Direction::More => (cpus + step.min(free)).min(owed.max),
            Direction::Fewer => cpus.saturating_sub(step).max(owed.min).min(cpus),
            Direction::Stay => cpus,
        };
        let Some(point) = app.profile.curve.at(cpus).filter(|_| target != cpus) else {
            return;
        };
        let before = Reference {
            cpus,
            estimate: match self.comparison {
                Comparison::AsPrinted => Estimate {
                    mean: point.perf,
                    samples: 2.0,
                },
                Comparison::Test => point.estimate(),
            },
        };
        climber.heading = heading;
        climber.mode = Mode::Trying { before };
        climber.here = Estimate::default();
        climber.rested = 0;
        accounts.resize(place, target);
        note.reasons.push(Reason::Exploring {
            from: cpus,
            to: target,
            bottleneck: Bottleneck::None,
        });
    }

    /// Ingests the sample of an interval. Returns it, if there was one.
    fn ingest(&mut self, place: usize, app: &AppView<'_>, cpus: u32) -> Option<f64> {
        let profile = app.profile;
        let climber = self.state.climbers.at_mut(place);
        if profile.epoch != climber.epoch {
            climber.epoch = profile.epoch;
            climber.start_over();
        }
        let sample = profile
            .performance
            .filter(|_| profile.measured_cpus == cpus)?
            .value;
        climber.here.add(sample);
        if climber.mode == Mode::Measuring
            && climber.here.samples >= f64::from(self.config.initial_intervals)
        {
            climber.mode = Mode::Resting;
        }
        Some(sample)
    }
}

impl AllocationPolicy for HillClimb {
    fn name(&self) -> &'static str {
        match self.comparison {
            Comparison::Test => NAME,
            Comparison::AsPrinted => PAPER_NAME,
        }
    }

    fn allocate(&mut self, snapshot: &Snapshot<'_>) -> Allocation {
        if !accounting::fits(snapshot) {
            self.state = State::default();
            return accounting::pool(snapshot);
        }
        let Opening {
            entitled,
            mut accounts,
            mut notes,
            situation,
        } = opening::open(
            snapshot,
            self.config.min_cpus,
            &mut self.state.climbers,
            &mut self.state.entitled,
            &mut self.state.usable,
        );
        let interval = snapshot.trigger == Trigger::Interval;
        let mut sampled = vec![false; notes.len()];
        if interval {
            for (place, app) in snapshot.apps.iter().enumerate() {
                sampled[place] = self.ingest(place, app, accounts.count(place)).is_some();
            }
        }
        if situation == Situation::Changed {
            // A trial that was under way is over.
            for place in 0..notes.len() {
                let climber = self.state.climbers.at_mut(place);
                if matches!(climber.mode, Mode::Trying { .. }) {
                    climber.start_over();
                }
            }
            self.resolve_membership(snapshot, &mut accounts, &entitled, &mut notes);
        } else if interval {
            for (place, app) in snapshot.apps.iter().enumerate() {
                if sampled[place] {
                    self.judge(place, app, &mut accounts, &mut notes[place]);
                }
            }
            for place in 0..notes.len() {
                if sampled[place] && notes[place].reasons.is_empty() {
                    let (owed, note) = (&entitled[place], &mut notes[place]);
                    self.try_next(place, snapshot, owed, &mut accounts, note);
                }
            }
        }
        for (place, note) in notes.iter_mut().enumerate() {
            let climber = self.state.climbers.at_mut(place);
            climber.cpus = accounts.count(place);
            note.state = match climber.mode {
                Mode::Measuring => "measuring",
                Mode::Trying { .. } => "exploring",
                Mode::Resting => "steady",
            };
            if note.reasons.is_empty() {
                note.reasons.push(match climber.mode {
                    Mode::Measuring => Reason::Measuring {
                        done: climber.here.samples as u32,
                        wanted: self.config.initial_intervals,
                    },
                    Mode::Trying { .. } | Mode::Resting => Reason::Steady,
                });
            }
        }
        accounts.close(notes)
    }

    fn save(&self) -> PolicyState {
        PolicyState::of(self.name(), &self.state)
    }

    fn restore(&mut self, state: &PolicyState) -> Result<(), RestoreError> {
        self.state = state.read(self.name())?;
        Ok(())
    }
}
