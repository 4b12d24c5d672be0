//! SAM-MPH's classes of sharing, decided by the history of past intervals [SAM-MPH §4.3].
//!
//! Each interval is judged by itself (high, medium or low sharing; high instructions per cycle) and
//! shifted as one bit into a register; a class is asserted when its bit occurs often enough in the
//! last `n` intervals. So neither a moment of sharing nor a pause moves an application.
//!
//! Stalls, coherence events, instructions and cycles since the class last changed give the stalls per
//! inter-socket coherence event (SPC) and the instructions per cycle that order applications. An
//! interval with little traffic between sockets but much within one is left out of the sums: it shows
//! a program *after* its threads were gathered, and the sums are to show it before.
//!
//! Unit: coherence events per unhalted cycle of the most active thread, between and within sockets.
//!
//! Rules [readings "SAM-MPH classification"]: high if above 0.78e-3, medium if above the lower threshold. The class is
//! high by the high register; else medium by the union of both registers, so that an application that alternates is not
//! called low; else low. When the class changes, the sums start again from the present interval.

use mapper_model::{MachineProfile, SharingClass};
use serde::{Deserialize, Serialize};

/// Whether the occurrences must exceed the threshold or only reach it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Strictness {
    /// More than the threshold: 7 of 10 with the paper's 6.
    #[default]
    Exceeds,
    /// At least the threshold.
    Reaches,
}

/// The thresholds of a classification; activity and instructions are per cycle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HistoryRules {
    /// Intervals remembered, up to 64.
    pub intervals: u32,
    /// Occurrences compared with.
    pub threshold: u32,
    /// How they are compared.
    pub strictness: Strictness,
    /// Activity above which sharing is high.
    pub high_per_cycle: f64,
    /// Activity above which sharing is at least medium.
    pub medium_per_cycle: f64,
    /// Instructions above which they are high.
    pub ipc_high: f64,
}

impl HistoryRules {
    /// The rules of a machine.
    pub fn of(machine: &MachineProfile, strictness: Strictness) -> Self {
        Self {
            intervals: machine.history_intervals,
            threshold: machine.history_threshold,
            strictness,
            high_per_cycle: machine.sharing_high_per_cycle,
            medium_per_cycle: machine.sharing_medium_per_cycle,
            ipc_high: machine.ipc_high,
        }
    }

    fn asserted(&self, register: u64) -> bool {
        let occurrences = register.count_ones();
        match self.strictness {
            Strictness::Exceeds => occurrences > self.threshold,
            Strictness::Reaches => occurrences >= self.threshold,
        }
    }

    fn mask(&self) -> u64 {
        match self.intervals.clamp(1, 64) {
            64 => u64::MAX,
            n => (1 << n) - 1,
        }
    }
}

/// What one interval showed: rates of the most active thread, sums over all threads.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SharingSample {
    /// Inter-socket coherence events per cycle.
    pub inter_per_cycle: f64,
    /// Intra-socket coherence events per cycle.
    pub intra_per_cycle: f64,
    /// Instructions per cycle.
    pub ipc: f64,
    /// Stalled cycles; `None` without such a counter.
    pub stalls: Option<f64>,
    /// Inter-socket coherence events.
    pub inter_events: f64,
    /// Instructions.
    pub instructions: f64,
    /// Unhalted cycles.
    pub cycles: f64,
}

/// The conclusion after an interval; ratios are since the class changed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SharingVerdict {
    /// The class.
    pub class: SharingClass,
    /// Whether instructions per cycle were high often enough.
    pub ipc_high: bool,
    /// Stalled cycles per inter-socket coherence event.
    pub spc: Option<f64>,
    /// Instructions per cycle.
    pub ipc: Option<f64>,
}

/// The registers and sums of one application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SharingHistory {
    high: u64,
    medium: u64,
    ipc_high: u64,
    class: SharingClass,
    sums: Sums,
}

#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Sums {
    stalls: f64,
    // Coherence events of the intervals in which stalls were counted.
    inter_events: f64,
    instructions: f64,
    cycles: f64,
}

impl Sums {
    fn of(sample: &SharingSample) -> Self {
        Self {
            stalls: sample.stalls.unwrap_or(0.0),
            inter_events: sample.stalls.map_or(0.0, |_| sample.inter_events),
            instructions: sample.instructions,
            cycles: sample.cycles,
        }
    }

    fn add(&mut self, other: &Self) {
        self.stalls += other.stalls;
        self.inter_events += other.inter_events;
        self.instructions += other.instructions;
        self.cycles += other.cycles;
    }
}

impl SharingHistory {
    /// Processes one interval.
    pub fn observe(&mut self, sample: &SharingSample, rules: &HistoryRules) -> SharingVerdict {
        let activity = sample.inter_per_cycle + sample.intra_per_cycle;
        let high = activity > rules.high_per_cycle;
        let medium = !high && activity > rules.medium_per_cycle;
        let mask = rules.mask();
        let shift = |register: u64, bit: bool| ((register << 1) | u64::from(bit)) & mask;
        self.high = shift(self.high, high);
        self.medium = shift(self.medium, medium);
        self.ipc_high = shift(self.ipc_high, sample.ipc > rules.ipc_high);

        let class = if rules.asserted(self.high) {
            SharingClass::High
        } else if rules.asserted(self.high | self.medium) {
            SharingClass::Medium
        } else {
            SharingClass::Low
        };
        let gathered = sample.inter_per_cycle <= rules.medium_per_cycle
            && sample.intra_per_cycle > rules.high_per_cycle;
        if class != self.class {
            self.class = class;
            self.sums = Sums::of(sample);
        } else if !gathered {
            self.sums.add(&Sums::of(sample));
        }
        self.verdict(rules)
    }

    /// The present conclusion.
    pub fn verdict(&self, rules: &HistoryRules) -> SharingVerdict {
        let ratio = |above: f64, below: f64| (below > 0.0).then(|| above / below);
        SharingVerdict {
            class: self.class,
            ipc_high: rules.asserted(self.ipc_high),
            // Without a stall counter no event was summed up, so this is `None`.
            spc: ratio(self.sums.stalls, self.sums.inter_events),
            ipc: ratio(self.sums.instructions, self.sums.cycles),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> HistoryRules {
        HistoryRules::of(&MachineProfile::default(), Strictness::Exceeds)
    }

    fn spread() -> SharingSample {
        SharingSample {
            inter_per_cycle: 1.2e-3,
            intra_per_cycle: 0.0,
            ipc: 0.6,
            stalls: Some(523_200.0),
            inter_events: 1200.0,
            instructions: 6e5,
            cycles: 1e6,
        }
    }

    fn gathered() -> SharingSample {
        SharingSample {
            inter_per_cycle: 1e-5,
            intra_per_cycle: 1.5e-3,
            ipc: 1.2,
            stalls: Some(1000.0),
            inter_events: 10.0,
            instructions: 1.2e6,
            cycles: 1e6,
        }
    }

    fn classes(samples: &[SharingSample]) -> Vec<SharingClass> {
        let mut history = SharingHistory::default();
        samples
            .iter()
            .map(|s| history.observe(s, &rules()).class)
            .collect()
    }

    #[test]
    fn a_class_needs_seven_of_ten_intervals() {
        use SharingClass::{High, Low};
        let mut samples = vec![spread(); 7];
        assert_eq!(classes(&samples)[5..], [Low, High]);
        samples.extend([SharingSample::default(); 4]);
        // The 11th interval leaves 6 of 10.
        assert_eq!(classes(&samples)[9..], [High, Low]);
    }

    #[test]
    fn one_that_alternates_between_high_and_medium_is_not_called_low() {
        let medium = SharingSample {
            inter_per_cycle: 5e-4,
            ..spread()
        };
        let samples: Vec<_> = (0..12)
            .map(|i| if i % 2 == 0 { spread() } else { medium })
            .collect();
        assert_eq!(classes(&samples)[11], SharingClass::Medium);
    }

    #[test]
    fn stalls_per_event_are_kept_from_before_the_threads_were_gathered() {
        let mut history = SharingHistory::default();
        for _ in 0..8 {
            history.observe(&spread(), &rules());
        }
        for _ in 0..30 {
            let verdict = history.observe(&gathered(), &rules());
            assert_eq!(verdict.class, SharingClass::High);
            assert_eq!(verdict.spc, Some(436.0));
            assert_eq!(verdict.ipc, Some(0.6));
        }
    }

    #[test]
    fn the_sums_start_again_when_the_class_changes() {
        let mut history = SharingHistory::default();
        let quiet = SharingSample {
            ipc: 2.0,
            instructions: 2e6,
            cycles: 1e6,
            stalls: Some(7.0),
            inter_events: 1.0,
            ..SharingSample::default()
        };
        for _ in 0..10 {
            history.observe(&quiet, &rules());
        }
        let mut last = SharingVerdict::default();
        for _ in 0..7 {
            last = history.observe(&spread(), &rules());
        }
        assert_eq!(last.class, SharingClass::High);
        assert_eq!(last.spc, Some(436.0));
    }

    #[test]
    fn without_a_stall_counter_there_is_no_spc() {
        let mut history = SharingHistory::default();
        let sample = SharingSample {
            stalls: None,
            ..spread()
        };
        assert_eq!(history.observe(&sample, &rules()).spc, None);
    }
}
