//! Ranges of the configuration's values.
//!
//! Values that TOML and the types of the keys accept may make no sense: a weight that is no number, a step of no CPUs,
//! a threshold that cannot be reached. Each is refused with its line, its key and a fix when the file is read. Later it
//! could only be changed silently, or would switch a limit off, since no comparison with NaN holds.

use crate::config::access::{AccessRule, BadRule};
use crate::config::file::{ConfigFile, Expert};
use crate::config::moved::Moved;
use std::fmt;
use std::path::Path;

#[derive(Debug)]
pub(crate) struct Outside {
    pub(crate) key: Vec<&'static str>,
    value: String,
    fix: &'static str,
}

impl Outside {
    /// The same with the key that the file gives, which may be at a former place.
    pub(crate) fn with_given_key(mut self, moved: &[Moved]) -> Self {
        let key = self.key.join(".");
        let former = moved.iter().find(|place| {
            let rest = key.strip_prefix(place.to);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        if let Some(place) = former {
            // Every new place is one table below `expert`.
            self.key.splice(..2, [place.from]);
        }
        self
    }

    fn of_expert(mut self) -> Self {
        self.key.insert(0, "expert");
        self
    }
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: {}", self.key.join("."), self.value, self.fix)
    }
}

struct Range {
    contains: fn(f64) -> bool,
    fix: &'static str,
}

impl Range {
    const fn new(contains: fn(f64) -> bool, fix: &'static str) -> Self {
        Self { contains, fix }
    }
}

trait Number: Copy {
    fn number(self) -> Option<f64>;
}

impl Number for f64 {
    fn number(self) -> Option<f64> {
        Some(self)
    }
}

impl Number for u32 {
    fn number(self) -> Option<f64> {
        Some(self.into())
    }
}

impl<T: Number> Number for Option<T> {
    fn number(self) -> Option<f64> {
        self.and_then(Number::number)
    }
}

/// The first key of a table whose value is outside its range.
macro_rules! first_outside {
    ($table:expr; $($first:ident $(. $rest:ident)*: $range:expr,)*) => {{
        let keys = [$((
            &[stringify!($first) $(, stringify!($rest))*] as &'static [&'static str],
            $table.$first$(.$rest)*.number(),
            $range,
        )),*];
        keys.into_iter().find_map(|(key, value, range): (_, Option<f64>, Range)| {
            let value = value.filter(|value| !(range.contains)(*value))?.to_string();
            Some(Outside { key: key.to_vec(), value, fix: range.fix })
        })
    }};
}

const SHARE: Range = Range::new(
    |value| value > 0.0 && value <= 1.0,
    "give a share above 0 and up to 1",
);
const SHARE_OR_NONE: Range = Range::new(
    |value| (0.0..=1.0).contains(&value),
    "give a share from 0 to 1",
);
const POSITIVE: Range = Range::new(
    |value| value.is_finite() && value > 0.0,
    "give a number above 0",
);
const WEIGHT: Range = Range::new(
    |value| (0.01..=100.0).contains(&value),
    "give a number from 0.01 to 100; 1 is ordinary",
);
const AT_LEAST_ONE: Range = Range::new(|value| value >= 1.0, "give at least 1, or leave it out");

/// The first value of the file that is outside its range, access rules excepted.
pub(crate) fn first_outside(file: &ConfigFile) -> Option<Outside> {
    relative_path(file)
        .or_else(|| number_outside(&file.expert).map(Outside::of_expert))
        .or_else(|| pair_outside(&file.expert).map(Outside::of_expert))
}

/// Paths are absolute, since it must not matter where the daemon was started.
fn relative_path(file: &ConfigFile) -> Option<Outside> {
    let paths: [(&'static [&'static str], Option<&Path>); 5] = [
        (&["expert", "socket"], file.expert.socket.as_deref()),
        (&["expert", "state_dir"], file.expert.state_dir.as_deref()),
        (&["expert", "record"], file.expert.record.as_deref()),
        (
            &["expert", "cgroup_root"],
            file.expert.cgroup_root.as_deref(),
        ),
        (&["metrics", "socket"], file.metrics.socket.as_deref()),
    ];
    paths.into_iter().find_map(|(key, path)| {
        let path = path.filter(|path| !path.is_absolute())?;
        Some(Outside {
            key: key.to_vec(),
            value: format!("{:?}", path.display().to_string()),
            fix: "give an absolute path, one that begins with /",
        })
    })
}

fn number_outside(expert: &Expert) -> Option<Outside> {
    first_outside! { expert;
        characterise.fading: SHARE,
        characterise.phase_threshold: SHARE,
        allocate.threshold: Range::new(SHARE_OR_NONE.contains, "give a share from 0 to 1, such as 0.05"),
        allocate.tolerance: Range::new(
            |value| (0.0..1.0).contains(&value),
            "give a share from 0 to below 1, such as 0.05",
        ),
        allocate.min_cpus: Range::new(AT_LEAST_ONE.contains, "give at least 1"),
        allocate.step: AT_LEAST_ONE,
        allocate.migration_budget: AT_LEAST_ONE,
        allocate.reexplore_every: AT_LEAST_ONE,
        placement.swap_threshold: Range::new(
            |value| value.is_finite() && value > 1.0,
            "give a number above 1",
        ),
        allocate.memory.service_cycles: POSITIVE,
        allocate.memory.link_cycles: POSITIVE,
        allocate.memory.node_gb_per_s: POSITIVE,
        allocate.memory.local_share: SHARE_OR_NONE,
        allocate.memory.local_reserve: SHARE_OR_NONE,
        machine.clock_hz: Range::new(POSITIVE.contains, "give a frequency in hertz, such as 2.4e9"),
        machine.sharing_high_per_cycle: POSITIVE,
        machine.sharing_medium_per_cycle: POSITIVE,
        machine.ipc_high: POSITIVE,
        machine.spc_same_core: POSITIVE,
        machine.llc_misses_per_s: POSITIVE,
        machine.history_intervals: Range::new(
            |value| (1.0..=1000.0).contains(&value),
            "give 1 to 1000",
        ),
    }
}

/// Values that have to be consistent with each other.
fn pair_outside(expert: &Expert) -> Option<Outside> {
    let machine = &expert.machine;
    if machine.sharing_medium_per_cycle > machine.sharing_high_per_cycle {
        return Some(Outside {
            key: vec!["machine", "sharing_medium_per_cycle"],
            value: machine.sharing_medium_per_cycle.to_string(),
            fix: "it is above sharing_high_per_cycle; give at most that",
        });
    }
    (machine.history_threshold > machine.history_intervals).then(|| Outside {
        key: vec!["machine", "history_threshold"],
        value: machine.history_threshold.to_string(),
        fix: "can never be reached; give at most history_intervals",
    })
}

/// Whether every access rule grants only what can be granted.
pub(crate) fn check_grants(rules: &[AccessRule]) -> Result<(), BadRule> {
    let bad = (1..).zip(rules).find_map(|(number, rule)| {
        Some(BadRule {
            list: "access",
            number,
            why: grant_outside(rule)?.to_string(),
        })
    });
    bad.map_or(Ok(()), Err)
}

fn grant_outside(rule: &AccessRule) -> Option<Outside> {
    let outside = first_outside! { rule;
        max_qos: Range::new(
            SHARE.contains,
            "give a share above 0 and up to 1; launch = false forbids launching",
        ),
        weight: WEIGHT,
        max_weight: WEIGHT,
        max_min_cpus: AT_LEAST_ONE,
        max_cpus: AT_LEAST_ONE,
    };
    let most = rule.max_cpus.unwrap_or(u32::MAX);
    outside.or_else(|| {
        let cpus = rule.max_min_cpus.filter(|cpus| *cpus > most)?;
        Some(Outside {
            key: vec!["max_min_cpus"],
            value: cpus.to_string(),
            fix: "is more than max_cpus; give at most that",
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::assert_says;

    #[track_caller]
    fn refused(text: &str, says: &[&str]) {
        assert_says(ConfigFile::parse(text).unwrap_err(), says);
    }

    #[test]
    fn a_value_outside_its_range_is_named_with_line_and_key() {
        for (text, says) in [
            (
                "[monitor]\nfading = 0.0\n",
                "line 2: monitor.fading = 0: give a share",
            ),
            (
                "interval = \"1s\"\n\n[machine]\n# hertz\nclock_hz = -1.0\n",
                "line 5: machine.clock_hz = -1",
            ),
            (
                "allocate = { memory = { local_share = 2.0 } }",
                "line 1: allocate.memory.local_share = 2",
            ),
            (
                "[machine]\nclock_hz = nan\n",
                "line 2: machine.clock_hz = NaN",
            ),
            ("[allocate]\nstep = 0\n", "line 2: allocate.step = 0"),
            (
                "[allocate]\nmigration_budget = 0\n",
                "line 2: allocate.migration_budget = 0",
            ),
            (
                "[machine]\nhistory_intervals = 5\n",
                "machine.history_threshold = 6: can never be reached",
            ),
            (
                "[machine]\nsharing_medium_per_cycle = 0.5\n",
                "line 2: machine.sharing_medium_per_cycle = 0.5: it is above sharing_high_per_cycle",
            ),
        ] {
            refused(text, &[says]);
        }
    }

    #[test]
    fn a_path_in_the_file_is_absolute() {
        for (text, says) in [
            ("socket = \"\"\n", "line 1: socket = \"\""),
            ("socket = \"a/s\"\n", "line 1: socket = \"a/s\""),
            ("\nstate_dir = \"state\"\n", "line 2: state_dir = \"state\""),
            (
                "[metrics]\nsocket = \"m.sock\"\n",
                "line 2: metrics.socket = \"m.sock\"",
            ),
        ] {
            refused(text, &[says, "absolute"]);
        }
    }

    #[test]
    fn an_invalid_grant_is_named_with_its_rule() {
        for (bad, key) in [
            ("max_weight = nan", "max_weight"),
            ("max_weight = inf", "max_weight"),
            ("max_weight = 0", "max_weight"),
            ("weight = 101.0", "weight"),
            ("max_qos = inf", "max_qos"),
            ("max_qos = 1.5", "max_qos"),
            ("max_qos = 0.0", "max_qos"),
            ("max_min_cpus = 0", "max_min_cpus"),
            ("max_cpus = 0", "max_cpus"),
            ("max_cpus = 2\nmax_min_cpus = 3", "max_min_cpus"),
        ] {
            let text = format!("[[access]]\nmax_qos = 0.5\n[[access]]\nsee = \"all\"\n{bad}\n");
            refused(&text, &["line 3: access rule 2", key]);
        }
        // The default for the least does not exceed the bound.
        ConfigFile::parse("[[access]]\nmax_cpus = 2\n").unwrap();
    }
}
