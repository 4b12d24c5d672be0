//! `cargo xtask dist --wheel`: a Python wheel with everything that a user without root needs.
//!
//! Programs, libraries and documents go where an installation by prefix has them, below the virtual environment or
//! `~/.local`. The oldest glibc that it runs with is part of its name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use fs_err as fs;

use super::contents::{Use, VERSION, put, source_date, write};
use super::relocatable::{Folders, lay_out};
use crate::environment;
use crate::workspace::{self, output};

/// Packs what was built in the folder `built` into the folder `out`; gives the wheel's path.
pub(crate) fn pack(built: &Path, use_of: Use, out: &Path) -> anyhow::Result<PathBuf> {
    let tools = environment::with("requirements-wheel.txt")?;
    fs::create_dir_all(out)?;
    let work = tempfile::tempdir_in(out)?;
    let tree = work.path().join("tree");
    let info = tree.join(format!("mapper_run-{VERSION}.dist-info"));
    let data = tree.join(format!("mapper_run-{VERSION}.data"));
    for entry in fs::read_dir(workspace::root().join("python/mapper"))? {
        let from = entry?.path();
        if from.is_file() {
            let name = from.file_name().context("a file without a name")?;
            put(&from, &tree.join("mapper").join(name), 0o644)?;
        }
    }
    let folders = Folders {
        programs: data.join("scripts"),
        prefix: data.join("data"),
        licences: info.join("licenses"),
        // Where PEP 770 has it.
        sbom: info.join("sboms"),
    };
    let glibc = lay_out(built, use_of, &folders)?.minor;
    let tag = format!("py3-none-manylinux_2_{glibc}_{}", std::env::consts::ARCH);
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: mapper {VERSION}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    write(&info.join("WHEEL"), &wheel)?;
    write(&info.join("METADATA"), &metadata(&folders.licences)?)?;

    let mut wheel = Command::new(tools.join("bin/wheel"));
    wheel.env("SOURCE_DATE_EPOCH", source_date()?);
    output(wheel.arg("pack").arg("--dest-dir").arg(out).arg(&tree))?;
    Ok(out.join(format!("mapper_run-{VERSION}-{tag}.whl")))
}

/// The head of `python/METADATA` with version and licences, and the package's README.
fn metadata(licences: &Path) -> anyhow::Result<String> {
    let folder = workspace::root().join("python");
    let head = fs::read_to_string(folder.join("METADATA"))?.replace("@VERSION@", VERSION);
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(licences)? {
        names.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    let lines: String = names
        .iter()
        .map(|name| format!("License-File: {name}\n"))
        .collect();
    let readme = fs::read_to_string(folder.join("README.md"))?;
    Ok(format!("{head}{lines}\n{readme}"))
}
