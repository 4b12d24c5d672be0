//! Where results go: claimed before anything is computed, so that no hour is spent on what cannot be written,
//! and each written even if another cannot be.
//!
//! Invariant: no two outputs are one file, and none is a file that was read.

use super::arguments::Args;
use anyhow::{Context as _, bail};
use mapper_report::output::{OutputFile, check_writable};
use std::fs;
use std::path::{Path, PathBuf};

/// In the folder of the report.
const PAGE: &str = "eval.html";
const DATA: &str = "eval.json";

pub(super) struct Outputs {
    json: Option<OutputFile>,
    summary: Option<OutputFile>,
    folder: Option<PathBuf>,
}

pub(super) struct Texts {
    pub(super) json: String,
    pub(super) summary: String,
    pub(super) page: String,
}

impl Outputs {
    /// Claims what the command line names; the protocol is read from this file.
    pub(super) fn claim(args: &Args, protocol: &Path) -> anyhow::Result<Self> {
        if args.out.as_deref() == Some(Path::new("-")) {
            bail!("--out: - is no folder; name one, or ./- if it is to be called so");
        }
        check_apart(args, protocol)?;
        if let Some(folder) = &args.out {
            check_writable(folder)?;
        }
        let claim = |file: &Option<PathBuf>, flag| {
            let claimed = file.as_deref().map(OutputFile::claim).transpose();
            claimed.context(flag)
        };
        Ok(Self {
            json: claim(&args.json, "--json")?,
            summary: claim(&args.summary, "--summary")?,
            folder: args.out.clone(),
        })
    }

    /// The page that is written, if one is.
    pub(super) fn page(&self) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(PAGE))
    }

    /// Writes all that can be written.
    ///
    /// # Errors
    /// Names everything that could not.
    pub(super) fn write(self, texts: &Texts) -> anyhow::Result<()> {
        let mut failed = Vec::new();
        let mut note = |done: anyhow::Result<()>| {
            failed.extend(done.err().map(|error| format!("{error:#}")));
        };
        if let Some(folder) = &self.folder {
            for (name, text) in [(DATA, &texts.json), (PAGE, &texts.page)] {
                let path = folder.join(name);
                let done = fs::write(&path, text);
                note(done.with_context(|| format!("write {}", path.display())));
            }
        }
        for (file, text) in [(self.json, &texts.json), (self.summary, &texts.summary)] {
            note(file.map_or(Ok(()), |file| file.write(text).map(drop)));
        }
        if !failed.is_empty() {
            bail!("{}", failed.join("; "));
        }
        Ok(())
    }
}

/// Refuses to write two things into one file, or what is written into one that is read.
fn check_apart(args: &Args, protocol: &Path) -> anyhow::Result<()> {
    let written = [
        ("--json", args.json.clone()),
        ("--summary", args.summary.clone()),
        ("--out", args.out.as_ref().map(|folder| folder.join(PAGE))),
        ("--out", args.out.as_ref().map(|folder| folder.join(DATA))),
    ];
    let read = [
        ("--apps", args.apps.clone()),
        ("--machines", args.machines.clone()),
        ("--protocol", Some(protocol.to_owned())),
    ];
    let place = |(flag, path): (&'static str, Option<PathBuf>)| Some((flag, resolved(&path?)));
    let written: Vec<_> = written.into_iter().filter_map(place).collect();
    let read: Vec<_> = read.into_iter().filter_map(place).collect();
    for (at, (flag, path)) in written.iter().enumerate() {
        // Devices and pipes take whatever comes.
        if path.exists() && !path.is_file() {
            continue;
        }
        let mut others = written.iter().skip(at + 1).chain(&read);
        if let Some((other, _)) = others.find(|(_, other)| other == path) {
            bail!(
                "{flag} and {other} both name {}: give two files, as each is written whole",
                path.display()
            );
        }
    }
    Ok(())
}

/// The path without links, `..` and `.`, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent.as_os_str().is_empty() => {
            resolved(Path::new(".")).join(name)
        }
        (Some(parent), Some(name)) => resolved(parent).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(given: &[&str]) -> anyhow::Result<Outputs> {
        let args = super::super::examples::args(given).unwrap();
        Outputs::claim(&args, Path::new("/protocol.toml"))
    }

    #[test]
    fn no_two_outputs_are_one_file_and_none_is_one_that_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path).display().to_string();
        let claim = |flags: [(&str, &str); 2]| {
            let [one, other] = flags.map(|(flag, path)| format!("{flag}={}", at(path)));
            claimed(&[&one, &other])
        };
        fs::write(at("mine.toml"), "kept").unwrap();
        std::os::unix::fs::symlink(at("mine.toml"), at("link")).unwrap();
        for flags in [
            [("--json", "x"), ("--summary", "x")],
            [("--json", "x"), ("--summary", "./x")],
            // The folder is there or not yet.
            [("--json", "rep/eval.html"), ("--out", "rep")],
            [("--json", "eval.json"), ("--out", ".")],
            [("--json", "link"), ("--apps", "mine.toml")],
        ] {
            let shown = format!("{:#}", claim(flags).err().unwrap());
            let both = format!("{} and {} both name", flags[0].0, flags[1].0);
            assert!(shown.contains(&both), "{shown}");
        }
        assert_eq!(fs::read(at("mine.toml")).unwrap(), b"kept");
        claim([("--json", "eval.html"), ("--out", "rep")]).unwrap();
        claimed(&["--json=/dev/null", "--summary=/dev/null"]).unwrap();
    }

    #[test]
    fn a_line_for_standard_output_is_refused_with_the_fix() {
        for flag in ["--json", "--summary", "--out"] {
            let shown = format!("{:#}", claimed(&[&format!("{flag}=-")]).err().unwrap());
            assert!(shown.starts_with(&format!("{flag}: - is no ")), "{shown}");
            assert!(shown.contains("./-"), "{shown}");
        }
        assert!(!Path::new("-").exists());
    }
}
