//! `cargo xtask vectors DIR`: holds the code to a folder of golden tests.
//!
//! A file of vectors is JSON: a note, and groups of cases, each with an id, inputs and what must
//! come out. How its name begins says which checks a file needs ([`registry`]). Every case
//! that fails is one line with file, id, place, expected and got; every file ends with a count. A
//! file that no check knows is named too: nothing is passed over in silence. The task fails when a
//! case fails or a file cannot be read.

mod case;
mod compare;
mod cpr;
mod mapper_alloc;
mod nucore;
mod nupoco;
mod registry;
mod sam_mapping;
mod sim_steady;

use anyhow::{Context as _, bail};
pub use nucore::{Optimum, optimum as nucore_optimum};
use registry::{Check, Outcome};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Holds the code to a folder of golden tests
#[derive(clap::Parser)]
#[command(name = "cargo xtask vectors")]
pub struct Args {
    /// A folder of vector files, for example tests/vectors
    dir: PathBuf,
}

/// Runs `cargo xtask vectors`.
///
/// # Errors
/// When a case fails or a file cannot be read.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = check_folder(&args.dir)?;
    for line in &folder.lines {
        println!("{line}");
    }
    println!("{} passed, {} failed", folder.passed, folder.failed);
    match folder.failed + folder.unreadable {
        0 => Ok(()),
        _ => bail!(
            "{} cases failed, {} files unreadable",
            folder.failed,
            folder.unreadable
        ),
    }
}

/// What became of a folder.
#[derive(Default, Debug)]
pub struct Folder {
    /// What there is to tell, in the order of the file names.
    pub lines: Vec<String>,
    /// Cases that passed.
    pub passed: usize,
    /// Cases that failed.
    pub failed: usize,
    /// Files that are no JSON.
    pub unreadable: usize,
}

/// Checks every file of a folder.
///
/// # Errors
/// When the folder cannot be read or has no case.
pub fn check_folder(dir: &Path) -> anyhow::Result<Folder> {
    let mut paths = fs::read_dir(dir)
        .and_then(|entries| {
            entries
                .map(|e| e.map(|e| e.path()))
                .collect::<Result<Vec<_>, _>>()
        })
        .with_context(|| format!("read folder {}", dir.display()))?;
    paths.sort();
    let mut folder = Folder::default();
    // The package of the checks stands in the folder of the kept files.
    let files = paths.iter().filter(|path| {
        let name = path.file_name().unwrap_or_default();
        path.is_file() && name != "README.md" && name != "Cargo.toml"
    });
    for path in files {
        folder.check_file(path);
    }
    if folder.passed + folder.failed + folder.unreadable == 0 {
        bail!(
            "no case to check in {}; give a folder of vector files",
            dir.display()
        );
    }
    Ok(folder)
}

impl Folder {
    fn check_file(&mut self, path: &Path) {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Some(check) = registry::check_for(&name) else {
            let known = registry::prefixes().join(", ");
            self.lines.push(format!(
                "{name}: unknown file name; known ones begin with {known}"
            ));
            return;
        };
        let file = match read(path) {
            Ok(file) => file,
            Err(error) => {
                self.unreadable += 1;
                self.lines.push(format!("FAIL {error:#}"));
                return;
            }
        };
        let outcomes = match check {
            Check::Groups(groups) => registry::check_groups(groups, &file),
            Check::Parameters => {
                self.lines.push(format!("{name}: parameters, not checks"));
                return;
            }
        };
        let passed = outcomes.iter().filter(|o| o.failures.is_empty()).count();
        let failed = outcomes.len() - passed;
        for Outcome { id, failures } in &outcomes {
            if !failures.is_empty() {
                self.lines
                    .push(format!("FAIL {name} {id}: {}", failures.join("; ")));
            }
        }
        self.lines
            .push(format!("{name}: {passed} of {} passed", outcomes.len()));
        self.passed += passed;
        self.failed += failed;
    }
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    // serde_json says line and column.
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
    }

    fn check_files(files: &[(&str, &str)]) -> Folder {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        check_folder(dir.path()).unwrap()
    }

    /// A kept file with one of its expected numbers changed.
    fn spoilt(name: &str, from: &str, to: &str) -> String {
        let text = fs::read_to_string(kept().join(name)).unwrap();
        assert!(text.contains(from));
        text.replacen(from, to, 1)
    }

    #[test]
    fn a_wrong_number_is_reported_with_its_place() {
        let text = spoilt("nupoco_smp.json", "121.0526316", "121.1");
        let folder = check_files(&[("nupoco_smp.json", &text)]);
        assert_eq!((folder.passed, folder.failed), (11, 1));
        assert_eq!(
            folder.lines[0],
            "FAIL nupoco_smp.json smp-003: MRT: expected 121.1, got 121.05263157894738"
        );
        assert_eq!(folder.lines[1], "nupoco_smp.json: 11 of 12 passed");
    }

    #[test]
    fn every_kind_of_file_notices_a_wrong_result() {
        for (name, from, to) in [
            ("nupoco_coloc.json", "0.3853211009", "0.3853311009"),
            ("nupoco_policies.json", "58.33333335", "58.334"),
            ("nupoco_multinode.json", "4.740941361", "4.740951361"),
            ("nupoco_alg1.json", "3.740941361", "3.740951361"),
            ("nupoco_alg2.json", "\"cores\": 2", "\"cores\": 1"),
            ("cpr.json", "62.31831058", "62.3184"),
            ("mapper_alloc.json", "12.17560976", "12.1757"),
            (
                "mapper_alloc.json",
                "\"verdict\": \"continue\"",
                "\"verdict\": \"keep\"",
            ),
            ("sim_steady.json", "15.41911091", "15.44"),
            ("sim_steady.json", "0.004082771559", "0.0041"),
            ("nucore.json", "\"total_bw\": 4.04", "\"total_bw\": 4.05"),
            ("nucore.json", "\"total_cores\": 19", "\"total_cores\": 18"),
        ] {
            let folder = check_files(&[(name, &spoilt(name, from, to))]);
            assert_eq!(folder.failed, 1, "{name} with {to}: {:#?}", folder.lines);
        }
    }

    #[test]
    fn another_file_of_a_known_kind_is_checked_by_how_its_name_begins() {
        let text = fs::read_to_string(kept().join("nupoco_smp.json")).unwrap();
        let folder = check_files(&[("nupoco_smp_2.json", &text)]);
        assert_eq!((folder.passed, folder.failed), (12, 0));
    }

    #[test]
    fn files_that_are_not_checked_are_named() {
        let cases = fs::read_to_string(kept().join("nupoco_smp.json")).unwrap();
        let folder = check_files(&[
            ("nupoco_smp.json", &cases),
            ("sim_apps.json", "{}"),
            ("surprise.json", "{}"),
        ]);
        assert_eq!(folder.lines[1], "sim_apps.json: parameters, not checks");
        assert!(
            folder.lines[2].starts_with("surprise.json: unknown file name; known ones begin with")
        );
    }

    #[test]
    fn bad_json_is_reported_with_file_and_place_and_fails() {
        let folder = check_files(&[("nupoco_smp.json", "{\n \"cases\": [}\n")]);
        assert_eq!(folder.unreadable, 1);
        assert!(
            folder.lines[0].contains("nupoco_smp.json is not JSON")
                && folder.lines[0].contains("line 2 column"),
            "{}",
            folder.lines[0]
        );
    }

    #[test]
    fn a_case_that_cannot_be_read_fails_with_its_place() {
        let text = r#"{"cases": [
            {"id": "x", "inputs": {"N": "four", "M": 16, "MRR": 0, "inv_mu": 50}, "expect": {}},
            {"id": "y", "inputs": {"N": 4, "M": 16, "MRR": 0, "inv_mu": 50}}
        ], "surprises": []}"#;
        let folder = check_files(&[("nupoco_smp.json", text)]);
        assert_eq!(folder.failed, 3);
        assert!(folder.lines[0].starts_with("FAIL nupoco_smp.json x: inputs.N: invalid type"));
        assert_eq!(folder.lines[1], "FAIL nupoco_smp.json y: expect is missing");
        assert_eq!(
            folder.lines[2],
            "FAIL nupoco_smp.json surprises: no check for this group"
        );
    }

    #[test]
    fn a_folder_without_cases_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check_folder(dir.path()).is_err());
        assert!(check_folder(&dir.path().join("missing")).is_err());
    }
}
