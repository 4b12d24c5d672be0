//! Trying another count: in which direction, by how much, and whether it was worth it
//! [MAPPER §3.3, readings "State machine" steps 4 and 5].
//!
//! *Direction*: an application short of memory bandwidth tries fewer CPUs; one that shares data tries
//! fewer while it spans more than one socket, and more up to one socket; any other tries more
//! [readings R3.9, R3.10]. *Step*: a few CPUs; for sharing-heavy applications, whole sockets.
//!
//! *Verdict*, as printed ([`judge_plain`]): a gain of 5 % is kept and the search goes on the same way; a
//! smaller count that is about as good (95 % of the best known, and above the promise) is kept too
//! [readings R3.7]; anything else is undone. Where samples scatter a test decides
//! ([`evidence`](super::evidence)).

use mapper_model::{Bottleneck, Estimate};
use serde::{Deserialize, Serialize};

/// What rounding may add to a gain of exactly the threshold.
pub(crate) const ROUNDING: f64 = 1e-9;

/// Which way to change a count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Fewer CPUs.
    Fewer,
    /// The count is right.
    #[default]
    Stay,
    /// More CPUs.
    More,
}

/// The direction that the bottleneck suggests [MAPPER §3.3, readings R3.9].
pub const fn direction(bottleneck: Bottleneck, cpus: u32, cpus_per_socket: u32) -> Direction {
    match bottleneck {
        Bottleneck::Memory => Direction::Fewer,
        Bottleneck::Sharing if cpus > cpus_per_socket => Direction::Fewer,
        Bottleneck::Sharing if cpus == cpus_per_socket => Direction::Stay,
        Bottleneck::Sharing | Bottleneck::Compute | Bottleneck::None => Direction::More,
    }
}

/// How counts are stepped through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stride {
    /// By this many CPUs.
    Cpus(u32),
    /// To the next multiple of a socket's CPUs; below one socket by this many.
    Sockets {
        /// CPUs of a socket.
        cpus_per_socket: u32,
        /// Step below one socket.
        below: u32,
    },
}

/// The next count in a direction, within 1 and `usable` [readings "State machine" step 5].
pub fn step(cpus: u32, direction: Direction, stride: Stride, usable: u32) -> u32 {
    let next = match (direction, stride) {
        (Direction::Stay, _) => cpus,
        (Direction::More, Stride::Cpus(by)) => cpus.saturating_add(by),
        (Direction::Fewer, Stride::Cpus(by)) => cpus.saturating_sub(by),
        (
            direction,
            Stride::Sockets {
                cpus_per_socket,
                below,
            },
        ) => {
            let socket = cpus_per_socket.max(1);
            match direction {
                Direction::More if cpus < socket => cpus.saturating_add(below).min(socket),
                Direction::More => (cpus / socket + 1).saturating_mul(socket),
                _ if cpus <= socket => cpus.saturating_sub(below),
                _ => (cpus - 1) / socket * socket,
            }
        }
    };
    next.clamp(1, usable.max(1))
}

/// The verdict on a tried count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better: it is kept, and the search goes on the same way.
    Continue,
    /// Smaller and about as good: it is kept.
    Keep,
    /// No better: undone.
    Revert,
    /// The samples do not suffice yet.
    Undecided,
}

/// How sure a verdict is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The difference is significant.
    Clear,
    /// The better guess after as many samples as were allowed.
    Guess,
}

/// A verdict with its reasons.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Relative gain over the count before.
    pub gain: f64,
    /// How sure it is.
    pub certainty: Certainty,
}

/// A tried count, for the printed rule.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlainTrial {
    /// The count before.
    pub prev_cpus: u32,
    /// Performance there.
    pub prev_perf: f64,
    /// The tried count.
    pub cpus: u32,
    /// Performance there.
    pub perf: f64,
    /// The best performance known at any count.
    pub best: f64,
    /// The promise, where known.
    pub min_guaranteed: Option<f64>,
    /// The gain that makes a count better.
    pub threshold: f64,
}

/// The rule as printed [MAPPER §3.3, readings R3.7].
pub fn judge_plain(trial: &PlainTrial) -> Judgement {
    let gain = relative(trial.perf, trial.prev_perf);
    let keeps_promise = trial.min_guaranteed.is_none_or(|min| trial.perf >= min);
    let verdict = if gain >= trial.threshold - ROUNDING {
        Verdict::Continue
    } else if trial.cpus < trial.prev_cpus
        && trial.perf >= (1.0 - trial.threshold) * trial.best * (1.0 - ROUNDING)
        && keeps_promise
    {
        Verdict::Keep
    } else {
        Verdict::Revert
    };
    Judgement {
        verdict,
        gain,
        certainty: Certainty::Clear,
    }
}

pub(crate) fn relative(new: f64, old: f64) -> f64 {
    if old > 0.0 {
        (new - old) / old
    } else if new > 0.0 {
        1.0
    } else {
        0.0
    }
}

/// A count with its performance.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Reference {
    /// The count.
    pub cpus: u32,
    /// Performance there.
    pub estimate: Estimate,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const SOCKETS: Stride = Stride::Sockets {
        cpus_per_socket: 20,
        below: 4,
    };

    #[test]
    fn sharing_heavy_applications_step_by_whole_sockets() {
        let down = |cpus| step(cpus, Direction::Fewer, SOCKETS, 80);
        assert_eq!([80, 60, 50, 21, 20, 3].map(down), [60, 40, 40, 20, 16, 1]);
        let up = |cpus| step(cpus, Direction::More, SOCKETS, 80);
        assert_eq!([4, 18, 20, 50, 79].map(up), [8, 20, 40, 60, 80]);
    }

    #[test]
    fn a_sharing_application_is_drawn_to_one_socket() {
        let to = |cpus| direction(Bottleneck::Sharing, cpus, 20);
        assert_eq!(to(40), Direction::Fewer);
        assert_eq!(to(20), Direction::Stay);
        assert_eq!(to(12), Direction::More);
    }

    /// The printed rule for a trial from 30 performance units, with 25.5 promised.
    pub(crate) fn plain(prev_cpus: u32, cpus: u32, perf: f64) -> Verdict {
        judge_plain(&PlainTrial {
            prev_cpus,
            prev_perf: 30.0,
            cpus,
            perf,
            best: perf.max(30.0),
            min_guaranteed: Some(25.5),
            threshold: 0.05,
        })
        .verdict
    }

    #[test]
    fn a_smaller_count_that_is_about_as_good_is_kept_and_a_larger_one_is_not() {
        assert_eq!(plain(40, 36, 29.0), Verdict::Keep);
        assert_eq!(plain(40, 36, 28.5), Verdict::Keep);
        assert_eq!(plain(40, 36, 28.4), Verdict::Revert);
        assert_eq!(plain(40, 44, 31.0), Verdict::Revert);
        assert_eq!(plain(40, 36, 31.5), Verdict::Continue);
    }
}
