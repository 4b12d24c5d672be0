//! Manual pages and completions, written by the programs themselves, put where man and shells look.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use fs_err as fs;

use crate::workspace::output;

/// The programs that have a command line.
const PROGRAMS: [&str; 3] = ["mapperd", "mapper-launch", "mapperctl"];

/// Has the programs in `built` write their documents, and puts them below `share` (such as `/usr/share`); gives
/// the files written.
pub(super) fn install(built: &Path, share: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let aside = tempfile::tempdir().context("make a temporary folder")?;
    let mut written = Vec::new();
    for program in PROGRAMS {
        let folder = aside.path().join(program);
        let path = built.join(program);
        output(Command::new(&path).arg("--write-manual").arg(&folder))?;
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let from = entry?.path();
            let name = from.file_name().unwrap_or_default().to_string_lossy();
            let to = share.join(place(program, &name)?);
            let above = to.parent().unwrap_or(share);
            fs::create_dir_all(above)?;
            fs::copy(&from, &to)?;
            written.push(to);
        }
    }
    Ok(written)
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
        Some((_, section @ ("1" | "8"))) => Ok(PathBuf::from(format!("man/man{section}/{name}"))),
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
        ] {
            assert_eq!(placed(name).unwrap(), path);
        }
        let error = placed("mapperctl.ps1").unwrap_err();
        assert!(error.to_string().contains("mapperctl.ps1"), "{error}");
    }
}
