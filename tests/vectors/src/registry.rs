//! Which checks a file of vectors needs, by how its name begins.
//!
//! Inputs that an adapter does not know are left out of account; if they matter, the result differs.
//!
//! To add a file, write an [`Answer`](super::case::Answer) for each of its groups in a module of its own and enter it
//! below.

use super::case::{Answered, Group};
use super::compare::differences;
use super::{cpr, mapper_alloc, nucore, nupoco, sam_mapping, sim_steady};
use serde_json::Value;

/// What is done with a file.
pub(super) enum Check {
    /// Every group is an array of cases, or a single case, and each is answered and compared.
    Groups(&'static [Group]),
    /// The file holds parameters.
    Parameters,
}

/// A case that was checked.
pub(super) struct Outcome {
    /// Its id, or its group and place.
    pub(super) id: String,
    /// What is wrong with it; nothing if it passed.
    pub(super) failures: Vec<String>,
}

/// The longest prefix that fits decides.
const REGISTRY: [(&str, Check); 14] = [
    ("cpr", Check::Groups(cpr::GROUPS)),
    ("mapper_alloc", Check::Groups(mapper_alloc::GROUPS)),
    ("nucore", Check::Groups(nucore::GROUPS)),
    ("nupoco_alg1", Check::Groups(nupoco::ALGORITHM_1)),
    ("nupoco_alg2", Check::Groups(nupoco::ALGORITHM_2)),
    ("nupoco_coloc", Check::Groups(nupoco::COLOCATION)),
    ("nupoco_multinode", Check::Groups(nupoco::NETWORK)),
    ("nupoco_policies", Check::Groups(nupoco::POLICIES)),
    ("nupoco_smp", Check::Groups(nupoco::SMP)),
    ("sam_mapping", Check::Groups(sam_mapping::GROUPS)),
    ("sim_apps", Check::Parameters),
    ("sim_machines", Check::Parameters),
    ("sim_steady", Check::Groups(sim_steady::GROUPS)),
    ("targets_calibration", Check::Parameters),
];

/// The check for a file of this name.
pub(super) fn check_for(name: &str) -> Option<&'static Check> {
    static TABLE: [(&str, Check); 14] = REGISTRY;
    let stem = name.strip_suffix(".json")?;
    TABLE
        .iter()
        .filter(|(prefix, _)| stem.starts_with(prefix))
        .max_by_key(|(prefix, _)| prefix.len())
        .map(|(_, check)| check)
}

/// How the names of known files begin.
pub(super) fn prefixes() -> Vec<&'static str> {
    REGISTRY.iter().map(|(prefix, _)| *prefix).collect()
}

/// Checks all groups of a file.
pub(super) fn check_groups(groups: &[Group], file: &Value) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for (key, value) in file.as_object().into_iter().flatten() {
        let group = groups.iter().find(|group| group.key == key);
        let cases = match (value, group) {
            (Value::Array(cases), _) => cases.as_slice(),
            (Value::Object(_), Some(_)) => std::slice::from_ref(value),
            _ => continue,
        };
        let Some(group) = group else {
            let failures = vec!["no check for this group".to_owned()];
            outcomes.push(Outcome {
                id: key.clone(),
                failures,
            });
            continue;
        };
        for (at, case) in cases.iter().enumerate() {
            let id = case["id"]
                .as_str()
                .map_or_else(|| name(key, value, at), str::to_owned);
            let failures = match (group.answer)(file, case) {
                Ok(Answered { expected, got }) => differences(&expected, &got, group.tolerance),
                Err(error) => vec![format!("{error:#}")],
            };
            outcomes.push(Outcome { id, failures });
        }
    }
    let missing = |group: &&Group| !file[group.key].is_array() && !file[group.key].is_object();
    for group in groups.iter().filter(missing) {
        let failures = vec!["this group of cases is missing".to_owned()];
        outcomes.push(Outcome {
            id: group.key.to_owned(),
            failures,
        });
    }
    outcomes
}

/// The name of a case without an id.
fn name(group: &str, cases: &Value, at: usize) -> String {
    if cases.is_array() {
        format!("{group}[{at}]")
    } else {
        group.to_owned()
    }
}
