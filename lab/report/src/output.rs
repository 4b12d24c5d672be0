//! Files that the results go to, claimed before the measuring starts.
//!
//! A path that cannot be written is refused in the first second and not after five minutes. The
//! file keeps its old contents until the results are there.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

/// A file opened for writing.
pub struct OutputFile {
    path: PathBuf,
    file: File,
    /// Whether it came into being here and is still empty.
    is_new: bool,
}

impl OutputFile {
    /// Opens `path` for writing and leaves its contents as they are.
    pub fn claim(path: &Path) -> anyhow::Result<Self> {
        ensure!(
            path != Path::new("-"),
            "- is no file, and standard output has the tables; name a file, or ./- if it is to be called so"
        );
        let is_new = !path.exists();
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(path);
        let refusal = || format!("cannot write to {}; choose another file", path.display());
        let file = file.with_context(refusal)?;
        let path = path.to_owned();
        Ok(Self { path, file, is_new })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the contents.
    pub fn write(mut self, contents: &str) -> anyhow::Result<PathBuf> {
        // Terminals and pipes cannot be cut to length, and need not be.
        let emptied = match self.file.metadata().is_ok_and(|of| of.is_file()) {
            true => self.file.set_len(0),
            false => Ok(()),
        };
        let written = emptied.and_then(|()| self.file.write_all(contents.as_bytes()));
        written.with_context(|| format!("write {}", self.path.display()))?;
        self.is_new = false;
        Ok(self.path.clone())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.is_new {
            // Nothing was measured: leave no empty file. Failing to tidy up is no failure.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes sure that a folder can be written before hours are spent on what goes there.
pub fn check_writable(folder: &Path) -> anyhow::Result<()> {
    let name = folder.display();
    let place = || format!("write to {name}: give another folder with --out");
    std::fs::create_dir_all(folder).with_context(place)?;
    let probe = folder.join(".mapper-eval-probe");
    std::fs::write(&probe, b"").with_context(place)?;
    std::fs::remove_file(&probe).with_context(place)
}

/// So many of something.
pub fn counted(count: usize, what: &str) -> String {
    match (count, what.ends_with('x')) {
        (1, _) => format!("1 {what}"),
        (_, true) => format!("{count} {what}es"),
        (_, false) => format!("{count} {what}s"),
    }
}

/// Writes a line to standard error; that nobody reads it is no reason to stop.
pub fn say(what: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Prints results that are in safety already: a reader that is gone, such as `head`, has seen
/// enough.
pub fn tell(out: &mut dyn Write, text: &str) -> anyhow::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.context("print the results"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for path in [Path::new("/nonexistent/folder/out.json"), folder.path()] {
            let error = OutputFile::claim(path).err();
            let error = error.expect("a refusal").to_string();
            assert!(error.contains(&*path.to_string_lossy()), "{error}");
        }
    }

    #[test]
    fn one_is_in_the_singular() {
        assert_eq!(counted(1, "mix"), "1 mix");
        assert_eq!(counted(2, "mix"), "2 mixes");
        assert_eq!(counted(0, "run"), "0 runs");
    }

    #[test]
    fn old_contents_stay_until_the_new_ones_are_there_and_a_vain_claim_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        drop(OutputFile::claim(&path).unwrap());
        assert!(!path.exists());
        let old = "the old and longer contents";
        std::fs::write(&path, old).unwrap();
        let claimed = OutputFile::claim(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), old);
        claimed.write("new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn a_folder_is_made_and_left_empty_and_one_that_cannot_be_made_is_named_with_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        check_writable(&deep).unwrap();
        assert_eq!(std::fs::read_dir(&deep).unwrap().count(), 0);
        let file = folder.path().join("file");
        std::fs::write(&file, b"text").unwrap();
        for bad in [&file, Path::new("/proc/no")] {
            let error = format!("{:#}", check_writable(bad).unwrap_err());
            let parts = [bad.to_str().unwrap(), "with --out"];
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"text");
    }
}
