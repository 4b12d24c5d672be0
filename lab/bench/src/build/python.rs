//! scikit-learn from PyPI, in a virtual environment within the build folder.
//!
//! It is installed once: a file beside it names what was installed, and only another wish installs
//! again. Without a network there is a reason instead, and what needs it is not measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, anyhow, ensure};

use super::output;
use mapper_report::workspace;

/// What is installed. Figures of different versions are not to be compared.
const PACKAGE: &str = "scikit-learn>=1.5,<2";

/// The Python of the virtual environment, which has scikit-learn.
pub(crate) fn with_scikit_learn() -> anyhow::Result<PathBuf> {
    let folder = workspace::target_dir().join("teams/venv");
    let python = folder.join("bin/python");
    let installed = folder.join("installed.txt");
    let is_noted = fs_err::read_to_string(&installed).is_ok_and(|is| is == PACKAGE);
    if is_noted && version(&python).is_some() {
        return Ok(python);
    }
    eprintln!("installing {PACKAGE} into {}", folder.display());
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))
        .context("make a virtual environment; `cargo xtask setup python` installs what it needs")?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"]);
    pip.arg("--disable-pip-version-check").arg(PACKAGE);
    run(&mut pip).context("install scikit-learn from PyPI")?;
    let can_import = version(&python).is_some();
    ensure!(can_import, "{} cannot import sklearn", python.display());
    fs_err::write(&installed, PACKAGE)?;
    Ok(python)
}

pub(crate) fn version(python: &Path) -> Option<String> {
    let import = ["-c", "import sklearn; print(sklearn.__version__)"];
    let text = output(Command::new(python).args(import)).ok()?;
    (!text.is_empty()).then(|| text.trim().to_owned())
}

/// Runs a command; of a failure the last lines are enough.
pub(super) fn run(command: &mut Command) -> anyhow::Result<()> {
    output(command).map(drop).map_err(|error| {
        let text = error.to_string();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.len().saturating_sub(3).max(1);
        anyhow!("{} {}", lines[0], lines[last.min(lines.len())..].join("; "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_with_its_last_lines() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo one >&2; echo two >&2; exit 3"]);
        let said = run(&mut command).unwrap_err().to_string();
        assert!(said.contains("one; two") && said.contains('3'), "{said}");
        // A Python that is not there has no scikit-learn.
        assert_eq!(version(Path::new("/nonexistent/python")), None);
    }
}
