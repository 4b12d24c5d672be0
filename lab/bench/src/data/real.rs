//! Real programs, from `real.toml`: what they need, what is started, and how its result is checked.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;

use serde::Deserialize;

use super::reader;

pub(super) const FILE: &str = "real.toml";
pub(super) const TEXT: &str = include_str!("../../real.toml");

/// When the result of a run is right; that of a plain run alone is.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Check {
    /// To the last bit.
    Same,
    /// Its numbers may differ by so much of their size; its other words are the same.
    Within(f64),
    Contains(String),
}

/// How a real program is made ready, started and checked.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recipe {
    pub(crate) summary: String,
    /// Whose threads it has.
    pub(crate) runtime: String,
    /// Debian packages.
    #[serde(default)]
    pub(crate) packages: Vec<String>,
    /// From PyPI, with their versions.
    #[serde(default)]
    pub(crate) wheels: Vec<String>,
    /// Commands of a shell that make its input.
    #[serde(default)]
    pub(crate) input: String,
    /// The text of `{script}`.
    #[serde(default)]
    pub(crate) script: String,
    /// What its user asks for; by default as many as the machine has CPUs.
    pub(crate) threads: Option<NonZero<usize>>,
    command: String,
    /// Commands of a shell that print what came out; they read what the program printed.
    #[serde(default = "all_of_it")]
    pub(crate) result: String,
    check: Check,
}

fn all_of_it() -> String {
    "cat".to_owned()
}

impl Recipe {
    /// The words that start it, but for `{threads}`, with its input in this folder.
    pub(crate) fn words(&self, input: &Path, python: &Path) -> Vec<String> {
        let word = |word: &str| {
            let word = word.replace("{script}", "{input}/script");
            let word = word.replace("{input}", &input.to_string_lossy());
            word.replace("{python}", &python.to_string_lossy())
        };
        self.command.split_whitespace().map(word).collect()
    }

    /// The commands that print its result, with its input in this folder.
    pub(crate) fn result_of(&self, input: &Path) -> String {
        self.result.replace("{input}", &input.to_string_lossy())
    }

    /// Whether a result is as right as this one of a plain run.
    pub(crate) fn is_right(&self, result: &str, plain: &str) -> bool {
        let is_near = |one: &str, other: &str, most: f64| match (one.parse(), other.parse()) {
            (Ok(one), Ok(other)) => {
                let (one, other): (f64, f64) = (one, other);
                (one - other).abs() <= most * one.abs().max(other.abs())
            }
            _ => one == other,
        };
        match &self.check {
            Check::Same => result == plain,
            Check::Contains(text) => result.contains(text),
            Check::Within(most) => {
                let words = || result.split_whitespace().zip(plain.split_whitespace());
                let count = |text: &str| text.split_whitespace().count();
                count(result) == count(plain) && words().all(|(a, b)| is_near(a, b, *most))
            }
        }
    }
}

pub(super) fn table(file: &str, text: &str) -> anyhow::Result<BTreeMap<String, Recipe>> {
    reader::read(file, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_says_where_its_program_comes_from_and_uses_what_it_makes() {
        let recipes = table(FILE, TEXT).unwrap();
        assert!(recipes.len() >= 25, "{}", recipes.len());
        for (name, of) in &recipes {
            let has = |what| of.command.contains(what);
            assert!(!(of.packages.is_empty() && of.wheels.is_empty()), "{name}");
            assert_eq!(has("{python}"), !of.wheels.is_empty(), "{name}");
            assert_eq!(has("{input}"), !of.input.is_empty(), "{name}");
            assert_eq!(has("{script}"), !of.script.is_empty(), "{name}");
            assert!(of.threads.is_none() || has("{threads}"), "{name}");
            let is_exact = |wheel: &String| wheel.contains("==");
            assert!(of.wheels.iter().all(is_exact), "{name}");
            // mapper-launch takes names of up to 64 such characters.
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
            assert!(name.len() <= 64 && name.chars().all(is_plain), "{name}");
        }
    }

    #[test]
    fn words_name_the_folder_of_the_input_and_the_python_with_the_wheels() {
        let text = "[a]\nsummary = \"\"\nruntime = \"\"\ncheck = \"same\"\n\
                    command = \"{python} {script} -n {threads} {input}/x\"";
        let recipe = &table("r.toml", text).unwrap()["a"];
        let words = recipe.words(Path::new("/in"), Path::new("/py"));
        assert_eq!(words, ["/py", "/in/script", "-n", "{threads}", "/in/x"]);
        let error = table("r.toml", &text.replace("same", "similar")).unwrap_err();
        assert!(error.to_string().contains("r.toml: a.check"), "{error}");
    }

    #[test]
    fn a_result_is_held_to_the_plain_one_as_its_check_says() {
        let right = |check: &str, result: &str, plain: &str| {
            let text =
                format!("[a]\nsummary = \"\"\nruntime = \"\"\ncommand = \"a\"\ncheck = {check}\n");
            table("r.toml", &text).unwrap()["a"].is_right(result, plain)
        };
        assert!(right("\"same\"", "1.0\n", "1.0\n") && !right("\"same\"", "1.0", "1.00"));
        let within = "{ within = 1e-2 }";
        assert!(right(within, "sum 1.000 -5", "sum 1.001 -5.01"));
        for wrong in ["sum 1.1 -5", "mean 1 -5", "sum 1", "sum NaN -5", ""] {
            assert!(!right(within, wrong, "sum 1 -5"), "{wrong}");
        }
        let contains = "{ contains = \" passed\" }";
        assert!(right(contains, "7 passed", "8 passed") && !right(contains, "1 failed", ""));
    }
}
