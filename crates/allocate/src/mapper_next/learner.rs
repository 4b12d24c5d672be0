//! What is learned of one application while it runs, and kept after it has left.

use super::outlook::{Expectations, Hints, Outlook};
use super::rules::Rules;
use super::tally::{Interval, LEAST_SHARE, Placed, RatePoint, Split, Tallies};
use mapper_model::{AppView, PerformanceSource, ProgramKey, SerialPhase, SharingClass};
use serde::{Deserialize, Serialize};

/// Busy CPUs from which a program has shown its parallel part.
const PARALLEL: f64 = 1.1;
/// Seconds after which a program that showed none has no parallel part.
const SERIAL_S: f64 = 3.0;
/// Seconds of parallel work from which a rate of this life replaces the earlier one.
const OWN_S: f64 = 0.5;
/// Seconds of this life that weigh as much as the earlier one for the mix of serial and parallel.
const EARLIER_S: f64 = 8.0;

/// Seconds between the first two trials of a program, and how often they are tripled.
const FIRST_REST_S: f64 = 10.0;
const LONGEST_REST: i32 = 5;

/// How much the threads of a program wait for each other's data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Company {
    /// Not, as far as is known.
    #[default]
    Indifferent,
    /// Some [SAM-MPH §3]: near each other where that costs no CPU they need.
    Near,
    /// Much: in one region.
    Together,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Earlier {
    #[serde(alias = "name")]
    pub(crate) program: ProgramKey,
    source: PerformanceSource,
    pub(crate) split: Split,
    company: Company,
}

#[cfg(test)]
impl Earlier {
    pub(crate) const fn of(program: ProgramKey, split: Split) -> Self {
        Self {
            program,
            source: PerformanceSource::Reported,
            split,
            company: Company::Indifferent,
        }
    }
}

/// What is learned of one application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Learner {
    #[serde(alias = "name")]
    program: Option<ProgramKey>,
    pub(crate) cpus: u32,
    /// Intervals and seconds measured there since.
    pub(crate) here: u32,
    here_s: f64,
    /// The epoch of its samples.
    epoch: Option<u64>,
    source: Option<PerformanceSource>,
    tallies: Tallies,
    earlier: Option<Split>,
    /// Its rate under the static fair share when the same programs ran together before.
    recalled: Option<RatePoint>,
    pub(crate) company: Company,
    /// The first interval with another mix of serial and parallel than all before.
    strange: Option<Interval>,
    /// Trials of it since it came or changed, and the seconds until the next one.
    trials: i32,
    pub(crate) rests_s: f64,
    /// The CPUs that it had before the serial phase that it reports.
    before_serial: Option<u32>,
}

/// How well the present count is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Knowledge {
    Measuring,
    Known,
}

impl Learner {
    /// Meets an application and recalls the last run of the same program: of those with the same command, if there are.
    pub(crate) fn meet(&mut self, app: &AppView<'_>, earlier: &[Earlier]) {
        if self.program.is_some() {
            return;
        }
        let program = app.spec.program();
        let same_command = earlier.iter().find(|e| e.program == program);
        let same_program = |e: &&Earlier| e.program.is_same_program(&program);
        let known = same_command.or_else(|| earlier.iter().rev().find(same_program));
        self.program = Some(program);
        if let Some(known) = known {
            self.recalled = known.split.reference;
            self.earlier = Some(known.split.clone());
            self.source = Some(known.source);
            self.company = known.company;
        }
    }

    /// What is kept when it has left, if anything is known.
    pub(crate) fn leave(&self) -> Option<Earlier> {
        let split = self.split();
        if split.points.is_empty() {
            return None;
        }
        Some(Earlier {
            program: self.program.clone()?,
            source: self.source?,
            split,
            company: self.company,
        })
    }

    pub(crate) fn decide(&mut self, cpus: u32) {
        if self.cpus != cpus {
            self.cpus = cpus;
            self.begin();
        }
    }

    /// Follows the serial phases that it reports; returns the count before one that has just begun or ended.
    pub(crate) fn follow(&mut self, phase: SerialPhase) -> Option<u32> {
        match (phase, self.before_serial) {
            (SerialPhase::Open, None) => {
                self.before_serial = Some(self.cpus);
                self.before_serial
            }
            (SerialPhase::None, Some(_)) => self.before_serial.take(),
            _ => None,
        }
    }

    /// Is tried: each further trial comes after three times the time, and no earlier than this.
    pub(crate) fn begin_trial(&mut self, least_s: f64) {
        let rest_s = FIRST_REST_S * 3.0_f64.powi(self.trials.min(LONGEST_REST));
        self.rests_s = rest_s.max(least_s);
        self.trials += 1;
    }

    /// Its CPUs are others from now on.
    pub(crate) fn begin(&mut self) {
        self.here = 0;
        self.here_s = 0.0;
    }

    /// Runs beside others than before, with whom it had this rate under the static fair share.
    pub(crate) fn join(&mut self, reference: Option<RatePoint>) {
        self.tallies.forget_reference();
        self.recalled = reference;
    }

    /// Ingests the sample of an interval of this length, if there is one.
    pub(crate) fn observe(
        &mut self,
        app: &AppView<'_>,
        seconds: f64,
        placed: Placed,
        rules: &Rules,
    ) {
        let profile = app.profile;
        self.company = self.company.max(match profile.class {
            SharingClass::Low => Company::Indifferent,
            SharingClass::Medium => Company::Near,
            SharingClass::High => Company::Together,
        });
        let Some(performance) = profile.performance else {
            return;
        };
        let epoch = self.epoch.replace(profile.epoch);
        let source = self.source.replace(performance.source);
        if epoch.is_some_and(|e| e != profile.epoch)
            || source.is_some_and(|s| s != performance.source)
        {
            // Values of another unit, or of another performance.
            self.tallies = Tallies::default();
            self.earlier = None;
            self.recalled = None;
            self.begin();
        }
        if profile.measured_cpus != self.cpus {
            return;
        }
        let usable = match profile.rates {
            Some(rates) if rates.active_threads > 0 => self.cpus.min(rates.active_threads),
            _ => self.cpus,
        };
        let used = profile.utilisation.map(|used| used * f64::from(self.cpus));
        // Threads that wait actively for the next region use CPUs, too: the runtime tells.
        let in_regions = profile
            .parallel_share
            .map(|share| 1.0 + share * (f64::from(usable) - 1.0));
        let busy = match (used, in_regions) {
            (Some(used), Some(in_regions)) => Some(used.min(in_regions)),
            (used, in_regions) => used.or(in_regions),
        };
        let interval = Interval {
            cpus: self.cpus,
            performance: performance.value,
            busy: busy.filter(|_| rules.parts.splits()),
            usable,
            seconds,
        };
        // Under the static fair share it may run otherwise.
        if placed == Placed::Usually && self.tallies.is_strange(&interval) {
            let Some(first) = self.strange.take() else {
                self.strange = Some(interval);
                return;
            };
            // A new phase: what was measured before belongs to another one.
            self.tallies = Tallies::default();
            self.earlier = None;
            self.recalled = None;
            (self.trials, self.rests_s) = (0, 0.0);
            self.begin();
            self.ingest(first, placed, rules);
        }
        self.strange = None;
        self.ingest(interval, placed, rules);
    }

    fn ingest(&mut self, interval: Interval, placed: Placed, rules: &Rules) {
        self.here += 1;
        self.here_s += interval.seconds;
        let keep = rules.kept_per_s.powf(interval.seconds);
        self.tallies.add(interval, placed, keep);
    }

    /// What is known, its earlier life included.
    pub(crate) fn split(&self) -> Split {
        let mut own = self.tallies.split();
        // While one CPU is busy it may be in a serial part that has not ended: such counts do not show its
        // parallel rate, unless that has been so for long and everywhere.
        let parallel = |p: &RatePoint| p.width > PARALLEL || p.cpus == 1;
        let mut all = own.points.iter().chain(&own.reference);
        if all.any(parallel) || self.earlier.is_some() || self.tallies.seconds() < SERIAL_S {
            own.points.retain(parallel);
            own.reference = own.reference.filter(parallel);
        }
        let (mut split, scale) = match &self.earlier {
            None => (own, 1.0),
            Some(earlier) => together(own, earlier),
        };
        split.reference = split.reference.or(self.recalled.map(|p| RatePoint {
            rate: p.rate * scale,
            ..p
        }));
        split
    }

    /// Whether only the time without a parallel part says that it has none, and nothing would tell how fast one is that
    /// begins.
    pub(crate) fn may_turn_parallel(&self) -> bool {
        // Of many CPUs the least share counts as several.
        let least = |cpus: u32| 1.0 + 2.0 * LEAST_SHARE * (f64::from(cpus) - 1.0);
        let parallel = |p: &RatePoint| p.width > PARALLEL.max(least(p.cpus));
        let own = self.tallies.split();
        let lives = [Some(&own), self.earlier.as_ref()].into_iter().flatten();
        let shown = lives
            .flat_map(|life| life.points.iter().chain(&life.reference))
            .any(parallel);
        let tells = [PerformanceSource::Reported, PerformanceSource::Runtime];
        !shown && !self.source.is_some_and(|s| tells.contains(&s))
    }

    /// Whether its performance is progress that it or its runtime reports, and depends little on where it runs.
    pub(crate) fn reports_progress(&self) -> bool {
        let reported = [PerformanceSource::Reported, PerformanceSource::Runtime];
        self.company == Company::Indifferent && self.source.is_some_and(|s| reported.contains(&s))
    }

    /// How well the present count is known, given its [`Learner::split`].
    pub(crate) fn knowledge(&self, split: &Split, placed: Placed, rules: &Rules) -> Knowledge {
        if self.here_s >= rules.patience_s {
            return Knowledge::Known;
        }
        let here = match placed {
            Placed::AsFair => split.reference.as_ref(),
            Placed::Usually => split.points.iter().find(|p| p.cpus == self.cpus),
        };
        // With one CPU busy there is no rate, however long it takes.
        if here.is_none() && self.here_s >= SERIAL_S {
            return Knowledge::Known;
        }
        let known = here.is_some_and(|p| p.share_error <= rules.known);
        // One interval suffices where those at another count were all alike.
        let alike = |p: &RatePoint| p.error <= rules.alike && p.share_error <= rules.alike;
        if split.points.len() > 1 && here.is_some_and(alike) && placed == Placed::Usually {
            return Knowledge::Known;
        }
        let enough = match placed {
            Placed::AsFair => self.here_s >= rules.reference_s,
            Placed::Usually => self.here >= rules.seen && self.here_s >= rules.seen_s,
        };
        if known && enough {
            Knowledge::Known
        } else {
            Knowledge::Measuring
        }
    }
}

/// The rates of this life and, scaled to them, those of an earlier one at other counts; and that scale.
fn together(own: Split, earlier: &Split) -> (Split, f64) {
    let Some(shape) = Outlook::new(earlier, Hints::default(), &Expectations::default()) else {
        return (own, 1.0);
    };
    let new: Vec<RatePoint> = own
        .points
        .iter()
        .filter(|p| p.worked > OWN_S)
        .copied()
        .collect();
    let weight: f64 = new.iter().map(|p| p.worked).sum();
    if weight <= 0.0 {
        let reference = own.reference;
        let split = Split {
            reference,
            ..earlier.clone()
        };
        return (split, 1.0);
    }
    let off = |p: &RatePoint| p.worked * (p.rate.ln() - shape.ln_rate(p.cpus));
    let scale = (new.iter().map(off).sum::<f64>() / weight).exp();
    let is_new = |p: &&RatePoint| new.iter().any(|own| own.cpus == p.cpus);
    let old = earlier.points.iter().filter(|p| !is_new(p));
    let mut points: Vec<RatePoint> = old
        .map(|p| RatePoint {
            rate: p.rate * scale,
            ..*p
        })
        .chain(new.iter().copied())
        .collect();
    points.sort_by_key(|p| p.cpus);
    let share = weight / (weight + EARLIER_S);
    let merged = Split {
        points,
        reference: own.reference,
        serial_per_work: share * own.serial_per_work
            + (1.0 - share) * earlier.serial_per_work / scale,
    };
    if merged.is_sound() {
        (merged, scale)
    } else {
        (own, 1.0)
    }
}
