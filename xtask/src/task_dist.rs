//! `cargo xtask dist`: a Debian package out of what `cargo xtask install` puts in place.
//!
//! [`package`] lays the files out as the policy of Debian wants them and packs them; [`documents`] has the
//! programs write their manual pages and completions, [`copyright`] says whose work it is. What needs judgement (maintainer scripts, copyright, what
//! lintian is told) lies in `deploy/debian`. The same source, toolchain and folder give the same package, byte
//! for byte: every time in it is `SOURCE_DATE_EPOCH`, or that of the last commit.

mod copyright;
mod documents;
mod package;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use crate::task_install;
use crate::task_setup::{self, Purpose};
use crate::workspace;

pub(crate) use package::{Revision, pack};

/// Makes a Debian package
///
/// Builds everything and packs programs, libraries, units, configuration, manual pages and completions.
/// Installed, it is enabled and started; purged, nothing is left.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Put the package here [default: dist in cargo's folder]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// How often this version has been packed: the part of the package's version after the hyphen
    #[arg(long, value_name = "N", default_value_t = Revision::FIRST)]
    revision: Revision,
    /// Take what was built from this folder, such as target/release, and build nothing
    #[arg(long, value_name = "FOLDER")]
    built: Option<PathBuf>,
    /// Check the package with lintian, and fail if it finds anything
    #[arg(long)]
    lint: bool,
}

/// Runs `cargo xtask dist`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let lint = args.lint.then_some(Purpose::Lint);
    let purposes: Vec<Purpose> = [Purpose::Build, Purpose::Package]
        .into_iter()
        .chain(lint)
        .collect();
    task_setup::require(&purposes)?;
    let built = match &args.built {
        Some(folder) => folder.clone(),
        None => {
            eprintln!("building (minutes, the first time)");
            task_install::build()?;
            workspace::target_dir().join("release")
        }
    };
    let out = match &args.out {
        Some(folder) => folder.clone(),
        None => workspace::target_dir().join("dist"),
    };
    eprintln!("packing (half a minute)");
    let package = pack(&built, args.revision, &out)?;
    if args.lint {
        eprintln!("checking with lintian");
        check(&package)?;
    }
    let content = std::fs::read(&package).with_context(|| format!("read {}", package.display()))?;
    println!("{}", package.display());
    eprintln!(
        "{:.1} MB, SHA-256 {:x}; install it with: sudo apt install {}",
        content.len() as f64 / 1e6,
        Sha256::digest(&content),
        std::path::absolute(&package)?.display()
    );
    Ok(())
}

fn check(package: &Path) -> anyhow::Result<()> {
    let status = Command::new("lintian")
        .args([
            "--fail-on",
            "error,warning,info",
            "--display-info",
            "--allow-root",
        ])
        .arg(package)
        .status()
        .context("start lintian")?;
    if !status.success() {
        bail!("lintian finds fault with {}; see above", package.display());
    }
    Ok(())
}
