//! Makes real programs ready: their Debian packages, what they need from PyPI, and their input.
//!
//! What is made lies below `real` in the build folder, beside the text that it was made from, and is made again when
//! that text is another one. What cannot be had is an error with its reason, and that program is not measured.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use mapper_report::workspace;

use super::{output, python};
use crate::data::Recipe;
use crate::run::processes::PRINTED;

/// Where real programs have what they need.
pub(crate) fn folder() -> Result<PathBuf> {
    let folder = workspace::target_dir().join("real");
    fs_err::create_dir_all(&folder)?;
    Ok(std::path::absolute(folder)?)
}

/// The words that start a program of this name, for which everything is there.
pub(crate) fn words(name: &str, recipe: &Recipe) -> Result<Vec<String>> {
    let folder = folder()?;
    Ok(recipe.words(&folder.join(name), &folder.join("venv/bin/python")))
}

/// Installs and makes what is not there yet.
pub(crate) fn prepare(name: &str, recipe: &Recipe) -> Result<()> {
    let missing: Vec<&String> = missing(&recipe.packages);
    ensure!(
        missing.is_empty(),
        "Debian packages {missing:?} are not installed; `cargo xtask setup real` installs them"
    );
    let folder = folder()?;
    install(&recipe.wheels, &folder.join("venv"))?;
    make_input(recipe, &folder.join(name))
}

fn missing(packages: &[String]) -> Vec<&String> {
    let is_missing = |name: &&String| {
        let mut query = Command::new("dpkg-query");
        query.args(["-W", "-f", "${db:Status-Status}", name.as_str()]);
        !output(&mut query).is_ok_and(|status| status == "installed")
    };
    packages.iter().filter(is_missing).collect()
}

/// Has the virtual environment contain these wheels. A file in it lists what was installed.
fn install(wheels: &[String], environment: &Path) -> Result<()> {
    let noted = environment.join("installed.txt");
    let mut installed = fs_err::read_to_string(&noted).unwrap_or_default();
    let is_new = |wheel: &&String| !installed.lines().any(|line| line == *wheel);
    let new: Vec<&String> = wheels.iter().filter(is_new).collect();
    if new.is_empty() {
        return Ok(());
    }
    eprintln!("installing {new:?} into {}", environment.display());
    if !noted.exists() {
        python::run(
            Command::new("python3")
                .args(["-m", "venv"])
                .arg(environment),
        )
        .context("make a virtual environment; `cargo xtask setup python` installs what it needs")?;
    }
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"]);
    pip.arg("--disable-pip-version-check").args(&new);
    python::run(&mut pip).with_context(|| format!("install {new:?} from PyPI"))?;
    for wheel in new {
        installed += &format!("{wheel}\n");
    }
    Ok(fs_err::write(&noted, installed)?)
}

fn make_input(recipe: &Recipe, folder: &Path) -> Result<()> {
    let (made, from) = (
        folder.join("made"),
        format!("{}{}", recipe.input, recipe.script),
    );
    if fs_err::read_to_string(&made).is_ok_and(|text| text == from) {
        return Ok(());
    }
    if folder.exists() {
        fs_err::remove_dir_all(folder)?;
    }
    fs_err::create_dir_all(folder)?;
    fs_err::write(folder.join("script"), recipe.script.trim_start())?;
    let mut shell = Command::new("sh");
    shell.args(["-ec", &recipe.input]).current_dir(folder);
    python::run(&mut shell).context("make its input")?;
    Ok(fs_err::write(&made, from)?)
}

/// What the program of this name came to that ran in this folder.
pub(crate) fn result(name: &str, recipe: &Recipe, folder: &Path) -> Result<String> {
    let file = folder.join(PRINTED);
    let commands = recipe.result_of(&self::folder()?.join(name));
    let mut shell = Command::new("sh");
    shell.args(["-c", &commands]).current_dir(folder);
    shell
        .stdin(fs_err::File::open(&file)?.into_parts().0)
        .stderr(Stdio::null());
    let found = shell.output().context("look at its result")?;
    Ok(String::from_utf8_lossy(&found.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Program;

    fn recipe(input: &str) -> Recipe {
        let mut recipe = Program::find("zstd").unwrap().recipe.unwrap();
        recipe.input = input.to_owned();
        recipe
    }

    #[test]
    fn an_input_is_made_once_for_each_wording_and_a_failure_names_its_last_lines() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, log) = (parent.path().join("zstd"), parent.path().join("log"));
        for (input, times) in [
            ("echo a >> ../log", 1),
            ("echo a >> ../log", 1),
            ("echo  a >> ../log", 2),
        ] {
            make_input(&recipe(input), &folder).unwrap();
            let text = std::fs::read_to_string(&log).unwrap();
            assert_eq!(text.lines().count(), times, "{input}");
        }
        let error = make_input(&recipe("echo broken >&2; exit 3; true"), &folder).unwrap_err();
        assert!(format!("{error:#}").contains("broken"), "{error:#}");
    }

    #[test]
    fn a_result_is_made_of_what_was_printed_and_of_files_and_a_missing_package_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("out", "file"), (PRINTED, "printed ")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let mut recipe = recipe("");
        recipe.result = "cat; cat out; cat missing; dirname {input}".to_owned();
        let found = result("zstd", &recipe, folder.path()).unwrap();
        let parent = self::folder().unwrap().display().to_string();
        assert_eq!(found, format!("printed file{parent}\n"));
        recipe.packages = vec!["no-such-package".to_owned()];
        let error = prepare("zstd", &recipe).unwrap_err().to_string();
        assert!(
            error.contains("no-such-package") && error.contains("setup real"),
            "{error}"
        );
    }
}
