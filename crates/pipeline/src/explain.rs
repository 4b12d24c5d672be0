//! What is remembered of decisions, so that they can be asked for their reasons.

use mapper_model::{
    AppId, AppName, Bottleneck, CpuSet, CurvePoint, Explanation, Performance, SharingClass,
    Strategy,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How many decisions are remembered for each application.
pub const REMEMBERED: usize = 10;

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
    /// What is known of its performance, by ascending CPU count.
    pub curve: Vec<CurvePoint>,
    /// The last decisions, oldest first, up to [`REMEMBERED`].
    pub decisions: Vec<Decision>,
}

/// A decision about one application. Decisions that repeat the one before are counted, not kept.
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

/// The last decisions about one application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History(VecDeque<Decision>);

impl History {
    /// Adds a decision, and forgets the oldest beyond [`REMEMBERED`].
    pub fn add(&mut self, decision: Decision) {
        if let Some(last) = self.0.back_mut()
            && last.sentence == decision.sentence
            && last.cpus == decision.cpus
        {
            last.times += 1;
            return;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(decision);
    }

    /// Whether the last decision was this one, so that repeating it needs no copy.
    pub fn repeat(&mut self, sentence: &str, cpus: &CpuSet) -> bool {
        match self.0.back_mut() {
            Some(last) if last.sentence == sentence && last.cpus == *cpus => {
                last.times += 1;
                true
            }
            _ => false,
        }
    }

    /// The decisions, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Decision> {
        self.0.iter()
    }
}
