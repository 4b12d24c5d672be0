//! What applications do: hardware counters, progress, CPU time.
//!
//! No machine offers everything, and only OpenMP programs report progress. Each kind is a [`CounterSource`] that adds
//! what it knows to an application's [`Reading`]; [`probe`] finds out at start which of them work here.
//!
//! Invariants: readings are raw and cumulative; a source never invents a value (what is not known stays absent);
//! nothing an application does makes a source fail as a whole.
//!
//! [`Reading`]: mapper_model::Reading

mod bandwidth;
mod budget;
mod cache_nodes;
mod cpu_time;
mod event_table;
pub(crate) mod hardware;
mod offer;
mod perf_group;
pub(crate) mod processor;
mod progress;
mod refusal;
mod source;
mod spinning;
mod switch_cost;

use crate::{HostError, Missing};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

pub(crate) use bandwidth::MemoryBandwidth;
pub use cpu_time::process_cpu_time_ns;
pub(crate) use hardware::HardwareCounters;
pub use source::{CounterSource, Subject};
pub use spinning::spinning_share;

/// Which counters to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// All that cost little at a context switch: first the events that show sharing are given up, then all.
    #[default]
    Auto,
    /// Hardware counters are required.
    Hardware,
    /// No hardware counters: progress of the runtime, and CPU time.
    Software,
}

impl FromStr for Choice {
    type Err = UnknownChoice;

    fn from_str(name: &str) -> Result<Self, UnknownChoice> {
        match name {
            "auto" => Ok(Self::Auto),
            "hardware" => Ok(Self::Hardware),
            "software" => Ok(Self::Software),
            _ => Err(UnknownChoice(name.chars().take(40).collect())),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::Hardware => "hardware",
            Self::Software => "software",
        })
    }
}

/// A name that is no choice of counters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown counters {0:?}: give auto, hardware or software")]
pub struct UnknownChoice(String);

/// What counting may add to each context switch for `auto`: about twice what it adds on a bare machine.
pub(crate) const MOST_SWITCH_COST: Duration = Duration::from_micros(3);

/// The sources that work here, and what does not.
#[derive(Debug)]
pub struct Probed {
    /// In the order in which they are read.
    pub sources: Vec<Box<dyn CounterSource>>,
    /// What this machine lacks.
    pub missing: Vec<Missing>,
}

/// Finds out which sources work; an error when what `choice` requires is missing.
pub fn probe(choice: Choice) -> Result<Probed, HostError> {
    let mut sources: Vec<Box<dyn CounterSource>> = Vec::new();
    let mut missing = Vec::new();
    if choice == Choice::Software {
        missing.push(Missing::new(
            "hardware counters",
            "not asked for",
            "choose counters auto or hardware",
        ));
    } else {
        match HardwareCounters::probe() {
            Ok(mut found) => {
                let cost = match choice {
                    Choice::Auto => reduce_to_worth(&mut found),
                    Choice::Hardware | Choice::Software => SwitchCost::Unknown,
                };
                if let SwitchCost::TooMuch(cost) = cost {
                    missing.push(too_expensive(cost));
                } else {
                    missing.extend(found.missing);
                    sources.push(Box::new(found.counters));
                }
            }
            Err(why) if choice == Choice::Hardware => return Err(HostError::Missing(why)),
            Err(why) => missing.push(why),
        }
    }
    match MemoryBandwidth::probe(Path::new(bandwidth::RESCTRL)) {
        Ok(bandwidth) => {
            bandwidth.remove_abandoned();
            let nodes = cache_nodes::read(Path::new("/sys/devices/system"));
            sources.push(Box::new(bandwidth.by_node(nodes)));
        }
        Err(why) => missing.push(why),
    }
    sources.push(Box::new(progress::RuntimePages));
    sources.push(Box::new(cpu_time::CpuTime::default()));
    Ok(Probed { sources, missing })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SwitchCost {
    Unknown,
    Worth(Duration),
    TooMuch(Duration),
}

/// Measures what counting costs; where that is too much, gives up the events that show sharing and measures again.
pub(crate) fn reduce_to_worth(found: &mut hardware::Found) -> SwitchCost {
    reduced(
        found,
        |found| found.counters.switch_cost(),
        hardware::Found::give_up_sharing,
    )
}

fn reduced<F>(
    found: &mut F,
    measure: impl Fn(&mut F) -> Option<Duration>,
    give_up: impl FnOnce(&mut F) -> hardware::Reduced,
) -> SwitchCost {
    let judge = |found: &mut F| match measure(found) {
        None => SwitchCost::Unknown,
        Some(cost) if cost > MOST_SWITCH_COST => SwitchCost::TooMuch(cost),
        Some(cost) => SwitchCost::Worth(cost),
    };
    match judge(found) {
        SwitchCost::TooMuch(cost) => match give_up(found) {
            hardware::Reduced::CountsLess => judge(found),
            hardware::Reduced::NothingToGiveUp => SwitchCost::TooMuch(cost),
        },
        fine => fine,
    }
}

fn too_expensive(cost: Duration) -> Missing {
    Missing::new(
        "hardware counters",
        format!(
            "counters add {:.1} µs to every context switch on this machine (limit {:.1} µs)",
            cost.as_secs_f64() * 1e6,
            MOST_SWITCH_COST.as_secs_f64() * 1e6
        ),
        "choose counters hardware to use them anyway",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_and_cpu_time_are_there_on_every_machine() {
        for choice in [Choice::Auto, Choice::Software] {
            let probed = probe(choice).unwrap();
            let names: Vec<String> = probed.sources.iter().map(|s| s.describe()).collect();
            assert!(names.iter().any(|n| n.contains("progress")), "{names:?}");
            assert!(names.iter().any(|n| n.contains("CPU time")), "{names:?}");
        }
    }

    #[test]
    fn hardware_counters_are_available_or_the_reason_is_reported() {
        let probed = probe(Choice::Auto).unwrap();
        let mut sources = probed.sources.iter();
        let there = sources.any(|s| s.describe().contains("hardware"));
        let message = probed.missing.iter().any(|m| m.what == "hardware counters");
        assert!(there != message, "{probed:?}");
        let mut reasons = probed.missing.iter().map(|m| &m.why);
        let expensive = reasons.any(|why| why.contains("to every context switch"));
        assert_eq!(probe(Choice::Hardware).is_ok(), there || expensive);
    }

    #[test]
    fn events_are_given_up_only_where_all_cost_too_much() {
        use hardware::Reduced;
        // What each event costs, in microseconds, with so many events of which three can be kept.
        let decide = |each_us: u64, mut events: u64| {
            let give_up = |events: &mut u64| match *events > 3 {
                true => {
                    *events = 3;
                    Reduced::CountsLess
                }
                false => Reduced::NothingToGiveUp,
            };
            let measure = |events: &mut u64| Some(Duration::from_micros(*events * each_us));
            let cost = reduced(&mut events, measure, give_up);
            (events, cost)
        };
        let us = Duration::from_micros;
        assert_eq!(decide(0, 7), (7, SwitchCost::Worth(us(0))));
        assert_eq!(decide(1, 7), (3, SwitchCost::Worth(us(3))));
        assert_eq!(decide(2, 7), (3, SwitchCost::TooMuch(us(6))));
        assert_eq!(decide(2, 3), (3, SwitchCost::TooMuch(us(6))));
        let unknown = reduced(&mut (), |()| None, |()| Reduced::CountsLess);
        assert_eq!(unknown, SwitchCost::Unknown);
    }

    #[test]
    fn expensive_counters_are_reported_with_their_cost_and_a_hint() {
        let message = too_expensive(Duration::from_nanos(12_340));
        assert!(message.why.contains("12.3 µs"), "{message}");
        assert!(message.hint.contains("counters hardware"), "{message}");
    }

    #[test]
    fn an_unknown_choice_lists_the_known_ones() {
        let error = "perf".parse::<Choice>().unwrap_err().to_string();
        for says in ["\"perf\"", "hardware"] {
            assert!(error.contains(says), "{error}");
        }
        for choice in [Choice::Auto, Choice::Hardware, Choice::Software] {
            assert_eq!(choice.to_string().parse::<Choice>().unwrap(), choice);
        }
    }
}
