//! Whose work the package is: mapper's own and that of every crate that is linked into it.
//!
//! Programs in Rust hold the code of the crates they use, so the package has to carry their copyright notices
//! and licences. The list is made anew each time, out of what cargo says it links (without crates that only
//! run while building) and what the crates' sources say of their authors. What needs judgement, the texts of
//! licences, stands in `deploy/debian/copyright`; a crate under a licence that is not there stops the work. What
//! was built is looked into as well: Rust's messages of panics name the source files of the crates, and one
//! that is not in the list means that the list is not of this build.
//!
//! The form is Debian's (<https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/>).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use crate::task_install::PACKAGES;
use crate::workspace;

/// Where cargo keeps the sources of crates, as it is found in what it builds.
const SOURCES: &[u8] = b"/registry/src/";

/// What files are called that tell of copyright, in capitals.
const TELLING: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
];

/// A crate of others that is linked into the package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Linked {
    /// Name and version as in the name of its folder: `libc-0.2.191`.
    folder: String,
    /// Who made it, a line each; never empty.
    copyright: Vec<String>,
    /// Its licence, as its manifest says it (SPDX).
    license: String,
}

/// A crate in what `cargo metadata` tells.
#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    authors: Vec<String>,
    repository: Option<String>,
    manifest_path: std::path::PathBuf,
    /// Where it comes from; nothing for mapper's own.
    source: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// The crates of others that are linked into what the package holds, in order of their names.
pub(super) fn linked() -> anyhow::Result<Vec<Linked>> {
    let mut tree = vec!["tree", "--prefix=none", "--no-dedupe", "--format={p}"];
    tree.push("--edges=normal,no-proc-macro");
    for package in PACKAGES {
        tree.extend(["--package", package]);
    }
    let tree = cargo(&tree)?;
    // `libc v0.2.191`, with more behind it where the crate is not from a registry.
    let lines = tree.lines().filter(|line| !line.is_empty());
    let in_tree: BTreeSet<(&str, &str)> = lines
        .map(|line| {
            let (name, rest) = line.split_once(" v")?;
            Some((name, rest.split(' ').next()?))
        })
        .collect::<Option<_>>()
        .with_context(|| format!("cargo tree printed {tree:?}"))?;
    let metadata: Metadata = serde_json::from_str(&cargo(&["metadata", "--format-version=1"])?)
        .context("read what cargo metadata printed")?;
    let mut linked: Vec<Linked> = metadata
        .packages
        .iter()
        .filter(|package| package.source.is_some())
        .filter(|package| in_tree.contains(&(&*package.name, &*package.version)))
        .map(Linked::read)
        .collect::<anyhow::Result<_>>()?;
    linked.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(linked)
}

fn cargo(arguments: &[&str]) -> anyhow::Result<String> {
    super::package::output(workspace::cargo().args(arguments).arg("--locked"))
}

impl Linked {
    fn read(package: &Package) -> anyhow::Result<Self> {
        let folder = format!("{}-{}", package.name, package.version);
        let license = package.license.clone().with_context(|| {
            format!("crate {folder} names no licence; find out what it is under, or do without it")
        })?;
        let sources = package.manifest_path.parent().unwrap_or(Path::new("/"));
        let mut copyright = notices(sources)?;
        if copyright.is_empty() {
            copyright.clone_from(&package.authors);
        }
        if copyright.is_empty() {
            let place = package.repository.as_deref().unwrap_or("crates.io");
            copyright = vec![format!("the contributors of {} ({place})", package.name)];
        }
        Ok(Self {
            folder,
            copyright,
            license,
        })
    }

    fn paragraph(&self) -> anyhow::Result<String> {
        let mut text = format!("Files: {}/*\n", self.folder);
        for (line, who) in self.copyright.iter().enumerate() {
            let start = if line == 0 {
                "Copyright:"
            } else {
                "          "
            };
            let _ = writeln!(text, "{start} {who}");
        }
        let _ = writeln!(text, "License: {}", self.license()?);
        Ok(text)
    }

    /// The licence in Debian's words.
    fn license(&self) -> anyhow::Result<String> {
        let spdx = self.license.replace(" / ", "/").replace('/', " OR ");
        let text = spdx
            .replace(") AND ", ", and ")
            .replace(" AND ", " and ")
            .replace(" OR ", " or ")
            .replace(" WITH ", " with ");
        let text = text.trim_start_matches('(').to_owned();
        ensure!(
            !text.contains(['(', ')']),
            "crate {} is under {:?}, which `License: …` cannot say in words yet",
            self.folder,
            self.license
        );
        Ok(text)
    }
}

/// The notices of copyright in the files of a crate that tell of it.
fn notices(sources: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(sources).with_context(|| {
        let sources = sources.display();
        format!("look into {sources}; `cargo fetch --locked` gets the sources of crates")
    })?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_uppercase();
        if path.is_file() && TELLING.iter().any(|start| name.starts_with(start)) {
            files.push(path);
        }
    }
    files.sort();
    let mut found: Vec<String> = Vec::new();
    for path in files {
        let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        for line in String::from_utf8_lossy(&bytes).lines() {
            if let Some(notice) = notice(line)
                && !found.contains(&notice)
            {
                found.push(notice);
            }
        }
    }
    Ok(found)
}

/// What a line says after "Copyright", if it is a notice and no talk of copyright or a form to fill in.
fn notice(line: &str) -> Option<String> {
    let line = line.trim().trim_start_matches(['/', '*', '#', ' ']);
    let said = line.strip_prefix("Copyright ")?.trim();
    let is_form = said.contains(['[', '{', '<']) && said.contains("yyy");
    let named = said
        .trim_start_matches("(c)")
        .trim_start_matches("(C)")
        .trim_start_matches('©')
        .trim_start();
    let is_marked = named.len() < said.len() || named.starts_with(|c: char| c.is_ascii_digit());
    let is_named = named.contains(char::is_alphabetic);
    let by_contributors = named.starts_with("Individual contributors");
    let is_notice = is_named && !is_form && (is_marked || by_contributors);
    is_notice.then(|| said.to_owned())
}

/// The whole file: what the checkout says of mapper and of licences, and a paragraph for each crate.
pub(super) fn file(shipped: &str, linked: &[Linked]) -> anyhow::Result<String> {
    let texts: BTreeSet<&str> = shipped
        .split("\n\n")
        .filter_map(|paragraph| paragraph.strip_prefix("License: "))
        .filter_map(|paragraph| paragraph.lines().next())
        .collect();
    let mut crates = String::new();
    for one in linked {
        let license = one.license()?;
        let ids = license.replace(", and ", " or ").replace(" and ", " or ");
        for id in ids.split(" or ") {
            ensure!(
                texts.contains(id),
                "crate {} is under {:?}: put the text of {id} into deploy/debian/copyright, or do \
                 without the crate",
                one.folder,
                one.license
            );
        }
        let _ = writeln!(crates, "{}", one.paragraph()?);
    }
    // The files of a package come before the texts of its licences.
    let Some(place) = shipped.find("\n\nLicense: ") else {
        bail!("deploy/debian/copyright holds no text of a licence");
    };
    let (before, after) = shipped.split_at(place + 2);
    Ok(format!("{before}{crates}{after}"))
}

/// Looks whether a built file holds crates that are not in the list.
pub(super) fn check(path: &Path, linked: &[Linked]) -> anyhow::Result<()> {
    let content = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let listed: BTreeSet<&str> = linked.iter().map(|one| &*one.folder).collect();
    for found in crates_in(&content) {
        ensure!(
            listed.contains(&*found),
            "{} holds the crate {found}, which Cargo.lock does not have cargo link: build it from this \
             checkout",
            path.display()
        );
    }
    Ok(())
}

/// The crates whose source files are named in a built file, by their folders.
fn crates_in(content: &[u8]) -> BTreeSet<String> {
    let places = content
        .windows(SOURCES.len())
        .enumerate()
        .filter(|(_, window)| *window == SOURCES)
        .map(|(place, _)| &content[place + SOURCES.len()..]);
    // The registry, the crate, its files.
    let folder = |rest: &[u8]| {
        let part = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'/');
        let registry = part(rest)?;
        let rest = rest.get(registry + 1..)?;
        let folder = std::str::from_utf8(rest.get(..part(rest)?)?).ok()?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        (!folder.is_empty() && folder.chars().all(is_name)).then(|| folder.to_owned())
    };
    places.filter_map(folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> String {
        fs::read_to_string(workspace::root().join("deploy/debian/copyright")).unwrap()
    }

    fn under(license: &str) -> Linked {
        Linked {
            folder: "x-1.0.0".to_owned(),
            copyright: vec!["2020 X".to_owned()],
            license: license.to_owned(),
        }
    }

    #[test]
    fn every_crate_in_what_is_built_is_named_with_its_authors_and_a_licence_whose_text_is_there() {
        let linked = linked().unwrap();
        let text = file(&shipped(), &linked).unwrap();
        let packages = ["mapperd", "mapper-launch", "mapperctl", "mapper-omp-shim"];
        let mut build = workspace::cargo();
        build.args(["build", "--quiet"]);
        build.args(packages.map(|package| format!("--package={package}")));
        assert!(build.status().unwrap().success());
        let built = workspace::target_dir().join("debug");
        let mut found = BTreeSet::new();
        for name in ["mapperd", "mapper-launch", "mapperctl", "libmapper_omp.so"] {
            let path = built.join(name);
            check(&path, &linked).unwrap();
            found.extend(crates_in(&fs::read(path).unwrap()));
        }
        assert!(found.len() > 30, "{found:?}");
        for folder in found {
            let start = format!("Files: {folder}/*\nCopyright: ");
            assert!(text.contains(&start), "{folder}");
        }
        for paragraph in text
            .split("\n\n")
            .filter(|text| text.starts_with("Files: "))
        {
            assert!(paragraph.contains("\nLicense: "), "{paragraph}");
            assert!(!paragraph.contains("Copyright: \n"), "{paragraph}");
        }
        // What only runs while building is not in the package.
        assert!(!text.contains("Files: bindgen-") && !text.contains("Files: serde_derive-"));
    }

    #[test]
    fn a_licence_whose_text_is_not_there_is_refused_with_what_would_mend_it() {
        let told = |license| {
            let error = file(&shipped(), &[under(license)]).unwrap_err();
            error.to_string()
        };
        let error = told("GPL-3.0-only");
        assert!(
            error.contains("x-1.0.0") && error.contains("text of GPL-3.0-only"),
            "{error}"
        );
        let error = told("MIT AND (BSD-2-Clause OR Zlib)");
        assert!(error.contains("cannot say"), "{error}");
    }

    #[test]
    fn expressions_are_said_in_debians_words() {
        for (spdx, words) in [
            ("MIT", "MIT"),
            ("MIT/Apache-2.0", "MIT or Apache-2.0"),
            (
                "(MIT OR Apache-2.0) AND Unicode-3.0",
                "MIT or Apache-2.0, and Unicode-3.0",
            ),
            (
                "Apache-2.0 WITH LLVM-exception OR MIT",
                "Apache-2.0 with LLVM-exception or MIT",
            ),
        ] {
            assert_eq!(under(spdx).license().unwrap(), words);
            file(&shipped(), &[under(spdx)]).unwrap();
        }
    }

    #[test]
    fn notices_are_told_from_talk_of_copyright() {
        for (line, told) in [
            ("Copyright (c) 2019, Standard", Some("(c) 2019, Standard")),
            ("// Copyright 2018 Rand", Some("2018 Rand")),
            (
                "   Copyright Individual contributors",
                Some("Individual contributors"),
            ),
            ("   Copyright [yyyy] [name of copyright owner]", None),
            ("   Copyright {yyyy} {name of copyright owner}", None),
            ("Copyright notices are retained in src/*", None),
            ("Copyrights in the project are retained", None),
            ("      copyright license to reproduce", None),
            ("Copyright (c) 2015", None),
        ] {
            assert_eq!(notice(line).as_deref(), told, "{line}");
        }
    }

    #[test]
    fn a_build_with_a_crate_that_is_not_listed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mapperd");
        let named = "\u{7f}ELF /home/x/.cargo/registry/src/index.crates.io-1/x-1.0.0/src/lib.rs\0";
        fs::write(&path, named).unwrap();
        check(&path, &[under("MIT")]).unwrap();
        fs::write(&path, named.replace("x-1.0.0", "y-2.0.0")).unwrap();
        let error = check(&path, &[under("MIT")]).unwrap_err().to_string();
        assert!(
            error.contains("y-2.0.0") && error.contains("mapperd"),
            "{error}"
        );
    }
}
