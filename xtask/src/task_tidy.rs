//! `cargo xtask tidy`: holds the tree to the rules that no compiler checks.
//!
//! What keeps the tree easy to change are rules about it as a whole: which package may know which, which
//! file may import which, where methods of a type stand, which words users read. Every finding is one line
//! `PLACE: what is wrong; what to do`. What was wrong when a rule was introduced is listed in
//! `xtask/tidy-exceptions.txt`, a list that may only shrink.

mod circles;
mod documents;
mod files;
mod finding;
mod impls;
mod modules;
mod packages;
mod sizes;
mod sources;
mod words;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use self::finding::{Finding, listed, updated, without_exceptions};
use self::modules::Crate;
use self::packages::Package;
use self::sources::Sources;
use self::words::Words;
use crate::workspace;

/// Where the exceptions are.
const EXCEPTIONS: &str = "xtask/tidy-exceptions.txt";

/// Arguments of `cargo xtask tidy`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print lines by package and their limits instead
    #[arg(long)]
    sizes: bool,
    /// Remove exceptions that no longer occur, and follow files that were renamed
    #[arg(long, conflicts_with = "sizes")]
    update: bool,
}

/// Runs `cargo xtask tidy`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let checked = Checked::tree()?;
    if args.sizes {
        print!("{}", sizes::report(&checked.packages, &checked.sources));
        return Ok(());
    }
    if args.update {
        let path = workspace::root().join(EXCEPTIONS);
        let updated = updated(&exceptions()?, &checked.findings)?;
        fs::write(&path, updated).with_context(|| format!("write {}", path.display()))?;
    }
    for (path, source) in &checked.sources.rust {
        if let Some(warning) = files::length_warning(path, source) {
            println!("warning: {warning}");
        }
    }
    let findings = checked.left()?;
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!(
            "tidy; {EXCEPTIONS} has {} lines",
            listed(&exceptions()?).len()
        );
        Ok(())
    } else {
        bail!("{} findings", findings.len())
    }
}

/// Everything that is wrong and no exception, one line each.
pub(crate) fn findings() -> anyhow::Result<Vec<String>> {
    Checked::tree()?.left()
}

fn exceptions() -> anyhow::Result<String> {
    let path = workspace::root().join(EXCEPTIONS);
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// The tree, with all that is wrong in it.
struct Checked {
    packages: Vec<Package>,
    sources: Sources,
    findings: Vec<Finding>,
}

impl Checked {
    fn tree() -> anyhow::Result<Self> {
        let root = workspace::root();
        let packages = Package::all()?;
        let sources = Sources::read(root)?;
        let words = Words::read(include_str!("../tidy-words.toml"))?;
        let mut findings = Vec::new();
        for package in &packages {
            files::check_manifest(package, &mut findings)?;
            for path in &package.roots {
                let tree = Crate::read(&sources, path);
                circles::check(&tree, &mut findings);
                impls::check(&sources, &tree, &mut findings);
            }
        }
        let architecture = sources.documents.get(Path::new("ARCHITECTURE.md"));
        let architecture = architecture.map_or("", String::as_str);
        packages::check_table(architecture, &packages, &mut findings);
        for (path, source) in &sources.rust {
            files::check_source(path, &source.text, &mut findings);
        }
        documents::check_links(root, &sources, &mut findings);
        words::check(&words, &sources, &mut findings);
        Ok(Self {
            packages,
            sources,
            findings,
        })
    }

    /// What is left without the exceptions.
    fn left(&self) -> anyhow::Result<Vec<String>> {
        let file = exceptions()?;
        let mut left = without_exceptions(self.findings.clone(), &listed(&file));
        left.sort();
        left.dedup();
        Ok(left.into_iter().map(|finding| finding.text).collect())
    }
}
