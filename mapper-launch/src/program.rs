//! Finding the program and executing it, as a shell would: what is not in `PATH` is *not found* (127); what is there
//! but cannot be executed is *not executable* (126). Searching first lets the launcher fail before it requests CPUs;
//! the error of `execve` decides. A text file without an interpreter is given to `/bin/sh`, as shells and `execvp` do.

use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND};
use anyhow::Context;
use nix::errno::Errno;
use nix::unistd::{AccessFlags, access, execve};
use std::convert::Infallible;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const DEFAULT_PATH: &str = "/bin:/usr/bin";
const SHELL: &CStr = c"/bin/sh";

#[derive(Debug)]
pub(crate) struct Program {
    name: OsString,
    candidates: Vec<CString>,
    words: Vec<CString>,
}

impl Program {
    pub(crate) fn find(command: &[OsString], path: Option<&OsStr>) -> Result<Self, Failure> {
        let name = command.first().map(OsString::as_os_str).unwrap_or_default();
        let words = command
            .iter()
            .map(|word| CString::new(word.as_bytes()))
            .collect::<Result<Vec<_>, _>>()
            .context("an argument of the command line holds a zero byte")?;
        let mut candidates = Vec::new();
        let mut obstacle = Errno::ENOENT;
        for place in places(name, path) {
            match executable(&place) {
                Ok(()) => {
                    let place = place.into_os_string().into_encoded_bytes();
                    candidates.push(CString::new(place).context("PATH holds a zero byte")?);
                }
                Err(error) if means_absent(error) => {}
                Err(error) => obstacle = error,
            }
        }
        if candidates.is_empty() {
            return Err(not_run(name, obstacle));
        }
        Ok(Self {
            name: name.to_owned(),
            candidates,
            words,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        let first = self.candidates.first();
        Path::new(OsStr::from_bytes(first.map_or(b"", |path| path.to_bytes())))
    }

    pub(crate) fn execute(&self, environment: &[CString]) -> Errno {
        let mut obstacle = Errno::ENOENT;
        for candidate in &self.candidates {
            let error = match failed(execve(candidate, &self.words, environment)) {
                Errno::ENOEXEC if is_text(candidate) => {
                    let mut words = vec![SHELL.to_owned(), candidate.clone()];
                    words.extend(self.words.iter().skip(1).cloned());
                    return failed(execve(SHELL, &words, environment));
                }
                error => error,
            };
            match error {
                // As in `execvp`: it may be there in a later place.
                Errno::EACCES | Errno::ESTALE | Errno::ENODEV | Errno::ETIMEDOUT => {
                    obstacle = error;
                }
                error if means_absent(error) => {}
                error => return error,
            }
        }
        obstacle
    }

    pub(crate) fn not_run(&self, error: Errno) -> Failure {
        let mut failure = not_run(&self.name, error);
        if error == Errno::ENOENT {
            failure.message = format!(
                "{}: not found when executed; if it is there, its interpreter or loader is missing",
                quoted(&self.name)
            );
        }
        failure
    }
}

/// Whether a file may be a script: a shell makes nonsense of a program of another machine.
fn is_text(file: &CStr) -> bool {
    let mut start = Vec::new();
    let file = Path::new(OsStr::from_bytes(file.to_bytes()));
    let read = File::open(file).and_then(|file| file.take(256).read_to_end(&mut start));
    let line = start.split(|&byte| byte == b'\n').next();
    let line = line.unwrap_or_default();
    read.is_ok() && !line.starts_with(b"\x7fELF") && !line.contains(&0)
}

fn failed(outcome: nix::Result<Infallible>) -> Errno {
    match outcome {
        Err(error) => error,
    }
}

fn means_absent(error: Errno) -> bool {
    matches!(error, Errno::ENOENT | Errno::ENOTDIR)
}

fn not_run(name: &OsStr, error: Errno) -> Failure {
    let why = match error {
        Errno::ENOENT if name.as_bytes().contains(&b'/') => "no such file; check the path",
        Errno::ENOENT => "not found in PATH; give the program's path or add its folder to PATH",
        Errno::EISDIR => "is a directory, not a program",
        Errno::EACCES => "permission denied; is it a regular file and executable (chmod +x)?",
        Errno::E2BIG => "its arguments and environment are too long",
        Errno::ENOEXEC => "not a program of this machine",
        error => &format!("cannot be executed: {}", error.desc()),
    };
    let status = match error {
        Errno::ENOENT => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    };
    let message = format!("{}: {why}", quoted(name));
    Failure { status, message }
}

fn quoted(name: &OsStr) -> String {
    match name.is_empty() {
        true => "\"\"".to_owned(),
        false => name.to_string_lossy().into_owned(),
    }
}

fn places(name: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
    if name.is_empty() {
        return Vec::new();
    }
    if name.as_bytes().contains(&b'/') {
        return vec![PathBuf::from(name)];
    }
    path.unwrap_or(OsStr::new(DEFAULT_PATH))
        .as_bytes()
        .split(|&byte| byte == b':')
        .map(|folder| match folder {
            // An empty entry is the present folder.
            b"" => Path::new(".").join(name),
            folder => Path::new(OsStr::from_bytes(folder)).join(name),
        })
        .collect()
}

fn executable(place: &Path) -> Result<(), Errno> {
    access(place, AccessFlags::X_OK)?;
    let kind = std::fs::metadata(place)
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EACCES as i32)))?;
    if kind.is_dir() {
        return Err(Errno::EISDIR);
    }
    if !kind.is_file() {
        return Err(Errno::EACCES);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder_with(name: &str, mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
        folder
    }

    fn find(name: &str, path: &[&tempfile::TempDir]) -> Result<Program, Failure> {
        let path = std::env::join_paths(path.iter().map(|folder| folder.path())).unwrap();
        Program::find(&[name.into()], Some(&path))
    }

    #[test]
    fn the_first_executable_in_path_comes_first() {
        let [plain, first, second] = [0o644, 0o755, 0o755].map(|mode| folder_with("p", mode));
        let program = find("p", &[&plain, &first, &second]).unwrap();
        let expected = [&first, &second].map(|folder| folder.path().join("p"));
        let candidates = program.candidates.iter();
        let found: Vec<_> = candidates
            .map(|c| PathBuf::from(OsStr::from_bytes(c.to_bytes())))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn absent_is_127_and_there_but_not_executable_is_126() {
        let folder = folder_with("p", 0o644);
        std::fs::create_dir(folder.path().join("d")).unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for (name, status) in [
            ("q", 127),
            ("", 127),
            ("p", 126),
            ("d", 126),
            ("/no/p", 127),
            ("p/x", 127),
            ("pipe", 126),
        ] {
            assert_eq!(find(name, &[&folder]).unwrap_err().status, status);
        }
    }

    #[test]
    fn an_empty_entry_of_path_is_the_present_folder() {
        let found = places(OsStr::new("p"), Some(OsStr::new("/a::/b")));
        assert_eq!(found, ["/a/p", "./p", "/b/p"].map(PathBuf::from));
        let by_default = places(OsStr::new("p"), None);
        assert_eq!(by_default, ["/bin/p", "/usr/bin/p"].map(PathBuf::from));
    }
}
