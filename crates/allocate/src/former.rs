//! Settings of earlier versions that are now policies of their own. Their defaults are still read, so that old
//! configurations and recordings stay valid; other values are an error that names the replacement.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A setting of an earlier version, as its place in the table of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Former<const KEY: usize>;

struct Setting {
    name: &'static str,
    kept: &'static str,
}

const SETTINGS: [Setting; 4] = [
    Setting {
        name: "required_gain",
        kept: "half_of_linear",
    },
    Setting {
        name: "initiative",
        kept: "demand",
    },
    Setting {
        name: "history_veto",
        kept: "obeyed",
    },
    Setting {
        name: "spare_rule",
        kept: "linear",
    },
];

impl<'de, const KEY: usize> Deserialize<'de> for Former<KEY> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Setting { name, kept } = SETTINGS[KEY];
        let value = String::deserialize(deserializer)?;
        if value == kept {
            Ok(Self)
        } else {
            Err(D::Error::custom(format!(
                "{name} = {value:?} is no longer a setting: the rules as printed are the policy \
                 allocation = \"mapper-paper\"; otherwise remove the key"
            )))
        }
    }
}
