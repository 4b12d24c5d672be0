//! Experiments: numbers of the model that an evaluation changes, as `--set` gives them. They show
//! what a result rests on, each in one command.
//!
//! `decision_s=0` sets a constant of the protocol, `machine.llc_mb*=2` multiplies a number of the
//! machine, `app.E*=0.75` one of every program, `SGD.st=0` one of each program of that name, `SGD.2.st=0` of the second
//! `SGD` of a mix alone. Keys are those of the protocol and of the preset files. `memory_queue=finite` gives memories NuPoCo's own queue. What a change makes of a machine or program is
//! checked like what a user describes.

use super::mix::Member;
use super::run_spec::RunSpec;
use anyhow::{Context as _, bail};
use mapper_sim::presets::Apps;
use mapper_sim::{Constants, Machine};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Setting {
    of: Of,
    key: String,
    change: Change,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Of {
    Constants,
    Machine,
    Programs,
    Program(String),
}

#[derive(Clone, PartialEq, Debug)]
enum Change {
    To(Value),
    Times(f64),
}

/// Reads a change; an error is shown whole.
pub(super) fn parse(text: &str) -> Result<Setting, String> {
    Setting::from_str(text).map_err(|error| format!("{error:#}"))
}

impl FromStr for Setting {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let write = "write a change like decision_s=0, app.E*=0.75, SGD.st=0 or machine.llc_mb*=2";
        let Some((left, value)) = text.split_once('=') else {
            bail!("{text:?} changes nothing: {write}");
        };
        let (name, times) = match left.strip_suffix('*') {
            Some(name) => (name, true),
            None => (left, false),
        };
        let number = |value: &str| match value.trim().parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => bail!("{text:?}: {value:?} is no number from 0: {write}"),
        };
        let change = match value.trim() {
            _ if times => Change::Times(number(value)?),
            "true" => Change::To(Value::Bool(true)),
            "false" => Change::To(Value::Bool(false)),
            "[]" => Change::To(Value::Array(Vec::new())),
            law @ ("open" | "finite") => Change::To(Value::String(law.to_owned())),
            other => Change::To(whole_or_not(number(other)?)),
        };
        if name.trim() == "memory_queue" && !matches!(change, Change::To(Value::String(_))) {
            bail!("{text:?} is no law of a queue: write memory_queue=open or memory_queue=finite");
        }
        // No key has a dot, and the second SGD of a mix is SGD.2.
        let (of, key) = match name.trim().rsplit_once('.') {
            None => (Of::Constants, name.trim()),
            Some(("machine", key)) => (Of::Machine, key),
            Some(("app", key)) => (Of::Programs, key),
            Some((program, key)) => (Of::Program(program.to_owned()), key),
        };
        let setting = Self {
            of,
            key: key.to_owned(),
            change,
        };
        // A wrong key is shown before anything is computed.
        if setting.of == Of::Constants {
            setting.changed(&Constants::default())?;
        }
        Ok(setting)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Of::Constants => {}
            Of::Machine => write!(f, "machine.")?,
            Of::Programs => write!(f, "app.")?,
            Of::Program(name) => write!(f, "{name}.")?,
        }
        let key = &self.key;
        match &self.change {
            Change::To(Value::String(law)) => write!(f, "{key}={law}"),
            Change::To(value) => write!(f, "{key}={value}"),
            Change::Times(factor) => write!(f, "{key}*={factor}"),
        }
    }
}

impl Setting {
    /// Changes what a run depends on. A program that is not part of it stays away.
    pub(super) fn apply(&self, spec: &mut RunSpec) -> anyhow::Result<()> {
        let given = || format!("--set {self}");
        match &self.of {
            Of::Constants => {
                spec.constants = self.changed(&spec.constants)?;
                spec.constants.check().with_context(given)
            }
            Of::Machine => {
                spec.machine = self.changed(&spec.machine)?;
                let made = Machine::new(&spec.machine_name, spec.machine.clone());
                made.map(drop).with_context(given)
            }
            Of::Programs | Of::Program(_) => {
                let mut members = spec.members.iter_mut().filter(|member| self.means(member));
                members.try_for_each(|member| {
                    member.app = self.changed(&member.app)?;
                    member.app.check(&member.name).with_context(given)
                })
            }
        }
    }

    /// Those of the settings that depart from a protocol with these constants: the constants may come out as they
    /// are there.
    pub(super) fn departing<'a>(
        all: &'a [Self],
        constants: &Constants,
    ) -> anyhow::Result<Vec<&'a Self>> {
        let of_constants = |setting: &&Self| setting.of == Of::Constants;
        let mut changing = all.iter().filter(of_constants);
        let changed = changing.try_fold(*constants, |found, setting| setting.changed(&found))?;
        let same = changed == *constants;
        let departing = all.iter().filter(|of| !(same && of_constants(of)));
        Ok(departing.collect())
    }

    /// Whether it is a number of this program that changes.
    fn means(&self, member: &Member) -> bool {
        let Of::Program(name) = &self.of else {
            return self.of == Of::Programs;
        };
        let first = || member.name == member.program && *name == format!("{}.1", member.name);
        *name == member.program || *name == member.name || first()
    }

    /// Makes sure that the program whose number is changed takes part in a run, or may do in those of checks.
    pub(super) fn check_meant<'a>(
        &self,
        mut runs: impl Iterator<Item = &'a RunSpec>,
        checked: Option<&Apps>,
    ) -> anyhow::Result<()> {
        let Of::Program(name) = &self.of else {
            return Ok(());
        };
        let runs_it = |run: &RunSpec| run.members.iter().any(|member| self.means(member));
        if !checked.is_some_and(|apps| apps.contains_key(name)) && !runs.any(runs_it) {
            bail!("--set {self}: no mix has a program {name:?}, so it changes nothing");
        }
        Ok(())
    }

    fn changed<T: Serialize + DeserializeOwned>(&self, old: &T) -> anyhow::Result<T> {
        let mut all = serde_json::to_value(old)?;
        let Some(keys) = all.as_object_mut() else {
            bail!("--set {self}: nothing with keys");
        };
        match (&self.change, keys.get_mut(&self.key)) {
            (Change::To(value), _) => drop(keys.insert(self.key.clone(), value.clone())),
            (Change::Times(factor), Some(value)) => *value = times(value, *factor),
            // What all programs are meant to have some do not; a wrong name is shown below.
            (Change::Times(_), None) => drop(keys.insert(self.key.clone(), Value::Null)),
        }
        let nothing = keys.get(&self.key).is_some_and(Value::is_null);
        let new = serde_json::from_value(all).with_context(|| format!("--set {self}"))?;
        if nothing && self.of != Of::Programs {
            let key = &self.key;
            bail!("--set {self}: there is no {key} to multiply: give a value with =");
        }
        Ok(new)
    }
}

/// A number as JSON has it: without a fraction if it has none, since a count is read from no other,
/// and a number with a fraction from either.
fn whole_or_not(number: f64) -> Value {
    /// From here on not every whole number is one of these.
    const MOST: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < MOST {
        #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
        let whole = number as i64;
        return whole.into();
    }
    number.into()
}

fn times(value: &Value, factor: f64) -> Value {
    match value {
        Value::Number(number) => {
            let number = number.as_f64();
            number.map_or(Value::Null, |number| whole_or_not(number * factor))
        }
        Value::Array(values) => values.iter().map(|value| times(value, factor)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples;
    use super::*;
    use mapper_sim::presets;

    fn set(text: &str) -> Setting {
        text.parse().unwrap()
    }

    #[test]
    fn a_change_is_read_back_as_it_was_written_and_an_error_in_one_reported() {
        for text in [
            "decision_s=0",
            "memory_queue=finite",
            "decision_s=0.25",
            "machine.llc_mb*=2",
            "app.mpki*=0.75",
            "SGD.spin=true",
            "SGD.2.st=0",
            "ALS.phases=[]",
        ] {
            assert_eq!(set(text).to_string(), text);
        }
        for (text, parts) in [
            ("decision_s", ["changes nothing", "decision_s=0"]),
            ("decision_s=soon", ["\"soon\" is no number", "from 0"]),
            ("decision_s=-1", ["no number from 0", "-1"]),
            (
                "memory_queue=7",
                ["no law of a queue", "memory_queue=finite"],
            ),
            ("decisions=1", ["unknown field `decisions`", "decision_s"]),
        ] {
            let shown = parse(text).unwrap_err();
            assert!(parts.iter().all(|part| shown.contains(part)), "{shown}");
        }
    }

    #[test]
    fn a_program_that_runs_twice_is_changed_twice_and_each_can_be_named() {
        let mix = examples::run("hsw80", "SGD, SGD, ALS", "linux").members;
        for (text, expected) in [
            ("SGD.st=0", [true, true, false]),
            ("SGD.1.st=0", [true, false, false]),
            ("SGD.2.st=0", [false, true, false]),
            ("SGD.3.st=0", [false, false, false]),
            ("app.st=0", [true, true, true]),
            ("machine.llc_mb=9", [false, false, false]),
        ] {
            let meant: Vec<bool> = mix.iter().map(|member| set(text).means(member)).collect();
            assert_eq!(meant, expected, "{text}");
        }
    }

    #[test]
    fn numbers_change_as_they_are_meant_and_others_stay() {
        let old = Constants::default();
        let new = set("decision_s*=0.5").changed(&old).unwrap();
        assert_eq!(new.decision_s, 0.5 * old.decision_s);
        assert_eq!(new.spin_wait, old.spin_wait);
        let app = presets::app("SGD").unwrap();
        let changed = |text: &str| set(text).changed(&app);
        let doubled = changed("app.mpki*=2").unwrap().misses_per_kilo;
        assert_eq!(doubled, app.misses_per_kilo.map(|m| 2.0 * m));
        // What a program does not have is not multiplied.
        let shown = format!("{:#}", changed("SGD.chunks*=2").unwrap_err());
        assert!(shown.contains("no chunks to multiply"), "{shown}");
        assert_eq!(changed("app.chunks*=2").unwrap(), app);
        assert_eq!(changed("SGD.chunks=80").unwrap().loop_chunks, Some(80));
        // Counts change to whole numbers and to no others.
        let machine = presets::read_machines(presets::MACHINES).unwrap()["hsw80"].clone();
        let changed = |text: &str| set(text).changed(&machine);
        let new = changed("machine.threads_per_core=2").unwrap();
        assert_eq!(new.threads_per_core, 2);
        let new = changed("machine.cores_per_socket*=2").unwrap();
        assert_eq!(new.cores_per_socket, 2 * machine.cores_per_socket);
        let error = format!("{:#}", changed("machine.sockets=1.5").unwrap_err());
        assert!(error.contains("1.5"), "{error}");
    }

    #[test]
    fn settings_that_leave_the_constants_as_they_are_depart_from_nothing() {
        for (given, expected) in [
            ("spin_wait=0.5", ""),
            ("spin_wait*=2 spin_wait*=0.5", ""),
            ("spin_wait=0.5 app.st=0", "app.st=0"),
            ("spin_wait=0.5 decision_s=0", "spin_wait=0.5 decision_s=0"),
        ] {
            let settings: Vec<Setting> = given.split(' ').map(set).collect();
            let departing = Setting::departing(&settings, &Constants::default()).unwrap();
            assert_eq!(mapper_report::table::texts(departing).join(" "), expected);
        }
    }
}
