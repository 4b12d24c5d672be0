//! The programs that experiments run, from `programs.toml`, and from `real.toml`.

use std::collections::BTreeMap;
use std::num::NonZero;

use serde::{Deserialize, Serialize};

use super::reader;
use super::real::{self, Recipe};

const FILE: &str = "programs.toml";
const TEXT: &str = include_str!("../../programs.toml");

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Threads {
    OpenMp,
    /// POSIX threads, as many as the machine has CPUs, whatever the program is given.
    Own,
    /// The same in a program that uses `mapper.h`.
    Client,
    /// A Python script; its packages bring an OpenMP runtime.
    Python,
    /// Whatever a real program has.
    #[serde(skip)]
    Real,
}

impl Threads {
    /// Whether `OMP_NUM_THREADS` sets their number; else `--threads` does.
    pub(crate) fn heed_openmp(self) -> bool {
        matches!(self, Self::OpenMp | Self::Python | Self::Real)
    }
}

/// What a run of a program costs, and so what is compared.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    #[default]
    Seconds,
    /// The 99th percentile of its latencies, in milliseconds.
    P99,
}

/// A program of `benches/workloads`, or a real one.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    #[serde(skip)]
    pub(crate) name: String,
    source: Option<String>,
    pub(crate) threads: Threads,
    /// `--size`.
    pub(crate) size: Option<u64>,
    /// `--size` is MiB of an array, larger than the caches and within memory.
    #[serde(default)]
    pub(crate) beyond_caches: bool,
    pub(crate) first_steps: NonZero<u64>,
    /// The result is the same to the last bit; else sums may be formed in another order.
    #[serde(default)]
    exact: bool,
    #[serde(default)]
    pub(crate) cost: Unit,
    pub(crate) summary: String,
    /// Of a real program.
    #[serde(skip)]
    pub(crate) recipe: Option<Recipe>,
}

impl Program {
    pub(crate) fn find(name: &str) -> anyhow::Result<Self> {
        let mut programs = table(FILE, TEXT)?;
        let real = real::table(real::FILE, real::TEXT)?.into_iter();
        programs.extend(real.map(|(name, recipe)| (name.clone(), Self::real(name, recipe))));
        reader::entry(programs, "program", name)
    }

    /// All of its work is one step.
    fn real(name: String, recipe: Recipe) -> Self {
        Self {
            name,
            source: None,
            threads: Threads::Real,
            size: None,
            beyond_caches: false,
            first_steps: NonZero::<u64>::MIN,
            exact: true,
            cost: Unit::Seconds,
            summary: recipe.summary.clone(),
            recipe: Some(recipe),
        }
    }

    /// Name of its source without the ending.
    pub(crate) fn source(&self) -> &str {
        self.source.as_deref().unwrap_or(&self.name)
    }

    /// Its name in what it prints.
    pub(crate) fn printed_name(&self) -> &str {
        match self.threads {
            Threads::Client => &self.name,
            _ => self.source(),
        }
    }

    /// Whether two checksums of the same work are the same result.
    pub(crate) fn is_same_result(&self, one: f64, other: f64) -> bool {
        match self.exact {
            true => one.to_bits() == other.to_bits(),
            false => (one - other).abs() <= 1e-6 * one.abs().max(other.abs()),
        }
    }
}

fn table(file: &str, text: &str) -> anyhow::Result<BTreeMap<String, Program>> {
    let mut programs: BTreeMap<String, Program> = reader::read(file, text)?;
    for (name, program) in &mut programs {
        program.name.clone_from(name);
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::workloads::source_folder;

    #[test]
    fn no_real_program_has_the_name_of_another() {
        let real = real::table(real::FILE, real::TEXT).unwrap();
        let own = table(FILE, TEXT).unwrap();
        for name in real.keys() {
            assert!(!own.contains_key(name), "{name}");
            assert!(Program::find(name).unwrap().recipe.is_some());
        }
    }

    #[test]
    fn every_program_has_a_source() {
        for program in table(FILE, TEXT).unwrap().values() {
            let ending = match program.threads {
                Threads::Python => "py",
                _ => "c",
            };
            let source = source_folder().join(format!("{}.{ending}", program.source()));
            assert!(source.exists(), "{}", source.display());
        }
    }

    #[test]
    fn a_bad_entry_and_an_unknown_program_are_refused_by_name() {
        let good = "[md]\nthreads = \"openmp\"\nfirst_steps = 1\nsummary = \"\"\n";
        table("p.toml", good).unwrap();
        for (bad, named) in [
            (good.replace("openmp", "fibres"), "md.threads"),
            (good.replace("= 1", "= 0"), "md.first_steps"),
            (good.to_owned() + "colour = 3\n", "md.colour"),
            (good.to_owned() + "size = \"huge\"\n", "md.size"),
        ] {
            let error = format!("{:#}", table("p.toml", &bad).unwrap_err());
            let is_named = error.starts_with("p.toml") && error.contains(named);
            assert!(is_named, "{named}: {error}");
        }
        // One that is not there, with the valid names.
        let error = Program::find("nobody").unwrap_err().to_string();
        let has = |part| error.contains(part);
        assert!(has("nobody") && has("kmeans"), "{error}");
    }

    #[test]
    fn checksums_may_differ_by_rounding_only_and_exact_ones_by_nothing() {
        let [md, fit] = ["md", "fit"].map(|name| Program::find(name).unwrap());
        assert!(md.is_same_result(1e9, 1e9 + 1.0) && md.is_same_result(0.0, 0.0));
        assert!(!md.is_same_result(1e9, 1.001e9) && !md.is_same_result(1.0, f64::NAN));
        assert!(fit.is_same_result(0.5, 0.5) && !fit.is_same_result(1e9, 1e9 + 1e-6));
    }
}
