//! Values of the configuration that can be read but not worked with.
//!
//! TOML and the types of the keys let through what means nothing: a weight that is no number, a step of no
//! CPUs, a threshold that cannot be reached. Each is refused with its line, its key and a fix when the
//! file is read, since later it could only be bent in silence, or would switch a limit off: no comparison
//! with NaN holds.

use crate::config::access::AccessRule;
use crate::config::file::ConfigFile;
use std::fmt;
use std::path::Path;

const SHARE: &str = "give a share above 0 and up to 1";
const ABOVE_ZERO: &str = "give a number above 0";
const AT_LEAST_ONE: &str = "give at least 1, or leave it out";

/// A value outside its range.
#[derive(Debug)]
pub(crate) struct Outside {
    pub(crate) key: &'static [&'static str],
    value: String,
    mend: &'static str,
}

impl Outside {
    fn unless(
        fine: bool,
        key: &'static [&'static str],
        value: impl fmt::Display,
        mend: &'static str,
    ) -> Option<Self> {
        (!fine).then(|| Self {
            key,
            value: value.to_string(),
            mend,
        })
    }

    /// For a key that may be left out.
    fn unless_given<T: fmt::Display + Copy>(
        value: Option<T>,
        fine: impl Fn(T) -> bool,
        key: &'static [&'static str],
        mend: &'static str,
    ) -> Option<Self> {
        value.and_then(|value| Self::unless(fine(value), key, value, mend))
    }

    /// A path that stands in the file: where the daemon was started must not matter.
    fn unless_absolute(path: Option<&Path>, key: &'static [&'static str]) -> Option<Self> {
        let path = path?;
        let shown = format!("{:?}", path.display().to_string());
        let mend = "give an absolute path, one that begins with /";
        Self::unless(path.is_absolute(), key, shown, mend)
    }
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: {}", self.key.join("."), self.value, self.mend)
    }
}

/// The first value of the file that nothing can work with.
pub(crate) fn first_outside(file: &ConfigFile) -> Option<Outside> {
    paths(file)
        .into_iter()
        .chain(judging(file))
        .chain(sharing(file))
        .chain(memory(file))
        .chain(machine(file))
        .flatten()
        .next()
}

fn share(value: f64) -> bool {
    value > 0.0 && value <= 1.0
}

fn above_zero(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

fn paths(file: &ConfigFile) -> [Option<Outside>; 5] {
    [
        Outside::unless_absolute(file.socket.as_deref(), &["socket"]),
        Outside::unless_absolute(file.state_dir.as_deref(), &["state_dir"]),
        Outside::unless_absolute(file.record.as_deref(), &["record"]),
        Outside::unless_absolute(file.cgroup_root.as_deref(), &["cgroup_root"]),
        Outside::unless_absolute(file.metrics.socket.as_deref(), &["metrics", "socket"]),
    ]
}

fn judging(file: &ConfigFile) -> [Option<Outside>; 2] {
    let monitor = &file.monitor;
    [
        Outside::unless(
            share(monitor.fading),
            &["monitor", "fading"],
            monitor.fading,
            SHARE,
        ),
        Outside::unless(
            share(monitor.phase_threshold),
            &["monitor", "phase_threshold"],
            monitor.phase_threshold,
            SHARE,
        ),
    ]
}

fn sharing(file: &ConfigFile) -> [Option<Outside>; 7] {
    let (allocate, map) = (&file.allocate, &file.map);
    [
        Outside::unless(
            (0.0..=1.0).contains(&allocate.threshold),
            &["allocate", "threshold"],
            allocate.threshold,
            "give a share from 0 to 1, such as 0.05",
        ),
        Outside::unless(
            (0.0..1.0).contains(&allocate.tolerance),
            &["allocate", "tolerance"],
            allocate.tolerance,
            "give a share from 0 to below 1, such as 0.05",
        ),
        Outside::unless(
            allocate.min_cpus >= 1,
            &["allocate", "min_cpus"],
            allocate.min_cpus,
            "give at least 1",
        ),
        Outside::unless_given(
            allocate.step,
            |cpus| cpus >= 1,
            &["allocate", "step"],
            AT_LEAST_ONE,
        ),
        Outside::unless_given(
            allocate.migration_budget,
            |cpus| cpus >= 1,
            &["allocate", "migration_budget"],
            AT_LEAST_ONE,
        ),
        Outside::unless_given(
            allocate.reexplore_every,
            |intervals| intervals >= 1,
            &["allocate", "reexplore_every"],
            AT_LEAST_ONE,
        ),
        Outside::unless(
            map.swap_threshold.is_finite() && map.swap_threshold > 1.0,
            &["map", "swap_threshold"],
            map.swap_threshold,
            "give a number above 1",
        ),
    ]
}

fn memory(file: &ConfigFile) -> [Option<Outside>; 5] {
    let memory = &file.allocate.memory;
    [
        Outside::unless_given(
            memory.service_cycles,
            above_zero,
            &["allocate", "memory", "service_cycles"],
            ABOVE_ZERO,
        ),
        Outside::unless_given(
            memory.link_cycles,
            above_zero,
            &["allocate", "memory", "link_cycles"],
            ABOVE_ZERO,
        ),
        Outside::unless_given(
            memory.node_gb_per_s,
            above_zero,
            &["allocate", "memory", "node_gb_per_s"],
            ABOVE_ZERO,
        ),
        Outside::unless_given(
            memory.local_share,
            |share| (0.0..=1.0).contains(&share),
            &["allocate", "memory", "local_share"],
            "give a share from 0 to 1",
        ),
        Outside::unless(
            (0.0..=1.0).contains(&memory.local_reserve),
            &["allocate", "memory", "local_reserve"],
            memory.local_reserve,
            "give a share from 0 to 1",
        ),
    ]
}

fn machine(file: &ConfigFile) -> [Option<Outside>; 9] {
    let machine = &file.machine;
    [
        Outside::unless(
            above_zero(machine.clock_hz),
            &["machine", "clock_hz"],
            machine.clock_hz,
            "give a frequency in hertz, such as 2.4e9",
        ),
        Outside::unless(
            above_zero(machine.sharing_high_per_cycle),
            &["machine", "sharing_high_per_cycle"],
            machine.sharing_high_per_cycle,
            ABOVE_ZERO,
        ),
        Outside::unless(
            above_zero(machine.sharing_medium_per_cycle),
            &["machine", "sharing_medium_per_cycle"],
            machine.sharing_medium_per_cycle,
            ABOVE_ZERO,
        ),
        Outside::unless(
            machine.sharing_medium_per_cycle <= machine.sharing_high_per_cycle,
            &["machine", "sharing_medium_per_cycle"],
            machine.sharing_medium_per_cycle,
            "it is above sharing_high_per_cycle; give at most sharing_high_per_cycle",
        ),
        Outside::unless(
            above_zero(machine.ipc_high),
            &["machine", "ipc_high"],
            machine.ipc_high,
            ABOVE_ZERO,
        ),
        Outside::unless(
            above_zero(machine.spc_same_core),
            &["machine", "spc_same_core"],
            machine.spc_same_core,
            ABOVE_ZERO,
        ),
        Outside::unless(
            above_zero(machine.llc_misses_per_s),
            &["machine", "llc_misses_per_s"],
            machine.llc_misses_per_s,
            ABOVE_ZERO,
        ),
        Outside::unless(
            (1..=1000).contains(&machine.history_intervals),
            &["machine", "history_intervals"],
            machine.history_intervals,
            "give 1 to 1000",
        ),
        Outside::unless(
            machine.history_threshold <= machine.history_intervals,
            &["machine", "history_threshold"],
            machine.history_threshold,
            "can never be reached; give at most history_intervals",
        ),
    ]
}

/// A rule under `[[access]]` that cannot be meant.
#[derive(Debug, thiserror::Error)]
#[error("access rule {number}: {outside}")]
pub(crate) struct BadRule {
    /// Which rule it is, counted from 1.
    pub(crate) number: usize,
    outside: Outside,
}

/// The first rule that grants what nobody can be granted.
pub(crate) fn first_bad_rule(rules: &[AccessRule]) -> Option<BadRule> {
    rules.iter().enumerate().find_map(|(place, rule)| {
        let outside = grant(rule).into_iter().flatten().next()?;
        Some(BadRule {
            number: place + 1,
            outside,
        })
    })
}

fn grant(rule: &AccessRule) -> [Option<Outside>; 5] {
    let most = rule.max_cpus.unwrap_or(u32::MAX);
    [
        Outside::unless(
            share(rule.max_qos),
            &["max_qos"],
            rule.max_qos,
            "give a share above 0 and up to 1; launch = false forbids launching",
        ),
        Outside::unless(
            (0.01..=100.0).contains(&rule.max_weight),
            &["max_weight"],
            rule.max_weight,
            "give a number from 0.01 to 100; 1 is ordinary",
        ),
        Outside::unless_given(
            rule.max_min_cpus,
            |cpus| cpus >= 1,
            &["max_min_cpus"],
            AT_LEAST_ONE,
        ),
        Outside::unless_given(rule.max_cpus, |cpus| cpus >= 1, &["max_cpus"], AT_LEAST_ONE),
        Outside::unless_given(
            rule.max_min_cpus,
            |cpus| cpus <= most,
            &["max_min_cpus"],
            "is more than max_cpus; give at most that",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        format!("{:#}", ConfigFile::parse(text).unwrap_err())
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
                "line 2: machine.sharing_medium_per_cycle = 0.5: medium is above high",
            ),
        ] {
            let error = refused(text);
            assert!(error.contains(says), "{text}: {error}");
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
            let error = refused(text);
            assert!(
                error.contains(says) && error.contains("absolute"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn an_invalid_grant_is_named_with_its_rule() {
        for bad in [
            "max_weight = nan",
            "max_weight = inf",
            "max_weight = 0",
            "max_qos = inf",
            "max_qos = 1.5",
            "max_qos = 0.0",
            "max_min_cpus = 0",
            "max_cpus = 0",
            "max_cpus = 2\nmax_min_cpus = 3",
        ] {
            let error = refused(&format!(
                "[[access]]\nmax_qos = 0.5\n[[access]]\nsee = \"all\"\n{bad}\n"
            ));
            let key = bad.rsplit('\n').next().unwrap_or_default();
            let key = key.split(' ').next().unwrap_or_default();
            assert!(
                error.contains("line 3: access rule 2") && error.contains(key),
                "{bad}: {error}"
            );
        }
        // A bound below the default for the least is the bound for the least, too.
        ConfigFile::parse("[[access]]\nmax_cpus = 2\n").unwrap();
    }
}
