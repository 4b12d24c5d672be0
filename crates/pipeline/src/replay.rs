//! Taking the decisions of a recording again.
//!
//! A [`Replay`] is a controller made from the header of a [recording](crate::record). Each line gives the
//! decision it takes on the recorded observation, and how that compares with the recorded one. With the
//! same policies every plan must be the same but for the wording of its reasons. Another policy decides
//! in the recorded situation: it sees the applications where the recorded plans had put them.

use crate::controller::{Controller, PipelineError, RestoreError};
use crate::record::{Entry, Header, OLDEST_VERSION, VERSION};
use mapper_characterise::RuntimeHints;
use mapper_model::{Observation, Plan};
use serde_json::Value;

/// What is to be decided differently from the recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Another allocation policy.
    pub allocation: Option<String>,
    /// Another placement policy.
    pub mapping: Option<String>,
}

impl Changes {
    /// Whether anything is different.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// A recording that cannot be taken again.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A line is not what it should be.
    #[error(
        "line {line}: not {what}; give a file written by mapperd --record, whole lines and from its first line"
    )]
    Unreadable {
        /// The line, from 1.
        line: usize,
        /// What should be there.
        what: &'static str,
        /// Why it is not.
        #[source]
        source: serde_json::Error,
    },
    /// It was written in another format.
    #[error(
        "recording has version {found}, this mapper reads versions {OLDEST_VERSION} to {VERSION}; \
         replay it with the mapper that wrote it"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// A policy does not exist.
    #[error(transparent)]
    Policy(#[from] PipelineError),
    /// The state at the begin cannot be taken over.
    #[error("the state at the begin of the recording cannot be taken over")]
    State(#[from] RestoreError),
}

/// How a decision compares with the recorded one.
#[derive(Clone, PartialEq, Debug)]
pub enum Comparison {
    /// The same bytes, but for the wording of reasons.
    Same,
    /// Not the same.
    Different(Difference),
}

/// The first place where two plans differ.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// Where, such as `/apps/0/cpus`; empty when only the way of writing differs.
    pub at: String,
    /// What was recorded there.
    pub recorded: String,
    /// What was decided now.
    pub now: String,
}

/// A decision taken again.
#[derive(Clone, PartialEq, Debug)]
pub struct Decided {
    /// The recorded observation.
    pub observation: Observation,
    /// The recorded plan.
    pub recorded: Plan,
    /// The plan decided now.
    pub plan: Plan,
    /// How they compare.
    pub comparison: Comparison,
}

/// Takes decisions again. See the [module](self).
#[derive(Debug)]
pub struct Replay {
    controller: Controller,
    line: usize,
}

impl Replay {
    /// Starts from the first line of a recording.
    ///
    /// # Errors
    /// When the line is no header of a version that can be read, or a policy does not exist.
    pub fn start(header: &str, changes: &Changes) -> Result<Self, ReplayError> {
        let unreadable = |source| ReplayError::Unreadable {
            line: 1,
            what: "the header of a recording",
            source,
        };
        // The version is looked at first: the rest of another version may not be readable.
        let value: Value = serde_json::from_str(header).map_err(unreadable)?;
        if let Some(found) = value.get("mapper_recording").and_then(Value::as_u64)
            && !(u64::from(OLDEST_VERSION)..=u64::from(VERSION)).contains(&found)
        {
            return Err(ReplayError::Version {
                found: u32::try_from(found).unwrap_or(u32::MAX),
            });
        }
        let mut header: Header = serde_json::from_str(header).map_err(unreadable)?;
        if header.mapper_recording == 1 {
            header.config.monitor.runtime_hints = RuntimeHints::Ignored;
        }
        let same_policy = changes
            .allocation
            .as_ref()
            .is_none_or(|name| *name == header.config.allocation);
        if let Some(name) = &changes.allocation {
            header.config.allocation.clone_from(name);
        }
        if let Some(name) = &changes.mapping {
            header.config.mapping.clone_from(name);
        }
        let mut controller = Controller::new(header.config, header.topology)?;
        if same_policy {
            controller.restore(header.state)?;
        } else {
            // What another policy remembered is of no use to this one.
            controller.restore_without_policy(header.state)?;
        }
        Ok(Self {
            controller,
            line: 1,
        })
    }

    /// The controller that decides.
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Takes the decision of the next line.
    ///
    /// # Errors
    /// When the line is not a decision.
    pub fn next(&mut self, line: &str) -> Result<Decided, ReplayError> {
        self.line += 1;
        let number = self.line;
        let unreadable = |source| ReplayError::Unreadable {
            line: number,
            what: "a decision",
            source,
        };
        let entry: Entry = serde_json::from_str(line).map_err(unreadable)?;
        let recorded: Plan = serde_json::from_str(entry.plan.get()).map_err(unreadable)?;
        let plan = self.controller.step(&entry.observation);
        let text = serde_json::to_string(&plan).map_err(unreadable)?;
        let comparison = if text == entry.plan.get() || same_but_for_words(&recorded, &plan) {
            Comparison::Same
        } else {
            let before = serde_json::from_str(entry.plan.get()).map_err(unreadable)?;
            let now = serde_json::from_str(&text).map_err(unreadable)?;
            Comparison::Different(difference(&before, &now, String::new()).unwrap_or_else(|| {
                Difference {
                    at: String::new(),
                    recorded: entry.plan.get().to_owned(),
                    now: text,
                }
            }))
        };
        Ok(Decided {
            observation: entry.observation,
            recorded,
            plan,
            comparison,
        })
    }
}

/// Whether two plans differ only in how the same reasons are put into words, as those of another version may.
fn same_but_for_words(recorded: &Plan, now: &Plan) -> bool {
    let mut reworded = recorded.clone();
    for (then, now) in reworded.apps.iter_mut().zip(&now.apps) {
        if then.share.explanation == now.share.explanation {
            then.sentence.clone_from(&now.sentence);
        }
    }
    reworded == *now
}

/// The first place where two values differ.
fn difference(recorded: &Value, now: &Value, at: String) -> Option<Difference> {
    match (recorded, now) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|k| !a.contains_key(*k)));
            keys.filter_map(|key| {
                let of =
                    |v: &serde_json::Map<String, Value>| v.get(key).cloned().unwrap_or(Value::Null);
                difference(&of(a), &of(b), format!("{at}/{key}"))
            })
            .next()
        }
        (Value::Array(a), Value::Array(b)) => (0..a.len().max(b.len())).find_map(|i| {
            let of = |v: &[Value]| v.get(i).cloned().unwrap_or(Value::Null);
            difference(&of(a), &of(b), format!("{at}/{i}"))
        }),
        _ if recorded == now => None,
        _ => Some(Difference {
            at,
            recorded: recorded.to_string(),
            now: now.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_found_with_its_place() {
        let a = json!({"tick": 1, "apps": [{"cpus": "0-3"}, {"cpus": "4"}]});
        let b = json!({"tick": 1, "apps": [{"cpus": "0-3"}, {"cpus": "5"}, {}]});
        let found = difference(&a, &b, String::new()).unwrap();
        assert_eq!(
            (
                found.at.as_str(),
                found.recorded.as_str(),
                found.now.as_str()
            ),
            ("/apps/1/cpus", "\"4\"", "\"5\"")
        );
        assert_eq!(difference(&a, &a, String::new()), None);
    }

    #[test]
    fn what_is_no_recording_is_refused_with_the_line() {
        let error = Replay::start("{}", &Changes::default())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("line 1: not the header"), "{error}");
        let error = Replay::start("{\"mapper_recording\":7}", &Changes::default()).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("version 7") && error.contains("with the mapper that wrote it"),
            "{error}"
        );
    }
}
