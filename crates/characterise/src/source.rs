//! Which source of performance an application is judged by.
//!
//! In order of preference: progress the application reports, progress its OpenMP runtime counts, instructions per cycle
//! [MAPPER §3.3], CPU time. Their units cannot be compared, so there is one source at a time, and a change starts the
//! curve anew. Hysteresis makes changes rare: a better source must answer several intervals in a row, more each time it
//! failed before; the one in use may be silent for as long as a parallel region may take.

use crate::progress::Progress;
use mapper_model::PerformanceSource;
use serde::{Deserialize, Serialize};

/// All sources, best first.
pub(crate) const ORDER: [PerformanceSource; 4] = [
    PerformanceSource::Reported,
    PerformanceSource::Runtime,
    PerformanceSource::Ipc,
    PerformanceSource::CpuTime,
];

/// What each source yielded in an interval, in the order of [`ORDER`].
pub(crate) type Offers = [Progress; 4];

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Selection {
    /// No source, or the one in use said nothing.
    Silent,
    /// A value of the source in use.
    Value {
        source: PerformanceSource,
        value: f64,
        /// Whether it can be compared with the values before.
        continuity: Continuity,
    },
}

/// Whether values can be compared with those before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Continuity {
    /// They can.
    Continued,
    /// The source or its unit changed.
    Restarted,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SourceSelector {
    current: Option<PerformanceSource>,
    // Intervals in a row in which each source answered.
    answered: [u32; 4],
    silent: u32,
    // Intervals spent waiting for a first answer of a source that is present but silent.
    waited: u32,
    let_down: u32,
    // The unit of the current source changed in an interval that gave no value.
    restart: bool,
}

impl SourceSelector {
    /// Processes what the sources yielded.
    pub(crate) fn select(&mut self, offers: &Offers, upgrade: u32, patience: u32) -> Selection {
        for (count, offer) in self.answered.iter_mut().zip(offers) {
            *count = match offer {
                Progress::Rate(_) => count.saturating_add(1),
                _ => 0,
            };
        }
        let Some(current) = self.current else {
            return self.first(offers, upgrade);
        };
        let place = current as usize;
        if offers[place] == Progress::NewUnit {
            self.restart = true;
        }
        let wanted = upgrade.max(1).saturating_mul(1 << self.let_down.min(5));
        if let Some(better) = (0..place).find(|&i| self.answered[i] >= wanted) {
            return self.switch(better, offers);
        }
        if let Progress::Rate(value) = offers[place] {
            self.silent = 0;
            let continuity = if std::mem::take(&mut self.restart) {
                Continuity::Restarted
            } else {
                Continuity::Continued
            };
            return Selection::Value {
                source: current,
                value,
                continuity,
            };
        }
        self.silent = self.silent.saturating_add(1);
        if self.silent >= patience.max(1)
            && let Some(other) = (0..ORDER.len()).find(|&i| i != place && self.answered[i] > 0)
        {
            if other > place {
                self.let_down = self.let_down.saturating_add(1);
            }
            return self.switch(other, offers);
        }
        Selection::Silent
    }

    /// The first choice: the best that answers, unless a better one is present and still incomplete.
    fn first(&mut self, offers: &Offers, upgrade: u32) -> Selection {
        let Some(best) = (0..ORDER.len()).find(|&i| self.answered[i] > 0) else {
            return Selection::Silent;
        };
        let better_to_come = offers[..best].contains(&Progress::Pending);
        if better_to_come && self.waited < upgrade {
            self.waited += 1;
            return Selection::Silent;
        }
        self.switch(best, offers)
    }

    fn switch(&mut self, place: usize, offers: &Offers) -> Selection {
        self.current = Some(ORDER[place]);
        self.silent = 0;
        self.restart = false;
        match offers[place] {
            Progress::Rate(value) => Selection::Value {
                source: ORDER[place],
                value,
                continuity: Continuity::Restarted,
            },
            _ => Selection::Silent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Progress::{Absent, Pending, Rate};

    fn run(offers: &[Offers]) -> Vec<Option<PerformanceSource>> {
        let mut selector = SourceSelector::default();
        offers
            .iter()
            .map(|o| match selector.select(o, 3, 10) {
                Selection::Silent => None,
                Selection::Value { source, .. } => Some(source),
            })
            .collect()
    }

    const IPC_ONLY: Offers = [Absent, Absent, Rate(1.0), Rate(1.0)];
    const RUNTIME: Offers = [Absent, Rate(5.0), Rate(1.0), Rate(1.0)];
    const RUNTIME_PENDING: Offers = [Absent, Pending, Rate(1.0), Rate(1.0)];

    #[test]
    fn the_best_source_that_answers_is_used() {
        assert_eq!(run(&[IPC_ONLY])[0], Some(PerformanceSource::Ipc));
        assert_eq!(run(&[RUNTIME])[0], Some(PerformanceSource::Runtime));
        assert_eq!(run(&[[Absent; 4]])[0], None);
    }

    #[test]
    fn a_better_source_takes_over_after_three_intervals() {
        let seen = run(&[
            IPC_ONLY, RUNTIME, RUNTIME, IPC_ONLY, RUNTIME, RUNTIME, RUNTIME,
        ]);
        use PerformanceSource::{Ipc, Runtime};
        assert_eq!(seen[..6], [Some(Ipc); 6]);
        assert_eq!(seen[6], Some(Runtime));
    }

    #[test]
    fn a_source_that_is_there_is_waited_for() {
        let seen = run(&[RUNTIME_PENDING, RUNTIME_PENDING, RUNTIME]);
        assert_eq!(seen, [None, None, Some(PerformanceSource::Runtime)]);
    }

    #[test]
    fn long_regions_do_not_make_the_source_flap() {
        // One region takes twelve intervals: it loses its place once, and one answer does not restore it.
        let mut offers = vec![RUNTIME];
        for _ in 0..10 {
            offers.extend([RUNTIME_PENDING; 11]);
            offers.push(RUNTIME);
        }
        let seen = run(&offers);
        let switches = seen
            .iter()
            .flatten()
            .collect::<Vec<_>>()
            .windows(2)
            .filter(|w| w[0] != w[1])
            .count();
        assert_eq!(switches, 1);
    }

    #[test]
    fn a_change_of_unit_or_source_says_that_values_cannot_be_compared() {
        let mut selector = SourceSelector::default();
        let mut continuity = |offers: Offers| match selector.select(&offers, 3, 10) {
            Selection::Value { continuity, .. } => Some(continuity),
            Selection::Silent => None,
        };
        assert_eq!(continuity(RUNTIME), Some(Continuity::Restarted));
        assert_eq!(continuity(RUNTIME), Some(Continuity::Continued));
        assert_eq!(
            continuity([Absent, Progress::NewUnit, Absent, Absent]),
            None
        );
        assert_eq!(continuity(RUNTIME), Some(Continuity::Restarted));
    }
}
