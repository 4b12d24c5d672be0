//! What all packages have in common: documents, licences, the list of crates, stripped files, one date.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use fs_err as fs;
use sha2::{Digest as _, Sha256};

use crate::workspace::{self, output, tool};

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Who a package is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// It has the list of its crates and the licences of everything in it.
    Anybody,
    /// It has neither, since the program that lists them takes minutes to build.
    Tests,
}

/// What lists the crates: a template of `deploy/debian`, and the name of what comes of it.
pub(super) const LICENCES: (&str, &str) = ("licences.hbs", "third-party-licences.txt");
pub(super) const SBOM: (&str, &str) = ("sbom.hbs", "sbom.cdx.json");

/// Lists all crates that mapper is built from in the folder `to`; gives the file, if packages of this use have it.
pub(super) fn install_crates(
    (template, name): (&str, &str),
    use_of: Use,
    to: &Path,
) -> anyhow::Result<Option<PathBuf>> {
    if use_of == Use::Tests {
        return Ok(None);
    }
    let to = to.join(name);
    put(&crates(template)?, &to, 0o644)?;
    Ok(Some(to))
}

/// All crates that mapper is built from, by a template of `deploy/debian`, listed once for each `Cargo.lock`.
fn crates(template: &str) -> anyhow::Result<PathBuf> {
    let root = workspace::root();
    let lock = fs::read(root.join("Cargo.lock")).context("read Cargo.lock")?;
    let name = format!("{template}-{:x}", Sha256::digest(lock));
    let path = workspace::target_dir().join("tools").join(name);
    if !path.exists() {
        let mut about = Command::new(tool("cargo-about", "0.9.3", &["--features", "cli"])?);
        // Also the crates of other systems, which cargo has not needed so far.
        output(workspace::cargo().args(["fetch", "--quiet", "--locked"]))?;
        eprintln!("listing crates (a minute, once for each Cargo.lock)");
        about.args(["generate", "--offline", "--locked", "--workspace"]);
        about.arg("--output-file").arg(&path);
        about
            .arg(format!("deploy/debian/{template}"))
            .current_dir(root);
        output(&mut about)?;
    }
    Ok(path)
}

/// The time that everything in a package has, in seconds since 1970.
pub(super) fn source_date() -> anyhow::Result<String> {
    std::env::var("SOURCE_DATE_EPOCH").or_else(|_| {
        let mut git = Command::new("git");
        git.current_dir(workspace::root());
        let date = output(git.args(["log", "-1", "--format=%ct"]))
            .context("no commit to take the time from: set SOURCE_DATE_EPOCH")?;
        Ok(date.trim().to_owned())
    })
}

/// Takes away what only a debugger needs; from an archive no more than that.
pub(super) fn strip(path: &Path) -> anyhow::Result<()> {
    let is_archive = path.extension().is_some_and(|kind| kind == "a");
    let content = fs::read(path)?;
    if path.is_symlink() || !(is_archive || content.starts_with(b"\x7fELF")) {
        return Ok(());
    }
    let how = match is_archive {
        true => "--strip-debug",
        false => "--strip-unneeded",
    };
    let mut strip = Command::new("strip");
    strip.args(["--enable-deterministic-archives", how]);
    strip.args(["--remove-section=.comment", "--remove-section=.note"]);
    output(strip.arg(path)).map(drop)
}

/// Copies a file, or what a link leads to, and gives it this mode.
pub(super) fn put(from: &Path, to: &Path, mode: u32) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to)?;
    Ok(fs::set_permissions(
        to,
        std::fs::Permissions::from_mode(mode),
    )?)
}

pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    Ok(fs::write(path, text)?)
}

/// The programs that have a command line.
pub(super) const PROGRAMS: [&str; 4] = ["mapper", "mapperd", "mapper-launch", "mapperctl"];

/// Has the programs in `built` write their documents, and puts them below `share` (such as `/usr/share`); gives
/// the files written.
pub(crate) fn install_documents(built: &Path, share: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let aside = tempfile::tempdir().context("make a temporary folder")?;
    let mut written = Vec::new();
    for program in PROGRAMS {
        let folder = aside.path().join(program);
        let path = built.join(program);
        output(Command::new(&path).arg("--write-manual").arg(&folder))?;
        for entry in fs::read_dir(&folder)? {
            let from = entry?.path();
            let name = from.file_name().unwrap_or_default().to_string_lossy();
            let to = share.join(place(program, &name)?);
            fs::create_dir_all(to.parent().unwrap_or(share))?;
            fs::copy(&from, &to)?;
            written.push(to);
        }
    }
    Ok(written)
}

/// Puts the book, as it is written, and what changed below `share`.
pub(super) fn install_book(share: &Path) -> anyhow::Result<()> {
    let (root, doc) = (workspace::root(), share.join("doc/mapper"));
    copy_folder(&root.join("docs/book/src"), &doc.join("book"))?;
    fs::copy(root.join("CHANGELOG.md"), doc.join("CHANGELOG.md"))?;
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy_folder(&from, &to)?,
            false => fs::copy(&from, &to).map(drop)?,
        }
    }
    Ok(())
}

/// Where a document of this name belongs below `share`.
fn place(program: &str, name: &str) -> anyhow::Result<PathBuf> {
    if let Some(program) = name.strip_suffix(".bash") {
        return Ok(Path::new("bash-completion/completions").join(program));
    }
    if name.ends_with(".fish") {
        return Ok(Path::new("fish/vendor_completions.d").join(name));
    }
    if name.starts_with('_') {
        return Ok(Path::new("zsh/vendor-completions").join(name));
    }
    match name.rsplit_once('.') {
        Some((_, section @ ("1" | "5" | "7" | "8"))) => {
            Ok(PathBuf::from(format!("man/man{section}/{name}")))
        }
        _ => bail!("{program} --write-manual wrote {name}, for which there is no place"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_document_has_its_place_and_no_other_is_accepted() {
        let placed = |name| place("mapperctl", name).map(|path| path.display().to_string());
        for (name, path) in [
            ("mapperctl.bash", "bash-completion/completions/mapperctl"),
            ("mapperctl.fish", "fish/vendor_completions.d/mapperctl.fish"),
            ("_mapperctl", "zsh/vendor-completions/_mapperctl"),
            ("mapperctl-status.1", "man/man1/mapperctl-status.1"),
            ("mapperd.8", "man/man8/mapperd.8"),
            ("mapper.toml.5", "man/man5/mapper.toml.5"),
            ("mapper.7", "man/man7/mapper.7"),
        ] {
            assert_eq!(placed(name).unwrap(), path);
        }
        let error = placed("mapperctl.ps1").unwrap_err();
        assert!(error.to_string().contains("mapperctl.ps1"), "{error}");
    }
}
