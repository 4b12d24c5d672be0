//! What is remembered of decisions, so that they can be asked for their reasons.

use mapper_model::{
    AppId, AppName, Bottleneck, CpuSet, CurvePoint, Explanation, Performance, Reason, RegionPhase,
    SharingClass, Strategy,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many decisions are remembered for each application.
const REMEMBERED: usize = 10;

/// Everything there is to tell of one application. Performances are in the unit of `performance`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AppExplanation {
    /// The application.
    pub app: AppId,
    /// Its name.
    pub name: AppName,
    /// The CPUs it holds by the last plan.
    pub cpus: CpuSet,
    /// How they were chosen.
    pub strategy: Strategy,
    /// What the policy does with it, in a word or two.
    pub state: String,
    /// The fair share it is measured against.
    pub fair: u32,
    /// Performance of the last interval, if it could be measured.
    pub performance: Option<Performance>,
    /// The performance it is promised, once known.
    pub floor: Option<f64>,
    /// Performance above the floor; negative while the promise is broken.
    pub slack: Option<f64>,
    /// CPUs it could give up without falling below the floor.
    pub spare: u32,
    /// Normalized efficiency at its present count, where known.
    pub norm_eff: Option<f64>,
    /// Its critical bottleneck.
    pub bottleneck: Bottleneck,
    /// Its class of coherence activity.
    pub class: SharingClass,
    /// The phase by its parallel regions, where these are known.
    pub region_phase: Option<RegionPhase>,
    /// Share of its CPU time that it spun at barriers in the last interval, where that is known.
    pub spun: Option<f64>,
    /// What is known of its performance, by ascending CPU count.
    pub curve: Vec<CurvePoint>,
    /// The last decisions, oldest first, up to [`REMEMBERED`].
    pub decisions: Vec<Decision>,
}

/// A decision about one application. Decisions that repeat the one before are counted, not kept;
/// those that merely count on what the one before began (the third interval of a measurement) take
/// its place.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Decision {
    /// The decision of the daemon that it belongs to.
    pub tick: u64,
    /// When it was taken.
    pub now_ns: u64,
    /// The CPUs decided.
    pub cpus: CpuSet,
    /// How many before and after, and why.
    pub explanation: Explanation,
    /// The same as one sentence.
    pub sentence: String,
    /// How often in a row it was decided; 1 when it was not repeated.
    pub times: u64,
}

impl Decision {
    /// Whether this one is the next of the same kind: nothing moves, and where the reasons differ
    /// from those of `earlier` they differ in how far something has come.
    fn counts_on(&self, earlier: &Self) -> bool {
        let (now, then) = (&self.explanation, &earlier.explanation);
        let still = |of: &Explanation| of.before == of.after;
        let next = |(a, b): (&Reason, &Reason)| {
            a == b
                || matches!(
                    (a, b),
                    (Reason::Measuring { .. }, Reason::Measuring { .. })
                        | (Reason::Undecided { .. }, Reason::Undecided { .. })
                        | (Reason::HoldingOff { .. }, Reason::HoldingOff { .. })
                )
        };
        self.cpus == earlier.cpus
            && still(now)
            && still(then)
            && now.reasons.len() == then.reasons.len()
            && now.reasons.iter().zip(&then.reasons).all(next)
    }
}

/// The last decisions about one application, shared with states that are being saved.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct History(VecDeque<Arc<Decision>>);

impl History {
    /// Adds a decision, and forgets the oldest beyond [`REMEMBERED`].
    pub(crate) fn add(&mut self, decision: Decision) {
        if self.repeat(&decision.sentence, &decision.cpus) {
            return;
        }
        if let Some(last) = self.0.back_mut()
            && decision.counts_on(last)
        {
            *last = Arc::new(Decision {
                times: last.times + 1,
                ..decision
            });
            return;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(Arc::new(decision));
    }

    /// Whether the last decision was this one, so that repeating it needs no copy.
    pub(crate) fn repeat(&mut self, sentence: &str, cpus: &CpuSet) -> bool {
        match self.0.back_mut() {
            Some(last) if last.sentence == sentence && last.cpus == *cpus => {
                Arc::make_mut(last).times += 1;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Decision> {
        self.0.iter().map(Arc::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(tick: u64, before: u32, reason: Reason) -> Decision {
        let explanation = Explanation {
            before,
            after: 1,
            reasons: vec![reason],
        };
        Decision {
            tick,
            now_ns: tick,
            cpus: CpuSet::first(1),
            sentence: explanation.sentence(&|_| None),
            explanation,
            times: 1,
        }
    }

    #[test]
    fn a_long_measurement_does_not_displace_the_decisions_before_it() {
        let mut history = History::default();
        history.add(decision(1, 0, Reason::Arrived { fair: 1 }));
        for done in 0..20 {
            let reason = Reason::Measuring { done, wanted: 4 };
            history.add(decision(2 + u64::from(done), 1, reason));
        }
        for tick in 22..30 {
            history.add(decision(tick, 1, Reason::Steady));
        }
        let remembered: Vec<(u64, u64)> = history.iter().map(|d| (d.tick, d.times)).collect();
        assert_eq!(remembered, [(1, 1), (21, 20), (22, 8)]);
    }
}
