//! Why an application has the CPUs it has: machine-readable, and as one plain sentence.
//!
//! A policy adds a [`Reason`] for every decision about an application, with the numbers that a sentence
//! needs, so that it can be made without the state of the policy.

use crate::{AppId, AppName, Bottleneck, CpuSet};
use serde::{Deserialize, Serialize};

/// The reasons of one application's share, in the order in which they came up.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// CPUs held before (0 for a newcomer, and where all its CPUs went away).
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
    /// It is being measured at its count before anything is tried.
    Measuring {
        /// Intervals measured so far.
        done: u32,
        /// Intervals wanted; more are taken when the samples scatter.
        wanted: u32,
    },
    /// No reason for a change.
    Steady,
    /// It was idle in the last interval, which says nothing of its speed.
    Idle,
    /// It is idle, and others may use its CPUs until it has something to do.
    Lends,
    /// It also uses CPUs of idle applications until those have something to do.
    Borrows {
        /// Those CPUs.
        cpus: CpuSet,
    },
    /// It leaves CPUs that it had borrowed, as their owner has work again.
    LoanEnded {
        /// Those CPUs.
        cpus: CpuSet,
    },
    /// It also runs on CPUs of others while those leave them idle.
    UsesIdleTime {
        /// Those CPUs.
        cpus: CpuSet,
    },
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
    /// The difference is within the noise so far: it stays and is measured again.
    Undecided {
        /// Relative gain seen so far.
        gain: f64,
    },
    /// It gave CPUs to another application.
    GaveTo {
        /// The taker.
        taker: AppId,
        /// How many.
        cpus: u32,
        /// Normalized efficiency of the taker.
        taker_eff: f64,
        /// Its own efficiency.
        own_eff: f64,
        /// Its promised performance.
        floor: Option<f64>,
        /// Its expected performance at the new count.
        expected: Option<f64>,
    },
    /// It took CPUs from another application.
    TookFrom {
        /// The giver.
        giver: AppId,
        /// How many.
        cpus: u32,
        /// Normalized efficiency of the giver.
        giver_eff: f64,
        /// Its own efficiency.
        own_eff: f64,
    },
    /// It took free CPUs.
    TookFree {
        /// How many.
        cpus: u32,
    },
    /// It gave CPUs because the policy set all counts, without a bargain between two.
    Handed {
        /// The takers.
        to: Vec<AppId>,
        /// How many in all.
        cpus: u32,
    },
    /// It got CPUs because the policy set all counts.
    Received {
        /// The givers.
        from: Vec<AppId>,
        /// How many in all.
        cpus: u32,
    },
    /// It got what it was owed: CPUs of its fair share, or an undone gift or loan.
    Reclaimed {
        /// The giver; `None` is the free pool.
        from: Option<AppId>,
        /// How many.
        cpus: u32,
    },
    /// It gave what it owed to another application.
    ReclaimedBy {
        /// The taker.
        taker: AppId,
        /// How many.
        cpus: u32,
    },
    /// Its serial phase is over; it is owed what it lent in it.
    SerialPhaseEnded {
        /// The count it had before the phase.
        had: u32,
    },
    /// It fell below its promise; its gift is undone.
    PromiseBroken {
        /// Performance measured.
        performance: f64,
        /// Performance promised.
        floor: f64,
    },
    /// It wanted more, but no application can spare any.
    NothingToSpare {
        /// How many it wanted.
        wanted: u32,
    },
    /// It does not give for now, as a gift broke its promise.
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
    /// It has fewer CPUs than its lower limit, as the lower limits of all do not fit together.
    BelowOwnLimit {
        /// Its lower limit.
        min: u32,
    },
    /// It may use only some CPUs.
    #[serde(alias = "own_mask")]
    Allowed {
        /// Those CPUs.
        #[serde(alias = "mask")]
        cpus: CpuSet,
    },
    /// It may use only CPUs that are not usable, so it was placed elsewhere.
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
    /// There are more applications than CPUs: they share these.
    Shares {
        /// The slot.
        slot: u32,
    },
    /// Its threads wait for one another by spinning, without OpenMP, so each has a CPU, which others share.
    Spins {
        /// Threads.
        threads: u32,
        /// Share of their CPU time that they waited with fewer CPUs.
        share: f64,
    },
    /// It shares CPUs with an application whose threads spin.
    BesideSpinning {
        /// That application.
        app: AppId,
    },
    /// CPUs went away or came.
    UsableChanged {
        /// CPUs usable now.
        usable: u32,
    },
    /// A model-based policy decided this.
    Model {
        /// The policy's rule and its numbers, in a few words.
        rule: String,
    },
}

impl Explanation {
    /// One plain sentence. `name` gives the name of an application.
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
            out.push_str(&reason.text(name));
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
    fn text<'n>(&self, name: &dyn Fn(AppId) -> Option<&'n AppName>) -> String {
        let app = |id: &AppId| name(*id).map_or_else(|| format!("app {id}"), |n| format!("`{n}`"));
        match self {
            Self::Arrived { fair } => format!("arrived, fair share {fair}"),
            Self::Measuring { done, wanted } if done < wanted => {
                format!("measuring ({done} of {wanted} intervals)")
            }
            Self::Measuring { done, .. } => {
                format!("measuring longer, as its samples vary ({done} intervals so far)")
            }
            Self::Steady => "steady".to_owned(),
            Self::Idle => "idle".to_owned(),
            Self::Lends => "idle, lends its CPUs until it has work".to_owned(),
            Self::Borrows { cpus } => format!(
                "{} {cpus} borrowed from idle applications",
                if cpus.len() == 1 { "CPU" } else { "CPUs" }
            ),
            Self::LoanEnded { cpus } => format!(
                "{} {cpus} back to an application that has work again",
                if cpus.len() == 1 { "CPU" } else { "CPUs" }
            ),
            Self::UsesIdleTime { cpus } => format!(
                "runs on {} {cpus} as well while {} idle",
                if cpus.len() == 1 { "CPU" } else { "CPUs" },
                if cpus.len() == 1 { "it is" } else { "they are" },
            ),
            Self::Exploring {
                from,
                to,
                bottleneck,
            } => match bottleneck {
                Bottleneck::None => format!("tries {to} instead of {from}"),
                b => format!("tries {to} instead of {from} (bottleneck: {b})"),
            },
            Self::Kept { gain } => format!("kept, {:+.1} %", gain * 100.0),
            Self::Returned { to, gain } => {
                format!("back to {to}, as the change brought {:+.1} %", gain * 100.0)
            }
            // Not "back to": the change may have taken the CPUs that it would go back to.
            Self::Interrupted { to } => {
                format!("its trial from {to} ends because of another change")
            }
            Self::Undecided { gain } => format!("{:+.1} % so far, within the noise", gain * 100.0),
            Self::GaveTo {
                taker,
                cpus,
                taker_eff,
                own_eff,
                floor,
                expected,
            } => {
                let taker = app(taker);
                let mut text = format!(
                    "gave {cpus} to {taker}, whose efficiency is {taker_eff:.2} against {own_eff:.2}"
                );
                if let (Some(floor), Some(expected)) = (floor, expected) {
                    let (floor, expected) = (number(*floor), number(*expected));
                    text += &format!("; floor {floor}, expected {expected}");
                }
                text
            }
            Self::TookFrom {
                giver,
                cpus,
                giver_eff,
                own_eff,
            } => {
                let giver = app(giver);
                format!(
                    "took {cpus} from {giver}, whose efficiency is {giver_eff:.2} against {own_eff:.2}"
                )
            }
            Self::Handed { to, cpus } => format!("gave {cpus} to {}", several(to, &app)),
            Self::Received { from, cpus } => format!("got {cpus} from {}", several(from, &app)),
            Self::TookFree { cpus } => format!("took {cpus} that nobody held"),
            Self::Reclaimed {
                from: Some(from),
                cpus,
            } => format!("got {cpus} from {}, which owed {}", app(from), them(*cpus)),
            Self::Reclaimed { from: None, cpus } => {
                format!("took {cpus} of its fair share from the free ones")
            }
            Self::ReclaimedBy { taker, cpus } => {
                let them = them(*cpus);
                format!("gave {cpus} to {}, which was owed {them}", app(taker))
            }
            Self::SerialPhaseEnded { had } => {
                format!("its serial phase is over, before which it had {had}")
            }
            Self::PromiseBroken { performance, floor } => {
                let (performance, floor) = (number(*performance), number(*floor));
                format!("fell to {performance} below its floor {floor}, so what it gave is undone")
            }
            Self::NothingToSpare { wanted } => {
                format!("wanted {wanted} more, but nobody can spare any")
            }
            Self::HoldingOff { intervals: 1 } => "gives nothing for one more interval".to_owned(),
            Self::HoldingOff { intervals } => {
                format!("gives nothing for {intervals} more intervals")
            }
            Self::Limited {
                min,
                max: Some(max),
            } => format!("its own limits are {min} to {max}"),
            Self::Limited { min, max: None } => format!("its own lower limit is {min}"),
            Self::BelowOwnLimit { min } => format!(
                "requested a minimum of {min}, but the minimums of all applications exceed the machine"
            ),
            Self::Allowed { cpus } => format!("may use only CPUs {cpus}"),
            Self::NoneAllowed { cpus } => {
                format!("may use only CPUs {cpus}, none of which is available")
            }
            Self::SetByOperator => {
                "set by the operator, until all CPUs are written to its cpuset.cpus".to_owned()
            }
            Self::OutsideLimit => "a limit around it allows none of the available CPUs".to_owned(),
            Self::NeverResized => "asked never to be resized".to_owned(),
            Self::Shares { .. } => "more applications than CPUs: they share these".to_owned(),
            Self::Spins { threads, share } => format!(
                "its {threads} threads wait for each other by spinning, outside OpenMP ({:.0} % of their CPU time with \
                 fewer CPUs), so it shares CPUs in place of having fewer than threads",
                share * 100.0
            ),
            Self::BesideSpinning { app: other } => {
                format!("shares its CPUs with {}, whose threads spin", app(other))
            }
            Self::UsableChanged { usable } => {
                let are = if *usable == 1 { "is" } else { "are" };
                format!("{usable} {} {are} usable now", cpus(*usable))
            }
            Self::Model { rule } => rule.clone(),
        }
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

    fn sentence(before: u32, after: u32, reason: Reason) -> String {
        let fft = AppName::new("fft").unwrap();
        let explanation = Explanation {
            before,
            after,
            reasons: vec![reason],
        };
        explanation.sentence(&|id| (id == AppId(70)).then_some(&fft))
    }

    #[test]
    fn measuring_never_names_more_intervals_than_wanted() {
        let message = |done| sentence(40, 40, Reason::Measuring { done, wanted: 4 });
        assert_eq!(message(3), "40 CPUs: measuring (3 of 4 intervals)");
        assert_eq!(
            message(9),
            "40 CPUs: measuring longer, as its samples vary (9 intervals so far)"
        );
    }

    #[test]
    fn givers_and_takers_are_named_and_of_many_the_first_few() {
        for (last, takers) in [
            (1, "app 1"),
            (2, "app 1 and app 2"),
            (8, "app 1, app 2, app 3 and 5 others"),
        ] {
            let to = (1..=last).map(AppId).collect();
            assert_eq!(
                sentence(8, 4, Reason::Handed { to, cpus: 4 }),
                format!("8 → 4 CPUs: gave 4 to {takers}")
            );
        }
    }

    #[test]
    fn owed_cpus_are_named_in_singular_or_plural() {
        let message = |cpus| {
            let taker = AppId(3);
            sentence(8, 8 - cpus, Reason::ReclaimedBy { taker, cpus })
        };
        assert_eq!(message(1), "8 → 7 CPUs: gave 1 to app 3, which was owed it");
        assert_eq!(
            message(2),
            "8 → 6 CPUs: gave 2 to app 3, which was owed them"
        );
    }

    #[test]
    fn a_gift_is_explained_with_taker_efficiencies_and_floor() {
        let gift = Reason::GaveTo {
            taker: AppId(70),
            cpus: 4,
            taker_eff: 0.94,
            own_eff: 0.61,
            floor: Some(34.0),
            expected: Some(36.2),
        };
        assert_eq!(
            sentence(40, 36, gift),
            "40 → 36 CPUs: gave 4 to `fft`, whose efficiency is 0.94 against 0.61; floor 34.0, expected 36.2"
        );
    }
}
