//! scikit-learn from PyPI, in a virtual environment within the build folder.
//!
//! It is installed once: a file beside it names what was installed, and only another wish installs
//! again. Without a network there is a reason instead, and what needs it is not measured.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use mapper_report::workspace;

/// What is installed. Figures of different versions are not to be compared.
const PACKAGES: [&str; 1] = ["scikit-learn>=1.5,<2"];

/// The Python of the virtual environment, which has scikit-learn.
pub(crate) fn with_scikit_learn() -> anyhow::Result<PathBuf> {
    let folder = workspace::target_dir().join("teams/venv");
    let python = folder.join("bin/python");
    let installed = folder.join("installed.txt");
    let wanted = PACKAGES.join("\n");
    let is_installed = fs_err::read_to_string(&installed).is_ok_and(|is| is == wanted)
        && has_scikit_learn(&python);
    if is_installed {
        return Ok(python);
    }
    eprintln!(
        "installing {} into {}",
        PACKAGES.join(" "),
        folder.display()
    );
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))
        .context("make a virtual environment; `cargo xtask setup python` installs what it needs")?;
    run(Command::new(&python)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--only-binary",
            ":all:",
            "--disable-pip-version-check",
        ])
        .args(PACKAGES))
    .context("install scikit-learn from PyPI")?;
    if !has_scikit_learn(&python) {
        bail!("{} cannot import sklearn", python.display());
    }
    fs_err::write(&installed, wanted)?;
    Ok(python)
}

pub(crate) fn version(python: &Path) -> Option<String> {
    let output = Command::new(python)
        .args(["-c", "import sklearn; print(sklearn.__version__)"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.is_empty()).then(|| text.trim().to_owned())
}

fn has_scikit_learn(python: &Path) -> bool {
    version(python).is_some()
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {}", Path::new(command.get_program()).display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<_> = said.trim().lines().rev().take(3).collect();
        let last: Vec<_> = last.into_iter().rev().collect();
        bail!("{} ({})", last.join("; "), output.status);
    }
    Ok(())
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
    }

    #[test]
    fn a_python_that_is_not_there_has_no_scikit_learn() {
        assert_eq!(version(Path::new("/nonexistent/python")), None);
    }
}
