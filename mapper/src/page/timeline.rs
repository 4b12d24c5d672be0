//! What the programs had and how fast they were, over time.

use mapper_model::{AppId, CpuSet};
use std::collections::VecDeque;

/// Samples that a chart has at most: more than a screen shows.
const MOST_SAMPLES: usize = 600;
/// A promise counts as broken where the median of so many speeds is below it.
const JUDGED: usize = 3;

/// Samples in order of time.
#[derive(Clone, Default, Debug)]
pub(super) struct Timeline {
    samples: VecDeque<Sample>,
}

/// All programs at one moment. It holds until the next sample.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at_ns: u64,
    pub(super) programs: Vec<Seen>,
}

/// One program at one moment.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) id: AppId,
    pub(super) cpus: CpuSet,
    /// Those of them that belong to idle programs.
    pub(super) borrowed: CpuSet,
    /// Over what is promised, where both are known.
    pub(super) speed: Option<f64>,
}

/// A moment of one program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Point {
    /// Where in the timeline, from 0 to 1.
    pub(super) at: f64,
    /// `None` while it does not run.
    pub(super) cpus: Option<u32>,
    pub(super) speed: Option<f64>,
}

/// A part of the timeline, from 0 to 1, in which a CPU has one holder.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Stretch {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) holder: Holder,
}

/// Which programs hold a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holder {
    None,
    One(AppId),
    Several,
}

/// The CPUs of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<'a> {
    pub(super) id: AppId,
    pub(super) cpus: &'a CpuSet,
    pub(super) borrowed: &'a CpuSet,
}

impl Seen {
    fn held(&self) -> Held<'_> {
        Held {
            id: self.id,
            cpus: &self.cpus,
            borrowed: &self.borrowed,
        }
    }
}

impl Holder {
    /// The holder of one CPU, where programs have these: of one that is lent, who has borrowed it.
    pub(super) fn of<'a>(
        cpu: mapper_model::CpuId,
        programs: impl Iterator<Item = Held<'a>>,
    ) -> Self {
        let mut holder = Self::None;
        for held in programs.filter(|held| held.cpus.contains(cpu)) {
            if held.borrowed.contains(cpu) {
                return Self::One(held.id);
            }
            holder = match holder {
                Self::None => Self::One(held.id),
                _ => Self::Several,
            };
        }
        holder
    }
}

impl Timeline {
    pub(super) fn add(&mut self, sample: Sample) {
        self.samples.push_back(sample);
    }

    /// Forgets what ended more than `window_ns` before the last sample.
    pub(super) fn forget_before(&mut self, window_ns: u64) {
        let Some(last) = self.samples.back() else {
            return;
        };
        let oldest = last.at_ns.saturating_sub(window_ns);
        while self.samples.get(1).is_some_and(|next| next.at_ns <= oldest) {
            self.samples.pop_front();
        }
    }

    /// Leaves out samples where there are more than a chart shows.
    pub(super) fn thinned(self) -> Self {
        let count = self.samples.len();
        if count <= MOST_SAMPLES {
            return self;
        }
        // The last one is kept: it is what the rest of the page shows.
        let is_kept =
            |place: usize| place * MOST_SAMPLES / count != (place + 1) * MOST_SAMPLES / count;
        let samples = self.samples.into_iter().enumerate();
        let kept = samples.filter(|(place, _)| is_kept(*place));
        Self {
            samples: kept.map(|(_, sample)| sample).collect(),
        }
    }

    pub(super) fn span_ns(&self) -> u64 {
        match (self.samples.front(), self.samples.back()) {
            (Some(first), Some(last)) => last.at_ns.saturating_sub(first.at_ns),
            _ => 0,
        }
    }

    /// The programs in order of first occurrence.
    pub(super) fn programs(&self) -> Vec<AppId> {
        let mut found = Vec::new();
        for seen in self.samples.iter().flat_map(|sample| &sample.programs) {
            if !found.contains(&seen.id) {
                found.push(seen.id);
            }
        }
        found
    }

    /// A program over time.
    pub(super) fn points(&self, id: AppId) -> Vec<Point> {
        let samples = self.samples.iter().zip(self.times());
        let point = |(sample, at): (&Sample, f64)| {
            let seen = sample.programs.iter().find(|seen| seen.id == id);
            Point {
                at,
                cpus: seen.map(|seen| seen.cpus.len()),
                speed: seen.and_then(|seen| seen.speed),
            }
        };
        samples.map(point).collect()
    }

    /// Who holds a CPU over time.
    pub(super) fn stretches(&self, cpu: mapper_model::CpuId) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        let times: Vec<f64> = self.times().chain([1.0]).collect();
        for (sample, time) in self.samples.iter().zip(times.windows(2)) {
            let programs = sample.programs.iter();
            let holder = Holder::of(cpu, programs.map(Seen::held));
            match stretches.last_mut() {
                Some(last) if last.holder == holder => last.to = time[1],
                _ => stretches.push(Stretch {
                    from: time[0],
                    to: time[1],
                    holder,
                }),
            }
        }
        stretches
    }

    /// The speed of a program now: the median of its last three, so that one slow interval is not taken for more.
    pub(super) fn speed(&self, id: AppId) -> Option<f64> {
        let seen = |sample: &Sample| sample.programs.iter().find(|seen| seen.id == id)?.speed;
        let last: Vec<f64> = self
            .samples
            .iter()
            .rev()
            .filter_map(seen)
            .take(JUDGED)
            .collect();
        median(&last)
    }

    fn times(&self) -> impl Iterator<Item = f64> {
        let first = self.samples.front().map_or(0, |sample| sample.at_ns);
        let span = self.span_ns().max(1) as f64;
        let samples = self.samples.iter();
        samples.map(move |sample| (sample.at_ns - first) as f64 / span)
    }
}

/// `None` of none.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| crate::compare::median(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::CpuId;

    /// When, and of each program its id, its CPUs and its speed.
    type Moment<'a> = (u64, &'a [(u64, &'a str, f64)]);

    fn timeline(samples: &[Moment<'_>]) -> Timeline {
        let mut timeline = Timeline::default();
        for (at_ns, programs) in samples {
            let programs = programs.iter().map(|(id, cpus, speed)| Seen {
                id: AppId(*id),
                cpus: cpus.parse().unwrap(),
                borrowed: CpuSet::new(),
                speed: Some(*speed),
            });
            timeline.add(Sample {
                at_ns: *at_ns,
                programs: programs.collect(),
            });
        }
        timeline
    }

    #[test]
    fn a_cpu_has_one_stretch_for_each_holder_in_turn() {
        let timeline = timeline(&[
            (100, &[(1, "0-1", 1.0)]),
            (110, &[(1, "0-1", 1.0)]),
            (150, &[(1, "0", 1.0), (2, "1", 1.0)]),
            (200, &[(1, "0", 1.0), (2, "0", 1.0)]),
        ]);
        let holders = |cpu| {
            let stretches = timeline.stretches(CpuId(cpu)).into_iter();
            let parts = stretches.map(|part| (part.from, part.to, part.holder));
            parts.collect::<Vec<_>>()
        };
        let (one, other) = (Holder::One(AppId(1)), Holder::One(AppId(2)));
        assert_eq!(holders(0), [(0.0, 1.0, one), (1.0, 1.0, Holder::Several)]);
        assert_eq!(
            holders(1),
            [(0.0, 0.5, one), (0.5, 1.0, other), (1.0, 1.0, Holder::None)]
        );
    }

    #[test]
    fn one_slow_interval_of_three_is_no_slow_program() {
        let speeds = |speeds: [f64; 4]| {
            let samples = speeds.map(|speed| [(1, "0", speed)]);
            let mut all = Vec::new();
            for (at, sample) in (0..).zip(&samples) {
                all.push((at, &sample[..]));
            }
            timeline(&all).speed(AppId(1))
        };
        assert_eq!(speeds([9.0, 1.2, 0.5, 1.1]), Some(1.1));
        assert_eq!(speeds([9.0, 0.9, 0.5, 1.1]), Some(0.9));
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten_but_for_what_still_holds() {
        let mut timeline = timeline(&[(0, &[]), (10, &[]), (25, &[]), (40, &[])]);
        timeline.forget_before(20);
        assert_eq!(timeline.span_ns(), 30);
    }

    #[test]
    fn a_long_timeline_is_thinned_and_keeps_its_last_sample() {
        let samples: Vec<Moment<'_>> = (0..5000).map(|at| (at, &[][..])).collect();
        let thinned = timeline(&samples).thinned();
        assert_eq!(thinned.samples.len(), MOST_SAMPLES);
        assert_eq!(thinned.samples.back().unwrap().at_ns, 4999);
    }
}
