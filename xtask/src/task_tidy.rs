//! `cargo xtask tidy`: holds the tree to the rules that no compiler checks.
//!
//! What keeps the tree easy to change are rules about it as a whole: which package may know which, which
//! file may import which, where methods of a type stand, which words users read. Every finding is one line
//! `PLACE: what is wrong; what to do`.

mod circles;
mod documents;
mod files;
mod impls;
mod modules;
mod packages;
mod rules;
mod sources;
mod words;

use std::path::Path;

use anyhow::ensure;

use self::modules::Crate;
use self::packages::Package;
use self::rules::Rules;
use self::sources::Sources;
use self::words::Words;
use crate::workspace;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print lines by package and their limits instead
    #[arg(long)]
    sizes: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let sources = Sources::read(workspace::root())?;
    let packages = Package::all()?;
    if args.sizes {
        print!("{}", Rules::read()?.sizes(&packages, &sources));
        return Ok(());
    }
    for (path, source) in &sources.rust {
        if let Some(warning) = files::length_warning(path, source) {
            println!("warning: {warning}");
        }
    }
    let findings = check(&packages, &sources)?;
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "{} findings", findings.len());
    println!("tidy");
    Ok(())
}

/// Everything that is wrong, one line each.
pub(crate) fn findings() -> anyhow::Result<Vec<String>> {
    check(&Package::all()?, &Sources::read(workspace::root())?)
}

fn check(packages: &[Package], sources: &Sources) -> anyhow::Result<Vec<String>> {
    let rules = Rules::read()?;
    let mut findings = words::check(&Words::of(&rules.words), sources);
    for package in packages {
        findings.extend(files::check_manifest(&rules, package)?);
        for path in &package.roots {
            let tree = Crate::read(sources, path);
            findings.extend(circles::check(&tree));
            findings.extend(impls::check(sources, &tree));
        }
    }
    let architecture = sources.documents.get(Path::new("ARCHITECTURE.md"));
    let architecture = architecture.map_or("", String::as_str);
    findings.extend(packages::check_table(architecture, packages));
    for (path, source) in &sources.rust {
        findings.extend(files::check_source(&rules, path, &source.text));
    }
    findings.extend(documents::check_links(workspace::root(), sources));
    findings.sort();
    findings.dedup();
    Ok(findings)
}
