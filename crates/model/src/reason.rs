//! Why an application has the CPUs it has: machine-readable, and as one plain sentence.
//!
//! A policy adds a [`Reason`] wherever it decides something for an application. The numbers a
//! reader needs to follow the decision are in the reason itself, so that a sentence can be made
//! from it without the state of the policy.

use crate::{AppId, AppName, Bottleneck, CpuSet};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The reasons of one application's share, in the order in which they came up.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// CPUs held before (0 for a newcomer, and where all it had went away).
    pub before: u32,
    /// CPUs decided.
    pub after: u32,
    /// Why, the decisive reason last.
    pub reasons: Vec<Reason>,
}

/// One reason.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
#[non_exhaustive]
pub enum Reason {
    /// It arrived and got its fair share [MAPPER eq. 1].
    Arrived {
        /// Its fair share.
        fair: u32,
    },
    /// It is being measured at its count, before anything is tried.
    Measuring {
        /// Intervals measured so far.
        done: u32,
        /// Intervals wanted. More are taken when the samples scatter so much that these do not
        /// suffice.
        wanted: u32,
    },
    /// Nothing speaks for a change.
    Steady,
    /// It did nothing in the last interval, which therefore says nothing of its speed.
    Idle,
    /// It tries another count.
    Exploring {
        /// From this count.
        from: u32,
        /// To this count.
        to: u32,
        /// Because of this bottleneck.
        bottleneck: Bottleneck,
    },
    /// The tried count is better and is kept.
    Kept {
        /// Relative gain over the count before.
        gain: f64,
    },
    /// The tried count is no better: back.
    Returned {
        /// The count it goes back to.
        to: u32,
        /// Relative gain that was seen.
        gain: f64,
    },
    /// A change of phase, source or membership made the trial meaningless: back.
    Interrupted {
        /// The count it goes back to.
        to: u32,
    },
    /// The difference is not yet told from noise: it stays and is measured once more.
    Undecided {
        /// Relative gain seen so far.
        gain: f64,
    },
    /// It gave CPUs to another application.
    GaveTo {
        /// Who took.
        taker: AppId,
        /// How many.
        cpus: u32,
        /// Normalized efficiency of the taker.
        taker_eff: f64,
        /// Its own.
        own_eff: f64,
        /// Its promised performance.
        floor: Option<f64>,
        /// What it is expected to reach at the new count.
        expected: Option<f64>,
    },
    /// It took CPUs from another application.
    TookFrom {
        /// Who gave.
        giver: AppId,
        /// How many.
        cpus: u32,
        /// Normalized efficiency of the giver.
        giver_eff: f64,
        /// Its own.
        own_eff: f64,
    },
    /// It took CPUs that nobody held.
    TookFree {
        /// How many.
        cpus: u32,
    },
    /// It gave CPUs because the policy settled everybody's count, without a bargain between two.
    Handed {
        /// To whom.
        to: Vec<AppId>,
        /// How many in all.
        cpus: u32,
    },
    /// It got CPUs because the policy settled everybody's count.
    Received {
        /// From whom.
        from: Vec<AppId>,
        /// How many in all.
        cpus: u32,
    },
    /// It got what it was owed: CPUs of its fair share, or a gift or loan that is undone.
    Reclaimed {
        /// From whom; `None` is the free pool.
        from: Option<AppId>,
        /// How many.
        cpus: u32,
    },
    /// It gave another application what that was owed.
    ReclaimedBy {
        /// Who.
        taker: AppId,
        /// How many.
        cpus: u32,
    },
    /// By its own account its serial phase is over; it is owed what it lent in it.
    SerialPhaseEnded {
        /// The count it had before the phase.
        had: u32,
    },
    /// It fell below its promise; what it gave is undone.
    PromiseBroken {
        /// Performance measured.
        performance: f64,
        /// Performance promised.
        floor: f64,
    },
    /// It wanted more, but nobody could spare any.
    NothingToSpare {
        /// How many it wanted.
        wanted: u32,
    },
    /// It does not give for now, as an earlier gift broke its promise.
    HoldingOff {
        /// Intervals left.
        intervals: u32,
    },
    /// Its own lower or upper limit binds.
    Limited {
        /// Lower limit.
        min: u32,
        /// Upper limit.
        max: Option<u32>,
    },
    /// It has fewer CPUs than it needs by its own account, as the lower limits of all do not fit together.
    BelowOwnLimit {
        /// Its lower limit.
        min: u32,
    },
    /// It may use only some CPUs, and stays within them.
    #[serde(alias = "own_mask")]
    Allowed {
        /// Those CPUs.
        #[serde(alias = "mask")]
        cpus: CpuSet,
    },
    /// It may use only CPUs of which none is usable, so that it was placed elsewhere.
    NoneAllowed {
        /// Those CPUs.
        cpus: CpuSet,
    },
    /// The operator set its CPUs.
    SetByOperator,
    /// A limit around it allows no usable CPU.
    OutsideLimit,
    /// It asked never to be resized.
    NeverResized,
    /// There are more applications than CPUs: it shares one.
    Shares {
        /// The slot.
        slot: u32,
        /// Applications on it.
        with: u32,
    },
    /// CPUs went away or came back.
    UsableChanged {
        /// CPUs usable now.
        usable: u32,
    },
    /// A model-based policy chose this.
    Model {
        /// The name of the policy's rule, with its numbers, in a few words.
        rule: String,
    },
}

impl Explanation {
    /// One plain sentence. `name` gives the name of an application.
    #[must_use]
    pub fn sentence<'n>(&self, name: &dyn Fn(AppId) -> Option<&'n AppName>) -> String {
        let arrived = |reason: &Reason| matches!(reason, Reason::Arrived { .. });
        let mut out = if self.before == self.after {
            format!("{} {}", self.after, cpus(self.after))
        } else if self.before == 0 && self.reasons.iter().any(arrived) {
            format!("new, {} {}", self.after, cpus(self.after))
        } else {
            format!("{} → {} {}", self.before, self.after, cpus(self.after))
        };
        for (i, reason) in self.reasons.iter().enumerate() {
            out.push_str(if i == 0 { ": " } else { "; " });
            reason.write(&mut out, name);
        }
        out
    }
}

fn cpus(count: u32) -> &'static str {
    if count == 1 { "CPU" } else { "CPUs" }
}

fn them(count: u32) -> &'static str {
    if count == 1 { "it" } else { "them" }
}

impl Reason {
    fn write<'n>(&self, out: &mut String, name: &dyn Fn(AppId) -> Option<&'n AppName>) {
        let app = |id: &AppId| name(*id).map_or_else(|| format!("app {id}"), |n| format!("`{n}`"));
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Arrived { fair } => write!(out, "arrived, fair share {fair}"),
            Self::Measuring { done, wanted } if done < wanted => {
                write!(out, "measuring ({done} of {wanted} intervals)")
            }
            Self::Measuring { done, .. } => {
                write!(
                    out,
                    "measuring longer, as its samples vary ({done} intervals so far)"
                )
            }
            Self::Steady => write!(out, "steady"),
            Self::Idle => write!(out, "idle"),
            Self::Exploring {
                from,
                to,
                bottleneck,
            } => match bottleneck {
                Bottleneck::None => write!(out, "tries {to} instead of {from}"),
                b => write!(out, "tries {to} instead of {from} (bottleneck: {b})"),
            },
            Self::Kept { gain } => write!(out, "kept, {:+.1} %", gain * 100.0),
            Self::Returned { to, gain } => write!(
                out,
                "back to {to}, as the change brought {:+.1} %",
                gain * 100.0
            ),
            // Not "back to": the change may have taken the CPUs that it would go back to.
            Self::Interrupted { to } => {
                write!(out, "its trial from {to} ends because of another change")
            }
            Self::Undecided { gain } => {
                write!(out, "{:+.1} % so far, within the noise", gain * 100.0)
            }
            Self::GaveTo {
                taker,
                cpus,
                taker_eff,
                own_eff,
                floor,
                expected,
            } => {
                let _ = write!(
                    out,
                    "gave {cpus} to {}, whose efficiency is {taker_eff:.2} against {own_eff:.2}",
                    app(taker)
                );
                match (floor, expected) {
                    (Some(floor), Some(expected)) => {
                        write!(
                            out,
                            "; floor {}, expected {}",
                            number(*floor),
                            number(*expected)
                        )
                    }
                    _ => Ok(()),
                }
            }
            Self::TookFrom {
                giver,
                cpus,
                giver_eff,
                own_eff,
            } => {
                write!(
                    out,
                    "took {cpus} from {}, whose efficiency is {giver_eff:.2} against {own_eff:.2}",
                    app(giver)
                )
            }
            Self::Handed { to, cpus } => write!(out, "gave {cpus} to {}", several(to, &app)),
            Self::Received { from, cpus } => {
                write!(out, "got {cpus} from {}", several(from, &app))
            }
            Self::TookFree { cpus } => write!(out, "took {cpus} that nobody held"),
            Self::Reclaimed {
                from: Some(from),
                cpus,
            } => {
                write!(
                    out,
                    "got {cpus} from {}, which owed {}",
                    app(from),
                    them(*cpus)
                )
            }
            Self::Reclaimed { from: None, cpus } => {
                write!(out, "took {cpus} of its fair share from the free ones")
            }
            Self::ReclaimedBy { taker, cpus } => {
                write!(
                    out,
                    "gave {cpus} to {}, which was owed {}",
                    app(taker),
                    them(*cpus)
                )
            }
            Self::SerialPhaseEnded { had } => {
                write!(out, "its serial phase is over, before which it had {had}")
            }
            Self::PromiseBroken { performance, floor } => {
                write!(
                    out,
                    "fell to {} below its floor {}, so what it gave is undone",
                    number(*performance),
                    number(*floor)
                )
            }
            Self::NothingToSpare { wanted } => {
                write!(out, "wanted {wanted} more, but nobody can spare any")
            }
            Self::HoldingOff { intervals: 1 } => {
                write!(out, "gives nothing for one more interval")
            }
            Self::HoldingOff { intervals } => {
                write!(out, "gives nothing for {intervals} more intervals")
            }
            Self::Limited {
                min,
                max: Some(max),
            } => write!(out, "its own limits are {min} to {max}"),
            Self::Limited { min, max: None } => write!(out, "its own lower limit is {min}"),
            Self::BelowOwnLimit { min } => write!(
                out,
                "requested a minimum of {min}, but the minimums of all applications exceed the machine"
            ),
            Self::Allowed { cpus } => write!(out, "may use only CPUs {cpus}"),
            Self::NoneAllowed { cpus } => {
                write!(out, "may use only CPUs {cpus}, none of which is available")
            }
            Self::SetByOperator => write!(
                out,
                "set by the operator, until all CPUs are written to its cpuset.cpus"
            ),
            Self::OutsideLimit => {
                write!(out, "a limit around it allows none of the available CPUs")
            }
            Self::NeverResized => write!(out, "asked never to be resized"),
            Self::Shares { with, .. } => {
                let how = match with.saturating_sub(1) {
                    0 => "its CPU is still its own".to_owned(),
                    1 => "shares its CPU with one other".to_owned(),
                    others => format!("shares its CPU with {others} others"),
                };
                write!(out, "more applications than CPUs, {how}")
            }
            Self::UsableChanged { usable } => {
                let are = if *usable == 1 { "is" } else { "are" };
                write!(out, "{usable} {} {are} usable now", cpus(*usable))
            }
            Self::Model { rule } => write!(out, "{rule}"),
        };
    }
}

/// Some applications by name; the first few of many.
fn several(apps: &[AppId], name: &dyn Fn(&AppId) -> String) -> String {
    const FEW: usize = 3;
    let named = if apps.len() > FEW + 1 {
        FEW
    } else {
        apps.len()
    };
    let mut parts: Vec<String> = apps.iter().take(named).map(name).collect();
    if apps.len() > named {
        parts.push(format!("{} others", apps.len() - named));
    }
    match parts.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        Some((last, _)) => last.clone(),
        None => "others".to_owned(),
    }
}

/// A number in a form a person can read: three or four significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measuring_never_names_more_intervals_than_wanted() {
        let message = |done| {
            let explanation = Explanation {
                before: 40,
                after: 40,
                reasons: vec![Reason::Measuring { done, wanted: 4 }],
            };
            explanation.sentence(&|_| None)
        };
        assert_eq!(message(3), "40 CPUs: measuring (3 of 4 intervals)");
        assert_eq!(
            message(9),
            "40 CPUs: measuring longer, as its samples vary (9 intervals so far)"
        );
    }

    #[test]
    fn givers_and_takers_are_named_and_of_many_the_first_few() {
        let message = |reason| {
            let explanation = Explanation {
                before: 8,
                after: 4,
                reasons: vec![reason],
            };
            explanation.sentence(&|_| None)
        };
        let to = |ids: std::ops::Range<u64>| Reason::Handed {
            to: ids.map(AppId).collect(),
            cpus: 4,
        };
        assert_eq!(message(to(1..2)), "8 → 4 CPUs: gave 4 to app 1");
        assert_eq!(message(to(1..3)), "8 → 4 CPUs: gave 4 to app 1 and app 2");
        assert_eq!(
            message(to(1..9)),
            "8 → 4 CPUs: gave 4 to app 1, app 2, app 3 and 5 others"
        );
    }

    #[test]
    fn owed_cpus_are_named_in_singular_or_plural() {
        let message = |cpus| {
            let explanation = Explanation {
                before: 8,
                after: 8 - cpus,
                reasons: vec![Reason::ReclaimedBy {
                    taker: AppId(3),
                    cpus,
                }],
            };
            explanation.sentence(&|_| None)
        };
        assert_eq!(message(1), "8 → 7 CPUs: gave 1 to app 3, which was owed it");
        assert_eq!(
            message(2),
            "8 → 6 CPUs: gave 2 to app 3, which was owed them"
        );
    }

    #[test]
    fn a_shared_cpu_is_explained_with_how_many_share_it() {
        let message = |with| {
            let explanation = Explanation {
                before: 1,
                after: 1,
                reasons: vec![Reason::Shares { slot: 2, with }],
            };
            explanation.sentence(&|_| None)
        };
        let start = "1 CPU: more applications than CPUs, ";
        assert_eq!(message(1), format!("{start}its CPU is still its own"));
        assert_eq!(message(2), format!("{start}shares its CPU with one other"));
        assert_eq!(message(3), format!("{start}shares its CPU with 2 others"));
    }

    #[test]
    fn a_gift_is_explained_with_taker_efficiencies_and_floor() {
        let fft = AppName::new("fft").unwrap();
        let explanation = Explanation {
            before: 40,
            after: 36,
            reasons: vec![Reason::GaveTo {
                taker: AppId(7),
                cpus: 4,
                taker_eff: 0.94,
                own_eff: 0.61,
                floor: Some(34.0),
                expected: Some(36.2),
            }],
        };
        assert_eq!(
            explanation.sentence(&|id| (id == AppId(7)).then_some(&fft)),
            "40 → 36 CPUs: gave 4 to `fft`, whose efficiency is 0.94 against 0.61; floor 34.0, expected 36.2"
        );
    }
}
